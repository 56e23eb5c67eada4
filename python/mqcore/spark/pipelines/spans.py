"""Ranges of a source and what is missing between them. Pure arithmetic over half-open ranges.

A source is a text: `store:NAME` counts bytes of a commit log, `topic:TOPIC@BROKER:QUEUE` messages
of a queue. Nothing here knows which.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = ["Range", "Span", "digest_of", "merged", "missing", "stepped"]

# A half-open range of offsets.
Range = tuple[int, int]

_DIGEST_LETTERS = 12


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A range of one source.

    Attributes:
        source: What is counted.
        begin: The first offset.
        end: The offset behind the last one.
    """

    source: str
    begin: int
    end: int

    def overlaps(self, other: "Span") -> bool:
        """Returns whether both hold an offset of the same source."""
        return self.source == other.source and self.begin < other.end and other.begin < self.end


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Returns the same offsets as the fewest ranges, ascending; empty ranges vanish."""
    found: list[Range] = []
    for begin, end in sorted(ranges):
        if begin >= end:
            continue
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def missing(begin: int, end: int, covered: Iterable[Range]) -> list[Range]:
    """Returns what of [begin, end) no covered range holds, ascending."""
    gaps: list[Range] = []
    at = begin
    for from_offset, to_offset in merged(covered):
        if from_offset >= end:
            break
        if from_offset > at:
            gaps.append((at, from_offset))
        at = max(at, to_offset)
    if at < end:
        gaps.append((at, end))
    return gaps


def stepped(begin: int, end: int, step: int) -> Iterator[Range]:
    """Cuts a range at the multiples of a step, so that the same offsets give the same cuts.

    Args:
        begin: The first offset.
        end: The offset behind the last one.
        step: A positive number.
    """
    at = begin
    while at < end:
        cut = min(end, (at // step + 1) * step)
        yield at, cut
        at = cut


def digest_of(spans: Iterable[Span]) -> str:
    """Returns some letters that only these spans have."""
    text = "\n".join(f"{span.source}\t{span.begin}\t{span.end}" for span in spans)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LETTERS]
