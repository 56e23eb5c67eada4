"""The push consumer against a broker of ours."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.serving import Cluster, serving
from loops import run_on, until
from mqcore import ConsumeFrom, Message, ReceivedMessage, Reject, Retry, Sql, aio
from mqcore.errors import ClosedError, ResponseError, UsageError, UsageReason
from mqcore.model.relaxed_json import parse_object
from mqcore.native import Command
from mqcore.remoting import Client, RequestCode, expect

FIRST = ConsumeFrom.FIRST_OFFSET


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A name server and a broker whose every delay is a second."""
    store_dir = tmp_path_factory.mktemp("store")
    with serving(store_dir, messageDelayLevel=" ".join(["1s"] * 18)) as running:
        yield running


class Bag:
    """Collects what a handler got, and signals when it is enough."""

    def __init__(self) -> None:
        self.messages: list[ReceivedMessage] = []
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def add(self, *messages: ReceivedMessage) -> None:
        self.messages.extend(messages)
        self._loop.call_soon_threadsafe(self._changed.set)

    async def holds(self, count: int) -> list[ReceivedMessage]:
        while len(self.messages) < count:
            self._changed.clear()
            await self._changed.wait()
        return self.messages

    @property
    def bodies(self) -> list[bytes]:
        return sorted(message.body for message in self.messages)


async def send(cluster: Cluster, topic: str, *bodies: str, **options: Any) -> None:
    async with aio.Producer(cluster.namesrv, group="pg") as producer:
        for body in bodies:
            await producer.send(Message(topic, body, **options))


async def has_retry_topic(cluster: Cluster, group: str) -> None:
    """Returns when a broker has made the retry topic of a group that it heard of."""
    async with aio.Client(cluster.namesrv) as client:
        while await client.instance.refresh_route(f"%RETRY%{group}") is None:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def asked(cluster: Cluster, code: int, ext: dict[str, str]) -> Command:
    async with Client() as client:
        return expect(await client.call(cluster.broker, code, ext, timeout_s=15.0), cluster.broker)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("batch", [None, 8])
def test_messages_come_to_coroutines_and_to_threads(
    cluster: Cluster, loop: str, *, orderly: bool, batch: int | None
) -> None:
    topic = f"kinds-{loop}-{orderly}-{batch}"

    async def work() -> None:
        wanted = [f"{number:02}" for number in range(20)]
        await send(cluster, topic, *wanted)
        mine = threading.get_ident()
        for name in ("coroutine", "plain"):
            bag = Bag()
            threads: set[int] = set()

            def plain(found: Any, bag: Bag = bag, threads: set[int] = threads) -> None:
                threads.add(threading.get_ident())
                bag.add(*(found if batch else [found]))

            async def coroutine(found: Any, plain: Any = plain) -> None:
                plain(found)

            handler = coroutine if name == "coroutine" else plain
            async with aio.PushConsumer(
                cluster.namesrv,
                group=f"{topic}-{name}",
                handler=handler,
                topics=topic,
                orderly=orderly,
                batch=batch,
                consume_from=FIRST,
            ) as consumer:
                await bag.holds(20)
                assert len(consumer.queues) == 4
            assert bag.bodies == [body.encode() for body in wanted]
            assert (threads == {mine}) == (name == "coroutine")
            if orderly:
                for queue in {message.queue for message in bag.messages}:
                    offsets = [m.queue_offset for m in bag.messages if m.queue == queue]
                    assert offsets == list(range(len(offsets)))

    run_on(loop, work())


def test_a_closed_consumer_goes_on_where_it_was(cluster: Cluster) -> None:
    async def work() -> None:
        await send(cluster, "resume", "a", "b", "c")
        for wanted in (["a", "b", "c"], ["d"]):
            bag = Bag()
            async with aio.PushConsumer(
                cluster.namesrv,
                group="resume",
                handler=bag.add,
                topics="resume",
                consume_from=FIRST,
            ):
                await bag.holds(len(wanted))
            assert bag.bodies == [body.encode() for body in wanted]
            await send(cluster, "resume", "d")

    run_on("asyncio", work())


