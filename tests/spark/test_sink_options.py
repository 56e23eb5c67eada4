"""The sink's options and columns: what is taken, and the error for everything else."""

import dataclasses
from pathlib import Path

import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from mqcore.native import Compression
from mqcore.remoting.tls import TlsFiles
from mqcore.spark.errors import SparkError
from mqcore.spark.topic_sink.columns import check_columns
from mqcore.spark.topic_sink.marks import query_mark, run_fault
from mqcore.spark.topic_sink.options import ClientOptions, SinkOptions, read_options

NAMESRV = {"namesrv": "a:9876"}


@pytest.mark.parametrize(
    ("text", "tls"),
    [("true", True), ("false", False), ("Unchecked", TlsFiles(checks_host=False))],
)
def test_tls_checks_host_names_unless_it_is_switched_off(text: str, tls: bool | TlsFiles) -> None:
    assert read_options(NAMESRV | {"tls": text}).client.tls == tls


def test_tls_is_one_of_three() -> None:
    with pytest.raises(SparkError, match="true, false or unchecked"):
        read_options(NAMESRV | {"tls": "maybe"})


def test_the_files_of_tls_are_options() -> None:
    given = {
        "tls.ca": "/ca.pem",
        "tls.cert": "/cert.pem",
        "TLS.key": "/key.pem",
        "tls.keyPassword": "hidden",
    }
    files = TlsFiles(
        trusted=Path("/ca.pem"),
        certificate=Path("/cert.pem"),
        key=Path("/key.pem"),
        key_password="hidden",
    )
    assert read_options(NAMESRV | given).client.tls == files
    assert read_options(NAMESRV | given | {"tls": "true"}).client.tls == files
    unchecked = read_options(NAMESRV | given | {"tls": "unchecked"}).client.tls
    assert unchecked == dataclasses.replace(files, checks_host=False)
    assert "hidden" not in repr(unchecked)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tls": "false", "tls.ca": "/ca.pem"}, r"tls is false, and tls\.ca needs it"),
        ({"tls.key": "/key.pem"}, r"tls\.key goes with tls\.cert"),
        ({"tls.cert": " "}, "a text that is not empty"),
        ({"tls.caa": "/ca.pem"}, r"did you mean tls\.ca"),
    ],
)
def test_options_of_tls_that_do_not_go_together(given: dict[str, str], words: str) -> None:
    with pytest.raises(SparkError, match=words):
        read_options(NAMESRV | given)


TYPES: dict[str, DataType] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "map<string,int>": MapType(StringType(), IntegerType()),
}


def schema(ddl: str) -> StructType:
    """Returns a schema without a JVM, which Spark's own parser needs."""
    made = StructType()
    for part in ddl.split("; "):
        name, kind = part.split(" ")
        made = made.add(name, TYPES[kind])
    return made


def test_options_have_defaults() -> None:
    assert read_options(NAMESRV) == SinkOptions(ClientOptions("a:9876"))


def test_options_are_read_in_any_case_and_under_old_names() -> None:
    made = read_options(
        {
            "NameServer": " a:1;b:2 ",
            "TOPIC": "orders",
            "batchbytes": "512k",
            "compression": "ZSTD",
            "retryBackoffMs": "2s",
            "marks": "False",
            "delivery": "at-least-once",
            "accessKey": "me",
            "secretKey": "hush",
            "checkpointLocation": "/somewhere",
        }
    )
    assert made.client.namesrv == "a:1;b:2"
    assert (made.topic, made.batch_bytes, made.compression) == (
        "orders",
        512 << 10,
        Compression.ZSTD,
    )
    assert (made.retry_backoff_ms, made.is_marked) == (2_000, False)
    assert made.client.access_key == "me"
    assert "hush" not in repr(made)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "the option namesrv is missing"),
        ({"topics": "a"}, "writing to topics has no option topics; did you mean topic?"),
        ({"flavour": "a"}, "has no option flavour; there are accessKey"),
        ({"path": "/x"}, "take no path here"),
        ({"batchBytes": "many"}, "the option batchBytes is 'many'; it must be a number of bytes"),
        ({"batchBytes": "0"}, "above 0"),
        ({"batchBytes": "8m"}, "more than maxMessageBytes"),
        ({"topic": "no spaces"}, "the option topic is 'no spaces':"),
        ({"compression": "rar"}, "one of none, lz4, zstd, zlib"),
        ({"delivery": "transactional"}, "one of at-least-once, exactly-once"),
        ({"delivery": "twice"}, "one of at-least-once"),
        ({"runId": "a/b"}, "the option runId is 'a/b': 1 to 64 letters"),
        ({"bootstrap.servers": "b:1"}, "given by two of its names"),
        ({"accessKey": "me"}, "go together"),
        ({"marks": "perhaps"}, "true or false"),
    ],
)
def test_what_cannot_work_is_one_sentence(given: dict[str, str], expected: str) -> None:
    options = given if not given else {**NAMESRV, **given}
    with pytest.raises(SparkError) as refused:
        read_options(options)
    assert expected in refused.value.message
    assert "\n" not in refused.value.message


def test_a_batch_is_never_longer_than_a_message_may_be() -> None:
    assert read_options({**NAMESRV, "maxMessageBytes": "64k"}).batch_bytes == 64 << 10


def test_columns_are_found_in_any_case_and_those_of_a_read_are_passed_over() -> None:
    found = check_columns(
        schema("BODY binary; queueOffset bigint; storeTimestamp timestamp; Tags string"),
        has_topic=True,
    )
    assert found == {"body": 0, "tags": 3}


@pytest.mark.parametrize(
    ("ddl", "has_topic", "expected"),
    [
        ("topic string", False, "has no column body"),
        ("body string", False, "option('topic', ...), or a column topic"),
        ("body int", True, "the column body is int, and binary or string can be written"),
        ("body string; value string", True, "did you mean body?"),
        ("body string; tag string", True, "did you mean tags?"),
        ("body string; zzz string", True, "there are body, topic, tags"),
        ("body string; Body binary", True, "has the column body twice"),
        ("body string; brokerName string", True, "and none of queueId"),
        ("body string; properties map<string,int>", True, "map<string,string> can be written"),
    ],
)
def test_columns_that_cannot_be_written_are_one_sentence(
    ddl: str, has_topic: bool, expected: str
) -> None:
    with pytest.raises(SparkError) as refused:
        check_columns(schema(ddl), has_topic=has_topic)
    assert expected in refused.value.message


def test_marks_are_short_and_legal() -> None:
    assert query_mark("0F9a1b2c-3d4e-5f60-7182-93a4b5c6d7e8") == "0f9a1b2c3d4e5f60"
    assert run_fault("nightly-2026.11:22") is None
    assert all(run_fault(text) for text in ("", "a b", "a/b", "\x01", "x" * 65))
