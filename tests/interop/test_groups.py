"""Settings of groups and dead letters: ours and the official 5.3 broker are asked the same."""

import asyncio
import json
from functools import partial
from typing import Any

import pytest

from broker.test_serving import beat
from interop.cases import Case, bodies, name_of
from interop.driver import Driver
from interop.patience import eventually
from interop.servers import CLUSTER, Servers
from mqcore.admin import Admin, DeadLetter
from mqcore.broker.groups import GroupTable
from mqcore.errors import NoRouteError
from mqcore.model.groups import GroupConfig
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.model.retry_policies import ExponentialPolicy
from mqcore.remoting import Client, RequestCode

pytestmark = pytest.mark.java

BOTH = ("ours", "official")
POLICIES = {
    "grows": '{"type":"EXPONENTIAL","exponentialRetryPolicy":'
    '{"initial":4000,"max":90000,"multiplier":3}}',
    "written": '{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000,7000]}}',
    "half": '{"type":"EXPONENTIAL"}',
}
OFFSETS = {"found": 0, "at the end": 6, "beyond": 9}


async def asked(servers: Servers, code: int, ext: dict[str, str], body: bytes = b"") -> Any:
    async with Client() as client:
        return await client.call(servers.broker.address, code, ext, body, timeout_s=20.0)


def config_of(servers: Servers, group: str) -> dict[str, Any]:
    code = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
    return parse_object(asyncio.run(asked(servers, code, {"group": group})).body)


def test_retry_policies_are_kept_as_officially(
    driver_53: Driver, side_by_side: dict[str, Servers]
) -> None:
    found: dict[str, dict[str, Any]] = {}
    for name in BOTH:
        servers = side_by_side[name]
        for group, policy in POLICIES.items():
            line = ("updateSubGroup", "-n", servers.namesrv.address, "-c", CLUSTER, "-g", group)
            printed = driver_53.mqadmin(*line, "-p", policy, "-r", "5")
            assert "success" in printed, printed
        found[name] = {group: config_of(servers, group) for group in POLICIES}
    assert found["ours"] == found["official"]
    assert found["ours"]["grows"]["groupRetryPolicy"] == json.loads(POLICIES["grows"])


def test_a_file_of_groups_is_the_official_one(
    driver_53: Driver, side_by_side: dict[str, Servers]
) -> None:
    servers = side_by_side["official"]
    line = ("updateSubGroup", "-n", servers.namesrv.address, "-c", CLUSTER, "-g", "kept")
    driver_53.mqadmin(*line, "-p", POLICIES["grows"])
    path = servers.store / "config" / "subscriptionGroup.json"
    text = eventually(path.read_bytes, lambda text: b'"kept"' in text)
    groups = GroupTable(auto_create=True, now_ms=0)
    groups.load(text)
    kept = groups.find("kept")
    assert kept is not None
    assert kept.retry_policy == ExponentialPolicy(4_000, 90_000, 3)
    written, official = parse_object(groups.text()()), parse_object(text)
    table = "subscriptionGroupTable"
    for name, value in official[table].items():
        assert written[table][name] == value, name


async def suggestions(servers: Servers, topic: str) -> dict[str, tuple[int, str]]:
    """Returns code and suggested broker of pulls of a group that names brokers of its own."""
    found: dict[str, tuple[int, str]] = {}
    ids = {"g_told": (3, 7), "g_same": (0, 0), "g_usual": (0, 1)}
    for group, (broker_id, slow_id) in ids.items():
        config = GroupConfig(group, broker_id=broker_id, slow_broker_id=slow_id)
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        await asked(servers, code, {}, compact(config.to_json()))
        for where, offset in OFFSETS.items():
            for wanted in ("*", "none"):
                ext = {
                    **{"consumerGroup": group, "topic": topic, "queueId": "0"},
                    **{"queueOffset": str(offset), "maxMsgNums": "32", "sysFlag": "4"},
                    **{"commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0"},
                    **{"subscription": wanted, "expressionType": "TAG"},
                }
                answer = await asked(servers, RequestCode.PULL_MESSAGE, ext)
                suggested = answer.ext.get("suggestWhichBrokerId", "")
                found[f"{group} {where} {wanted}"] = (answer.code, suggested)
    return found


