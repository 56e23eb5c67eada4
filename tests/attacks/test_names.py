"""CVE-2019-17572: names that are paths, through every request, and in files of a directory.

Officially a topic `../../x` that a send created made directories outside of the store.
"""

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest

from attacks.attacking import (
    BROKER_CODES,
    NAMES,
    hostile_body,
    hostile_fields,
    lives,
    names,
    tree,
)
from live_broker import batch_fields, live, send_fields
from loops import run_on
from mqcore.config import Layer, Program, controller_settings, namesrv_settings, resolved
from mqcore.controller.server import Controller
from mqcore.errors import MQError
from mqcore.model.relaxed_json import compact
from mqcore.namesrv.server import NameServer
from mqcore.remoting import AnsweredBy, Client, RequestCode, answered_by
from request_fields import topic_fields

# A store of these tests lies two folders deep, so that what climbs out is seen.
_DEEP = ("outer", "inner", "store")


_TABLE = re.compile(r"config/[A-Za-z_]+(\.json)?(\.bak)?")


def _of(topic: str) -> set[str]:
    """Returns what the first queue of a topic makes below the folder of queues."""
    return {topic, f"{topic}/0", f"{topic}/0/{0:020d}"}


def deep(tmp_path: Path) -> Path:
    store = tmp_path.joinpath(*_DEEP)
    store.mkdir(parents=True)
    (tmp_path / "outer" / "bystander").write_text("untouched")
    return store


def outside(tmp_path: Path) -> dict[str, str]:
    """Returns what is beside the store."""
    return {path: found for path, found in tree(tmp_path).items() if "store/" not in path}


def tables(store: Path) -> str:
    """Returns what the files of the broker's tables hold."""
    return "".join(path.read_text() for path in sorted((store / "config").glob("*.json")))


# One name at a time: what a broker remembers of the one is not in the way of the next.
@pytest.mark.sampled(count=4)
@pytest.mark.parametrize("name", NAMES)
def test_no_request_makes_anything_outside_of_the_store(tmp_path: Path, name: str) -> None:
    store = deep(tmp_path)

    async def run() -> None:
        async with live(store) as running:
            await running.create("real")
            before, inside = outside(tmp_path), names(store)
            for code in BROKER_CODES:
                for body in (hostile_body(name), b"x"):
                    await running.call(code, hostile_fields(name), body)
            known = set(running.broker.state.topics.topics)
            groups = set(running.broker.state.groups.groups)
            assert not {each for each in known | groups if name in each and len(name) > 1}
            assert await lives(running)
            assert outside(tmp_path) == before
            # Queues have folders by the names of topics, tables have files by their own.
            assert names(store / "consumequeue") <= {*_of("alive"), *_of("real")}
            made = {each for each in names(store) - inside if each.startswith("config/")}
            assert all(_TABLE.fullmatch(each) for each in made), made

    run_on("asyncio", run())
    assert outside(tmp_path)["outer/bystander"]
    topics = json.loads((store / "config" / "topics.json").read_text())["topicConfigTable"]
    assert name not in topics
    assert not (tmp_path / "pwned").exists()


