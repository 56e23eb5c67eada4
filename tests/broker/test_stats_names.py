"""Every counter that an official broker has (315) is answered, or has a reason why not."""

from pathlib import Path
from typing import Any

import pytest

from broker.test_serving import heartbeat
from live_broker import Live, live
from loops import run_on
from mqcore.broker import runtime
from mqcore.native import QueueTraffic
from mqcore.remoting import RequestCode
from popping import Popper

# The names of `BrokerStatsManager.init` of 5.3.3, each with the key that the load below fills.
ANSWERED = {
    "QUEUE_PUT_NUMS": ("T@1", 3),
    "QUEUE_PUT_SIZE": ("T@1", None),
    "QUEUE_GET_NUMS": ("SCHEDULE_TOPIC_XXXX@0@SCHEDULE_CONSUMER", 2),
    "QUEUE_GET_SIZE": ("SCHEDULE_TOPIC_XXXX@0@SCHEDULE_CONSUMER", None),
    # Times: the queue is before its topic.
    "TOPIC_PUT_LATENCY": ("1@T", None),
    "GROUP_GET_LATENCY": ("1@T@g", None),
    "TOPIC_PUT_NUMS": ("T", 5),
    "TOPIC_PUT_SIZE": ("T", None),
    "GROUP_GET_NUMS": ("T@g", 3),
    "GROUP_GET_SIZE": ("T@g", None),
    "GROUP_ACK_NUMS": ("T@popping", 3),
    "GROUP_CK_NUMS": ("T@popping", 3),
    "SNDBCK_PUT_NUMS": ("T@g", 1),
    "DLQ_PUT_NUMS": ("T@g", 1),
    "SNDBCK2DLQ_TIMES": ("null@T@g@SEND_BACK_TO_DLQ", 1),
    "BROKER_PUT_NUMS": ("c", None),
    "BROKER_GET_NUMS": ("c", None),
    "BROKER_ACK_NUMS": ("c", 3),
    "BROKER_CK_NUMS": ("c", 3),
    "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC": ("c", None),
    "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC": ("c", None),
    "CONSUMER_REGISTER_TIME": ("c", None),
    "PRODUCER_REGISTER_TIME": ("c", None),
    "CHANNEL_ACTIVITY": ("CONNECT", None),
}
NOT_FILLED = "nothing of 5.3.3 counts it: it does not exist there either"
NOT_ANSWERED = {
    "GROUP_GET_FROM_DISK_NUMS": NOT_FILLED,
    "GROUP_GET_FROM_DISK_SIZE": NOT_FILLED,
    "BROKER_GET_FROM_DISK_NUMS": NOT_FILLED,
    "BROKER_GET_FROM_DISK_SIZE": NOT_FILLED,
    "COMMERCIAL_SEND_TIMES": NOT_FILLED,
    "COMMERCIAL_RCV_TIMES": NOT_FILLED,
    "COMMERCIAL_SEND_SIZE": NOT_FILLED,
    "COMMERCIAL_RCV_SIZE": NOT_FILLED,
    "COMMERCIAL_RCV_EPOLLS": NOT_FILLED,
    "COMMERCIAL_SNDBCK_TIMES": NOT_FILLED,
    "COMMERCIAL_PERM_FAILURES": NOT_FILLED,
}


async def loaded(client: Live) -> None:
    """Does something of everything that is counted."""
    await client.create("T", 2)
    await heartbeat(client, "me", "g", "T")
    for _ in range(3):
        sent = await client.send("T", b"x", 1)
        assert sent.code == 0
    assert (await client.send("T", b"x", 0)).code == 0
    assert (await client.send("T", b"later", 0, DELAY=1)).code == 0
    await client.settled()
    assert (await client.pull("T", 0, queue_id=1)).code == 0
    for level in (1, -1):
        back = {"offset": int(sent.ext["msgId"][16:], 16), "group": "g", "originTopic": "T"}
        code = RequestCode.CONSUMER_SEND_MSG_BACK
        answer = await client.call(code, back | {"delayLevel": level})
        assert answer.code == 0, answer.remark
    popper = Popper(client.client, client.address, "T", "popping", "b")
    first, second, *_ = await popper.pop(queueId=1)
    assert await popper.ack(first) == 0
    assert (await popper.change(second, 60_000)).code == 0
    (other,) = await popper.pop(queueId=0)
    assert await popper.ack(other) == 0
    # What is due a second after it was sent.
    client.broker.rounds.due_ms = lambda length_ms: client.broker.state.now_ms() + length_ms
    await client.broker.rounds.deliver_all()


