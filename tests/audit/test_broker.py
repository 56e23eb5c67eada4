"""A broker's audit: every change has a line, whatever came of it; read and checked by requests."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from access_control import REFUSED, ROOT, guarded, with_topic
from live_broker import Live, live
from loops import run_on
from mqcore.audit import AuditReader, Wanted
from mqcore.broker.audit_looks import audit_looks
from mqcore.broker.observation import snapshot
from mqcore.metrics.text import exposition
from mqcore.model.relaxed_json import compact
from mqcore.native import Command
from mqcore.remoting import (
    AnsweredBy,
    Credentials,
    OwnRequestCode,
    RequestCode,
    answered_by,
    expect,
)
from mqcore.remoting.audited_requests import AUDITED, UNAUDITED, undecided
from mqcore.remoting.request_codes import RULES
from request_fields import topic_fields

_AUDIT = "mqcore_audit_"
_SECRETS = ("canary-one-1", "canary-two-2", "root-secret")


def lines_of(store: Path, **wanted: str) -> list[dict[str, Any]]:
    page = AuditReader(store / "audit" / "audit.log").page(Wanted(**wanted), rows_max=1_000)
    return list(reversed(page.rows))


def whole(store: Path) -> str:
    return "".join(each.read_text() for each in AuditReader(store / "audit" / "audit.log").files)


async def read(running: Live, **ext: object) -> dict[str, Any]:
    return await running.json(OwnRequestCode.AUDIT_READ, ext)


async def figures_of(running: Live) -> dict[str, float]:
    """Returns the figures of the audit at `/metrics`, by their names without `mqcore_audit_`."""
    text = exposition(await snapshot(running.broker.state)).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith(_AUDIT):
                event = sample.labels.get("event", "")
                name = sample.name.removeprefix(_AUDIT) + (f":{event}" if event else "")
                found[name] = sample.value
    return found


def test_every_code_that_may_change_something_is_decided_on() -> None:
    assert undecided(RULES, [*RULES, 50, 51, 53]) == []
    # One that is added without a decision is found, and so is one that is twice.
    assert undecided({**RULES, 9_999: "C Update"}, [*RULES, 50, 51, 53]) == [9_999]
    assert undecided({**RULES, 9_998: "body"}, [*RULES, 50, 51, 53]) == [9_998]
    assert not AUDITED.keys() & UNAUDITED.keys()
    assert all(UNAUDITED.values())


def test_every_audited_request_of_a_broker_has_a_line(tmp_path: Path) -> None:
    """Whatever comes of it: most of these bodies make no sense."""
    codes = [code for code in answered_by(AnsweredBy.BROKER) if code.row.is_audited]
    own = [OwnRequestCode.SNAPSHOT]
    ext = {
        "topic": "no such topic",
        "group": "g",
        "groupName": "g",
        "consumerGroup": "g",
        "srcGroup": "g",
        "destGroup": "h",
        "username": "u",
        "subject": "User:u",
        "readable": "false",
        "msgId": "0" * 32,
    }

    async def run() -> None:
        async with live(tmp_path) as running:
            for code in (*codes, *own):
                await running.call(code, ext, b"{}")

    run_on("asyncio", run())
    found = {row["code"] for row in lines_of(tmp_path) if row["event"] == "change"}
    assert found == {int(code) for code in (*codes, *own)}


def test_a_change_has_who_what_before_and_after(tmp_path: Path) -> None:
    async def run() -> None:
        async with guarded(tmp_path) as broker:
            await with_topic(broker, "orders")
            await broker.done(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields("orders", 4))
            await broker.done(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})

    run_on("asyncio", run())
    made, changed, deleted = lines_of(tmp_path, resource="Topic:orders")
    assert made["before"] == {}
    assert made["after"]["orders"]["writeQueueNums"] == 1
    assert changed["before"]["orders"]["writeQueueNums"] == 1
    assert changed["after"]["orders"]["writeQueueNums"] == 4
    assert changed["asked"]["readQueueNums"] == "4"
    assert deleted["before"]["orders"]["writeQueueNums"] == 4
    assert deleted["after"] == {}
    assert deleted["request"] == "DELETE_TOPIC_IN_BROKER(215)"
    for row in (made, changed, deleted):
        assert (row["user"], row["outcome"], row["answer"]) == ("root", "done", 0)
        assert row["address"].startswith("127.0.0.1:")
        assert row["client"].startswith("JAVA V")
        assert "Signature" not in row["asked"]
    mode = (tmp_path / "audit" / "audit.log").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_secrets_of_users_and_settings_are_in_no_line(tmp_path: Path) -> None:
    async def run() -> None:
        async with guarded(tmp_path, brokerName="b") as broker:
            await broker.user("app", password=_SECRETS[0])
            change = compact({"username": "app", "password": _SECRETS[1]})
            await broker.done(RequestCode.AUTH_UPDATE_USER, {"username": "app"}, change)
            same = compact({"username": "app", "userStatus": "disable"})
            await broker.done(RequestCode.AUTH_UPDATE_USER, {"username": "app"}, same)
            await broker.done(RequestCode.AUTH_DELETE_USER, {"username": "app"})
            body = b'initAuthenticationUser={"username":"x","password":"canary-one-1"}'
            await broker.ask(ROOT, RequestCode.UPDATE_BROKER_CONFIG, {}, body)
            await broker.done(OwnRequestCode.ACCESS_TABLES)

    run_on("asyncio", run())
    made, other, disabled, gone = lines_of(tmp_path, resource="User:app")
    assert made["after"]["password"] == "***"
    assert other["after"]["password"] == "*** (another)"
    assert disabled["after"]["password"] == "***"
    assert (disabled["before"]["userStatus"], disabled["after"]["userStatus"]) == (
        "enable",
        "disable",
    )
    assert gone["after"] is None
    assert all(secret not in whole(tmp_path) for secret in _SECRETS)


def test_settings_have_the_values_before_and_after(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as running:
            code = RequestCode.UPDATE_BROKER_CONFIG
            expect(await running.call(code, {}, b"slowOperationMs=1234"), "b")
            refused = await running.call(code, {}, b"slowOperationMs=1\nrocketmqHome=/tmp/x")
            assert refused.code == REFUSED

    run_on("asyncio", run())
    done, refused = lines_of(tmp_path, request="25")
    assert (done["before"], done["after"]) == (
        {"slowOperationMs": "500"},
        {"slowOperationMs": "1234"},
    )
    assert refused["resource"] == ["Cluster", "Setting:slowOperationMs", "Setting:rocketmqHome"]
    assert refused["outcome"] == "refused"
    assert refused["before"]["slowOperationMs"] == refused["after"]["slowOperationMs"] == "1234"


def test_offsets_that_a_tool_moves_have_a_line_and_those_of_consumers_none(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as running:
            await running.create("t")
            group = compact({"groupName": "g"})
            expect(
                await running.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, group), "b"
            )
            for _ in range(3):
                await running.send("t", b"x")
            await running.settled()
            commit = {"topic": "t", "consumerGroup": "g", "queueId": 0, "commitOffset": 2}
            expect(await running.call(RequestCode.UPDATE_CONSUMER_OFFSET, commit), "b")
            reset = {"topic": "t", "group": "g", "timestamp": 0, "isForce": True}
            reset |= {"queueId": 0, "offset": 1}
            expect(await running.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset), "b")

    run_on("asyncio", run())
    assert lines_of(tmp_path, request="15") == []
    (moved,) = lines_of(tmp_path, request="222")
    assert (moved["before"], moved["after"]) == ({"0": 2}, {"0": 1})
    assert moved["resource"] == ["Topic:t", "Group:g"]


def test_the_subject_of_a_body_counts_and_not_that_of_the_header(tmp_path: Path) -> None:
    async def run() -> None:
        async with guarded(tmp_path) as broker:
            await broker.user("victim")
            entries = [{"resource": "Topic:t", "actions": ["Pub"], "decision": "Allow"}]
            acl = {"subject": "User:victim", "policies": [{"entries": entries}]}
            ext = {"subject": "User:somebody-else"}
            await broker.done(RequestCode.AUTH_CREATE_ACL, ext, compact(acl))

    run_on("asyncio", run())
    (row,) = lines_of(tmp_path, request="3006")
    assert row["resource"] == ["User:victim"]
    assert row["after"]["subject"] == "User:victim"


def test_a_signature_names_the_user_where_nobody_asks_for_it(tmp_path: Path) -> None:
    async def run() -> None:
        keys = {"initAuthenticationUser": '{"username":"root","password":"root-secret"}'}
        async with guarded(
            tmp_path, authenticationEnabled="false", authorizationEnabled="false", **keys
        ) as broker:
            await with_topic(broker, "signed")
            await broker.ask(None, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields("unsigned"))
            wrong = Credentials("root", "wrong")
            await broker.ask(wrong, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields("wrong"))

    run_on("asyncio", run())
    assert [row["user"] for row in lines_of(tmp_path, request="17")] == ["root", "", ""]


def test_refusals_are_lines_of_the_same_chain(tmp_path: Path) -> None:
    async def run() -> None:
        async with guarded(tmp_path) as broker:
            app = await broker.user("app")
            for _ in range(3):
                answer = await broker.ask(
                    app, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields("t")
                )
                assert answer.code == REFUSED
            state = broker.live.broker.state
            state.access_log.look()
        assert state.trail.figures is not None
        # The user was made by a change.
        assert state.trail.figures.lines == {"change": 1, "refused": 1, "asked": 0}

    run_on("asyncio", run())
    rows = lines_of(tmp_path, event="refused")
    assert [(row["user"], row["code"], row["outcome"]) for row in rows] == [("app", 17, "refused")]
    assert rows[0]["resource"] == ["Topic:t"]
    assert AuditReader(tmp_path / "audit" / "audit.log").check().is_whole


def test_tools_read_pages_and_check_the_chain(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as running:
            for number in range(7):
                await running.create(f"t{number}")
            first = await read(running, count=3)
            assert [row["resource"] for row in first["lines"]] == [
                ["Topic:t6"],
                ["Topic:t5"],
                ["Topic:t4"],
            ]
            second = await read(running, count=10, before=first["before"])
            assert [row["n"] for row in second["lines"]] == [4, 3, 2, 1]
            assert second["before"] == 0
            found = await read(running, resource="Topic:t2", outcome="done")
            assert len(found["lines"]) == 1
            assert (await running.call(OwnRequestCode.AUDIT_READ, {"count": 501})).code != 0
            check = await running.json(OwnRequestCode.AUDIT_VERIFY)
            assert (check["isWhole"], check["lines"]) == (True, 7)
            file = tmp_path / "audit" / "audit.log"
            file.write_bytes(file.read_bytes().replace(b"Topic:t2", b"Topic:t9"))
            check = await running.json(OwnRequestCode.AUDIT_VERIFY)
            assert not check["isWhole"]
            assert "line 4: the line before it was changed" in check["faults"][0]

    run_on("asyncio", run())


def test_a_super_user_alone_reads_the_audit(tmp_path: Path) -> None:
    async def run() -> None:
        async with guarded(tmp_path) as broker:
            reader = await broker.user("reader")
            await broker.grant("reader", ("Cluster:*", "All"))
            for code in (OwnRequestCode.AUDIT_READ, OwnRequestCode.AUDIT_VERIFY):
                assert (await broker.ask(reader, code)).code == REFUSED
                assert (await broker.ask(ROOT, code)).code == 0

    run_on("asyncio", run())


def test_a_disk_that_is_full_does_not_stop_changes_unless_it_is_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def changed(running: Live, topic: str) -> Command:
        return await running.call(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(topic))

    async def run(store: Path, on_failure: str) -> tuple[int, list[str]]:
        blocked = store / "blocked"
        file = str(blocked / "audit.log")
        keys = {"mqcoreAuditFile": file, "mqcoreAuditOnFailure": on_failure}
        async with live(store / "s", **keys) as running:
            assert (await figures_of(running))["last_failure_seconds"] == 0
            bad = await changed(running, "while-it-fails")
            failing = await figures_of(running)
            assert failing["failing"] == failing["lines_missed_total"] == 1
            refused = int(on_failure == "refuse")
            assert failing["changes_refused_total"] == refused
            assert failing["last_failure_seconds"] > running.broker.state.boot_ms / 1_000
            is_there = running.broker.state.topics.find("while-it-fails") is not None
            assert is_there == (bad.code == 0)
            blocked.unlink()
            good = await changed(running, "afterwards")
            assert good.code == 0
            after = await figures_of(running)
            assert (after["failing"], after["lines_missed_total"]) == (
                0,
                1,
            )
            assert after["bytes_total"] == (blocked / "audit.log").stat().st_size
        rows = [json.loads(line) for line in (blocked / "audit.log").read_text().splitlines()]
        assert rows[0]["count"] == 1
        return bad.code, [row["event"] for row in rows]

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "blocked").touch()
    assert run_on("asyncio", run(tmp_path / "a", "go-on")) == (0, ["missed", "change"])
    assert "while-it-fails" in caplog.text
    assert run_on("asyncio", run(tmp_path / "b", "refuse")) == (1, ["missed", "asked", "change"])


def test_without_an_audit_nothing_is_made(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path, mqcoreAuditEnable="false") as running:
            await running.create("t")
            assert (await read(running))["lines"] == []
            assert await figures_of(running) == {}
            assert (await running.call(OwnRequestCode.AUDIT_VERIFY)).code == 1

    run_on("asyncio", run())
    assert not (tmp_path / "audit").exists()


def test_looks_are_of_audited_codes(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as running:
            known = audit_looks(running.broker.state)
            assert known.looks.keys() | known.resources.keys() <= AUDITED.keys()

    run_on("asyncio", run())
