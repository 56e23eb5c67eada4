"""Pops through a running broker: what comes back, also over a restart, and what is stored of it."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from live_broker import Live, live
from loops import run_on, until
from mqcore.broker import policy, pop
from mqcore.broker.pop import REVIVE_GROUP
from mqcore.broker.pop_orders import orders_text, parse_orders
from mqcore.errors import BadJsonError
from mqcore.model.relaxed_json import parse_object
from mqcore.model.topics import revive_topic
from mqcore.native import OrderInfo
from mqcore.remoting import RequestCode
from popping import BATCH_ACK, FOUND, POLLING_TIMEOUT, Popped, Popper

# One queue of check points; looked at often.
POPS = {"reviveQueueNum": "1", "reviveInterval": "20", "timerPrecisionMs": "100"}
INVISIBLE_MS = 5_000
# What comes back comes two seconds behind its time.
AHEAD_MS = INVISIBLE_MS + 3_000
REVIVE_TOPIC = revive_topic("c")


def on_loop(test: Callable[[Path], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    """Makes a test of a coroutine function."""

    @functools.wraps(test)
    def run(tmp_path: Path) -> None:
        run_on("asyncio", test(tmp_path))

    return run


def popper(running: Live, group: str = "g") -> Popper:
    """Returns a popper of a broker that runs."""
    return Popper(running.client, running.address, "t", group, broker="b")


@asynccontextmanager
async def popping(path: Path, **keys: str) -> AsyncIterator[tuple[Live, Popper]]:
    """Runs a broker with a topic of four queues."""
    async with live(path, **(POPS | keys)) as running:
        if running.broker.state.topics.find("t") is None:
            await running.create("t", 4)
        yield running, popper(running)


async def filled(running: Live, *bodies: str) -> None:
    """Sends messages; returns when they can be popped."""
    for at, body in enumerate(bodies):
        answer = await running.send("t", body.encode(), at % 4)
        assert answer.code == 0
    await running.settled()


def pass_time(running: Live, by_ms: int = AHEAD_MS) -> None:
    """Lets time pass on the clock of the timers, which pops go by."""
    state = running.broker.state
    state.timers_ahead_ms += by_ms
    policy.fill(state)


async def come_back(running: Live) -> None:
    """Returns when what is due by now is there to be popped again."""
    await running.settled()
    await running.broker.timer_rounds.tick_all()
    await running.settled()
    await running.broker.pop_rounds.revive()
    await running.settled()


@on_loop
async def test_what_nobody_acknowledges_comes_again_once(tmp_path: Path) -> None:
    async with popping(tmp_path) as (running, group):
        await filled(running, *"abcdef")
        first = await group.pop(invisibleTime=INVISIBLE_MS)
        assert sorted(each.body for each in first) == list("abcdef")
        assert await group.pop() == []
        for each in first:
            if each.body in "abc":
                assert await group.ack(each) == 0
        # Stored when it has stayed long enough: the time that the buffer goes by is real.
        assert running.broker.state.fast_path.pops.store()
        pass_time(running)
        await come_back(running)
        again = await group.pop(pollTime=10_000)
        assert sorted(each.body for each in again) == list("def")
        assert {(each.topic, each.times) for each in again} == {("%RETRY%g_t", 1)}
        assert [await group.ack(each) for each in again] == [0, 0, 0]
        assert await group.pop() == []
        topics = running.broker.state.topics
        assert topics.topics["%RETRY%g_t"].read_queues == 1
        assert running.broker.state.revived == 3


@on_loop
async def test_nothing_comes_back_just_after_the_dispatch_stood_still(tmp_path: Path) -> None:
    """An acknowledgement may be in the log then, and not with the timers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pop, "_STALLED_S", -1.0)
        async with popping(tmp_path) as (running, group):
            await filled(running, "a")
            assert len(await group.pop(invisibleTime=INVISIBLE_MS)) == 1
            assert running.broker.state.fast_path.pops.store()
            pass_time(running)
            await come_back(running)
            assert running.broker.state.revived == 0
            patch.setattr(pop, "_STALLED_S", 60.0)
            await until(lambda: running.broker.state.revived == 1)


