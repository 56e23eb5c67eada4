"""What this process may occupy while something is tried, and may keep of it.

Anonymous memory alone: mapped files go when others need the space. Knows no server.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["bounded_growth", "bounded_peak"]

# What may be kept when all attacks of a test were tried, one after the other.
_GROWTH_MIB_MAX: Final = 512
# Writing it begins a new peak (`proc_pid_clear_refs(5)`).
_RESET_PEAK: Final = "5"


def _mib(field: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) >> 10
    raise AssertionError(f"there is no {field}")


@contextmanager
def bounded_growth() -> Iterator[None]:
    """Fails where more is kept behind the block than before it, beyond a bound."""
    before = _mib("RssAnon")
    yield
    assert _mib("RssAnon") - before < _GROWTH_MIB_MAX


@contextmanager
def bounded_peak(limit_mib: int) -> Iterator[None]:
    """Fails where the block occupied more at any time than before it, and `limit_mib` MiB."""
    Path("/proc/self/clear_refs").write_text(_RESET_PEAK, encoding="ascii")
    before = _mib("VmHWM")
    yield
    assert _mib("VmHWM") - before < limit_mib
