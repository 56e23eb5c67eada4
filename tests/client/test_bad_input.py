"""What is no name server, a route that is none, an answer that is none: errors, no hang."""

import asyncio
import socket
import ssl
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import mqcore
from client.serving import STORED, scripted
from loops import run_on
from mqcore import Message, QueueRef, aio
from mqcore.errors import (
    AddressError,
    MessageError,
    MQError,
    NameServerError,
    NoRouteError,
    SendError,
    UsageError,
    UsageReason,
)
from mqcore.remoting import Request


@contextmanager
def saying(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """Runs a listener that talks to whoever comes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                try:
                    talk(peer)
                except OSError:
                    continue

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def _http(peer: socket.socket) -> None:
    peer.recv(100)
    peer.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
    peer.recv(100)


def _tls_alert(peer: socket.socket) -> None:
    peer.recv(100)
    # A fatal alert: unexpected message.
    peer.sendall(b"\x15\x03\x03\x00\x02\x02\x0a")
    peer.recv(100)


@pytest.mark.parametrize("talk", [_http, _tls_alert])
def test_what_is_no_name_server_is_called_by_its_name(
    talk: Callable[[socket.socket], None],
) -> None:
    with saying(talk) as address, mqcore.Producer(address, group="g") as producer:
        with pytest.raises(NameServerError, match="another protocol") as caught:
            producer.send(Message("t", b"x"))
        assert address in str(caught.value)


def test_the_traceback_of_a_missing_name_server_is_that_of_its_error_alone() -> None:
    with mqcore.Producer("127.0.0.1:9", group="g", timeout_s=0.2) as producer:
        with pytest.raises(NameServerError, match="no name server answered") as caught:
            producer.send(Message("t", b"x"))
        # The wait that the deadline cut is ours.
        assert "CancelledError" not in "".join(traceback.format_exception(caught.value))


def test_a_name_server_that_hangs_up_is_reported() -> None:
    with (
        saying(lambda _: None) as address,
        mqcore.Producer(address, group="g") as producer,
        pytest.raises(NameServerError, match="no name server answered"),
    ):
        producer.send(Message("t", b"x"))


def test_the_next_name_server_is_asked_when_one_is_dead() -> None:
    with (
        scripted() as server,
        mqcore.Producer(f"127.0.0.1:9;{server.address}", group="g") as producer,
    ):
        for _ in range(3):
            assert producer.send(Message("t", b"x")).is_ok


@pytest.mark.parametrize(
    "route",
    [
        {},
        {"brokerDatas": "text", "queueDatas": 7},
        {"brokerDatas": [None, {"brokerName": 7}], "queueDatas": [{"perm": "x"}]},
        {
            "brokerDatas": [{"brokerName": "b", "brokerAddrs": {"x": "h:1"}}],
            "queueDatas": [{"brokerName": "b", "writeQueueNums": 1, "readQueueNums": 1, "perm": 6}],
        },
    ],
)
def test_a_route_of_nonsense_has_no_queue_to_write(route: Any) -> None:
    with scripted() as server, mqcore.Producer(server.address, group="g") as producer:
        server.route = lambda _: route
        with pytest.raises(SendError, match="no queue may be written"):
            producer.send(Message("t", b"x"))


@pytest.mark.parametrize(
    "ext", [{}, {"queueId": "x"}, {"queueId": "0", "queueOffset": "far"}, {"queueOffset": ""}]
)
def test_an_answer_of_nonsense_is_an_error_of_the_broker(ext: dict[str, str]) -> None:
    async def work() -> None:
        with scripted() as server:
            server.send = lambda request: request.answer(ext=ext)
            async with aio.Producer(server.address, group="g") as producer:
                if not ext:
                    # Such an answer contains no queue offset, and that is all.
                    assert (await producer.send(Message("t", b"x"))).queue_offset == -1
                    return
                with pytest.raises(SendError, match="cannot be read"):
                    await producer.send(Message("t", b"x"))

    run_on("asyncio", work())


def test_a_route_without_template_and_brokers_reports_that_nobody_is_there() -> None:
    with scripted() as server, mqcore.Producer(server.address, group="g") as producer:
        server.route = lambda _: None
        with pytest.raises(NoRouteError, match=f"b0 \\({server.address}\\)"):
            producer.send(Message("t", b"x"))


@pytest.mark.parametrize(
    ("namesrv", "options", "kind"),
    [
        ("nonsense", {}, AddressError),
        ("", {}, AddressError),
        (7, {}, AddressError),
        ("127.0.0.1:9", {"namespace": "a%b"}, UsageError),
        ("127.0.0.1:9", {"retries": -1}, UsageError),
        ("127.0.0.1:9", {"nonsense": 1}, UsageError),
        ("127.0.0.1:9", {"retries": "many"}, UsageError),
        ("127.0.0.1:9", {"timeout_s": None}, UsageError),
    ],
)
def test_options_that_cannot_work_are_refused_at_once(
    namesrv: Any, options: dict[str, Any], kind: type[MQError]
) -> None:
    with pytest.raises(kind):
        mqcore.Producer(namesrv, **({"group": "g"} | options))


def test_another_event_loop_than_its_own_is_refused() -> None:
    with scripted() as server:
        producer = aio.Producer(server.address, group="g")
        own = asyncio.new_event_loop()
        own.run_until_complete(producer.start())
        own.run_until_complete(producer.send(Message("t", b"x")))

        async def elsewhere() -> None:
            with pytest.raises(UsageError, match="another event loop"):
                await producer.send(Message("t", b"x"))

        run_on("asyncio", elsewhere())
        own.run_until_complete(producer.close())
        own.close()


def test_a_plain_broker_behind_a_client_that_wants_tls_is_an_error() -> None:
    context = ssl.create_default_context()
    with (
        scripted() as server,
        mqcore.Producer(server.address, group="g", tls=context) as producer,
        pytest.raises(NameServerError, match=server.address),
    ):
        producer.send(Message("t", b"x"))


def test_a_broker_that_hangs_up_on_every_send_ends_the_tries() -> None:
    with scripted() as server:

        def send(request: Request) -> None:
            request.link.abort()

        server.send = send
        with mqcore.Producer(server.address, group="g", official_retries=True) as producer:
            with pytest.raises(SendError, match="3 tries") as caught:
                producer.send(Message("t", b"x"))
            assert caught.value.may_be_stored
            server.send = lambda request: request.answer(ext=STORED)
            assert producer.send(Message("t", b"x")).is_ok


@pytest.mark.parametrize("timeout_s", [-1, 0, "3", float("nan"), True])
def test_a_deadline_that_is_none_is_refused(timeout_s: Any) -> None:
    with scripted() as server, mqcore.Producer(server.address, group="g") as producer:
        message = Message("t", b"x")
        # Also where the route is known.
        assert producer.send(message).is_ok
        for call in (
            producer.send,
            producer.request,
            lambda *a, **b: producer.send_batch([*a], **b),
        ):
            with pytest.raises(UsageError, match=r"^timeout_s: "):
                call(message, timeout_s=timeout_s)

        async def work() -> None:
            async with aio.TransactionProducer(server.address, group="g") as awaited:
                assert (await awaited.send(message)).is_ok
                for call in (awaited.send, awaited.request, awaited.send_half):
                    with pytest.raises(UsageError, match=r"^timeout_s: "):
                        await call(message, timeout_s=timeout_s)

        run_on("asyncio", work())


@pytest.mark.parametrize("options", [{}, {"broadcast": True}])
def test_a_consumer_without_topics_is_reported_once(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with scripted() as server:
        with mqcore.PushConsumer(server.address, group="g", handler=print, **options):
            pass
        with mqcore.PullConsumer(server.address, group="h", **options) as puller:
            puller.poll(0.01)
            puller.poll(0.01)
        with mqcore.PullConsumer(server.address, group="i", topics="t", **options) as puller:
            puller.poll(0.01)
    warned = [text for text in caplog.messages if "no topic is subscribed" in text]
    assert [text.split(":")[0] for text in warned] == ["consumer g", "consumer h"]


@pytest.mark.parametrize("face", [mqcore, aio])
@pytest.mark.parametrize("group", ["a b", "", "g" * 256, "ä"])
@pytest.mark.parametrize(
    "kind", ["Producer", "TransactionProducer", "PushConsumer", "PullConsumer"]
)
def test_a_group_without_a_legal_name_fails_in_the_constructor(
    face: Any, kind: str, group: str
) -> None:
    options: dict[str, Any] = {"handler": print} if kind == "PushConsumer" else {}
    with pytest.raises(UsageError, match="The specified group") as caught:
        getattr(face, kind)("127.0.0.1:9", group=group, **options)
    assert caught.value.reason is UsageReason.GROUP


@pytest.mark.parametrize("namesrv", [b"127.0.0.1:9876", bytearray(b"h:1"), [b"127.0.0.1:9876"]])
def test_an_address_in_bytes_is_shown_as_it_was_given(namesrv: Any) -> None:
    with pytest.raises(AddressError, match=r"^namesrv: .*b'.* is no address such as 127.0.0.1"):
        mqcore.Producer(namesrv, group="g")


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ("x", "offsets: a Mapping is expected, not 'x'"),
        (5, "offsets: a Mapping is expected, not 5"),
        ({"t": 1}, "a QueueRef is expected, not str"),
        ({QueueRef("t", "b0", 0): "1"}, "offset: an int is expected, not '1'"),
        ({QueueRef("t", "b0", 0): -1}, "t, queue 0 of broker b0: offset -1 is below 0"),
        ({QueueRef("t", "b0", 9): 1}, "is not held by this consumer now"),
    ],
)
def test_offsets_that_are_none_are_not_committed(offsets: Any, expected: str) -> None:
    with scripted() as server, mqcore.PullConsumer(server.address, group="g", topics="t") as puller:
        with pytest.raises(UsageError) as caught:
            puller.commit(offsets)
        assert expected in str(caught.value)
        with pytest.raises(UsageError, match=r"^offset: an int is expected"):
            puller.seek(QueueRef("t", "b0", 0), "1")  # type: ignore[arg-type]


def test_what_is_no_handle_and_no_request_is_refused() -> None:
    with scripted() as server, mqcore.Producer(server.address, group="g") as producer:
        with pytest.raises(MessageError, match="recall handle as str is expected, not NoneType"):
            producer.recall(None)  # type: ignore[arg-type]
        with pytest.raises(MessageError, match="a ReceivedMessage is expected, not Message"):
            producer.reply(Message("t", b"x"), b"y")  # type: ignore[arg-type]
