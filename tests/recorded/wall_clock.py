"""Sets the wall clock of this process by hand, for Python and for the native extension alike.

The store reads the time of the machine and takes no other clock from Python. So the process is
started with a small library in front of the C library (`wall_clock.c`, built here by `cc`), which
answers `clock_gettime(CLOCK_REALTIME)`. Timeouts go by the monotonic clock, which is left alone.
"""

import ctypes
import os
import subprocess
from pathlib import Path
from typing import Final

__all__ = ["environment_with", "is_loaded", "set_wall_clock_ms"]

_SOURCE: Final = Path(__file__).with_name("wall_clock.c")
_SYMBOL: Final = "set_wall_clock_ms"


def environment_with(directory: Path) -> dict[str, str]:
    """Returns the environment of a process whose wall clock is set by hand.

    Args:
        directory: Where the library is built.

    Raises:
        CalledProcessError: The C compiler refuses; it is the one that Rust links with.
    """
    library = directory / "wall_clock.so"
    compiler = os.environ.get("CC", "cc")
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
    subprocess.run([compiler, *flags, "-o", str(library), str(_SOURCE)], check=True)
    return os.environ | {"LD_PRELOAD": str(library), "TZ": "UTC"}


def is_loaded() -> bool:
    """Returns whether this process was started with the library."""
    return hasattr(ctypes.CDLL(None), _SYMBOL)


def set_wall_clock_ms(now_ms: int) -> None:
    """Sets the wall clock of this process.

    Args:
        now_ms: Unix ms; negative for the machine's clock.

    Raises:
        AttributeError: The process was started without the library.
    """
    getattr(ctypes.CDLL(None), _SYMBOL)(ctypes.c_int64(now_ms))
