"""The asyncio producer against a broker of ours, and against one whose answers the test sets."""

import asyncio
import logging
from typing import Any

import pytest

from client.serving import STORED, Cluster, pulled, scripted, serving
from loops import run_on
from mqcore import (
    FaultStrategy,
    Message,
    Producer,
    QueueRef,
    SendContext,
    SendHook,
    SendStatus,
    aio,
)
from mqcore.client.properties import parse_properties
from mqcore.errors import (
    ClosedError,
    MessageError,
    NoRouteError,
    SendError,
    SendReason,
    UnsupportedError,
    UsageError,
    UsageReason,
)
from mqcore.native import Compression, decompress
from mqcore.remoting import Request, RequestCode
from mqcore.testing import Broker


def test_a_message_comes_out_as_it_went_in(cluster: Cluster) -> None:
    async def work() -> None:
        async with aio.Producer(cluster.namesrv, group="pg") as producer:
            message = Message(
                "whole",
                "bödy",
                tags="täg",
                keys=["k1", "k2"],
                properties={"ü": "ß", "n": "1"},
                flag=9,
            )
            result = await producer.send(message)
            assert result.status is SendStatus.SEND_OK
            (record,) = await pulled(cluster, result.queue, result.queue_offset)
            assert record.body == "bödy".encode()
            assert (record.tags, record.keys, record.flag) == ("täg", "k1 k2", 9)
            assert record.properties["ü"] == "ß"
            assert record.uniq_key == result.message_id
            assert record.message_id == result.offset_message_id

    run_on("uvloop", work())


def test_a_large_body_is_stored_small_and_read_whole(cluster: Cluster) -> None:
    async def work() -> None:
        async with aio.Producer(cluster.namesrv, group="pg") as producer:
            body = b"abc" * 5000
            result = await producer.send(Message("large", body))
            (record,) = await pulled(cluster, result.queue, result.queue_offset)
            assert record.body == body
            assert record.stored_body_len_bytes < 200

    run_on("asyncio", work())


def test_many_at_once_are_all_stored_once(cluster: Cluster) -> None:
    async def work() -> None:
        async with aio.Producer(cluster.namesrv, group="pg") as producer:
            results = await asyncio.gather(
                *(producer.send(Message("many", b"%d" % at)) for at in range(300))
            )
            positions = {(result.queue, result.queue_offset) for result in results}
            assert len(positions) == 300
            # Round robin: no queue has more than its share.
            queues = [result.queue.queue_id for result in results]
            assert max(map(queues.count, set(queues))) == 75

    run_on("uvloop", work())


def test_batches_are_stored_in_a_row(cluster: Cluster) -> None:
    async def work() -> None:
        async with aio.Producer(cluster.namesrv, group="pg") as producer:
            messages = [Message("batch", b"%d" % at, tags="t") for at in range(10)]
            (result,) = await producer.send_batch(messages)
            records = await pulled(cluster, result.queue, result.queue_offset, count=10)
            assert [record.body for record in records] == [b"%d" % at for at in range(10)]
            assert ",".join(record.uniq_key or "" for record in records) == result.message_id
            split = await producer.send_batch(
                [Message("batch", bytes(2 << 20)) for _ in range(3)], queue=result.queue
            )
            assert len(split) == 3
            assert {one.queue for one in split} == {result.queue}

    run_on("asyncio", work())


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_gathered_messages_have_results_of_their_own(cluster: Cluster, kind: str) -> None:
    async def work() -> None:
        async with aio.Producer(cluster.namesrv, group="pg", batching=True) as producer:
            results = await asyncio.gather(
                *(producer.send(Message("soon", b"%d" % at)) for at in range(100))
            )
            positions = {(result.queue, result.queue_offset) for result in results}
            assert len(positions) == 100
            for result, at in zip(results, range(100), strict=True):
                (record,) = await pulled(cluster, result.queue, result.queue_offset)
                assert record.body == b"%d" % at
                assert record.uniq_key == result.message_id
                assert record.message_id == result.offset_message_id
            tickets = [producer.send_soon(Message("soon", b"x")) for _ in range(50)]
            await producer.flush()
            assert all(ticket.done() for ticket in tickets)
            with pytest.raises(MessageError, match="delayed"):
                producer.send_soon(Message("soon", b"x", delay_level=1))
            delayed = await producer.send(Message("soon", b"x", delay_level=1))
            assert delayed.is_ok

    run_on(kind, work())


