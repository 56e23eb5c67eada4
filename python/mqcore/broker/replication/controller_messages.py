"""What a broker asks a controller, and what it is answered: header fields and bodies, as values.

The headers of `org.apache.rocketmq.remoting.protocol.header.controller`. Pure functions; knows no
state.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Self

from mqcore.broker.replication.identity import Candidate, Identity
from mqcore.errors import BadJsonError
from mqcore.model.controller_fields import CHECK_CODE, PROOFS
from mqcore.model.reading import as_bool, as_dict, as_int, as_list, as_text
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.remoting import OwnRequestCode, RequestCode

__all__ = [
    "Answer",
    "Ask",
    "Member",
    "Purpose",
    "Standing",
    "SyncStateSet",
    "alter_ask",
    "apply_ask",
    "asked_epochs",
    "designate_ask",
    "elect_ask",
    "fence_ask",
    "heartbeat_ask",
    "holder_ask",
    "leader_ask",
    "next_id_ask",
    "register_ask",
    "replicas_ask",
    "sets_ask",
]


class Purpose(IntEnum):
    """What a request is for, by its code."""

    HEARTBEAT = RequestCode.BROKER_HEARTBEAT
    ALTER = RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET
    ELECT = RequestCode.CONTROLLER_ELECT_MASTER
    REGISTER = RequestCode.CONTROLLER_REGISTER_BROKER
    REPLICAS = RequestCode.CONTROLLER_GET_REPLICA_INFO
    LEADER = RequestCode.CONTROLLER_GET_METADATA_INFO
    SETS = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
    NEXT_ID = RequestCode.CONTROLLER_GET_NEXT_BROKER_ID
    APPLY = RequestCode.CONTROLLER_APPLY_BROKER_ID
    HOLDER = RequestCode.GET_BROKER_EPOCH_CACHE
    FENCE = OwnRequestCode.FENCE_SET


# Requests whose header has the time of sending: a controller judges by it who is alive.
_TIMED: Final = frozenset({Purpose.ALTER, Purpose.ELECT, Purpose.REGISTER})


@dataclass(frozen=True, slots=True)
class SyncStateSet:
    """The replicas that may become master, by their ids at the controller.

    Attributes:
        ids: The ids, in order.
        epoch: Grows with each change.
    """

    ids: tuple[int, ...] = ()
    epoch: int = 0

    @classmethod
    def of(cls, ids: Iterable[int], epoch: int) -> Self:
        """Returns a set of ids in any order."""
        return cls(tuple(sorted(set(ids))), epoch)

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Returns the set in a body; an empty one where there is none."""
        try:
            found = parse_object(body) if body.strip() else {}
        except BadJsonError:
            found = {}
        ids = (as_int(each, -1) for each in as_list(found.get("syncStateSet")))
        return cls.of((each for each in ids if each >= 0), as_int(found.get("syncStateSetEpoch")))

    def body(self) -> bytes:
        """Returns the body that names it."""
        return compact({"syncStateSet": list(self.ids), "syncStateSetEpoch": self.epoch})


@dataclass(frozen=True, slots=True)
class Member:
    """Who asks.

    Attributes:
        cluster: The cluster.
        name: The broker's name.
        address: Where it answers requests.
        began_ms: When it started: names its application for an id.
        is_learner: Whether it waits for a master, and never asks for an election: of a group that
            has none the first that asks is master.
        nonce: What no other process has; empty: it does not name its process.
        proofs: The check codes of earlier processes on the same directory.
    """

    cluster: str
    name: str
    address: str
    began_ms: int = 0
    is_learner: bool = False
    nonce: str = ""
    proofs: tuple[str, ...] = ()

    @property
    def check_code(self) -> str:
        """What names this process, and its application for an id."""
        code = f"{self.address};{self.began_ms}"
        return f"{code};{self.nonce}" if self.nonce else code

    @property
    def claim(self) -> dict[str, str]:
        """The field by which a controller of mqcore knows the process."""
        return {CHECK_CODE: self.check_code} if self.nonce else {}

    def candidate(self, broker_id: int) -> Candidate:
        """Returns the application for an id."""
        identity = Identity(self.cluster, self.name, broker_id)
        return Candidate(identity, self.check_code)


