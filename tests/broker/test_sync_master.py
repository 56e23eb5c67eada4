"""A synchronous master: what answers wait for, and slaves that report late, falsely or nothing."""

import asyncio
import logging
from pathlib import Path

import pytest

from broker.scripted_slave import ScriptedSlave
from live_broker import Live, batch_fields, live
from loops import run_on, until
from mqcore.config.checks import check_broker
from mqcore.config.settings import settings_of_pairs
from mqcore.errors import ConfigurationError
from mqcore.native import Command
from mqcore.remoting import RequestCode, expect
from recorded.requests import batch_body

SYNC = {"brokerRole": "SYNC_MASTER", "deduplicationWindowMinutes": "0"}
# As long as a slave that comes takes at the most, on a busy machine.
PATIENT = {**SYNC, "slaveTimeout": "60000"}
AT_ONCE = {**SYNC, "slaveTimeout": "1"}
OK, SYSTEM_ERROR, SLAVE_TIMEOUT, NO_SLAVE = 0, 1, 12, 11


def port_of(master: Live) -> int:
    """Returns where a master listens for slaves."""
    return master.broker.state.replicas.port


def end_of(master: Live) -> int:
    """Returns the end of a master's log."""
    return master.broker.state.store.stats().appended


def parked(master: Live) -> int:
    """Returns how many sends wait."""
    return master.broker.state.fast_path.stats()["parked"]


async def slave_of(master: Live, *, reports_at_once: bool = False) -> ScriptedSlave:
    """Connects a slave that has everything; returns when the master knows that."""
    known = slaves(master)
    slave = await ScriptedSlave.of(port_of(master), end_of(master), reports_at_once=reports_at_once)
    await until(lambda: slaves(master) == known + 1)
    return slave


def slaves(master: Live) -> int:
    """Returns how many slaves have asked for the log."""
    shipping = master.broker.state.replicas.master
    assert shipping is not None
    return sum(one.requested is not None for one in shipping.slaves())


async def sent(master: Live, count: int) -> list[asyncio.Task[Command]]:
    """Sends messages; returns when all of them wait."""
    loop = asyncio.get_running_loop()
    before = parked(master)
    tasks = [loop.create_task(master.send("T", b"m%d" % number)) for number in range(count)]
    await until(lambda: parked(master) == before + count)
    return tasks


async def codes(tasks: list[asyncio.Task[Command]]) -> list[int]:
    """Returns the codes of answers, in the order of the sends."""
    return [answer.code for answer in await asyncio.gather(*tasks)]


def test_a_send_is_answered_when_a_slave_has_it_and_one_report_answers_all_below(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with live(tmp_path / "m", **PATIENT) as master:
            await master.create("T")
            slave = await slave_of(master)
            first = await sent(master, 3)
            end = end_of(master)
            later = await sent(master, 2)
            await slave.until(end_of(master))
            assert not any(task.done() for task in first + later)
            slave.report(end)
            assert await codes(first) == [OK] * 3
            assert parked(master) == 2
            assert not any(task.done() for task in later)
            slave.report(end_of(master))
            assert await codes(later) == [OK] * 2
            slave.close()

    run_on("asyncio", run())


def test_one_byte_less_than_a_message_acknowledges_the_one_before_it_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path / "m", **PATIENT) as master:
            await master.create("T")
            slave = await slave_of(master)
            (one,) = await sent(master, 1)
            end = end_of(master)
            await slave.until(end)
            slave.report(end - 1)
            (other,) = await sent(master, 1)
            await slave.until(end_of(master))
            assert not one.done()
            slave.report(end_of(master) - 1)
            assert (await one).code == OK
            assert not other.done()
            slave.report(end_of(master))
            assert (await other).code == OK
            slave.close()

    run_on("asyncio", run())


def test_what_no_slave_reports_in_time_is_stored_and_answered_so(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path / "m", **AT_ONCE) as master:
            await master.create("T")
            slave = await slave_of(master)
            answer = await master.send("T", b"late")
            assert (answer.code, answer.ext["queueOffset"]) == (SLAVE_TIMEOUT, "0")
            await slave.until(end_of(master))
            slave.report(end_of(master))
            answer = await master.send("T", b"nobody waits", WAIT=False)
            assert (answer.code, answer.ext["queueOffset"]) == (OK, "1")
            slave.close()

    run_on("asyncio", run())


