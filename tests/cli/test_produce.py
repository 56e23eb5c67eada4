"""`mqcore produce`: what becomes of lines, JSON lines and files; and the parts it is made of."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from mqcore.cli.lines import lines_of
from mqcore.cli.pace import Pace
from mqcore.cli.templates import Template
from mqcore.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def mqcore(
    broker: Broker, *arguments: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "mqcore.cli.main", *arguments],
        env=os.environ | {"MQCORE_NAMESRV": broker.namesrv},
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )


def produced(broker: Broker, topic: str, *arguments: str, stdin: bytes = b"") -> list[bytes]:
    ended = mqcore(broker, "produce", topic, *arguments, stdin=stdin)
    assert ended.returncode == 0, ended.stderr
    return sorted(message.body for message in broker.messages(topic))


def test_lines_become_messages(broker: Broker) -> None:
    lines = b"one\r\ntwo\n\nlast"
    assert produced(broker, "lines", stdin=lines) == [b"last", b"one", b"two"]


def test_a_message_may_be_an_argument(broker: Broker) -> None:
    assert produced(broker, "arguments", "-m", "hello", "-m", "wörld") == [
        b"hello",
        "wörld".encode(),
    ]


def test_files_go_whole_or_by_line(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n2\n")
    (tmp_path / "b").write_bytes(b"3\n")
    names = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert produced(broker, "by-line", *names) == [b"1", b"2", b"3"]
    assert produced(broker, "whole", "-f", "file", *names) == [b"1\n2\n", b"3\n"]


def test_keys_and_tags_are_made_of_the_body(broker: Broker) -> None:
    line = json.dumps({"id": 7, "who": {"name": "ü"}, "kinds": ["x", "y"]}).encode()
    arguments = ["-k", "o-{.id} {n}", "-t", "{.kinds.1}", "-s", "{.who.name}", "-p", "src={file}"]
    produced(broker, "made", *arguments, stdin=line)
    (message,) = broker.messages("made")
    assert (message.keys, message.tags) == (("o-7", "1"), "y")
    assert message.properties["src"] == "-"
    assert message.properties["__SHARDINGKEY"] == "ü"


def test_a_level_that_the_broker_does_not_have_is_named(broker: Broker) -> None:
    ended = mqcore(broker, "produce", "later", "--delay-level", "99", "-m", "x")
    assert ended.returncode == 0
    note = "delay level 99 is taken as 18, 2h: the broker has levels 1 to 18 (messageDelayLevel)"
    assert note in ended.stderr.decode()
    ended = mqcore(broker, "produce", "later", "--delay-level", "18", "-m", "x")
    assert "is taken" not in ended.stderr.decode()


def test_json_lines_hold_everything(broker: Broker) -> None:
    lines = [
        {"body": "text", "tags": "a", "keys": ["k1", "k2"], "properties": {"p": "1"}},
        {"body_base64": "/wA="},
        {"body": {"json": 1}, "properties": {"UNIQ_KEY": "not ours to give"}},
    ]
    text = "\n".join(map(json.dumps, lines)).encode()
    assert produced(broker, "json", "-f", "json", stdin=text) == [
        b"text",
        b'{"json": 1}',
        b"\xff\x00",
    ]
    first = next(each for each in broker.messages("json") if each.body == b"text")
    assert (first.tags, first.keys, first.properties["p"]) == ("a", ("k1", "k2"), "1")


def test_acknowledgements_are_lines_of_json(broker: Broker) -> None:
    ended = mqcore(broker, "produce", "acked", "--json", stdin=b"a\nb\n")
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(rows) == len({row["message_id"] for row in rows}) == 2
    assert {row["status"] for row in rows} == {"SEND_OK"}
    assert ended.stderr == b""


def test_each_acknowledgement_is_that_of_its_message(broker: Broker) -> None:
    lines = "".join(f"{number}\n" for number in range(300)).encode()
    ended = mqcore(broker, "produce", "fields", "--json", "-s", "{line}", "-k", "{n}", stdin=lines)
    by_id = {row["message_id"]: row for row in map(json.loads, ended.stdout.splitlines())}
    assert len(by_id) == 300
    for message in broker.messages("fields"):
        row = by_id[message.message_id]
        assert (row["queue"], row["offset"]) == (message.queue.queue_id, message.queue_offset)
        assert row["offset_id"] == message.offset_message_id


def test_a_message_for_later_can_be_recalled() -> None:
    later = ["produce", "later", "-m", "x", "--delay", "1h", "--json"]
    with Broker(settings={"recallMessageEnable": "false"}) as strict:
        handle = json.loads(mqcore(strict, *later).stdout)["recall_handle"]
        refused = mqcore(strict, "msg", "recall", handle)
    assert refused.returncode == 2
    assert b"set recallMessageEnable=true on the broker" in refused.stderr
    with Broker(settings={"recallMessageEnable": "true"}) as running:
        sent = json.loads(mqcore(running, *later).stdout)
        recalled = mqcore(running, "msg", "recall", sent["recall_handle"])
        assert recalled.stdout.decode() == f"message {sent['message_id']} is recalled\n"
        both = mqcore(running, *later, "--delay-level", "1")
    assert (both.returncode, b"give one of" in both.stderr) == (2, True)


def test_it_ends_after_a_count(broker: Broker) -> None:
    assert len(produced(broker, "counted", "-c", "3", stdin=b"x\n" * 10)) == 3


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"no json", "standard input, message 1: it is no JSON: "),
        (b"[]", "a JSON object is expected"),
        (b"{}", "neither body nor body_base64"),
        (b'{"body": "a", "properties": 3}', "properties must be an object"),
        (b'{"body": "a", "tag": "t"}', "no member 'tag': did you mean tags?"),
        (b'{"body": "a", "price": 3}', "no member 'price': it may have body, body_base64"),
        (b'{"body_base64": "!"}', "message 1"),
    ],
)
def test_a_line_that_is_no_message_is_reported(broker: Broker, line: bytes, why: str) -> None:
    ended = mqcore(broker, "produce", "bad", "-f", "json", stdin=line)
    assert (ended.returncode, ended.stderr.count(b"\n")) == (2, 1)
    assert why in ended.stderr.decode()
    assert "0 messages sent" in ended.stderr.decode()


def test_a_refusal_ends_it_and_prints_how_many_were_sent(broker: Broker) -> None:
    broker.create_topic("refused")
    broker.fail_sends(1_000)
    try:
        ended = mqcore(broker, "produce", "refused", "--timeout", "1", stdin=b"x\n")
    finally:
        broker.fail_sends(0)
    assert ended.returncode == 2
    assert b"0 messages sent" in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_ctrl_c_is_shown_by_the_exit_code(broker: Broker) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "mqcore.cli.main", "produce", "stopped", "--json"],
        env=os.environ | {"MQCORE_NAMESRV": broker.namesrv},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["status"] == "SEND_OK"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read().strip() == b""


def test_a_file_that_is_missing_is_wrong_usage(broker: Broker) -> None:
    assert mqcore(broker, "produce", "t", "/nowhere/at/all").returncode == 2


# The parts.


def test_a_template_is_filled() -> None:
    fields = {"n": 3, "file": "f", "line": '{"a": [true, null, {"b": "x"}]}'}
    assert Template("{{{n}}} {file} {.a.0} {.a.1} {.a.2.b}").fill(fields) == "{3} f true null x"
    assert Template("plain").fill(fields) == "plain"
    assert Template("{line}").fill(fields) == fields["line"]


@pytest.mark.parametrize("text", ["{", "a}b", "{nope}", "{}", "{n"])
def test_a_template_that_cannot_be_filled_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"field|brace|lone"):
        Template(text)


@pytest.mark.parametrize(
    ("line", "why"), [("x", "is no JSON"), ("{}", "no member"), ("[1]", "no m")]
)
def test_a_member_that_is_missing_is_reported(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Template("{.a}").fill({"n": 1, "file": "f", "line": line})


def test_a_pace_is_steady_and_does_not_catch_up() -> None:
    pace = Pace(10)
    assert [round(pace.wait_s(0.0), 6) for _ in range(3)] == [0.0, 0.1, 0.2]
    assert pace.wait_s(100.0) == 0.0
    assert pace.wait_s(100.0) == 0.0
    assert round(pace.wait_s(100.0), 6) == 0.1
    assert Pace(0).wait_s(5.0) == 0.0


def test_lines_come_as_they_are_written() -> None:
    async def scene() -> list[bytes]:
        read, write = os.pipe()
        found: list[bytes] = []
        os.write(write, b"one\ntw")
        async for lines in lines_of(lambda: os.fdopen(read, "rb")):
            found += lines
            if found == [b"one"]:
                os.write(write, b"o\n")
            elif found == [b"one", b"two"]:
                os.close(write)
        return found

    assert asyncio.run(scene()) == [b"one", b"two"]


def test_who_leaves_early_is_not_waited_for() -> None:
    async def scene() -> None:
        async for _ in lines_of(lambda: io.BufferedReader(io.BytesIO(b"x\n" * 1_000_000))):
            break

    asyncio.run(scene())


def test_a_stream_that_cannot_be_opened_is_reported() -> None:
    async def scene() -> None:
        async for _ in lines_of(partial(io.FileIO, "/nowhere/at/all")):
            pass

    with pytest.raises(FileNotFoundError):
        asyncio.run(scene())
