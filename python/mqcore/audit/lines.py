"""The lines of an audit: what each has, how it follows from the one before, what a check finds.

A line is an object of JSON in ASCII: `n` its number, `previous` the SHA-256 of the line before (of
its bytes without the end), `time` in UTC, `event`, `server`, and what the event has. Pure: knows no
file and no request.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

__all__ = [
    "LINE_BYTES_MAX",
    "SECRET",
    "Checked",
    "Ending",
    "Secret",
    "Wanted",
    "checked",
    "hash_of",
    "line_of",
    "masked",
    "parsed",
    "time_text",
    "without_secrets",
]

# What is shown for a secret, and for one that has become another.
SECRET: Final = "***"
_OTHER_SECRET: Final = "*** (another)"
# A longer line leaves out what there was before and after: readers take lines whole.
LINE_BYTES_MAX: Final = 64 << 10
_TOO_LONG: Final = "left out: it is too long"
# A text of a line: names and values, no novels.
_TEXT_CHARS_MAX: Final = 4_096
# Words of names whose values are secrets.
_SECRET_WORDS: Final = ("password", "secret", "signature", "token", "credential")
# The names of signed requests that have no other meaning.
_SIGNING: Final = frozenset({"accesskey", "onschannel"})


class Secret(str):
    """A text that no line has: `masked` shows only whether it became another one."""

    __slots__ = ()


def time_text(time_ms: int) -> str:
    """Returns a time as lines have it."""
    at = datetime.fromtimestamp(time_ms / 1_000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def masked(before: Any, after: Any) -> tuple[Any, Any]:
    """Returns what there was before and after, without secrets; another secret is marked.

    Args:
        before: A value of JSON in which secrets are `Secret`.
        after: The same behind the change.
    """
    if isinstance(after, Secret):
        is_other = isinstance(before, Secret) and str(before) != str(after)
        return _hidden(before), _OTHER_SECRET if is_other else SECRET
    if isinstance(after, Mapping) and isinstance(before, Mapping):
        pairs = {key: masked(before.get(key), after[key]) for key in after}
        gone = {key: _hidden(value) for key, value in before.items() if key not in after}
        old = {key: pair[0] for key, pair in pairs.items() if key in before}
        return old | gone, {key: pair[1] for key, pair in pairs.items()}
    return _hidden(before), _hidden(after)


def _hidden(value: Any) -> Any:
    if isinstance(value, Secret):
        return SECRET
    if isinstance(value, str):
        return _short(value)
    if isinstance(value, Mapping):
        return {str(key): _hidden(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(each) for each in value]
    return value


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_CHARS_MAX else f"{text[:_TEXT_CHARS_MAX]}..."


def without_secrets(fields: Mapping[str, str]) -> dict[str, str]:
    """Returns the fields of a header without what signs it; secrets by their names masked."""
    found = {}
    for name, value in fields.items():
        folded = name.lower()
        if folded in _SIGNING or folded == "signature":
            continue
        is_secret = any(word in folded for word in _SECRET_WORDS)
        found[_short(name)] = SECRET if is_secret else _short(value)
    return found


def hash_of(line: bytes) -> str:
    """Returns the hash that the next line carries."""
    return hashlib.sha256(line).hexdigest()


def line_of(number: int, previous: str, row: Mapping[str, Any]) -> bytes:
    """Returns a line, without its end.

    Args:
        number: Its number; one more than that of the line before.
        previous: The hash of the line before; empty for the first.
        row: What it has. Where that is too long, values are left out.
    """
    head = {"n": number, "previous": previous}
    line = _encoded({**head, **row})
    if len(line) > LINE_BYTES_MAX:
        kept = {k: _TOO_LONG if isinstance(v, dict | list) else v for k, v in row.items()}
        line = _encoded({**head, **kept})
    return line


def _encoded(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=True, separators=(",", ":")).encode()


def parsed(line: bytes) -> dict[str, Any] | None:
    """Returns what a line has; None for one that is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