def test_messages_of_a_key_stay_in_order_in_one_queue(cluster: Cluster) -> None:
    async def work() -> None:
        async with aio.Producer(cluster.namesrv, group="pg") as producer:
            messages = [Message("keyed", b"%d" % at, sharding_key="k") for at in range(20)]
            one_by_one = [await producer.send(message) for message in messages]
            tickets = [producer.send_soon(message) for message in messages]
            await producer.flush()
            queues = {result.queue for result in one_by_one}
            queues |= {ticket.result().queue for ticket in tickets}
            assert len(queues) == 1
            queue, bodies = queues.pop(), list[bytes]()
            while len(bodies) < 2 * len(messages):
                # A pull gives what is dispatched by then, and waits where nothing is.
                bodies += [it.body for it in await pulled(cluster, queue, len(bodies), count=32)]
            assert bodies == 2 * [message.body for message in messages]

    run_on("asyncio", work())


def test_a_timed_message_is_refused_where_it_would_come_at_once() -> None:
    with (
        Broker({"timerWheelEnable": "false"}) as broker,
        Producer(broker.namesrv, group="pg") as producer,
    ):
        with pytest.raises(UnsupportedError, match=r"V4_9_8.*use delay_level"):
            producer.send(Message("timed", b"x", delay=60.0))
        assert producer.send(Message("timed", b"x", delay_level=1)).is_ok


def test_a_queue_or_a_selector_chooses_the_queue(cluster: Cluster) -> None:
    async def work() -> None:
        async with aio.Producer(cluster.namesrv, group="pg") as producer:
            await producer.send(Message("chosen", b"x"))
            queues = await producer.queues("chosen")
            assert (await producer.send(Message("chosen", b"x"), queue=queues[2])).queue == queues[
                2
            ]
            result = await producer.send(
                Message("chosen", b"x"), selector=lambda found, _, at: found[at], argument=1
            )
            assert result.queue == queues[1]
            stranger = QueueRef("chosen", "nobody", 0)
            for bad in (stranger, "queue"):
                with pytest.raises(UsageError, match="queue"):
                    await producer.send(Message("chosen", b"x"), queue=bad)  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="no such queue"):
                await producer.send(Message("chosen", b"x"), selector=lambda *_: stranger)

    run_on("asyncio", work())


def test_oneway_sends_arrive_too(cluster: Cluster) -> None:
    async def work() -> None:
        async with aio.Producer(cluster.namesrv, group="pg") as producer:
            queue = (await producer.send(Message("oneway", b"0"))).queue
            for at in range(1, 4):
                await producer.send_oneway(Message("oneway", b"%d" % at), queue=queue)
            # On the same connection requests are served in order.
            assert (await producer.send(Message("oneway", b"4"), queue=queue)).queue_offset == 4

    run_on("asyncio", work())


def test_a_namespace_precedes_topic_and_group(cluster: Cluster) -> None:
    async def work() -> None:
        async with aio.Producer(cluster.namesrv, group="pg", namespace="ns") as producer:
            result = await producer.send(Message("spaced", b"x"))
            assert result.queue.topic == "ns%spaced"
            (record,) = await pulled(cluster, result.queue, result.queue_offset)
            assert record.properties["INSTANCE_ID"] == "ns"

    run_on("asyncio", work())