@dataclass(frozen=True, slots=True)
class Standing:
    """How far the log of a broker is: who is ahead is elected.

    Attributes:
        epoch: The epoch of its end; -1 for a log without one.
        max_offset: Its end, physical offset in bytes.
        confirm_offset: Up to where all in-sync replicas have it.
    """

    epoch: int = -1
    max_offset: int = 0
    confirm_offset: int = 0


@dataclass(frozen=True, slots=True)
class Ask:
    """One request.

    Attributes:
        address: Whom.
        purpose: What for; the number is the request's code.
        ext: The fields of the header.
        body: The body.
    """

    address: str
    purpose: Purpose
    ext: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def header(self, now_ms: int) -> dict[str, str]:
        """Returns the fields of the header as they are sent at a time of the wall clock."""
        if self.purpose in _TIMED:
            return {**self.ext, "invokeTime": str(now_ms)}
        return dict(self.ext)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer.

    Attributes:
        code: Its code.
        remark: Its remark.
        ext: The fields of its header.
        body: Its body.
    """

    code: int
    remark: str = ""
    ext: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def text(self, name: str) -> str:
        """Returns a field; empty where it is missing."""
        return self.ext.get(name, "")

    def number(self, name: str) -> int | None:
        """Returns a field that is a number; None where it is missing or none."""
        try:
            return int(self.ext.get(name, ""))
        except ValueError:
            return None

    def living_in_sync(self, name: str) -> dict[int, bool]:
        """Returns the ids of the replicas of a broker name that are in sync, and who is alive."""
        try:
            table = as_dict(parse_object(self.body).get("replicasInfoTable"))
        except BadJsonError:
            return {}
        rows = [as_dict(each) for each in as_list(as_dict(table.get(name)).get("inSyncReplicas"))]
        return {as_int(row.get("brokerId"), -1): as_bool(row.get("alive")) for row in rows}

    def living_address(self, name: str, broker_id: int) -> str:
        """Returns where a replica of a broker name is alive; empty where it is not, or unknown."""
        try:
            table = as_dict(parse_object(self.body).get("replicasInfoTable"))
        except BadJsonError:
            return ""
        group = as_dict(table.get(name))
        rows = [*as_list(group.get("inSyncReplicas")), *as_list(group.get("notInSyncReplicas"))]
        for row in map(as_dict, rows):
            if as_int(row.get("brokerId"), -1) == broker_id and as_bool(row.get("alive")):
                return as_text(row.get("brokerAddress"))
        return ""

    def is_holder(self, name: str, broker_id: int) -> bool:
        """Returns whether a broker that the controller has for an id is of that name and id."""
        try:
            found = parse_object(self.body)
        except BadJsonError:
            return False
        # A master shows the id 0.
        has_id = as_int(found.get("brokerId"), -1) in (0, broker_id)
        return as_text(found.get("brokerName")) == name and has_id

    def sync_state_set(self) -> SyncStateSet:
        """Returns the set in the body; the header's epoch wins where there is one."""
        found = SyncStateSet.parse(self.body)
        epoch = self.number("syncStateSetEpoch")
        if epoch is None:
            epoch = self.number("newSyncStateSetEpoch")
        return found if epoch is None else SyncStateSet(found.ids, epoch)


def leader_ask(address: str) -> Ask:
    """1005: which controller leads."""
    return Ask(address, Purpose.LEADER)


def sets_ask(address: str, member: Member) -> Ask:
    """1006: which replicas are in sync, and who of them is alive."""
    return Ask(address, Purpose.SETS, body=compact([member.name]))


def holder_ask(address: str) -> Ask:
    """1007: who are you; asked of another broker, which the controller has for our id."""
    return Ask(address, Purpose.HOLDER)


