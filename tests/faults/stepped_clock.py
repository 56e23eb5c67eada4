"""The wall clock of programs under test, stepped and slewed while they run.

    clock = stepped_clock(tmp_path)            # None where there is no C compiler
    Program(clock.within(OURS), ...)
    clock.step(86_400.0)                       # a day ahead, for everything of that program
    clock.slew(0.0005)                         # from now on 500 ppm too fast
    clock.reset()

A library that is loaded before the C library answers for it (`stepped_clock.c`); the machine's
clock, and the monotonic one, stay as they are. Knows programs by their command lines alone.
"""

import mmap
import shutil
import struct
import subprocess
import time
from pathlib import Path

from faults.prefixed import prefixed
from interop.servers import Software

_SOURCE = Path(__file__).with_name("stepped_clock.c")
_SHOWN = struct.Struct("=4q")
_NS = 1_000_000_000


class SteppedClock:
    """What such programs take for the time."""

    def __init__(self, library: Path, file: Path) -> None:
        """Makes a clock that is right; see `stepped_clock`."""
        file.write_bytes(bytes(_SHOWN.size))
        self._library = library
        self._file = file
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), _SHOWN.size)
        self._step_ns = 0
        self._since_ns = 0
        self._rate = 0

    def within(self, software: Software) -> Software:
        """Returns the programs of a software with this clock."""
        library, file = f"LD_PRELOAD={self._library}", f"MQCORE_STEPPED_CLOCK={self._file}"
        return prefixed(software, "env", library, file)

    def now_s(self) -> float:
        """Returns what it shows, Unix seconds."""
        now = time.time_ns()
        slewed = (now - self._since_ns) * self._rate // _NS
        return (now + self._step_ns + slewed) / _NS

    def step(self, seconds: float) -> None:
        """Steps it, ahead or back."""
        self._step_ns += round(seconds * _NS)
        self._write()

    def slew(self, rate: float) -> None:
        """Lets it go faster from now on, by a share of the true time; negative: slower."""
        now = time.time_ns()
        self._step_ns += (now - self._since_ns) * self._rate // _NS
        self._since_ns, self._rate = now, round(rate * _NS)
        self._write()

    def reset(self) -> None:
        """Makes it right, by a step where it is wrong."""
        self._step_ns = self._since_ns = self._rate = 0
        self._write()

    def _write(self) -> None:
        sequence, *_ = _SHOWN.unpack(self._map[:])
        self._map[:8] = struct.pack("=q", sequence + 1)
        self._map[8:] = struct.pack("=3q", self._step_ns, self._since_ns, self._rate)
        self._map[:8] = struct.pack("=q", sequence + 2)


def stepped_clock(directory: Path) -> SteppedClock | None:
    """Returns a clock whose files are in a directory; None where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    directory.mkdir(parents=True, exist_ok=True)
    library = directory / "stepped_clock.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE)]
    subprocess.run(command, check=True, capture_output=True)
    return SteppedClock(library, directory / "clock")
