"""The fields of answers that differ from machine to machine, or from run to run, and why.

A mask takes out exactly one value and leaves its name there; the lengths in front of the frame are
then those of the masked frame. Everything that no mask names is compared byte for byte, but for the
loopback address of the process, which is written `127.own.address` wherever it occurs: that is
exactly as long, and no other byte changes with it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from recorded.conversation import OWN
from recorded.frames import Frame

__all__ = ["MASKS", "Mask", "masked", "owned", "unowned"]


@dataclass(frozen=True, slots=True)
class Mask:
    """One value that is taken out.

    Attributes:
        name: Its name, as transcripts show it.
        codes: The request codes whose answers contain it.
        value: The value, as the group `value` of a pattern over the body.
        why: Why it is not the same everywhere.
    """

    name: str
    codes: frozenset[int]
    value: re.Pattern[bytes]
    why: str


_RUNTIME: Final = frozenset({28})


def _runtime(name: str, pattern: bytes, why: str) -> Mask:
    return Mask(name, _RUNTIME, re.compile(pattern), why)


MASKS: Final[Sequence[Mask]] = (
    _runtime(
        "disk-capacity",
        rb'"commitLogDirCapacity":"(?P<value>[^"]*)"',
        "size of the machine's disk",
    ),
    _runtime(
        "disk-ratio",
        rb'"(?:commitLogDiskRatio\w*|consumeQueueDiskRatio|commitLogDiskRatio_[^"]*)":"(?P<value>[^"]*)"',
        "how full the machine's disk is",
    ),
    _runtime(
        "times-of-requests",
        rb'"(?:putLatency\d+|putMessageDistributeTime|(?:put|get)MessageEntireTimeMax)":"(?P<value>[^"]*)"',
        "how long requests took",
    ),
)


def unowned(frame: Frame, address: str) -> Frame:
    """Returns a frame with `OWN` in place of the loopback address of the process."""
    return _replaced(frame, address, OWN)


def owned(frame: Frame, address: str) -> Frame:
    """Returns a frame with the loopback address of the process in place of `OWN`."""
    return _replaced(frame, OWN, address)


def _replaced(frame: Frame, old: str, new: str) -> Frame:
    assert len(old) == len(new), "lengths in frames must stay what they are"
    header = frame.header.replace(old.encode(), new.encode())
    return replace(frame, header=header, body=frame.body.replace(old.encode(), new.encode()))


def masked(code: int, frame: Frame) -> tuple[Frame, list[str]]:
    """Returns the answer to a request with its masks applied, and the names of those that were.

    Args:
        code: The code of the request.
        frame: The answer.
    """
    body, names = frame.body, []
    for mask in MASKS:
        if code not in mask.codes:
            continue
        parts, at = [], 0
        for found in mask.value.finditer(body):
            begin, end = found.span("value")
            parts += [body[at:begin], f"<{mask.name}>".encode()]
            at = end
        if parts:
            body = b"".join([*parts, body[at:]])
            names.append(mask.name)
    return replace(frame, body=body), names
