"""The tries of a send: which failure is tried again, where, and what the last word is."""

from typing import Any

import pytest

from mqcore import FaultStrategy
from mqcore.client.delivery import (
    BACKOFF_MS_MAX,
    RETRIED_CODES,
    RETRY_PAUSE_MS,
    RETRY_PAUSE_MS_MAX,
    Delivery,
    TryRules,
)
from mqcore.client.faults import QueueChoice
from mqcore.client.outgoing import Outgoing
from mqcore.client.results import QueueRef, SendResult, SendStatus
from mqcore.client.settings import ProducerSettings
from mqcore.errors import (
    CallTimeoutError,
    ConnectError,
    ConnectionLostError,
    ResponseError,
    SendError,
    SendReason,
    UsageError,
)
from mqcore.native import Command
from mqcore.remoting import ResponseCode

QUEUES = tuple(QueueRef("t", name, at) for name in ("a", "b") for at in range(2))
FIELDS = {"msgId": "OFF", "queueId": "1", "queueOffset": "9", "TRACE_ON": "true"}


def _delivery(
    *, fixed: QueueRef | None = None, faults: FaultStrategy | None = None, **changes: Any
) -> Delivery:
    outgoing = Outgoing("t", b"x", "", "ID", 0)
    settings = ProducerSettings(**changes)
    rules = TryRules.of(settings)
    return Delivery(outgoing, rules, QueueChoice(), began_ms=0, fixed=fixed, faults=faults)


def _answered(delivery: Delivery, answer: Command, address: str, now_ms: int) -> SendResult | None:
    if delivery.accepted(answer, address, now_ms):
        return delivery.result(answer, address)
    return None


def _answer(code: int, **more: str) -> Command:
    return Command(code, ext=FIELDS | more, remark="why", flag=1)


def test_an_answer_becomes_a_result() -> None:
    delivery = _delivery()
    queue, left_ms = delivery.next_try(QUEUES, 0)
    assert left_ms == 3000
    result = _answered(delivery, _answer(0, transactionId="T"), "h:1", 5)
    assert result is not None
    assert (result.status, result.message_id, result.queue_offset) == (SendStatus.SEND_OK, "ID", 9)
    assert result.queue == QueueRef("t", queue.broker_name, 1)
    assert (result.offset_message_id, result.transaction_id) == ("OFF", "T")
    assert result.attempts == 1
    assert result.is_ok


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (10, SendStatus.FLUSH_DISK_TIMEOUT),
        (11, SendStatus.SLAVE_NOT_AVAILABLE),
        (12, SendStatus.FLUSH_SLAVE_TIMEOUT),
    ],
)
def test_what_is_stored_but_not_kept_as_promised_is_a_status(code: int, status: SendStatus) -> None:
    delivery = _delivery()
    delivery.next_try(QUEUES, 0)
    result = _answered(delivery, _answer(code), "h:1", 5)
    assert result is not None
    assert result.status is status
    assert not result.is_ok
    # With the official switch it goes to another broker.
    careful = _delivery(retries_other_status=True)
    first, _ = careful.next_try(QUEUES, 0)
    assert _answered(careful, _answer(code), "h:1", 5) is None
    second, _ = careful.next_try(QUEUES, 5)
    assert second.broker_name != first.broker_name


@pytest.mark.parametrize("code", sorted(RETRIED_CODES))
def test_another_broker_is_tried_where_it_may_do_better(code: int) -> None:
    delivery = _delivery()
    names = []
    for _ in range(2):
        queue, _ = delivery.next_try(QUEUES, 1)
        names.append(queue.broker_name)
        assert _answered(delivery, _answer(code), "h:1", 1) is None
    assert len(set(names)) == 2
    delivery.next_try(QUEUES, 1)
    with pytest.raises(SendError, match="3 tries") as caught:
        _answered(delivery, _answer(code), "h:1", 2)
    assert [name for name, _ in caught.value.attempts][:2] == names
    assert all(isinstance(error, ResponseError) for _, error in caught.value.attempts)
    # A broker whose sync failed has the message in its log.
    assert caught.value.may_be_stored == (code == ResponseCode.SERVICE_NOT_AVAILABLE)
    assert caught.value.reason is SendReason.REFUSED


@pytest.mark.parametrize("code", [13, 26, 29, 3, 500])
def test_a_refusal_that_every_broker_would_give_is_final(code: int) -> None:
    delivery = _delivery()
    delivery.next_try(QUEUES, 0)
    # It names who refused, and counts neither milliseconds nor tries.
    name = delivery.queue.broker_name if delivery.queue else ""
    text = f"topic t: message ID was refused by broker {name}: h:1 answered {code}: why"
    with pytest.raises(SendError) as caught:
        _answered(delivery, _answer(code), "h:1", 1)
    assert str(caught.value) == text