@on_loop
async def test_a_topic_takes_the_retry_topics_of_its_pops_along(tmp_path: Path) -> None:
    async with popping(tmp_path) as (running, group):
        await filled(running, "a")
        await group.pop(invisibleTime=INVISIBLE_MS)
        assert running.broker.state.fast_path.pops.store()
        pass_time(running)
        await come_back(running)
        # The ordinary retry topic of another group, which looks like one of these.
        await running.create("h_t", 1)
        await running.create("%RETRY%h_t", 1)
        state = running.broker.state
        state.groups.find_or_create("h_t", 0)
        state.fast_path.offsets.commit("h", "t", 0, 0)
        assert "%RETRY%g_t" in state.topics.topics
        answer = await running.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
        assert answer.code == 0
        assert not {"t", "%RETRY%g_t"} & set(state.topics.topics)
        assert "%RETRY%h_t" in state.topics.topics
        assert state.fast_path.offsets.find("g", "%RETRY%g_t", 0) is None


@on_loop
async def test_retry_topics_of_the_second_kind(tmp_path: Path) -> None:
    async with popping(tmp_path, enableRetryTopicV2="true") as (running, group):
        await filled(running, "a")
        await group.pop(invisibleTime=INVISIBLE_MS)
        assert running.broker.state.fast_path.pops.store()
        pass_time(running)
        await come_back(running)
        found: list[Popped] = []
        while not found:
            # Now and then only the retry topic of the first kind is looked at.
            found = await group.pop()
        assert [each.topic for each in found] == ["%RETRY%g+t"]
        assert await group.ack(found[0]) == 0


@on_loop
async def test_a_stop_leaves_what_the_next_start_goes_on_with(tmp_path: Path) -> None:
    async with popping(tmp_path) as (running, group):
        await filled(running, *"abcd")
        popped = {each.body: each for each in await group.pop(invisibleTime=INVISIBLE_MS)}
        assert await group.ack(popped["a"]) == 0
    saved = parse_object((tmp_path / "config" / "consumerOffset.json").read_bytes())
    table = saved["offsetTable"]
    assert isinstance(table, dict)
    assert set(table["t@g"].values()) == {1}, "all was popped, and what is open is stored"
    async with popping(tmp_path) as (running, group):
        assert await group.pop() == []
        assert await group.ack(popped["b"]) == 0, "a handle of before the stop"
        pass_time(running)
        await come_back(running)
        assert sorted(each.body for each in await group.pop()) == ["c", "d"]
        known = running.broker.state.fast_path.offsets.find(REVIVE_GROUP, REVIVE_TOPIC, 0)
        assert known == 3, "three check points and an acknowledgement"


@on_loop
async def test_a_kill_gives_open_pops_again(tmp_path: Path) -> None:
    async with popping(tmp_path) as (running, group):
        await filled(running, *"abcd")
        popped = await group.pop()
        assert await group.ack(popped[0]) == 0
        await running.broker.abandon()
    async with popping(tmp_path) as (running, group):
        assert {each.body for each in await group.pop()} >= {each.body for each in popped[1:]}


@on_loop
async def test_what_is_changed_comes_back_at_its_new_time(tmp_path: Path) -> None:
    async with popping(tmp_path) as (running, group):
        await filled(running, "a")
        (message,) = await group.pop()
        answer = await group.change(message, INVISIBLE_MS)
        assert (answer.code, answer.ext["invisibleTime"]) == (0, str(INVISIBLE_MS))
        pass_time(running)
        await come_back(running)
        (again,) = await group.pop()
        assert (again.body, again.times) == ("a", 1)


