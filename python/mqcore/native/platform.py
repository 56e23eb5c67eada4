"""Checks whether this machine can run the extension: Linux x86-64 or aarch64, glibc 2.28 or newer.

Asked before the extension is loaded, so that the refusal is a sentence and no linker message.
"""

import os
import platform
import sys

_MACHINES = ("x86_64", "aarch64")
_GLIBC_MIN = (2, 28)


def refusal(system: str, machine: str, libc: str) -> str | None:
    """Returns why mqcore cannot run on such a machine, or None when it can.

    Args:
        system: As `sys.platform` has it.
        machine: As `platform.machine()` has it.
        libc: Name and version of the C library, as `os.confstr("CS_GNU_LIBC_VERSION")` has it;
            empty where there is no glibc.
    """
    needs = "mqcore runs on Linux x86-64 and aarch64 with glibc 2.28 or newer"
    if system != "linux":
        return f"{needs}; this is {system}"
    if machine not in _MACHINES:
        return f"{needs}; this is {machine}"
    name, _, version = libc.partition(" ")
    if name != "glibc":
        return f"{needs}; this system has another C library"
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < _GLIBC_MIN:
        return f"{needs}; this is glibc {version}"
    return None


def check() -> None:
    """Refuses a machine that cannot run the extension.

    Raises:
        ImportError: It cannot; the text gives what is needed.
    """
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):
        libc = ""
    why = refusal(sys.platform, platform.machine(), libc)
    if why is not None:
        raise ImportError(why)
