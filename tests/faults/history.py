"""Checks a history of sends, reads and final states of replicas: whether every promise was kept.

The log is append-only and offsets are in the answers, so that each rule is one look at a table; no
general solver is needed. Pure: who records a history, and how replicas are read, is not known here.

| kind | rule |
|---|---|
| LOST | what was acknowledged is read at its offset from every member at the end |
| TWO_MESSAGES | no offset of a queue ever shows two messages |
| READ_LOST | what was read once is read at its offset from every member at the end |
| ORDER | of two sends of one producer to one queue, one behind the other, so are the messages |
| TWICE | a message is there at most once per try, and never when it was surely refused |
| HOLE | the offsets of a queue follow one another |
| LOGS | the logs of members are equal byte for byte, and nothing in them disagrees |
| OFFSETS | offsets fall by no more than what was committed last, and are not beyond a queue |
| REIGN | whatever was written in an epoch was written by one broker, and begins at one place |
"""

import enum
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = [
    "Commit",
    "History",
    "Kind",
    "Outcome",
    "PowerLoss",
    "Queue",
    "Read",
    "Reign",
    "Replica",
    "Send",
    "Violation",
]

# A topic and a queue id.
Queue: TypeAlias = tuple[str, int]


class Outcome(enum.Enum):
    """What a producer knows of a message."""

    # As durable as promised.
    ACKNOWLEDGED = "acknowledged"
    # Stored, and the answer promises nothing more.
    STORED = "stored"
    # Surely not stored.
    REFUSED = "refused"
    # No answer came.
    UNKNOWN = "unknown"


class Kind(enum.Enum):
    """Which rule was broken."""

    LOST = "lost"
    TWO_MESSAGES = "two messages"
    READ_LOST = "read and lost"
    ORDER = "order"
    TWICE = "twice"
    HOLE = "hole"
    LOGS = "logs"
    OFFSETS = "offsets"
    REIGN = "reign"


@dataclass(frozen=True, slots=True)
class Send:
    """A message that a producer sent.

    Attributes:
        producer: Who.
        message_id: What no other message has.
        queue: Where it went.
        outcome: What came of it.
        offset: Its queue offset, where the answer has one.
        began: When the send began, in any unit that goes on.
        ended: When it came to an end, in the same unit.
        tries: How often it was sent.
    """

    producer: str
    message_id: str
    queue: Queue
    outcome: Outcome
    offset: int | None = None
    began: float = 0.0
    ended: float = 0.0
    tries: int = 1


@dataclass(frozen=True, slots=True)
class Read:
    """A message that a consumer read, from whatever replica."""

    queue: Queue
    offset: int
    message_id: str


@dataclass(frozen=True, slots=True)
class Commit:
    """An offset that a group committed and that was acknowledged."""

    group: str
    queue: Queue
    offset: int
    at: float