@on_loop
async def test_bad_pops_are_refused_and_nothing_falls(tmp_path: Path) -> None:
    async with popping(tmp_path) as (running, group):
        await filled(running, "a")
        for fields, code in (
            ({"maxMsgNums": 33}, 29),
            ({"maxMsgNums": 2**31 - 1}, 29),
            ({"maxMsgNums": "many"}, 1),
            ({"queueId": 4}, 29),
            ({"topic": "none"}, 17),
            ({"exp": "||"}, 23),
            ({"invisibleTime": 2**63 - 1}, 29),
            ({"bornTime": 1}, POLLING_TIMEOUT),
        ):
            answer = await group.request(**fields)
            assert answer.code == code, (fields, answer.code, answer.remark)
        (message,) = await group.pop(invisibleTime=-1)
        assert await group.ack(message) == 0
        assert await group.ack(message) == 0, "twice"
        handles = ("", "x", "1 2 3", "-1 -1 -1 -1 0 b 0", f"{2**63 - 1} {2**63 - 1} 9 0 0 b 0 0")
        codes = []
        for handle in handles:
            ext = group.fields(message) | {"extraInfo": handle}
            codes.append((await running.call(200_051, ext)).code)
        assert codes == [1, 1, 1, 0, 0]
        ext = group.fields(message) | {"offset": "-1"}
        assert (await running.call(200_051, ext)).code == 208
        for body, code in ((b"", 208), (b"{}", 208), (b"{", 1), (b'{"acks":[1]}', 1)):
            assert (await running.call(BATCH_ACK, {}, body)).code == code, body
        assert (await group.request()).code in (FOUND, POLLING_TIMEOUT)


@on_loop
async def test_groups_that_may_not_exist_pop_nothing(tmp_path: Path) -> None:
    async with popping(tmp_path, autoCreateSubscriptionGroup="false") as (_running, group):
        answer = await group.request()
        assert answer.code == 26
        assert "does not exist" in (answer.remark or "")


@on_loop
async def test_without_timers_nothing_is_popped(tmp_path: Path) -> None:
    async with popping(tmp_path, timerWheelEnable="false") as (_running, group):
        answer = await group.request()
        assert answer.code == 1
        assert "timerWheelEnable is false" in (answer.remark or "")


@on_loop
async def test_ordered_pops_survive_a_restart(tmp_path: Path) -> None:
    order = {"order": "true", "queueId": 0, "maxMsgNums": 2}
    async with popping(tmp_path) as (running, group):
        for body in "abc":
            assert (await running.send("t", body.encode(), 0)).code == 0
        await running.settled()
        first = await group.pop(**order)
        assert [each.body for each in first] == ["a", "b"]
        assert await group.pop(**order) == []
        assert await group.ack(first[0]) == 0
    (kept,) = parse_orders((tmp_path / "config" / "consumerOrderInfo.json").read_bytes())
    assert (kept.key, kept.offsets, kept.bits) == ("t@g", [0, 1], 1)
    async with popping(tmp_path) as (_running, group):
        assert await group.pop(**order) == [], "blocked as before"
        assert await group.ack(first[1]) == 0
        assert [each.body for each in await group.pop(**order)] == ["c"]


def test_orders_are_written_as_the_official_broker_writes_them() -> None:
    row = OrderInfo(
        key="t@g",
        queue_id=3,
        pop_time_ms=5,
        invisible_ms=60,
        offsets=[7, 8, 10],
        visible_ms={8: 99},
        counts={7: 2},
        last_ms=6,
        bits=1 << 63,
        attempt="a",
    )
    text = orders_text([row])
    assert parse_orders(text) == [row]
    info = parse_object(text)["table"]["t@g"]["3"]
    assert (info["o"], info["cm"], info["popTime"]) == ([7, 1, 3], -(1 << 63), 5)
    official = b'{"table":{"t@g":{0:{"cm":1,"i":3000,"l":9,"o":[5,1],"popTime":8}}}}'
    (kept,) = parse_orders(official)
    assert (kept.offsets, kept.bits, kept.attempt) == ([5, 6], 1, None)
    assert parse_orders(b'{"table":{"t@g":{0:{"o":[]},"x":{"o":[1]}}}}') == []
    with pytest.raises(BadJsonError):
        parse_orders(b'{"table":[]}')