def test_a_queue_that_has_moved_is_looked_for_first() -> None:
    delivery = _delivery()
    assert not delivery.has_moved
    for code, has_moved in ((501, True), (1, False)):
        delivery.next_try(QUEUES, 0)
        assert _answered(delivery, _answer(code), "h:1", 1) is None
        assert delivery.has_moved == has_moved


def test_one_deadline_over_all_tries() -> None:
    delivery = _delivery(retries=10)
    delivery.next_try(QUEUES, 0)
    delivery.failed(ConnectError("h:1: refused", address="h:1"), 1000)
    _, left_ms = delivery.next_try(QUEUES, 1000)
    assert left_ms == 2000
    late = CallTimeoutError("h:1: no answer", address="h:1", code=310, timeout_s=2.0)
    with pytest.raises(
        SendError, match="may be stored", check=lambda error: error.reason is SendReason.TIMEOUT
    ) as caught:
        delivery.failed(late, 3000)
    assert caught.value.may_be_stored
    assert caught.value.__cause__ is late
    assert "h:1: refused" in str(caught.value)


def test_a_try_may_have_a_deadline_of_its_own() -> None:
    delivery = _delivery(try_timeout_s=0.5)
    assert delivery.next_try(QUEUES, 0)[1] == 500
    delivery.failed(CallTimeoutError("late", address="h", code=310, timeout_s=0.5), 500)
    assert delivery.next_try(QUEUES, 2800)[1] == 200
    with pytest.raises(SendError, match="was not sent: its deadline passed") as caught:
        _delivery().next_try(QUEUES, 3000)
    assert caught.value.reason is SendReason.TIMEOUT


def test_a_fixed_queue_is_tried_once() -> None:
    for changes in ({"official_retries": True}, {"retries": 0}):
        delivery = _delivery(fixed=QUEUES[3], **changes)
        assert delivery.next_try(QUEUES, 0)[0] == QUEUES[3]
        with pytest.raises(SendError, match=r"within 1 ms, in 1 try: try 1 at b: h:1: ended"):
            delivery.failed(ConnectionLostError("h:1: ended", address="h:1"), 1)


def _failing(delivery: Delivery, queues: tuple[QueueRef, ...]) -> tuple[list[int], SendError]:
    """Fails each try at once until the send is given up; returns the pauses and the error."""
    pauses: list[int] = []
    now_ms = 0
    while True:
        delivery.next_try(queues, now_ms)
        try:
            delivery.failed(ConnectError("h:1: refused", address="h:1"), now_ms)
        except SendError as error:
            return pauses, error
        pauses.append(delivery.pause_ms(now_ms))
        now_ms += pauses[-1]


@pytest.mark.parametrize("fixed", [None, QUEUES[0]])
def test_one_broker_alone_is_tried_until_the_deadline(fixed: QueueRef | None) -> None:
    pauses, error = _failing(_delivery(fixed=fixed), QUEUES[:2])
    assert pauses[:5] == [50, 100, 200, 400, 500]
    assert pauses[0] == RETRY_PAUSE_MS
    assert max(pauses) == RETRY_PAUSE_MS_MAX
    # The last ones get shorter, so that a try is left for the end.
    assert 2900 <= sum(pauses) < 3000
    assert len(error.attempts) == len(pauses) + 1 < 15
    assert error.reason is SendReason.UNREACHABLE
    assert f"in {len(error.attempts)} tries: tries 1 to {len(error.attempts)} at a: " in str(error)


def test_another_broker_is_tried_at_once_and_the_same_one_after_a_pause() -> None:
    pauses, error = _failing(_delivery(retries=4), QUEUES)
    names = [name for name, _ in error.attempts]
    assert pauses == [0, 50, 50, 100]
    assert len(set(names[:2])) == len(set(names[2:4])) == 2
    # Of several brokers the count holds.
    assert len(names) == 5


def test_the_official_tries_are_few_and_at_once() -> None:
    pauses, error = _failing(_delivery(official_retries=True), QUEUES[:1])
    assert pauses == [0, 0]
    assert len(error.attempts) == 3


def test_a_refusal_that_the_same_broker_would_repeat_is_not_waited_for() -> None:
    delivery = _delivery()
    for _ in range(2):
        delivery.next_try(QUEUES[:1], 0)
        assert not delivery.accepted(_answer(17), "h:1", 0)
    delivery.next_try(QUEUES[:1], 0)
    with pytest.raises(SendError, match="in 3 tries: tries 1 to 3 at a: h:1 answered 17"):
        delivery.accepted(_answer(17), "h:1", 1)
    busy = _delivery()
    for _ in range(5):
        busy.next_try(QUEUES[:1], 0)
        assert not busy.accepted(_answer(2), "h:1", 0)


