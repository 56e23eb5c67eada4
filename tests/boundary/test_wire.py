"""Commands, frames in pieces, compressed bodies and RocketMQ's JSON, through the door."""

import json
import zlib
from typing import Any

import pytest

import mqcore.errors
import mqcore.native.errors
import mqcore.native.wire_errors
from mqcore.native import (
    Command,
    Compression,
    FrameForm,
    FrameReader,
    Serialization,
    compress,
    decompress,
    encode_parts,
    parse_relaxed_json,
)

ROUTE = (
    b"\0\0\0\x7f\0\0\0\x7b"
    b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7,'
    b'"serializeTypeCurrentRPC":"JSON","version":409}'
)


def test_a_command_becomes_the_bytes_of_the_original_and_comes_back() -> None:
    assert Command(105, ext={"topic": "T"}, opaque=7).encode() == ROUTE
    (command,) = FrameReader().feed(ROUTE)
    assert (command.code, command.opaque, command.flag) == (105, 7, 0)
    assert (command.language, command.version, command.remark) == (0, 409, None)
    assert (command.ext, command.body) == ({"topic": "T"}, b"")
    assert command.serialization == Serialization.JSON
    assert not command.is_response
    assert not command.is_oneway
    assert "code=105" in repr(command)


@pytest.mark.parametrize("serialization", list(Serialization))
def test_a_response_answers_in_kind(serialization: Serialization) -> None:
    request = Command(34, opaque=-9, flag=2, serialization=serialization)
    (received,) = FrameReader().feed(request.encode())
    assert received.is_oneway
    response = Command.response_to(received, 17, remark="no", ext={"a": "ä"}, body=b"x")
    (answer,) = FrameReader().feed(response.encode())
    assert answer.is_response
    assert not answer.is_oneway
    assert (answer.code, answer.opaque, answer.remark) == (17, -9, "no")
    assert (answer.ext, answer.body) == ({"a": "ä"}, b"x")
    assert answer.serialization == serialization


def test_what_is_changed_is_written() -> None:
    fields = {"a": "1"}
    command = Command(1, ext=fields)
    command.ext["b"] = "2"
    command.opaque = 5
    command.body = b"body"
    assert fields == {"a": "1"}
    (read,) = FrameReader().feed(command.encode())
    assert (read.ext, read.opaque, read.body) == ({"a": "1", "b": "2"}, 5, b"body")


def test_values_must_be_strings() -> None:
    command = Command(1, ext={"queueId": 3})  # type: ignore[dict-item]
    with pytest.raises(TypeError):
        command.encode()


def test_frames_arrive_in_any_pieces_and_serializations_mix() -> None:
    binary = Command(14, ext={"k": "v"}, body=b"abc", serialization=1).encode()
    stream = ROUTE + binary + ROUTE
    reader = FrameReader()
    codes = []
    for at in range(0, len(stream), 10):
        codes += [command.code for command in reader.feed(memoryview(stream)[at : at + 10])]
    assert codes == [105, 14, 105]
    assert reader.kept_bytes == 0


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x7f\xff\xff\xff", mqcore.native.wire_errors.FrameTooLargeError),
        (b"\xff\xff\xff\xff", mqcore.native.wire_errors.FrameLengthError),
        (b"\0\0\0\x09\0\0\0\x06", mqcore.native.wire_errors.HeaderLengthError),
        (b"\0\0\0\x05\x07\0\0\0x", mqcore.native.wire_errors.UnknownSerializationError),
        (b"\0\0\0\x06\0\0\0\x02{]", mqcore.native.wire_errors.JsonHeaderError),
        (b"\0\0\0\x06\1\0\0\x02ab", mqcore.native.wire_errors.BinaryHeaderError),
        (b"GET / HTTP/1.1\r\n", mqcore.native.wire_errors.FrameTooLargeError),
    ],
)
def test_bad_bytes_are_named_and_what_came_before_is_kept(
    data: bytes, kind: type[mqcore.errors.FrameError]
) -> None:
    reader = FrameReader()
    with pytest.raises(kind) as caught:
        reader.feed(ROUTE + data)
    assert type(caught.value) is kind
    assert isinstance(caught.value, mqcore.errors.FrameError)
    assert [command.code for command in reader.before_error] == [105]


