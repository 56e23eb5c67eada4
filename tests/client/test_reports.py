"""What a client reports by itself: on standard error where nobody configured logging."""

import asyncio
import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import mqcore
from client.serving import Cluster, scripted, serving
from interop.patience import eventually
from loops import DEADLINE_S
from mqcore import Message, ReceivedMessage, aio
from mqcore.client.duties import Duties
from mqcore.client.name_servers import NameServers
from mqcore.errors import NameServerError, NoRouteError
from mqcore.remoting import Client
from mqcore.testing import Broker

# Nobody listens there: the port is reserved.
NOBODY = "127.0.0.1:1"
_CONSUME = """
import mqcore

with mqcore.PushConsumer({address!r}, group="g", topics={topic!r}, handler={handler},
                         consume_from=mqcore.ConsumeFrom.FIRST_OFFSET) as c:
    c.wait(timeout_s={wait_s})
"""
_SEND = """
import mqcore

with mqcore.Producer({address!r}, group="g") as producer:
    came = __import__("threading").Event()
    came.wait(0.5)
"""


def printed(program: str) -> str:
    """Runs a program; returns what it printed on standard error."""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


def consuming(
    address: str, *, topic: str = "t", handler: str = "print", wait_s: float = 0.5
) -> str:
    return _CONSUME.format(address=address, topic=topic, handler=handler, wait_s=wait_s)


@pytest.mark.parametrize("program", [consuming(NOBODY), _SEND.format(address=NOBODY)])
def test_a_name_server_that_does_not_answer_is_printed_once(program: str) -> None:
    text = printed(program)
    assert text.count("no name server answered: 127.0.0.1:1: ") == 1
    assert "Check the addresses" in text
    assert "goes on asking" in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    "silence",
    [
        'logging.getLogger("mqcore").addHandler(logging.NullHandler())',
        'logging.getLogger("mqcore").setLevel(logging.ERROR)',
        "logging.basicConfig(level=logging.ERROR)",
    ],
)
def test_an_application_that_silences_the_client_hears_nothing(silence: str) -> None:
    assert printed(f"import logging\n{silence}\n{consuming(NOBODY)}") == ""


def test_what_an_application_configured_is_used() -> None:
    configured = 'import logging\nlogging.basicConfig(format="%(levelname)s of %(name)s")\n'
    assert printed(configured + consuming(NOBODY)) == "WARNING of mqcore.client.name_servers\n"


def test_a_handler_that_raises_is_printed_with_its_trace(cluster: Cluster) -> None:
    with mqcore.Producer(cluster.namesrv, group="g") as producer:
        producer.send(Message("raised", b"x"))
    handler = "lambda message: 1 / 0"
    text = printed(consuming(cluster.namesrv, topic="raised", handler=handler, wait_s=1.0))
    assert "not consumed" in text
    assert "ZeroDivisionError" in text


def test_a_topic_that_is_not_there_is_printed(tmp_path: Path) -> None:
    with serving(tmp_path, autoCreateTopicEnable="false") as cluster:
        text = printed(consuming(cluster.namesrv, topic="absent"))
    assert text.count("nothing is consumed of absent yet: no route for topic absent") == 1
    assert "mqcore topic create absent" in text


def test_a_topic_that_the_first_send_makes_is_no_alarm(cluster: Cluster) -> None:
    assert printed(consuming(cluster.namesrv, topic="soon")) == ""
    with mqcore.Producer(cluster.namesrv, group="g") as producer:
        consumer = mqcore.PullConsumer(cluster.namesrv, group="g2", topics="soon2")
        consumer.start()
        try:
            with pytest.raises(NoRouteError, match="the first send to it creates it") as caught:
                consumer.topic_queues("soon2")
        finally:
            consumer.close()
        assert caught.value.is_made_by_sends
        assert producer.send(Message("soon2", b"x")).is_ok


def test_a_name_server_that_stays_silent_is_reported_again_each_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def asked(times: int) -> None:
        async with Client() as client:
            servers = NameServers(client, [NOBODY])
            for _ in range(times):
                with pytest.raises(NameServerError):
                    await servers.call(106, timeout_s=1.0)

    asyncio.run(asked(3))
    assert len(caplog.records) == 1
    monkeypatch.setattr("mqcore.client.name_servers._REPORT_AGAIN_S", 0.0)
    asyncio.run(asked(3))
    assert len(caplog.records) == 4


def test_the_start_can_wait_for_a_name_server() -> None:
    producer = mqcore.Producer(NOBODY, group="g")
    consumer = mqcore.PushConsumer(NOBODY, group="g", topics="t", handler=print)
    client = mqcore.Client(NOBODY)
    for part in (producer, consumer, client):
        with pytest.raises(NameServerError, match="no name server answered"):
            part.start(timeout_s=0.2)
        part.close()
    with scripted() as server:
        with mqcore.Client(server.address) as other:
            other.start(timeout_s=DEADLINE_S)
        late = mqcore.Producer(server.address, group="g")
        late.start(timeout_s=DEADLINE_S)
        late.close()


def test_a_producer_whose_start_failed_can_be_started_again() -> None:
    async def work(server: str) -> None:
        producer = aio.Producer(NOBODY, group="g")
        with pytest.raises(NameServerError):
            await producer.start(timeout_s=0.1)
        await producer.start()
        await producer.close()
        async with aio.PullConsumer(server, group="g", topics="t") as consumer:
            await consumer.start(timeout_s=DEADLINE_S)

    with scripted() as server:
        asyncio.run(work(server.address))


