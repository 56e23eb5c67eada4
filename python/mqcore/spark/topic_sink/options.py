"""The options of `df.write.format("mqcore")`: their table, and what they mean together. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mqcore.client.settings import BODY_BYTES_MAX
from mqcore.model.topics import topic_fault
from mqcore.native import Compression
from mqcore.remoting.tls import TlsFiles
from mqcore.spark.options import (
    CONNECTION,
    Option,
    OptionError,
    OptionTable,
    choice,
    contradiction,
    duration_ms,
    number,
    positive,
    size_bytes,
    text,
    truth,
)
from mqcore.spark.topic_sink.marks import run_fault

__all__ = ["SINK_OPTIONS", "ClientOptions", "SinkOptions", "read_options"]

# What Spark itself puts beside the user's options.
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})
# Measured: from 64 KiB on a request costs the broker no less per row, and beyond 512 KiB more.
_BATCH_BYTES: Final = 256 << 10
_AT_LEAST_ONCE: Final = "at-least-once"
_EXACTLY_ONCE: Final = "exactly-once"
# A name that no topic of a user has by chance.
_DECISION_TOPIC: Final = "MQCORE_SPARK_DECISIONS"


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Whom we speak to, and as whom. What equals may share connections.

    Attributes:
        namesrv: Name servers.
        group: The producer's group.
        access_key: The account, where brokers ask for one.
        secret_key: Its secret.
        security_token: The token of a temporary account.
        namespace: Put before topics and groups.
        tls: Whether to speak TLS.
    """

    namesrv: str
    group: str = "MQCORE_SPARK"
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)
    namespace: str | None = None
    tls: bool | TlsFiles = False


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """How rows are written.

    Attributes:
        client: Whom we speak to.
        topic: Where all rows go; None where a column has it.
        run_id: What names a batch write; None makes one up.
        is_marked: Whether rows carry what identifies repeats.
        batch_bytes: Bytes at which a request leaves.
        message_bytes_max: The longest body.
        compression: How bodies are made small, or None.
        compress_above_bytes: Bodies below stay as they are.
        in_flight: Requests of a task that wait for their answer.
        request_timeout_ms: How long a try may take.
        retries: Further tries after the first.
        retry_backoff_ms: What is waited before the first of them; doubled each time.
        is_exact: Whether every row of a streaming query is read once.
        decision_topic: Where it is written then which rows of an epoch count.
    """

    client: ClientOptions
    topic: str | None = None
    run_id: str | None = None
    is_marked: bool = True
    batch_bytes: int = _BATCH_BYTES
    message_bytes_max: int = BODY_BYTES_MAX
    compression: Compression | None = None
    compress_above_bytes: int = 4096
    in_flight: int = 4
    request_timeout_ms: int = 30_000
    retries: int = 5
    retry_backoff_ms: int = 200
    is_exact: bool = False
    decision_topic: str = _DECISION_TOPIC


def _topic(option: str, value: str) -> str:
    fault = topic_fault(value)
    if fault is not None:
        raise OptionError(f"the option {option} is {value!r}: {fault}", option=option)
    return value


def _run_id(option: str, value: str) -> str:
    fault = run_fault(value)
    if fault is not None:
        raise OptionError(f"the option {option} is {value!r}: {fault}", option=option)
    return value


def _compression(option: str, value: str) -> Compression | None:
    name = choice("none", *(kind.name.lower() for kind in Compression))(option, value)
    return None if name == "none" else Compression[name.upper()]


def _delivery(option: str, value: str) -> bool:
    name: str = choice(_AT_LEAST_ONCE, _EXACTLY_ONCE)(option, value)
    return name == _EXACTLY_ONCE


_CLIENT: Final = (
    Option("group", "group", text, ("producerGroup",), "the producer's group"),
    Option("namespace", "namespace", text, (), "put before topics and groups"),
)
_WRITING: Final = (
    Option("topic", "topic", _topic, (), "where all rows go; else the column topic says it"),
    Option("delivery", "is_exact", _delivery, (), "at-least-once or exactly-once; the first"),
    Option("decisionTopic", "decision_topic", _topic, (), f"of exactly-once; {_DECISION_TOPIC}"),
    Option("runId", "run_id", _run_id, (), "names a batch write, so that it can be repeated"),
    Option("marks", "is_marked", truth, (), "whether rows carry what tells repeats; true"),
    Option("batchBytes", "batch_bytes", size_bytes, (), "bytes at which a request leaves; 256k"),
    Option("maxMessageBytes", "message_bytes_max", size_bytes, (), "the longest body; 4m"),
    Option("compression", "compression", _compression, (), "none, lz4, zstd or zlib; none"),
    Option("compressAboveBytes", "compress_above_bytes", number, (), "shorter bodies stay; 4096"),
    Option("maxInFlight", "in_flight", positive, (), "unanswered requests of a task; 4"),
    Option("retries", "retries", number, (), "further tries of a request; 5"),
    Option("retryBackoffMs", "retry_backoff_ms", duration_ms, (), "before them, doubled; 200ms"),
)
SINK_OPTIONS: Final = OptionTable("writing to topics", CONNECTION, _CLIENT, _WRITING)
_OF_CLIENT: Final = frozenset(ClientOptions.__slots__)


def read_options(given: Mapping[str, str]) -> SinkOptions:
    """Returns what the options mean.

    Args:
        given: Names, in any case, and texts.

    Raises:
        OptionError: One is unknown, has a value that it cannot have, or contradicts another.
    """
    if any(name.lower() == "path" for name in given):
        raise contradiction(
            "path",
            "save() and start() take no path here: rows go to option('topic', ...) or where the "
            "column topic says",
        )
    values = SINK_OPTIONS.parse(
        {name: value for name, value in given.items() if name.lower() not in _OF_SPARK}
    )
    if "namesrv" not in values:
        raise contradiction("namesrv", "the option namesrv is missing: host:port;host:port")
    if ("access_key" in values) != ("secret_key" in values):
        raise contradiction("secretKey", "the options accessKey and secretKey go together")
    if values.get("is_exact") and not values.get("is_marked", True):
        raise contradiction(
            "marks", "the option delivery is exactly-once, which tells rows by their marks"
        )
    longest = values.get("message_bytes_max", BODY_BYTES_MAX)
    if values.get("batch_bytes", 0) > longest:
        raise contradiction(
            "batchBytes",
            f"the option batchBytes is {values['batch_bytes']}, more than maxMessageBytes, "
            f"{longest}: no broker would take such a request",
        )
    values.setdefault("batch_bytes", min(_BATCH_BYTES, longest))
    client = {name: values.pop(name) for name in _OF_CLIENT & values.keys()}
    return SinkOptions(ClientOptions(**client), **values)
