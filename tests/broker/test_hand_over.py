"""A master hands its role over: no send is refused, nothing is lost, a failure changes nothing."""

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Self

import pytest

from broker.test_controlled import Members, _high, members
from broker.test_pop_batches import batch_body
from broker.test_replication import SLAVE, name_server
from broker.transactional import COMMIT, ROLLBACK
from live_broker import batch_fields, live
from loops import run_on, until
from mqcore.broker.replication import metadata
from mqcore.broker.replication.controller_messages import Answer, Ask, Purpose
from mqcore.broker.table_followers import Follower
from mqcore.errors import MQError
from mqcore.model.message_ids import parse_offset_id
from mqcore.model.relaxed_json import compact
from mqcore.native import Command
from mqcore.remoting import (
    Client,
    OwnRequestCode,
    RequestCode,
    ResponseCode,
    expect,
)

SAFE = {"minInSyncReplicas": "2"}


async def hand_over(them: Members, number: int, action: str = "start", to: str = "") -> Command:
    """Asks a member for a hand-over."""
    return await them.live(number).call(OwnRequestCode.HAND_OVER, {"action": action, "to": to})


async def until_over(them: Members, number: int) -> dict[str, Any]:
    """Returns the report of a hand-over that has ended."""
    while True:
        found = await them.live(number).json(OwnRequestCode.HAND_OVER, {"action": "state"})
        if found["phase"] in ("done", "failed"):
            return found
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def a_pair(root: Path, count: int = 2, **keys: str) -> AsyncIterator[Members]:
    """A master and slaves that are in sync."""
    async with members(root) as them:
        await them.begin(1, **keys)
        await them.until_master(1)
        for number in range(2, count + 1):
            await them.begin(number, **keys)
            await them.until_slave(number)
        await them.until_in_sync(*range(1, count + 1))
        await until_followed(them, 1, count - 1)
        yield them


def followers(them: Members, number: int) -> list[int]:
    """Returns the ids of the slaves that a master notifies of tables."""
    known = them.brokers[number].broker.hand_over_parts.persistence.followers
    return [each for each in range(1, 9) if known.of(each) is not None]


async def until_followed(them: Members, number: int, count: int) -> None:
    """Returns when a master notifies so many slaves of tables."""
    await until(lambda: len(followers(them, number)) == count)


