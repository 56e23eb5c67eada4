"""Brokers under a scripted controller, in this process: elections, failovers, cuts."""

import contextlib
import gc
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.scripted_controller import ScriptedController
from broker.test_replication import name_server
from interop.processes import free_port
from live_broker import SMALL, Live
from loops import run_on, until
from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.controlled import ControlledBroker
from mqcore.broker.replication.asking import MasterCalls
from mqcore.broker.replication.controller_messages import Ask, Purpose
from mqcore.broker.replication.membership import (
    Phase,
)
from mqcore.config import settings_of_pairs
from mqcore.errors import ConfigurationError, MQError
from mqcore.native import Command
from mqcore.remoting import (
    Client,
    Dispatcher,
    Request,
    RequestCode,
    ResponseCode,
    Server,
    TcpAddress,
    expect,
)
from tls_papers import Papers

MEMBER = {
    "enableControllerMode": "true",
    "allAckInSyncStateSet": "true",
    "slaveReadEnable": "true",
    "brokerHeartbeatInterval": "100",
    "syncBrokerMetadataPeriod": "100",
    "syncControllerMetadataPeriod": "200",
    "checkSyncStateSetPeriod": "100",
    "haSendHeartbeatInterval": "200",
    # Slaves are served at a free port, as the broker is.
    "haListenPort": "0",
}


@dataclass
class Members:
    """The brokers of a group, and their controller.

    Attributes:
        controller: What it knows.
        at: Where it answers.
        namesrv: The name server.
        root: Where the stores are.
        brokers: The members that run, by number.
    """

    controller: ScriptedController
    at: str
    namesrv: str
    root: Path
    client: Client
    brokers: dict[int, ControlledBroker] = field(default_factory=dict)

    async def begin(self, number: int, **keys: str) -> ControlledBroker:
        """Starts a member."""
        store = self.root / f"store{number}"
        pairs = SMALL | MEMBER | {"controllerAddr": self.at, "namesrvAddr": self.namesrv}
        settings = settings_of_pairs(pairs | {"storePathRootDir": str(store)} | keys)
        broker = ControlledBroker(settings)
        await broker.start()
        self.brokers[number] = broker
        return broker

    async def begin_pair(self) -> None:
        """Starts two members, the first as the master of the second."""
        await self.begin(1)
        await self.until_master(1)
        await self.begin(2)
        await self.until_slave(2)

    async def kill(self, number: int) -> None:
        """Ends a member as kill -9 does; the controller sees it."""
        broker = self.brokers.pop(number)
        await broker.abandon()
        self.controller.die(number)

    def live(self, number: int) -> Live:
        """Returns a member as tests of brokers ask it."""
        return Live(self.brokers[number].broker, self.client, [])

    async def until_master(self, number: int) -> None:
        """Returns when a member is master."""
        await until(lambda: _is(self.brokers[number], "is_master"))

    async def until_slave(self, number: int) -> None:
        """Returns when a member follows a master."""
        await until(lambda: _follows(self.brokers[number]))

    async def until_in_sync(self, *ids: int) -> None:
        """Returns when the controller takes these, and nobody else, for in sync."""
        await until(lambda: self.controller.group.members.ids == ids)

    async def send(self, number: int, count: int, begin: int = 0) -> None:
        """Sends messages to a member, which acknowledges them."""
        for at in range(begin, begin + count):
            expect(await self.live(number).send("T", b"%06d" % at + b"x" * (at % 700)), "member")

    async def bodies(self, number: int) -> list[bytes]:
        """Returns how the messages of the topic begin, as a consumer gets them of a member."""
        running = self.live(number)
        store = running.broker.state.store
        bounds = store.bounds("T", 0)
        high = 0 if bounds is None else bounds.max_offset
        return [each.body[:6] for at in range(high) for each in store.get("T", 0, at, 1).messages]


def _is(broker: ControlledBroker, what: str) -> bool:
    with contextlib.suppress(RuntimeError):
        return bool(getattr(broker.state.role, what))
    return False


def _follows(broker: ControlledBroker) -> bool:
    with contextlib.suppress(RuntimeError):
        return broker.state.role.is_slave and broker.state.replicas.has_master
    return False


