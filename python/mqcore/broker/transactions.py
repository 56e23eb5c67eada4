"""The check of half messages: when to look, whom to ask, how far the queues were checked.

The bulk of a round is the fast path's (`HalfMessages.check`); which producer is asked, and what has
to be durable before an offset is written down, is decided here. Follows
`TransactionalMessageServiceImpl` and `AbstractTransactionalMessageCheckListener`.
"""

import asyncio
import logging
from itertools import count

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.state import BrokerState
from mqcore.errors import MQError
from mqcore.model.topics import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, TopicConfig
from mqcore.native import CheckedHalves, CheckQuestion, CheckRules
from mqcore.remoting import Link, RequestCode

_log = logging.getLogger("mqcore.broker")

# The group that the official broker keeps its own offsets under.
GROUP = "CID_RMQ_SYS_TRANS"

# Dispatch follows the log within milliseconds; with synchronous flush behind the sync.
_DISPATCHED_TIMEOUT_MS = 5_000
_MS_PER_HOUR = 3_600_000
# Queues of the topic for what is given up, as officially.
_GIVEN_UP_QUEUES = 1


class HalfMessages:
    """Rounds over the half queues of one broker."""

    def __init__(self, state: BrokerState, persistence: ConfigPersistence) -> None:
        """Takes what it works on."""
        self._state = state
        self._persistence = persistence
        self._turns = count()

    async def begin(self, queue_id: int) -> "Round":
        """Begins a round over one queue: what is ended by now is known to it.

        Raises:
            MQError: Ends cannot be noted, or dispatch does not go on.
        """
        written = self._state.fast_path.half_messages.write_op_messages()
        if not written.is_all:
            raise MQError("transactions are not checked: their ends cannot be noted in the log now")
        store = self._state.store
        await asyncio.to_thread(
            store.wait_dispatched, written.end, timeout_ms=_DISPATCHED_TIMEOUT_MS
        )
        return Round(self, queue_id)

    async def check(self, queue_id: int, until: int | None, ahead_ms: int) -> CheckedHalves:
        """Goes on with a round: stores anew, writes down how far it came, asks.

        Raises:
            StoreError: Something could not be read, stored or synced.
        """
        fast_path, store = self._state.fast_path, self._state.store
        done = await asyncio.to_thread(
            fast_path.half_messages.check,
            queue_id,
            self._offset(HALF_TOPIC, queue_id),
            self._offset(OP_HALF_TOPIC, queue_id),
            self._rules(ahead_ms),
            until=until,
        )
        if done.end:
            # The offsets must not be beyond what power loss leaves of the copies.
            await asyncio.to_thread(store.flush)
        fast_path.offsets.commit(GROUP, HALF_TOPIC, queue_id, done.half_offset)
        fast_path.offsets.commit(GROUP, OP_HALF_TOPIC, queue_id, done.note_offset)
        if done.end:
            await self._persistence.offsets.save()
        self._ask(done.questions)
        self._log_given_up(done.given_up)
        if done.needs_topic:
            await self._make_topic()
        return done

    def _offset(self, topic: str, queue_id: int) -> int:
        known = self._state.fast_path.offsets.find(GROUP, topic, queue_id)
        if known is None or known < 0:
            return self._state.bounds(topic, queue_id)[0]
        return known

    def _rules(self, ahead_ms: int) -> CheckRules:
        settings = self._state.settings
        hours = settings.configuration.value("fileReservedTime")
        assert isinstance(hours, int)
        return CheckRules(
            now_ms=self._state.now_ms() + ahead_ms,
            timeout_ms=settings.transaction_timeout_ms,
            check_max=settings.transaction_check_max,
            age_max_ms=hours * _MS_PER_HOUR,
            can_give_up=self._state.topics.find(CHECK_MAX_TIME_TOPIC) is not None,
        )

    def _ask(self, questions: list[CheckQuestion]) -> None:
        alone: dict[str, int] = {}
        checks = self._state.checks
        for each in questions:
            link = self._producer(each.group)
            if link is None:
                alone[each.group] = alone.get(each.group, 0) + 1
                checks["nobody"] += 1
                continue
            ext = {
                "topic": HALF_TOPIC,
                "tranStateTableOffset": str(each.half_offset),
                "commitLogOffset": str(each.physical_offset),
                "offsetMsgId": each.offset_id,
                "bname": self._state.settings.name,
            }
            if each.unique_id is not None:
                ext |= {"msgId": each.unique_id, "transactionId": each.unique_id}
            link.notify(RequestCode.CHECK_TRANSACTION_STATE, ext, each.record)
            checks["asked"] += 1
        for group, number in alone.items():
            _log.warning(
                "%d transactions of producer group %s have no end, and nobody of it is connected",
                number,
                group,
            )

    def _producer(self, group: str) -> Link | None:
        """Returns the connection of a producer of a group; each in turn."""
        members = self._state.members.producers.get(group, {})
        links = [link for link in members if isinstance(link, Link) and link.is_open]
        return links[next(self._turns) % len(links)] if links else None

    def _log_given_up(self, number: int) -> None:
        if number:
            self._state.checks["given_up"] += number
            _log.error(
                "%d half messages were asked about too often, or are too old: they are in topic %s",
                number,
                CHECK_MAX_TIME_TOPIC,
            )

    async def _make_topic(self) -> None:
        topics, now_ms = self._state.topics, self._state.now_ms()
        queues = _GIVEN_UP_QUEUES
        made = TopicConfig(name=CHECK_MAX_TIME_TOPIC, read_queues=queues, write_queues=queues)
        topics.put(made, now_ms)
        await self._persistence.topics_changed([CHECK_MAX_TIME_TOPIC])


class Round:
    """One round over a half queue: what came after its beginning waits for the next.

    Attributes:
        has_more: Whether it goes on.
    """

    def __init__(self, halves: HalfMessages, queue_id: int) -> None:
        """Begins."""
        self._halves = halves
        self._queue_id = queue_id
        self._until: int | None = None
        self.has_more = True

    async def go_on(self, ahead_ms: int) -> None:
        """Does a bounded part of it.

        Raises:
            StoreError: Something could not be read, stored or synced.
        """
        self.has_more = False
        done = await self._halves.check(self._queue_id, self._until, ahead_ms)
        self._until = done.until
        self.has_more = done.has_more or done.needs_topic
