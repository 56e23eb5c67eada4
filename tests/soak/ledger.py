"""Accounts of messages that were sent and given, in memory that does not grow with the run.

    account = Account("Plain")
    account.acknowledged(7)
    account.given(7)
    account.missing()           # what was acknowledged and not given yet

A message is its work and its number. What has not come yet is kept by number, and a bit for each
number that came, so that what comes again is counted: 20 MB for 24 hours at 2,000 a second. Pure:
who sends and who is given is not known here.

| flaw | rule |
|---|---|
| lost | what was acknowledged is given to a consumer, before the end |
| early | nothing is stored in its topic before its time |
| unwanted | what was rolled back is given to nobody |
| skipped | a consumer in order is given what lies before a message before that message |
| unknown | nothing is given that nobody sent |
"""

from dataclasses import dataclass, field

__all__ = ["Account", "Flaw", "Ledger"]

# Flaws that are kept as texts; of more there is the number.
_FLAWS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Flaw:
    """A rule that was broken, and by what."""

    kind: str
    text: str


@dataclass(slots=True)
class Account:
    """The messages of one work.

    Attributes:
        work: Its name.
        sent: Numbers that were given away.
        acknowledged: Messages that a broker has acknowledged.
        failed: Sends that came to no acknowledgement.
        given: Messages that came, each counted once.
        again: Deliveries beyond the first of a message.
    """

    work: str
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    given: int = 0
    again: int = 0
    _seen: bytearray = field(default_factory=bytearray)
    _waiting: set[int] = field(default_factory=set)

    def next_number(self) -> int:
        """Returns the number of a message that is about to be sent."""
        self.sent += 1
        return self.sent - 1

    def acknowledge(self, number: int) -> None:
        """A broker has acknowledged a message, which may have come already."""
        self.acknowledged += 1
        if not self.has_come(number):
            self._waiting.add(number)

    def give(self, number: int) -> None:
        """A consumer was given a message."""
        if self.has_come(number):
            self.again += 1
            return
        at, bit = divmod(number, 8)
        if at >= len(self._seen):
            self._seen.extend(bytes(at + 1 - len(self._seen)))
        self._seen[at] |= 1 << bit
        self._waiting.discard(number)
        self.given += 1

    def has_come(self, number: int) -> bool:
        """Whether a consumer was given a message."""
        at, bit = divmod(number, 8)
        return at < len(self._seen) and bool(self._seen[at] & (1 << bit))

    def missing(self) -> list[int]:
        """Returns what was acknowledged and was given to nobody yet, the oldest first."""
        return sorted(self._waiting)

    @property
    def waiting(self) -> int:
        """How many messages that were acknowledged have not come yet."""
        return len(self._waiting)


class Ledger:
    """The accounts of all works, and the rules that were broken.

    Attributes:
        accounts: By work.
        flaws: What was broken first.
        flaw_count: How often any rule was broken.
    """

    def __init__(self, works: tuple[str, ...], ordered: tuple[str, ...] = ()) -> None:
        """Opens accounts.

        Args:
            works: Their names.
            ordered: Those that are consumed in order.
        """
        self.accounts = {work: Account(work) for work in works}
        self.flaws: list[Flaw] = []
        self.flaw_count = 0
        self._ordered = ordered
        self._ends: dict[tuple[str, int], int] = {}

    def give(
        self, work: str, number: int, *, due_ms: int = 0, stored_ms: int = 0, is_wanted: bool = True
    ) -> None:
        """A consumer was given a message.

        Args:
            work: Its work.
            number: Its number.
            due_ms: When it may be stored in its topic at the earliest, Unix ms.
            stored_ms: When it was.
            is_wanted: Whether it is to be given to anybody.
        """
        account = self.accounts.get(work)
        if account is None or number >= account.sent:
            self._broken("unknown", f"{work} {number} was sent by nobody")
            return
        if stored_ms < due_ms:
            self._broken("early", f"{work} {number} came {due_ms - stored_ms} ms before its time")
        if not is_wanted:
            self._broken("unwanted", f"{work} {number} was rolled back")
        account.give(number)

    def at_offset(self, work: str, queue_id: int, offset: int) -> None:
        """A consumer in order was given what lies at an offset."""
        if work not in self._ordered:
            return
        end = self._ends.get((work, queue_id), 0)
        if offset > end:
            text = f"{work} {queue_id}: {offset} was given, and what lies at {end} was not"
            self._broken("skipped", text)
        self._ends[work, queue_id] = max(end, offset + 1)

    def waiting(self) -> int:
        """Returns how many messages of all works have not come yet."""
        return sum(account.waiting for account in self.accounts.values())

    def close(self) -> None:
        """Nothing more comes: what is missing is lost."""
        for account in self.accounts.values():
            for number in account.missing():
                self._broken("lost", f"{account.work} {number} was given to nobody")

    def _broken(self, kind: str, text: str) -> None:
        self.flaw_count += 1
        if len(self.flaws) < _FLAWS_SHOWN:
            self.flaws.append(Flaw(kind, text))
