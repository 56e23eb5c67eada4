"""Messages: what can be carried, and what is refused where it is made."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mqcore import Message
from mqcore.client.namespaces import check_namespace, with_namespace, without_namespace
from mqcore.client.outgoing import check_sendable, outgoing_of, send_fields
from mqcore.client.properties import parse_properties
from mqcore.client.results import QueueRef
from mqcore.client.settings import ProducerSettings
from mqcore.errors import MessageError, MessageReason, UsageError
from mqcore.native import Compression, decompress


def _outgoing(message: Message, **changes: Any) -> Any:
    settings = ProducerSettings(**changes)
    check_sendable(message, settings)
    return outgoing_of(message, topic=message.topic, message_id="ID", born_ms=7, settings=settings)


def test_a_message_takes_text_and_every_kind_of_bytes() -> None:
    assert Message("t", "ü").body == b"\xc3\xbc"
    assert Message("t", bytearray(b"a")).body == b"a"
    assert Message("t", memoryview(b"a")).body == b"a"
    assert Message("t", b"a", keys="one").keys == ("one",)
    assert Message("t", b"a", keys=["one", "two"]) == Message("t", b"a", keys=("one", "two"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("", b"a"), "blank"),
        (("a b", b"a"), "illegal characters"),
        (("t" * 128, b"a"), "longer than"),
        ((7, b"a"), "not int"),
        (("t", 7), "not int"),
        (("t", None), "not NoneType"),
        (("t", "\ud800"), "UTF-8"),
    ],
)
def test_what_cannot_be_sent_is_refused_where_it_is_made(
    arguments: tuple[Any, Any], words: str
) -> None:
    with pytest.raises(MessageError, match=words):
        Message(*arguments)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tags": 7}, "tags: a str"),
        ({"tags": "a\x01b"}, "end a property"),
        ({"keys": 7}, "keys: a str or several"),
        ({"keys": [7]}, "keys: a str"),
        ({"properties": ["a"]}, "a mapping"),
        ({"properties": {"a": 1}}, "a str is expected, not int"),
        ({"properties": {"a": " "}}, "blank"),
        ({"properties": {"a": "x\x02"}}, "end a property"),
        ({"properties": {"TAGS": "a"}}, "use tags="),
        ({"properties": {"UNIQ_KEY": "a"}}, "system's own"),
        ({"delay_level": -1}, "not within"),
        ({"delay_level": "3"}, "an int"),
        ({"delay": 0}, "too far ahead"),
        ({"delay": "soon"}, "seconds are expected"),
        ({"delay": float("nan")}, "too far ahead"),
        ({"delay": 1, "deliver_at": 5}, "one of"),
        ({"flag": 1 << 31}, "not within"),
        ({"tags": "\ud800"}, "tags: a text that UTF-8 cannot carry"),
        ({"keys": "\ud800"}, "keys: a text that UTF-8 cannot carry"),
        ({"properties": {"a": "\ud800"}}, "UTF-8 cannot carry"),
        ({"sharding_key": "\ud800"}, "sharding_key: a text that UTF-8 cannot carry"),
        ({"deliver_at": 1_900_000_000_000}, "after the year 9999: are these ms"),
        ({"deliver_at": "soon"}, "seconds are expected"),
        ({"deliver_at": -5}, "lie behind"),
    ],
)
def test_bad_options_are_refused_in_words(options: dict[str, Any], words: str) -> None:
    with pytest.raises(MessageError, match=words):
        Message("t", b"a", **options)


def test_times_are_seconds_or_the_types_of_time() -> None:
    assert Message("t", b"a", delay=1.5).delay_ms == 1500
    assert Message("t", b"a", delay=timedelta(minutes=1)).delay_ms == 60_000
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    assert Message("t", b"a", deliver_at=moment).deliver_at_ms == int(moment.timestamp()) * 1000
    last = datetime(9999, 12, 31, tzinfo=UTC)
    assert Message("t", b"a", deliver_at=last).deliver_at_ms == int(last.timestamp()) * 1000
    # What is over is delivered at once: the broker decides.
    assert Message("t", b"a", deliver_at=5).deliver_at_ms == 5000
    assert Message("t", b"a", delay=1).is_timed
    assert not Message("t", b"a", delay_level=3).is_timed


def test_properties_stand_under_their_official_names() -> None:
    message = Message(
        "t",
        b"a",
        tags="A",
        keys=["k", "l"],
        properties={"ü": "ß"},
        sharding_key="s",
        delay_level=3,
        waits_stored=False,
    )
    outgoing = outgoing_of(
        message,
        topic="space%t",
        message_id="ID",
        born_ms=7,
        settings=ProducerSettings(),
        instance_id="space",
        more={"TTL": "1"},
    )
    assert parse_properties(outgoing.properties) == {
        "ü": "ß",
        "TAGS": "A",
        "KEYS": "k l",
        "WAIT": "false",
        "__SHARDINGKEY": "s",
        "DELAY": "3",
        "TTL": "1",
        "INSTANCE_ID": "space",
        "UNIQ_KEY": "ID",
    }
    assert outgoing.properties.startswith("ü\x01ß\x02")
    assert Message("t", b"a").properties_text == ""
    assert parse_properties("a\x01b\x02broken\x02c\x01d") == {"a": "b", "c": "d"}


def test_sizes_are_bounded_before_anything_is_sent() -> None:
    with pytest.raises(MessageError, match="empty"):
        _outgoing(Message("t", b""))
    with pytest.raises(
        MessageError,
        match="body_bytes_max",
        check=lambda error: error.reason is MessageReason.TOO_LARGE,
    ) as caught:
        _outgoing(Message("t", b"x" * 11), body_bytes_max=10)
    assert (caught.value.size_bytes, caught.value.limit_bytes) == (11, 10)
    with pytest.raises(
        MessageError,
        match="properties",
        check=lambda error: error.reason is MessageReason.TOO_LARGE,
    ):
        _outgoing(Message("t", b"x", properties={"a": "ü" * 17_000}))
    # 32,767 characters are not too many where each is a byte.
    _outgoing(Message("t", b"x", properties={"a": "u" * 32_000}))
    with pytest.raises(MessageError, match="nobody but the broker"):
        _outgoing(Message("SCHEDULE_TOPIC_XXXX", b"x"))
    with pytest.raises(MessageError, match=r"mqcore\.Message"):
        check_sendable("text", ProducerSettings())  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", list(Compression))
def test_bodies_are_compressed_from_the_threshold_on(kind: Compression) -> None:
    body = b"abc" * 2000
    outgoing = _outgoing(Message("t", body), compression=kind)
    assert outgoing.sys_flag == 1 | kind << 8
    assert decompress(outgoing.body, kind, len(body)) == body
    assert _outgoing(Message("t", body), compress_above_bytes=6001).body == body
    assert _outgoing(Message("t", body), compress_above_bytes=None).sys_flag == 0


def test_a_body_that_would_grow_is_sent_as_it_is() -> None:
    # Compressed already.
    body = _outgoing(Message("t", bytes(range(256)) * 64)).body
    outgoing = _outgoing(Message("t", body), compress_above_bytes=1)
    assert outgoing.body == body
    assert outgoing.sys_flag == 0


def test_the_header_has_the_letters_of_the_second_version() -> None:
    outgoing = _outgoing(Message("t", b"a", tags="A", flag=9))
    fields = send_fields(outgoing, QueueRef("t", "b", 3), "g", 4)
    assert fields == {
        "a": "g",
        "b": "t",
        "c": "TBW102",
        "d": "4",
        "e": "3",
        "f": "0",
        "g": "7",
        "h": "9",
        "i": "TAGS\x01A\x02UNIQ_KEY\x01ID\x02",
        "j": "0",
        "k": "false",
        "m": "false",
        "n": "b",
    }
    outgoing.max_reconsume_times, outgoing.reconsume_times = 16, 2
    again = send_fields(outgoing, QueueRef("t", "b", 3), "g", 4)
    assert (again["j"], again["l"]) == ("2", "16")


def test_namespaces_stand_before_names_and_behind_prefixes() -> None:
    assert with_namespace("i", "t") == "i%t"
    assert with_namespace("i", "i%t") == "i%t"
    assert with_namespace("i", "%RETRY%g") == "%RETRY%i%g"
    assert with_namespace("i", "TBW102") == "TBW102"
    assert with_namespace("", "t") == "t"
    assert without_namespace("i", "%DLQ%i%g") == "%DLQ%g"
    assert without_namespace("i", "t") == "t"
    for bad in ("a%b", "a b"):
        with pytest.raises(UsageError, match="namespace"):
            check_namespace(bad)
