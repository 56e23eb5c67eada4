"""Requests of a client that wait: answers in any cut of bytes find their futures, and no other."""

import asyncio
import gc
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcore.errors import FrameError
from mqcore.native import CallTable, Command, FrameForm, FrameReader, SendAnswer

RESPONSE = 1
SENT: dict[str, Any] = {
    "queueId": "3",
    "queueOffset": "12345678901",
    "msgId": "7F",
    "MSG_REGION": "DefaultRegion",
}


class Waiter:
    """What the table needs of a future, without a loop."""

    def __init__(self, is_done: bool = False) -> None:
        self.results: list[Any] = []
        self.is_done = is_done

    def done(self) -> bool:
        return self.is_done

    def set_result(self, result: Any) -> None:
        assert not self.is_done
        self.results.append(result)
        self.is_done = True


def begin(calls: CallTable, opaque: int, deadline_s: float = float("inf")) -> Waiter:
    waiter = Waiter()
    calls.begin(opaque, waiter, deadline_s)  # type: ignore[arg-type]
    return waiter


def has_deadlines(calls: CallTable) -> bool:
    return calls.has_deadlines


def ask_send(calls: CallTable, opaque: int, body: bytes = b"b") -> Waiter:
    waiter = Waiter()
    form = FrameForm(310, ("a", "b"), 3, 409)
    calls.ask_send(form, opaque, ("x", 1), body, waiter, 5.0)  # type: ignore[arg-type]
    return waiter


def answer(opaque: int, code: int = 0, *, serialization: int = 0, **ext: Any) -> bytes:
    return Command(
        code, opaque=opaque, flag=RESPONSE, ext=ext, body=b"x", serialization=serialization
    ).encode()


def test_a_send_is_written_and_its_answer_found() -> None:
    calls = CallTable()
    first, second = ask_send(calls, 1, b"one"), ask_send(calls, 2, b"two")
    assert len(calls) == 2
    sent = FrameReader().feed(calls.take_unsent())
    assert [(each.opaque, each.body) for each in sent] == [(1, b"one"), (2, b"two")]
    assert [each.ext for each in sent] == [{"a": "x", "b": "1"}] * 2
    assert calls.take_unsent() == b""
    reader = FrameReader()
    assert reader.feed(answer(2, **SENT) + answer(1, **SENT, TRACE_ON="true"), calls) == []
    assert reader.made_whole
    assert first.results == second.results
    (found,) = first.results
    assert isinstance(found, SendAnswer)
    assert (found.queue_id, found.queue_offset, found.offset_message_id) == (3, 12345678901, "7F")
    assert len(calls) == 0


@pytest.mark.parametrize("serialization", [0, 1])
def test_both_header_codecs_are_answers(serialization: int) -> None:
    calls = CallTable()
    waiter = ask_send(calls, 9)
    FrameReader().feed(answer(9, serialization=serialization, **SENT), calls)
    assert type(waiter.results[0]) is SendAnswer


@pytest.mark.parametrize(
    ("code", "ext"),
    [
        (1, SENT),
        (0, {**SENT, "queueId": "x"}),
        (0, {**SENT, "queueOffset": "1e3"}),
        (0, {**SENT, "queueOffset": "9223372036854775808"}),
        (0, {**SENT, "TRACE_ON": "false"}),
        (0, {**SENT, "MSG_REGION": "other"}),
        (0, {**SENT, "transactionId": "t"}),
        (0, {**SENT, "batchUniqId": "u"}),
        (0, {"queueId": "1", "queueOffset": "2"}),
        (0, {}),
    ],
)
def test_what_is_not_the_usual_answer_is_a_command(code: int, ext: dict[str, Any]) -> None:
    calls = CallTable()
    waiter = ask_send(calls, 4)
    assert FrameReader().feed(answer(4, code, **ext), calls) == []
    (found,) = waiter.results
    assert isinstance(found, Command)
    assert (found.code, found.ext, found.opaque, found.body) == (code, ext, 4, b"x")


def test_answers_that_nobody_waits_for_come_back_and_hurt_nobody() -> None:
    calls = CallTable()
    waiter = begin(calls, 1)
    cancelled = begin(calls, 2)
    cancelled.is_done = True
    request = Command(40, opaque=1).encode()
    stream = answer(1) + answer(1) + answer(77) + answer(2) + request
    left = FrameReader().feed(stream, calls)
    assert [(each.opaque, each.is_response) for each in left] == [
        (1, True),
        (77, True),
        (2, True),
        (1, False),
    ]
    assert len(waiter.results) == 1
    assert cancelled.results == []


def test_resolving_by_hand_is_the_same() -> None:
    calls = CallTable()
    waiter = begin(calls, 5)
    command = Command(0, opaque=5, flag=RESPONSE)
    assert calls.resolve(command)
    assert waiter.results == [command]
    assert not calls.resolve(command)


