r"""The text form of what was sent and received: every byte of it, in lines that can be compared.

    == 3 good 30: the end of a queue
    A> 000000a1 0000009d
     h {"code":30,...}
    A< 00000059 00000055
     h {"code":0,...}
     b text

The two numbers are the first eight bytes of the frame, ` h` and ` b` begin header and body. Bytes
that are no printable ASCII are written as `\xNN`, a line feed as `\n` with a line break behind it.
`-- masked NAME` follows a frame in which a mask took something out.
"""

import difflib

from recorded.frames import Frame

__all__ = ["difference", "escaped", "frame_lines"]

_LINE_FEED = 0x0A
_BACKSLASH = 0x5C


def escaped(data: bytes) -> list[str]:
    """Returns the lines that bytes are written as; none for no bytes."""
    lines: list[str] = []
    line: list[str] = []
    for byte in data:
        if byte == _LINE_FEED:
            lines.append("".join([*line, "\\n"]))
            line = []
        elif byte == _BACKSLASH:
            line.append("\\\\")
        elif 0x20 <= byte < 0x7F:
            line.append(chr(byte))
        else:
            line.append(f"\\x{byte:02x}")
    return [*lines, "".join(line)] if line else lines


def frame_lines(title: str, frame: Frame, masks: list[str]) -> list[str]:
    """Returns the lines of a frame."""
    length, mark = frame.lengths
    return [
        f"{title} {length:08x} {mark:08x}",
        *(f" h {line}" for line in escaped(frame.header)),
        *(f" b {line}" for line in escaped(frame.body)),
        *(f" -- masked {name}" for name in masks),
    ]


def difference(expected: str, got: str) -> str | None:
    """Returns the first step in which two transcripts differ: request, expected, got; else None."""
    if expected == got:
        return None
    for was, now in zip(_steps(expected), _steps(got), strict=False):
        if was != now:
            changes = difflib.ndiff(was, now)
            request = [line for line in was if line[1:2] != "<"][:4]
            return "\n".join(
                [
                    "the first step that differs:",
                    *(f"  {line}" for line in request),
                    "expected:",
                    *(f"  {line}" for line in was),
                    "got:",
                    *(f"  {line}" for line in now),
                    "difference:",
                    *(f"  {line.rstrip()}" for line in changes if line[0] != " "),
                ]
            )
    counts = len(_steps(expected)), len(_steps(got))
    return f"{counts[0]} steps are recorded, and {counts[1]} were taken"


def _steps(text: str) -> list[list[str]]:
    """Returns the lines of each step; the lines before the first are one too."""
    steps: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.startswith("== "):
            steps.append([])
        steps[-1].append(line)
    return steps
