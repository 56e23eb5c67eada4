"""mqadmin's commands that send: a message, or many to see how long brokers take."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from mqcore.cli.mqadmin import java
from mqcore.cli.mqadmin.call import Call
from mqcore.client.message import Message
from mqcore.client.producer import Producer
from mqcore.client.results import SendResult
from mqcore.clock import monotonic_ms, wall_ms
from mqcore.errors import MQError
from mqcore.model.queues import MessageQueue

__all__ = [
    "check_times",
    "cluster_times",
    "producer_of",
    "result_text",
    "send_message",
    "send_status",
]

_SENT_FORMAT: Final = "%-32s  %-4s  %-20s    %s"
_STATUS_GROUP: Final = "PID_SMSC"
_WORD: Final = b"hello jodie"
_FIRST_BYTES: Final = 16
# What mqadmin prints times of its log in.
_LOG_ZONE: Final = timedelta(hours=8)


def producer_of(call: Call, group: str, *, trace: bool = False) -> Producer:
    """Returns a producer for the cluster."""
    cluster = call.cluster
    return Producer(
        cluster.namesrv,
        group=group,
        credentials=cluster.credentials,
        tls=cluster.tls,
        trace=trace,
    )


def result_text(result: SendResult) -> str:
    """Returns `SendResult.toString`."""
    return (
        f"SendResult [sendStatus={result.status.value}, msgId={result.message_id}, "
        f"offsetMsgId={result.offset_message_id}, messageQueue={java.queue_text(result.queue)}, "
        f"queueOffset={result.queue_offset}, recallHandle={java.text(result.recall_handle)}]"
    )


async def send_message(call: Call) -> None:
    """Sends one message."""
    topic = call.text("t")
    if call.has("i") and not call.has("b"):
        raise call.usage("Broker name must be set if the queue is chosen!")
    queue = None
    if call.has("i"):
        queue = MessageQueue(topic, call.text("b"), call.whole("i", least=0))
    message = Message(
        topic,
        call.text("p").encode(),
        tags=call.optional("c"),
        keys=call.text("k").split(),
    )
    async with producer_of(call, str(wall_ms()), trace=call.is_true("m")) as producer:
        result = await producer.send(message, queue=queue)
    call.out.row(_SENT_FORMAT, "#Broker Name", "#QID", "#Send Result", "#MsgId")
    where = (result.queue.broker_name, result.queue.queue_id)
    call.out.row(_SENT_FORMAT, *where, result.status.value, result.message_id)
    call.out.give(
        {
            "broker_name": result.queue.broker_name,
            "queue_id": result.queue.queue_id,
            "queue_offset": result.queue_offset,
            "status": result.status.value,
            "message_id": result.message_id,
            "offset_message_id": result.offset_message_id,
        }
    )


async def send_status(call: Call) -> None:
    """Sends messages to the topic that has the name of a broker, and prints each result."""
    topic = call.text("b")
    body = _words(call.whole("s", 128, least=1))
    async with producer_of(call, _STATUS_GROUP) as producer:
        # The first one connects, and is not counted.
        await producer.send(Message(topic, _words(_FIRST_BYTES)))
        for _ in range(call.whole("c", 50, least=1)):
            began_ms = monotonic_ms()
            result = await producer.send(Message(topic, body))
            took_ms = monotonic_ms() - began_ms
            call.out.line(f"rt={took_ms}ms, SendResult={result_text(result)}")
            call.out.give({"took_ms": took_ms, "message_id": result.message_id})


def _words(at_least: int) -> bytes:
    return _WORD * -(-at_least // len(_WORD))


async def check_times(call: Call) -> None:
    """Sends messages to the queues of a topic in turn, and prints how long each took."""
    topic, amount = call.text("t"), call.whole("a", 100, least=1)
    message = Message(topic, b"a" * call.whole("s", 128, least=1))
    call.out.row(_SENT_FORMAT, "#Broker Name", "#QID", "#Send Result", "#RT")
    given, times = [], []
    async with producer_of(call, str(wall_ms())) as producer:
        queues = await producer.queues(topic)
        for number in range(amount):
            queue = queues[number % len(queues)]
            took_ms, fault = await _timed(producer, message, queue)
            times.append(took_ms)
            is_sent = "true" if fault is None else "false"
            call.out.row(_SENT_FORMAT, queue.broker_name, queue.queue_id, is_sent, took_ms)
            row = {"broker_name": queue.broker_name, "queue_id": queue.queue_id}
            given.append(row | {"took_ms": took_ms, "error": fault})
    mean_ms = _mean(times)
    call.out.line(f"Avg RT: {mean_ms:.2f}")
    call.out.give({"mean_ms": mean_ms, "sends": given})
    failed = [row["error"] for row in given if row["error"] is not None]
    if failed:
        raise MQError(f"{len(failed)} of {amount} messages were not sent: {failed[0]}")


async def _timed(
    producer: Producer, message: Message, queue: MessageQueue | None
) -> tuple[int, str | None]:
    """Returns how long a send took, and why it failed."""
    began_ms, fault = monotonic_ms(), None
    try:
        await producer.send(message, queue=queue)
    except MQError as error:
        fault = error.message
    return monotonic_ms() - began_ms, fault


def _mean(times_ms: Sequence[int]) -> float:
    """Returns the mean; the first one connects, and is not counted."""
    counted = times_ms[1:] or times_ms
    return sum(counted) / len(counted)


async def cluster_times(call: Call) -> None:
    """Sends messages to the topics that have the names of brokers, again and again."""
    amount, pause_s = call.whole("a", 100, least=1), call.whole("i", 10, least=0)
    body = b"a" * call.whole("s", 128, least=1)
    is_log, machine_room = call.is_true("p"), call.text("m", "noname")
    info = await call.servers.cluster()
    wanted = call.text("c")
    if wanted:
        await call.servers.names_of(wanted)
    if not is_log:
        heads = ("#Cluster Name", "#Broker Name", "#RT", "#successCount", "#failCount")
        call.out.row("%-24s  %-24s  %-4s  %-8s  %-8s", *heads)
    async with producer_of(call, str(wall_ms())) as producer:
        while True:
            for cluster, names in info.clusters.items():
                for name in names if wanted in ("", cluster) else ():
                    message = Message(name, body)
                    sends = [await _timed(producer, message, None) for _ in range(amount)]
                    failed = sum(fault is not None for _, fault in sends)
                    mean_ms = _mean([took for took, _ in sends])
                    if is_log:
                        moment = datetime.now(UTC) + _LOG_ZONE
                        shown = f"{moment:%Y-%m-%d %H:%M:%S}|{machine_room}|{cluster}|{name}"
                        call.out.line(f"{shown}|{mean_ms:.0f}")
                    else:
                        numbers = (f"{mean_ms:.2f}", amount - failed, failed)
                        cells = (cluster, name, *numbers)
                        call.out.row("%-24s  %-24s  %-8s  %-16s  %-16s", *cells)
                    row = {"cluster": cluster, "broker_name": name, "mean_ms": mean_ms}
                    call.out.give(row | {"sent": amount - failed, "failed": failed})
            await asyncio.sleep(pause_s)