def _queues(client: Live) -> list[QueueTraffic]:
    return client.broker.state.fast_path.times.queues(100)


async def counted(client: Live, name: str, key: str) -> dict[str, Any] | None:
    """Returns a counter; None where it does not exist."""
    stat = {"statsName": name, "statsKey": key}
    answer = await client.call(RequestCode.VIEW_BROKER_STATS_DATA, stat)
    if answer.code:
        assert answer.remark == f"The stats <{name}> <{key}> not exist"
        return None
    return await client.json(RequestCode.VIEW_BROKER_STATS_DATA, stat)


def test_every_official_counter_is_there(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            await client.broker.rounds.sample()
            await loaded(client)
            await client.broker.rounds.sample()
            found = {name: await counted(client, name, key) for name, (key, _) in ANSWERED.items()}
            assert [name for name, body in found.items() if body is None] == []
            sums = {name: body["statsMinute"]["sum"] for name, body in found.items() if body}
            wanted = {name: total for name, (_, total) in ANSWERED.items() if total is not None}
            assert {name: sums[name] for name in wanted} == wanted
            assert sums["QUEUE_PUT_SIZE"] > 3 * 91
            assert sums["QUEUE_GET_SIZE"] > 2 * 91
            assert sums["CHANNEL_ACTIVITY"] >= 1
            for name in NOT_ANSWERED:
                assert await counted(client, name, "T@g") is None

    run_on("uvloop", run())


def test_times_of_sends_and_pulls_are_counted_by_queue(tmp_path: Path) -> None:
    keys = {"flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": "20000"}

    async def run() -> None:
        async with live(tmp_path, **keys) as client:
            await client.create("T", 2)
            await client.broker.rounds.sample()
            # Each waits for its sync, and takes as long as that.
            for _ in range(40):
                assert (await client.send("T", b"x", 1)).code == 0
            await client.settled()
            assert (await client.pull("T", 0, queue_id=1)).code == 0
            await client.broker.rounds.sample()
            queues = {(each.topic, each.queue_id): each for each in _queues(client)}
            assert queues["T", 1].answers == 40
            assert 0 < queues["T", 1].answers_us < 40 * 20_000_000
            assert ("T", 0) not in queues
            put = await counted(client, "TOPIC_PUT_LATENCY", "1@T")
            assert put is not None
            minute = put["statsMinute"]
            assert minute["sum"] == queues["T", 1].answers_us // 1_000
            assert minute["avgpt"] == minute["sum"] / 40
            (got,) = client.broker.state.fast_path.group_gets()
            assert got.pulls == [0, 1]
            assert len(got.pulls_us) == 2
            assert await counted(client, "GROUP_GET_LATENCY", "1@T@g") is not None
            assert await counted(client, "GROUP_GET_LATENCY", "0@T@g") is None

    run_on("uvloop", run())


def test_times_of_pulls_are_counted_by_group_where_queues_are_not(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path, enableDetailStat="false") as client:
            await client.create("T", 2)
            assert (await client.send("T", b"x", 1)).code == 0
            await client.settled()
            assert (await client.pull("T", 0, queue_id=1)).code == 0
            await client.broker.rounds.sample()
            assert await counted(client, "GROUP_GET_LATENCY", "T@g") is not None
            assert await counted(client, "GROUP_GET_LATENCY", "1@T@g") is None
            assert await counted(client, "TOPIC_PUT_LATENCY", "1@T") is None

    run_on("uvloop", run())


@pytest.mark.parametrize("by", ["setting", "number"])
def test_single_queues_are_not_counted_where_there_are_too_many(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "QUEUES_COUNTED_MAX", 1 if by == "number" else 1_000)
    keys = {"enableDetailStat": "false"} if by == "setting" else {}

    async def run() -> None:
        async with live(tmp_path, **keys) as client:
            await client.create("T", 2)
            for queue_id in (0, 1):
                assert (await client.send("T", b"x", queue_id)).code == 0
            await client.broker.rounds.sample()
            assert await counted(client, "QUEUE_PUT_NUMS", "T@1") is None
            assert await counted(client, "TOPIC_PUT_NUMS", "T") is not None

    run_on("uvloop", run())
