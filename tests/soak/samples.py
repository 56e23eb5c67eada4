"""What processes occupy, once a second, and whether it grows.

    with Sampler(pids, stores) as sampler:      # a thread of its own
        ...
    sampler.series["broker0"].slope("memory", settle_s=600)

Memory is what is anonymous: files that are mapped go when others need the space. A process that is
started again begins anew: a slope is that of least squares of all its lives, each with a height of
its own, and leaves out the beginning of each. Knows `/proc`, no program.
"""

import os
import threading
import time
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np

__all__ = ["COLUMNS", "Sampler", "Series", "Slope"]

COLUMNS: Final = ("memory", "descriptors", "threads", "disk")
_PERIOD_S: Final = 1.0
# The files of a store are looked at less often: there are hundreds.
_DISK_PERIODS: Final = 5
# In which a process fills what it keeps: left out of every life.
_WARM_UP_S: Final = 60.0
# Fewer samples have no slope.
_SAMPLES_MIN: Final = 30
_BLOCK_BYTES: Final = 512
_HOUR_S: Final = 3_600.0


@dataclass(frozen=True, slots=True)
class Slope:
    """How a figure changes.

    Attributes:
        per_hour: By how much in an hour.
        error: Its standard error, if samples that lie apart are independent of each other.
        samples: How many samples it is of.
    """

    per_hour: float
    error: float
    samples: int


@dataclass(slots=True)
class Series:
    """The samples of one process.

    Attributes:
        seconds: When each was taken, since the begin.
        pids: Of which process each is.
        values: The figures by name, one of each sample.
    """

    seconds: "array[float]" = field(default_factory=lambda: array("d"))
    pids: "array[int]" = field(default_factory=lambda: array("q"))
    values: "dict[str, array[float]]" = field(
        default_factory=lambda: {name: array("d") for name in COLUMNS}
    )

    def add(self, second: float, pid: int, values: Mapping[str, float]) -> None:
        """Takes a sample."""
        self.seconds.append(second)
        self.pids.append(pid)
        for name in COLUMNS:
            self.values[name].append(values[name])

    @property
    def lives(self) -> int:
        """How many processes there were."""
        return len(set(self.pids))

    def slope(self, name: str, settle_s: float) -> Slope | None:
        """Returns the slope of a figure; None of too few samples.

        Args:
            name: One of `COLUMNS`.
            settle_s: What lies before is left out.
        """
        at, pids = np.array(self.seconds), np.array(self.pids)
        value = np.array(self.values[name])
        times, heights = [], []
        for pid in dict.fromkeys(self.pids):
            own = pids == pid
            own &= at >= max(settle_s, float(at[own][0]) + _WARM_UP_S)
            if own.sum() >= _SAMPLES_MIN:
                times.append(at[own] - at[own].mean())
                heights.append(value[own] - value[own].mean())
        if not times:
            return None
        time_s, height = np.concatenate(times), np.concatenate(heights)
        spread = float((time_s**2).sum())
        per_s = float((time_s * height).sum()) / spread
        left = height - per_s * time_s
        error = float(np.sqrt((left**2).sum() / max(1, len(left) - len(times) - 1) / spread))
        return Slope(per_s * _HOUR_S, error * _HOUR_S, len(left))


class Sampler:
    """Takes samples of processes until it is ended.

    Attributes:
        series: The samples by the names of processes.
        failed: What ended it before its time.
    """

    def __init__(
        self, pids: Callable[[], Mapping[str, int]], stores: Mapping[str, Path] | None = None
    ) -> None:
        """Prepares it; as a context manager it takes samples.

        Args:
            pids: Returns the processes that run, by name.
            stores: Their directories, of those that have one.
        """
        self.series: dict[str, Series] = {}
        self.failed: list[BaseException] = []
        self._pids, self._stores = pids, stores or {}
        self._disk: dict[str, float] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler")

    def __enter__(self) -> Self:
        """Begins."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._sample()
        except BaseException as error:
            self.failed.append(error)

    def _sample(self) -> None:
        began = time.monotonic()
        for number in range(1 << 62):
            due = began + number * _PERIOD_S
            if self._is_over.wait(max(0.0, due - time.monotonic())):
                return
            if number % _DISK_PERIODS == 0:
                self._disk = {name: disk_bytes(path) for name, path in self._stores.items()}
            for name, pid in self._pids().items():
                found = occupied(pid)
                if found is not None:
                    found["disk"] = self._disk.get(name, 0.0)
                    second = time.monotonic() - began
                    self.series.setdefault(name, Series()).add(second, pid, found)


def occupied(pid: int) -> dict[str, float] | None:
    """Returns memory, descriptors and threads of a process; None of one that has ended."""
    folder = Path(f"/proc/{pid}")
    try:
        lines = (folder / "status").read_text(encoding="utf-8", errors="replace").splitlines()
        descriptors = sum(1 for _ in (folder / "fd").iterdir())
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    # A process that has died and was not waited for has no memory.
    if "RssAnon" not in fields:
        return None
    memory = int(fields["RssAnon"].split()[0]) * 1_024
    threads = int(fields["Threads"])
    return {"memory": memory, "descriptors": descriptors, "threads": threads}


def disk_bytes(folder: Path) -> float:
    """Returns what the files below a folder take on their disk."""
    found = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                found += Path(parent, name).stat().st_blocks * _BLOCK_BYTES
            except OSError:  # It was removed meanwhile.
                continue
    return float(found)