def test_a_send_ends_at_its_deadline_while_the_name_server_hangs() -> None:
    async def work() -> None:
        async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(hang, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with aio.Producer(f"127.0.0.1:{port}", group="g") as producer:
            async with asyncio.timeout(2.5):
                # Its question alone would take 3 s.
                with pytest.raises(NameServerError, match=r"no name server answered within 0\.2 s"):
                    await producer.send(Message("t", b"x"), timeout_s=0.2)
        server.close()

    asyncio.run(work())


def test_programs_start_in_any_order(tmp_path: Path) -> None:
    """Consumer and producer are there before the servers are."""
    with serving(tmp_path / "first") as first:
        address = first.namesrv
    port = address.rpartition(":")[2]
    bodies: list[bytes] = []

    def handle(message: ReceivedMessage) -> None:
        bodies.append(message.body)

    with (
        mqcore.PushConsumer(
            address,
            group="g",
            topics="t",
            handler=handle,
            consume_from=mqcore.ConsumeFrom.FIRST_OFFSET,
        ),
        mqcore.Producer(address, group="g", timeout_s=DEADLINE_S) as producer,
        serving(tmp_path / "second", namesrv_port=int(port)),
    ):
        assert producer.send(Message("t", b"x")).is_ok
        assert eventually(lambda: bodies, bool) == [b"x"]


def test_a_duty_that_fails_with_words_is_a_line_without_a_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def no_route() -> None:
        raise NoRouteError("no route for topic t", topic="t")

    async def fault() -> None:
        raise ValueError("a fault of ours")

    async def work() -> None:
        duties = Duties()
        duties.once("route of t", no_route)
        duties.once("other", fault)
        assert await duties.until_idle(DEADLINE_S)

    asyncio.run(work())
    line, trace = sorted(caplog.records, key=lambda record: record.levelno)
    assert line.getMessage() == "route of t failed: no route for topic t"
    assert (line.levelname, line.exc_info) == ("WARNING", None)
    assert trace.exc_info is not None


def test_a_broker_that_ends_is_one_line_whatever_its_queues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        Broker() as broker,
        mqcore.PushConsumer(broker.namesrv, group="g", topics="t", handler=print) as consumer,
    ):
        broker.create_topic("t", queues=8)
        assert len(eventually(lambda: consumer.queues, lambda queues: len(queues) == 8)) == 8
        caplog.clear()
        broker.drop_connections()

        def lines() -> list[str]:
            return [text for text in caplog.messages if "no messages now" in text]

        assert eventually(lines, bool)
        # All of them wait for the answer of a pull; the connection's end is one event for all.
        consumer.close()
        (line,) = lines()
    assert "of broker broker-test: no messages now: " in line
    assert "It is asked again" in line


def test_an_administrator_that_raises_prints_nothing_beside() -> None:
    program = f"""
import asyncio
from mqcore.admin import Admin
from mqcore.errors import NameServerError

async def main():
    async with Admin({NOBODY!r}) as admin:
        try:
            await admin.topics.names()
        except NameServerError as error:
            assert "no name server answered" in str(error)
            print("raised")

asyncio.run(main())
"""
    assert printed(program) == ""


def _first_program(address: str) -> str:
    """Returns the first program of README.md, with another name server."""
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    program = text.split("```python\n")[1].split("```")[0]
    assert "127.0.0.1:9876" in program
    return program.replace("127.0.0.1:9876", address)


def test_the_first_program_does_not_hang_in_silence() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _first_program(NOBODY)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("no name server answered: ")
    assert "NameServerError: no name server answered" in ended.stderr


def test_the_first_program_ends_at_a_signal() -> None:
    with Broker() as broker:
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", _first_program(broker.namesrv)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert "SEND_OK" in process.stdout.readline()
        # A member is there when its offsets are; its program waits from then on.
        assert eventually(lambda: broker.offsets("billing", "orders"), bool)
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def test_an_outage_is_some_lines_and_not_some_per_try(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Broker and name server end under a consumer of many queues whose offsets are not saved."""
    came = threading.Event()

    def handle(message: ReceivedMessage) -> None:
        del message
        came.set()

    with (
        Broker() as broker,
        mqcore.Producer(broker.namesrv, group="p") as producer,
        mqcore.PushConsumer(
            broker.namesrv,
            group="g",
            topics=["a", "b"],
            handler=handle,
            consume_from=mqcore.ConsumeFrom.FIRST_OFFSET,
            persist_interval_s=0.05,
        ) as consumer,
    ):
        for topic in ("a", "b"):
            broker.create_topic(topic, queues=8)
        assert len(eventually(lambda: consumer.queues, lambda queues: len(queues) == 16)) == 16
        producer.send("a", b"x")
        assert came.wait(DEADLINE_S)
        caplog.clear()
        broker.kill()
        # Beyond the pause after which each queue is pulled again.
        threading.Event().wait(4.0)
        warnings = [each for each in caplog.records if each.levelno >= logging.WARNING]
    texts = [each.getMessage() for each in warnings]
    assert any("no messages now" in text for text in texts)
    assert any("no name server answered" in text for text in texts)
    assert len(texts) < 10, texts
    assert not [each for each in warnings if each.exc_info]