def next_id_ask(address: str, member: Member) -> Ask:
    """1012: which id is free."""
    return Ask(address, Purpose.NEXT_ID, {"clusterName": member.cluster, "brokerName": member.name})


def apply_ask(address: str, member: Member, candidate: Candidate) -> Ask:
    """1013: take an id."""
    ext = {
        "clusterName": member.cluster,
        "brokerName": member.name,
        "appliedBrokerId": str(candidate.identity.broker_id),
        "registerCheckCode": candidate.check_code,
    }
    return Ask(address, Purpose.APPLY, ext)


def register_ask(address: str, member: Member, broker_id: int) -> Ask:
    """1003: here we are, at this address."""
    ext = {
        "clusterName": member.cluster,
        "brokerName": member.name,
        "brokerId": str(broker_id),
        "brokerAddress": member.address,
        **member.claim,
    }
    if member.nonce and member.proofs:
        ext[PROOFS] = ",".join(member.proofs)
    return Ask(address, Purpose.REGISTER, ext)


def elect_ask(address: str, member: Member, broker_id: int) -> Ask:
    """1002: elect a master; us, where the group has none yet."""
    ext = {
        "clusterName": member.cluster,
        "brokerName": member.name,
        "brokerId": str(broker_id),
        "designateElect": "false",
    }
    return Ask(address, Purpose.ELECT, ext)


def designate_ask(address: str, member: Member, broker_id: int) -> Ask:
    """1002: elect this one, as a tool asks."""
    ask = elect_ask(address, member, broker_id)
    return Ask(address, Purpose.ELECT, {**ask.ext, "designateElect": "true"})


def replicas_ask(address: str, member: Member, broker_id: int | None = None) -> Ask:
    """1004: who is master, and which replicas are in sync; with an id also: is it ours?"""
    ext = {"brokerName": member.name}
    if broker_id is not None and member.nonce:
        ext |= {"brokerId": str(broker_id), **member.claim}
    return Ask(address, Purpose.REPLICAS, ext)


def alter_ask(
    address: str, member: Member, broker_id: int, master_epoch: int, wanted: SyncStateSet
) -> Ask:
    """1001: another sync-state set; its epoch is that of the set which it replaces."""
    ext = {
        "brokerName": member.name,
        "masterBrokerId": str(broker_id),
        "masterEpoch": str(master_epoch),
        **member.claim,
    }
    return Ask(address, Purpose.ALTER, ext, wanted.body())


def fence_ask(
    address: str, member: Member, broker_id: int, master_epoch: int, set_epoch: int
) -> Ask:
    """Refuse every 1001 that names this epoch of the set, whenever it comes."""
    ext = {
        "brokerName": member.name,
        "masterBrokerId": str(broker_id),
        "masterEpoch": str(master_epoch),
        "syncStateSetEpoch": str(set_epoch),
        **member.claim,
    }
    return Ask(address, Purpose.FENCE, ext)


def asked_epochs(ask: Ask) -> tuple[int, int]:
    """Returns what a 1001 is of: the epoch of the master, and that of the set it replaces."""
    return int(ask.ext["masterEpoch"]), SyncStateSet.parse(ask.body).epoch


def heartbeat_ask(
    address: str,
    member: Member,
    broker_id: int,
    standing: Standing,
    *,
    timeout_ms: int,
    priority: int,
) -> Ask:
    """904: alive, and so far. It has no answer."""
    ext = {
        "clusterName": member.cluster,
        "brokerAddr": member.address,
        "brokerName": member.name,
        "brokerId": str(broker_id),
        "epoch": str(standing.epoch),
        "maxOffset": str(standing.max_offset),
        "confirmOffset": str(standing.confirm_offset),
        "heartbeatTimeoutMills": str(timeout_ms),
        "electionPriority": str(priority),
        **member.claim,
    }
    return Ask(address, Purpose.HEARTBEAT, ext)
