"""What strangers and users may do to a guarded server: late answers, a time to show who one is."""

import asyncio
import time
from pathlib import Path

import pytest

from access.test_name_server import serving, tables, write
from access_control import REFUSED, ROOT, guarded, with_topic
from interop.patience import eventually
from loops import run_on, until
from mqcore.broker.admin_pace import AdminPace
from mqcore.broker.observation import snapshot
from mqcore.errors import MQError, RefusedError
from mqcore.metrics.text import exposition
from mqcore.remoting import Client, Credentials, OwnRequestCode, RequestCode, signed
from request_fields import topic_fields

WRONG = Credentials("root", "another")
CODE = RequestCode.GET_BROKER_CONFIG
NO_REQUEST = "no_good_request"


def test_many_wrong_signatures_are_answered_late_and_good_ones_at_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded(tmp_path, mqcoreFailedSignaturesPerMinute="2") as broker:
            for _ in range(2):
                assert (await broker.ask(WRONG, CODE)).code == REFUSED
            began = time.monotonic()
            late = asyncio.create_task(broker.ask(WRONG, CODE))
            good = await broker.ask(ROOT, CODE)
            assert good.code == 0
            assert not late.done()
            answer = await late
            assert (answer.code, answer.remark) == (REFUSED, "check signature failed.")
            assert time.monotonic() - began >= 0.95
            limits = await broker.done(OwnRequestCode.LIMITS)
            assert limits["signatures"] == {"perMinute": 2, "late": 1, "unanswered": 0}

    asyncio.run(work())


def test_a_name_server_answers_many_wrong_signatures_late(tmp_path: Path) -> None:
    async def work() -> None:
        write(tmp_path, tables())
        more = {"mqcoreFailedSignaturesPerMinute": "1"}
        async with serving(tmp_path, **more) as (_server, address), Client() as client:
            code = RequestCode.GET_NAMESRV_CONFIG
            for least_s in (0.0, 0.95):
                began = time.monotonic()
                answer = await client.call(address, code, signed(WRONG, {}, b""))
                assert answer.code == REFUSED
                assert time.monotonic() - began >= least_s
            assert (await client.call(address, code, signed(ROOT, {}, b""))).code == 0

    run_on("uvloop", work())


@pytest.mark.parametrize("reactors", ["0", "1"])
def test_a_connection_has_its_time_for_the_first_good_request(
    tmp_path: Path, reactors: str
) -> None:
    async def work() -> None:
        keys = {"mqcoreFirstRequestSeconds": "1", "mqcoreReactors": reactors}
        async with guarded(tmp_path, **keys) as broker, Client() as stranger:
            assert (await broker.ask(ROOT, CODE)).code == 0
            refused = await stranger.call(broker.live.address, CODE)
            assert refused.code == REFUSED
            state = broker.live.broker.state
            counts = state.link_refusals
            closed = await asyncio.to_thread(eventually, lambda: counts.get(NO_REQUEST, 0), bool)
            assert closed == 1
            # Who has shown who it is stays.
            assert (await broker.ask(ROOT, CODE)).code == 0
            assert state.link_refusals[NO_REQUEST] == 1

    asyncio.run(work())


def test_a_guarded_name_server_closes_who_never_shows_who_it_is(tmp_path: Path) -> None:
    async def work() -> None:
        write(tmp_path, tables())
        more = {"mqcoreFirstRequestSeconds": "1"}
        async with serving(tmp_path, **more) as (server, address), Client() as good:
            code = RequestCode.GET_NAMESRV_CONFIG
            assert (await good.call(address, code, signed(ROOT, {}, b""))).code == 0
            async with Client() as stranger:
                assert (await stranger.call(address, code)).code == REFUSED
                assert server.server is not None
                counts = server.server.hub.refusals
                closed = await asyncio.to_thread(
                    eventually, lambda: counts.get(NO_REQUEST, 0), bool
                )
                assert closed == 1
            assert (await good.call(address, code, signed(ROOT, {}, b""))).code == 0

    run_on("uvloop", work())


def test_changes_of_a_user_wait_and_are_refused_when_that_takes_too_long() -> None:
    now_s = [100.0]
    pace = AdminPace(lambda: now_s[0])
    assert [pace.wait_s("a", 4) for _ in range(4)] == [0.0] * 4
    assert [pace.wait_s("a", 4) for _ in range(2)] == [0.25, 0.5]
    with pytest.raises(RefusedError, match=r"\[QUOTA\]User:a makes more changes than") as refused:
        pace.wait_s("a", 4)
    assert refused.value.code == 2
    assert pace.wait_s("b", 4) == 0.0
    assert pace.wait_s("", 4) == pace.wait_s("a", 0) == 0.0
    now_s[0] += 2.0
    assert pace.wait_s("a", 4) == 0.0
    assert (pace.held, pace.refused) == (2, 1)