def test_a_smaller_cap_holds() -> None:
    with pytest.raises(mqcore.native.wire_errors.FrameTooLargeError) as caught:
        FrameReader(100).feed(ROUTE[:4])
    assert (caught.value.len_bytes, caught.value.max_bytes) == (131, 100)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(mqcore.native.wire_errors.CodeTooLargeError) as code:
        Command(200_050, serialization=1).encode()
    assert code.value.code == 200_050
    with pytest.raises(mqcore.native.wire_errors.CommandTooLongError) as long:
        Command(1, body=bytes(16 << 20)).encode()
    assert long.value.part == "body"
    with pytest.raises(mqcore.native.wire_errors.UnknownSerializationError):
        Command(1, serialization=2)


@pytest.mark.parametrize("kind", list(Compression))
@pytest.mark.parametrize("size", [0, 10, 100_000])
def test_bodies_come_back(kind: Compression, size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    small = compress(body, kind)
    assert decompress(small, kind, len(body)) == body
    with pytest.raises(mqcore.native.errors.CompressionError) as caught:
        decompress(small, kind, len(body) - 1)
    assert caught.value.compression == kind.name
    with pytest.raises(mqcore.native.errors.CompressionError):
        decompress(small[:-1], kind, len(body))


def test_zlib_is_that_of_everybody() -> None:
    assert decompress(zlib.compress(b"abc"), Compression.ZLIB, 3) == b"abc"
    assert zlib.decompress(compress(b"abc")) == b"abc"


def test_json_of_fastjson_is_read() -> None:
    text = (
        b'{"a":{0:"x",1:null},"t":{{"queueId":0,"topic":"T"}:{"n":1.5}},'
        b'"l":[true,-1,18446744073709551615]}'
    )
    value = parse_relaxed_json(text)
    assert value["a"] == {"0": "x", "1": None}
    assert value["l"] == [True, -1, 2**64 - 1]
    ((key, inner),) = value["t"].items()
    assert (json.loads(key), inner) == ({"queueId": 0, "topic": "T"}, {"n": 1.5})
    with pytest.raises(mqcore.native.wire_errors.JsonTextError) as caught:
        parse_relaxed_json(b'{"a":1,\n2:}')
    assert (caught.value.line, caught.value.column) == (2, 3)


def test_a_form_writes_what_a_command_writes() -> None:
    form = FrameForm(310, ("a", "b", "c"), 3, 409)
    frame = form.encode(7, ("ü\x01", -5, None), b"body", 2)
    (command,) = FrameReader().feed(frame)
    assert (command.code, command.opaque, command.flag) == (310, 7, 2)
    assert (command.language, command.version) == (3, 409)
    assert command.ext == {"a": "ü\x01", "b": "-5"}
    assert command.body == b"body"
    same = Command(310, ext={"a": "ü\x01", "b": "-5"}, body=b"body", opaque=7, flag=2)
    same.language, same.version = 3, 409
    assert same.encode() == frame


@pytest.mark.parametrize("values", [("a",), ("a", 1, 2, 3), ("a", b"b", 1), ("a", 1.5, 1)])
def test_a_form_takes_its_own_fields_only(values: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"fields|a str, an int or None"):
        FrameForm(310, ("a", "b", "c"), 3, 409).encode(1, values, b"")


def test_parts_name_what_is_no_message() -> None:
    parts = encode_parts([], "LEAD", 0, "")
    assert (parts.body, parts.ids) == (b"", "")
    with pytest.raises(AttributeError):
        encode_parts([7], "LEAD", 0, "")