def test_a_slow_consumer_is_sent_where_the_official_broker_sends_it(
    driver_53: Driver, side_by_side: dict[str, Servers], request: pytest.FixtureRequest
) -> None:
    found = {}
    for name in BOTH:
        case = Case(driver_53, side_by_side[name], name_of(request, "slow", name))
        case.create(1)
        case.send(case.producer(), count=6, tags="A")
        case.pulled(6)
        found[name] = asyncio.run(suggestions(side_by_side[name], case.topic))
        case.close()
    assert found["ours"] == found["official"]
    assert found["ours"]["g_told found *"] == (0, "7")
    assert found["ours"]["g_told at the end *"] == (19, "3")


async def forbidden(servers: Servers, topic: str) -> list[object]:
    """Forbids a group to read a topic and allows it again; returns every answer."""
    seen: list[object] = []

    async def forbid(**ext: str) -> None:
        code = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN
        answer = await asked(servers, code, {"group": "g_forbidden", "topic": topic, **ext})
        seen.append((answer.code, parse_object(answer.body)["readable"]))

    async with Client() as client:
        body = beat("c1", "g_forbidden", topic)
        address = servers.broker.address
        await client.call(address, RequestCode.HEART_BEAT, {}, body, timeout_s=20.0)

        async def pull(flags: int) -> None:
            ext = {
                **{"consumerGroup": "g_forbidden", "topic": topic, "queueId": "0"},
                **{"queueOffset": "0", "maxMsgNums": "32", "sysFlag": str(flags)},
                **{"commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "1"},
                **{"subscription": "*", "expressionType": "TAG"},
            }
            answer = await asked(servers, RequestCode.PULL_MESSAGE, ext)
            seen.append((answer.code, answer.remark))

        await forbid()
        await pull(0)
        await forbid(readable="false")
        await pull(0)
        await pull(4)
        await forbid(readable="true")
        await pull(0)
    return seen


def test_what_is_forbidden_is_officially_so(
    driver_53: Driver, side_by_side: dict[str, Servers], request: pytest.FixtureRequest
) -> None:
    found = {}
    for name in BOTH:
        case = Case(driver_53, side_by_side[name], name_of(request, "forbidden"))
        case.create(1)
        case.send(case.producer(), count=2)
        case.pulled(2)
        found[name] = asyncio.run(forbidden(side_by_side[name], case.topic))
        case.close()
    assert found["ours"] == found["official"]
    assert len(set(map(str, found["ours"]))) == 4


async def letters_of(servers: Servers, group: str) -> list[DeadLetter]:
    async with Admin(servers.namesrv.address) as admin:
        try:
            return await admin.dead_letters.of_group(group)
        except NoRouteError:
            return []


async def resent(servers: Servers, group: str, *, only_group: bool) -> None:
    async with Admin(servers.namesrv.address) as admin:
        for letter in await admin.dead_letters.of_group(group):
            await admin.dead_letters.resend(group, letter, only_group=only_group)


@pytest.mark.parametrize("name", ["ours", pytest.param("official", marks=pytest.mark.matrix)])
def test_dead_letters_of_java_come_again(
    driver_53: Driver,
    side_by_side: dict[str, Servers],
    name: str,
    request: pytest.FixtureRequest,
) -> None:
    servers = side_by_side[name]
    case = Case(driver_53, servers, name_of(request, "dead", name))
    case.create(2)
    failing = case.push(fail=-1, max_reconsume=1)
    sent = case.send(case.producer(), count=3, keys="k", tags="A")

    def listed() -> list[DeadLetter]:
        return asyncio.run(letters_of(servers, case.group))

    letters = eventually(listed, lambda found: len(found) == 3)
    assert {each.origin_topic for each in letters} == {case.topic}
    assert {each.message_id for each in letters} == {item["msg_id"] for item in sent}
    case.close(failing)
    # Another group has read the topic; what goes to the first group alone, it never sees.
    other = case.push(group=f"{case.group}_other")
    case.driver.got(other, 3)
    again = case.push()
    asyncio.run(resent(servers, case.group, only_group=True))
    got = case.driver.got(again, 3)
    assert bodies(got) == bodies(sent)
    assert {(item["topic"], item["tags"]) for item in got} == {(case.topic, "A")}
    assert {item["msg_id"] for item in got} == {item["msg_id"] for item in sent}
    # To the topic: both groups get them.
    asyncio.run(resent(servers, case.group, only_group=False))
    twice = {item["body"]: 2 for item in sent}
    for each in (again, other):
        times = partial(counted, case, each)
        assert eventually(times, twice.__eq__) == twice
    case.close()


def counted(case: Case, consumer: str) -> dict[str, int]:
    return dict(bodies(case.driver.call("got", consumer, count=0)))
