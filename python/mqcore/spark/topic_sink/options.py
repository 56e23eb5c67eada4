"""The options of `df.write.format("mqcore")`: one table of names, defaults and readers.

Names in any case, as Spark gives them. An unknown one is an error that names the nearest. Pure.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mqcore.client.settings import BODY_BYTES_MAX
from mqcore.errors import MQError
from mqcore.model.topics import topic_fault
from mqcore.native import Compression
from mqcore.spark.errors import SparkError
from mqcore.spark.topic_sink.marks import run_mark

__all__ = ["SINK_OPTIONS", "ClientOptions", "SinkOptions", "read_options"]

# What Spark itself puts beside the user's options.
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})
_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20}
_TIMES_MS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000}
_TRUTHS: Final = {"true": True, "false": False}
DELIVERY: Final = "at-least-once"
_LATER_DELIVERIES: Final = ("idempotent", "transactional")


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
        is_tls: Whether to speak TLS.
    """

    namesrv: str
    group: str = "MQCORE_SPARK"
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)
    namespace: str | None = None
    is_tls: bool = False


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """How rows are written.

    Attributes:
        client: Whom we speak to.
        topic: Where all rows go; None where a column says it.
        run_id: What names a batch write; None makes one up.
        is_marked: Whether rows carry what tells repeats.
        batch_bytes: Bytes at which a request leaves.
        message_bytes_max: The longest body.
        compression: How bodies are made small, or None.
        compress_above_bytes: Bodies below stay as they are.
        in_flight: Requests of a task that wait for their answer.
        send_timeout_ms: How long a try may take.
        retries: Further tries after the first.
        retry_backoff_ms: What is waited before the first of them; doubled each time.
    """

    client: ClientOptions
    topic: str | None = None
    run_id: str | None = None
    is_marked: bool = True
    batch_bytes: int = 1 << 20
    message_bytes_max: int = BODY_BYTES_MAX
    compression: Compression | None = None
    compress_above_bytes: int = 4096
    in_flight: int = 4
    send_timeout_ms: int = 30_000
    retries: int = 5
    retry_backoff_ms: int = 200


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text.strip()


def _topic(text: str) -> str:
    fault = topic_fault(text)
    if fault is not None:
        raise ValueError(fault)
    return text


def _truth(text: str) -> bool:
    try:
        return _TRUTHS[text.strip().lower()]
    except KeyError:
        raise ValueError("true or false is expected") from None


def _scaled(text: str, units: Mapping[str, int], example: str) -> int:
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if found is None or found[2] not in units:
        raise ValueError(f"a number such as {example} is expected")
    return int(found[1]) * units[found[2]]


def _bytes(text: str) -> int:
    value = _scaled(text, _UNITS, "65536, 512k or 1m")
    if value < 1:
        raise ValueError("it must be above 0")
    return value


def _bytes_or_none(text: str) -> int:
    return _scaled(text, _UNITS, "0, 4096 or 4k")


def _time_ms(text: str) -> int:
    return _scaled(text, _TIMES_MS, "200, 200ms or 30s")


def _above_zero(read: Callable[[str], int]) -> Callable[[str], int]:
    def reader(text: str) -> int:
        value = read(text)
        if value < 1:
            raise ValueError("it must be above 0")
        return value

    return reader


def _count(text: str) -> int:
    return _scaled(text, {"": 1}, "5")


def _compression(text: str) -> Compression | None:
    name = text.strip().upper()
    if name == "NONE":
        return None
    try:
        return Compression[name]
    except KeyError:
        raise ValueError("none, lz4, zstd or zlib is expected") from None


def _delivery(text: str) -> str:
    name = text.strip().lower()
    if name in _LATER_DELIVERIES:
        raise ValueError(
            f"this version delivers {DELIVERY} only; rows carry marks, and "
            "mqcore.spark.drop_repeats leaves one of each"
        )
    if name != DELIVERY:
        raise ValueError(f"{DELIVERY} is expected")
    return name


@dataclass(frozen=True, slots=True)
class _Option:
    """One option: the name that users write, what reads it, which attribute it becomes."""

    name: str
    read: Callable[[str], Any]
    attribute: str
    aliases: tuple[str, ...] = ()
    is_client: bool = False