def test_a_topic_that_nobody_has_is_reported_with_what_to_do(tmp_path: Any) -> None:
    async def work(cluster: Cluster) -> None:
        async with aio.Producer(cluster.namesrv, group="pg") as producer:
            with pytest.raises(NoRouteError) as caught:
                await producer.send(Message("nowhere", b"x"))
            error = caught.value
            assert error.topic == "nowhere"
            assert error.name_servers == (cluster.namesrv,)
            assert error.brokers == {"b": cluster.broker}
            for part in ("nowhere", cluster.namesrv, f"b ({cluster.broker})", "topic create"):
                assert part in str(error)

    with serving(tmp_path, autoCreateTopicEnable="false") as cluster:
        run_on("asyncio", work(cluster))


def test_a_failed_try_goes_to_the_other_broker() -> None:
    async def work() -> None:
        with scripted(brokers=2) as server:
            failing: list[str] = []

            def send(request: Request) -> Any:
                name = request.field("n")
                if not failing:
                    failing.append(name)
                if name == failing[0]:
                    return request.answer(14, "not writable")
                return request.answer(ext=STORED)

            server.send = send
            async with aio.Producer(server.address, group="pg") as producer:
                for _ in range(4):
                    result = await producer.send(Message("t", b"x"))
                    assert result.queue.broker_name != failing[0]
                sends = [one for one in server.asked if one.code == RequestCode.SEND_MESSAGE_V2]
                assert len(sends) > 4

    run_on("asyncio", work())


def test_a_broker_that_vanishes_costs_a_try_and_no_message() -> None:
    async def work() -> None:
        with scripted(brokers=2) as server:
            async with aio.Producer(server.address, group="pg") as producer:
                await asyncio.gather(*(producer.send(Message("t", b"x")) for _ in range(8)))

                def cut(request: Request) -> Any:
                    if request.command.ext["at"] == "1":
                        request.link.abort()
                        return None
                    return request.answer(ext=STORED)

                server.send = cut
                results = await asyncio.gather(
                    *(producer.send(Message("t", b"x")) for _ in range(8))
                )
                assert {result.queue.broker_name for result in results} == {"b0"}
                assert {result.attempts for result in results} == {1, 2}

    run_on("asyncio", work())


def test_a_broker_that_is_silent_ends_in_a_timeout_that_explains_itself() -> None:
    async def work() -> None:
        with scripted() as server:
            server.send = lambda _: None
            async with aio.Producer(server.address, group="pg", timeout_s=0.2) as producer:
                with pytest.raises(
                    SendError,
                    match="stored all the same",
                    check=lambda error: error.reason is SendReason.TIMEOUT,
                ) as caught:
                    await producer.send(Message("t", b"x"))
                assert caught.value.may_be_stored
                assert server.address in str(caught.value)

    run_on("asyncio", work())


def test_a_cancelled_send_is_forgotten_and_counts_for_nothing() -> None:
    async def work() -> None:
        with scripted() as server:
            server.send = lambda _: None
            faults = FaultStrategy()
            async with aio.Producer(server.address, group="pg", faults=faults) as producer:
                task = asyncio.ensure_future(producer.send(Message("t", b"x")))
                while RequestCode.SEND_MESSAGE_V2 not in server.codes():  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert faults.due_for_detection(0) == []
                server.send = lambda request: request.answer(ext=STORED)
                assert (await producer.send(Message("t", b"x"))).is_ok

    run_on("asyncio", work())


def test_hooks_hear_of_every_try_and_may_refuse() -> None:
    class Noting(SendHook):
        def __init__(self) -> None:
            self.heard: list[tuple[str, Any]] = []

        def before_send(self, context: SendContext) -> None:
            if context.message.tags == "forbidden":
                raise MessageError("no such tag here")
            self.heard.append(("before", context.queue.broker_name))

        def after_send(self, context: SendContext) -> None:
            self.heard.append(("after", context.result and context.result.status))
            raise ValueError("a hook of no use")

    async def work() -> None:
        with scripted(brokers=2) as server:
            answers = iter([14, 0])
            server.send = lambda request: request.answer(next(answers), ext=STORED)
            hook = Noting()
            async with aio.Producer(server.address, group="pg", hooks=[hook]) as producer:
                await producer.send(Message("t", b"x"))
                assert [kind for kind, _ in hook.heard] == ["before", "after"] * 2
                assert [fact for kind, fact in hook.heard if kind == "after"] == [
                    None,
                    SendStatus.SEND_OK,
                ]
                with pytest.raises(MessageError, match="no such tag"):
                    await producer.send(Message("t", b"x", tags="forbidden"))

    run_on("asyncio", work())


