"""JSON as RocketMQ's programs write and read it: bare integer keys, objects as keys, pretty files.

Knows nothing of what the texts mean. Total: any bytes give a value or `BadJsonError`, in memory
bounded by the text and in bounded depth.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from mqcore.errors import BadJsonError, MQError
from mqcore.model.queues import MessageQueue
from mqcore.native import parse_relaxed_json

# Deepest nesting that is read. The deepest text of the protocol has eight levels.
DEPTH_MAX: Final = 64
# An integer of more digits than a 64-bit number has is no number of the protocol.
_INT_DIGITS_MAX: Final = 32
# Longer texts are read by the extension first, which lets other threads run meanwhile: Python's own
# reader keeps the interpreter to its end.
_LONG_CHARS: Final = 64 << 10

# Made once: `json.dumps` makes an encoder for each call that asks for more than its defaults.
_strict = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode
_text = json.JSONEncoder(ensure_ascii=False).encode
# Likewise. Takes control characters within strings.
_lenient = json.JSONDecoder(strict=False).decode

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<mark>[{}\[\]:,])
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    | (?P<word>[A-Za-z_$][\w$]*)
    )""",
    re.VERBOSE | re.DOTALL,
)
# A key as fastjson and we write it; of another order or with escapes it is read as JSON.
_QUEUE: Final = re.compile(r'\{"brokerName":"([^"\\]*)","queueId":(\d{1,9}),"topic":"([^"\\]+)"\}')
_WORDS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}


def parse(text: bytes | bytearray | memoryview | str) -> Any:
    """Returns the value of a text.

    A key that is an object (a map of queues) becomes the object's JSON text, the form in which
    strict JSON carries it; `queue_of_key` reads both.

    Raises:
        BadJsonError: It is no JSON, not even in the dialect.
    """
    if not isinstance(text, str):
        text = bytes(text).decode("utf-8", "replace")
    if len(text) > _LONG_CHARS:
        with suppress(MQError):
            return parse_relaxed_json(text.encode("utf-8", "replace"))
    try:
        return json.loads(text)
    except RecursionError as error:
        raise BadJsonError("it is nested too deep") from error
    except ValueError:
        pass
    try:
        # Eight times as fast; of the dialect it knows what RocketMQ writes, and the reader below
        # more.
        return parse_relaxed_json(text.encode("utf-8", "replace"))
    except MQError:
        pass
    return _Reader(text).whole()


def parse_object(text: bytes | bytearray | memoryview | str) -> dict[str, Any]:
    """Returns the object that a text holds.

    Raises:
        BadJsonError: It is no JSON, or another value.
    """
    value = parse(text)
    if not isinstance(value, dict):
        raise BadJsonError("it is no object")
    return value


def queue_of_key(key: str) -> MessageQueue | None:
    """Returns the queue that a key of a map of queues names, None for another key."""
    usual = _QUEUE.fullmatch(key)
    if usual is not None:
        return MessageQueue(usual[3], usual[1], int(usual[2]))
    return MessageQueue.of_json(parse(key)) if key.startswith("{") else None


