"""The pull consumer, and the synchronous consumers, against a broker of ours."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import mqcore
from client.serving import Cluster, serving
from loops import run_on, until
from mqcore import ConsumeFrom, Message, QueueRef, ReceivedMessage, aio
from mqcore.errors import ClosedError, UsageError, UsageReason

FIRST = ConsumeFrom.FIRST_OFFSET


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A name server and a broker."""
    with serving(tmp_path_factory.mktemp("store")) as running:
        yield running


async def sent(cluster: Cluster, topic: str, count: int) -> QueueRef:
    """Sends messages `0`, `1`, ... to one queue of a topic; returns the queue, which has them."""
    async with aio.Producer(cluster.namesrv, group="pg") as producer:
        for number in range(count):
            result = await producer.send(Message(topic, str(number), sharding_key="k"))
    # A message is in its queue a moment after it is acknowledged.
    async with aio.PullConsumer(cluster.namesrv, group="ends") as reader:
        for _ in range(3_000):
            _begin, end = await reader.bounds(result.queue)
            if end > result.queue_offset:
                return result.queue
            await asyncio.sleep(0.01)
    raise AssertionError(f"the queue has {end} messages")


def numbers(batch: list[ReceivedMessage]) -> list[int]:
    return [int(message.body) for message in batch]


def test_batches_come_in_order_and_commits_are_kept(cluster: Cluster) -> None:
    async def work() -> None:
        queue = await sent(cluster, "batches", 10)
        seen: list[int] = []
        async with aio.PullConsumer(
            cluster.namesrv, group="batches", topics="batches", consume_from=FIRST
        ) as consumer:
            async for batch in consumer.batches():
                seen += numbers(batch)
                if len(seen) == 10:
                    break
            assert seen == list(range(10))
            assert consumer.position(queue) == 10
            await consumer.commit({queue: 4})
            assert await consumer.committed(queue) == 4
            assert await consumer.bounds(queue) == (0, 10)
        async with aio.PullConsumer(cluster.namesrv, group="batches", topics="batches") as consumer:
            assert numbers(await consumer.poll(10.0, max_count=2)) == [4, 5]
            await consumer.commit()
            assert await consumer.committed(queue) == 6

    run_on("uvloop", work())


@pytest.mark.parametrize("auto_commit", [True, False])
def test_what_was_given_and_not_asked_past_comes_again(
    cluster: Cluster, *, auto_commit: bool
) -> None:
    async def work() -> None:
        topic = f"given-{auto_commit}"
        await sent(cluster, topic, 4)

        async def polls(count: int) -> list[list[int]]:
            async with aio.PullConsumer(
                cluster.namesrv,
                group=topic,
                topics=topic,
                consume_from=FIRST,
                auto_commit=auto_commit,
            ) as consumer:
                return [numbers(await consumer.poll(10.0, max_count=1)) for _ in range(count)]

        assert await polls(2) == [[0], [1]]
        # The second poll confirmed that the first one's message is done.
        assert await polls(1) == ([[1]] if auto_commit else [[0]])

    run_on("asyncio", work())


def test_assigned_queues_are_read_from_anywhere(cluster: Cluster) -> None:
    async def work() -> None:
        queue = await sent(cluster, "seek", 6)
        async with aio.PullConsumer(cluster.namesrv, group="seek") as consumer:
            everywhere = await consumer.topic_queues("seek")
            assert queue in everywhere
            consumer.seek(queue, 4)
            one: Any = queue
            with pytest.raises(UsageError, match=r"^queues: several QueueRef are expected"):
                await consumer.assign(one)
            with pytest.raises(UsageError, match=r"^queues: several QueueRef are expected"):
                consumer.pause(one)
            await consumer.assign([queue])
            assert consumer.queues == (queue,)
            assert numbers(await consumer.poll(10.0)) == [4, 5]
            assert await consumer.seek_begin(queue) == 0
            batch = await consumer.poll(10.0)
            assert numbers(batch) == list(range(6))
            moment = batch[3].store_timestamp_ms / 1000
            offset = await consumer.seek_time(queue, moment)
            assert numbers(await consumer.poll(10.0))[0] == offset <= 3
            wrong: list[Any] = [moment * 1000, -1, "now", None]
            for each in wrong:
                with pytest.raises(UsageError, match=r"^moment: "):
                    await consumer.seek_time(queue, each)
            assert await consumer.seek_end(queue) == 6
            assert await consumer.poll(0.05) == []
            # Behind the end the broker answers where it goes on.
            consumer.seek(queue, 1000)
            await until(lambda: consumer.position(queue) == 6)

    run_on("asyncio", work())


def test_a_paused_queue_gives_nothing_until_it_is_resumed(cluster: Cluster) -> None:
    async def work() -> None:
        await sent(cluster, "paused", 3)
        async with aio.PullConsumer(
            cluster.namesrv, group="paused", topics="paused", consume_from=FIRST
        ) as consumer:
            consumer.pause()
            assert await consumer.poll(0.05) == []
            consumer.resume()
            assert numbers(await consumer.poll(10.0)) == [0, 1, 2]

    run_on("asyncio", work())


