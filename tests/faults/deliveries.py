"""Checks what became of messages that a broker delivers by itself, across changes of its role.

What was sent, what lies in the topics at the end, and what consumers were given are compared. Pure:
who records it is not known here.

| kind | rule |
|---|---|
| LOST | what was to be delivered lies in its topic, and was given to a consumer |
| EARLY | nothing lies in its topic before its time |
| UNWANTED | what was rolled back lies nowhere |
| AGAIN | what was sent once lies there once; twice only where a change of role explains it |
| SKIPPED | a consumer in order is given what lies before a message before that message |

What may come twice is in the guide: deliveries of the last seconds before a role changed
(`grace_ms`). A message that its producer had to send again may be stored twice, and counts for
nothing.
"""

import enum
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Deliveries", "Flaw", "Given", "Job", "Kind", "Stored"]


class Kind(enum.Enum):
    """Which rule was broken."""

    LOST = "lost"
    EARLY = "early"
    UNWANTED = "unwanted"
    AGAIN = "again"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Job:
    """A message that was acknowledged.

    Attributes:
        work: The kind of work that it is a part of; its topic has the same name.
        message_id: What no other message has.
        due_ms: When it may be delivered at the earliest, Unix ms.
        is_wanted: Whether it is to be delivered at all.
        is_sent_once: Whether its producer has sent it once.
    """

    work: str
    message_id: str
    due_ms: float
    is_wanted: bool = True
    is_sent_once: bool = True


@dataclass(frozen=True, slots=True)
class Stored:
    """A copy of a message in its topic at the end.

    Attributes:
        work: As of its job.
        message_id: As of its job.
        stored_ms: When it was stored, Unix ms.
        queue_id: The queue that it lies in.
        offset: Its offset there.
    """

    work: str
    message_id: str
    stored_ms: int
    queue_id: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Given:
    """A message that a consumer was given.

    Attributes:
        work: As of its job.
        message_id: As of its job.
        queue_id: The queue that it was given from.
        offset: Its offset there.
    """

    work: str
    message_id: str
    queue_id: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Flaw:
    """A rule that was broken, and by what."""

    kind: Kind
    text: str


@dataclass(slots=True)
class Deliveries:
    """Everything that was seen.

    Attributes:
        jobs: What was acknowledged.
        stored: What lies in the topics.
        given: What consumers were given, in order.
        changes_ms: From when to when roles changed, Unix ms.
        grace_ms: How long before a change a work's delivery may have been that comes again; a work
            that is not named never delivers twice.
        ordered: Works that are consumed in order.
    """

    jobs: list[Job] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)
    given: list[Given] = field(default_factory=list)
    changes_ms: list[tuple[float, float]] = field(default_factory=list)
    grace_ms: Mapping[str, float] = field(default_factory=dict)
    ordered: Sequence[str] = ()

    def flaws(self) -> list[Flaw]:
        """Returns every broken rule; none where all is well."""
        rules = (self._lost(), self._early(), self._unwanted(), self._again(), self._skipped())
        return [flaw for rule in rules for flaw in rule]

    def doubles(self) -> dict[str, tuple[int, int, int]]:
        """Returns by work: messages, copies beyond the first, deliveries beyond the first."""
        stored, given = self._copies(), Counter((one.work, one.message_id) for one in self.given)
        found: dict[str, tuple[int, int, int]] = {}
        for job in self.jobs:
            key = job.work, job.message_id
            jobs, copies, times = found.get(job.work, (0, 0, 0))
            more = max(0, len(stored.get(key, ())) - 1)
            found[job.work] = jobs + 1, copies + more, times + max(0, given[key] - 1)
        return found

    def _copies(self) -> dict[tuple[str, str], list[int]]:
        found: dict[tuple[str, str], list[int]] = defaultdict(list)
        for each in self.stored:
            found[each.work, each.message_id].append(each.stored_ms)
        return found

    def _lost(self) -> Iterator[Flaw]:
        copies = self._copies()
        given = {(each.work, each.message_id) for each in self.given}
        for job in self.jobs:
            key = job.work, job.message_id
            if job.is_wanted and key not in copies:
                yield Flaw(Kind.LOST, f"{job} is nowhere")
            elif job.is_wanted and key not in given:
                yield Flaw(Kind.LOST, f"{job} was given to nobody: {self._copies_of(job)}")

    def _copies_of(self, job: Job) -> str:
        """Returns where the copies of a message lie, and what was given of these queues last."""
        found = []
        for each in self.stored:
            if (each.work, each.message_id) == (job.work, job.message_id):
                given = [
                    one.offset
                    for one in self.given
                    if (one.work, one.queue_id) == (each.work, each.queue_id)
                ]
                found.append(f"{each}, of that queue were given {given[-8:]}")
        return "; ".join(found)

    def _early(self) -> Iterator[Flaw]:
        copies = self._copies()
        for job in self.jobs:
            for stored_ms in copies.get((job.work, job.message_id), ()):
                if stored_ms < job.due_ms:
                    text = f"{job} was there {job.due_ms - stored_ms:.0f} ms before its time"
                    yield Flaw(Kind.EARLY, text)

    def _unwanted(self) -> Iterator[Flaw]:
        copies = self._copies()
        for job in self.jobs:
            if not job.is_wanted and (job.work, job.message_id) in copies:
                yield Flaw(Kind.UNWANTED, f"{job} is there")

    def _again(self) -> Iterator[Flaw]:
        copies = self._copies()
        for job in self.jobs:
            times_ms = sorted(copies.get((job.work, job.message_id), ()))
            if not job.is_sent_once or len(times_ms) < 2:
                continue
            grace_ms = self.grace_ms.get(job.work, -1.0)
            # A copy is explained by a change that came behind the one before it, soon enough.
            for before_ms, stored_ms in itertools.pairwise(times_ms):
                is_explained = any(
                    before_ms <= ended_ms and began_ms <= min(stored_ms, before_ms + grace_ms)
                    for began_ms, ended_ms in self.changes_ms
                )
                if not is_explained:
                    yield Flaw(Kind.AGAIN, f"{job} is there twice: at {before_ms} and {stored_ms}")

    def _skipped(self) -> Iterator[Flaw]:
        ends: dict[tuple[str, int], int] = {}
        for each in self.given:
            if each.work not in self.ordered:
                continue
            end = ends.setdefault((each.work, each.queue_id), 0)
            if each.offset > end:
                yield Flaw(Kind.SKIPPED, f"{each} was given, and what lies at {end} was not")
            ends[each.work, each.queue_id] = max(end, each.offset + 1)