# The names of Kafka's connector where it has one, and of the old rocketmq-spark as aliases.
SINK_OPTIONS: Final = (
    _Option(
        "namesrv",
        _text,
        "namesrv",
        ("nameServer", "nameserver.addr", "bootstrap.servers", "kafka.bootstrap.servers"),
        is_client=True,
    ),
    _Option("topic", _topic, "topic"),
    _Option("delivery", _delivery, ""),
    _Option("runId", run_mark, "run_id"),
    _Option("marks", _truth, "is_marked"),
    _Option("batchBytes", _bytes, "batch_bytes"),
    _Option("maxMessageBytes", _bytes, "message_bytes_max"),
    _Option("compression", _compression, "compression"),
    _Option("compressAboveBytes", _bytes_or_none, "compress_above_bytes"),
    _Option("maxInFlight", _above_zero(_count), "in_flight"),
    _Option("sendTimeoutMs", _above_zero(_time_ms), "send_timeout_ms"),
    _Option("retries", _count, "retries"),
    _Option("retryBackoffMs", _time_ms, "retry_backoff_ms"),
    _Option("group", _text, "group", ("producerGroup",), is_client=True),
    _Option("mqcore.accessKey", _text, "access_key", is_client=True),
    _Option("mqcore.secretKey", _text, "secret_key", is_client=True),
    _Option("mqcore.securityToken", _text, "security_token", is_client=True),
    _Option("mqcore.namespace", _text, "namespace", is_client=True),
    _Option("mqcore.tls", _truth, "is_tls", is_client=True),
)
_BY_FOLDED_NAME: Final = {
    name.lower(): option for option in SINK_OPTIONS for name in (option.name, *option.aliases)
}


def read_options(given: Mapping[str, str]) -> SinkOptions:
    """Returns what the options say.

    Args:
        given: Names, in any case, and texts.

    Raises:
        SparkError: One is unknown, given twice under two names, has a value that it cannot have,
            or two contradict one another.
    """
    values: dict[str, Any] = {}
    of_client: dict[str, Any] = {}
    named: dict[_Option, str] = {}
    for name, text in given.items():
        if name.lower() in _OF_SPARK:
            continue
        option = _BY_FOLDED_NAME.get(name.lower())
        if option is None:
            raise _unknown(name)
        if option in named:
            raise SparkError(f"options {named[option]} and {name} say the same: give one of them")
        named[option] = name
        value = _read(option, name, text)
        if option.attribute:
            (of_client if option.is_client else values)[option.attribute] = value
    if "namesrv" not in of_client:
        raise SparkError("option namesrv is missing: the name servers, host:port;host:port")
    if ("access_key" in of_client) != ("secret_key" in of_client):
        raise SparkError("options mqcore.accessKey and mqcore.secretKey go together")
    made = SinkOptions(ClientOptions(**of_client), **values)
    if made.batch_bytes > made.message_bytes_max:
        if "batch_bytes" in values:
            raise SparkError(
                f"option batchBytes: {made.batch_bytes} is more than maxMessageBytes, "
                f"{made.message_bytes_max}: no broker would take such a request"
            )
        values["batch_bytes"] = made.message_bytes_max
        made = SinkOptions(made.client, **values)
    return made


def _read(option: _Option, name: str, text: str) -> Any:
    try:
        return option.read(text)
    except ValueError as error:
        shown = "" if "secret" in name.lower() or "token" in name.lower() else f" {text!r}:"
        raise SparkError(f"option {name}:{shown} {error}") from None
    except MQError as error:
        raise SparkError(error.message) from None


def _unknown(name: str) -> SparkError:
    if name.lower() == "path":
        return SparkError(
            "save() and start() take no path here: rows go to option('topic', ...) or where the "
            "column topic says"
        )
    near = difflib.get_close_matches(name.lower(), _BY_FOLDED_NAME, n=1)
    if near:
        hint = f"did you mean {_BY_FOLDED_NAME[near[0]].name}?"
    else:
        hint = "there are " + ", ".join(option.name for option in SINK_OPTIONS)
    return SparkError(f"there is no option {name}; {hint}")
