"""A broker as a member of a group with a controller: what it asks, and what follows from answers.

A state machine without time, sockets and files: time is passed in, requests come out as `Ask`s,
what the broker has to do as `Order`s. Follows `ReplicasManager` of RocketMQ 5.3: find the
controllers' leader (1005), get an id (1012, 1013), register (1003), ask for an election where there
is no master (1002), then look for a new master again and again (1004) and send heartbeats (904). A
larger epoch wins; an equal or a smaller one changes no role.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mqcore.broker.replication.controller_messages import (
    Answer,
    Ask,
    Member,
    Purpose,
    Standing,
    SyncStateSet,
    alter_ask,
    apply_ask,
    elect_ask,
    fence_ask,
    heartbeat_ask,
    holder_ask,
    leader_ask,
    next_id_ask,
    register_ask,
    replicas_ask,
    sets_ask,
)
from mqcore.broker.replication.identity import Candidate, Identity
from mqcore.broker.replication.orders import (
    Become,
    Follow,
    ForgetCandidate,
    ForgetIdentity,
    KeepCandidate,
    KeepIdentity,
    Order,
    RefuseSet,
    SettleEnd,
    TakeSet,
)
from mqcore.broker.replication.phases import Phase, Timetable
from mqcore.broker.replication.set_requests import SetRequests
from mqcore.model.controller_fields import DECIDES, HOLDER
from mqcore.remoting import ResponseCode

__all__ = ["Membership", "Phase", "Timetable"]

# After a request that failed. The official broker waits 5 s (`RETRY_INTERVAL_SECOND`); a broker
# that does not serve tries sooner.
_RETRY_MS: Final = 1_000
# Until a controller knows whether the process before us lives.
_CLAIM_RETRY_MS: Final = 250
# Which id is free: whoever is refused one takes the next.
_OF_IDS: Final = frozenset({Purpose.NEXT_ID, Purpose.APPLY})
# The first look after the start, as officially.
_FIRST_LOOK_MS: Final = 3_000


@dataclass(slots=True)
class Membership:
    """One broker's membership.

    Attributes:
        member: Who it is.
        controllers: The addresses of the controllers; may be replaced.
        timetable: How often what is asked.
        identity: Its id, once it has one.
        candidate: The id that it applies for, before.
        is_suspect: Whether the log may have lost its end: power was lost, and not every message was
            synced, at this start or at an earlier one that was not settled. It must not be elected
            for what it had; where others that are in sync live, it goes on under another id, which
            is in no set.
        phase: How far it is.
        leader: The address of the controllers' leader; empty while it is not known.
        master_id: The id of the master, None while none is known.
        master_address: The address of the master; or empty.
        epoch: The largest epoch that an order was given for.
        is_vacant: Whether the controller has taken the role of that epoch back and has no master.
        members: The sync-state set, as it was heard last of the current epoch.
        rival: The address of another broker that has our id and answers; empty for none. Nothing is
            asked any more then: under our id it may have acknowledged what our log has not.
    """

    member: Member
    controllers: tuple[str, ...]
    timetable: Timetable
    identity: Identity | None = None
    candidate: Candidate | None = None
    is_suspect: bool = False
    phase: Phase = Phase.INITIAL
    leader: str = ""
    master_id: int | None = None
    master_address: str = ""
    epoch: int = 0
    is_vacant: bool = False
    members: SyncStateSet = field(default_factory=SyncStateSet)
    rival: str = ""
    _whys: dict[Purpose, str] = field(default_factory=dict)
    _orders: list[Order] = field(default_factory=list)
    _asked: set[Purpose] = field(default_factory=set)
    _due_ms: dict[Purpose, int] = field(default_factory=dict)
    _beats_ms: dict[str, int] = field(default_factory=dict)
    _turn: int = 0
    _sets: SetRequests = field(default_factory=SetRequests)
    # Whether the look at the group that is not answered yet was asked for before that refusal.
    _looked_before: bool = False
    # Whether nobody else answers by our id; and where the controller knows somebody by it who may.
    _is_sole: bool = False
    # Whether the controller decides which of two processes has an id.
    _decides: bool = False
    _holder: str = ""

    # What is to be asked, and when.

    def due(self, now_ms: int, standing: Standing | None) -> list[Ask]:
        """Returns the requests to be sent now; each is answered by `answered`, but heartbeats.

        Args:
            now_ms: A clock that does not step.
            standing: How far the broker's log is; None for no heartbeats: it is not well.
        """
        asks = self._heartbeats(now_ms, standing)
        for purpose in self._wants():
            if purpose not in self._asked and self._due_ms.get(purpose, now_ms) <= now_ms:
                ask = self._ask(purpose, now_ms)
                if ask is not None:
                    self._asked.add(purpose)
                    asks.append(ask)
        return asks

    def next_ms(self, now_ms: int) -> int:
        """Returns when `due` has something to send, as far as that is known now."""
        times = [self._due_ms.get(each, now_ms) for each in self._wants() - self._asked]
        if self._beats:
            times += [self._beats_ms.get(each, now_ms) for each in self.controllers]
        return max(now_ms, min(times, default=now_ms + _RETRY_MS))

    @property
    def why(self) -> str:
        """Why it is not further; empty where nothing has failed."""
        return next(reversed(self._whys.values()), "")

    @property
    def _beats(self) -> bool:
        is_registered = self.phase in (Phase.REGISTERED, Phase.RUNNING)
        if self.rival:
            return False
        return self.identity is not None and (is_registered or self.epoch > 0)

    @property
    def is_master(self) -> bool:
        """Whether this broker is the master, by the last order."""
        return self.identity is not None and self.master_id == self.identity.broker_id

    def _heartbeats(self, now_ms: int, standing: Standing | None) -> list[Ask]:
        """Returns heartbeats to every controller: the next leader must know who lives."""
        if self.identity is None or not self._beats:
            return []
        asks = []
        for address in self.controllers:
            if self._beats_ms.get(address, now_ms) <= now_ms:
                self._beats_ms[address] = now_ms + self.timetable.heartbeat_ms
                if standing is None:
                    continue
                asks.append(
                    heartbeat_ask(
                        address,
                        self.member,
                        self.identity.broker_id,
                        standing,
                        timeout_ms=self.timetable.heartbeat_timeout_ms,
                        priority=self.timetable.election_priority,
                    )
                )
        return asks

    def _wants(self) -> set[Purpose]:
        """Returns what is to be asked in this phase."""
        if self.rival:
            return set()
        wants = {Purpose.LEADER}
        if not self.leader:
            return wants
        if self.phase is Phase.LEADER_KNOWN:
            wants.add(self._step_to_register())
        elif self.phase is Phase.REGISTERED:
            wants.add(Purpose.REPLICAS if self.member.is_learner else Purpose.ELECT)
        elif self.phase is Phase.RUNNING:
            wants.add(Purpose.REPLICAS)
            if self._sets.purpose is not None and self.is_master:
                wants.add(self._sets.purpose)
            if Purpose.ELECT in self._due_ms and not self.member.is_learner:
                wants.add(Purpose.ELECT)
        return wants

    def _step_to_register(self) -> Purpose:
        if self.identity is not None:
            if self._holder:
                return Purpose.HOLDER
            return Purpose.SETS if self.is_suspect or not self._is_sole else Purpose.REGISTER
        return Purpose.NEXT_ID if self.candidate is None else Purpose.APPLY

    def _ask(self, purpose: Purpose, now_ms: int) -> Ask | None:
        member, leader, identity = self.member, self.leader, self.identity
        if purpose is Purpose.LEADER:
            self._due_ms[purpose] = now_ms + self.timetable.leader_ms
            if not self.controllers:
                return None
            return leader_ask(self.controllers[self._turn % len(self.controllers)])
        if purpose is Purpose.SETS:
            return sets_ask(leader, member)
        if purpose is Purpose.HOLDER:
            return holder_ask(self._holder)
        if purpose is Purpose.NEXT_ID:
            return next_id_ask(leader, member)
        if purpose is Purpose.APPLY and self.candidate is not None:
            return apply_ask(leader, member, self.candidate)
        if purpose is Purpose.REPLICAS:
            return replicas_ask(leader, member, None if identity is None else identity.broker_id)
        if identity is None:
            return None
        if purpose is Purpose.ALTER and self._sets.wanted is not None:
            return alter_ask(leader, member, identity.broker_id, self.epoch, self._sets.wanted)
        if purpose is Purpose.FENCE:
            doubtful = self._sets.doubtful
            epoch = self.members.epoch if doubtful is None else doubtful
            return fence_ask(leader, member, identity.broker_id, self.epoch, epoch)
        if purpose is Purpose.ELECT:
            return elect_ask(leader, member, identity.broker_id)
        return register_ask(leader, member, identity.broker_id)

    # What is heard.

    def answered(self, ask: Ask, answer: Answer | None, now_ms: int) -> None:
        """Takes the answer to a request.

        Args:
            ask: The request.
            answer: The answer; None where there is none, in time or at all.
            now_ms: The clock of `due`.
        """
        purpose = ask.purpose
        if purpose is Purpose.HEARTBEAT:
            return
        self._asked.discard(purpose)
        self._due_ms.pop(purpose, None)
        if purpose is Purpose.HOLDER:
            self._hear_holder(answer, now_ms)
            return
        if answer is None or answer.code == ResponseCode.CONTROLLER_NOT_LEADER:
            if purpose is Purpose.REPLICAS:
                self._looked_before = False
            self._sets.unheard(ask)
            self._unheard(ask, now_ms)
            return
        hear = {
            Purpose.LEADER: self._hear_leader,
            Purpose.SETS: self._hear_sets,
            Purpose.NEXT_ID: self._hear_next_id,
            Purpose.APPLY: self._hear_applied,
            Purpose.REGISTER: self._hear_registered,
            Purpose.ELECT: self._hear_elected,
            Purpose.REPLICAS: self._hear_replicas,
            Purpose.ALTER: self._hear_altered,
            Purpose.FENCE: self._hear_fenced,
        }[purpose]
        self._whys.pop(purpose, None)
        if purpose not in _OF_IDS and answer.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID:
            # Another process has our id: we are not to go on under it.
            self.rival = answer.text(HOLDER) or "another broker"
        if self.rival or not hear(answer, now_ms):
            self._whys[purpose] = f"{ask.address} answered {answer.code}: {answer.remark}"

    def _unheard(self, ask: Ask, now_ms: int) -> None:
        """Asks another controller, and whoever leads then."""
        self._whys[ask.purpose] = f"{ask.address} does not answer, or does not lead"
        if ask.purpose is Purpose.LEADER:
            self._turn += 1
            self._due_ms[Purpose.LEADER] = now_ms + _RETRY_MS
            if ask.address == self.leader:
                self.leader = ""
            return
        self._due_ms[ask.purpose] = now_ms + _RETRY_MS
        if ask.address == self.leader:
            self._due_ms[Purpose.LEADER] = now_ms

    def _hear_leader(self, answer: Answer, now_ms: int) -> bool:
        leader = answer.text("controllerLeaderAddress")
        if answer.code != ResponseCode.SUCCESS or not leader:
            self._turn += 1
            self._due_ms[Purpose.LEADER] = now_ms + _RETRY_MS
            return False
        self._due_ms[Purpose.LEADER] = now_ms + self.timetable.leader_ms
        self.leader = leader
        if self.phase is Phase.INITIAL:
            self.phase = Phase.LEADER_KNOWN
        return True

    def _hear_sets(self, answer: Answer, now_ms: int) -> bool:
        if answer.code != ResponseCode.SUCCESS:
            self._due_ms[Purpose.SETS] = now_ms + _RETRY_MS
            return False
        own_id = -1 if self.identity is None else self.identity.broker_id
        self._decides = bool(self.member.nonce) and answer.text(DECIDES) == "true"
        if not self._is_sole:
            address = answer.living_address(self.member.name, own_id)
            if address not in ("", self.member.address):
                self._holder = address
                return True
            self._is_sole = True
        is_suspect, self.is_suspect = self.is_suspect, False
        in_sync = answer.living_in_sync(self.member.name)
        others = [each for each, is_alive in in_sync.items() if is_alive and each != own_id]
        if is_suspect and own_id in in_sync and others:
            self.identity = None
            self._orders.append(ForgetIdentity())
        if is_suspect:
            # Until here every start is suspect.
            self._orders.append(SettleEnd())
        return True

    def _hear_holder(self, answer: Answer | None, now_ms: int) -> None:
        """Hears whoever the controller has at another address for our id.

        Where nobody answers it may be late: the controller is asked again whether it lives.
        """
        holder, self._holder = self._holder, ""
        if answer is None:
            # A controller that decides knows whether it hears that one still.
            self._is_sole = self._decides
            self._due_ms[Purpose.SETS] = now_ms + (0 if self._decides else _RETRY_MS)
            return
        self._is_sole = True
        own_id = -1 if self.identity is None else self.identity.broker_id
        if answer.code == ResponseCode.SUCCESS and answer.is_holder(self.member.name, own_id):
            self.rival = holder
            self._whys[Purpose.HOLDER] = (
                f"{holder} has the id {own_id} of {self.member.name} already, and answers: two "
                "brokers with one id would take each other's place"
            )

    def _hear_next_id(self, answer: Answer, now_ms: int) -> bool:
        broker_id = answer.number("nextBrokerId")
        if answer.code != ResponseCode.SUCCESS or broker_id is None:
            self._due_ms[Purpose.NEXT_ID] = now_ms + _RETRY_MS
            return False
        self.candidate = self.member.candidate(broker_id)
        self._orders.append(KeepCandidate(self.candidate))
        return True

    def _hear_applied(self, answer: Answer, now_ms: int) -> bool:
        if self.candidate is None:
            return True
        if answer.code != ResponseCode.SUCCESS:
            # Somebody else was faster: the next one.
            self.candidate = None
            self._orders.append(ForgetCandidate())
            self._due_ms[Purpose.NEXT_ID] = now_ms + _RETRY_MS
            return False
        self.identity = self.candidate.identity
        self._is_sole = True
        self.candidate = None
        self._orders.append(KeepIdentity(self.identity))
        return True

    def _hear_registered(self, answer: Answer, now_ms: int) -> bool:
        if answer.code == ResponseCode.SYSTEM_BUSY:
            self._due_ms[Purpose.REGISTER] = now_ms + _CLAIM_RETRY_MS
            return False
        if answer.code != ResponseCode.SUCCESS:
            self._due_ms[Purpose.REGISTER] = now_ms + _RETRY_MS
            return False
        if self.phase is Phase.LEADER_KNOWN:
            self.phase = Phase.REGISTERED
            # A broker that cannot be heard cannot be elected: heartbeats first.
            self._beats_ms.clear()
        self._take_master(answer, now_ms)
        return True

    def _hear_elected(self, answer: Answer, now_ms: int) -> bool:
        fine = (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST)
        if answer.code in fine and self._take_master(answer, now_ms):
            return True
        if self.phase is Phase.REGISTERED:
            self._due_ms[Purpose.ELECT] = now_ms + _RETRY_MS
        return False

    def _hear_replicas(self, answer: Answer, now_ms: int) -> bool:
        is_before, self._looked_before = self._looked_before, False
        pause_ms = 0 if is_before else self.timetable.replicas_ms
        self._due_ms[Purpose.REPLICAS] = now_ms + pause_ms
        if answer.code == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST:
            # The controller has forgotten the group, or knows it no more.
            self.phase = Phase.LEADER_KNOWN
            return False
        if answer.code != ResponseCode.SUCCESS:
            return False
        epoch = answer.number("masterEpoch") or 0
        is_news = epoch > self.epoch
        if is_news or self.phase is Phase.REGISTERED:
            if not self._take_master(answer, now_ms) and is_news:
                self.is_vacant = True
                self._due_ms[Purpose.ELECT] = now_ms
        elif epoch == self.epoch and self.is_master:
            known = answer.sync_state_set()
            given_up = None if is_before else self._sets.hear_set(known)
            if given_up is not None:
                self._orders.append(given_up)
            self._take_set(known)
        return True

    def _hear_altered(self, answer: Answer, now_ms: int) -> bool:
        if answer.code != ResponseCode.SUCCESS:
            if self._sets.hear_refusal():
                self._look_behind(now_ms)
            return False
        self._sets.wanted = None
        self._take_set(answer.sync_state_set())
        return True

    def _hear_fenced(self, answer: Answer, now_ms: int) -> bool:
        """Hears whether what was asked for until now is refused from now on, whenever it comes."""
        is_done = answer.code == ResponseCode.SUCCESS
        self._sets.hear_fenced(is_done=is_done)
        if is_done:
            self._take_set(answer.sync_state_set())
        else:
            self._look_behind(now_ms)
        return is_done or answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    def _look_behind(self, now_ms: int) -> None:
        """Looks at the group at once; a look that is under way shows what was before."""
        self._looked_before = Purpose.REPLICAS in self._asked
        self._due_ms[Purpose.REPLICAS] = now_ms

    def notified(self, ext: Mapping[str, str], body: bytes, now_ms: int) -> None:
        """Takes a notice of the controller (1008): who is master from an epoch on."""
        self._take_master(Answer(ResponseCode.SUCCESS, "", ext, body), now_ms)

    # What follows.

    def alter(self, wanted: SyncStateSet) -> None:
        """Asks the controller for another sync-state set, as the master sees it.

        It is asked again until there is an answer; `TakeSet` or `RefuseSet` follows.

        Args:
            wanted: The set, with the epoch of the one that it replaces.
        """
        self._sets.alter(wanted)
        self._due_ms.pop(Purpose.ALTER, None)

    def is_last(self, refused: RefuseSet) -> bool:
        """Returns whether no set was asked for since: that one may be taken yet."""
        return refused.number == self._sets.count

    def take_orders(self) -> list[Order]:
        """Takes what the broker has to do, in this order, before it asks on."""
        orders, self._orders = self._orders, []
        return orders

    def _take_master(self, answer: Answer, now_ms: int) -> bool:
        """Takes who is master; returns whether there is one."""
        master_id, address = answer.number("masterBrokerId"), answer.text("masterAddress")
        epoch = answer.number("masterEpoch") or 0
        if master_id is None or not address or self.identity is None or self.is_suspect:
            # Who may have to give up its id must not follow anybody under it: its master would have
            # it in sync by an id that nobody sends heartbeats for.
            return False
        if self.phase in (Phase.REGISTERED, Phase.RUNNING):
            self._due_ms.pop(Purpose.ELECT, None)
            self._whys.pop(Purpose.ELECT, None)
            if self.phase is Phase.REGISTERED:
                self.phase = Phase.RUNNING
                self._due_ms[Purpose.REPLICAS] = now_ms + _FIRST_LOOK_MS
        if epoch <= self.epoch:
            return True
        self.epoch, self.master_id, self.master_address = epoch, master_id, address
        self.is_vacant = False
        # What was asked for is of the epoch before.
        self._sets.begin_reign()
        if master_id == self.identity.broker_id:
            self.members = answer.sync_state_set()
            self._orders.append(Become(epoch, self.members))
        else:
            self.members = SyncStateSet()
            self._orders.append(Follow(epoch, master_id, address, answer.text("haServerAddress")))
        return True

    def _take_set(self, members: SyncStateSet) -> None:
        """Takes a newer sync-state set."""
        if self.is_master and members.epoch > self.members.epoch:
            self.members = members
            self._sets.hear_newer()
            self._orders.append(TakeSet(members))