def test_a_refusal_after_a_failure_names_both() -> None:
    delivery = _delivery()
    delivery.next_try(QUEUES[:1], 0)
    delivery.failed(ConnectError("h:1: refused", address="h:1"), 0)
    delivery.next_try(QUEUES[:1], 50)
    with pytest.raises(SendError, match=r"refused by broker a, after 1 try: h:1 answered 13: why"):
        delivery.accepted(_answer(13), "h:1", 51)


def test_a_send_whose_client_is_closed_between_two_tries_is_stopped() -> None:
    delivery = _delivery()
    delivery.next_try(QUEUES, 0)
    delivery.failed(ConnectionLostError("h:1: ended", address="h:1"), 1)
    error = delivery.stopped()
    assert error.reason is SendReason.STOPPED
    assert error.may_be_stored


def test_a_route_without_a_queue_to_write_is_reported() -> None:
    with pytest.raises(SendError, match="no queue may be written"):
        _delivery().next_try((), 0)


def test_failures_and_answers_are_counted_for_the_brokers() -> None:
    faults = FaultStrategy()
    delivery = _delivery(faults=faults)
    queue, _ = delivery.next_try(QUEUES, 0)
    delivery.failed(ConnectError("h:1: refused", address="h:1"), 1)
    assert not faults.is_available(queue.broker_name, 2)
    # Without a detector nothing could ever report that it is back.
    assert faults.is_reachable(queue.broker_name)
    other, _ = delivery.next_try(QUEUES, 2)
    assert _answered(delivery, _answer(0), "h:2", 602) is not None
    assert not faults.is_available(other.broker_name, 603)
    detecting = FaultStrategy(detector=True)
    delivery = _delivery(faults=detecting)
    queue, _ = delivery.next_try(QUEUES, 0)
    delivery.failed(ConnectError("h:1: refused", address="h:1"), 1)
    assert not detecting.is_reachable(queue.broker_name)


@pytest.mark.parametrize(
    "changes",
    [{"timeout_s": 0}, {"retries": -1}, {"batch_bytes": 0}, {"linger_s": -1.0}],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(changes))):
        ProducerSettings(**changes)


def _sink_delivery(**changes: Any) -> Delivery:
    """The tries of a sender that has no deadline over all, waits, and keeps to its queue."""
    rules = TryRules(
        **{"retries": 2, "try_timeout_ms": 700, "retries_fixed": True, "backoff_ms": 100} | changes
    )
    outgoing = Outgoing("t", b"x", "", "ID", 0)
    what = "a request of 5 rows"
    return Delivery(outgoing, rules, QueueChoice(), began_ms=0, fixed=QUEUES[3], what=what)


def test_tries_without_a_deadline_end_by_their_number() -> None:
    delivery = _sink_delivery()
    for number in range(2):
        now_ms = number * 1_000_000
        assert delivery.next_try((), now_ms) == (QUEUES[3], 700)
        delivery.failed(ConnectError("h:1: refused", address="h:1"), now_ms)
    delivery.next_try((), 3_000_000)
    with pytest.raises(SendError, match=r"a request of 5 rows was not .* 3 tries") as caught:
        delivery.failed(ConnectError("h:1: refused", address="h:1"), 3_000_000)
    assert caught.value.reason is SendReason.UNREACHABLE
    assert [name for name, _ in caught.value.attempts] == [QUEUES[3].broker_name] * 3


def test_pauses_double_to_their_maximum() -> None:
    delivery = _sink_delivery(retries=100)
    pauses = []
    for _ in range(40):
        delivery.next_try((), 0)
        delivery.failed(ConnectError("h:1: refused", address="h:1"), 0)
        pauses.append(delivery.pause_ms(0))
    assert pauses[:4] == [100, 200, 400, 800]
    assert pauses[-1] == BACKOFF_MS_MAX
    # Who sets no pause tries again at once.
    eager = _sink_delivery(backoff_ms=0)
    eager.next_try(QUEUES, 0)
    eager.failed(ConnectError("h:1: refused", address="h:1"), 0)
    assert eager.pause_ms(0) == 0


def test_what_counts_as_stored_is_a_rule() -> None:
    lenient, strict = _sink_delivery(), _sink_delivery(stored_codes=(0,))
    for each in (lenient, strict):
        each.next_try((), 0)
    assert lenient.accepted(_answer(10), "h:1", 1)
    with pytest.raises(SendError, match="h:1 answered 10") as caught:
        strict.accepted(_answer(10), "h:1", 1)
    assert caught.value.reason is SendReason.REFUSED