class Senders:
    """Clients that go on to send to one address, and keep what they are answered."""

    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        self.address = address
        self._tls = tls
        self.answers: list[tuple[bytes, Command]] = []
        self._is_over = False

    async def __aenter__(self) -> Self:
        """Begins."""
        self._tasks = [asyncio.create_task(self._run(at)) for at in range(4)]
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Ends when everything that was sent is answered."""
        self._is_over = True
        await asyncio.gather(*self._tasks)

    async def more(self, count: int) -> None:
        """Returns when so many more were answered."""
        wanted = len(self.answers) + count
        await until(lambda: len(self.answers) >= wanted)

    async def _run(self, at: int) -> None:
        async with Client(tls=self._tls) as client:
            link = await client.link(self.address)
            number = 0
            while not self._is_over:
                body = b"%d-%05d" % (at, number)
                ext = {"a": "pg", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0"}
                ext |= {"g": "1700000000000", "h": "0", "j": "0", "k": "false", "m": "false"}
                ext["i"] = f"UNIQ_KEY\x01{body.decode()}\x02"
                code = RequestCode.SEND_MESSAGE_V2
                answer = await client.call(self.address, code, ext, body, timeout_s=20)
                self.answers.append((body, answer))
                number += 1
                await asyncio.sleep(0.001)
            # The same connection as at the begin: nothing was closed.
            assert await client.link(self.address) is link


def bodies(them: Members, number: int) -> list[bytes]:
    """Returns the bodies of the topic at a member."""
    store = them.brokers[number].state.store
    bounds = store.bounds("T", 0)
    high = 0 if bounds is None else bounds.max_offset
    return [each.body for at in range(high) for each in store.get("T", 0, at, 1).messages]


@pytest.mark.parametrize(("count", "keys"), [(2, {}), (2, SAFE), (3, SAFE)])
def test_no_send_is_refused_and_each_message_is_there_once(
    count: int, keys: dict[str, str], tmp_path: Path
) -> None:
    async def run() -> None:
        async with a_pair(tmp_path, count, **keys) as them:
            before = them.brokers[1].broker
            async with Senders(them.live(1).address) as senders:
                await senders.more(50)
                await them.live(1).create("U", queues=3)
                expect(await hand_over(them, 1), "member")
                report = await until_over(them, 1)
                assert report["phase"] == "done", report
                await senders.more(50)
            refused = [each for _, each in senders.answers if each.code != ResponseCode.SUCCESS]
            assert refused == []
            await them.until_master(report["successorId"])
            await them.until_slave(1)
            assert them.brokers[1].broker is before
            sent = sorted(body for body, _ in senders.answers)
            heir = report["successorId"]
            await until(lambda: _high(them, heir) == len(sent))
            assert sorted(bodies(them, heir)) == sent
            await until(lambda: _high(them, 1) == len(sent))
            assert bodies(them, 1) == bodies(them, heir)
            topic = them.brokers[heir].state.topics.find("U")
            assert topic is not None
            assert topic.write_queues == 3

    run_on("asyncio", run())


def test_it_comes_back_to_the_first_one(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_pair(tmp_path) as them:
            await them.send(1, 20)
            for master, heir in ((1, 2), (2, 1)):
                expect(await hand_over(them, master), "member")
                assert (await until_over(them, master))["phase"] == "done"
                await them.until_master(heir)
                await them.until_slave(master)
                await them.until_in_sync(1, 2)
                await until_followed(them, heir, 1)
                await them.send(heir, 20, 20 * heir)
            await until(lambda: _high(them, 2) == 60)
            assert await them.bodies(1) == await them.bodies(2)

    run_on("asyncio", run())


def test_offsets_locks_and_groups_are_with_the_successor(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_pair(tmp_path) as them:
            await them.send(1, 10)
            live = them.live(1)
            commit = {"consumerGroup": "g", "topic": "T", "queueId": 0, "commitOffset": 7}
            expect(await live.call(RequestCode.UPDATE_CONSUMER_OFFSET, commit), "member")
            queue = {"topic": "T", "brokerName": "b", "queueId": 0}
            lock = {"consumerGroup": "g", "clientId": "one", "mqSet": [queue]}
            answer = await live.call(RequestCode.LOCK_BATCH_MQ, {}, compact(lock))
            assert json.loads(answer.body)["lockOKMQSet"]
            group = compact({"groupName": "made", "retryMaxTimes": 3})
            code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            expect(await live.call(code, {}, group), "member")
            expect(await hand_over(them, 1), "member")
            assert (await until_over(them, 1))["phase"] == "done"
            await them.until_master(2)
            state = them.brokers[2].state
            assert state.fast_path.offsets.find("g", "T", 0) == 7
            made = state.groups.find("made")
            assert made is not None
            assert made.retry_max_times == 3
            # Whoever asks either of them: the queue is the first client's.
            other = {**lock, "clientId": "two"}
            for number in (1, 2):
                answer = await them.live(number).call(RequestCode.LOCK_BATCH_MQ, {}, compact(other))
                assert json.loads(answer.body)["lockOKMQSet"] == []

    run_on("asyncio", run())


def test_a_plan_changes_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_pair(tmp_path, 3) as them:
            to = them.live(3).address
            found = json.loads(expect(await hand_over(them, 1, "plan", to), "member").body)
            assert (found["successor"], found["successorId"]) == (to, 3)
            assert them.controller.group.epoch == 1
            await them.send(1, 3)

    run_on("asyncio", run())


def test_the_reason_is_given_where_there_is_no_successor(tmp_path: Path) -> None:
    async def run() -> None:
        async with members(tmp_path) as them:
            await them.begin(1)
            await them.until_master(1)
            answer = await hand_over(them, 1)
            assert "no slave is in sync" in (answer.remark or "")
            await them.begin(2)
            await them.until_slave(2)
            answer = await hand_over(them, 2)
            assert "is not the master" in (answer.remark or "")
            answer = await hand_over(them, 1, to="127.0.0.1:1")
            assert "no living member" in (answer.remark or "")

    run_on("asyncio", run())


def refusing(answer: Answer | None) -> Callable[[Ask], Answer | None]:
    """Returns a controller's answer to a designation."""
    return lambda _ask: answer


@pytest.mark.parametrize("is_silent", [False, True])
def test_where_it_comes_to_nothing_the_master_goes_on(is_silent: bool, tmp_path: Path) -> None:
    refused = None if is_silent else Answer(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, "never")

    async def run() -> None:
        async with a_pair(tmp_path, handOverParkMs="20000") as them:
            answered = them.controller.answer

            def answer(ask: Ask) -> Answer | None:
                is_named = ask.ext.get("designateElect") == "true"
                if ask.purpose is Purpose.ELECT and is_named:
                    return refused
                return answered(ask)

            them.controller.answer = answer  # type: ignore[method-assign]
            async with Senders(them.live(1).address) as senders:
                await senders.more(20)
                expect(await hand_over(them, 1), "member")
                report = await until_over(them, 1)
                assert report["phase"] == "failed"
                await senders.more(20)
            assert them.brokers[1].state.role.is_master
            assert {each.code for _, each in senders.answers} == {ResponseCode.SUCCESS}
            assert them.controller.group.epoch == 1
            await until(lambda: _high(them, 2) == len(senders.answers))
            assert sorted(bodies(them, 1)) == sorted(body for body, _ in senders.answers)
            # It can be done later.
            them.controller.answer = answered  # type: ignore[method-assign]
            expect(await hand_over(them, 1), "member")
            assert (await until_over(them, 1))["phase"] == "done"

    run_on("asyncio", run())


