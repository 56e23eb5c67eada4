"""The queues of topics over all brokers: asked of the name servers, kept, asked again in time.

A broker alone knows its own queues only; who assigns queues to members has to know all of them.
After `TopicRouteInfoManager` of 5.x. Knows nothing of members.
"""

import asyncio
import logging
from dataclasses import dataclass

from mqcore.broker.state import BrokerState
from mqcore.errors import MQError
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_dict, as_int, as_list, as_text
from mqcore.model.relaxed_json import parse_object
from mqcore.model.topics import PERM_READ
from mqcore.periodic import PeriodicTasks
from mqcore.remoting import Client, RequestCode, ResponseCode, expect

_log = logging.getLogger("mqcore.broker")

# How long one name server may take, as officially (`GET_TOPIC_ROUTE_TIMEOUT`).
_ASK_TIMEOUT_S = 3.0
# Topics that are kept; the one that was asked for longest ago makes space.
TOPICS_MAX = 65_536
# Topics that are asked for at once; beyond it nothing is known of another, and clients keep what
# they have.
ASKED_MAX = 1_024
# A topic that no client asks for is forgotten; clients ask every 20 seconds.
KEPT_MS = 600_000
_MS_PER_S = 1_000
# However small the setting is, the name servers are left some time.
_PERIOD_MIN_S = 0.1


@dataclass(slots=True)
class _Known:
    queues: frozenset[MessageQueue]
    wanted_ms: int


class TopicQueues:
    """What the name servers know of topics that members ask about.

    Args:
        state: The broker; without a name server its own topics are all there is.
    """

    def __init__(self, state: BrokerState) -> None:
        """Prepares; `start` begins to ask again in time."""
        self._state = state
        self._client = Client(
            tls=state.outgoing_tls, credentials=state.credentials, version=state.version
        )
        self._known: dict[str, _Known] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._tasks = PeriodicTasks()

    def start(self) -> None:
        """Begins to ask again for what is known."""
        self._tasks.every("queues of topics", self.refresh, period_s=self._period_s)

    async def stop(self) -> None:
        """Ends every question."""
        await self._tasks.stop()
        questions = list(self._asking.values())
        for each in questions:
            each.cancel()
        await asyncio.gather(*questions, return_exceptions=True)
        await self._client.close()

    async def of_topic(self, topic: str) -> frozenset[MessageQueue] | None:
        """Returns the queues of a topic that are read; None where nobody knows the topic."""
        if not self._state.name_servers:
            return self._own(topic)
        known = self._known.pop(topic, None)
        if known is None or not known.queues:
            await self._asked(topic)
            known = self._known.pop(topic, known)
        if known is None:
            return None
        # The order of the table is that of use.
        known.wanted_ms = self._state.now_ms()
        self._known[topic] = known
        return known.queues

    async def refresh(self) -> None:
        """Asks again for every topic that was wanted of late; forgets the others."""
        oldest_ms = self._state.now_ms() - KEPT_MS
        for topic in list(self._known):
            known = self._known.get(topic)
            if known is None:
                continue
            if known.wanted_ms < oldest_ms:
                del self._known[topic]
            else:
                await self._asked(topic)

    def _period_s(self) -> float:
        return max(_PERIOD_MIN_S, self._state.settings.assignment_routes_interval_ms / _MS_PER_S)

    def _own(self, topic: str) -> frozenset[MessageQueue] | None:
        found = self._state.topics.find(topic)
        if found is None:
            return None
        is_read = found.perm & self._state.settings.permission & PERM_READ
        count = found.read_queues if is_read else 0
        name = self._state.settings.name
        return frozenset(MessageQueue(topic, name, number) for number in range(count))

    async def _asked(self, topic: str) -> None:
        """Asks once for a topic, however many want to know; waits for the answer."""
        task = self._asking.get(topic)
        if task is None:
            if len(self._asking) >= ASKED_MAX:
                return
            task = asyncio.get_running_loop().create_task(self._ask(topic))
            self._asking[topic] = task
            task.add_done_callback(lambda _: self._asking.pop(topic, None))
        await asyncio.shield(task)

    async def _ask(self, topic: str) -> None:
        """Asks one name server after another until one answers; keeps what is known otherwise."""
        for address in self._state.name_servers:
            try:
                answer = await self._client.call(
                    address,
                    RequestCode.GET_ROUTEINFO_BY_TOPIC,
                    {"topic": topic},
                    timeout_s=_ASK_TIMEOUT_S,
                )
                if answer.code == ResponseCode.TOPIC_NOT_EXIST:
                    self._known.pop(topic, None)
                    return
                queues = queues_of_route(topic, expect(answer, address).body)
            except MQError as error:
                _log.warning("the queues of %s: %s: %s", topic, address, error.message)
                continue
            known = self._known.get(topic)
            wanted_ms = self._state.now_ms() if known is None else known.wanted_ms
            self._known[topic] = _Known(queues, wanted_ms)
            if len(self._known) > TOPICS_MAX:
                del self._known[next(iter(self._known))]
            return


def queues_of_route(topic: str, body: bytes) -> frozenset[MessageQueue]:
    """Returns the queues that may be read, from a name server's answer.

    After `MQClientInstance.topicRouteData2TopicSubscribeInfo`.

    Raises:
        BadJsonError: It cannot be read.
    """
    counts = (as_dict(each) for each in as_list(parse_object(body).get("queueDatas")))
    return frozenset(
        MessageQueue(topic, as_text(each.get("brokerName")), number)
        for each in counts
        if as_int(each.get("perm")) & PERM_READ and each.get("brokerName")
        for number in range(as_int(each.get("readQueueNums")))
    )