def test_the_deadline_takes_out_whoever_is_late_in_their_order() -> None:
    calls = CallTable()
    begin(calls, 1)
    assert not has_deadlines(calls)
    late, later = begin(calls, 9, 2.0), begin(calls, 3, 1.0)
    begin(calls, 4, 3.0)
    assert has_deadlines(calls)
    assert calls.take_late(0.5) == []
    assert list[Any](calls.take_late(2.0)) == [late, later]
    assert len(calls) == 2
    calls.end(4)
    assert not has_deadlines(calls)
    assert len(calls.take_all()) == 1


def test_a_send_that_cannot_be_written_waits_for_nothing() -> None:
    calls = CallTable()
    before = ask_send(calls, 1)
    form = FrameForm(310, ("a",), 3, 409)
    for values in (("x", "y"), (1.5,), ("\ud800",)):
        with pytest.raises(ValueError):  # noqa: PT011
            calls.ask_send(form, 2, values, b"", Waiter(), 5.0)  # type: ignore[arg-type]
    with pytest.raises(FrameError):
        calls.ask_send(form, 2, ("x",), bytes(16 << 20), Waiter(), 5.0)  # type: ignore[arg-type]
    assert len(calls) == 1
    assert [each.opaque for each in FrameReader().feed(calls.take_unsent())] == [1]
    assert list[Any](calls.take_all()) == [before]


def test_what_came_whole_before_a_bad_frame_is_answered() -> None:
    calls = CallTable()
    waiter, other = begin(calls, 1), begin(calls, 2)
    reader = FrameReader()
    with pytest.raises(FrameError):
        reader.feed(answer(1) + b"\xff\xff\xff\xff", calls)
    assert len(waiter.results) == 1
    assert reader.before_error == []
    assert list[Any](calls.take_all()) == [other]


def test_a_future_that_raises_is_reported() -> None:
    class Failing(Waiter):
        def set_result(self, result: Any) -> None:
            raise RuntimeError(f"closed loop: {result.opaque}")

    calls = CallTable()
    calls.begin(1, Failing())  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="closed loop: 1"):
        FrameReader().feed(answer(1), calls)
    assert len(calls) == 0


def test_a_future_that_calls_back_finds_the_table_free() -> None:
    calls = CallTable()

    class Asking(Waiter):
        def set_result(self, result: Any) -> None:
            super().set_result(result)
            ask_send(calls, 100 + len(calls))
            calls.end(7)

    calls.begin(1, Asking())  # type: ignore[arg-type]
    begin(calls, 7)
    left = FrameReader().feed(answer(1) + answer(7), calls)
    assert [each.opaque for each in left] == [7]
    assert len(calls) == 1


def test_the_table_and_its_futures_are_collected_together() -> None:
    class Holding(Waiter):
        calls: CallTable | None = None

    waiter = Holding()
    waiter.calls = CallTable()
    waiter.calls.begin(1, waiter)  # type: ignore[arg-type]
    known = weakref.ref(waiter)
    del waiter
    gc.collect()
    assert known() is None


@given(
    st.lists(st.integers(0, 5), max_size=12),
    st.lists(st.integers(0, 7), max_size=12),
    st.lists(st.integers(1, 200), min_size=1, max_size=30),
    st.booleans(),
)
def test_any_cut_of_the_bytes_gives_the_same_answers(
    asked: list[int], answered: list[int], cuts: list[int], is_send: bool
) -> None:
    calls = CallTable()
    naive: dict[int, Waiter] = {}
    replaced: list[Waiter] = []
    for opaque in asked:
        if opaque in naive:
            replaced.append(naive[opaque])
        naive[opaque] = ask_send(calls, opaque) if is_send else begin(calls, opaque)
    stream = b"".join(answer(opaque, **SENT) for opaque in answered)
    reader = FrameReader()
    left: list[int] = []
    at = 0
    while at < len(stream):
        size = cuts[at % len(cuts)]
        left += [each.opaque for each in reader.feed(stream[at : at + size], calls)]
        at += size
    expected: list[int] = []
    waiting = set(naive)
    for opaque in answered:
        if opaque in waiting:
            waiting.remove(opaque)
        else:
            expected.append(opaque)
    assert left == expected
    assert {opaque for opaque, waiter in naive.items() if not waiter.results} == waiting
    assert all(len(waiter.results) <= 1 for waiter in naive.values())
    assert not any(waiter.results for waiter in replaced)
    assert len(calls) == len(waiting)


def test_futures_of_a_loop_are_resolved() -> None:
    async def work() -> None:
        calls = CallTable()
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        calls.begin(-5, future)
        FrameReader().feed(answer(-5, 17), calls)
        assert (await future).code == 17

    asyncio.run(work())
