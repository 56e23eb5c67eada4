"""JSON in the dialect of RocketMQ's programs, read and written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcore.errors import BadJsonError
from mqcore.model import relaxed_json
from mqcore.model.queues import MessageQueue
from mqcore.model.relaxed_json import (
    compact,
    parse,
    parse_object,
    pretty,
    queue_of_key,
    with_queue_keys,
)


def test_integer_keys_need_no_quotes() -> None:
    assert parse(b'{"offsetTable":{0:10,1:7\n\t\t}}') == {"offsetTable": {"0": 10, "1": 7}}


def test_an_object_as_a_key_becomes_its_text() -> None:
    found = parse(b'{"t":{{"queueId":1,"brokerName":"b","topic":"T"}:5}}')
    (key,) = found["t"]
    assert json.loads(key) == {"brokerName": "b", "queueId": 1, "topic": "T"}
    assert found["t"][key] == 5


def test_maps_of_queues_are_read_back() -> None:
    queue = MessageQueue("T", "b", 3)
    found = parse(with_queue_keys({"offsetTable": {queue: {"maxOffset": 9}}}))
    (key,) = found["offsetTable"]
    assert MessageQueue.of_json(json.loads(key)) == queue


def test_a_pretty_text_is_the_official_one() -> None:
    table = {"offsetTable": {"T@g": {1: 7, 0: 10}}, "dataVersion": {"counter": 1}}
    assert pretty(table).decode() == (
        '{\n\t"dataVersion":{\n\t\t"counter":1\n\t},\n\t"offsetTable":{\n\t\t"T@g":{0:10,1:7\n\t\t}\n\t}\n}'
    )
    assert parse(pretty(table)) == {
        "offsetTable": {"T@g": {"0": 10, "1": 7}},
        "dataVersion": {"counter": 1},
    }


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b'{"a":}',
        b"{0:1}}",
        b"[1 2]",
        b"\xff\xfe",
        b"{0:tru}",
        b"[" * 100_000,
        b"{0:" * 100_000,
        b"{0:" + b"9" * 10_000 + b"}",
        b'{{"a":1:2}',
    ],
)
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(BadJsonError):
        parse(text)


def test_an_object_is_expected() -> None:
    with pytest.raises(BadJsonError):
        parse_object(b"[]")


def test_names_stay_as_they_are() -> None:
    assert compact({"ä": "/"}) == '{"ä":"/"}'.encode()


def test_what_rocketmq_writes_needs_no_reader_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = [MessageQueue('a"b\\c 上海', "b", 0), MessageQueue("t", "b", 12)]
    text = with_queue_keys({"list": [{"g": {"offsetTable": dict.fromkeys(queues, 5)}}]})
    slow = relaxed_json._Reader(text.decode()).whole()
    monkeypatch.delattr(relaxed_json, "_Reader")
    found = parse(text)
    assert found == slow
    keys = found["list"][0]["g"]["offsetTable"]
    assert [queue_of_key(key) for key in keys] == queues


@given(st.text(max_size=8), st.text(max_size=8), st.integers(-(1 << 40), 1 << 40))
def test_a_key_is_read_the_same_by_its_usual_form(topic: str, broker: str, queue_id: int) -> None:
    key = compact({"brokerName": broker, "queueId": queue_id, "topic": topic}).decode()
    assert queue_of_key(key) == MessageQueue.of_json(parse(key))
