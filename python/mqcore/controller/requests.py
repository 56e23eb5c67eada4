"""Serves every request of a controller, as the official one does (`ControllerRequestProcessor`).

What changes something is asked of `ControllerNode` in a thread, since it is durable before it is
answered. Who is alive is looked up when a request comes. Knows no socket: the connection of a
request is only a name for where a heartbeat came from.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from mqcore.config import AccessSettings, ControllerSettings
from mqcore.config.amending import SettingsFile, amended, properties_text
from mqcore.controller import bodies
from mqcore.controller.carrier import GROUP_FIELD
from mqcore.controller.elections import Elections, keys_of_set
from mqcore.controller.figures import Figures
from mqcore.controller.liveness import (
    TIMEOUT_DEFAULT_MS,
    BrokerKey,
    Claim,
    Heartbeat,
    Holding,
    Liveness,
)
from mqcore.controller.peers import Peers
from mqcore.errors import RefusedError
from mqcore.model.controller_fields import CHECK_CODE, DECIDES, HOLDER, PROOFS
from mqcore.native import (
    AlterSetRow,
    BrokerSetView,
    ClaimRow,
    Command,
    ControllerAnswer,
    ControllerNode,
)
from mqcore.remoting import (
    AnsweredBy,
    Dispatcher,
    Handler,
    OwnRequestCode,
    Request,
    RequestCode,
    ResponseCode,
    check_handlers,
)

__all__ = ["Requests"]

_log = logging.getLogger(__name__)

# The official black list, which the configuration may make longer and not shorter.
_BLACK_LIST = frozenset({"configBlackList", "configStorePath", "rocketmqHome"})
# Whose keys a tool is shown.
_TABLES = ("controller", "server")
# Who asks for an election without being a broker.
_NOBODY = -1
_I32_BITS = 32


class Requests:
    """The handlers, and what they work on.

    Attributes:
        settings: As they are now; a request may change some.
        liveness: Who is alive.
        elections: Who has masters elected.
        figures: What is counted of all that.
        peers: The controllers; with the port that was chosen, once it is.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        node: ControllerNode,
        peers: Peers,
        *,
        clock: Callable[[], int],
        apply_access: Callable[[AccessSettings, str], None] = lambda _settings, _user: None,
        config_path: Path | None = None,
    ) -> None:
        """Takes what is worked on.

        Args:
            settings: The settings at the start.
            node: The log and the state.
            peers: The controllers.
            clock: Returns milliseconds that never step back.
            apply_access: Takes other settings of access control from a user, or refuses them.
            config_path: The properties file that keeps changes by tools.
        """
        self.settings = settings
        self._apply_access = apply_access
        self._file = SettingsFile(config_path)
        self.peers = peers
        self._node = node
        self._clock = clock
        self.liveness = Liveness(clock())
        self.figures = Figures()
        self.elections = Elections(
            node, self.liveness, lambda: self.settings, clock=clock, elected=self.figures.elected
        )

    def dispatcher(self) -> Dispatcher:
        """Returns the table of handlers.

        Raises:
            RuntimeError: It differs from the table of request codes.
        """
        code = RequestCode
        handlers: dict[int, Handler] = {
            code.BROKER_HEARTBEAT: self.heartbeat,
            code.CONTROLLER_ALTER_SYNC_STATE_SET: self.alter_set,
            code.CONTROLLER_ELECT_MASTER: self.elect,
            code.CONTROLLER_REGISTER_BROKER: self.register,
            code.CONTROLLER_GET_REPLICA_INFO: self.replica_info,
            code.CONTROLLER_GET_METADATA_INFO: self.metadata,
            code.CONTROLLER_GET_SYNC_STATE_DATA: self.states,
            code.UPDATE_CONTROLLER_CONFIG: self.update_config,
            code.GET_CONTROLLER_CONFIG: self.config,
            code.CLEAN_BROKER_DATA: self.clean,
            code.CONTROLLER_GET_NEXT_BROKER_ID: self.next_id,
            code.CONTROLLER_APPLY_BROKER_ID: self.apply_id,
        }
        counting = self.figures.counting
        dispatcher = Dispatcher({code: counting(serve) for code, serve in handlers.items()})
        check_handlers(AnsweredBy.CONTROLLER, dispatcher.codes)
        dispatcher.on(OwnRequestCode.CONTROLLER_MESSAGE, self.message)
        dispatcher.on(OwnRequestCode.FENCE_SET, self.fence_set)
        return dispatcher

    async def message(self, request: Request) -> Command:
        """CONTROLLER_MESSAGE: another controller, about what to agree on."""
        theirs, ours = request.ext.get(GROUP_FIELD, ""), self.settings.group
        if theirs and theirs != ours:
            raise RefusedError(
                f"this is a controller of group {ours}, not of {theirs}: set controllerDLegerPeers "
                "to the controllers of one group, and controllerDLegerGroup to its name",
                code=ResponseCode.SYSTEM_ERROR,
            )
        answer = await asyncio.to_thread(self._node.answer, request.body)
        if answer is None:
            raise RefusedError("no message between controllers", code=ResponseCode.SYSTEM_ERROR)
        return request.answer(body=answer)

    # Brokers.

    def heartbeat(self, request: Request) -> Command:
        """BROKER_HEARTBEAT: a broker is alive."""
        if "brokerId" not in request.ext:
            raise RefusedError(
                "Heart beat with empty brokerId", code=ResponseCode.CONTROLLER_INVALID_REQUEST
            )
        key = BrokerKey(
            request.field("clusterName"), request.field("brokerName"), request.integer("brokerId")
        )
        beat = Heartbeat(
            timeout_ms=request.integer("heartbeatTimeoutMills", TIMEOUT_DEFAULT_MS),
            epoch=request.integer("epoch", -1, bits=_I32_BITS),
            max_offset=request.integer("maxOffset", -1),
            priority=request.integer("electionPriority", (1 << 31) - 1, bits=_I32_BITS),
        )
        if self._other_process(request, key.name, key.broker_id) is not None:
            # It hears of it when it asks who is master: a heartbeat has no answer.
            return request.answer(remark="another process has that id")
        if self.liveness.heard(key, beat, request.link, self._clock()):
            _log.info("broker %s %d is alive: %s", key.name, key.broker_id, request.link.peer)
        if request.link.is_lost:
            # It went while its request waited: nobody would notice any more that it is gone.
            self.liveness.closed(request.link)
        return request.answer(remark="Heart beat success")

    async def alter_set(self, request: Request) -> Command:
        """CONTROLLER_ALTER_SYNC_STATE_SET: a master wants another set."""
        self._need_leader()
        name = request.field("brokerName")
        refused = self._refused_process(request, name, request.integer("masterBrokerId", _NOBODY))
        if refused is not None:
            return refused
        in_sync, set_epoch = bodies.read_set(request.body)
        row = AlterSetRow(
            name,
            request.integer("masterBrokerId"),
            request.integer("masterEpoch", bits=_I32_BITS),
            set_epoch,
            in_sync,
            self._alive_of(name),
            self.settings.in_sync_min,
        )
        answer = await asyncio.to_thread(self._node.alter_set, row)
        view = self._done(answer)
        _log.info("the set of %s is %s, epoch %d", name, view.in_sync, view.set_epoch)
        return request.answer(
            ext={"newSyncStateSetEpoch": str(view.set_epoch)}, body=bodies.set_body(view)
        )

    async def fence_set(self, request: Request) -> Command:
        """FENCE_SET: a master does not know whether a set that it has asked for will be taken."""
        self._need_leader()
        name = request.field("brokerName")
        refused = self._refused_process(request, name, request.integer("masterBrokerId", _NOBODY))
        if refused is not None:
            return refused
        answer = await asyncio.to_thread(
            self._node.fence,
            name,
            request.integer("masterBrokerId"),
            request.integer("masterEpoch", bits=_I32_BITS),
            request.integer("syncStateSetEpoch", bits=_I32_BITS),
        )
        view = self._done(answer)
        return request.answer(
            ext={"newSyncStateSetEpoch": str(view.set_epoch)}, body=bodies.set_body(view)
        )

    async def elect(self, request: Request) -> Command:
        """CONTROLLER_ELECT_MASTER: a broker knows of no master, or a person wants another one."""
        self._need_leader()
        name = request.ext.get("brokerName", "")
        broker_id = request.integer("brokerId", _NOBODY)
        is_designated = request.flag("designateElect")
        asking = None if broker_id == _NOBODY else broker_id
        answer = await self.elections.held(name, asking, is_designated=is_designated)
        view = answer.view
        is_held = answer.code == ResponseCode.SUCCESS
        if view is None or not (
            is_held or answer.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
        ):
            raise RefusedError(answer.remark, code=answer.code)
        return request.answer(
            answer.code,
            answer.remark or None,
            ext=_master_fields(view, with_set_epoch=True),
            body=bodies.election_body(name, view, has_members=is_held),
        )

    async def register(self, request: Request) -> Command:
        """CONTROLLER_REGISTER_BROKER: a broker with an id is there; who is its master?"""
        self._need_leader()
        name, cluster = request.field("brokerName"), request.ext.get("clusterName", "")
        broker_id, address = request.integer("brokerId"), request.field("brokerAddress")
        answer = await self._registered(request, name, broker_id, address)
        if isinstance(answer, Command):
            return answer
        view = self._done(answer)
        ext = {"clusterName": cluster, "brokerName": name}
        if view.master is not None:
            key = BrokerKey(view.cluster, name, view.master)
            if self.liveness.may_be_alive(key, self._clock()):
                ext |= _master_fields(view, with_set_epoch=True)
        return request.answer(ext=ext, body=bodies.set_body(view))

    async def _registered(
        self, request: Request, name: str, broker_id: int, address: str
    ) -> ControllerAnswer | Command:
        """Registers a process; of two that claim one id it is decided which one has it."""
        check_code = request.ext.get(CHECK_CODE, "")
        proofs = frozenset(request.ext.get(PROOFS, "").split(","))
        answer = None
        for _ in range(self.settings.elections_max):
            view = self._node.view(name)
            holder = "" if view is None else view.check_codes.get(broker_id, "")
            row, key = None, None
            if check_code and view is not None and holder:
                key = BrokerKey(view.cluster, name, broker_id)
                holding = Holding.FREE
                if holder != check_code:
                    claim = Claim(check_code, is_proven=holder in proofs)
                    holding = self.liveness.holding(key, claim, self._clock())
                if holding is Holding.PERHAPS:
                    return request.answer(
                        ResponseCode.SYSTEM_BUSY,
                        f"whether the broker {broker_id} of {name} lives at "
                        f"{view.replicas.get(broker_id, '')} is known in a moment",
                    )
                row = ClaimRow(check_code, holder, holding is Holding.HELD)
            answer = await asyncio.to_thread(self._node.register, name, broker_id, address, row)
            if answer.code == ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH:
                # Another process was faster, and sends its first heartbeat in a moment.
                if key is not None:
                    self.liveness.registered(key, self._clock())
                continue
            if answer.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID:
                return _held(request, answer.remark, view, broker_id)
            if key is not None and answer.is_changed:
                self.liveness.registered(key, self._clock())
            break
        assert answer is not None
        return answer

    def _other_process(self, request: Request, name: str, broker_id: int) -> BrokerSetView | None:
        """Returns what is kept where another process than the one that asks has its id."""
        check_code = request.ext.get(CHECK_CODE, "")
        view = self._node.view(name) if check_code else None
        holder = "" if view is None else view.check_codes.get(broker_id, "")
        return view if holder not in ("", check_code) else None

    def _refused_process(self, request: Request, name: str, broker_id: int) -> Command | None:
        """Returns the refusal of a process whose id another one has; None where it may go on."""
        view = self._other_process(request, name, broker_id)
        if view is None:
            return None
        where = view.replicas.get(broker_id, "")
        remark = f"the id {broker_id} of {name} belongs to the broker at {where} now"
        return _held(request, remark, view, broker_id)

    async def replica_info(self, request: Request) -> Command:
        """CONTROLLER_GET_REPLICA_INFO: who is the master, alive or not?"""
        await self._confirm()
        name = request.field("brokerName")
        refused = self._refused_process(request, name, request.integer("brokerId", _NOBODY))
        if refused is not None:
            return refused
        view = self._node.view(name)
        if view is None:
            raise RefusedError(
                "Broker metadata is not existed",
                code=ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
            )
        return request.answer(
            ext=_master_fields(view, with_set_epoch=False), body=bodies.set_body(view)
        )

    async def next_id(self, request: Request) -> Command:
        """CONTROLLER_GET_NEXT_BROKER_ID: which id would a new broker get?"""
        await self._confirm()
        name, cluster = request.field("brokerName"), request.ext.get("clusterName", "")
        view = self._node.view(name)
        next_id = view.next_id if view is not None else 1
        return request.answer(
            ext={"clusterName": cluster, "brokerName": name, "nextBrokerId": str(next_id)}
        )

    async def apply_id(self, request: Request) -> Command:
        """CONTROLLER_APPLY_BROKER_ID: a broker wants that id."""
        self._need_leader()
        name, cluster = request.field("brokerName"), request.field("clusterName")
        broker_id = request.integer("appliedBrokerId")
        answer = await asyncio.to_thread(
            self._node.apply_id, cluster, name, broker_id, request.field("registerCheckCode")
        )
        self._done(answer)
        _log.info("%s is broker %d of %s", request.link.peer, broker_id, name)
        return request.answer(ext={"clusterName": cluster, "brokerName": name})

    # Administrators.

    def metadata(self, request: Request) -> Command:
        """CONTROLLER_GET_METADATA_INFO: who is the leader of the controllers?"""
        standing = self._node.standing()
        ext = {
            "group": self.settings.group,
            "isLeader": "true" if standing.is_leader else "false",
            "peers": self.peers.text,
        }
        if standing.leader is not None:
            leader, address = self.peers.numbered(standing.leader)
            ext |= {"controllerLeaderId": leader, "controllerLeaderAddress": address}
        return request.answer(ext=ext)

    async def states(self, request: Request) -> Command:
        """CONTROLLER_GET_SYNC_STATE_DATA: brokers, masters and sets of some names."""
        await self._confirm()
        table = {}
        now_ms = self._clock()
        for name in bodies.read_names(request.body):
            view = self._node.view(name)
            if view is None:
                continue
            found = self.liveness.candidates(keys_of_set(name, view), now_ms)
            living = {each.id for each in found}
            table[name] = bodies.replicas_of(name, view, living.__contains__)
        return request.answer(ext={DECIDES: "true"}, body=bodies.states_body(table))

    async def clean(self, request: Request) -> Command:
        """CLEAN_BROKER_DATA: brokers will never come back."""
        self._need_leader()
        name = request.field("brokerName")
        text = request.ext.get("brokerControllerIdsToClean", "").strip()
        answer = await asyncio.to_thread(
            self._node.clean,
            name,
            bodies.read_ids(text) if text else [],
            self._alive_of(name),
            request.flag("isCleanLivingBroker"),
        )
        if answer.code != ResponseCode.SUCCESS:
            raise RefusedError(answer.remark, code=answer.code)
        _log.info("%s: brokers %s of %s are forgotten", request.link.peer, text or "all", name)
        return request.answer()

    async def update_config(self, request: Request) -> Command:
        """UPDATE_CONTROLLER_CONFIG: all or none; the remark names those of the next start."""
        has_file = self._file.path is not None
        change = amended(self.settings, request.body, _BLACK_LIST, "controller", has_file=has_file)
        if change.settings.access != self.settings.access:
            self._apply_access(change.settings.access, request.user)
        self.settings = change.settings
        _log.info("%s: configuration changed: %s", request.link.peer, dict(change.made))
        await self._file.keep(change.made)
        return request.answer(remark=change.remark)

    def config(self, request: Request) -> Command:
        """GET_CONTROLLER_CONFIG."""
        return request.answer(body=properties_text(self.settings.configuration, _TABLES).encode())

    # Below.

    def _alive_of(self, name: str) -> list[int]:
        view = self._node.view(name)
        if view is None:
            return []
        found = self.liveness.candidates(keys_of_set(name, view), self._clock())
        return [each.id for each in found]

    def _need_leader(self) -> None:
        if not self.elections.leads():
            standing = self._node.standing()
            why = f": {standing.failure}" if standing.failure else ""
            raise RefusedError(
                f"The controller is not in leader state{why}",
                code=ResponseCode.CONTROLLER_NOT_LEADER,
            )

    async def _confirm(self) -> None:
        """Lets a read be of the present state.

        Raises:
            RefusedError: This controller is not the leader, or cannot make sure that it is.
        """
        self._need_leader()
        if not await asyncio.to_thread(self._node.confirm):
            raise RefusedError(
                "The controller is not in leader state", code=ResponseCode.CONTROLLER_NOT_LEADER
            )

    def _done(self, answer: ControllerAnswer) -> BrokerSetView:
        """Returns what is kept now.

        Raises:
            RefusedError: It was refused.
        """
        if answer.code != ResponseCode.SUCCESS or answer.view is None:
            raise RefusedError(answer.remark, code=answer.code)
        return answer.view


def _held(request: Request, remark: str, view: BrokerSetView | None, broker_id: int) -> Command:
    """Returns the refusal of a process whose id another one has."""
    where = "" if view is None else view.replicas.get(broker_id, "")
    code = ResponseCode.CONTROLLER_BROKER_ID_INVALID
    return request.answer(code, remark, ext={HOLDER: where})


def _master_fields(view: BrokerSetView, *, with_set_epoch: bool) -> dict[str, str]:
    """Returns the fields of a header that are about the master; one without a master has none."""
    fields = {"masterEpoch": str(view.master_epoch)}
    if view.master is not None:
        fields["masterBrokerId"] = str(view.master)
    if view.master_address is not None:
        fields["masterAddress"] = view.master_address
    if with_set_epoch:
        fields["syncStateSetEpoch"] = str(view.set_epoch)
    return fields
