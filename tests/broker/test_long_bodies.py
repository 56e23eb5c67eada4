"""Bodies of many megabytes: refused unread, or read beside the event loop, which serves others."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from live_broker import live
from mqcore.remoting import RequestCode
from mqcore.remoting.body_limits import LISTS_BYTES_MAX

# What JSON costs most: many small values.
LONGEST = b'{"topicConfigList":[' + b"{}," * (5 << 20) + b"{}]}"
# Reading one of these took seconds. A busy machine may be late by itself.
LATE_S_MAX = 1.0
# What the loop itself may compute at once: the copies of a frame of 16 MiB are some of it.
BUSY_S_MAX = 0.3


class Lateness:
    """How late the event loop was at the most.

    Attributes:
        late_s: By the clock.
        busy_s: By the time that its thread computed.
    """

    def __init__(self) -> None:
        self.late_s = 0.0
        self.busy_s = 0.0

    async def watch(self) -> None:
        """Looks again and again, until it is cancelled."""
        while True:
            began_s, computed_s = time.monotonic(), time.thread_time()
            await asyncio.sleep(0)
            self.late_s = max(self.late_s, time.monotonic() - began_s)
            self.busy_s = max(self.busy_s, time.thread_time() - computed_s)


@asynccontextmanager
async def watched() -> AsyncIterator[Lateness]:
    found = Lateness()
    task = asyncio.get_running_loop().create_task(found.watch())
    try:
        yield found
    finally:
        task.cancel()


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.HEART_BEAT,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        RequestCode.LOCK_BATCH_MQ,
        RequestCode.CHECK_CLIENT_CONFIG,
        RequestCode.QUERY_ASSIGNMENT,
        RequestCode.SET_MESSAGE_REQUEST_MODE,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC,
        RequestCode.AUTH_CREATE_ACL,
    ],
)
def test_sixteen_megabytes_are_refused_and_hold_nobody_up(tmp_path: Path, code: int) -> None:
    async def work() -> None:
        async with live(tmp_path) as client:
            await client.create("t")
            async with watched() as found:
                answer = await client.call(code, {"topic": "t"}, LONGEST)
            assert answer.code == 1
            assert answer.remark is not None
            assert f"{len(LONGEST)} bytes" in answer.remark
            assert found.late_s < LATE_S_MAX
            assert found.busy_s < BUSY_S_MAX
            assert (await client.send("t", b"x")).code == 0

    asyncio.run(work())


def test_ten_thousand_topics_in_one_request_are_made(tmp_path: Path) -> None:
    rows = [
        {
            "attributes": {},
            "order": False,
            "perm": 6,
            "readQueueNums": 1,
            "topicFilterType": "SINGLE_TAG",
            "topicName": f"a-topic-with-a-name-of-usual-length-{number:05}",
            "topicSysFlag": 0,
            "writeQueueNums": 1,
        }
        for number in range(10_000)
    ]
    body = json.dumps({"topicConfigList": rows}).encode()
    last = "a-topic-with-a-name-of-usual-length-09999"
    assert len(body) < LISTS_BYTES_MAX

    async def work() -> None:
        async with live(tmp_path, topicsMax="20000") as client:
            async with watched() as found:
                answer = await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body)
            assert answer.code == 0, answer.remark
            assert client.broker.state.topics.find(last) is not None
            assert found.late_s < LATE_S_MAX

    asyncio.run(work())


def test_a_list_that_is_longer_than_its_table_is_refused_before_its_rows_are_read(
    tmp_path: Path,
) -> None:
    body = json.dumps({"groupConfigList": [{}] * 101}).encode()

    async def work() -> None:
        async with live(tmp_path, groupsMax="100") as client:
            code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
            answer = await client.call(code, body=body)
            assert answer.code == 1
            assert answer.remark is not None
            assert answer.remark.startswith("a list of 101 groups is refused")

    asyncio.run(work())
