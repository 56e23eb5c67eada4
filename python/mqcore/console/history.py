"""Figures of the last hours, sampled in the background: rates, lag, disk, and findings.

Bounded: rings of ten seconds for an hour, per broker. Pages read it and wait for nothing.
"""

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mqcore.admin import Admin
from mqcore.admin.cluster_findings import cluster_findings
from mqcore.clock import wall_ms
from mqcore.console.asking import Kept, Questions, Silences
from mqcore.console.charts import Spark, spark
from mqcore.errors import MQError
from mqcore.model.reading import first_number

if TYPE_CHECKING:
    from mqcore.model.findings import Finding

__all__ = ["History", "Series"]

_log = logging.getLogger("mqcore.console")

SAMPLE_S: Final = 10.0
# An hour.
POINTS: Final = 360
# Brokers that are drawn; the others are counted in the sums.
BROKERS_MAX: Final = 500
# Every how many samples lag is summed, and every how many the cluster is looked at.
_LAG_EVERY: Final = 3
_FINDINGS_EVERY: Final = 6


@dataclass(slots=True)
class Series:
    """One figure over time.

    Attributes:
        points: Unix ms and value, the oldest first.
    """

    points: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=POINTS))

    def add(self, at_ms: int, value: float) -> None:
        """Adds a point; the oldest goes where the ring is full."""
        self.points.append((at_ms, value))

    @property
    def last(self) -> float | None:
        """The newest value, None before the first."""
        return self.points[-1][1] if self.points else None

    @property
    def line(self) -> Spark:
        """The line of its values."""
        return spark(list(self.points))


class History:
    """What is sampled.

    Attributes:
        into: Messages stored per second, of the cluster, and by broker address.
        out: Messages handed out per second, likewise.
        lag: Messages that wait for groups.
        disk: Share of the disk in use, by broker address.
        runtime: The figures of each broker that were read last.
        findings: What was found; None before the first look.
        looked_ms: When that was, Unix ms.
    """

    def __init__(self, admin: Admin, *, question_s: float) -> None:
        """Takes the administrator; `run` samples."""
        self._admin = admin
        self._question_s = question_s
        self._silences, self._kept = Silences(), Kept()
        self.into: dict[str, Series] = {"": Series()}
        self.out: dict[str, Series] = {"": Series()}
        self.lag = Series()
        self.disk: dict[str, Series] = {}
        self.runtime: dict[str, dict[str, str]] = {}
        self.findings: list[Finding] | None = None
        self.looked_ms = 0
        self._round = 0

    async def run(self) -> None:
        """Samples until it is cancelled."""
        while True:
            try:
                await self.sample()
            except MQError as error:
                _log.debug("not sampled: %s", error)
            await asyncio.sleep(SAMPLE_S)

    async def sample(self) -> None:
        """Takes one sample.

        Raises:
            MQError: No name server answers.
        """
        asks = Questions(
            self._admin,
            self._silences,
            self._kept,
            question_s=self._question_s,
            page_s=SAMPLE_S,
        )
        at_ms = wall_ms()
        addresses = {each.address: each.address for each in (await asks.brokers())[:BROKERS_MAX]}
        found = await asks.each(addresses, "figures", self._admin.brokers.runtime)
        self.runtime = found
        self._forget_gone(set(addresses))
        for name, series in (("putTps", self.into), ("getTransferredTps", self.out)):
            total = 0.0
            for address, table in found.items():
                value = first_number(table.get(name, ""))
                total += value
                series.setdefault(address, Series()).add(at_ms, value)
            series[""].add(at_ms, total)
        for address, table in found.items():
            used = first_number(table.get("commitLogDiskRatio", ""))
            self.disk.setdefault(address, Series()).add(at_ms, used)
        if self._round % _LAG_EVERY == 0:
            progress = await asks.progress()
            self.lag.add(at_ms, float(sum(each.lag for each in progress.values())))
        if self._round % _FINDINGS_EVERY == 0:
            await self.look()
        self._round += 1

    async def look(self) -> None:
        """Looks at the cluster for findings.

        Raises:
            MQError: No name server answers.
        """
        try:
            async with asyncio.timeout(SAMPLE_S):
                facts = await self._admin.facts()
        except TimeoutError:
            return
        self.findings = cluster_findings(facts)
        self.looked_ms = wall_ms()

    def _forget_gone(self, known: set[str]) -> None:
        for table in (self.into, self.out, self.disk):
            for address in [each for each in table if each and each not in known]:
                del table[address]
