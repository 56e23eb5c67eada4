"""What a request needs that neither header nor body has: the topic of the message that it names.

The message is read, and the topic that it was sent to counts, whatever the header has. With
`BODY_PAIRS`, and those that the fast path looks at itself, these are all codes whose rule has
`body`: a difference ends the start. Reads the disk in threads; decides nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from mqcore.access import BODY_PAIRS, Pair, cluster_pair, topic_pair
from mqcore.broker.consumer_offsets import topics_of_group
from mqcore.broker.state import BrokerState
from mqcore.errors import MQError
from mqcore.model.message_ids import parse_offset_id
from mqcore.model.topics import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from mqcore.native import Command
from mqcore.remoting import RULES, RequestCode
from mqcore.remoting.permissions import BODY

__all__ = ["StoredPairs", "pairs_of_body"]

# In these the broker itself has noted where a message was sent to.
_KEEPS_TOPIC: Final = frozenset({HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, CHECK_MAX_TIME_TOPIC})
# Which the fast path executes: it looks at body and store by itself.
_IN_FAST_PATH: Final = frozenset(
    {
        RequestCode.CONSUMER_SEND_MSG_BACK,
        RequestCode.END_TRANSACTION,
        RequestCode.BATCH_ACK_MESSAGE,
    }
)
_REAL_TOPIC: Final = "REAL_TOPIC"
_Look: TypeAlias = Callable[[Command], Awaitable[list[Pair]]]


class StoredPairs:
    """Looks messages up, for what their requests need."""

    def __init__(self, state: BrokerState) -> None:
        """Takes where to look.

        Raises:
            RuntimeError: There is a code whose rule has `body`, and nobody who looks.
        """
        self._state = state
        self.looks: dict[int, _Look] = {
            RequestCode.VIEW_MESSAGE_BY_ID: self._viewed,
            RequestCode.GET_CONSUME_STATS: self._stats,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consumed,
            RequestCode.CLONE_GROUP_OFFSET: self._cloned,
            RequestCode.RESUME_CHECK_HALF_MESSAGE: self._resumed,
            RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: self._progress,
        }
        wanted = {code for code, rule in RULES.items() if rule.rpartition(", ")[2] == BODY}
        there = self.looks.keys() | BODY_PAIRS.keys() | _IN_FAST_PATH
        differing = wanted.symmetric_difference(there)
        if differing:
            raise RuntimeError(f"rules with `body` differ from who looks: {sorted(differing)}")

    async def _topic_at(self, physical_offset: int) -> str | None:
        """Returns where the message at a place of the log was sent to, None for no message."""
        if physical_offset < 0:
            return None
        try:
            found = await asyncio.to_thread(self._state.store.message_at, physical_offset)
        except MQError:
            # The handler refuses it in its own words.
            return None
        if found.topic in _KEEPS_TOPIC:
            return found.properties.get(_REAL_TOPIC, found.topic)
        return found.topic

    async def _of_message(self, offset: int | None, action: str) -> list[Pair]:
        topic = None if offset is None else await self._topic_at(offset)
        return [] if topic is None else [topic_pair(topic, action)]

    async def _viewed(self, command: Command) -> list[Pair]:
        """33: Get of the message's topic."""
        return await self._of_message(_number(command, "offset"), "Get")

    async def _consumed(self, command: Command) -> list[Pair]:
        """309: the group must be allowed to read the message."""
        return await self._of_message(_offset_named(command), "Sub")

    async def _resumed(self, command: Command) -> list[Pair]:
        """323: Update of the topic that the half message is for."""
        return await self._of_message(_offset_named(command), "Update")

    async def _stats(self, command: Command) -> list[Pair]:
        """208: Get of the topics that are named; without any the answer leaves topics out."""
        named = [each for each in command.ext.get("topicList", "").split(";") if each]
        one = command.ext.get("topic")
        return [topic_pair(each, "Get") for each in named or ([one] if one else [])]

    async def _cloned(self, command: Command) -> list[Pair]:
        """314: Update of the topic; without one of every topic of the group."""
        one = command.ext.get("topic", "").strip()
        if one:
            return [topic_pair(one, "Update")]
        offsets, group = self._state.fast_path.offsets, command.ext.get("srcGroup", "")
        topics = await asyncio.to_thread(lambda: topics_of_group(offsets.snapshot(), group))
        return [topic_pair(each, "Update") for each in topics]

    async def _progress(self, command: Command) -> list[Pair]:
        """354: Get of the topic; without one of the cluster."""
        topic = command.ext.get("topic", "").strip()
        if topic:
            return [topic_pair(topic, "Get")]
        return [cluster_pair(self._state.settings.cluster, "Get")]


def pairs_of_body(command: Command) -> list[Pair] | None:
    """Returns what the body of a request needs; None where its rule does not ask for that."""
    extract = BODY_PAIRS.get(command.code)
    return None if extract is None else extract(command.ext, command.body)


def _number(command: Command, name: str) -> int | None:
    text = command.ext.get(name, "")
    return int(text) if text.lstrip("-").isdecimal() and len(text) <= 20 else None


def _offset_named(command: Command) -> int | None:
    parsed = parse_offset_id(command.ext.get("msgId", ""))
    return None if parsed is None else parsed.physical_offset
