"""A controller as a table in memory: what it answers to a member, without sockets and time.

The checks in the order of `ReplicasInfoManager`, as far as they matter to a member. Elects
whoever is alive in the sync-state set.
"""

from dataclasses import dataclass, field

from mqcore.broker.replication.controller_messages import Answer, Ask, Purpose, SyncStateSet
from mqcore.model.relaxed_json import compact, parse
from mqcore.remoting import ResponseCode


@dataclass
class Group:
    """The replicas of one broker name.

    Attributes:
        addresses: The address of each id.
        codes: The check code that each id was given for.
        next_id: The id that comes next.
        master: The id of the master, or None.
        epoch: Grows with each election.
        members: The sync-state set.
        alive: Who sent a heartbeat, and was not cut off since.
    """

    addresses: dict[int, str] = field(default_factory=dict)
    codes: dict[int, str] = field(default_factory=dict)
    next_id: int = 1
    master: int | None = None
    epoch: int = 0
    members: SyncStateSet = field(default_factory=SyncStateSet)
    alive: set[int] = field(default_factory=set)


class ScriptedController:
    """The controllers of one group; one address leads at a time."""

    def __init__(self, addresses: tuple[str, ...] = ("c0:1",)) -> None:
        """Begins with no broker; the first address leads."""
        self.addresses = addresses
        self.leader = addresses[0]
        self.group = Group()
        self.heard: list[Ask] = []
        # Whether sync-state sets stay what they are.
        self.is_frozen = False
        # Whether it is one of mqcore, which refuses what was asked for before a fence.
        self.fences = True

    def answer(self, ask: Ask) -> Answer | None:
        """Answers one request; None to a heartbeat."""
        self.heard.append(ask)
        if ask.purpose is Purpose.LEADER:
            return Answer(0, "", {"controllerLeaderAddress": self.leader})
        if ask.purpose is Purpose.HEARTBEAT:
            if ask.address == self.leader:
                self.group.alive.add(int(ask.ext["brokerId"]))
            return None
        if ask.address != self.leader:
            return Answer(ResponseCode.CONTROLLER_NOT_LEADER, "not the leader")
        return {
            Purpose.SETS: self._sets,
            Purpose.NEXT_ID: self._next_id,
            Purpose.APPLY: self._apply,
            Purpose.REGISTER: self._register,
            Purpose.ELECT: self._elect,
            Purpose.REPLICAS: self._replicas,
            Purpose.ALTER: self._alter,
            Purpose.FENCE: self._fence,
        }[ask.purpose](ask)

    def die(self, broker_id: int) -> None:
        """Takes a broker for dead, and elects another one where it was master."""
        self.group.alive.discard(broker_id)
        if broker_id == self.group.master:
            self.elect()

    def elect(self) -> None:
        """Elects a living member of the set; nobody, where there is none."""
        group = self.group
        able = [each for each in group.members.ids if each in group.alive]
        group.epoch += 1
        group.master = able[0] if able else None
        if able:
            group.members = SyncStateSet.of((able[0],), group.members.epoch + 1)

    def notice(self) -> tuple[dict[str, str], bytes]:
        """Returns the notice of the last election: header and body."""
        found = self._with_master()
        return dict(found.ext), found.body

    def _with_master(self, code: int = ResponseCode.SUCCESS) -> Answer:
        group = self.group
        ext = {
            "masterEpoch": str(group.epoch),
            "syncStateSetEpoch": str(group.members.epoch),
        }
        if group.master is not None:
            ext |= {
                "masterBrokerId": str(group.master),
                "masterAddress": group.addresses[group.master],
            }
        return Answer(code, "", ext, group.members.body())

    def _sets(self, ask: Ask) -> Answer:
        group = self.group
        rows = [
            {
                "alive": each in group.alive,
                "brokerAddress": group.addresses[each],
                "brokerId": each,
            }
            for each in group.members.ids
        ]
        (name,) = parse(ask.body)
        return Answer(0, "", {}, compact({"replicasInfoTable": {name: {"inSyncReplicas": rows}}}))

    def _next_id(self, _ask: Ask) -> Answer:
        return Answer(0, "", {"nextBrokerId": str(self.group.next_id)})

    def _apply(self, ask: Ask) -> Answer:
        broker_id, code = int(ask.ext["appliedBrokerId"]), ask.ext["registerCheckCode"]
        group = self.group
        if group.codes.setdefault(broker_id, code) != code:
            return Answer(ResponseCode.CONTROLLER_BROKER_ID_INVALID, "taken")
        group.addresses[broker_id] = code.partition(";")[0]
        group.next_id = max(group.next_id, broker_id + 1)
        return Answer(0)

    def _register(self, ask: Ask) -> Answer:
        broker_id, group = int(ask.ext["brokerId"]), self.group
        if broker_id not in group.addresses:
            return Answer(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, "unknown")
        group.addresses[broker_id] = ask.ext["brokerAddress"]
        if group.master in group.alive:
            return self._with_master()
        return Answer(0, "", {}, group.members.body())

    def _elect(self, ask: Ask) -> Answer:
        broker_id, group = int(ask.ext["brokerId"]), self.group
        if ask.ext["designateElect"] == "true":
            return self._designate(broker_id)
        if group.epoch == 0:
            group.epoch, group.master = 1, broker_id
            group.members = SyncStateSet.of((broker_id,), 1)
            return self._elected(ResponseCode.SUCCESS)
        if group.master in group.alive:
            return self._elected(ResponseCode.CONTROLLER_MASTER_STILL_EXIST)
        if not group.alive.intersection(group.members.ids):
            return Answer(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, "nobody is able")
        self.elect()
        return self._elected(ResponseCode.SUCCESS)

    def _designate(self, broker_id: int) -> Answer:
        group = self.group
        if broker_id not in group.members.ids or broker_id not in group.alive:
            return Answer(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, "it is not able")
        group.epoch += 1
        group.master = broker_id
        group.members = SyncStateSet.of((broker_id,), group.members.epoch + 1)
        return self._elected(ResponseCode.SUCCESS)

    def _elected(self, code: int) -> Answer:
        found = self._with_master(code)
        body = {"brokerMemberGroup": {}, "syncStateSet": list(self.group.members.ids)}
        return Answer(code, "", found.ext, compact(body))

    def _replicas(self, _ask: Ask) -> Answer:
        if not self.group.addresses:
            return Answer(ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, "unknown")
        found = self._with_master()
        ext = {name: text for name, text in found.ext.items() if name != "syncStateSetEpoch"}
        return Answer(0, "", ext, found.body)

    def _fence(self, ask: Ask) -> Answer:
        group = self.group
        if not self.fences:
            return Answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "unknown")
        if int(ask.ext["masterBrokerId"]) != group.master:
            return Answer(ResponseCode.CONTROLLER_INVALID_MASTER, "no master")
        if int(ask.ext["masterEpoch"]) != group.epoch:
            return Answer(ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH, "another epoch")
        if int(ask.ext["syncStateSetEpoch"]) != group.members.epoch:
            return Answer(ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH, "another set")
        group.members = SyncStateSet.of(group.members.ids, group.members.epoch + 1)
        ext = {"newSyncStateSetEpoch": str(group.members.epoch)}
        return Answer(0, "", ext, group.members.body())

    def _alter(self, ask: Ask) -> Answer:
        group, wanted = self.group, SyncStateSet.parse(ask.body)
        if int(ask.ext["masterBrokerId"]) != group.master:
            return Answer(ResponseCode.CONTROLLER_INVALID_MASTER, "no master")
        if int(ask.ext["masterEpoch"]) != group.epoch:
            return Answer(ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH, "another epoch")
        if self.is_frozen:
            return Answer(ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, "frozen")
        if wanted.epoch != group.members.epoch:
            return Answer(ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH, "another set")
        if not group.alive.issuperset(wanted.ids):
            return Answer(ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, "dead")
        group.members = SyncStateSet.of(wanted.ids, wanted.epoch + 1)
        ext = {"newSyncStateSetEpoch": str(group.members.epoch)}
        return Answer(0, "", ext, group.members.body())