@dataclass(frozen=True, slots=True)
class Ending:
    """Where a chain ends.

    Attributes:
        number: The number of its last line; 0 for none.
        hash: The hash of that line; empty for none.
    """

    number: int = 0
    hash: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check has found.

    Attributes:
        lines: How many lines there are.
        first: The number of the first line; more than 1 where older files were taken away.
        ending: Where the chain ends: who keeps it elsewhere sees later whether the end was cut.
        faults: What is wrong, in words, the first hundred.
        torn: Lines that a crash or a full disk cut short, as the lines behind them report.
        missed: Lines that could not be written, as later lines report.
        has_expected: Whether a line that was looked for is there as it was; None for none.
    """

    lines: int
    first: int
    ending: Ending
    faults: tuple[str, ...]
    torn: int
    missed: int
    has_expected: bool | None = None

    @property
    def is_whole(self) -> bool:
        """Whether no line was taken out or changed between the first and the last."""
        return not self.faults and self.has_expected is not False

    def to_json(self) -> dict[str, Any]:
        """Returns its JSON object."""
        return {
            "lines": self.lines,
            "first": self.first,
            "last": self.ending.number,
            "hash": self.ending.hash,
            "faults": list(self.faults),
            "torn": self.torn,
            "missed": self.missed,
            "hasExpected": self.has_expected,
            "isWhole": self.is_whole,
        }


_FAULTS_MAX: Final = 100
# The event of the line behind one that was cut short.
TORN: Final = "torn"
MISSED: Final = "missed"


def checked(lines: Iterable[tuple[str, bytes]], expected: Ending | None = None) -> Checked:
    """Checks that every line follows from the one before.

    Args:
        lines: Where each is (file and line, for words), and its bytes without the end.
        expected: A line that must be there as it was.
    """
    count = first = torn = missed = 0
    last = Ending()
    faults: list[str] = []
    unreadable = ""
    has_expected: bool | None = None if expected is None else expected.number == 0
    for where, line in lines:
        count += 1
        row = parsed(line)
        number = row.get("n") if row is not None else None
        if unreadable:
            # What a crash has cut short is fine where the writer has seen it, and noted it.
            if row is not None and row.get("event") == TORN:
                torn += 1
            else:
                faults.append(unreadable)
            unreadable = ""
        if row is None or not isinstance(number, int):
            unreadable = f"{where}: is no line of an audit"
            last = Ending(last.number, hash_of(line))
            continue
        if count == 1:
            first = number
            if number == 1 and row.get("previous") != "":
                faults.append(f"{where}: line 1 follows from another one")
        else:
            faults += _steps(where, row, number, last)
        if row.get("event") == MISSED:
            found = row.get("count")
            missed += found if isinstance(found, int) else 0
        last = Ending(number, hash_of(line))
        if expected is not None and number == expected.number:
            has_expected = last.hash == expected.hash
    if unreadable:
        faults.append(f"{unreadable}: it is the last, and may have been cut short by a crash")
    if expected is not None and 0 < expected.number < first:
        # It went with an older file.
        has_expected = None
    return Checked(count, first, last, tuple(faults[:_FAULTS_MAX]), torn, missed, has_expected)


def _steps(where: str, row: Mapping[str, Any], number: int, last: Ending) -> list[str]:
    faults = []
    if number != last.number + 1:
        faults.append(f"{where}: line {number} follows line {last.number}: lines are missing")
    if row.get("previous") != last.hash:
        faults.append(f"{where}: line {number}: the line before it was changed, or is another one")
    return faults


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines are looked for; what is empty or 0 is not asked for.

    Attributes:
        text: A part of the line, whatever its case.
        user: The user, or the name of the certificate.
        request: The name of the request, or its number.
        resource: A part of what it is about.
        outcome: `done`, `refused` or `failed`.
        event: The event.
        since: The time from which on, as lines have it, or the beginning of one.
        until: The time before which.
    """

    text: str = ""
    user: str = ""
    request: str = ""
    resource: str = ""
    outcome: str = ""
    event: str = ""
    since: str = ""
    until: str = ""

    def has(self, line: bytes, row: Mapping[str, Any]) -> bool:
        """Returns whether a line is one of those."""
        if self.text and self.text.lower() not in _searched(line):
            return False
        time = str(row.get("time", ""))
        if (self.since and time < self.since) or (self.until and time >= self.until):
            return False
        if self.user and self.user not in (row.get("user"), row.get("certificate")):
            return False
        wanted = self.request.lower()
        named = (str(row.get("code", "")), str(row.get("request", "")).partition("(")[0].lower())
        if wanted and wanted not in named:
            return False
        about = row.get("resource")
        resources = about if isinstance(about, list) else [about]
        if self.resource and not any(self.resource in str(each) for each in resources):
            return False
        return (not self.outcome or row.get("outcome") == self.outcome) and (
            not self.event or row.get("event") == self.event
        )


def _searched(line: bytes) -> str:
    """Returns the text of a line with what is escaped in it as it is read."""
    row = parsed(line) or {}
    shown = {key: value for key, value in row.items() if key != "previous"}
    return json.dumps(shown, ensure_ascii=False).lower()