def test_a_broker_holds_back_changes_and_none_of_them_is_lost(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded(tmp_path, mqcoreAdminChangesPerSecond="10") as broker:
            code = RequestCode.UPDATE_AND_CREATE_TOPIC
            asks = [broker.ask(ROOT, code, topic_fields(f"t{at}")) for at in range(14)]
            began = time.monotonic()
            answers = await asyncio.gather(*asks)
            assert [answer.code for answer in answers] == [0] * 14
            assert time.monotonic() - began >= 0.35
            more = [broker.ask(ROOT, code, topic_fields(f"u{at}")) for at in range(30)]
            codes = [answer.code for answer in await asyncio.gather(*more)]
            assert set(codes) == {0, 2}
            limits = await broker.done(OwnRequestCode.LIMITS)
            assert limits["adminChanges"]["refused"] == codes.count(2)
            topics = set(broker.live.broker.state.topics.topics)
            made = {f"u{at}" for at, each in enumerate(codes) if each == 0}
            assert topics >= made
            assert {name for name in topics if name.startswith("u")} == made

    asyncio.run(work())


def test_the_settings_change_while_it_runs(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded(tmp_path) as broker:
            body = (
                b"mqcoreConnectionsPerAddress=7\nmqcoreAdminChangesPerSecond=3\n"
                b"mqcoreFailedSignaturesPerMinute=4\nmqcoreFirstRequestSeconds=5\n"
            )
            await broker.done(RequestCode.UPDATE_BROKER_CONFIG, body=body)
            limits = await broker.done(OwnRequestCode.LIMITS)
            assert limits["connections"]["perAddress"] == 7
            assert limits["signatures"]["perMinute"] == 4
            assert limits["adminChanges"]["perSecond"] == 3
            state = broker.live.broker.state
            assert state.access.first_request_s() == 5
            assert limits["connections"]["addresses"] == [
                {"address": "127.0.0.1", "connections": 1}
            ]

    asyncio.run(work())


def test_one_user_has_so_many_connections_and_others_go_on(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded(tmp_path) as broker:
            await with_topic(broker)
            shop = await broker.user("shop")
            await broker.grant("shop", ("Topic:*", "Pub,Get"))
            body = b"mqcoreConnectionsPerUser=2\nmqcoreHeldBytesPerUser=1m\n"
            await broker.done(RequestCode.UPDATE_BROKER_CONFIG, body=body)
            ask = RequestCode.GET_TOPIC_CONFIG, signed(shop, {"topic": "t"}, b"")
            address = broker.live.address
            async with Client() as one, Client() as two, Client() as three:
                for each in (one, two):
                    assert (await each.call(address, *ask)).code == 0
                with pytest.raises(MQError):
                    await three.call(address, *ask, timeout_s=5.0)
                # Those that are there stay, and others have theirs.
                assert (await one.call(address, *ask)).code == 0
                users = (await broker.done(OwnRequestCode.LIMITS))["users"]
                assert (users["connectionsMax"], users["heldBytesMax"]) == (2, 1 << 20)
                assert users["refused"] >= 1
                counts = {row["user"]: row["connections"] for row in users["most"]}
                assert counts == {"shop": 2, "root": 1}
                text = exposition(await snapshot(broker.live.broker.state)).decode()
                assert 'user="shop"} 2' in text

    asyncio.run(work())


def test_what_one_user_holds_unfinished_stops_that_user_alone(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded(tmp_path, mqcoreHeldBytesPerUser="1m") as broker:
            await with_topic(broker)
            shop = await broker.user("shop")
            await broker.grant("shop", ("Topic:*", "Pub,Get"))
            ask = RequestCode.GET_TOPIC_CONFIG, signed(shop, {"topic": "t"}, b"")
            address = broker.live.address
            users = broker.live.broker.state.users
            async with Client() as one, Client() as two, Client() as three:
                for each in (one, two, three):
                    assert (await each.call(address, *ask)).code == 0
                for each in (one, two):
                    link = each.open_link(address)
                    assert link is not None
                    # The begin of a frame of 15 MiB.
                    link.write((15 << 20).to_bytes(4, "big") + bytes(1_500_000))
                await until(lambda: any(row.paused for row in users.most(9)))
                (found,) = (row for row in users.most(9) if row.user == "shop")
                assert (found.connections, found.paused) == (3, 1)
                # A small request of the same user is served, and everybody else.
                assert (await three.call(address, *ask)).code == 0
                await broker.done(OwnRequestCode.LIMITS)
            await until(lambda: all(row.user != "shop" for row in users.most(9)))

    asyncio.run(work())
