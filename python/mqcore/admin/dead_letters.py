"""Messages that a group failed on too often: listed, and sent again.

A broker puts them into the topic `%DLQ%GROUP`, with the topic that they came from as a property.
Knows nothing of who asks, and of how they are shown.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import count
from typing import Final

from mqcore.admin.arguments import group_text, of_type, texts_of, unix_ms, whole
from mqcore.admin.groups import Groups, unknown_group
from mqcore.admin.messages import Messages
from mqcore.admin.topics import Topics
from mqcore.admin.transport import Transport
from mqcore.client.properties import KEYS, RESERVED, RETRY_TOPIC, TAGS, UNIQ_KEY, properties_text
from mqcore.clock import wall_ms
from mqcore.errors import MQError, NoRouteError
from mqcore.model.queues import MessageQueue
from mqcore.model.topics import DLQ_PREFIX, RETRY_PREFIX
from mqcore.native import Message
from mqcore.remoting import RequestCode, ResponseCode

__all__ = ["DeadLetter", "DeadLetters", "ResendResult", "Resent"]

_PAGE: Final = 32
_FOREVER_MS: Final = 2**63 - 1
# The name of the group that sends again, as the official clients' inner producer has it.
_PRODUCER: Final = "CLIENT_INNER_PRODUCER"
_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
_ORIGIN_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
# Of the reserved properties those that belong to the message and not to one of its deliveries.
_KEPT: Final = frozenset({KEYS, TAGS, UNIQ_KEY, "__SHARDINGKEY", "INSTANCE_ID", "BUYER_ID"})
# How a body is compressed; the other flags are of one record in a store.
_COMPRESSION_BITS: Final = 0x701


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message that a group failed on too often.

    Attributes:
        message: As it is stored in the group's dead letter topic.
        queue: Where it lies.
        origin_topic: The topic that it came from, None where it is not known.
    """

    message: Message
    queue: MessageQueue
    origin_topic: str | None

    @property
    def message_id(self) -> str:
        """The id that its producer gave it, or the offset id of the dead letter without one."""
        return self.message.uniq_key or self.message.message_id


@dataclass(frozen=True, slots=True)
class Resent:
    """Where a dead letter went.

    Attributes:
        queue: The queue that has it now.
        offset: Its queue offset there.
    """

    queue: MessageQueue
    offset: int


@dataclass(frozen=True, slots=True)
class ResendResult:
    """What became of one dead letter that was to be sent again.

    Attributes:
        letter: Which.
        resent: Where it went; None where it was not sent.
        error: Why it was not sent; None where it was, and of a dry run.
    """

    letter: DeadLetter
    resent: Resent | None = None
    error: MQError | None = None


