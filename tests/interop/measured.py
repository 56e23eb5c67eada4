"""A load that moves as many figures of a broker as one can move in a minute, and its `/metrics`.

The same for ours and the official ones: sends of every kind, batches, transactions, timers, retries
and dead letters, pulls, pops with and without an acknowledgement. Knows no broker's inside.
"""

import asyncio
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import mqcore
from interop.patience import eventually
from interop.servers import Servers
from mqcore.remoting import Client, RequestCode
from popping import Popper

# Settings of both: Prometheus; timers and retries that do not keep one waiting.
SETTINGS = {
    "metricsExporterType": "PROM",
    "messageDelayLevel": " ".join(["1s"] * 18),
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "500",
    "timerWheelEnable": "true",
    "traceTopicEnable": "true",
    "autoCreateTopicEnable": "true",
    "enablePopBufferMerge": "true",
    "reviveQueueNum": "1",
}
TOPIC, GROUP = "MetricsTopic", "MetricsGroup"
DEAD_GROUP, POP_GROUP = "MetricsDeadGroup", "MetricsPopGroup"
_PATIENCE_S = 120.0


def scraped(port: int, is_whole: Callable[[str], bool] = bool) -> str:
    """Returns what `/metrics` shows, once it is whole."""

    def look() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                text: str = answer.read().decode()
                return text
        except OSError:
            return ""

    return eventually(look, is_whole, patience_s=_PATIENCE_S)


@contextmanager
def driven(servers: Servers) -> Iterator[None]:
    """Moves the figures of a broker; clients are connected within."""
    namesrv = servers.namesrv.address
    asyncio.run(_created(servers))
    _sent(namesrv)
    _ended(namesrv)
    asyncio.run(_popped(servers))
    # A producer too is to be seen.
    with (
        mqcore.Producer(namesrv, group="MetricsProducers") as producer,
        _consumed(namesrv),
    ):
        producer.send(mqcore.Message(f"{TOPIC}NORMAL", b"seen"))
        yield


async def _created(servers: Servers) -> None:
    address = servers.broker.address
    async with Client() as client:
        for kind in ("NORMAL", "FIFO", "DELAY", "TRANSACTION"):
            ext = {
                **{"topic": f"{TOPIC}{kind}", "defaultTopic": "TBW102", "perm": "6"},
                **{"readQueueNums": "2", "writeQueueNums": "2", "topicSysFlag": "0"},
                **{"topicFilterType": "SINGLE_TAG", "order": "false"},
                "attributes": f"+message.type={kind}",
            }
            code = RequestCode.UPDATE_AND_CREATE_TOPIC
            answer = await client.call(address, code, ext, timeout_s=30.0)
            assert answer.code == 0, answer.remark


def _sent(namesrv: str) -> None:
    with mqcore.Producer(namesrv, group="MetricsProducers") as producer:
        for at in range(20):
            producer.send(mqcore.Message(f"{TOPIC}NORMAL", b"n" * (1 << at % 12), keys=f"k{at}"))
        producer.send_batch([mqcore.Message(f"{TOPIC}NORMAL", b"b") for _ in range(5)])
        for at in range(4):
            producer.send(mqcore.Message(f"{TOPIC}FIFO", b"f", sharding_key=str(at)))
            producer.send(mqcore.Message(f"{TOPIC}DELAY", b"d", delay_level=1))
            producer.send(mqcore.Message(f"{TOPIC}DELAY", b"t", delay=2))
        producer.send(mqcore.Message(f"{TOPIC}DELAY", b"later", delay=600))


def _ended(namesrv: str) -> None:
    topic = f"{TOPIC}TRANSACTION"
    with mqcore.TransactionProducer(namesrv, group="MetricsTransactions") as producer:
        for outcome in (True, True, False, None):

            def work(
                _message: mqcore.Message, _argument: object, is_so: bool | None = outcome
            ) -> bool | None:
                return is_so

            producer.send_in_transaction(mqcore.Message(topic, b"half"), work)


async def _popped(servers: Servers) -> None:
    async with Client() as client:
        popper = Popper(client, servers.broker.address, f"{TOPIC}NORMAL", POP_GROUP)
        first = await popper.pop(pollTime=2_000, invisibleTime=60_000, maxMsgNums=4, initMode=0)
        for each in first[:2]:
            await popper.ack(each)
        await popper.pop(pollTime=2_000, invisibleTime=10_000, maxMsgNums=2, initMode=0)


@contextmanager
def _consumed(namesrv: str) -> Iterator[None]:
    """Lets two groups consume, one of them in vain, and stay."""
    seen: list[bytes] = []

    def taking(message: mqcore.ReceivedMessage) -> None:
        seen.append(message.body)

    def failing(_message: mqcore.ReceivedMessage) -> mqcore.Retry:
        return mqcore.Retry()

    kinds = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")
    with (
        mqcore.PushConsumer(
            namesrv,
            group=GROUP,
            handler=taking,
            topics=[f"{TOPIC}{kind}" for kind in kinds],
            consume_from="earliest",
        ),
        mqcore.PushConsumer(
            namesrv,
            group=DEAD_GROUP,
            handler=failing,
            topics=[f"{TOPIC}FIFO"],
            consume_from="earliest",
            reconsume_max=1,
        ),
    ):
        eventually(lambda: len(seen), lambda count: count >= 30, patience_s=_PATIENCE_S)
        yield
