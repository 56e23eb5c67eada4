"""Accounts of access control of 4.x as tools change them: 50 to 53, with 4.9.8's codes and texts.

They change the files that `aclEnable` reads, and are refused without it.
54, which gave all secrets away (CVE-2024-23321), is answered by nobody. Knows no file's format.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from mqcore.access import PlainFiles, check_permissions
from mqcore.access.control import PlainChange
from mqcore.broker.state import BrokerState
from mqcore.errors import RefusedError, StateFileError
from mqcore.native import Command
from mqcore.remoting import Handler, Request, RequestCode, ResponseCode

__all__ = ["PlainAccess"]

# Of 4.9 to 5.3.2; 5.x has these numbers for something else.
_UPDATE_FAILED: Final = 209
_DELETE_FAILED: Final = 210
_WHITE_FAILED: Final = 211
# Keys of 4.9 must be longer.
_KEY_CHARS_MIN: Final = 6
# Members of an account that are texts, as header and file name them.
_TEXTS: Final = ("defaultTopicPerm", "defaultGroupPerm")
_LISTS: Final = ("topicPerms", "groupPerms")


class PlainAccess:
    """Serves the requests about accounts of 4.x."""

    def __init__(self, state: BrokerState) -> None:
        """Takes what it works on."""
        self._state = state

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: self.put,
            RequestCode.DELETE_ACL_CONFIG: self.delete,
            RequestCode.GET_BROKER_CLUSTER_ACL_INFO: self.versions,
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: self.put_white,
        }

    def _files(self, code: int) -> PlainFiles:
        files = self._state.access.plain
        if files is None:
            raise RefusedError("aclEnable is not set: there are no accounts of 4.x", code=code)
        return files

    async def put(self, request: Request) -> Command:
        """50: makes an account, or changes it; what is not given stays."""
        self._files(_UPDATE_FAILED)
        ext = request.ext
        name, secret = request.field("accessKey"), ext.get("secretKey", "")
        if min(len(name), len(secret)) <= _KEY_CHARS_MIN:
            # 4.9 repeats the secret here.
            raise RefusedError(
                f"The accessKey={name} and its secretKey cannot be null and length should longer "
                "than 6",
                code=_UPDATE_FAILED,
            )
        changes: dict[str, Any] = {"accessKey": name, "secretKey": secret}
        if "whiteRemoteAddress" in ext:
            changes["whiteRemoteAddress"] = ext["whiteRemoteAddress"]
        changes["admin"] = ext.get("admin", "").strip().lower() == "true"
        changes |= {each: ext[each] for each in _TEXTS if ext.get(each)}
        for each in _LISTS:
            if each in ext:
                changes[each] = _split(ext[each])
                wrong = check_permissions(changes[each])
                if wrong:
                    raise RefusedError(wrong, code=_UPDATE_FAILED)
        await self._change(lambda files: files.with_account(changes), _UPDATE_FAILED)
        return request.answer()

    async def delete(self, request: Request) -> Command:
        """51: deletes an account."""
        self._files(_DELETE_FAILED)
        name = request.field("accessKey")
        if not await self._change(lambda files: files.without_account(name), _DELETE_FAILED):
            raise RefusedError(
                f"The accesskey[{name}] corresponding to accessConfig has been deleted failed.",
                code=_DELETE_FAILED,
            )
        return request.answer()

    async def put_white(self, request: Request) -> Command:
        """53: replaces the addresses from which nobody needs a signature, in one file."""
        self._files(_WHITE_FAILED)
        given = request.field("globalWhiteAddrs")
        path = request.ext.get("aclFileFullPath", "").strip()
        if not await self._change(
            lambda files: files.with_white(_split(given), path), _WHITE_FAILED
        ):
            raise RefusedError(
                f"The globalWhiteAddresses[{given}] has been updated failed.", code=_WHITE_FAILED
            )
        return request.answer()

    def versions(self, request: Request) -> Command:
        """52: the version of each file."""
        files = self._files(ResponseCode.SYSTEM_ERROR)
        settings = self._state.settings
        return request.answer(
            ext={
                "version": _json(files.version),
                "allAclFileVersion": _json(files.versions),
                "brokerName": settings.name,
                "brokerAddr": self._state.address,
                "clusterName": settings.cluster,
            }
        )

    async def _change(self, make: PlainChange, code: int) -> bool:
        try:
            return await self._state.access.change_plain(make)
        except StateFileError as error:
            raise RefusedError(error.message, code=code) from error


def _split(text: str) -> list[str]:
    """Returns the parts of a list (`UtilAll.split`), none of a blank one."""
    return text.split(",") if text.strip() else []


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
