"""A slave that acts for its master: who has the smallest id, and what a master takes back."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.test_replication import SLAVE, end_of
from live_broker import Live, live
from loops import run_on, until
from mqcore.broker.acting import MasterIs, Standing, members_in_group, members_in_route
from mqcore.broker.delays import DelayTable
from mqcore.broker.going_online import delays_in, is_isolated, later_delays, later_offsets
from mqcore.broker.registration import register_header
from mqcore.config import Layer, Program, namesrv_settings, resolved
from mqcore.config.checks import check_broker
from mqcore.config.settings import settings_of_pairs
from mqcore.errors import ConfigurationError
from mqcore.model.relaxed_json import parse_object
from mqcore.namesrv import NameServer
from mqcore.remoting import RequestCode, ResponseCode, TcpAddress, expect

ACTING = {
    "enableSlaveActingMaster": "true",
    "totalReplicas": "2",
    "brokerHeartbeatInterval": "100",
    "syncBrokerMemberGroupPeriod": "100",
}


@contextlib.asynccontextmanager
async def name_server(directory: Path) -> AsyncIterator[str]:
    pairs = {"listenPort": "0", "kvConfigPath": str(directory / "kv.json")}
    pairs["supportActingMaster"] = "true"
    server = NameServer(namesrv_settings(resolved(Program.NAMESRV, [Layer("test", pairs)])))
    address = await server.start()
    assert isinstance(address, TcpAddress)
    try:
        yield f"127.0.0.1:{address.port}"
    finally:
        await server.stop()


async def master_in_route(client: Live, names: str) -> str:
    """Returns whom clients are sent to for the topic."""
    code = RequestCode.GET_ROUTEINFO_BY_TOPIC
    ext = {"topic": "T", "acceptStandardJsonOnly": "true"}
    answer = await client.client.call(names, code, ext)
    if answer.code != ResponseCode.SUCCESS:
        return ""
    rows = parse_object(answer.body)["brokerDatas"]
    return str(rows[0]["brokerAddrs"].get("0", ""))


def acts(broker: Live) -> bool:
    """Returns whether a slave acts for its master."""
    acting = broker.broker.state.replicas.acting
    return acting is not None and acting.acts


async def commit(broker: Live, offset: int) -> None:
    """Commits an offset of a group."""
    ext = {"consumerGroup": "g", "topic": "T", "queueId": 0, "commitOffset": offset}
    expect(await broker.call(RequestCode.UPDATE_CONSUMER_OFFSET, ext), broker.address)


def test_the_smallest_id_of_those_that_live_acts() -> None:
    slave = Standing(2)
    seen = []
    for min_id, address in ((0, "m:1"), (0, "m:1"), (1, "s:1"), (2, "s:2"), (0, "m:2")):
        news = slave.min_is(min_id, address)
        seen.append((news, slave.acts))
    assert seen == [
        (MasterIs(there=True, address="m:1"), False),
        (None, False),
        (MasterIs(there=False), False),
        (MasterIs(there=False), True),
        (MasterIs(there=True, address="m:2"), False),
    ]
    master = Standing(0)
    assert master.min_is(0, "m:1") is None
    assert not master.acts


def test_members_are_read_from_both_answers() -> None:
    route = parse_object(
        b'{"brokerDatas":[{"cluster":"x","brokerName":"b","brokerAddrs":{"0":"h:1"}},'
        b'{"cluster":"c","brokerName":"b","brokerAddrs":{0:"h:2",1:"h:3","no":"h:4"}}]}'
    )
    assert members_in_route(route, "c", "b") == {0: "h:2", 1: "h:3"}
    assert members_in_route(route, "c", "other") == {}
    group = parse_object(b'{"brokerMemberGroup":{"brokerAddrs":{1:"h:3"}}}')
    assert members_in_group(group, "c", "b") == {1: "h:3"}
    assert members_in_group({"brokerMemberGroup": [1]}, "c", "b") == {}


def test_a_master_takes_back_what_is_farther_and_nothing_that_was_delivered() -> None:
    own = {"T@g": {0: 10, 1: 10}, "H@CID_RMQ_SYS_TRANS": {0: 1}}
    theirs = {"T@g": {0: 20, 1: 5, 2: 3}, "H@CID_RMQ_SYS_TRANS": {0: 9}, "U@g": {0: 1}}
    assert later_offsets(theirs, own) == {("T@g", 0): 20, ("T@g", 2): 3, ("U@g", 0): 1}
    delays = DelayTable((1_000, 5_000), 0)
    delays.delivered(1, 7, 0, 0)
    assert later_delays(delays_in(b'{"offsetTable":{1:5,2:4,9:9}}'), delays) == {2: 4}


def test_a_slave_acts_and_its_master_takes_over_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with name_server(tmp_path) as names, contextlib.AsyncExitStack() as rest:
            keys = {**ACTING, "namesrvAddr": names}
            master = await rest.enter_async_context(live(tmp_path / "m", **keys))
            assert await master.broker.until_registered(names, timeout_s=20)
            await master.create("T")
            slave = await rest.enter_async_context(live(tmp_path / "s", **keys, **SLAVE))
            assert await slave.broker.until_registered(names, timeout_s=20)
            assert slave.broker.state.replicas.has_master, "it waits for that"
            expect(await master.send("T", b"one"), master.address)
            await commit(master, 1)
            await until(lambda: end_of(slave) == end_of(master))
            offsets = slave.broker.state.fast_path.offsets
            await until(lambda: slave.broker.state.topics.find("T") is not None)
            await until(lambda: offsets.find("g", "T", 0) == 1)
            assert await master_in_route(slave, names) == master.address
            assert not acts(slave)
            delayed = await master.send("T", b"later", DELAY=1)
            expect(delayed, master.address)
            await until(lambda: end_of(slave) == end_of(master))
            end = end_of(slave)
            await master.broker.abandon()
            await until(lambda: acts(slave))
            assert await master_in_route(slave, names) == slave.address
            assert (await slave.send("T", b"no")).code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert (await slave.pull("T", 0)).code == ResponseCode.SUCCESS
            await commit(slave, 5)
            assert end_of(slave) == end, "it delivers nothing"
            back = await rest.enter_async_context(live(tmp_path / "m", **keys))
            assert await back.broker.until_registered(names, timeout_s=20)
            assert back.broker.state.fast_path.offsets.find("g", "T", 0) == 5
            await until(lambda: not acts(slave))
            assert await master_in_route(slave, names) == back.address
            await until(lambda: back.broker.state.bounds("T", 0)[1] == 2)
            await until(lambda: end_of(slave) == end_of(back))

    run_on("asyncio", run())


def test_a_registration_allows_that_a_slave_acts(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path / "a", **ACTING, brokerNotActiveTimeoutMillis="7000") as broker:
            header = register_header(broker.broker.state)
            assert header["enableActingMaster"] == "true"
            assert header["heartbeatTimeoutMillis"] == "7000"
            topic = broker.broker.state.topics.find("rmq_sys_SYNC_BROKER_MEMBER_b")
            assert topic is not None
            assert topic.perm == 1
            answer = expect(await broker.call(RequestCode.EXCHANGE_BROKER_HA_INFO), broker.address)
            assert answer.ext["masterAddress"] == broker.address
            port = broker.broker.state.replicas.port
            assert answer.ext["masterHaAddress"] == f"127.0.0.1:{port}"
        async with live(tmp_path / "b") as broker:
            assert "enableActingMaster" not in register_header(broker.broker.state)

    run_on("asyncio", run())


def test_a_slave_hears_of_its_master_in_such_a_group_alone(tmp_path: Path) -> None:
    master = {"masterHaAddress": "10.0.0.1:10912", "masterAddress": "10.0.0.1:10911"}

    async def run() -> None:
        for keys, expected in ((ACTING, master["masterHaAddress"]), ({}, "")):
            async with live(tmp_path / str(len(keys)), **keys, **SLAVE) as slave:
                answer = await slave.call(RequestCode.EXCHANGE_BROKER_HA_INFO, master)
                expect(answer, slave.address)
                assert slave.broker.state.replicas.master_ha_address == expected
                changed = {"minBrokerId": 0, "brokerName": "b", "minBrokerAddr": "127.0.0.1:1"}
                changed |= {"haBrokerAddr": "127.0.0.1:2"}
                answer = await slave.call(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, changed)
                expect(answer, slave.address)
                await asyncio.sleep(0)
                found = slave.broker.state.replicas.master_ha_address
                assert found == ("127.0.0.1:2" if expected else "")

    run_on("asyncio", run())


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ({"lockInStrictMode": "true"}, "lockInStrictMode=true is not built"),
        ({"enableRemoteEscape": "true"}, "enableRemoteEscape"),
        (
            {"enableControllerMode": "true", "controllerAddr": "127.0.0.1:1"},
            "set enableSlaveActingMaster=false",
        ),
    ],
)
def test_what_is_left_out_is_refused_by_name(pairs: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        check_broker(settings_of_pairs(ACTING | pairs))


def test_only_a_broker_with_replicas_waits_for_its_group() -> None:
    assert is_isolated(settings_of_pairs(ACTING))
    assert not is_isolated(settings_of_pairs(ACTING | {"totalReplicas": "1"}))
    assert not is_isolated(settings_of_pairs(ACTING | {"skipPreOnline": "true"}))
    assert not is_isolated(settings_of_pairs({"totalReplicas": "2"}))
    slave = ACTING | SLAVE | {"slaveReadEnable": "false"}
    assert [each for each in check_broker(settings_of_pairs(slave)) if "slaveReadEnable" in each]
