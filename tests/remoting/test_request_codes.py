"""The table of request codes, what is checked against it at the start, and its page."""

import copy
import pickle
from pathlib import Path

import pytest

from controller.asking import controlled
from mqcore.client.pushed import Pushed
from mqcore.native import native_request_codes
from mqcore.remoting import (
    CODES,
    AnsweredBy,
    Dispatcher,
    Family,
    OwnRequestCode,
    RequestCode,
    answered_by,
    check_handlers,
    check_native,
    code_name,
    family,
)
from mqcore.remoting.request_code_page import page
from namesrv.asking import Asked

HERE = Path(__file__).parent
OFFICIAL = HERE / "official_request_codes.txt"
PAGE = HERE.parents[1] / "docs" / "request-codes.md"


def official() -> list[tuple[int, str, str, str]]:
    """Returns number, name, first and last release of every official code."""
    lines = OFFICIAL.read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return [
        (int(number), name, since, "" if until == "-" else until)
        for number, name, since, until in rows
    ]


def test_every_official_code_has_its_row_and_no_other_is_there() -> None:
    declared = [(int(code), code.name, code.row.since, code.row.until) for code in RequestCode]
    assert sorted(declared) == sorted(official())


def test_a_code_has_a_reason_exactly_where_nobody_answers_it() -> None:
    assert [
        code for code in RequestCode if bool(code.row.answered_by) == bool(code.row.reason)
    ] == []


def test_a_request_is_executed_by_the_fast_path_or_by_python() -> None:
    both = AnsweredBy.NATIVE | AnsweredBy.BROKER
    assert [code for code in RequestCode if both in code.row.answered_by] == []
    assert answered_by(AnsweredBy.NATIVE)
    assert answered_by(AnsweredBy.BROKER)


def test_a_member_is_its_number() -> None:
    code = RequestCode.PULL_MESSAGE
    assert (code, str(code), CODES[11]) == (11, "11", code)
    assert pickle.loads(pickle.dumps(code)) is code
    assert copy.deepcopy(code) is code
    assert (code_name(11), code_name(7)) == ("PULL_MESSAGE(11)", "7")


def test_a_family_has_all_its_codes() -> None:
    assert {int(code) for code in family(Family.SEND)} == {10, 310, 320}
    assert {code for kind in Family for code in family(kind)} == set(RequestCode)


def test_the_extension_executes_the_native_codes() -> None:
    executed = native_request_codes()
    wanted = {code.name: int(code) for code in answered_by(AnsweredBy.NATIVE)}
    assert executed == wanted
    check_native(executed)


def test_a_native_code_that_differs_from_the_table_is_an_error() -> None:
    executed = native_request_codes()
    with pytest.raises(
        RuntimeError, match=r"GET_MAX_OFFSET\(30\) is in the table and not executed"
    ):
        check_native({name: code for name, code in executed.items() if name != "GET_MAX_OFFSET"})
    with pytest.raises(RuntimeError, match=r"HEART_BEAT\(34\) is executed and not in the table"):
        check_native(executed | {"HEART_BEAT": 34})
    with pytest.raises(RuntimeError, match=r"PEEK_MESSAGE\(1\) is executed and not in the table"):
        check_native(executed | {"PEEK_MESSAGE": 1})


def test_the_handlers_of_the_name_server_are_those_of_the_table(tmp_path: Path) -> None:
    assert set(Asked(tmp_path).dispatcher.codes) == answered_by(AnsweredBy.NAMESRV)


def test_the_handlers_of_a_controller_are_those_of_the_table(tmp_path: Path) -> None:
    with controlled(tmp_path) as asked:
        own = set(map(int, OwnRequestCode))
        assert set(asked.dispatcher.codes) - own == answered_by(AnsweredBy.CONTROLLER)
        assert own.isdisjoint(CODES)


def test_the_handlers_of_a_client_are_those_of_the_table() -> None:
    assert set(Pushed("").handlers()) == answered_by(AnsweredBy.CLIENT)


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (RequestCode.PULL_MESSAGE, r"PULL_MESSAGE\(11\) is answered by NATIVE"),
        (RequestCode.PUT_KV_CONFIG, r"PUT_KV_CONFIG\(100\) is answered by NAMESRV"),
        (RequestCode.ADD_BROKER, r"ADD_BROKER\(902\) is answered by nobody"),
        (7, r"7 is not in the table"),
    ],
)
def test_a_handler_too_many_is_an_error(number: int, why: str) -> None:
    with pytest.raises(RuntimeError, match=why):
        check_handlers(AnsweredBy.BROKER, {*answered_by(AnsweredBy.BROKER), number})


def test_a_code_without_its_handler_is_an_error() -> None:
    handlers = answered_by(AnsweredBy.BROKER) - {RequestCode.HEART_BEAT}
    with pytest.raises(RuntimeError, match=r"HEART_BEAT\(34\) has no handler"):
        check_handlers(AnsweredBy.BROKER, handlers)
    check_handlers(AnsweredBy.BROKER, answered_by(AnsweredBy.BROKER))


def test_a_name_server_with_a_wrong_handler_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Dispatcher, "codes", property(lambda _self: [*answered_by(AnsweredBy.NAMESRV), 10])
    )
    with pytest.raises(RuntimeError, match=r"SEND_MESSAGE\(10\) is answered by NATIVE"):
        Asked(tmp_path)


def test_the_page_is_current() -> None:
    again = "make it again: python -m mqcore.remoting.request_code_page > docs/request-codes.md"
    assert PAGE.read_text(encoding="utf-8") == page(), again


def test_the_page_has_every_code_once() -> None:
    text = page()
    assert [
        code for code in RequestCode if text.count(f"| {int(code)} | `{code.name}` |") != 1
    ] == []
