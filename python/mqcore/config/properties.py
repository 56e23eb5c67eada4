r"""Reads and changes Java properties files, as brokers have them (`java.util.Properties.load`).

ISO-8859-1 with `\uXXXX` escapes; `#` and `!` begin comments; `=`, `:` or white space separate a
key from its value; a backslash at the end of a line continues it. Knows no key.
"""

import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from mqcore.errors import ConfigFileError
from mqcore.native import write_state

# All settings with their values are a hundredth of it; sixteen MiB of a request took seconds.
_CHARS_MAX = 1 << 20
_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# No text has any of these: line ends, tabs and form feeds are the only controls in one.
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
# A configuration file is some kilobytes; more is another file given by mistake.
LEN_MAX_BYTES = 1 << 20
# Held from the read of a file to its write.
_CHANGING = threading.Lock()


def read_properties(path: str | Path) -> dict[str, str]:
    """Returns the keys and values of a file, trimmed; of a key that occurs twice the last value.

    Args:
        path: The file.

    Raises:
        ConfigFileError: It cannot be read, is no text, or holds a bad escape.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        why = error.strerror or str(error)
        raise _refused(path, 0, why) from error
    if len(content) > LEN_MAX_BYTES:
        raise _refused(path, 0, f"it has {len(content)} bytes, a configuration at most 1 MiB")
    text = content.decode("iso-8859-1")
    found = _CONTROLS.search(text)
    if found is not None:
        line = text.count("\n", 0, found.start()) + 1
        raise _refused(
            path,
            line,
            f"it has a byte {ord(found[0]):#04x}: a properties file is a text of KEY=VALUE",
        )
    return parse_properties(text, path)


def parse_properties(text: str, path: str | Path = "text") -> dict[str, str]:
    """Returns the keys and values of a text.

    Args:
        text: The text.
        path: What to call it in an error.

    Raises:
        ConfigFileError: It holds a bad escape, or is longer than any configuration is.
    """
    if len(text) > _CHARS_MAX:
        raise _refused(Path(path), 0, f"{len(text)} characters, at most {_CHARS_MAX}")
    found = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            found[_unescaped(key)] = _unescaped(value).strip()
        except ValueError as error:
            raise _refused(Path(path), number, str(error)) from error
    return found


def file_with(text: str, changes: Mapping[str, str]) -> str:
    """Returns a properties file with changes: lines of those keys replaced, the rest as it was."""
    left = dict(changes)
    lines = []
    for line in text.splitlines():
        match = re.match(r"\s*([^#!\s=:]+)\s*[=:]", line)
        if match is not None and match[1] in changes:
            if match[1] in left:
                lines.append(f"{match[1]}={left.pop(match[1])}")
            continue
        lines.append(line)
    lines.extend(f"{key}={value}" for key, value in left.items())
    return "\n".join(lines) + "\n"


def change_file(path: Path, changes: Mapping[str, str]) -> None:
    """Rewrites a properties file, which is Latin-1; escapes stay as they were written. Blocks.

    One change after the other in this process: a name server and its controller share a file.

    Raises:
        StoreError: It cannot be written.
        OSError: It cannot be read.
    """
    with _CHANGING:
        text = path.read_text(encoding="iso-8859-1") if path.exists() else ""
        write_state(path, file_with(text, changes).encode("iso-8859-1", "replace"))


def _refused(path: Path, line: int, why: str) -> ConfigFileError:
    location = f"{path}:{line}" if line else f"{path}"
    return ConfigFileError(f"{location}: {why}", path=str(path), line=line, why=why)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields each line with its number, continuations joined, comments and blanks left out."""
    joined = ""
    first = 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(_BLANKS)
        if not joined:
            if not line or line[0] in "#!":
                continue
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            joined += line[:-1]
            continue
        yield first, joined + line
        joined = ""
    if joined:
        yield first, joined


def _split(line: str) -> tuple[str, str]:
    """Splits a line at its first separator that no backslash escapes."""
    at = 0
    while at < len(line) and line[at] not in "=:" + _BLANKS:
        at += 2 if line[at] == "\\" else 1
    rest = line[at:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:at], rest


def _unescaped(text: str) -> str:
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\" or at == len(text):
            out.append(char)
            continue
        char = text[at]
        at += 1
        if char != "u":
            out.append(_ESCAPES.get(char, char))
            continue
        digits = text[at : at + 4]
        if len(digits) < 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
            raise ValueError(f"\\u{digits} is no character: four hexadecimal digits must follow")
        out.append(chr(int(digits, 16)))
        at += 4
    # Two halves of a character beyond the first 65536 become one again.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
