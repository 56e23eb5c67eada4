"""What is asked of replication: how far slaves are, and what a slave does not change.

Knows the bodies of the requests; nothing of connections.
"""

from collections.abc import Mapping

from mqcore.broker.state import BrokerState
from mqcore.errors import RefusedError
from mqcore.model.relaxed_json import compact
from mqcore.native import Command
from mqcore.remoting import Answer, Handler, Request, RequestCode, ResponseCode

__all__ = ["Replication", "refused_by_slave"]

# What a slave has from its master alone (`AdminBrokerProcessor.validateSlave`).
_OF_THE_MASTER = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.SET_MESSAGE_REQUEST_MODE,
    }
)
_REFUSAL = (
    "Can't modify topic or subscription group from slave broker, please execute it from master "
    "broker."
)


class Replication:
    """Answers about replication."""

    def __init__(self, state: BrokerState) -> None:
        """Takes what it works on."""
        self._state = state

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {RequestCode.GET_BROKER_HA_STATUS: self.status}

    def status(self, request: Request) -> Command:
        """907: how far each slave is, or how a slave follows."""
        return request.answer(body=compact(ha_status(self._state)))


def ha_status(state: BrokerState) -> dict[str, object]:
    """Returns the state of replication as `HARuntimeInfo` has it."""
    replicas = state.replicas
    end = state.store.stats().appended
    gap = state.settings.replication_gap_max_bytes
    slaves = [] if replicas.master is None else replicas.master.slaves()
    connections = [
        {
            "addr": each.address,
            "diff": end - each.acknowledged,
            "inSync": end - each.acknowledged < gap,
            # Ours: official tools pass over it.
            "lagMs": each.lag_ms,
            "slaveAckOffset": each.acknowledged,
            "transferFromWhere": each.sent,
            "transferredByteInSecond": each.bytes_per_second,
        }
        for each in slaves
    ]
    return {
        "haClientRuntimeInfo": _client(state),
        "haConnectionInfo": connections,
        "inSyncSlaveNums": sum(bool(each["inSync"]) for each in connections),
        "master": not state.settings.is_slave,
        "masterCommitLogMaxOffset": 0 if state.settings.is_slave else end,
    }


def _client(state: BrokerState) -> dict[str, object]:
    found: dict[str, object] = {
        "activated": False,
        "lastReadTimestamp": 0,
        "lastWriteTimestamp": 0,
        "masterAddr": state.replicas.master_ha_address,
        "masterFlushOffset": 0,
        "maxOffset": 0,
        "transferredByteInSecond": 0,
    }
    if state.replicas.slave is None:
        return found
    progress = state.replicas.slave.progress()
    silent_ms = progress.silent_ms
    now_ms = state.now_ms()
    return found | {
        "activated": bool(progress.address),
        "lastReadTimestamp": 0 if silent_ms is None else now_ms - silent_ms,
        "maxOffset": progress.appended,
    }


def refused_by_slave(code: int, handler: Handler, state: BrokerState) -> Handler:
    """Returns what serves a request: a refusal where a slave would differ from its master by it."""
    if not state.settings.is_slave or code not in _OF_THE_MASTER:
        return handler

    def refuse(_request: Request) -> Answer:
        raise RefusedError(_REFUSAL, code=ResponseCode.SYSTEM_ERROR)

    return refuse
