"""What a master does by itself: delivers what is due, asks about transactions, revives pops.

`BrokerController.changeSpecialServiceStatus` of RocketMQ. A master that hands its role over lets
them rest, and begins again where that comes to nothing. Knows the services and what has to be true
before they begin; nothing of who is elected.
"""

import asyncio
import logging

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.consumer_offsets import beyond_end
from mqcore.broker.delay_file import follow_queues
from mqcore.broker.pop import PopRounds
from mqcore.broker.rounds import Rounds
from mqcore.broker.state import BrokerState
from mqcore.broker.static_cleaning import StaticCleaning
from mqcore.broker.static_requests import StaticRequests
from mqcore.broker.timer_rounds import TimerRounds
from mqcore.model.topics import TopicConfig

__all__ = ["MasterWork"]

_log = logging.getLogger("mqcore.broker")


class MasterWork:
    """The services of one master.

    Attributes:
        timers: When the timers are looked at.
        pops: When check points of pops are looked at.
        cleaning: When mappings of static topics are looked at.
    """

    def __init__(
        self,
        state: BrokerState,
        persistence: ConfigPersistence,
        rounds: Rounds,
        static: StaticRequests,
    ) -> None:
        """Prepares; `start` begins."""
        self._state = state
        self._persistence = persistence
        self._rounds = rounds
        self._are_started = False
        self.timers = TimerRounds(state, persistence)
        self.pops = PopRounds(state, persistence)
        self.cleaning = StaticCleaning(state, persistence, static)

    def start(self) -> None:
        """Begins every service; does nothing the second time."""
        if self._are_started:
            return
        self._are_started = True
        self._rounds.lead()
        self.timers.start()
        self.pops.start()
        self.cleaning.start()

    async def stop(self) -> None:
        """Ends them; what has begun is waited for. `start` begins them again."""
        await self.cleaning.stop()
        await self.pops.stop()
        await self.timers.stop()
        await self._rounds.rest()
        self._are_started = False

    async def take_offsets_back(self) -> None:
        """Takes offsets of groups back to what an open would read, before a master is followed.

        Raises:
            StoreError: They cannot be written or read.
        """
        await self._persistence.offsets.take_back()

    async def take_over(self) -> None:
        """Goes on where the master before left off, by what was copied of it.

        Delays, offsets of groups and timers were read when the store was opened, or taken from the
        master since; the log has grown, or lost its end, meanwhile.
        """
        state, now_ms = self._state, self._state.now_ms()
        follow_queues(state, now_ms)
        for level in state.delays.levels:
            state.delays.delivered(level, state.delays.offset(level), now_ms, now_ms)
        await asyncio.to_thread(self._clip_offsets)
        lost = await asyncio.to_thread(self._lost_topics)
        for topic in lost:
            state.topics.put(topic, now_ms)
        if lost:
            names = [topic.name for topic in lost]
            _log.warning("topics that the master before had just made are made again: %s", names)
            await self._persistence.topics_changed(names)

    def _lost_topics(self) -> list[TopicConfig]:
        """Returns topics of queues that the last table of the master did not have yet.

        One that was removed there has no message behind that table; without a table since the start
        every queue counts.
        """
        state, queues = self._state, dict[str, int]()
        for queue in state.store.queues():
            if state.topics.find(queue.topic) is not None:
                continue
            end = state.bounds(queue.topic, queue.queue_id)[1]
            if state.stored_ms(queue.topic, queue.queue_id, end - 1) >= state.replicas.synced_ms:
                queues[queue.topic] = max(queues.get(queue.topic, 0), queue.queue_id + 1)
        return [
            TopicConfig(name=name, read_queues=count, write_queues=count)
            for name, count in queues.items()
        ]

    def _clip_offsets(self) -> None:
        """Takes offsets back behind queues: the master before had a tail that nobody has."""
        offsets, store = self._state.fast_path.offsets, self._state.store
        behind = store.ends_behind_queues()
        beyond = beyond_end(offsets.snapshot(), store.bounds, behind)
        for key, queues in beyond.items():
            topic, _, group = key.partition("@")
            for queue_id, offset in queues.items():
                offsets.commit(group, topic, queue_id, offset)