def test_without_a_slave_near_enough_a_send_is_stored_and_its_answer_comes_at_once(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with live(tmp_path / "m", **PATIENT, haSlaveFallbehindMax="2000") as master:
            await master.create("T")
            answer = await master.send("T", b"alone")
            assert (answer.code, answer.ext["queueOffset"]) == (NO_SLAVE, "0")
            slave = await slave_of(master)
            tasks = await sent(master, 1)
            await slave.until(end_of(master))
            slave.report(end_of(master))
            assert await codes(tasks) == [OK]
            # It reports no more, and falls behind.
            expect(await master.send("T", b"x" * 3_000, WAIT=False), master.address)
            await slave.until(end_of(master))
            await until(lambda: lag_of(master) > 2_000)
            assert (await master.send("T", b"too far")).code == NO_SLAVE
            await slave.until(end_of(master))
            slave.report(end_of(master))
            await until(lambda: lag_of(master) == 0)
            begin = end_of(master)
            tasks = await sent(master, 1)
            slave.close()
            await until(lambda: not slaves(master))
            assert (await master.send("T", b"alone again")).code == NO_SLAVE
            again = await ScriptedSlave.of(port_of(master), begin)
            await again.until(end_of(master))
            again.report(end_of(master))
            assert await codes(tasks) == [OK], "who waits is answered by the slave that comes back"
            again.close()

    run_on("asyncio", run())


def lag_of_last(master: Live) -> int:
    """Returns how far behind the slave is that has connected last, bytes."""
    shipping = master.broker.state.replicas.master
    assert shipping is not None
    return shipping.slaves()[-1].lag_bytes


def lag_of(master: Live) -> int:
    """Returns how far the first slave is behind, in bytes."""
    shipping = master.broker.state.replicas.master
    assert shipping is not None
    return shipping.slaves()[0].lag_bytes


@pytest.mark.parametrize("ahead", [1, 1 << 40])
def test_a_slave_that_reports_what_it_was_not_sent_acknowledges_nothing_and_is_cut(
    tmp_path: Path, ahead: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with live(tmp_path / "m", **PATIENT) as master:
            await master.create("T")
            liar, slave = await slave_of(master), await slave_of(master)
            tasks = await sent(master, 1)
            await liar.until(end_of(master))
            await slave.until(end_of(master))
            liar.report(end_of(master) + ahead)
            await liar.until_cut()
            stranger = await ScriptedSlave.of(port_of(master), end_of(master) + ahead)
            await stranger.until_cut()
            assert not tasks[0].done()
            slave.report(end_of(master))
            assert await codes(tasks) == [OK]
            slave.close()

    with caplog.at_level(logging.WARNING, logger="mqcore.broker"):
        run_on("asyncio", run())
    assert "was sent the log up to" in caplog.text
    assert "the slave is ahead" in caplog.text


def test_a_slave_that_reports_less_than_before_takes_nothing_back(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path / "m", **PATIENT) as master:
            await master.create("T")
            slave = await slave_of(master)
            tasks = await sent(master, 1)
            await slave.until(end_of(master))
            slave.report(end_of(master))
            assert await codes(tasks) == [OK]
            slave.report(0)
            await until(lambda: lag_of(master) == end_of(master))
            tasks = await sent(master, 1)
            await slave.until(end_of(master))
            slave.report(end_of(master) - 1)
            await until(lambda: lag_of(master) == 1)
            assert not tasks[0].done()
            slave.report(end_of(master))
            assert await codes(tasks) == [OK]
            slave.close()

    run_on("asyncio", run())


def test_with_three_copies_two_slaves_must_have_it_and_one_that_comes_back_is_not_two(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with live(tmp_path / "m", **PATIENT, inSyncReplicas="3", totalReplicas="3") as master:
            await master.create("T")
            one = await slave_of(master)
            assert (await master.send("T", b"two copies")).code == NO_SLAVE
            await one.until(end_of(master))
            one.report(end_of(master))
            other = await slave_of(master)
            one.report(end_of(master))
            await until(lambda: lag_of(master) == 0)
            tasks = await sent(master, 1)
            await other.until(end_of(master))
            other.report(end_of(master))
            # The same slave on a second connection, while the first is not known to be gone.
            again = await slave_of(master)
            await one.until(end_of(master))
            one.report(end_of(master))
            # What was on its way from the others may come from a slave that is the third now.
            tasks += await sent(master, 1)
            await again.until(end_of(master))
            again.report(end_of(master))
            await until(lambda: lag_of_last(master) == 0)
            assert not any(task.done() for task in tasks)
            await other.until(end_of(master))
            other.report(end_of(master))
            assert await codes(tasks) == [OK] * 2
            for slave in (one, other, again):
                slave.close()

    run_on("asyncio", run())


def test_with_fewer_in_sync_than_the_least_nothing_is_stored(tmp_path: Path) -> None:
    keys = {"inSyncReplicas": "2", "minInSyncReplicas": "2", "haMaxGapNotInSync": "2000"}

    async def run() -> None:
        async with live(tmp_path / "m", **PATIENT, **keys) as master:
            await master.create("T")
            end, words = end_of(master), "in-sync replicas not enough"
            answer = await master.send("T", b"single")
            assert (answer.code, answer.remark) == (SYSTEM_ERROR, words)
            body = batch_body([(b"one", {}), (b"other", {})])
            code = RequestCode.SEND_BATCH_MESSAGE
            answer = await master.call(code, batch_fields("T"), body)
            assert (answer.code, answer.remark) == (SYSTEM_ERROR, words)
            assert end_of(master) == end
            answer = await master.send("T", b"nobody waits", WAIT=False)
            assert (answer.code, answer.ext["queueOffset"]) == (OK, "0")
            slave = await slave_of(master, reports_at_once=True)
            assert (await master.send("T", b"a slave")).code == OK
            slave.reports_at_once = False
            expect(await master.send("T", b"x" * 3_000, WAIT=False), master.address)
            await until(lambda: lag_of(master) > 2_000)
            assert (await master.send("T", b"behind")).code == SYSTEM_ERROR
            slave.close()

    run_on("asyncio", run())


def test_with_automatic_numbers_a_master_that_is_alone_goes_on_alone(tmp_path: Path) -> None:
    async def run() -> None:
        keys = {"inSyncReplicas": "2", "enableAutoInSyncReplicas": "true"}
        async with live(tmp_path / "m", **PATIENT, **keys) as master:
            await master.create("T")
            await until(lambda: master.broker.state.replicas.master is not None)
            assert (await master.send("T", b"alone")).code == OK
            slave = await slave_of(master)
            tasks = await sent(master, 1)
            await slave.until(end_of(master))
            slave.report(end_of(master))
            assert await codes(tasks) == [OK]
            slave.close()
            await until(lambda: not slaves(master))
            assert (await master.send("T", b"alone again")).code == OK

    run_on("asyncio", run())


def test_a_synchronous_flush_and_a_slave_are_both_waited_for(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path / "m", **PATIENT, flushDiskType="SYNC_FLUSH") as master:
            await master.create("T")
            assert (await master.send("T", b"alone")).code == NO_SLAVE
            slave = await slave_of(master)
            tasks = await sent(master, 4)
            await until(lambda: master.broker.state.store.stats().flushed == end_of(master))
            await slave.until(end_of(master))
            assert not any(task.done() for task in tasks)
            slave.report(end_of(master))
            assert await codes(tasks) == [OK] * 4
            slave.close()

    run_on("asyncio", run())


def test_sends_that_wait_are_answered_before_a_master_ends(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path / "m", **PATIENT) as master:
            await master.create("T")
            slave = await slave_of(master)
            tasks = await sent(master, 2)
            await slave.until(end_of(master))
            stopping = asyncio.get_running_loop().create_task(master.broker.stop())
            slave.report(end_of(master))
            assert await codes(tasks) == [OK] * 2
            await stopping
            slave.close()

    run_on("asyncio", run())


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ({**SYNC, "haListenEnable": "false"}, "no port is listened on"),
        ({**SYNC, "inSyncReplicas": "3", "totalReplicas": "2"}, "more than there are"),
        ({**SYNC, "minInSyncReplicas": "2"}, "more than inSyncReplicas=1"),
        ({**SYNC, "allAckInSyncStateSet": "true"}, "only with a controller"),
    ],
)
def test_numbers_of_copies_that_cannot_be_are_refused(pairs: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        check_broker(settings_of_pairs(pairs))


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ({**SYNC, "inSyncReplicas": "1"}, "counts as 2"),
        ({"inSyncReplicas": "2"}, "no effect with brokerRole=ASYNC_MASTER"),
    ],
)
def test_numbers_that_mean_more_than_they_seem_to_are_warned_of(
    pairs: dict[str, str], words: str
) -> None:
    assert [each for each in check_broker(settings_of_pairs(pairs)) if words in each]


def test_a_synchronous_master_waits_for_one_slave_without_a_word() -> None:
    assert check_broker(settings_of_pairs(SYNC)) == check_broker(settings_of_pairs({}))