def dispatcher_of(controller: ScriptedController) -> Dispatcher:
    """Returns a controller's answers as a server gives them."""

    def answer(request: Request) -> Command | None:
        found = controller.answer(
            Ask(controller.leader, Purpose(request.code), dict(request.ext), request.body)
        )
        if found is None:
            return None
        return request.answer(found.code, found.remark, ext=found.ext, body=found.body)

    return Dispatcher({int(purpose): answer for purpose in Purpose})


@contextlib.asynccontextmanager
async def members(root: Path, papers: Papers | None = None) -> AsyncIterator[Members]:
    """A controller and a name server, with TLS alone where papers are given; no member yet."""
    controller = ScriptedController()
    server = Server(dispatcher_of(controller))
    tls = None if papers is None else papers.serving()
    address = await server.listen(TcpAddress("127.0.0.1", 0), tls=tls)
    context = None if papers is None else papers.context()
    keys = {} if papers is None else papers.keys("names") | {"tls.server.mode": "enforcing"}
    assert isinstance(address, TcpAddress)
    at = f"127.0.0.1:{address.port}"
    controller.leader = at
    async with name_server(root, **keys) as namesrv, Client(tls=context) as client:
        them = Members(controller, at, namesrv, root, client)
        try:
            yield them
        finally:
            for broker in them.brokers.values():
                await broker.stop()
            await server.close()


