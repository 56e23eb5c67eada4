"""Messages as users make them, and as they come back. Pure values; knows no connection.

`Message` is checked when it is made, so that a mistake is reported where it was made; what only
a topic or a broker can check is reported when it is sent.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from mqcore.client.properties import (
    BORN_SEPARATORS,
    DELAY,
    DUPLICATES,
    KEYS,
    RESERVED,
    RETRY_TOPIC,
    SHARDING_KEY,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELIVER_MS,
    WAIT,
    properties_text,
)
from mqcore.client.results import QueueRef
from mqcore.errors import MessageError
from mqcore.model.topics import topic_fault
from mqcore.native import Message as StoredMessage
from mqcore.native import ReceivedMessage

__all__ = ["Message", "ReceivedMessage", "received_of"]

_NO_PROPERTIES: Final[Mapping[str, str]] = {}
_NO_KEYS: Final = ()
_MS_PER_S: Final = 1000
# The last moment of a `datetime`; what is later was meant in ms.
_LAST_MOMENT_MS: Final = 253_402_300_799_999
# The broker keeps the user's flag in a signed word.
_FLAG_BOUND: Final = 1 << 31
# Names of topics that were looked at and are legal; a program has few, and a flood starts anew.
_LEGAL_TOPICS_MAX: Final = 4096
_legal_topics: set[str] = set()


class Message:
    """A message to be sent. Treat it as frozen: it may be sent more than once, by any thread.

    Attributes:
        topic: Where it goes, without the namespace.
        body: Its content; `str` is taken as UTF-8.
        tags: Its tag, which consumers filter by.
        keys: Its keys, which tools find it by.
        properties: Names and values of the user's own.
        sharding_key: Messages of one key keep their order: they go to one queue.
        delay_level: The broker's level of delay, 1 to 18 unless it is set otherwise; 0 for none.
        delay_ms: For how long the broker holds it back, in ms; 0 for not at all.
        deliver_at_ms: When the broker lets it go, in ms since 1970; 0 for at once.
        flag: A number of the user's own.
        waits_stored: Whether the answer may come only when it is kept as the broker promises.
        is_delayed: Whether it is held back in any way.
        properties_text: All of it that is no body, as a record carries it.
    """

    __slots__ = (
        "body",
        "delay_level",
        "delay_ms",
        "deliver_at_ms",
        "flag",
        "is_delayed",
        "keys",
        "properties",
        "properties_text",
        "sharding_key",
        "tags",
        "topic",
        "waits_stored",
    )

    topic: str
    body: bytes
    tags: str | None
    keys: tuple[str, ...]
    properties: Mapping[str, str]
    sharding_key: str | None
    delay_level: int
    delay_ms: int
    deliver_at_ms: int
    flag: int
    waits_stored: bool
    is_delayed: bool
    properties_text: str

    def __init__(
        self,
        topic: str,
        body: bytes | bytearray | memoryview | str,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = _NO_KEYS,
        properties: Mapping[str, str] | None = None,
        sharding_key: str | None = None,
        delay_level: int = 0,
        delay: float | timedelta | None = None,
        deliver_at: float | datetime | None = None,
        flag: int = 0,
        waits_stored: bool = True,
    ) -> None:
        """Makes a message.

        Args:
            topic: Where it goes.
            body: Its content; `str` becomes UTF-8.
            tags: Its tag.
            keys: One key or several.
            properties: Names and values of the user's own.
            sharding_key: What orders it.
            delay_level: The broker's level of delay; one that it has not is taken as its highest.
            delay: For how long it is held back, in seconds; needs a broker with timers (5.x).
            deliver_at: When it is let go, in seconds since 1970, or a `datetime`; a time that is
                over means at once. Needs a broker with timers (5.x).
            flag: A number of the user's own.
            waits_stored: False lets the broker answer before a sync or a replica has it.

        Raises:
            MessageError: A part has the wrong type or holds what cannot be carried.
        """
        if topic not in _legal_topics:
            _check_topic(topic)
        self.topic = topic
        self.body = body if type(body) is bytes else _bytes_of(body)
        self.tags = tags
        self.sharding_key = sharding_key
        self.delay_level = delay_level
        self.delay_ms = self.deliver_at_ms = 0
        self.flag = flag
        self.waits_stored = waits_stored
        self.is_delayed = False
        if flag:
            _check_integer("flag", flag, -_FLAG_BOUND, _FLAG_BOUND - 1)
        if delay_level or delay is not None or deliver_at is not None:
            self.is_delayed = True
            self._delay(delay_level, delay, deliver_at)
        elif keys is _NO_KEYS and tags is sharding_key is None and waits_stored and not properties:
            self.keys = _NO_KEYS
            self.properties = _NO_PROPERTIES
            self.properties_text = ""
            return
        if tags is not None:
            _check_text("tags", tags)
        self.keys = () if keys == () else _keys_of(keys)
        self.properties = _properties_of(properties) if properties else _NO_PROPERTIES
        if sharding_key is not None:
            _check_text("sharding_key", sharding_key)
        self.properties_text = properties_text(self._pairs())

    def _pairs(self) -> dict[str, str]:
        """Returns all its properties under their official names."""
        found = dict(self.properties)
        if self.tags:
            found[TAGS] = self.tags
        if self.keys:
            found[KEYS] = " ".join(self.keys)
        if not self.waits_stored:
            found[WAIT] = "false"
        if self.sharding_key:
            found[SHARDING_KEY] = self.sharding_key
        if self.delay_level:
            found[DELAY] = str(self.delay_level)
        if self.delay_ms:
            found[TIMER_DELAY_MS] = str(self.delay_ms)
        if self.deliver_at_ms:
            found[TIMER_DELIVER_MS] = str(self.deliver_at_ms)
        return found

    def _delay(
        self,
        level: int,
        delay: float | timedelta | None,
        deliver_at: float | datetime | None,
    ) -> None:
        if bool(level) + (delay is not None) + (deliver_at is not None) > 1:
            raise MessageError("give one of delay_level, delay and deliver_at")
        _check_integer("delay_level", level, 0, _FLAG_BOUND - 1)
        if delay is not None:
            seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
            self.delay_ms = _ms_of("delay", seconds)
        if deliver_at is not None:
            moment = deliver_at.timestamp() if isinstance(deliver_at, datetime) else deliver_at
            self.deliver_at_ms = _ms_of("deliver_at", moment)
            if self.deliver_at_ms > _LAST_MOMENT_MS:
                raise MessageError(
                    f"deliver_at: {moment} s since 1970 is after the year 9999: are these ms?"
                )

    @property
    def is_timed(self) -> bool:
        """Whether it needs a broker with timers."""
        return bool(self.delay_ms or self.deliver_at_ms)

    def __repr__(self) -> str:
        """Returns what it is, with its size in place of its body."""
        named = "".join(
            f", {name}={value!r}"
            for name in ("tags", "keys", "sharding_key")
            if (value := getattr(self, name))
        )
        return f"Message({self.topic!r}, {len(self.body)} bytes{named})"

    def __eq__(self, other: object) -> bool:
        """Whether the other one would be sent the same."""
        if not isinstance(other, Message):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self) -> int:
        """Returns a hash of what rarely repeats."""
        return hash((self.topic, self.body, self.tags, self.keys))


def received_of(
    record: StoredMessage, broker_name: str, *, topic: str | None = None
) -> ReceivedMessage:
    """Returns a decoded record as consumers see it.

    Args:
        record: The record.
        broker_name: Who it came from.
        topic: What users call its topic; the record's own, or RETRY_TOPIC's, when not given.
    """
    queue = QueueRef(record.topic, broker_name, record.queue_id)
    if topic is None:
        topic = record.topic
        if topic.startswith("%RETRY%"):
            topic = record.properties.get(RETRY_TOPIC, topic)
    return ReceivedMessage(record, queue, topic)


def _check_topic(topic: str) -> None:
    if not isinstance(topic, str):
        raise MessageError(f"topic: a str is expected, not {type(topic).__name__}")
    fault = topic_fault(topic)
    if fault is not None:
        raise MessageError(f"topic {topic[:200]!r}: {fault}")
    if len(_legal_topics) >= _LEGAL_TOPICS_MAX:
        _legal_topics.clear()
    _legal_topics.add(topic)


def _bytes_of(body: object) -> bytes:
    if isinstance(body, str):
        try:
            return body.encode()
        except UnicodeEncodeError as error:
            raise MessageError(f"body: a text that UTF-8 cannot carry: {error}") from error
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise MessageError(f"body: bytes or str are expected, not {type(body).__name__}")


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise MessageError(f"{name}: a str is expected, not {type(value).__name__}")
    if any(separator in value for separator in BORN_SEPARATORS):
        raise MessageError(f"{name}: {value[:80]!r} holds \\x01 or \\x02, which end a property")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise MessageError(f"{name}: a text that UTF-8 cannot carry: {error}") from error


def _keys_of(keys: object) -> tuple[str, ...]:
    if isinstance(keys, str):
        keys = (keys,)
    if not isinstance(keys, Iterable):
        raise MessageError(f"keys: a str or several are expected, not {type(keys).__name__}")
    found = tuple(keys)
    for key in found:
        _check_text("keys", key)
    return found


def _properties_of(properties: object) -> dict[str, str]:
    if not isinstance(properties, Mapping):
        raise MessageError(f"properties: a mapping is expected, not {type(properties).__name__}")
    for name, value in properties.items():
        _check_text("properties: a name", name)
        _check_text(f"properties[{name!r}]", value)
        if not name.strip() or not value.strip():
            raise MessageError(f"properties: {name!r}: a name or its value is blank")
        if name in RESERVED:
            instead = DUPLICATES.get(name)
            hint = f"; use {instead}=" if instead else ""
            raise MessageError(f"properties: {name!r} is the system's own name{hint}")
    return dict(properties)


def _check_integer(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise MessageError(f"{name}: an int is expected, not {type(value).__name__}")
    if not low <= value <= high:
        raise MessageError(f"{name}: {value} is not within {low} to {high}")


def _ms_of(name: str, seconds: object) -> int:
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise MessageError(f"{name}: seconds are expected, not {type(seconds).__name__}")
    if not 0 < seconds < _FLAG_BOUND * _MS_PER_S:
        raise MessageError(f"{name}: {seconds} seconds lie behind or too far ahead")
    return max(1, round(seconds * _MS_PER_S))
