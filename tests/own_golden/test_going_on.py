"""What waited in a store of mqcore 0.1 goes on: delays, timers, half messages, pops, bits."""

import re
from collections.abc import Callable
from pathlib import Path

from live_broker import Live
from loops import run_on
from mqcore.broker.pop_orders import parse_orders
from mqcore.clock import wall_ms
from mqcore.native import decode_records
from mqcore.remoting import RequestCode
from own_golden.cases import CLEAN, contents
from own_golden.serving import serving
from own_golden.workload import COMMIT, HOUR_S, end_transaction
from popping import Popper
from request_fields import SUBSCRIPTION

Roots = Callable[[str], Path]
MS_PER_S = 1_000


async def bodies(running: Live, topic: str) -> list[bytes]:
    """Returns the bodies of the first queue of a topic."""
    found = await running.pull(topic, 0)
    return [record.body for record in decode_records(found.body)] if found.code == 0 else []


def test_what_was_delayed_or_timed_comes_when_it_is_due(golden_copy: Roots) -> None:
    root, now_ms = golden_copy(CLEAN), contents(CLEAN)["now_ms"]

    async def run() -> None:
        async with serving(root, now_ms) as running:
            assert sorted(await bodies(running, "Later")) == [b"level 1", b"timer near"]
        async with serving(root, now_ms + 3 * HOUR_S * MS_PER_S) as running:
            await running.broker.rounds.deliver_all()
            await running.broker.timer_rounds.tick_all()
            await running.settled()
            expected = [b"level 1", b"level 18", b"timer far", b"timer near"]
            assert sorted(await bodies(running, "Later")) == expected
        async with serving(root, now_ms + 48 * HOUR_S * MS_PER_S) as running:
            await running.broker.timer_rounds.tick_all()
            await running.settled()
            assert b"timer farther" in await bodies(running, "Later")
            counts = await running.json(RequestCode.GET_TIMER_METRICS)
            assert all(not each["count"] for each in counts["timingCount"].values())

    run_on("uvloop", run())


def test_a_half_message_that_waited_can_be_ended(golden_copy: Roots) -> None:
    root, known = golden_copy(CLEAN), contents(CLEAN)
    offsets = (known["half"][0], known["half"][1])

    async def run() -> None:
        async with serving(root, known["now_ms"]) as running:
            assert await bodies(running, "Tx") == [b"committed"]
            await end_transaction(running, offsets, COMMIT)
            await running.settled()
            assert await bodies(running, "Tx") == [b"committed", b"open"]

    run_on("uvloop", run())


def test_what_was_popped_and_not_acknowledged_comes_again(golden_copy: Roots) -> None:
    root, known = golden_copy(CLEAN), contents(CLEAN)

    async def popped(running: Live) -> list[str]:
        group = Popper(running.client, running.address, "Pop", "popper", broker="b")
        found = []
        # Now and then a pop looks at only one of topic and retry topic.
        for _ in range(4):
            found += [each.body for each in await group.pop()]
        return sorted(found)

    async def run() -> None:
        async with serving(root, known["now_ms"]) as running:
            assert not set(await popped(running)) & set(known["open_pops"])
        async with serving(root, known["now_ms"] + HOUR_S * MS_PER_S) as running:
            await running.broker.timer_rounds.tick_all()
            await running.settled()
            await running.broker.pop_rounds.revive()
            await running.settled()
            assert set(known["open_pops"]) <= set(await popped(running))

    run_on("uvloop", run())


def test_what_was_popped_in_order_blocks_those_behind_it(golden_copy: Roots) -> None:
    root, known = golden_copy(CLEAN), contents(CLEAN)
    path = root / "config" / "consumerOrderInfo.json"
    (kept,) = parse_orders(path.read_bytes())
    assert (kept.key, kept.queue_id, kept.offsets, kept.bits) == ("PopOrder@popper", 0, [0, 1], 1)
    # A day later nobody waits any more: as if the pop had been just now.
    path.write_text(re.sub(r"\b1[0-9]{12}\b", str(wall_ms()), path.read_text()))

    async def run() -> None:
        async with serving(root, known["now_ms"]) as running:
            group = Popper(running.client, running.address, "PopOrder", "popper", broker="b")
            assert await group.pop(order="true", queueId=0, maxMsgNums=2) == []
            (row,) = running.broker.state.fast_path.pops.orders()
            assert (row.key, row.offsets, row.bits) == (kept.key, kept.offsets, kept.bits)

    run_on("uvloop", run())


def test_a_registered_expression_still_chooses(golden_copy: Roots) -> None:
    root, known = golden_copy(CLEAN), contents(CLEAN)

    async def run() -> None:
        async with serving(root, known["now_ms"]) as running:
            ext = {
                **{"consumerGroup": "choosers", "topic": "Keys", "queueId": 0, "queueOffset": 0},
                **{"maxMsgNums": 32, "sysFlag": SUBSCRIPTION, "commitOffset": 0},
                **{"suspendTimeoutMillis": 0, "subscription": "n > 3", "subVersion": 1},
                "expressionType": "SQL92",
            }
            found = await running.call(RequestCode.PULL_MESSAGE, ext)
            assert found.code == 0, found.remark
            expected = [b"key %d" % n for n in (4, 6, 8)] + [
                b"key %d" % n for n in range(1_000, 1_010, 2)
            ]
            assert [record.body for record in decode_records(found.body)] == expected

    run_on("uvloop", run())
