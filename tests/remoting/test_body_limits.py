"""Bodies that are longer than any client has reason to send: refused before they are read."""

import pytest

from mqcore.errors import RefusedError
from mqcore.native import Command
from mqcore.remoting import (
    CODES,
    AnsweredBy,
    Connection,
    Dispatcher,
    Hub,
    OwnRequestCode,
    Request,
    RequestCode,
    answered_by,
    body_bytes_max,
)
from mqcore.remoting.body_limits import BODY_BYTES_MAX, LISTS_BYTES_MAX

SERVERS = AnsweredBy.BROKER | AnsweredBy.NAMESRV | AnsweredBy.CONTROLLER


def request_of(code: int, body: bytes) -> Request:
    return Request(Command(code, opaque=1, body=body), Connection(Hub()).link)


def test_a_long_body_is_refused_before_any_handler_and_check() -> None:
    asked: list[int] = []

    def handler(request: Request) -> Command:
        asked.append(len(request.body))
        return request.answer()

    dispatcher = Dispatcher({RequestCode.UPDATE_BROKER_CONFIG: handler})
    dispatcher.check = lambda _request: asked.append(0)
    body = bytes(BODY_BYTES_MAX)
    dispatcher.start(request_of(25, body))
    assert asked == [0, BODY_BYTES_MAX]
    with pytest.raises(RefusedError) as caught:
        dispatcher.start(request_of(25, body + b" "))
    assert caught.value.message == (
        f"a body of {BODY_BYTES_MAX + 1} bytes: UPDATE_BROKER_CONFIG(25) takes {BODY_BYTES_MAX} "
        "at the most"
    )
    assert asked == [0, BODY_BYTES_MAX]


def test_every_code_that_python_answers_has_a_limit_or_a_reason() -> None:
    unbounded = {
        int(code)
        for code in answered_by(AnsweredBy.BROKER)
        | answered_by(AnsweredBy.NAMESRV)
        | answered_by(AnsweredBy.CONTROLLER)
        if body_bytes_max(code) is None
    }
    # A heartbeat and a registration have bounds of their own, replies are messages, and two are
    # asked of clients too.
    assert unbounded == {34, 103, 307, 309, 324, 325}


def test_codes_of_our_own_are_bounded_and_messages_are_not() -> None:
    assert body_bytes_max(OwnRequestCode.AUDIT_READ) == BODY_BYTES_MAX
    assert body_bytes_max(OwnRequestCode.CONTROLLER_MESSAGE) is None
    for code in (10, 36, 310, 320, 326, 123_456):
        assert body_bytes_max(code) is None
    # Ten thousand topics as mqadmin writes them.
    row = (
        '{"attributes":{"+message.type":"NORMAL"},"order":false,"perm":6,"readQueueNums":8,'
        '"topicFilterType":"SINGLE_TAG","topicName":"a-topic-with-a-name-of-usual-length-1234",'
        '"topicSysFlag":0,"writeQueueNums":8},'
    )
    assert body_bytes_max(18) == LISTS_BYTES_MAX > 10_000 * len(row)
    assert CODES[18].row.answered_by & SERVERS
