"""Queues that the broker assigns to members, and whether a group asks for a topic by pull or pop.

After `QueryAssignmentProcessor` of 5.x. The computation is in `broker/assignment.py`.
"""

import logging
from collections.abc import Mapping

from mqcore.broker.assignment import assigned
from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.processors.bodies import object_of
from mqcore.broker.state import BrokerState
from mqcore.broker.topic_queues import TopicQueues
from mqcore.errors import RefusedError
from mqcore.model.heartbeats import BROADCASTING
from mqcore.model.java_order import queue_key
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_text
from mqcore.model.relaxed_json import compact
from mqcore.model.request_modes import RequestMode
from mqcore.model.topics import RETRY_PREFIX
from mqcore.native import Command
from mqcore.remoting import Handler, Request, RequestCode, ResponseCode

_log = logging.getLogger("mqcore.broker")

_CLUSTERING = "CLUSTERING"


class Assignments:
    """Serves the requests about assignment by the broker."""

    def __init__(
        self, state: BrokerState, persistence: ConfigPersistence, queues: TopicQueues
    ) -> None:
        """Takes what it works on."""
        self._state = state
        self._persistence = persistence
        self._queues = queues

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {
            RequestCode.QUERY_ASSIGNMENT: self.query,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self.set_mode,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self.modes,
        }

    async def query(self, request: Request) -> Command:
        """400: the queues of a member; the member of the body is absent where it is to keep its."""
        asked = await object_of(request)
        topic, group = as_text(asked.get("topic")), as_text(asked.get("consumerGroup"))
        model = as_text(asked.get("messageModel"))
        if not topic or not group or model not in (_CLUSTERING, BROADCASTING):
            raise RefusedError(
                "an assignment needs topic, consumerGroup and messageModel",
                code=ResponseCode.SYSTEM_ERROR,
            )
        settings = self._state.settings
        wanted = self._state.modes.effective(
            topic,
            group,
            default=settings.default_request_mode,
            default_share_queues=settings.default_pop_share_queues,
        )
        queues = await self._queues.of_topic(topic)
        if queues is not None and model == _CLUSTERING and settings.assigns_queues:
            members = self._state.members.consumers.get(group)
            queues = assigned(
                wanted,
                as_text(asked.get("strategyName")),
                as_text(asked.get("clientId")),
                queues,
                [] if members is None else members.client_ids(),
            )
        if queues is None:
            return request.answer(body=compact({}))
        return request.answer(body=compact({"messageQueueAssignments": _rows(queues, wanted.mode)}))

    async def set_mode(self, request: Request) -> Command:
        """401: sets how a group asks for a topic."""
        wanted = RequestMode.of_json(await object_of(request))
        if wanted is None:
            raise RefusedError(
                "a mode needs topic, consumerGroup and PULL or POP", code=ResponseCode.SYSTEM_ERROR
            )
        if wanted.topic.startswith(RETRY_PREFIX):
            raise RefusedError(
                "retry topic is not allowed to set mode", code=ResponseCode.NO_PERMISSION
            )
        if self._state.topics.find(wanted.topic) is None:
            raise RefusedError(
                f"topic[{wanted.topic}] not exist", code=ResponseCode.TOPIC_NOT_EXIST
            )
        was_there = self._state.groups.find(wanted.group) is not None
        if self._state.groups.find_or_create(wanted.group, self._state.now_ms()) is None:
            raise RefusedError(
                "subscription group does not exist",
                code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            )
        if not was_there:
            await self._persistence.groups_changed([wanted.group])
        if not self._state.modes.put(wanted):
            raise RefusedError("too many modes are set already", code=ResponseCode.SYSTEM_ERROR)
        await self._persistence.modes_changed()
        _log.info("%s asks for %s by %s", wanted.group, wanted.topic, wanted.mode)
        return request.answer()

    def modes(self, request: Request) -> Command:
        """402: every mode that was set."""
        return request.answer(body=compact(self._state.modes.to_json()))


def _rows(queues: frozenset[MessageQueue], mode: str) -> list[dict[str, object]]:
    return [
        {"messageQueue": each.to_json(), "mode": mode} for each in sorted(queues, key=queue_key)
    ]