def test_tags_are_tested_as_texts(cluster: Cluster) -> None:
    async def work() -> None:
        # Java gives both tags one hash.
        await send(cluster, "filters", "right", tags="AaAa")
        await send(cluster, "filters", "wrong", tags="BBBB")
        await send(cluster, "filters", "none")
        await send(cluster, "filters", "end", tags="AaAa")
        bag = Bag()
        async with aio.PushConsumer(
            cluster.namesrv,
            group="tags",
            handler=bag.add,
            topics={"filters": "AaAa || other"},
            consume_from=FIRST,
        ):
            await bag.holds(2)
        assert bag.bodies == [b"end", b"right"]

    run_on("asyncio", work())


def test_what_a_broker_cannot_filter_is_refused_at_the_start(cluster: Cluster) -> None:
    async def work() -> None:
        await send(cluster, "sql", "a")
        consumer = aio.PushConsumer(
            cluster.namesrv, group="sql", handler=print, topics={"sql": Sql("n > 5")}
        )
        with pytest.raises(ResponseError, match="does not support consumer to filter"):
            await consumer.start()
        assert consumer.is_closed

    run_on("asyncio", work())


def test_expressions_choose_what_comes(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        bag = Bag()
        for number in range(6):
            await send(cluster, "sql", str(number), properties={"n": str(number)})
        async with aio.PushConsumer(
            cluster.namesrv,
            group="sql",
            handler=bag.add,
            topics={"sql": Sql("n BETWEEN 3 AND 4 OR missing IS NOT NULL")},
            consume_from=FIRST,
        ):
            await bag.holds(2)
            await send(cluster, "sql", "5", properties={"n": "5"})
            await send(cluster, "sql", "late", properties={"n": "3"})
            await bag.holds(3)
        assert bag.bodies == [b"3", b"4", b"late"]
        wrong = aio.PushConsumer(
            cluster.namesrv, group="wrong", handler=bag.add, topics={"sql": Sql("n >")}
        )
        with pytest.raises(ResponseError, match="the text ends at line 1, column 3"):
            await wrong.start()

    with serving(tmp_path, enablePropertyFilter="true") as cluster:
        run_on("asyncio", work(cluster))


def test_what_fails_comes_again_and_then_to_the_dead_letters(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "mqcore.client")

    async def work() -> None:
        await send(cluster, "fail", "makes the topic")
        bodies = ("raises", "retries", "rejects", "returns-false", "nonsense")
        bag, dead = Bag(), Bag()

        async def handler(message: ReceivedMessage) -> Any:
            bag.add(message)
            if message.attempt > 1 or message.body_text() not in bodies:
                return None
            match message.body_text():
                case "raises":
                    raise ValueError("no")
                case "retries":
                    return Retry(delay=1)
                case "rejects":
                    raise Reject("never")
                case "returns-false":
                    return False
                case _:
                    return "what?"

        async with (
            aio.PushConsumer(
                cluster.namesrv, group="fail", handler=handler, topics="fail", consume_from=FIRST
            ),
            aio.PushConsumer(
                cluster.namesrv,
                group="undertaker",
                handler=dead.add,
                topics="%DLQ%fail",
                consume_from=FIRST,
            ),
        ):
            await has_retry_topic(cluster, "fail")
            await send(cluster, "fail", *bodies)
            messages = await bag.holds(10)
            again = [message for message in messages if message.attempt == 2]
            assert sorted(m.body_text() for m in again) == [
                "nonsense",
                "raises",
                "retries",
                "returns-false",
            ]
            assert {message.topic for message in again} == {"fail"}
            (corpse,) = await dead.holds(1)
            assert corpse.body == b"rejects"

    run_on("asyncio", work())


def test_an_orderly_queue_waits_for_its_failing_message(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "mqcore.client")

    async def work() -> None:
        async with aio.Producer(cluster.namesrv, group="pg") as producer:
            for number in range(3):
                await producer.send(Message("strict", str(number), sharding_key="k"))
        seen: list[tuple[str, int]] = []
        bag, dead = Bag(), Bag()

        def handler(message: ReceivedMessage) -> Any:
            seen.append((message.body_text(), message.attempt))
            if message.body == b"1":
                return Retry(delay=0.01)
            bag.add(message)
            return None

        async with (
            aio.PushConsumer(
                cluster.namesrv,
                group="strict",
                handler=handler,
                topics="strict",
                orderly=True,
                reconsume_max=2,
                consume_from=FIRST,
            ),
            aio.PushConsumer(
                cluster.namesrv,
                group="strict-dead",
                handler=dead.add,
                topics="%DLQ%strict",
                consume_from=FIRST,
            ),
        ):
            await bag.holds(2)
            assert seen == [("0", 1), ("1", 1), ("1", 2), ("1", 3), ("2", 1)]
            await dead.holds(1)
            assert dead.bodies == [b"1"]

    run_on("asyncio", work())


def test_a_handler_that_hangs_is_given_up(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "mqcore.client")

    async def work() -> None:
        await send(cluster, "hang", "stuck")
        bag = Bag()
        release = threading.Event()

        def handler(message: ReceivedMessage) -> None:
            if message.attempt == 1:
                release.wait(60.0)
            bag.add(message)

        async with aio.PushConsumer(
            cluster.namesrv,
            group="hang",
            handler=handler,
            topics="hang",
            concurrency=1,
            consume_timeout_s=0.2,
            consume_from=FIRST,
        ):
            (message,) = await bag.holds(1)
            assert message.attempt == 2
            release.set()

    run_on("asyncio", work())


def test_two_members_share_and_the_one_left_takes_all(cluster: Cluster) -> None:
    async def work() -> None:
        await send(cluster, "share", "0")
        one, two = Bag(), Bag()
        first = aio.PushConsumer(cluster.namesrv, group="share", handler=one.add, topics="share")
        second = aio.PushConsumer(
            cluster.namesrv, group="share", handler=two.add, topics="share", hand_over_s=0.01
        )

        def share(consumer: aio.PushConsumer) -> set[int]:
            return {queue.queue_id for queue in consumer.queues if queue.topic == "share"}

        async with first:
            async with second:
                await until(lambda: len(share(first)) == len(share(second)) == 2)
                assert share(first) | share(second) == {0, 1, 2, 3}
            await until(lambda: len(share(first)) == 4)

    run_on("asyncio", work())


def test_a_broadcast_comes_to_everybody_and_is_remembered_in_a_file(
    cluster: Cluster, tmp_path: Path
) -> None:
    async def work() -> None:
        await send(cluster, "cast", "a", "b")
        for index, wanted in enumerate(([b"a", b"b"], [b"c"])):
            bags = [Bag(), Bag()]
            consumers = [
                aio.PushConsumer(
                    cluster.namesrv,
                    group="cast",
                    handler=bag.add,
                    topics="cast",
                    broadcast=True,
                    consume_from=FIRST,
                    offsets_directory=tmp_path / str(at),
                )
                for at, bag in enumerate(bags)
            ]
            async with consumers[0], consumers[1]:
                for bag in bags:
                    await bag.holds(len(wanted))
                    assert bag.bodies == wanted
            if index == 0:
                await send(cluster, "cast", "c")
        (path,) = (tmp_path / "0").rglob("offsets.json")
        # Every message that came counts, of whichever queue.
        assert sum(parse_object(path.read_bytes())["offsetTable"].values()) == 3

    run_on("asyncio", work())


def test_tools_see_the_consumer_and_let_it_consume(cluster: Cluster) -> None:
    async def work() -> None:
        await send(cluster, "tools", "a")
        bag = Bag()
        async with aio.Client(cluster.namesrv) as client:
            consumer = client.push_consumer(
                group="tools", handler=bag.add, topics={"tools": "*"}, consume_from=FIRST
            )
            await consumer.start()
            (message,) = await bag.holds(1)
            ext = {
                "consumerGroup": "tools",
                "clientId": client.instance.client_id,
                "jstackEnable": "true",
            }
            answer = await asked(cluster, RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
            info = parse_object(answer.body)
            assert info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
            assert {item["topic"] for item in info["subscriptionSet"]} == {"tools", "%RETRY%tools"}
            assert sum('"topic":"tools"' in key for key in info["mqTable"]) == 4
            assert "MainThread" in info["jstack"]
            ext |= {"msgId": message.offset_message_id, "brokerName": message.queue.broker_name}
            answer = await asked(cluster, RequestCode.CONSUME_MESSAGE_DIRECTLY, ext)
            assert parse_object(answer.body)["consumeResult"] == "CR_SUCCESS"
            assert [item.body for item in await bag.holds(2)] == [b"a", b"a"]

    run_on("asyncio", work())


def test_a_reset_at_the_broker_brings_messages_again(cluster: Cluster) -> None:
    async def work() -> None:
        await send(cluster, "again", "a")
        bag = Bag()
        async with aio.PushConsumer(
            cluster.namesrv, group="again", handler=bag.add, topics="again", consume_from=FIRST
        ) as consumer:
            await bag.holds(1)
            await consumer.commit()
            ext = {"topic": "again", "group": "again", "timestamp": "0", "isForce": "true"}
            await asked(cluster, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext)
            # A held pull hears of the reset when it is asked anew.
            await send(cluster, "again", "b", "c", "d", "e")
            await until(lambda: bag.bodies.count(b"a") == 2)

    run_on("asyncio", work())


def test_a_pause_holds_pulls_back(cluster: Cluster) -> None:
    async def work() -> None:
        bag = Bag()
        await send(cluster, "pause", "a")
        consumer = aio.PushConsumer(
            cluster.namesrv, group="pause", handler=bag.add, topics="pause", consume_from=FIRST
        )
        consumer.pause()
        async with consumer:
            await asyncio.sleep(0.05)
            assert bag.messages == []
            consumer.resume()
            await bag.holds(1)

    run_on("asyncio", work())


def test_wrong_use_is_explained(cluster: Cluster) -> None:
    async def work() -> None:
        options: dict[str, Any] = {"group": "g", "handler": print}
        with pytest.raises(UsageError, match="a callable is expected, not str"):
            aio.PushConsumer(group="g", handler="print")  # type: ignore[call-overload]
        with pytest.raises(UsageError, match="has no option 'speed'"):
            aio.PushConsumer(**options, speed=1)  # type: ignore[call-overload]
        with pytest.raises(UsageError, match="batch: 0 is not within"):
            aio.PushConsumer(**options, batch=0)
        with pytest.raises(UsageError, match="illegal characters"):
            aio.PushConsumer(**options, topics="a b")
        with pytest.raises(UsageError, match=r"tags as str .*, or Sql"):
            aio.PushConsumer(**options, topics={"t": 1})
        consumer = aio.PushConsumer(cluster.namesrv, **options)
        with pytest.raises(UsageError, check=lambda error: error.reason is UsageReason.NOT_STARTED):
            await consumer.until_closed()
        await consumer.close()
        with pytest.raises(ClosedError):
            await consumer.start()
        with pytest.raises(ClosedError):
            await consumer.subscribe("t")
        async with aio.Client(cluster.namesrv) as client:
            await client.push_consumer(**options).start()
            with pytest.raises(
                UsageError,
                match="has a consumer of it already",
                check=lambda error: error.reason is UsageReason.GROUP,
            ):
                await client.push_consumer(**options).start()

    run_on("asyncio", work())
