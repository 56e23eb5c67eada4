"""A load that moves as many figures of a broker as one can move in a minute, and its `/metrics`.

The same for ours and the official ones: sends of every kind, batches, transactions, timers, retries
and dead letters, pulls, pops with and without an acknowledgement. Knows no broker's inside.
"""

import asyncio
import urllib.request
from pathlib import Path

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


def scraped(port: int, patience_s: float = _PATIENCE_S) -> str:
    """Returns what `/metrics` shows, once it shows anything."""

    def look() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                text: str = answer.read().decode()
                return text
        except OSError:
            return ""

    return eventually(look, bool, patience_s=patience_s)


def drive(servers: Servers) -> None:
    """Moves the figures of a broker."""
    namesrv = servers.namesrv.address
    asyncio.run(_created(servers))
    _sent(namesrv)
    _ended(namesrv)
    asyncio.run(_popped(servers))
    _consumed(namesrv)


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
            producer.send_in_transaction(
                mqcore.Message(topic, b"half"), lambda _message, _argument, is_so=outcome: is_so
            )


async def _popped(servers: Servers) -> None:
    async with Client() as client:
        popper = Popper(client, servers.broker.address, f"{TOPIC}NORMAL", POP_GROUP)
        first = await popper.pop(pollTime=2_000, invisibleTime=60_000, maxMsgNums=4, initMode=0)
        for each in first[:2]:
            await popper.ack(each)
        await popper.pop(pollTime=2_000, invisibleTime=10_000, maxMsgNums=2, initMode=0)


def _consumed(namesrv: str) -> None:
    seen: list[bytes] = []
    options = {"consume_from": "earliest"}

    def failing(_message: mqcore.ReceivedMessage) -> mqcore.Retry:
        return mqcore.Retry()

    with (
        mqcore.PushConsumer(
            namesrv,
            group=GROUP,
            handler=lambda message: seen.append(message.body),
            topics=[f"{TOPIC}{kind}" for kind in ("NORMAL", "FIFO", "DELAY", "TRANSACTION")],
            **options,
        ),
        mqcore.PushConsumer(
            namesrv,
            group=DEAD_GROUP,
            handler=failing,
            topics=[f"{TOPIC}FIFO"],
            reconsume_max=1,
            **options,
        ),
    ):
        eventually(lambda: len(seen), lambda count: count >= 30, patience_s=_PATIENCE_S)
        asyncio.run(asyncio.sleep(6))


def written(folder: Path, name: str, text: str) -> None:
    """Keeps a scrape."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
