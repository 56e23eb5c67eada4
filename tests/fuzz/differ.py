"""The same wrong requests to two brokers: where do the codes of their answers differ?

    found = differences(ours.address, official.address, cases())
    unexplained(found, agreed())

A case is a right request with one thing wrong: a field that is missing or has another value, or a
body that is none. Both brokers have the same topics and groups, and get the same requests in the
same order. Answers are compared by code; no answer and a closed connection count as codes.
Differences that are meant to be are rows of `agreed.txt`, each with its reason.
"""

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from loops import run_on
from mqcore.remoting import Client, RequestCode
from recorded import frames
from recorded.conversation import From, Request
from recorded.conversations import CONVERSATIONS
from recorded.frames import JSON, Header

__all__ = ["AGREED", "Agreed", "Case", "Difference", "agreed", "cases", "differences", "prepare"]

AGREED: Final = Path(__file__).with_name("agreed.txt")
_SILENCE, _CLOSED = "silence", "closed"
# An official broker answers what it answers at all within milliseconds.
_PATIENCE_S: Final = 3.0
# An end of a transaction is not answered: many are waited for at once. All others go one after the
# other, since an official broker works several off side by side.
_UNANSWERED: Final = RequestCode.END_TRANSACTION
_AT_ONCE: Final = 32
_CALL_S: Final = 20.0
# Requests of users and tools whose one answer is a code. Left out are those that change what all
# cases after them see (settings, deletions, resets), those that wait by design, and those of one
# program alone.
_CODES: Final = frozenset(
    {
        *(10, 11, 12, 14, 15, 17, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 41, 42, 46),
        *(200, 202, 203, 204, 208, 300, 303, 308, 310, 315, 317, 320, 321, 343, 345, 351, 352),
        *(361, 370, 400, 401, 200_050, 200_051, 200_053, 200_055, 200_151),
    }
)
# How long something may be held has to be short, or both are silent: never changed.
_UNCHANGED: Final = frozenset({"suspendTimeoutMillis", "pollTime", "sysFlag", "timeoutMillis"})
_MISSING: Final = "missing"
_CHANGED_TOPIC: Final = "changed"
_VALUES: Final = (
    *("", " ", "-1", "0", "1", "99", "2147483647", "2147483648", "9223372036854775807"),
    *("9223372036854775808", "-9223372036854775808", "1.5", "x", "true", "null", "%RETRY%g"),
    *("no-such", "a b", "a" * 300, "é"),
)
# Legal names would be topics from then on.
_MAKES_TOPICS: Final = (RequestCode.UPDATE_AND_CREATE_TOPIC, "topic")
_ILLEGAL_NAMES: Final = ("", " ", "1.5", "a b", "a" * 300, "é")
# Whether a pop finds something depends on who popped before.
_ALIKE: Final = {(int(RequestCode.POP_MESSAGE), "210"): "0"}
_BODIES: Final = (b"", b"{}", b"[]", b"null", b"x", b"{", b'{"a":', b"[[[[[[[[", b"\xff\xfe", b"7")


@dataclass(frozen=True, slots=True)
class Case:
    """A request with one thing wrong.

    Attributes:
        code: The request code.
        field: What is wrong: a field, `body`, or `-` for nothing.
        change: How: the value, or `missing`.
        ext: The fields.
        body: The body.
    """

    code: int
    field: str
    change: str
    ext: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Difference:
    """A case that two brokers answer with different codes."""

    case: Case
    ours: str
    official: str
    remark: str

    def __str__(self) -> str:
        """Returns it as a row of `agreed.txt` has it, with the official remark for its reason."""
        case = self.case
        change = case.change[:40].replace("|", "/") or "empty"
        row = f"{case.code} | {case.field} | {change} | {self.ours} | {self.official}"
        return f"{row} | {self.remark[:120]!r}"


@dataclass(frozen=True, slots=True)
class Agreed:
    """A row of `agreed.txt`: patterns of a difference, and why it is meant to be."""

    code: str
    field: str
    change: str
    ours: str
    official: str
    why: str

    def has(self, found: Difference) -> bool:
        """Whether it explains a difference."""
        case = found.case
        pairs = (
            (str(case.code), self.code),
            (case.field, self.field),
            (case.change[:40] or "empty", self.change),
            (found.ours, self.ours),
            (found.official, self.official),
        )
        return all(fnmatchcase(value, pattern) for value, pattern in pairs)


def agreed() -> list[Agreed]:
    """Returns the differences that are meant to be."""
    lines = AGREED.read_text(encoding="utf-8").splitlines()
    rows = ([word.strip() for word in line.split("|", 5)] for line in lines if line[:1] not in "#")
    return [Agreed(*row) for row in rows]