def test_until_a_master_is_known_a_broker_takes_nothing_and_nobody_knows_it(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with members(tmp_path) as them:
            them.controller.leader = ""
            broker = await them.begin(1)
            answer = await them.live(1).send("T", b"early")
            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert broker.broker.registered == frozenset()
            assert broker.phase is Phase.INITIAL
            them.controller.leader = them.at
            await them.until_master(1)
            await them.send(1, 3)
            assert await broker.broker.until_registered(them.namesrv, timeout_s=20)
            assert (tmp_path / "store1" / "brokerIdentity").read_text() == "c#b#1"

    run_on("asyncio", run())


def test_a_slave_is_promoted_where_it_is_and_the_old_master_comes_back(tmp_path: Path) -> None:
    async def run() -> None:
        async with members(tmp_path) as them:
            await them.begin_pair()
            await them.send(1, 50)
            await them.until_in_sync(1, 2)
            await them.send(1, 50, 50)
            promoted = them.brokers[2].broker
            await them.kill(1)
            await them.until_master(2)
            assert them.brokers[2].broker is promoted
            await them.send(2, 50, 100)
            await them.begin(1)
            await them.until_slave(1)
            await them.until_in_sync(1, 2)
            await them.send(2, 10, 150)
            wanted = [b"%06d" % at for at in range(160)]
            await until(lambda: _high(them, 1) == _high(them, 2) == 160)
            assert await them.bodies(2) == wanted
            assert await them.bodies(1) == wanted

    run_on("asyncio", run())


def _high(them: Members, number: int) -> int:
    with contextlib.suppress(RuntimeError):
        bounds = them.brokers[number].state.store.bounds("T", 0)
        return 0 if bounds is None else bounds.max_offset
    return -1


def test_a_running_master_that_hears_of_another_one_follows_it_in_the_same_process(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with members(tmp_path) as them:
            await them.begin_pair()
            await them.until_in_sync(1, 2)
            await them.send(1, 20)
            port, before = them.brokers[1].ports, them.brokers[1].broker
            # The controller takes the first for dead, which lives.
            them.controller.die(1)
            await them.until_master(2)
            await them.until_slave(1)
            assert them.brokers[1].ports == port
            assert them.brokers[1].broker is not before
            await them.until_in_sync(1, 2)
            await them.send(2, 20, 20)
            answer = await them.live(1).send("T", b"to a slave")
            assert answer.code != ResponseCode.SUCCESS
            await until(lambda: _high(them, 1) == 40)
            assert await them.bodies(1) == [b"%06d" % at for at in range(40)]

    run_on("asyncio", run())


def test_what_a_master_alone_had_is_cut_when_it_comes_back(tmp_path: Path) -> None:
    async def run() -> None:
        async with members(tmp_path) as them:
            await them.begin(1, slaveTimeout="200")
            await them.until_master(1)
            await them.begin(2)
            await them.until_slave(2)
            await them.until_in_sync(1, 2)
            await them.send(1, 20)
            # The second stops to follow, and stays in the set: what comes now is on one disk.
            them.controller.is_frozen = True
            await them.kill(2)
            for at in range(5):
                with contextlib.suppress(MQError):
                    await them.live(1).send("T", b"alone%d" % at)
            await them.brokers.pop(1).abandon()
            await them.begin(2)
            await until(lambda: 2 in them.controller.group.alive)
            them.controller.die(1)
            await them.until_master(2)
            them.controller.is_frozen = False
            await them.send(2, 5, 20)
            await them.begin(1)
            await them.until_slave(1)
            await until(lambda: _high(them, 1) == 25)
            assert await them.bodies(1) == [b"%06d" % at for at in range(25)]
            assert list((tmp_path / "store1" / "truncated").iterdir())

    run_on("asyncio", run())


def _opened(store: Path) -> int:
    """Returns how many descriptors there are of the file that every open store has."""
    mark, count = str(store / "mqcore.session"), 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            count += str(entry.readlink()) == mark
    return count


def test_a_store_that_was_closed_to_be_opened_anew_has_no_file_open(tmp_path: Path) -> None:
    """What retention removes later would stay on the disk, also where the start was frozen."""
    store = tmp_path / "store1"

    async def run() -> None:
        async with members(tmp_path) as them:
            broker = await them.begin(1)
            await them.until_master(1)
            await them.send(1, 5)
            before = _opened(store)
            assert before > 0
            gc.freeze()
            try:
                for _ in range(2):
                    async with broker._switching:
                        await broker._reopen(None)
                    assert _opened(store) == before
            finally:
                gc.unfreeze()

    run_on("asyncio", run())


def test_epochs_and_status_are_shown_as_officially(tmp_path: Path) -> None:
    async def run() -> None:
        async with members(tmp_path) as them:
            await them.begin_pair()
            await them.until_in_sync(1, 2)
            await them.send(1, 5)
            epochs = await them.live(2).json(RequestCode.GET_BROKER_EPOCH_CACHE)
            assert (epochs["brokerId"], epochs["brokerName"]) == (2, "b")
            assert epochs["epochList"] == [
                {"endOffset": 2**63 - 1, "epoch": 1, "startOffset": 0},
            ]
            status = await them.live(1).json(RequestCode.GET_BROKER_HA_STATUS)
            assert (status["master"], status["inSyncSlaveNums"]) == (True, 1)
            assert status["haConnectionInfo"][0]["inSync"] is True
            topics = await them.live(1).json(RequestCode.GET_ALL_TOPIC_CONFIG)
            assert topics["dataVersion"]["stateVersion"] == 1

    run_on("asyncio", run())


def test_a_store_of_another_broker_refuses_the_start(tmp_path: Path) -> None:
    async def run() -> None:
        async with members(tmp_path) as them:
            store = tmp_path / "store1"
            store.mkdir()
            (store / "brokerIdentity").write_text("c#other#1")
            with pytest.raises(ConfigurationError, match="is of broker other"):
                await them.begin(1)

    run_on("asyncio", run())


def test_a_promoted_slave_delivers_what_waits_and_nothing_that_was_delivered(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with members(tmp_path) as them:
            await them.begin(1)
            await them.until_master(1)
            await them.live(1).create("T")
            now_ms = them.brokers[1].state.now_ms()
            due_ms = now_ms + 1_500
            timed = await them.live(1).send("T", b"000001", TIMER_DELIVER_MS=due_ms, UNIQ_KEY="a")
            expect(timed, "member")
            await until(lambda: _high(them, 1) == 1)
            # Its delivery is in the check point of the timers, which slaves take.
            point = tmp_path / "store1" / "config" / "timercheck"
            await until(lambda: point.exists() and _number(point, 0) > due_ms)
            await them.begin(2)
            await them.until_slave(2)
            await them.until_in_sync(1, 2)
            copied = tmp_path / "store2" / "config" / "timercheck"
            await until(lambda: copied.exists() and _number(copied, 3) == 1)
            due_ms = them.brokers[1].state.now_ms() + 3_000
            timed = await them.live(1).send("T", b"000002", TIMER_DELIVER_MS=due_ms, UNIQ_KEY="b")
            expect(timed, "member")
            expect(await them.live(1).send("T", b"000003"), "member")
            await them.kill(1)
            await them.until_master(2)
            await until(lambda: _high(them, 2) == 3)
            assert sorted(await them.bodies(2)) == [b"000001", b"000002", b"000003"]

    run_on("asyncio", run())


def test_what_is_delivered_is_written_down_once_nobody_cuts_it_off_the_log(tmp_path: Path) -> None:
    async def run() -> None:
        async with members(tmp_path) as them:
            await them.begin(1, flushDelayOffsetInterval="100", timerFlushIntervalMs="100")
            await them.until_master(1)
            await them.begin(2)
            await them.until_slave(2)
            await them.until_in_sync(1, 2)
            await them.live(1).create("T")
            state = them.brokers[1].state
            files = ConfigPersistence(state)
            due_ms = state.now_ms() + 1_000
            for extra in ({"DELAY": "1"}, {"TIMER_DELIVER_MS": due_ms, "UNIQ_KEY": "a"}):
                expect(await them.live(1).send("T", b"later", **extra), "member")
            # The second is gone, and stays in the set: what is delivered now is on one disk.
            them.controller.is_frozen = True
            await them.kill(2)
            await until(lambda: state.delays.offset(1) == 1)
            await until(lambda: state.timers is not None and state.timers.progress().delivered == 1)
            await files.delays.save()
            files.timers.moved()
            await files.timers.save()
            config = tmp_path / "store1" / "config"
            assert "1:1" not in _text(config / "delayOffset.json")
            assert _read_ms(config / "timercheck") <= due_ms
            await them.begin(2)
            await until(lambda: "1:1" in _text(config / "delayOffset.json"))
            await until(lambda: _read_ms(config / "timercheck") > due_ms)

    run_on("asyncio", run())


def test_nothing_is_asked_of_a_master_whose_epoch_is_over(tmp_path: Path) -> None:
    """A slave that was paused hears late of it, and has the log of the next one."""

    async def run() -> None:
        async with members(tmp_path) as them:
            await them.begin_pair()
            await them.until_in_sync(1, 2)
            state = them.brokers[2].state
            calls, epochs = MasterCalls(state), state.replicas.epochs
            assert epochs is not None
            assert calls.address == state.replicas.master_address != ""
            later = SimpleNamespace(last_epoch=state.role.epoch + 1)
            state.replicas.epochs = cast("Any", later)
            assert calls.address == ""
            state.replicas.epochs = epochs
            await calls.close()

    run_on("asyncio", run())


def test_a_master_that_asked_for_a_set_before_it_was_killed_needs_another_epoch(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with members(tmp_path) as them:
            them.controller.is_frozen = True
            await them.begin(1)
            await them.until_master(1)
            await them.begin(2)
            asked = tmp_path / "store1" / "epochFileCheckpoint.asked"
            await until(asked.exists)
            assert asked.read_text() == "1-1"
            # The controller sees nothing of it, and still has the old request on its way.
            port = them.live(1).address.rpartition(":")[2]
            await them.brokers.pop(1).abandon()
            await them.begin(1, listenPort=port, haListenPort=str(free_port()))
            await until(lambda: them.brokers[1].phase is Phase.RUNNING)
            answer = await them.live(1).send("T", b"early")
            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert not _is(them.brokers[1], "is_master")
            them.controller.die(1)
            await them.until_master(1)
            assert them.controller.group.epoch > 1
            assert (await them.live(1).send("T", b"late")).code == ResponseCode.SUCCESS

    run_on("asyncio", run())


def _text(path: Path) -> str:
    return "".join(path.read_text().split()) if path.exists() else ""


def _read_ms(path: Path) -> int:
    """Returns up to when timers are delivered, by their check point; 0 without one."""
    return _number(path, 0) if path.exists() and path.stat().st_size else 0


def _number(path: Path, at: int) -> int:
    """Returns a number of a check point of timers."""
    numbers: tuple[int, ...] = struct.unpack_from(">7q", path.read_bytes())
    return numbers[at]
