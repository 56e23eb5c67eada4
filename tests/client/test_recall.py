"""Timed messages and their recall by our client, with our broker."""

from datetime import timedelta

import pytest

from mqcore import Message, Producer
from mqcore.client.recall import RecallHandle
from mqcore.errors import MessageError, ResponseError
from mqcore.testing import Broker

HANDLE = "djEgVCBibiAxNzAwMDAwMDAwMDAxIEFDMTE="


def test_a_handle_is_read() -> None:
    wanted = RecallHandle("T", "bn", 1_700_000_000_001, "AC11")
    assert RecallHandle.parse(HANDLE) == wanted
    assert RecallHandle.parse(HANDLE.rstrip("=")) == wanted


@pytest.mark.parametrize("bad", ["", "x", "*" * 100, "djIgVCBibiAxIEFDMTE=", "ä"])
def test_what_is_no_handle_is_refused(bad: str) -> None:
    with pytest.raises(MessageError, match="is no recall handle"):
        RecallHandle.parse(bad)


def test_timed_messages_age_with_the_broker_and_recalled_ones_do_not_come() -> None:
    with (
        Broker({"recallMessageEnable": "true"}) as broker,
        Producer(broker.namesrv, group="g") as producer,
    ):
        kept = producer.send(Message("t", b"kept", delay=600))
        later = producer.send(Message("t", b"later", delay=timedelta(seconds=1_200)))
        taken = producer.send(Message("t", b"taken", delay=600))
        assert kept.recall_handle is not None
        assert taken.recall_handle is not None
        assert producer.recall(taken.recall_handle) == taken.message_id
        broker.advance(601)
        assert [message.body for message in broker.messages("t")] == [b"kept"]
        with pytest.raises(ResponseError, match="timestamp invalid"):
            producer.recall(kept.recall_handle)
        producer.send(Message("t", b"new", delay=600))
        broker.restart()
        broker.advance(590)
        assert [message.body for message in broker.messages("t")] == [b"kept"]
        broker.advance(15)
        assert {message.body for message in broker.messages("t")} == {b"kept", b"later", b"new"}
        assert later.recall_handle is not None


def test_a_broker_that_allows_no_recall_is_reported() -> None:
    with Broker() as broker, Producer(broker.namesrv, group="g") as producer:
        sent = producer.send(Message("t", b"x", delay=600))
        assert sent.recall_handle is not None
        with pytest.raises(ResponseError, match="operation is forbidden"):
            producer.recall(sent.recall_handle)