@dataclass(frozen=True, slots=True)
class PowerLoss:
    """A loss of power, in the unit of the sends.

    Attributes:
        began: When what was not synced was lost.
        ended: A moment behind the end of the broker and before its next start: what it acknowledged
            last may have been under way to its client until then.
    """

    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Reign:
    """What a log has of one epoch.

    Attributes:
        begin: Where the epoch begins, as the replica has written it down.
        writers: The brokers that took what lies there, by their addresses.
    """

    begin: int
    writers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Replica:
    """What a replica holds at the end.

    Attributes:
        name: What to call it.
        queues: Of each queue the messages by their offsets.
        log: A digest of each part of its log by where that begins; what two members both have
            is equal.
        problems: What a verification of its store found.
        is_member: Whether it has to hold what was acknowledged.
        offsets: Committed offsets by group and queue.
        reigns: What its log has of each epoch; none without a controller.
    """

    name: str
    queues: Mapping[Queue, Mapping[int, str]]
    log: Mapping[int, str] = field(default_factory=dict)
    problems: Sequence[str] = ()
    is_member: bool = True
    offsets: Mapping[tuple[str, Queue], int] = field(default_factory=dict)
    reigns: Mapping[int, Reign] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that was broken, and by what."""

    kind: Kind
    text: str


@dataclass(slots=True)
class History:
    """Everything that was seen."""

    sends: list[Send] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=list)
    # A crash may take back offsets that were committed so short before the end or a crash.
    commits_lost_s: float = 10.0
    # Times of crashes and of the end, in the unit of commits.
    crashes: list[float] = field(default_factory=list)
    # Whether logs are cut: what was stored without a promise may go, and another message have its
    # offset.
    are_cut: bool = False

    def violations(self) -> list[Violation]:
        """Returns every broken rule; none for a sound history."""
        rules = (
            self._lost(),
            self._two_messages(),
            self._read_lost(),
            self._order(),
            self._twice(),
            self._holes(),
            self._logs(),
            self._offsets(),
            self._reigns(),
        )
        return [violation for rule in rules for violation in rule]

    @property
    def _members(self) -> list[Replica]:
        return [replica for replica in self.replicas if replica.is_member]

    def _kept_sends(self) -> Iterator[Send]:
        """Gives the sends whose offset is theirs for good."""
        for send in self.sends:
            is_kept = send.outcome is Outcome.ACKNOWLEDGED or not self.are_cut
            if send.offset is not None and is_kept:
                yield send

    def _lost(self) -> Iterator[Violation]:
        for send in self.sends:
            if send.outcome is not Outcome.ACKNOWLEDGED:
                continue
            if send.offset is None:
                yield Violation(Kind.LOST, f"{send} has no offset")
                continue
            for replica in self._members:
                there = replica.queues.get(send.queue, {}).get(send.offset)
                if there != send.message_id:
                    yield Violation(Kind.LOST, f"{replica.name} has {there!r}, not {send}")

    def _read_lost(self) -> Iterator[Violation]:
        for read in self.reads:
            for replica in self._members:
                there = replica.queues.get(read.queue, {}).get(read.offset)
                if there != read.message_id:
                    yield Violation(Kind.READ_LOST, f"{replica.name} has {there!r}, not {read}")

    def _two_messages(self) -> Iterator[Violation]:
        seen: dict[tuple[Queue, int], set[str]] = defaultdict(set)
        for send in self._kept_sends():
            seen[send.queue, _offset(send)].add(send.message_id)
        for read in self.reads:
            seen[read.queue, read.offset].add(read.message_id)
        for replica in self.replicas:
            for queue, messages in replica.queues.items():
                for offset, message_id in messages.items():
                    seen[queue, offset].add(message_id)
        for (queue, offset), ids in seen.items():
            if len(ids) > 1:
                text = f"offset {offset} of {queue} has shown {sorted(ids)}"
                yield Violation(Kind.TWO_MESSAGES, text)

    def _order(self) -> Iterator[Violation]:
        by_producer: dict[tuple[str, Queue], list[Send]] = defaultdict(list)
        for send in self._kept_sends():
            by_producer[send.producer, send.queue].append(send)
        for sends in by_producer.values():
            sends.sort(key=lambda send: send.ended)
            # Of all that had ended, the one farthest back in the queue.
            farthest: Send | None = None
            waiting = iter(sends)
            ended = next(waiting, None)
            for send in sorted(sends, key=lambda send: send.began):
                while ended is not None and ended.ended < send.began:
                    if farthest is None or _offset(ended) > _offset(farthest):
                        farthest = ended
                    ended = next(waiting, None)
                if farthest is not None and _offset(farthest) > _offset(send):
                    yield Violation(Kind.ORDER, f"{send} was sent behind {farthest}")

    def _twice(self) -> Iterator[Violation]:
        for replica in self.replicas:
            there = Counter(
                message_id
                for messages in replica.queues.values()
                for message_id in messages.values()
            )
            for send in self.sends:
                most = 0 if send.outcome is Outcome.REFUSED else send.tries
                count = there[send.message_id]
                if count > most:
                    text = f"{replica.name} has {send} {count} times"
                    yield Violation(Kind.TWICE, text)

    def _holes(self) -> Iterator[Violation]:
        for replica in self.replicas:
            for queue, messages in replica.queues.items():
                missing = set(range(min(messages, default=0), max(messages, default=-1) + 1))
                missing -= messages.keys()
                if missing:
                    text = f"{replica.name} has nothing at {sorted(missing)} of {queue}"
                    yield Violation(Kind.HOLE, text)

    def _logs(self) -> Iterator[Violation]:
        for replica in self.replicas:
            for problem in replica.problems:
                yield Violation(Kind.LOGS, f"{replica.name}: {problem}")
        for one, other in zip(self._members, self._members[1:], strict=False):
            for begin in sorted(one.log.keys() & other.log.keys()):
                if one.log[begin] != other.log[begin]:
                    text = f"{one.name} and {other.name} differ in what begins at {begin}"
                    yield Violation(Kind.LOGS, text)

    def _offsets(self) -> Iterator[Violation]:
        safe: dict[tuple[str, Queue], int] = {}
        for commit in self.commits:
            lasts = all(
                not crash - self.commits_lost_s <= commit.at <= crash for crash in self.crashes
            )
            if lasts:
                key = commit.group, commit.queue
                safe[key] = max(safe.get(key, 0), commit.offset)
        for replica in self._members:
            for key, offset in replica.offsets.items():
                end = max(replica.queues.get(key[1], {}), default=-1) + 1
                if offset > end:
                    text = f"{replica.name} has {offset} of {key}, which ends at {end}"
                    yield Violation(Kind.OFFSETS, text)
            for key, offset in safe.items():
                kept = replica.offsets.get(key, 0)
                if kept < offset:
                    text = f"{replica.name} has {kept} of {key}, and {offset} was committed"
                    yield Violation(Kind.OFFSETS, text)

    def _reigns(self) -> Iterator[Violation]:
        writers: dict[int, set[str]] = defaultdict(set)
        begins: dict[int, set[int]] = defaultdict(set)
        for replica in self._members:
            for epoch, reign in replica.reigns.items():
                writers[epoch] |= reign.writers
                begins[epoch].add(reign.begin)
        for epoch, addresses in writers.items():
            if len(addresses) > 1:
                text = f"epoch {epoch} was written by {sorted(addresses)}"
                yield Violation(Kind.REIGN, text)
        for epoch, offsets in begins.items():
            if len(offsets) > 1:
                text = f"epoch {epoch} begins at {sorted(offsets)}"
                yield Violation(Kind.REIGN, text)


def _offset(send: Send) -> int:
    return -1 if send.offset is None else send.offset
