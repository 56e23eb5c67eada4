"""Reads the bodies that brokers and tools send to a controller, and writes those that it answers.

What cannot be read refuses the request and nothing else. Pure functions of bytes and views.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

from mqcore.errors import MQError, RefusedError
from mqcore.native import BrokerSetView, parse_relaxed_json
from mqcore.remoting import ResponseCode

__all__ = [
    "election_body",
    "read_ids",
    "read_names",
    "read_set",
    "replicas_of",
    "set_body",
    "states_body",
]

_I32 = 1 << 31
_I64 = 1 << 63
# Names of one question, and members of one set: far more than anybody has.
_NAMES_MAX = 10_000
_MEMBERS_MAX = 1_000


def read_set(body: bytes) -> tuple[list[int], int]:
    """Returns ids and epoch of a SyncStateSet.

    Raises:
        RefusedError: It cannot be read.
    """
    parsed = _parsed(body)
    if not isinstance(parsed, dict):
        raise _bad("an object is expected")
    members, epoch = parsed.get("syncStateSet"), parsed.get("syncStateSetEpoch")
    if not isinstance(members, list) or len(members) > _MEMBERS_MAX:
        raise _bad(f"syncStateSet is no list of at most {_MEMBERS_MAX} ids")
    return [_whole(each, _I64, "an id") for each in members], _whole(epoch, _I32, "an epoch")


def read_names(body: bytes) -> list[str]:
    """Returns a list of broker names.

    Raises:
        RefusedError: It cannot be read.
    """
    parsed = _parsed(body)
    names: list[Any] = [None]
    if isinstance(parsed, list) and len(parsed) <= _NAMES_MAX:
        names = parsed
    if not all(isinstance(each, str) for each in names):
        raise _bad(f"a list of at most {_NAMES_MAX} broker names is expected")
    return names


def read_ids(text: str) -> list[int]:
    """Returns the ids of `1;2;3`.

    Raises:
        RefusedError: It is no such text; with the official code and remark.
    """
    try:
        return [_whole(int(each), _I64, "an id") for each in text.split(";")[:_MEMBERS_MAX]]
    except ValueError as error:
        raise RefusedError(
            f"Please set the option <brokerControllerIdsToClean> according to the format, "
            f"exception: {error}",
            code=ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
        ) from None


def set_body(view: BrokerSetView) -> bytes:
    """Returns a SyncStateSet."""
    return _json({"syncStateSet": view.in_sync, "syncStateSetEpoch": view.set_epoch})


def election_body(name: str, view: BrokerSetView, *, has_members: bool) -> bytes:
    """Returns an ElectMasterResponseBody.

    Args:
        name: The broker name.
        view: What is kept of it.
        has_members: Whether all brokers are listed: of an election that was held.
    """
    body: dict[str, object] = {"syncStateSet": view.in_sync}
    if has_members:
        body["brokerMemberGroup"] = {
            "brokerAddrs": {
                str(broker_id): address for broker_id, address in view.replicas.items()
            },
            "brokerName": name,
            "cluster": view.cluster,
        }
    return _json(body)


def replicas_of(
    name: str, view: BrokerSetView, is_alive: Callable[[int], bool]
) -> dict[str, object]:
    """Returns a BrokerReplicasInfo.ReplicasInfo, without what it has not."""

    def rows(wanted: Iterable[tuple[int, str]]) -> list[dict[str, object]]:
        return [
            {
                "alive": is_alive(broker_id),
                "brokerAddress": address,
                "brokerId": broker_id,
                "brokerName": name,
            }
            for broker_id, address in wanted
        ]

    members = set(view.in_sync)
    found: dict[str, object] = {
        "inSyncReplicas": rows(each for each in view.replicas.items() if each[0] in members),
        "masterAddress": view.master_address,
        "masterBrokerId": view.master,
        "masterEpoch": view.master_epoch,
        "notInSyncReplicas": rows(each for each in view.replicas.items() if each[0] not in members),
        "syncStateSetEpoch": view.set_epoch,
    }
    return {key: value for key, value in found.items() if value is not None}


def states_body(table: dict[str, dict[str, object]]) -> bytes:
    """Returns a BrokerReplicasInfo."""
    return _json({"replicasInfoTable": table})


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _parsed(body: bytes) -> object:
    try:
        return parse_relaxed_json(body)
    except MQError as error:
        raise _bad(str(error)) from error


def _whole(value: object, bound: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -bound <= value < bound:
        raise _bad(f"{what} is no whole number")
    return value


def _bad(why: str) -> RefusedError:
    return RefusedError(f"the body: {why}"[:200], code=ResponseCode.CONTROLLER_INVALID_REQUEST)
