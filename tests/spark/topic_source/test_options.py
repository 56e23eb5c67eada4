"""Options of reading topics: names, aliases, values, and what contradicts itself."""

import json

import pytest

from mqcore.model.queues import MessageQueue
from mqcore.spark.options import OptionError
from mqcore.spark.topic_source.options import READ_TABLE, ReadOptions, read_options
from mqcore.spark.topic_source.queue_json import key_of, queue_of, queue_values

BASE = {"namesrv": "127.0.0.1:9876", "subscribe": "t"}
Q = MessageQueue("t", "broker-a", 3)


def batch(**options: str) -> ReadOptions:
    return read_options(BASE | options, is_stream=False)


def stream(**options: str) -> ReadOptions:
    return read_options(BASE | options, is_stream=True)


def test_names_count_in_any_case_and_old_names_are_known() -> None:
    found = read_options(
        {"NAMESERVER": "h:1", "Topic": "a, b", "subexpression": "x || y", "PULLBATCHSIZE": "32"},
        is_stream=True,
    )
    assert (found.namesrv, found.topics, found.tags) == ("h:1", ("a", "b"), "x || y")
    assert found.pull_rows == 32
    assert found.is_filtered


def test_sizes_times_and_durations_have_units() -> None:
    found = batch(
        maxBytesPerPartition="2m", startingTimestamp="1970-01-01T00:00:01", fetchTimeoutMs="3s"
    )
    assert found.bytes_per_partition == 2 << 20
    assert found.starting_ms == 1000
    assert found.fetch_timeout_ms == 3000


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(OptionError, match="did you mean startingOffsets") as caught:
        batch(startingOfsets="earliest")
    assert caught.value.option == "startingOfsets"


@pytest.mark.parametrize(
    ("is_stream", "options", "expected"),
    [
        (False, {"startingOffsets": "latest"}, "begins at latest has no rows"),
        (False, {"startingOffsets": json.dumps({key_of(Q): -1})}, "begins at latest"),
        (False, {"endingOffsets": "earliest"}, "latest, or JSON"),
        (False, {"startingTimestamp": "9", "endingTimestamp": "3"}, "lies behind endingTimestamp"),
        (False, {"maxOffsetsPerTrigger": "9"}, "is for streams"),
        (False, {"assign": '{"t": {"b": [0]}}'}, "exactly one of"),
        (False, {"filter": "a", "filterSql": "b > 1"}, "cannot stand together"),
        (False, {"startingOffsets": "group"}, "needs the option group"),
        (False, {"accessKey": "me"}, "belong together"),
        (False, {"failOnDataLoss": "maybe"}, "true or false"),
        (False, {"minPartitions": "0"}, "from 1 on"),
        (
            False,
            {
                "startingOffsets": json.dumps({key_of(Q): 9}),
                "endingOffsets": json.dumps({key_of(Q): 4}),
            },
            "behind its endingOffsets 4",
        ),
        (True, {"endingOffsets": '{"t@b:0": 3}'}, "a stream has no endingOffsets"),
        (True, {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "3"}, "is above"),
        (True, {"commitToGroup": "true"}, "needs the option group"),
        (True, {"pushdown": "true"}, "leave pushdown out"),
        (True, {"topic": "u"}, "given by two of its names"),
    ],
)
def test_what_cannot_work_is_refused(
    is_stream: bool, options: dict[str, str], expected: str
) -> None:
    with pytest.raises(OptionError, match=expected):
        read_options(BASE | options, is_stream=is_stream)


def test_without_name_server_or_topic_nothing_is_read() -> None:
    with pytest.raises(OptionError, match="namesrv is missing"):
        read_options({"subscribe": "t"}, is_stream=False)
    with pytest.raises(OptionError, match="exactly one of"):
        read_options({"namesrv": "h:1"}, is_stream=False)


def test_offsets_nested_and_flat_are_the_same() -> None:
    nested = queue_values("o", '{"t": {"broker-a": {"3": 7, "4": -2}}}', -2)
    assert nested == queue_values("o", '{"t@broker-a:3": 7, "t@broker-a:4": -2}', -2)
    assert nested[Q] == 7
    assert queue_of(key_of(Q)) == Q


@pytest.mark.parametrize("text", ["[]", "{}", '{"t": 3}', '{"t": {"b": {"x": 1}}}', '{"t@b:0":-3}'])
def test_other_json_has_no_offsets(text: str) -> None:
    with pytest.raises(OptionError, match="must be"):
        queue_values("startingOffsets", text, -2)


def test_secrets_are_not_shown_and_are_named_so_that_spark_hides_them() -> None:
    found = batch(accessKey="me", secretKey="hush")
    assert "hush" not in repr(found)
    names = {option.name.lower() for option in READ_TABLE.options}
    assert {"secretkey", "securitytoken"} <= names