@pytest.mark.sampled(count=5)
@pytest.mark.parametrize("name", NAMES)
def test_what_would_be_made_is_refused_in_words(tmp_path: Path, name: str) -> None:
    async def run() -> None:
        async with live(tmp_path) as running:
            code = RequestCode
            one = {"topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
            for asked, ext, body in (
                (code.UPDATE_AND_CREATE_TOPIC, topic_fields(name), b""),
                (code.UPDATE_AND_CREATE_TOPIC_LIST, {}, compact({"topicConfigList": [one]})),
                (code.UPDATE_AND_CREATE_STATIC_TOPIC, topic_fields(name), hostile_body(name)),
                (code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, compact({"groupName": name})),
                (
                    code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
                    {},
                    compact({"groupConfigList": [{"groupName": name}]}),
                ),
                (code.SEND_MESSAGE_V2, send_fields(name), b"x"),
                (code.SEND_BATCH_MESSAGE, batch_fields(name), b"x"),
                (code.SEND_REPLY_MESSAGE_V2, send_fields(name), b"x"),
                (code.INVOKE_BROKER_TO_RESET_OFFSET, hostile_fields(name), b""),
                (code.SET_MESSAGE_REQUEST_MODE, {}, hostile_body(name)),
            ):
                answer = await running.call(asked, ext, body)
                assert answer.code != 0, (asked, answer)
                assert answer.remark, asked
            # The official text, up to the name.
            answer = await running.call(code.UPDATE_AND_CREATE_TOPIC, topic_fields(name))
            assert "topic" in (answer.remark or "")

    run_on("asyncio", run())


def _hostile_directory(store: Path, name: str) -> None:
    """Writes names into every table of a directory that a broker has left."""
    config = store / "config"
    topic = {"topicName": name, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
    group = {"groupName": name, "retryQueueNums": 1, "consumeEnable": True}
    for file, member, row in (
        ("topics", "topicConfigTable", topic),
        ("subscriptionGroup", "subscriptionGroupTable", group),
        ("consumerOffset", "offsetTable", None),
    ):
        path = config / f"{file}.json"
        found = json.loads(path.read_text()) if path.exists() else {}
        table = found.setdefault(member, {})
        if row is None:
            table[f"{name}@{name}"] = {"0": 1, "1": 2}
        else:
            table[name] = row
        path.write_text(json.dumps(found))


@pytest.mark.sampled(count=4)
@pytest.mark.parametrize("name", NAMES)
def test_names_in_tables_of_a_directory_lead_nowhere(tmp_path: Path, name: str) -> None:
    store = deep(tmp_path)

    async def run() -> None:
        async with live(store) as running:
            await running.create("real")
            await running.send("real", b"x")
        before = outside(tmp_path)
        _hostile_directory(store, name)
        async with live(store) as running:
            assert (await running.pull("real", 0)).code == 0
            await running.send(name, b"x")
            await running.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name})
            await running.call(RequestCode.CLEAN_UNUSED_TOPIC)
            assert await lives(running)
        assert outside(tmp_path) == before

    run_on("asyncio", run())


def test_a_record_whose_topic_is_a_path_makes_nothing_outside(tmp_path: Path) -> None:
    """The log is walked again, as after a crash: queues are made by the topics of its records."""
    store, plain, hostile = deep(tmp_path), b"AAAAAAAA", b"../../xx"

    async def run() -> None:
        async with live(store) as running:
            await running.create(plain.decode())
            await running.send(plain.decode(), b"x")
            await running.settled()
        log = sorted((store / "commitlog").iterdir())[0]
        content = log.read_bytes()
        assert content.count(plain) == 1
        log.write_bytes(content.replace(plain, hostile))
        before = outside(tmp_path)
        for folder in ("consumequeue", "index"):
            for path in sorted((store / folder).rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
        (store / "checkpoint").unlink(missing_ok=True)
        # Served, or refused in words.
        with suppress(MQError):
            async with live(store) as running:
                assert await lives(running)
        assert outside(tmp_path) == before

    run_on("asyncio", run())


@pytest.mark.sampled(count=4)
@pytest.mark.parametrize("name", NAMES)
def test_name_server_and_controller_make_nothing(tmp_path: Path, name: str) -> None:
    async def run() -> None:
        own = tmp_path / "own"
        own.mkdir()
        values = {"listenPort": "0", "kvConfigPath": str(own / "kvConfig.json")}
        server = NameServer(namesrv_settings(resolved(Program.NAMESRV, [Layer("t", values)])))
        kept = {"controllerStorePath": str(own / "c"), "listenPort": "0"}
        controller = Controller(
            controller_settings(resolved(Program.CONTROLLER, [Layer("t", kept)]))
        )
        await server.start()
        await controller.start()
        before = {path: found for path, found in tree(tmp_path).items() if "own/" not in path}
        inside = names(own)
        try:
            async with Client() as client:
                for who, port in (
                    (AnsweredBy.NAMESRV, server.ports["namesrv"]),
                    (AnsweredBy.CONTROLLER, controller.ports["controller"]),
                ):
                    address = f"127.0.0.1:{port}"
                    for code in sorted(answered_by(who)):
                        ext = {k: str(v) for k, v in hostile_fields(name).items()}
                        for body in (hostile_body(name), b""):
                            await client.call(address, code, ext, body, timeout_s=30)
        finally:
            await controller.stop()
            await server.stop()
        after = {path: found for path, found in tree(tmp_path).items() if "own/" not in path}
        assert after == before
        new = {each for each in names(own) - inside if not each.startswith(("audit", "c/"))}
        assert new <= {"kvConfig.json", "kvConfig.json.bak"}

    run_on("asyncio", run())
