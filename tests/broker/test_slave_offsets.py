"""Offsets that a slave and its master exchange: those of consumers, and how far is delivered."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from broker.test_replication import SLAVE, name_server
from interop.processes import free_port
from live_broker import Live, live
from loops import run_on, until
from mqcore.broker.consumer_offsets import ahead_of, changed_since
from mqcore.broker.delays import DelayTable
from mqcore.broker.replication.metadata import MetadataSync
from mqcore.broker.state import BrokerState
from mqcore.native import Command
from mqcore.remoting import RequestCode, ResponseCode, expect
from mqcore.state_files import PersistedTable, StateFile

KEY = "T@g"


async def commit(broker: Live, queue_id: int, offset: int) -> None:
    """Commits as a consumer of the group does."""
    fields = {"consumerGroup": "g", "topic": "T", "queueId": queue_id, "commitOffset": offset}
    expect(await broker.call(RequestCode.UPDATE_CONSUMER_OFFSET, fields), broker.address)


def found(broker: Live) -> list[int | None]:
    """Returns where the group goes on in each queue."""
    offsets = broker.broker.state.fast_path.offsets
    return [offsets.find("g", "T", queue_id) for queue_id in range(3)]


def test_a_master_that_returns_has_what_was_committed_at_its_slave(tmp_path: Path) -> None:
    ports = {"listenPort": str(free_port()), "haListenPort": str(free_port())}

    async def run() -> None:
        async with AsyncExitStack() as stack:
            names = await stack.enter_async_context(name_server(tmp_path))
            first = await stack.enter_async_context(AsyncExitStack())
            master = await first.enter_async_context(
                live(tmp_path / "m", namesrvAddr=names, **ports)
            )
            slave = await stack.enter_async_context(
                live(tmp_path / "s", namesrvAddr=names, **SLAVE)
            )
            await master.create("T", 3)
            group = b'{"groupName":"g","retryQueueNums":1}'
            code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            expect(await master.call(code, body=group), master.address)
            for _ in range(90):
                for queue_id in range(3):
                    expect(await master.send("T", b"x", queue_id), master.address)
            await commit(master, 0, 10)
            await commit(master, 1, 20)
            await until(lambda: found(slave) == [10, 20, None])
            await until(lambda: slave.broker.state.topics.find("T") is not None)
            await first.aclose()

            await commit(slave, 0, 30)
            await commit(slave, 2, 5)
            back = await stack.enter_async_context(live(tmp_path / "m", namesrvAddr=names, **ports))
            await until(lambda: found(back) == [30, 20, 5])
            # A group that is set back at its master goes back at the slave too, and stays there.
            await commit(back, 0, 7)
            await until(lambda: found(slave) == [7, 20, 5])
            assert found(back) == [7, 20, 5]

    run_on("asyncio", run())


@pytest.mark.parametrize(
    ("ours", "theirs", "before", "is_handed"),
    [
        pytest.param(9, 5, 5, True, id="committed here"),
        pytest.param(9, 9, 5, False, id="they have it"),
        pytest.param(9, 12, 5, False, id="they are farther"),
        pytest.param(9, 3, 5, False, id="set back over there"),
        pytest.param(9, None, None, True, id="they know nothing of it"),
    ],
)
def test_which_offsets_a_master_is_to_have(
    ours: int, theirs: int | None, before: int | None, *, is_handed: bool
) -> None:
    def table(offset: int | None) -> dict[str, dict[int, int]]:
        return {} if offset is None else {KEY: {0: offset}}

    committed = {(KEY, 0)}
    handed = ahead_of(table(ours), table(theirs), table(before), committed)
    assert handed == ({(KEY, 0): ours} if is_handed else {})
    assert ahead_of(table(ours), table(theirs), table(before), set()) == {}


def test_what_has_changed_in_a_table() -> None:
    before = {KEY: {0: 1, 1: 2}}
    assert changed_since({KEY: {0: 1, 1: 3, 2: 0}, "U@g": {0: 4}}, before) == {
        (KEY, 1),
        (KEY, 2),
        ("U@g", 0),
    }


def test_commits_beside_a_table_that_is_taken_are_not_lost(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            live(tmp_path / "m") as master,
            live(
                tmp_path / "s",
                haMasterAddress=f"127.0.0.1:{master.broker.state.replicas.port}",
                **SLAVE,
            ) as slave,
        ):
            offsets = slave.broker.state.fast_path.offsets
            sync = MetadataSync(slave.broker.state, slave.broker._opened_persistence())
            last = 0
            has_ended = threading.Event()

            def keep_committing() -> None:
                nonlocal last
                while not has_ended.is_set():
                    last += 1
                    offsets.commit("g", "T", 0, last)

            committing = threading.Thread(target=keep_committing)
            committing.start()
            theirs = {KEY: {0: 0}}
            try:
                for _ in range(300):
                    handed = await asyncio.to_thread(sync.follow_offsets, theirs)
                    theirs = {KEY: {0: handed.get((KEY, 0), theirs[KEY][0])}}
            finally:
                has_ended.set()
                committing.join()
            assert offsets.find("g", "T", 0) == last, "an older one of the master has won"
            assert sync.follow_offsets(theirs).get((KEY, 0), last) == last
            assert theirs[KEY][0] > 0

    run_on("asyncio", run())


def test_how_far_the_broker_has_delivered_is_taken_exactly(tmp_path: Path) -> None:
    half, checks = "RMQ_SYS_TRANS_HALF_TOPIC", "CID_RMQ_SYS_TRANS"

    async def run() -> None:
        async with AsyncExitStack() as stack:
            names = await stack.enter_async_context(name_server(tmp_path))
            master = await stack.enter_async_context(live(tmp_path / "m", namesrvAddr=names))
            slave = await stack.enter_async_context(
                live(tmp_path / "s", namesrvAddr=names, **SLAVE)
            )
            master.broker.state.fast_path.offsets.commit(checks, half, 0, 10)
            # As of one that was master, and has lost the end of its log.
            ours = slave.broker.state.fast_path.offsets
            ours.commit(checks, half, 0, 50)
            ours.commit("g", "T", 0, 50)
            master.broker.state.fast_path.offsets.commit("g", "T", 0, 10)
            expect(await master.send("T", b"x"), master.address)
            await until(lambda: ours.find(checks, half, 0) == 10)
            assert ours.find("g", "T", 0) == 50, "what a consumer has committed is kept"

    run_on("asyncio", run())


class ConfirmedTo:
    """The epochs of a member whose log is confirmed up to an offset."""

    def __init__(self, confirmed: int) -> None:
        self.confirmed = confirmed

    def positions(self) -> "ConfirmedTo":
        return self


def test_tables_of_a_master_count_when_its_log_is_confirmed_here(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path / "b") as broker:
            state = broker.broker.state
            expect(await broker.send("T", b"x"), broker.address)
            end = state.store.stats().appended
            sync = MetadataSync(state, broker.broker._opened_persistence())
            assert await sync._has_come_to(end)
            epochs = ConfirmedTo(end - 1)
            state.replicas.epochs = cast("Any", epochs)
            assert not await sync._has_come_to(end)
            epochs.confirmed = end
            assert await sync._has_come_to(end)
            state.replicas.epochs = None

    run_on("asyncio", run())


def _flushed_at_writes(state: BrokerState, table: PersistedTable) -> list[int]:
    """Returns up to where the log is durable at each write of a table from now on."""
    flushed: list[int] = []
    file = table._file
    write = file.save

    def save(content: bytes) -> None:
        flushed.append(state.store.stats().flushed)
        write(content)

    cast("Any", file).save = save
    return flushed


def test_deliveries_of_a_master_are_written_once_the_log_is_durable(tmp_path: Path) -> None:
    """Else power loss takes what was delivered, and who is elected then never delivers it."""

    async def run() -> None:
        async with unflushed(tmp_path) as (broker, appended):
            state, persistence = broker.broker.state, broker.broker._opened_persistence()
            text, path = b'{"offsetTable":{1:1}}', tmp_path / "b" / "config" / "delayOffset.json"
            flushed = _flushed_at_writes(state, persistence.delays.table)
            await persistence.delays.follow(text, None)
            assert flushed[0] >= appended
            assert StateFile(path).load(lambda content: _is_delivered(content, {1: 1}))

    run_on("asyncio", run())


def test_offsets_are_written_once_the_log_is_durable(tmp_path: Path) -> None:
    """Else power loss takes check points, and who is elected passes over what they are about."""

    async def run() -> None:
        async with unflushed(tmp_path) as (broker, appended):
            state, persistence = broker.broker.state, broker.broker._opened_persistence()
            state.fast_path.offsets.commit("g", "T", 0, 1)
            flushed = _flushed_at_writes(state, persistence.offsets.table)
            await persistence.offsets.save()
            assert flushed[0] >= appended

    run_on("asyncio", run())


@asynccontextmanager
async def unflushed(root: Path) -> AsyncIterator[tuple[Live, int]]:
    """A broker with a message that is not durable yet, and the end of its log."""
    async with live(root / "b", flushIntervalCommitLog="3600000") as broker:
        expect(await broker.send("T", b"x"), broker.address)
        stats = broker.broker.state.store.stats()
        assert stats.flushed < stats.appended
        yield broker, stats.appended


def _is_delivered(content: bytes, offsets: dict[int, int]) -> None:
    delays = DelayTable((1_000,), 0)
    delays.load(content)
    assert delays.offsets == offsets


def test_offsets_of_a_member_wait_for_the_log_that_they_rest_on(tmp_path: Path) -> None:
    """A pop has moved an offset: the check point behind it must be here before the offset is."""

    async def run() -> None:
        async with live(tmp_path / "b") as broker:
            state, persistence = broker.broker.state, broker.broker._opened_persistence()
            expect(await broker.send("T", b"x"), broker.address)
            sync, end = MetadataSync(state, persistence), state.store.stats().appended
            answers = {
                RequestCode.GET_ALL_CONSUMER_OFFSET: b'{"offsetTable":{"T@g":{0:1}}}',
                RequestCode.GET_BROKER_HA_STATUS: b'{"masterCommitLogMaxOffset":%d}' % end,
            }

            async def ask(_address: str, code: RequestCode, *_args: object) -> Command:
                return Command(code=ResponseCode.SUCCESS, body=answers[code])

            cast("Any", sync._calls).ask = ask
            steps = [(RequestCode.GET_ALL_CONSUMER_OFFSET, sync._hold_offsets)]
            epochs = ConfirmedTo(end - 1)
            state.replicas.epochs = cast("Any", epochs)
            state.role = replace(state.role, is_controlled=True)
            await sync._take_all("m", steps)
            assert state.fast_path.offsets.find("g", "T", 0) in (None, -1)
            epochs.confirmed = end
            await sync._take_all("m", steps)
            assert state.fast_path.offsets.find("g", "T", 0) == 1
            state.replicas.epochs = None

    run_on("asyncio", run())