class DeadLetters:
    """The dead letters of a cluster's groups."""

    def __init__(self, transport: Transport) -> None:
        """Takes the way to the servers."""
        self._transport = transport
        self._topics = Topics(transport)
        self._groups = Groups(transport)
        self._messages = Messages(transport)
        self._turn = count()

    async def of_group(
        self,
        group: str,
        *,
        begin_ms: int | datetime = 0,
        end_ms: int | datetime = _FOREVER_MS,
        limit: int | None = None,
    ) -> list[DeadLetter]:
        """Returns the dead letters of a group, the oldest first.

        Args:
            group: Which.
            begin_ms: Dead not before: Unix ms, or a `datetime` with a time zone.
            end_ms: Dead not behind: likewise.
            limit: At most so many.

        Raises:
            MQError: There is no such group.
        """
        group_text(group)
        begin, end = unix_ms("begin_ms", begin_ms), unix_ms("end_ms", end_ms)
        if limit is not None:
            whole("limit", limit, 1)
        topic = f"{DLQ_PREFIX}{group}"
        try:
            queues = (await self._topics.stats(topic)).queues
        except NoRouteError:
            # Nothing ever failed so often; a name that was mistyped is an error.
            if group not in await self._groups.configs():
                raise unknown_group(group) from None
            return []
        found = []
        for row in queues:
            low = row.min_offset
            if begin > 0:
                low = max(low, await self._topics.offset_at(row.queue, begin))
            if low < row.max_offset:
                found.append(await self._read(row.queue, low, begin, end, limit))
        letters = merge(*found, key=lambda letter: letter.message.store_timestamp_ms)
        return [letter for letter, _ in zip(letters, _numbers(limit), strict=False)]

    async def _read(
        self, queue: MessageQueue, offset: int, begin_ms: int, end_ms: int, limit: int | None
    ) -> list[DeadLetter]:
        """Reads one queue from an offset on, to the end or the limit."""
        found: list[DeadLetter] = []
        while limit is None or len(found) < limit:
            page = await self._messages.at(queue, offset, _PAGE)
            if not page:
                break
            offset = page[-1].queue_offset + 1
            # Brokers of 4.9 give the last message for a time behind it.
            in_time = [each for each in page if begin_ms <= each.store_timestamp_ms <= end_ms]
            found += [DeadLetter(each, queue, origin_topic(each.properties)) for each in in_time]
            if page[-1].store_timestamp_ms > end_ms:
                break
        return found

    async def resend(self, group: str, letter: DeadLetter, *, only_group: bool = False) -> Resent:
        """Sends a dead letter again, as a new message with its first id.

        The dead letter itself stays: whoever sends it twice, has it twice.

        Args:
            group: Whose.
            letter: Which.
            only_group: Whether it goes to the group alone, by its retry topic, instead of to
                everybody who reads the topic that it came from.

        Raises:
            MQError: The topic that it came from is not known, or cannot be written.
            ResponseError: A broker refuses it.
        """
        group_text(group)
        of_type("letter", letter, DeadLetter)
        origin = letter.origin_topic
        if origin is None:
            raise MQError(f"{letter.message_id}: the topic that it came from is not known")
        topic = f"{RETRY_PREFIX}{group}" if only_group else origin
        properties = resent_properties(letter.message, origin, only_group=only_group)
        queues = (await self._transport.route(topic)).write_queues
        if not queues:
            raise MQError(f"{letter.message_id}: no queue of topic {topic} can be written now")
        return await self._send(queues[next(self._turn) % len(queues)], letter, properties)

    async def resend_all(
        self,
        group: str,
        *,
        ids: Iterable[str] = (),
        begin_ms: int | datetime = 0,
        end_ms: int | datetime = _FOREVER_MS,
        limit: int | None = None,
        only_group: bool = False,
        dry_run: bool = False,
    ) -> list[ResendResult]:
        """Sends dead letters of a group again, the oldest first; one that fails stops none.

        The dead letters themselves stay: whoever sends them twice, has them twice.

        Args:
            group: Whose.
            ids: Only these: ids of producers, or offset ids of the dead letters.
            begin_ms: Dead not before: Unix ms, or a `datetime` with a time zone.
            end_ms: Dead not behind: likewise.
            limit: At most so many.
            only_group: Whether they go to the group alone; see `resend`.
            dry_run: Whether to send nothing, and return what would be sent.

        Returns:
            A result for each dead letter that was chosen.

        Raises:
            MQError: There is no such group.
        """
        named = frozenset(texts_of("ids", ids))
        if limit is not None:
            whole("limit", limit, 1)
        bound = None if named else limit
        found = await self.of_group(group, begin_ms=begin_ms, end_ms=end_ms, limit=bound)
        chosen = [each for each in found if not named or _is_named(each, named)][:limit]
        if dry_run:
            return [ResendResult(letter) for letter in chosen]
        return [await self._resend_one(group, letter, only_group) for letter in chosen]

    async def _resend_one(self, group: str, letter: DeadLetter, only_group: bool) -> ResendResult:
        try:
            resent = await self.resend(group, letter, only_group=only_group)
        except MQError as error:
            return ResendResult(letter, error=error)
        return ResendResult(letter, resent)

    async def _send(
        self, queue: MessageQueue, letter: DeadLetter, properties: dict[str, str]
    ) -> Resent:
        message = letter.message
        ext = {
            "a": _PRODUCER,
            "b": queue.topic,
            "c": "TBW102",
            "d": "4",
            "e": str(queue.queue_id),
            "f": str(message.sys_flag & _COMPRESSION_BITS),
            "g": str(wall_ms()),
            "h": str(message.flag),
            "i": properties_text(properties),
            "j": "0",
            "k": "false",
            "m": "false",
            "n": queue.broker_name,
        }
        # Stored, though not yet flushed or copied in time: sent once more it would be there twice.
        stored = (
            ResponseCode.FLUSH_DISK_TIMEOUT,
            ResponseCode.SLAVE_NOT_AVAILABLE,
            ResponseCode.FLUSH_SLAVE_TIMEOUT,
        )
        answer = await self._transport.ask(
            await self._transport.address_of(queue),
            RequestCode.SEND_MESSAGE_V2,
            ext,
            message.stored_body,
            fine=stored,
        )
        return Resent(queue, int(answer.ext.get("queueOffset", -1)))


def origin_topic(properties: dict[str, str]) -> str | None:
    """Returns the topic that a dead letter came from: as brokers name it, or the proxy of 5.x."""
    return properties.get(RETRY_TOPIC) or properties.get(_ORIGIN_TOPIC)


def resent_properties(message: Message, origin: str, *, only_group: bool) -> dict[str, str]:
    """Returns the properties of a dead letter that is sent again: its user's, and its origin."""
    kept = {
        name: value
        for name, value in message.properties.items()
        if name not in RESERVED or name in _KEPT
    }
    kept[_ORIGIN_TOPIC] = origin
    kept[_ORIGIN_ID] = message.properties.get("ORIGIN_MESSAGE_ID") or message.message_id
    if only_group:
        kept[RETRY_TOPIC] = origin
    return kept


def _is_named(letter: DeadLetter, ids: Collection[str]) -> bool:
    return letter.message_id in ids or letter.message.message_id in ids


def _numbers(limit: int | None) -> Iterable[int]:
    return count() if limit is None else range(limit)
