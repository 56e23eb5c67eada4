"""Reads of cold messages, as tools look at them and set them.

Thresholds by group are kept and shown as the official broker does, in memory; they hold nobody up
here: cold reads go to threads of their own, and who reads what is hot does not wait for them.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

from mqcore.broker.state import BrokerState
from mqcore.config import parse_properties
from mqcore.errors import ConfigFileError, RefusedError
from mqcore.model.topics import group_fault
from mqcore.native import Command
from mqcore.remoting import Handler, Request, RequestCode, ResponseCode

_MODE: Final = "READ_AHEAD_MODE"
# `LibC.MADV_NORMAL` and `LibC.MADV_RANDOM`.
_NORMAL: Final = 0
_RANDOM: Final = 1
_READS_AHEAD: Final = "dataReadAheadEnable"
_LONG_MAX: Final = 2**63 - 1


class ColdData:
    """Serves the requests about reads of cold messages (`ColdDataCgCtrService`)."""

    def __init__(self, state: BrokerState) -> None:
        """Takes what it works on."""
        self._state = state
        # Bytes by group. In memory alone, as officially: a start forgets them.
        self._thresholds: dict[str, int] = {}

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {
            RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: self.update,
            RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: self.remove,
            RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: self.show,
            RequestCode.SET_COMMITLOG_READ_MODE: self.read_mode,
        }

    def update(self, request: Request) -> Command:
        """2001: how much a group may read of cold messages: all lines or none.

        The official broker passes over a line whose value is no number.
        """
        try:
            pairs = parse_properties(request.body.decode("utf-8", "replace"), "the request")
        except ConfigFileError as error:
            raise RefusedError(error.message, code=ResponseCode.SYSTEM_ERROR) from error
        fresh = {group: _threshold(group, text) for group, text in pairs.items()}
        most = self._state.limits.groups
        if len(self._thresholds.keys() | fresh.keys()) > most:
            raise RefusedError(
                f"there are thresholds of {most} groups already (groupsMax): remove some first",
                code=ResponseCode.SYSTEM_ERROR,
            )
        self._thresholds |= fresh
        return request.answer()

    def remove(self, request: Request) -> Command:
        """2002: a group is again as all others are."""
        self._thresholds.pop(request.body.decode("utf-8", "replace"), None)
        return request.answer()

    def show(self, request: Request) -> Command:
        """2003: the thresholds; who reads cold messages is not counted."""
        value = self._state.settings.configuration.value
        shown: dict[str, Any] = {
            "runtimeTable": {},
            "configTable": dict(self._thresholds),
            "cgColdReadThreshold": int(str(value("cgColdReadThreshold"))),
            "globalColdReadThreshold": int(str(value("globalColdReadThreshold"))),
            "globalAcc": 0,
        }
        # In this order, which mqadmin of 5.5 prints it in.
        return request.answer(body=json.dumps(shown, separators=(",", ":")).encode())

    async def read_mode(self, request: Request) -> Command:
        """2004: whether the log is read ahead for who reads on, until the next start.

        The official broker gives the kernel an advice about all files of the log; here reads of
        cold messages ask for what comes next themselves, or do not.
        """
        if _MODE not in request.ext:
            raise RefusedError(
                "set commitlog readahead mode param error", code=ResponseCode.SYSTEM_ERROR
            )
        try:
            mode = int(request.ext[_MODE][:20])
        except ValueError as error:
            raise RefusedError(
                "set commitlog readahead mode failed", code=ResponseCode.SYSTEM_ERROR
            ) from error
        if mode not in (_NORMAL, _RANDOM):
            raise RefusedError(
                "set commitlog readahead mode param value error", code=self._state.invalid_code
            )
        state = self._state
        engine = {**state.settings.engine, _READS_AHEAD: "true" if mode == _NORMAL else "false"}
        await asyncio.to_thread(state.store.change_settings, engine, state.settings.store_dir)
        return request.answer(remark=f"set commitlog readahead mode success, mode: {mode}")


def _threshold(group: str, text: str) -> int:
    fault = group_fault(group)
    number = text.strip()
    if fault is None and not (number.isascii() and number.isdigit() and int(number) <= _LONG_MAX):
        fault = f"the threshold of group {group[:80]} is no number of bytes: {text[:40]!r}"
    if fault is not None:
        raise RefusedError(fault, code=ResponseCode.SYSTEM_ERROR)
    return int(number)
