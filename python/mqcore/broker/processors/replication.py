"""What is asked of replication: how far slaves are, and what a slave does not change.

Knows the bodies of the requests; nothing of connections.
"""

from collections.abc import Awaitable, Callable, Mapping

from mqcore.broker.passing_on import OF_THE_MASTER
from mqcore.broker.replication.refilling import HA_PORT, LOG_START
from mqcore.broker.state import BrokerState
from mqcore.errors import RefusedError
from mqcore.model.relaxed_json import compact
from mqcore.native import Command, ReplicationEpochs, SlaveState
from mqcore.remoting import (
    Answer,
    Handler,
    OwnRequestCode,
    Request,
    RequestCode,
    ResponseCode,
)

__all__ = ["Replication", "refused_by_slave"]

_REFUSAL = (
    "Can't modify topic or subscription group from slave broker, please execute it from master "
    "broker."
)
_NO_CONTROLLER = "this request only for controllerMode "
# Java's `Long.MAX_VALUE`, as the official broker shows the end of the last epoch.
_NO_END = 2**63 - 1


class Replication:
    """Answers about replication."""

    def __init__(self, state: BrokerState) -> None:
        """Takes what it works on."""
        self._state = state
        # `getBrokerInitMaxOffset`.
        self._began_at = state.store.stats().appended

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {
            RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: self.min_id_changed,
            RequestCode.EXCHANGE_BROKER_HA_INFO: self.addresses,
            RequestCode.GET_BROKER_HA_STATUS: self.status,
            RequestCode.GET_BROKER_EPOCH_CACHE: self.epochs,
            RequestCode.RESET_MASTER_FLUSH_OFFSET: self.reset_flush_offset,
            RequestCode.NOTIFY_BROKER_ROLE_CHANGED: self.notice,
        }

    def own_handlers(self) -> Mapping[int, Handler]:
        """Returns the codes of mqcore alone that are served here."""
        return {OwnRequestCode.REFILL_OFFER: self.offer}

    def offer(self, request: Request) -> Command:
        """REFILL_OFFER: whole files of the log are given to who asks at the port for slaves."""
        if self._state.replicas.master is None:
            raise RefusedError(
                "no slave is served here now", code=ResponseCode.SERVICE_NOT_AVAILABLE
            )
        start = self._state.store.stats().log_start
        port = self._state.replicas.port
        return request.answer(ext={LOG_START: str(start), HA_PORT: str(port)})

    def min_id_changed(self, request: Request) -> Command:
        """905: a name server reports who has the smallest id of the group now."""
        state = self._state
        acting, ext = state.replicas.acting, request.ext
        if acting is not None and ext.get("brokerName", state.settings.name) == state.settings.name:
            address, ha_address = ext.get("minBrokerAddr", ""), ext.get("haBrokerAddr", "")
            min_id = request.integer("minBrokerId")
            acting.min_id_changed(min_id, address, ha_address if min_id == 0 else "")
        return request.answer()

    def addresses(self, request: Request) -> Command:
        """906: where a master ships its log; or a master that is back reports that."""
        state = self._state
        settings, ha_address = state.settings, request.ext.get("masterHaAddress", "")
        if ha_address:
            if state.role.is_slave and settings.has_acting_master:
                state.replicas.learn(request.ext.get("masterAddress", ""), ha_address)
            return request.answer()
        if not state.role.is_master:
            return request.answer()
        found = {
            "masterAddress": state.address,
            "masterHaAddress": f"{settings.replication_host}:{state.replicas.port}",
            "masterFlushOffset": str(self._began_at),
        }
        return request.answer(ext=found)

    def reset_flush_offset(self, request: Request) -> Command:
        """908: what the master had on its disk when it started; a slave keeps and shows it."""
        if not self._state.role.is_master and "masterFlushOffset" in request.ext:
            self._state.replicas.master_flush_offset = request.integer("masterFlushOffset")
        return request.answer()

    def status(self, request: Request) -> Command:
        """907: how far each slave is, or how a slave follows."""
        return request.answer(body=compact(ha_status(self._state)))

    def epochs(self, request: Request) -> Command:
        """1007: which master wrote which part of the log."""
        state = self._state
        if state.replicas.epochs is None:
            raise RefusedError(_NO_CONTROLLER, code=ResponseCode.SYSTEM_ERROR)
        return request.answer(body=compact(epoch_cache(state, state.replicas.epochs)))

    def notice(self, request: Request) -> Command:
        """1008: the controller has elected; without a controller it is nobody's business."""
        if self._state.elections is not None:
            self._state.elections.notified(request.ext, request.body)
        return request.answer()


