"""Offsets that an administrator resets: kept by the broker, or sent to the members.

`useServerSideResetOffset` in both of its values, of ours and of the official broker of 5.3.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import mqcore
from broker.test_admin import rows
from broker.test_serving import beat
from interop.cases import Case, bodies
from interop.driver import Driver
from interop.patience import PATIENCE_S, eventually
from interop.servers import OURS, Servers, serving
from interop.test_pop import made
from mqcore.model.relaxed_json import parse_object
from mqcore.remoting import Client, Request, RequestCode
from popping import Popped, Popper

pytestmark = pytest.mark.java
matrix = pytest.mark.matrix

BOTH = ("ours", "official")
SENT = 4
# A message in each of four queues; this one is looked at.
QUEUE = {"queueId": "0"}


def pull(topic: str, group: str, offset: int) -> dict[str, str]:
    return {
        **QUEUE,
        **{"topic": topic, "consumerGroup": group, "queueOffset": str(offset), "maxMsgNums": "1"},
        **{"sysFlag": "4", "subscription": "*", "subVersion": "0"},
        **{"commitOffset": "0", "suspendTimeoutMillis": "0"},
    }


async def prepared(client: Client, servers: Servers, topic: str) -> Popper:
    """Sends four messages and waits until their queues have them."""
    group = await made(client, servers.broker.address, topic, [f"m{at}" for at in range(SENT)])
    async with asyncio.timeout(PATIENCE_S):
        while (await call(group, RequestCode.PULL_MESSAGE, pull(topic, "looker", 0)))[0] != 0:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return group


async def call(group: Popper, code: int, ext: dict[str, str]) -> tuple[int, str, dict[str, str]]:
    answer = await group.client.call(group.address, code, ext, timeout_s=20.0)
    return answer.code, answer.remark or "", dict(answer.ext)


async def kept(servers: Servers) -> list[object]:
    """Returns the answers around a reset that the broker keeps."""
    answers: list[object] = []
    async with Client() as client:
        group = await prepared(client, servers, "resets")
        queue_of_group = QUEUE | {"topic": "resets", "consumerGroup": "g"}
        commit = queue_of_group | {"commitOffset": "1"}
        reset = {"topic": "resets", "group": "g", "timestamp": "0", "isForce": "true"}
        await group.client.call(
            group.address, RequestCode.HEART_BEAT, body=beat("A", "g", "resets"), timeout_s=20.0
        )
        for code, ext in (
            (RequestCode.UPDATE_CONSUMER_OFFSET, commit),
            (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset),
            (RequestCode.QUERY_CONSUMER_OFFSET, queue_of_group),
            (RequestCode.UPDATE_CONSUMER_OFFSET, commit),
            (RequestCode.QUERY_CONSUMER_OFFSET, queue_of_group),
            (RequestCode.PULL_MESSAGE, pull("resets", "g", 1)),
            (RequestCode.PULL_MESSAGE, pull("resets", "g", 0)),
            (RequestCode.UPDATE_CONSUMER_OFFSET, commit),
            (RequestCode.QUERY_CONSUMER_OFFSET, queue_of_group),
            (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset | {"topic": "nowhere"}),
            (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset | {"group": "nobody"}),
            (
                RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
                reset | {"queueId": "0", "offset": "9"},
            ),
        ):
            status, remark, fields = await call(group, code, ext)
            fields.pop("suggestWhichBrokerId", None)
            wanted = ("offset", "nextBeginOffset", "minOffset", "maxOffset")
            answers.append((code, status, remark, {k: fields[k] for k in wanted if k in fields}))
    return answers


def test_a_reset_that_the_broker_keeps_is_answered_as_officially(
    side_by_side: dict[str, Servers],
) -> None:
    ours, official = (asyncio.run(kept(side_by_side[name])) for name in BOTH)
    assert ours == official
    moved = (RequestCode.PULL_MESSAGE, 21, "OFFSET_RESET")
    assert [each for each in ours if isinstance(each, tuple) and each[:3] == moved]


async def popped_after(servers: Servers) -> list[tuple[str, int]]:
    """Pops, resets to the start, and pops again; returns what came then."""
    async with Client() as client:
        topic = "resets_popped"
        group = await made(client, servers.broker.address, topic, [f"m{at}" for at in range(SENT)])
        found: list[Popped] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < SENT:
                found += await group.pop(pollTime=1_000, invisibleTime=60_000)
        reset = {"topic": topic, "group": "g", "timestamp": "0", "isForce": "true"}
        answer = await call(group, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset)
        assert answer[0] == 0
        again: list[tuple[str, int]] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(again) < SENT:
                came = await group.pop(pollTime=1_000, invisibleTime=60_000)
                again += [(each.body, each.times) for each in came]
        return sorted(again)


def test_pops_begin_where_it_was_reset_to_as_officially(side_by_side: dict[str, Servers]) -> None:
    ours, official = (asyncio.run(popped_after(side_by_side[name])) for name in BOTH)
    assert ours == official


@contextmanager
def sending_resets(servers: Servers) -> Iterator[None]:
    """Lets a broker send resets to the members for a while."""

    async def change(value: str) -> None:
        async with Client() as client:
            body = f"useServerSideResetOffset={value}\n".encode()
            code = RequestCode.UPDATE_BROKER_CONFIG
            answer = await client.call(servers.broker.address, code, body=body, timeout_s=20.0)
            assert answer.code == 0, answer.remark

    asyncio.run(change("false"))
    try:
        yield
    finally:
        asyncio.run(change("true"))


async def sent_to_members(servers: Servers) -> list[object]:
    """Returns the answers around a reset that members are sent, and what they are sent."""
    answers: list[object] = []
    notified: list[Request] = []
    group_name, topic = "g_notified", "resets_notified"
    async with Client() as client:
        group = await prepared(client, servers, topic)
        client.hub.dispatcher.on(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, notified.append)
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        reset = {"topic": topic, "group": group_name, "timestamp": "0"}

        async def asked(**more: str) -> None:
            answer = await client.call(group.address, code, reset | more, timeout_s=20.0)
            # Beside a success the official broker leaves the remark that it begins with.
            remark = answer.remark if answer.code != 0 else ""
            answers.append((answer.code, remark, offsets(answer.body)))

        beaten = beat("B", group_name, topic)
        await client.call(group.address, RequestCode.HEART_BEAT, body=beaten, timeout_s=20.0)
        await asked(isForce="true")
        for queue_id in range(SENT):
            commit = {"topic": topic, "queueId": str(queue_id), "consumerGroup": group_name}
            commit["commitOffset"] = "1"
            assert (await call(group, RequestCode.UPDATE_CONSUMER_OFFSET, commit))[0] == 0
        await asked(isForce="true")
        await asked(isForce="false", timestamp="-1")
        await asked(isForce="true", timestamp="-1")
        await asked(isForce="true", topic="nowhere")
        async with asyncio.timeout(PATIENCE_S):
            while len(notified) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        answers += [offsets(each.command.body) for each in notified]
    async with Client() as client:
        # Their offsets are theirs to commit, and who is offline is sent nothing.
        group = Popper(client, servers.broker.address, topic)
        queue_of_group = QUEUE | {"topic": topic} | {"consumerGroup": group_name}
        status, _, fields = await call(group, RequestCode.QUERY_CONSUMER_OFFSET, queue_of_group)
        answers.append((status, fields["offset"]))
        async with asyncio.timeout(PATIENCE_S):
            while (await call(group, code, reset | {"isForce": "true"}))[0] == 0:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        status, remark, _ = await call(group, code, reset | {"isForce": "true"})
        answers.append((status, remark))
    return answers


def offsets(body: bytes) -> dict[int, int]:
    """Returns the offsets by queue of the body of a reset."""
    found = parse_object(body) if body else {"offsetTable": {}}
    return dict(rows(found, "offsetTable"))


def test_a_reset_that_members_are_sent_is_the_official_one(
    side_by_side: dict[str, Servers],
) -> None:
    found = {}
    for name in BOTH:
        with sending_resets(side_by_side[name]):
            found[name] = asyncio.run(sent_to_members(side_by_side[name]))
    assert found["ours"] == found["official"]


@pytest.fixture(scope="module", params=[pytest.param("4.9.7", marks=matrix), "5.3.3"])
def driver(request: pytest.FixtureRequest) -> Driver:
    """Returns the clients of a release, in one JVM."""
    name = {"4.9.7": "driver_49", "5.3.3": "driver_53"}[request.param]
    driver: Driver = request.getfixturevalue(name)
    return driver


def committed(driver: Driver, consumer: str, line: tuple[str, ...]) -> str:
    """Returns what mqadmin prints after the consumer has committed its offsets."""
    driver.call("commit", consumer)
    return driver.mqadmin(*line)


@pytest.mark.sampled
@pytest.mark.parametrize("is_kept", [True, False])
def test_clients_go_back_however_they_hear_of_it(
    driver: Driver, tmp_path: Path, *, is_kept: bool
) -> None:
    config = {"useServerSideResetOffset": str(is_kept).lower()}
    with serving(OURS, tmp_path, config) as servers:
        case = Case(driver, servers, "goes_back")
        case.create(1)
        consumer, producer = case.push(), case.producer()
        seen: list[bytes] = []
        with mqcore.PushConsumer(
            case.namesrv,
            group="ours_goes_back",
            topics=case.topic,
            handler=lambda message: seen.append(message.body),
            consume_from=mqcore.ConsumeFrom.FIRST_OFFSET,
            persist_interval_s=0.2,
        ) as own:
            case.send(producer, count=3)
            driver.got(consumer, 3)
            eventually(lambda: len(seen), lambda count: count >= 3)
            own.commit()
            for group in (case.group, "ours_goes_back"):
                progress = "consumerProgress", "-n", case.namesrv, "-g", group
                eventually(
                    partial(committed, driver, consumer, progress),
                    lambda text: "Diff Total: 0" in text,
                )
                line = "resetOffsetByTime", "-n", case.namesrv, "-g", group, "-t", case.topic
                printed = driver.mqadmin(*line, "-s", "0", "-f", "true")
                assert group in printed, printed
            # A pull that is held goes on with a message; what it brings is where it was reset to.
            case.send(producer, count=1, body="later")
            again = eventually(
                lambda: bodies(driver.call("got", consumer, count=0)),
                lambda times: sum(times.values()) >= 7,
            )
            assert sum(again.values()) >= 7, again
            assert eventually(lambda: len(seen), lambda count: count >= 7) >= 7
        case.close()