def test_closing_ends_a_poll_that_waits(cluster: Cluster) -> None:
    async def work() -> None:
        consumer = aio.PullConsumer(cluster.namesrv, group="ends", topics="ends")
        with pytest.raises(UsageError, check=lambda error: error.reason is UsageReason.NOT_STARTED):
            await consumer.poll()
        await consumer.start()
        waiting = asyncio.create_task(consumer.poll(None))
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="another poll"):
            await consumer.poll()
        await consumer.close()
        assert await waiting == []
        with pytest.raises(ClosedError):
            await consumer.poll()
        assert [message async for message in consumer] == []
        assert [batch async for batch in consumer.batches()] == []

    run_on("asyncio", work())


def test_subscribed_and_assigned_exclude_each_other(cluster: Cluster) -> None:
    async def work() -> None:
        async with aio.PullConsumer(cluster.namesrv, group="either", topics="either") as consumer:
            with pytest.raises(UsageError, match="either subscribes or is assigned"):
                await consumer.assign([QueueRef("either", "b", 0)])
            with pytest.raises(UsageError, match="a QueueRef is expected"):
                consumer.seek("either", 0)  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="is not held"):
                await consumer.commit({QueueRef("other", "b", 0): 1})

    run_on("asyncio", work())


def test_the_synchronous_consumers_have_the_same_words(cluster: Cluster) -> None:
    with mqcore.Producer(cluster.namesrv, group="pg") as producer:
        for number in range(5):
            producer.send(Message("sync", str(number), sharding_key="k"))
    with mqcore.PullConsumer(
        cluster.namesrv, group="sync-pull", topics="sync", consume_from=FIRST
    ) as puller:
        seen: list[int] = []
        for batch in puller.batches():
            seen += numbers(batch)
            if len(seen) == 5:
                break
        puller.commit()
        (queue,) = {message.queue for message in batch}
        assert puller.committed(queue) == puller.position(queue) == 5
    assert seen == list(range(5))
    assert puller.is_closed

    enough = threading.Event()
    got: list[bytes] = []

    def handler(message: ReceivedMessage) -> None:
        got.append(message.body)
        if len(got) == 5:
            enough.set()

    with mqcore.Client(cluster.namesrv) as client:
        consumer = client.push_consumer(
            group="sync-push", handler=handler, topics="sync", consume_from=FIRST
        )
        consumer.start()
        assert enough.wait(30.0)
        assert not consumer.wait(0.0)
        assert len(consumer.queues) == 4
    assert consumer.wait(0.0)
    assert sorted(got) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_blocking_consumer_refuses_to_stop_a_running_loop(cluster: Cluster) -> None:
    async def work() -> None:
        with pytest.raises(
            UsageError,
            match=r"mqcore\.aio",
            check=lambda error: error.reason is UsageReason.RUNNING_LOOP,
        ):
            mqcore.PullConsumer(cluster.namesrv, group="g")

    run_on("asyncio", work())


def test_an_iteration_gives_messages_and_counts_only_those_that_it_gave(cluster: Cluster) -> None:
    async def work() -> None:
        queue = await sent(cluster, "one-by-one", 10)
        async with aio.PullConsumer(
            cluster.namesrv, group="singles", topics="one-by-one", consume_from="earliest"
        ) as consumer:
            seen: list[int] = []
            async for message in consumer:
                seen += numbers([message])
                if len(seen) == 4:
                    break
            assert consumer.position(queue) == 4
            await consumer.commit()
            assert await consumer.committed(queue) == 4
            # Another loop goes on where the first one was left.
            async for message in consumer:
                seen += numbers([message])
                if len(seen) == 6:
                    break
            async for batch in consumer.batches(max_count=3):
                seen += numbers(batch)
                break
        assert seen == list(range(9))
        async with aio.PullConsumer(cluster.namesrv, group="singles", topics="one-by-one") as again:
            # What the last batch gave was not committed by closing.
            assert numbers(await again.poll(10.0))[0] == 6

    run_on("asyncio", work())


def test_the_synchronous_iteration_gives_messages(cluster: Cluster) -> None:
    run_on("asyncio", sent(cluster, "sync-singles", 5))
    seen: list[int] = []
    with mqcore.PullConsumer(
        cluster.namesrv, group="sync-singles", topics="sync-singles", consume_from="earliest"
    ) as consumer:
        for message in consumer:
            seen += numbers([message])
            if len(seen) == 2:
                break
        consumer.commit()
        assert consumer.committed(message.queue) == consumer.position(message.queue) == 2
        for batch in consumer.batches():
            seen += numbers(batch)
            break
    assert seen == list(range(5))