class _Reader:
    """Reads one text of the dialect, token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._kind = ""
        self._token = ""
        self._step()

    def whole(self) -> Any:
        value = self._value(0)
        if self._kind != "end":
            raise self._bad()
        return value

    def _bad(self) -> BadJsonError:
        return BadJsonError(f"unexpected {self._token[:20]!r} before character {self._at}")

    def _step(self) -> None:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            rest = self._text[self._at :].strip()
            self._kind, self._token = ("bad", rest) if rest else ("end", "")
            if rest:
                raise self._bad()
            return
        self._at = match.end()
        self._kind = str(match.lastgroup)
        self._token = match[self._kind]

    def _take(self, mark: str) -> None:
        if self._kind != "mark" or self._token != mark:
            raise self._bad()
        self._step()

    def _value(self, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise BadJsonError("it is nested too deep")
        if self._token == "{" and self._kind == "mark":
            return self._object(depth)
        if self._token == "[" and self._kind == "mark":
            return self._array(depth)
        return self._scalar()

    def _scalar(self) -> Any:
        kind, token = self._kind, self._token
        value: Any
        if kind == "word" and token in _WORDS:
            value = _WORDS[token]
        elif kind == "number":
            value = _number(token)
        elif kind == "string":
            value = token[1:-1] if "\\" not in token else self._escaped(token)
        else:
            raise self._bad()
        self._step()
        return value

    def _escaped(self, token: str) -> Any:
        try:
            return _lenient(token)
        except ValueError as error:
            raise self._bad() from error

    def _object(self, depth: int) -> dict[str, Any]:
        self._take("{")
        found: dict[str, Any] = {}
        while not (self._kind == "mark" and self._token == "}"):
            key = self._key(depth)
            self._take(":")
            found[key] = self._value(depth + 1)
            if self._kind == "mark" and self._token == ",":
                self._step()
            elif self._token != "}":
                raise self._bad()
        self._step()
        return found

    def _key(self, depth: int) -> str:
        if self._kind == "mark" and self._token == "{":
            return compact(self._value(depth + 1)).decode()
        if self._kind in ("number", "word"):
            key = self._token
            self._step()
            return key
        key = self._scalar()
        return key if isinstance(key, str) else str(key)

    def _array(self, depth: int) -> list[Any]:
        self._take("[")
        found: list[Any] = []
        while not (self._kind == "mark" and self._token == "]"):
            found.append(self._value(depth + 1))
            if self._kind == "mark" and self._token == ",":
                self._step()
            elif self._token != "]":
                raise self._bad()
        self._step()
        return found


def _number(token: str) -> int | float:
    if token.lstrip("-").isdigit():
        if len(token) > _INT_DIGITS_MAX:
            raise BadJsonError(f"a number of {len(token)} digits")
        return int(token)
    return float(token)


def compact(value: Any) -> bytes:
    """Returns strict JSON without blanks, members in alphabetical order, as UTF-8."""
    text = _strict(value)
    return text.encode("utf-8", "replace")


def compact_in_parts(value: Any, depth: int = 2) -> bytes:
    """Returns the same text as `compact`, made of parts.

    Whatever else runs in the process has its turn between them: one call of the encoder keeps all
    others waiting to its end.

    Args:
        value: What is written; the keys of its objects are texts down to that depth.
        depth: How many levels of objects are taken apart.
    """
    return _in_parts(value, depth).encode("utf-8", "replace")


def _in_parts(value: Any, depth: int) -> str:
    if not depth or not isinstance(value, dict):
        return _strict(value)
    members = (f"{_text(key)}:{_in_parts(value[key], depth - 1)}" for key in sorted(value))
    return "{" + ",".join(members) + "}"


def with_queue_keys(value: Any) -> bytes:
    """Returns JSON in which a map keyed by `MessageQueue` has bare objects as keys.

    It is the one form that the Java and the Go client both read.
    """
    return _native(value).encode("utf-8", "replace")


def _native(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_native_key(k)}:{_native(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_native(item) for item in value) + "]"
    return _text(value)


def _native_key(key: object) -> str:
    if isinstance(key, MessageQueue):
        return compact(key.to_json()).decode()
    return _text(str(key))


class Rendered(str):
    """A part of a pretty text, already indented for its depth."""

    __slots__ = ()


def rendered(value: Any, depth: int) -> Rendered:
    """Returns a value as it is in a pretty text, so many levels deep."""
    return Rendered(_pretty(value, depth))


def member(name: str, text: Rendered, depth: int) -> str:
    """Returns a member of an object as it is in a pretty text, the object so many deep."""
    lead = "\n" + "\t" * (depth + 1)
    return f"{lead}{_text(name)}:{text}"


def table_of_members(members: Sequence[str], depth: int) -> Rendered:
    """Returns the object of such members, which are in the order of their names."""
    return Rendered("{" + ",".join(members) + "\n" + "\t" * depth + "}" if members else "{}")


def pretty(value: Any) -> bytes:
    """Returns the text of a configuration file as the official broker writes it.

    Tabs, alphabetical members, integer keys bare on one line, objects of a list on lines of their
    own.
    """
    return _pretty(value, 0).encode("utf-8", "replace")


def _pretty(value: Any, depth: int) -> str:
    if isinstance(value, Rendered):
        return value
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        ends = ["\n" + "\t" * deep for deep in (depth + 1, depth)]
        items = (f"{ends[0]}{_pretty(item, depth + 1)}" for item in value)
        return "[" + ",".join(items) + ends[1] + "]"
    if not isinstance(value, dict):
        return compact(value).decode()
    if not value:
        return "{}"
    end = "\n" + "\t" * depth + "}"
    if all(isinstance(key, int) for key in value):
        return "{" + ",".join(f"{k}:{_pretty(value[k], depth + 1)}" for k in sorted(value)) + end
    lead = "\n" + "\t" * (depth + 1)
    members = (f"{lead}{_text(str(key))}:{_pretty(value[key], depth + 1)}" for key in sorted(value))
    return "{" + ",".join(members) + end