@pytest.mark.parametrize("has_buffer", ["true", "false"])
def test_what_pops_store_is_small_where_they_are_kept(tmp_path: Path, has_buffer: str) -> None:
    async def run() -> None:
        async with popping(tmp_path, enablePopBufferMerge=has_buffer) as (running, group):
            await filled(running, *map(str, range(40)))
            count = 0
            while popped := await group.pop():
                for each in popped:
                    assert await group.ack(each) == 0
                    count += 1
            assert count == 40
            stored = running.broker.state.fast_path.pops.records_stored
            assert stored == 0 if has_buffer == "true" else stored > 40

    run_on("asyncio", run())


@dataclass
class Positions:
    """How far a member's log goes, and is confirmed."""

    end: int
    confirmed: int

    def positions(self) -> "Positions":
        return self

    def epoch_before(self, _offset: int) -> int:
        return 1


@on_loop
async def test_offsets_of_groups_that_pop_wait_for_their_check_points(tmp_path: Path) -> None:
    """Else who reads the file, after another master has cut them off, passes over messages."""
    path = tmp_path / "config" / "consumerOffset.json"

    def is_written() -> bool:
        return path.exists() and b"t@g" in path.read_bytes()

    async with popping(tmp_path, enablePopBufferMerge="false") as (running, group):
        await filled(running, "a")
        assert len(await group.pop()) == 1
        state, persistence = running.broker.state, running.broker._opened_persistence()
        end = state.store.stats().appended
        log = Positions(end, confirmed=end - 1)
        state.replicas.epochs = cast("Any", log)
        await persistence.offsets.save()
        assert not is_written()
        log.confirmed = end
        await persistence.offsets.save()
        assert is_written()
        state.replicas.epochs = None


FLOODED = {"enablePopMessageThreshold": "true", "popInflightMessageThreshold": "2"}


@on_loop
async def test_a_group_that_acknowledges_nothing_gets_no_more_of_a_queue(tmp_path: Path) -> None:
    async with popping(tmp_path, **FLOODED) as (running, group):
        await filled(running, *map(str, range(20)))
        wanted = {"queueId": 0, "maxMsgNums": 2, "invisibleTime": INVISIBLE_MS}
        first, second = await group.pop(**wanted), await group.pop(**wanted)
        answer = await group.request(**wanted)
        assert (answer.code, answer.ext["restNum"]) == (POLLING_TIMEOUT, "1")
        # Another queue, another group.
        assert len(await group.pop(**wanted | {"queueId": 1})) == 2
        assert len(await popper(running, "h").pop(**wanted)) == 2
        held = asyncio.ensure_future(group.pop(**wanted, pollTime=30_000))
        assert await group.ack(first[0]) == 0
        await group.request(queueId=2)
        assert not held.done(), "three are too many"
        assert await group.ack(second[1]) == 0
        (last,) = await asyncio.wait_for(held, 10)
        assert await group.ack(last) == 0
        # What comes back is in flight no more; popped again it is, of another topic.
        for body in "xyz":
            assert (await running.send("t", body.encode(), 0)).code == 0
        await running.settled()
        assert [each.body for each in await group.pop(**wanted)] == ["x", "y"]
        assert await group.pop(**wanted) == []
        assert running.broker.state.fast_path.pops.store()
        pass_time(running)
        await come_back(running)
        found = await group.pop(**wanted)
        assert {each.topic for each in found} <= {"t", "%RETRY%g_t"}
        assert found


@on_loop
async def test_a_reset_or_an_ordered_pop_begins_to_count_anew(tmp_path: Path) -> None:
    async with popping(tmp_path, **FLOODED) as (running, group):
        await filled(running, *map(str, range(20)))
        wanted = {"queueId": 0, "maxMsgNums": 3}
        assert len(await group.pop(**wanted)) == 3
        assert await group.pop(**wanted) == []
        running.broker.state.fast_path.offsets.commit("g", "t", 0, 0)
        assert len(await group.pop(**wanted)) == 3
        # Two are not too many, however often they come again.
        order = {"order": "true", "queueId": 1, "maxMsgNums": 2, "invisibleTime": 0}
        for _ in range(3):
            assert len(await group.pop(**order)) == 2