def epoch_cache(state: BrokerState, epochs: ReplicationEpochs) -> dict[str, object]:
    """Returns the epochs of the log as `EpochEntryCache` has them: the last one has no end."""
    entries = epochs.entries()
    ends = [each.end for each in entries[:-1]] + [_NO_END]
    return {
        "brokerId": state.role.broker_id,
        "brokerName": state.settings.name,
        "clusterName": state.settings.cluster,
        "epochList": [
            {"endOffset": end, "epoch": each.epoch, "startOffset": each.start}
            for each, end in zip(entries, ends, strict=False)
        ],
        "maxOffset": epochs.positions().end,
    }


def ha_status(state: BrokerState) -> dict[str, object]:
    """Returns the state of replication as `HARuntimeInfo` has it."""
    replicas = state.replicas
    end = state.store.stats().appended
    slaves = [] if replicas.master is None else replicas.master.slaves()
    is_in_sync = _who_is_in_sync(state, end)
    connections = [
        {
            "addr": each.address,
            "diff": end - each.acknowledged,
            "inSync": is_in_sync(each),
            # Ours: official tools pass over it.
            "lagMs": each.lag_ms,
            "learner": each.is_learner,
            # Ours: False of somebody who is no member, and acknowledges nothing.
            "counts": each.counts,
            "slaveAckOffset": each.acknowledged,
            "transferFromWhere": each.sent,
            "transferredByteInSecond": each.bytes_per_second,
        }
        for each in slaves
    ]
    return {
        "haClientRuntimeInfo": _client(state),
        "haConnectionInfo": connections,
        # Ours, as `lagMs`: who copies whole files, and how much each was sent.
        "fileCopies": [
            {"addr": each.address, "sentBytes": each.sent_bytes}
            for each in (() if replicas.master is None else replicas.master.copies())
        ],
        "inSyncSlaveNums": sum(bool(each["inSync"]) for each in connections),
        "master": state.role.is_master,
        "masterCommitLogMaxOffset": end if state.role.is_master else 0,
    }


def _who_is_in_sync(state: BrokerState, end: int) -> Callable[[SlaveState], bool]:
    """Returns the test for a slave that is in sync: by the set, without one by the gap."""
    master = state.replicas.master
    if master is not None and state.role.is_controlled:
        members = frozenset(master.sync_state().members)
        return lambda slave: slave.counts and slave.controller_id in members
    gap = state.settings.replication_gap_max_bytes
    return lambda slave: slave.counts and not slave.is_learner and end - slave.acknowledged < gap


def _client(state: BrokerState) -> dict[str, object]:
    found: dict[str, object] = {
        "activated": False,
        "lastReadTimestamp": 0,
        "lastWriteTimestamp": 0,
        "masterAddr": state.replicas.master_ha_address,
        "masterFlushOffset": state.replicas.master_flush_offset,
        "maxOffset": 0,
        "transferredByteInSecond": 0,
    }
    if state.replicas.slave is None:
        return found
    refilling = state.replicas.refilling
    if refilling is not None:
        # Ours: how far the copy of whole files is.
        figures = refilling.figures
        found |= {
            "refillBytes": figures.done_bytes,
            "refillTotalBytes": figures.total_bytes,
            "refillByteInSecond": figures.bytes_per_second,
        }
    progress = state.replicas.slave.progress()
    silent_ms = progress.silent_ms
    now_ms = state.now_ms()
    return found | {
        "activated": bool(progress.address),
        "lastReadTimestamp": 0 if silent_ms is None else now_ms - silent_ms,
        "maxOffset": progress.appended,
    }


def refused_by_slave(code: int, handler: Handler, state: BrokerState) -> Handler:
    """Returns what serves a request: a slave refuses what it would differ by."""
    if code not in OF_THE_MASTER:
        return handler

    def serve(request: Request) -> Answer | Awaitable[Answer]:
        if not state.role.is_master:
            raise RefusedError(_REFUSAL, code=ResponseCode.SYSTEM_ERROR)
        return handler(request)

    return serve