def cases() -> list[Case]:
    """Returns all cases, in an order that is always the same."""
    found: list[Case] = []
    for code, ext, body in _right_requests():
        found.append(Case(code, "-", "-", ext, body))
        for name in sorted(ext.keys() - _UNCHANGED):
            rest = {key: value for key, value in ext.items() if key != name}
            found.append(Case(code, name, _MISSING, rest, body))
            values = _ILLEGAL_NAMES if (code, name) == _MAKES_TOPICS else _VALUES
            found += [Case(code, name, value, {**ext, name: value}, body) for value in values]
        if body:
            found += [Case(code, "body", repr(each)[2:-1], ext, each) for each in _BODIES]
    random.Random(0).shuffle(found)
    return sorted(found, key=lambda case: case.code == _UNANSWERED)


def _right_requests() -> list[tuple[int, dict[str, str], bytes]]:
    """Returns one right request of each code, as the recorded conversations have it."""
    found: dict[int, tuple[int, dict[str, str], bytes]] = {}
    for conversation in CONVERSATIONS:
        for step in conversation.steps if conversation.server == "broker" else ():
            if not isinstance(step, Request) or step.code not in _CODES or step.flag:
                continue
            if step.kind in ("good", "step"):
                ext = {name: _text(value) for name, value in step.ext.items()}
                # What is changed is not what others ask for.
                if step.code == RequestCode.UPDATE_AND_CREATE_TOPIC:
                    ext["topic"] = _CHANGED_TOPIC
                if "topic" in ext and ext["topic"] == "ordered":
                    ext["topic"] = "t"
                found.setdefault(step.code, (step.code, ext, step.body))
    return [found[code] for code in sorted(found)]


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_text, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "0" if isinstance(value, From) else str(value)


def prepare(address: str) -> None:
    """Makes the topic and the group that the right requests name, and some messages."""

    async def work() -> None:
        async with Client() as client:
            topic = {"topic": "t", "defaultTopic": "TBW102", "readQueueNums": "2"}
            topic |= {"writeQueueNums": "2", "perm": "6", "topicFilterType": "SINGLE_TAG"}
            topic |= {"topicSysFlag": "0", "order": "false"}
            send = {"a": "pg", "b": "t", "c": "TBW102", "d": "4", "e": "0", "f": "0", "h": "0"}
            send |= {"g": "1700000000000", "i": "KEYS\x01k\x02", "j": "0", "k": "false"}
            for code, ext, body in (
                (RequestCode.UPDATE_AND_CREATE_TOPIC, topic, b""),
                (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, b'{"groupName":"g"}'),
                *((RequestCode.SEND_MESSAGE_V2, send | {"m": "false"}, b"body") for _ in range(5)),
            ):
                answer = await client.call(address, code, ext, body, timeout_s=_CALL_S)
                assert answer.code == 0, answer.remark

    run_on("asyncio", work())


def differences(ours: str, official: str, wanted: Sequence[Case]) -> list[Difference]:
    """Returns the cases that two brokers answer with different codes.

    Args:
        ours: Address of our broker, prepared.
        official: Address of the other.
        wanted: The cases.
    """

    async def work() -> list[Difference]:
        first, second = await asyncio.gather(_answers(ours, wanted), _answers(official, wanted))
        found = (
            Difference(case, _alike(case, mine[0]), _alike(case, theirs[0]), theirs[1])
            for case, mine, theirs in zip(wanted, first, second, strict=True)
        )
        return [each for each in found if each.ours != each.official]

    return run_on("asyncio", work(), deadline_s=60.0 + len(wanted) * _PATIENCE_S)


def _alike(case: Case, code: str) -> str:
    return _ALIKE.get((case.code, code), code)


async def _answers(address: str, wanted: Sequence[Case]) -> list[tuple[str, str]]:
    """Returns code and remark of each answer."""
    found: dict[int, tuple[str, str]] = {}
    begin = 0
    while begin < len(wanted):
        count = _AT_ONCE if wanted[begin].code == _UNANSWERED else 1
        numbers = range(begin, min(begin + count, len(wanted)))
        begin = numbers.stop
        found |= await _answered(address, wanted, numbers)
        # One that ends a connection takes the answers of others along: those are asked alone.
        if any(found.get(number, ("", ""))[0] == _CLOSED for number in numbers):
            for number in numbers:
                if found[number][0] == _CLOSED:
                    found |= await _answered(address, wanted, [number])
    return [found[number] for number in range(len(wanted))]


async def _answered(
    address: str, wanted: Sequence[Case], numbers: Iterable[int]
) -> dict[int, tuple[str, str]]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    waiting, found, data = set(numbers), dict[int, tuple[str, str]](), bytearray()
    for number in sorted(waiting):
        case = wanted[number]
        header = Header(code=case.code, opaque=number, ext=case.ext)
        writer.write(frames.write(JSON, header, case.body).encode())
    left = _SILENCE
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while waiting:
                more = await reader.read(1 << 16)
                if not more:
                    left = _CLOSED
                    break
                data += more
                for frame in frames.split(data):
                    answer = frames.read_header(frame)
                    if answer.flag & frames.RESPONSE and answer.opaque in waiting:
                        waiting.discard(answer.opaque)
                        found[answer.opaque] = str(answer.code), answer.remark or ""
    except TimeoutError:
        pass
    except ConnectionError:
        left = _CLOSED
    finally:
        writer.transport.abort()
    return found | dict.fromkeys(waiting, (left, ""))