def test_life_cycle_errors_are_explained(cluster: Cluster) -> None:
    async def work() -> None:
        producer = aio.Producer(cluster.namesrv, group="life")
        with pytest.raises(
            UsageError, match="start", check=lambda error: error.reason is UsageReason.NOT_STARTED
        ):
            await producer.send(Message("t", b"x"))
        await producer.start()
        await producer.start()
        with pytest.raises(
            UsageError, match="already", check=lambda error: error.reason is UsageReason.GROUP
        ):
            await aio.Producer(instance=producer.instance, group="life").start()
        await producer.close()
        await producer.close()
        with pytest.raises(ClosedError, match="make another"):
            await producer.send(Message("t", b"x"))
        with pytest.raises(ClosedError):
            await producer.start()
        with pytest.raises(
            UsageError, match="illegal", check=lambda error: error.reason is UsageReason.GROUP
        ):
            async with aio.Producer(cluster.namesrv, group="a b"):
                pass
        with pytest.raises(UsageError, match="has no option 'nonsense'"):
            aio.Producer(cluster.namesrv, group="g", nonsense=1)  # type: ignore[call-arg]

    run_on("asyncio", work())


def test_one_client_serves_several_producers_and_closes_them(cluster: Cluster) -> None:
    async def work() -> None:
        async with aio.Client(cluster.namesrv) as client:
            first, second = client.producer(group="one"), client.producer(group="two")
            await first.start()
            await second.start()
            await asyncio.gather(
                first.send(Message("shared", b"x")), second.send(Message("shared", b"x"))
            )
            # Both talk over one connection.
            assert len(client.instance.remote.hub.links) == 2
        with pytest.raises(ClosedError):
            await first.send(Message("shared", b"x"))

    run_on("asyncio", work())


def test_heartbeats_register_the_group_and_closing_unregisters_it() -> None:
    async def work() -> None:
        with scripted() as server:
            async with aio.Producer(server.address, group="pg") as producer:
                await producer.send(Message("t", b"x"))
                while RequestCode.HEART_BEAT not in server.codes():  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
                client_id = producer.instance.client_id
            beat = next(one for one in server.asked if one.code == RequestCode.HEART_BEAT)
            assert b'"groupName":"pg"' in beat.body
            assert beat.language == 3
            (left,) = [one for one in server.asked if one.code == RequestCode.UNREGISTER_CLIENT]
            assert left.ext["producerGroup"] == "pg"
            assert left.ext["clientID"] == client_id

    run_on("asyncio", work())


def test_a_refused_batch_fails_every_send_in_it(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        with scripted() as server:
            server.send = lambda request: request.answer(13, "too long")
            async with aio.Producer(server.address, group="pg", batching=True) as producer:
                got = await asyncio.gather(
                    *(producer.send(Message("t", b"x")) for _ in range(5)), return_exceptions=True
                )
                assert all(isinstance(error, SendError) for error in got)

    caplog.set_level(logging.ERROR)
    run_on("asyncio", work())


def test_what_is_sent_is_compressed_as_set() -> None:
    async def work() -> None:
        with scripted() as server:
            async with aio.Producer(server.address, group="pg") as producer:
                await producer.send(Message("t", b"abc" * 5000, properties={"p": "v"}))
            send = next(one for one in server.asked if one.code == RequestCode.SEND_MESSAGE_V2)
            assert decompress(send.body, Compression.ZLIB, 15_000) == b"abc" * 5000
            assert send.ext["f"] == str(0x301)
            assert parse_properties(send.ext["i"])["p"] == "v"

    run_on("asyncio", work())
