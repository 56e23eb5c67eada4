"""Trace lines read back, of clients of all versions, and what they report of one message."""

import pytest

from mqcore.client import trace_lines as written
from mqcore.model.trace_lines import (
    AfterLine,
    BeforeLine,
    EndLine,
    Line,
    PubLine,
    RecallLine,
    lines_of,
)
from mqcore.model.traces import MessageTrace, Reported, trace_of

ID = "7F00000100010000000000000000AAAA"
OTHER = "7F00000100010000000000000000BBBB"


def pub(**changes: object) -> str:
    fields: dict[str, object] = {
        "began_ms": 1_000,
        "region_id": "R",
        "group": "p",
        "topic": "orders",
        "message_id": ID,
        "tags": None,
        "keys": "k1 k2",
        "address": "10.0.0.1:10911",
        "body_bytes": 7,
        "cost_ms": 3,
        "message_type": written.NORMAL,
        "offset_message_id": "OFF",
        "is_ok": True,
    }
    return written.pub_line(**(fields | changes))  # type: ignore[arg-type]


def before(request: str, now_ms: int, retry_times: int = 0, *, group: str = "g") -> str:
    return written.sub_before_line(
        now_ms=now_ms,
        region_id="R",
        group=group,
        request_id=request,
        message_id=ID,
        retry_times=retry_times,
        keys="k1",
    )


def after(request: str, now_ms: int, code: int, *, group: str = "g") -> str:
    return written.sub_after_line(
        request_id=request,
        message_id=ID,
        cost_ms=5,
        is_ok=code == 0,
        keys=None,
        context_code=code,
        now_ms=now_ms,
        group=group,
    )


def ended(state: str, *, is_from_check: bool) -> str:
    return written.end_transaction_line(
        now_ms=2_000,
        region_id="R",
        group="p",
        topic="orders",
        message_id=ID,
        tags="t",
        keys=None,
        address="10.0.0.1:10911",
        transaction_id=ID,
        state=state,
        is_from_check=is_from_check,
    )


def read(text: str) -> list[Line]:
    return list(lines_of(text.encode()))


def test_what_our_client_writes_is_read_back() -> None:
    text = pub() + before("r", 9) + after("r", 14, 2) + ended("COMMIT_MESSAGE", is_from_check=True)
    sent, begun, done, end = read(text)
    assert sent == PubLine(
        *(1_000, "R", "p", "orders", ID, None, "k1 k2", "10.0.0.1:10911", 7, 3),
        *("normal", "OFF", True),
    )
    assert begun == BeforeLine(9, "R", "g", "r", ID, 0, "k1")
    assert done == AfterLine("r", ID, 5, False, None, "EXCEPTION", 14, "g")
    assert isinstance(end, EndLine)
    assert (end.state, end.is_from_check, end.transaction_id) == ("COMMIT_MESSAGE", True, ID)


def line(kind: str, *fields: object) -> str:
    return "\x01".join((kind, *map(str, fields))) + "\x02"


PUB = ("Pub", 1, "R", "p", "T", ID, "null", "null", "a:1", 7, 3, 3)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (line(*PUB, "true"), ("", True)),
        (line(*PUB, "OFF", "false"), ("OFF", False)),
        (line(*PUB, "OFF", "true", "10.0.0.9"), ("OFF", True)),
    ],
    ids=["old", "usual", "with the client's host"],
)
def test_sends_of_all_versions_are_read(text: str, wanted: tuple[str, bool]) -> None:
    (found,) = read(text)
    assert isinstance(found, PubLine)
    assert (found.offset_id, found.is_ok) == wanted
    assert (found.kind, found.tags) == ("delayed", None)


def test_ends_of_deliveries_of_all_versions_are_read() -> None:
    old = line("SubAfter", "r", ID, 5, "true", "k")
    newer = line("SubAfter", "r", ID, 5, "true", "k", 1)
    assert read(old) == [AfterLine("r", ID, 5, True, "k", "", 0, "")]
    assert read(newer) == [AfterLine("r", ID, 5, True, "k", "TIME_OUT", 0, "")]


def test_a_recall_is_read() -> None:
    assert read(line("Recall", 5, "R", "p", "T", ID, "true")) == [
        RecallLine(5, "R", "p", "T", ID, True)
    ]


def test_what_is_no_line_is_passed_over() -> None:
    bad = ["", "Pub", line("Pub", "x"), line("SubBefore", 1), line("Unknown", 1), "\x00\xff"]
    assert read("\x02".join(bad) + "\x02" + before("r", 1)) == read(before("r", 1))
    assert list(lines_of(b"\xff\xfe\x02")) == []


def traced(*texts: str, host: str = "10.0.0.7") -> MessageTrace | None:
    return trace_of(ID, [Reported(each, host) for text in texts for each in read(text)])


def test_deliveries_are_joined_in_the_order_of_time() -> None:
    found = traced(
        after("r2", 35, 0),
        before("r2", 30, 1),
        before("r3", 40, group="h"),
        after("r1", 14, 2),
        pub(),
        before("r1", 9, 0),
        # A trace that was sent again.
        before("r1", 9, 0),
    )
    assert found is not None
    assert (found.topic, found.keys, len(found.sends)) == ("orders", ("k1", "k2"), 1)
    first, second = found.groups
    assert (first.group, second.group) == ("g", "h")
    assert [
        (each.retry_times, each.began_ms, each.cost_ms, each.is_ok, each.result)
        for each in first.deliveries
    ] == [(0, 9, 5, False, "EXCEPTION"), (1, 30, 5, True, "SUCCESS")]
    (open_,) = second.deliveries
    assert (open_.cost_ms, open_.is_ok, open_.result, open_.host) == (None, None, "", "10.0.0.7")


def test_an_end_without_a_begin_is_reported_too() -> None:
    found = traced(line("SubAfter", "r", ID, 5, "true", "null"))
    assert found is not None
    (group,) = found.groups
    assert group.group == ""
    assert [(each.began_ms, each.is_ok) for each in group.deliveries] == [(None, True)]
    assert (found.topic, found.keys, found.sends) == (None, (), ())


def test_a_message_of_a_batch_is_found_and_others_are_not() -> None:
    found = traced(pub(message_id=f"{OTHER},{ID}"), line(*PUB[:5], OTHER, *PUB[6:], "true"))
    assert found is not None
    assert len(found.sends) == 1
    assert traced(pub(message_id=OTHER)) is None
    assert traced() is None


def test_the_end_of_a_transaction_is_reported() -> None:
    found = traced(pub(message_type=written.HALF), ended("ROLLBACK_MESSAGE", is_from_check=True))
    assert found is not None
    assert found.sends[0].line.kind == "half"
    (end,) = found.ends
    assert (end.line.state, end.line.is_from_check) == ("ROLLBACK_MESSAGE", True)
    assert found.tags == "t"
