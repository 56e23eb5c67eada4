"""What works beside the senders and the consumer of a fault: official clients, and timers.

    with beside(With.JAVA, it) as other:
        ...                              # harm
        other.rest()                     # nothing more is sent, everything is delivered
    other.count(figures)                 # when the broker has stopped

Knows one broker; not what is done to it.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from faults.alone import Alone
from faults.figures import Figures
from faults.list import With
from faults.works import DELAYED, TIMED, WORKS, Works
from interop.driver import driving
from interop.patience import eventually
from interop.test_failover_clients import Flood, java_flood
from mqcore import Admin, Inspection
from mqcore.remoting import Client

_VERSION = "5.3.3"
_TOPIC = "Official"
_POLL_MS = 1_000
_TIMEOUT_MS = 3_000
# Three tries of a send, each of which may be stored.
_TRIES = 3


class Beside(Protocol):
    """Somebody who works."""

    def rest(self) -> None:
        """Sends nothing more, and returns when what was sent is delivered."""

    def count(self, figures: Figures) -> None:
        """Adds what the stopped broker has of it."""


class _Java:
    """A producer of the official Java client."""

    def __init__(self, it: Alone, flood: Flood) -> None:
        self._it = it
        self._flood = flood
        self._sent: list[str] = []

    def rest(self) -> None:
        self._sent = self._flood.end()

    def count(self, figures: Figures) -> None:
        there = Counter(_bodies(self._it, {_TOPIC}))
        figures.acknowledged += len(self._sent)
        figures.lost += sum(there[_TOPIC, body] == 0 for body in self._sent)
        figures.doubled += sum(there[_TOPIC, body] > _TRIES for body in self._sent)
        figures.note = f"{len(self._sent):,} of them by the official Java client"
        assert self._sent, "the official client has sent nothing"


class _Works:
    """Everything that a broker does by its clock."""

    def __init__(self, it: Alone, works: Works) -> None:
        self._it = it
        self._works = works
        self._missing: set[tuple[str, str]] = set()

    def rest(self) -> None:
        self._works.rest()
        self._missing = eventually(self._works.missing, lambda missing: not missing)
        if self._missing:
            print(f"not delivered: {Counter(work for work, _ in self._missing)}", flush=True)

    def count(self, figures: Figures) -> None:
        there = Counter(_bodies(self._it, {DELAYED, TIMED}))
        jobs = self._works.jobs
        figures.acknowledged += len(jobs)
        figures.lost += len(self._missing)
        figures.doubled += sum(
            there[job.work, job.message_id] > 1
            for job in jobs
            if job.work in (DELAYED, TIMED) and job.is_sent_once
        )
        waited = sum(job.work in (DELAYED, TIMED) for job in jobs)
        figures.note = f"{waited:,} of them delayed or timed"
        assert waited


def _bodies(it: Alone, topics: set[str]) -> Iterator[tuple[str, str]]:
    for batch in Inspection(it.store).scan():
        for topic, body in zip(batch.topics, batch.stored_bodies, strict=True):
            if topic in topics:
                yield topic, body.decode()


@contextmanager
def beside(kind: With, it: Alone) -> Iterator[Beside]:
    """Begins to work; ends it."""
    if kind is With.JAVA:
        with (
            driving(_VERSION) as driver,
            java_flood(
                driver, it.namesrv, _TOPIC, poll_ms=_POLL_MS, timeout_ms=_TIMEOUT_MS
            ) as flood,
        ):
            eventually(flood.count, bool)
            yield _Java(it, flood)
    else:
        with Admin(it.namesrv) as admin:
            for name in WORKS:
                admin.topics.create(name, queues=4)

        async def find(_: Client) -> str:
            return it.address

        with Works(it.namesrv, find) as works:
            yield _Works(it, works)
