"""What `repr` shows of clients and of what they return: one line, without secrets."""

from typing import Any

import pytest

import mqcore
from loops import run_on
from mqcore import Credentials, Message, QueueRef, SendResult, SendStatus, aio
from mqcore.testing import Broker

ADDRESS = "127.0.0.1:9"


@pytest.mark.parametrize("face", [mqcore, aio])
@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("Producer", {}, "<Producer namesrv='127.0.0.1:9' group='g' not started>"),
        (
            "TransactionProducer",
            {},
            "<TransactionProducer namesrv='127.0.0.1:9' group='g' not started>",
        ),
        (
            "PushConsumer",
            {"handler": print, "topics": ["t", "s"], "namespace": "ns"},
            "<PushConsumer namesrv='127.0.0.1:9' group='g' topics=['s', 't'] not started>",
        ),
        ("PullConsumer", {}, "<PullConsumer namesrv='127.0.0.1:9' group='g' not started>"),
    ],
)
def test_parts_of_the_client_are_shown_by_group_and_address(
    face: Any, kind: str, options: dict[str, Any], expected: str
) -> None:
    credentials = Credentials("access", "secret-word")
    part = getattr(face, kind)(ADDRESS, group="g", credentials=credentials, **options)
    assert repr(part) == expected


@pytest.mark.parametrize("kind", ["Producer", "PullConsumer"])
def test_the_state_is_shown(kind: str) -> None:
    with getattr(mqcore, kind)(ADDRESS, group="g") as part:
        assert repr(part) == f"<{kind} namesrv='127.0.0.1:9' group='g' started>"
    assert repr(part).endswith(" closed>")


def test_a_client_is_shown() -> None:
    async def work() -> None:
        client = aio.Client("h:1;h:2")
        assert repr(client) == "<Client namesrv='h:1;h:2' not started>"
        await client.start()
        assert repr(client) == "<Client namesrv='h:1;h:2' started>"
        await client.close()
        assert repr(client) == "<Client namesrv='h:1;h:2' closed>"

    run_on("asyncio", work())


def test_a_result_is_shown_by_queue_and_offset() -> None:
    queue = QueueRef("orders", "b", 3)
    one = SendResult(SendStatus.SEND_OK, "ID1", queue, 7, "offset-id", recall_handle="x" * 200)
    assert repr(one) == "SendResult(SEND_OK, 'orders', b/3 at 7, ID1)"
    many = SendResult(SendStatus.FLUSH_DISK_TIMEOUT, "ID1,ID2,ID3", queue, 7, "o", attempts=2)
    assert repr(many) == (
        "SendResult(FLUSH_DISK_TIMEOUT, 'orders', b/3 at 7, ID1 and 2 more, 2 tries)"
    )


def test_a_broker_is_shown_by_its_addresses() -> None:
    broker = Broker()
    assert repr(broker) == "<Broker not running>"
    with broker:
        assert repr(broker) == (
            f"<Broker namesrv='{broker.namesrv}' address='{broker.address}' running>"
        )
        assert repr(broker.awaited).startswith("<AsyncBroker namesrv=")
        with mqcore.Producer(broker.namesrv) as producer:
            assert repr(producer.send(Message("t", b"x"))).startswith("SendResult(SEND_OK, 't', ")
    assert repr(broker) == "<Broker not running>"