def test_what_is_not_passed_on_any_more_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_pair(tmp_path, handOverForwardMs="3000") as them:
            expect(await hand_over(them, 1), "member")
            assert (await until_over(them, 1))["phase"] == "done"
            await them.until_slave(1)
            await them.send(1, 1)
            await until(lambda: not them.brokers[1].state.passes_on)
            answer = await them.live(1).send("T", b"late")
            assert answer.code != ResponseCode.SUCCESS

    run_on("asyncio", run())


def test_held_pulls_are_let_go_and_pops_go_to_the_new_master(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_pair(tmp_path, timerWheelEnable="true") as them:
            await them.send(1, 3)
            await until(lambda: _high(them, 1) == 3)
            held = asyncio.create_task(them.live(1).pull("T", 3, wait_ms=15_000))
            await asyncio.sleep(0.05)
            expect(await hand_over(them, 1), "member")
            assert (await until_over(them, 1))["phase"] == "done"
            async with asyncio.timeout(5):
                assert (await held).code == ResponseCode.PULL_NOT_FOUND
            pop = {
                "consumerGroup": "p",
                "topic": "T",
                "queueId": -1,
                "maxMsgNums": 32,
                "invisibleTime": 60_000,
                "pollTime": 0,
                "bornTime": 0,
                "initMode": 0,
            }
            answer = await them.live(1).call(RequestCode.POP_MESSAGE, pop)
            assert answer.code == ResponseCode.SUCCESS
            assert them.brokers[2].state.fast_path.stats()["pops_open"] == 1

    run_on("asyncio", run())


def test_a_master_that_leaves_hands_over_first(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_pair(tmp_path) as them:
            leaving = them.brokers[1]
            async with Senders(them.live(1).address) as senders:
                await senders.more(20)
                left = asyncio.create_task(leaving.leave())
                await them.until_master(2)
                await senders.more(20)
            assert {each.code for _, each in senders.answers} == {ResponseCode.SUCCESS}
            # Nobody is left who could send.
            async with asyncio.timeout(10):
                await left
            assert leaving.state.role.is_slave

    run_on("asyncio", run())


async def made_topic(them: Members, name: str) -> None:
    """Makes a topic with attributes."""
    ext = {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": 5,
        "writeQueueNums": 3,
        "perm": 4,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
        "attributes": "+message.type=FIFO",
    }
    expect(await them.live(1).call(RequestCode.UPDATE_AND_CREATE_TOPIC, ext), "member")


def test_a_topic_and_a_group_are_with_the_slave_when_they_are_acknowledged(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_pair(tmp_path) as them:
            slave = them.brokers[2].state
            for number in range(20):
                await made_topic(them, f"t{number}")
                assert slave.topics.find(f"t{number}") == them.brokers[1].state.topics.find(
                    f"t{number}"
                )
                group = compact({"groupName": f"g{number}", "retryMaxTimes": number})
                code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
                expect(await them.live(1).call(code, {}, group), "member")
                found = slave.groups.find(f"g{number}")
                assert found is not None
                assert found.retry_max_times == number
                expect(await them.live(1).send(f"a{number}", b"one"), "member")
                assert slave.topics.find(f"a{number}") is not None

    run_on("asyncio", run())


def test_a_slave_without_a_controller_has_what_a_synchronous_master_acknowledges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is asked for now and then, without being acknowledged, does not come meanwhile.
    monkeypatch.setattr(metadata, "_PERIOD_S", 3_600.0)

    async def run() -> None:
        async with (
            name_server(tmp_path) as names,
            live(tmp_path / "m", namesrvAddr=names, brokerRole="SYNC_MASTER") as master,
            live(tmp_path / "s", namesrvAddr=names, **SLAVE) as slave,
        ):
            followers = master.broker.hand_over_parts.persistence.followers
            await until(lambda: followers.of(0) is not None)
            for number in range(10):
                await master.create(f"t{number}", queues=3)
                known = slave.broker.state.topics.find(f"t{number}")
                assert known is not None
                assert known.write_queues == 3
            commit = {"consumerGroup": "g", "topic": "t0", "queueId": 0, "commitOffset": 0}
            expect(await master.call(RequestCode.UPDATE_CONSUMER_OFFSET, commit), "master")
            offsets = slave.broker.state.fast_path.offsets
            await until(lambda: offsets.find("g", "t0", 0) == 0)
            answer = await master.call(OwnRequestCode.HAND_OVER, {"action": "start"})
            assert "has no controller" in (answer.remark or "")

    run_on("asyncio", run())


def test_a_slave_that_does_not_take_a_table_keeps_its_acknowledgement(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_pair(tmp_path, tablesAckMs="300") as them:
            slave = them.brokers[2].broker
            slave.hand_over_parts.persistence.follow_topics = unable  # type: ignore[method-assign]
            ext = {
                "topic": "lonely",
                "defaultTopic": "TBW102",
                "readQueueNums": 1,
                "writeQueueNums": 1,
                "perm": 6,
            }
            answer = await them.live(1).call(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "does not have it yet" in (answer.remark or "")

    run_on("asyncio", run())


async def unable(text: bytes) -> None:
    """Takes no table."""
    del text
    raise MQError("the disk is full")


def test_a_successor_that_dies_meanwhile_leaves_everything_as_it_was(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_pair(tmp_path, 3, **SAFE) as them:
            known = them.brokers[1].broker.hand_over_parts.persistence.followers
            notify = known.notify

            async def dying(follower: Follower, *rest: Any, **more: Any) -> None:
                if them.brokers[1].state.passes_on and 2 in them.brokers:
                    await them.kill(2)
                await notify(follower, *rest, **more)

            known.notify = dying  # type: ignore[method-assign]
            async with Senders(them.live(1).address) as senders:
                await senders.more(20)
                to = them.live(2).address
                expect(await hand_over(them, 1, to=to), "member")
                report = await until_over(them, 1)
                assert report["phase"] == "failed", report
                await senders.more(20)
            assert {each.code for _, each in senders.answers} == {ResponseCode.SUCCESS}
            assert them.brokers[1].state.role.is_master
            # Queues follow the log.
            await until(lambda: _high(them, 1) == len(senders.answers))
            assert sorted(bodies(them, 1)) == sorted(body for body, _ in senders.answers)

    run_on("asyncio", run())


def test_transactions_batches_and_delays_go_on_at_the_new_master(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_pair(tmp_path) as them:
            halves = [
                await half(them, 1, b"before-%d" % number, f"b{number}") for number in range(2)
            ]
            expect(await them.live(1).send("T", b"late", DELAY=1), "member")
            expect(await hand_over(them, 1), "member")
            assert (await until_over(them, 1))["phase"] == "done"
            halves.append(await half(them, 1, b"after", "after"))
            # Whoever began them, the former master is asked to end them.
            for at, state in zip(halves, (COMMIT, ROLLBACK, COMMIT), strict=True):
                ext = {
                    "producerGroup": "pg",
                    "tranStateTableOffset": at[0],
                    "commitLogOffset": at[1],
                    "commitOrRollback": state,
                    "fromTransactionCheck": False,
                    "msgId": "m",
                }
                expect(await them.live(1).call(RequestCode.END_TRANSACTION, ext), "member")
            code, body = RequestCode.SEND_BATCH_MESSAGE, batch_body("first", "second")
            batch = expect(await them.live(1).call(code, batch_fields("T"), body), "member")
            assert batch.ext["msgId"].count(",") == 1
            # The delayed one comes after its second, from the new master.
            await until(lambda: _high(them, 2) == 5)
            found = [b"after", b"before-0", b"first", b"late", b"second"]
            assert sorted(bodies(them, 2)) == found
            await until(lambda: _high(them, 1) == 5)
            assert bodies(them, 1) == bodies(them, 2)

    run_on("asyncio", run())


async def half(them: Members, number: int, body: bytes, key: str) -> tuple[int, int]:
    """Sends a half message to a member; returns its offset in the half queue, and in the log."""
    properties = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": key}
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    ext = {"a": "pg", "b": "T", "c": "TBW102", "d": 1, "e": 0, "f": 4, "h": 0, "i": text}
    ext |= {"g": int(time.time() * 1_000), "j": 0, "k": False, "m": False}
    answer = await them.live(number).call(RequestCode.SEND_MESSAGE_V2, ext, body)
    placed = parse_offset_id(expect(answer, "member").ext["msgId"])
    assert placed is not None
    return int(answer.ext["queueOffset"]), placed.physical_offset
