"""What the fast path asks of Python before a hot request: may this topic, this group exist?

The decision is made here, the operation stays the fast path's. Requests for a topic that is being
made wait until its file is written, in the order in which they came.
"""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.state import BrokerState
from mqcore.broker.static_requests import Inside, StaticRequests
from mqcore.clock import monotonic_s
from mqcore.errors import MQError, RefusedError
from mqcore.model.topics import DLQ_PREFIX, RETRY_PREFIX, topic_fault
from mqcore.native import Command, Handed
from mqcore.remoting import Family, RequestCode, ResponseCode, family

_log = logging.getLogger("mqcore.broker")

# Requests that wait for one topic to be made: some milliseconds of the fastest client. What comes
# beyond is decided by the topic as it is, that is refused, and the client tries again.
WAITING_MAX = 10_000
# The same in bytes of bodies, over all topics, where the settings give no other bound: some of
# the largest frames.
WAITING_BYTES_MAX = 64 << 20
# Requests of them that are executed in one turn of the loop: some milliseconds.
EXECUTED_PER_TURN = 256
# So long official clients wait for the answer to a message that they give back, and then send it
# themselves (`DefaultMQPushConsumerImpl.sendMessageBack`): executed later, it would be there twice.
# How long other requests are waited for is the choice of a user, which no broker knows.
WAITED_MAX_S = 5.0
# Why a connection is not read meanwhile.
_WAITS = "topic in the making"
# Topics that may be in the making at once.
_MAKING_MAX = 1_024

_SENDS = family(Family.SEND)
_PULLS = family(Family.PULL)
# The bit of a pull's flags that means that it brings its subscription (`PullSysFlag`).
_SUBSCRIPTION = 4
# Fields of a send by its long name and, from V2 on, by letter.
_DEFAULT_TOPIC = ("defaultTopic", "c")
_DEFAULT_QUEUES = ("defaultTopicQueueNums", "d")
_UNIT_MODE = ("unitMode", "k")
_QUEUES_WITHOUT_A_NUMBER = 4


class Executor(Inside, Protocol):
    """The connection that a request came by."""

    def execute(self, command: Command) -> bool:
        """Lets the fast path execute a request and answer it."""

    def hold_reading(self, why: str) -> None:
        """Stops reading from the client."""

    def release_reading(self, why: str) -> None:
        """Reads again, unless there is another reason not to."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request that waits for a topic.

    Attributes:
        link: The connection that it came by.
        command: The request.
        since_s: When it came, on a monotonic clock.
    """

    link: Executor
    command: Command
    since_s: float

    def is_too_late(self) -> bool:
        """Whether its client has done by now what it asked for."""
        is_back = self.command.code == RequestCode.CONSUMER_SEND_MSG_BACK
        return is_back and monotonic_s() - self.since_s > WAITED_MAX_S


class Decisions:
    """Decides about topics and groups that the fast path does not know."""

    def __init__(
        self,
        state: BrokerState,
        persistence: ConfigPersistence,
        static: StaticRequests,
        *,
        waiting_bytes_max: int = WAITING_BYTES_MAX,
    ) -> None:
        """Takes what it works on, and how many bytes of requests may wait for topics."""
        self._state = state
        self._persistence = persistence
        self._static = static
        self._waiting_bytes_max = waiting_bytes_max
        self._making: dict[str, list[_Waiting]] = {}
        # What is made together with a topic.
        self._beside: dict[str, tuple[str, ...]] = {}
        self._waiting_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def decide(self, link: Executor, handed: Handed) -> None:
        """Decides, and lets the fast path execute, at once where nothing is to be written first."""
        check = self._state.check
        answer = check(handed.command) if check is not None else None
        if answer is None and handed.need == "check":
            answer = self._forbidden(handed.command)
        if answer is not None:
            if not handed.command.is_oneway:
                link.respond(answer)
            return
        try:
            self._decide(link, handed)
        except RefusedError as error:
            # As many topics or groups as there may be.
            if not handed.command.is_oneway:
                link.respond(Command.response_to(handed.command, error.code, remark=error.message))

    def _decide(self, link: Executor, handed: Handed) -> None:
        command = handed.command
        match handed.need:
            case "group":
                self._need_group(handed.name)
                # It needs the group's retry topic next, and is not asked a second time.
                retry = f"{RETRY_PREFIX}{handed.name}"
                is_back = command.code == RequestCode.CONSUMER_SEND_MSG_BACK
                if is_back and self._need_topic(link, retry, command):
                    return
            case "topic":
                if self._need_topic(link, handed.name, command):
                    return
        self._execute_one(link, command)

    def _execute_one(self, link: Executor, command: Command) -> None:
        if not self._static.serve(link, command):
            link.execute(command)

    def _forbidden(self, command: Command) -> Command | None:
        """Returns the refusal of a pull of a topic that its group may not read.

        As officially one that brings its own subscription is not refused, and one of a group of
        which nobody is online is refused for that.
        """
        ext = command.ext
        group, topic = ext.get("consumerGroup", ""), ext.get("topic", "")
        if (
            command.code not in _PULLS
            or has_subscription(ext.get("sysFlag", ""))
            or group not in self._state.members.consumers
            or not self._state.groups.is_forbidden(group, topic)
        ):
            return None
        return Command.response_to(
            command,
            ResponseCode.NO_PERMISSION,
            remark=f"the consumer group[{group}] is forbidden for topic[{topic}]",
        )

    def _need_group(self, name: str) -> None:
        known = self._state.groups.find(name) is not None
        group = self._state.groups.find_or_create(name, self._state.now_ms())
        if group is not None and not known:
            # The fast path must know it before the request is executed again; the file may follow.
            self._persistence.groups_known([name])
            self._spawn(self._write_group(name))

    def _need_topic(self, link: Executor, name: str, command: Command) -> bool:
        """Returns whether the request waits: its topic is being made."""
        waiting = self._making.get(name)
        is_new = waiting is None
        if waiting is None:
            if len(self._making) >= _MAKING_MAX:
                return False
            waiting = []
        size = len(command.body)
        if len(waiting) >= WAITING_MAX or self._waiting_bytes + size > self._waiting_bytes_max:
            return False
        # A topic that is there and not yet known to the fast path is being written by somebody
        # else, a heartbeat for one: the request waits for it all the same.
        is_there = self._state.topics.find(name) is not None
        if is_new and not is_there and not self._create(name, command):
            return False
        if is_new and name.startswith(RETRY_PREFIX) and _is_given_up(command):
            # It is not asked about a second time: the topic of dead letters is made beside.
            group = name.removeprefix(RETRY_PREFIX)
            beside = f"{DLQ_PREFIX}{group}"
            self._state.topics.create_for_group(beside, 1, now_ms=self._state.now_ms())
            self._beside[name] = (beside,)
        self._waiting_bytes += size
        waiting.append(_Waiting(link, command, monotonic_s()))
        if is_new:
            self._making[name] = waiting
            self._spawn(self._write_topic(name))
        return True

    def _create(self, name: str, command: Command) -> bool:
        """Creates a topic in the table, where that is allowed; returns whether it did."""
        topics, now_ms = self._state.topics, self._state.now_ms()
        if command.code in _SENDS:
            return (
                topics.create_for_send(
                    name,
                    _field(command, _DEFAULT_TOPIC),
                    _queues(_field(command, _DEFAULT_QUEUES)),
                    sys_flag=1 if _field(command, _UNIT_MODE) == "true" else 0,
                    now_ms=now_ms,
                )
                is not None
            )
        if command.code != RequestCode.CONSUMER_SEND_MSG_BACK or topic_fault(name) is not None:
            return False
        if name.startswith(DLQ_PREFIX):
            topics.create_for_group(name, 1, now_ms=now_ms)
            return True
        group = self._state.groups.find(name.removeprefix(RETRY_PREFIX))
        if not name.startswith(RETRY_PREFIX) or group is None:
            return False
        topics.create_for_group(name, max(1, group.retry_queues), now_ms=now_ms)
        return True

    async def _write_topic(self, name: str) -> None:
        names = (name, *self._beside.pop(name, ()))
        try:
            await self._persistence.topics_written(names)
        except MQError as error:
            # The fast path does not know the topic and refuses; what was made is taken back.
            for each in names:
                self._state.topics.delete(each, self._state.now_ms())
            _log.error("topic %s cannot be created: %s", name, error.message)
        finally:
            await self._execute(self._making.pop(name))
        await self._persistence.announce_topics(names)

    async def _execute(self, waiting: list[_Waiting]) -> None:
        """Lets the fast path execute what waited, in turns: later requests do not overtake it."""
        after = waiting[EXECUTED_PER_TURN:]
        # The last of each connection.
        last = {id(each.link): at for at, each in enumerate(waiting)}
        for link in dict.fromkeys(each.link for each in after):
            link.hold_reading(_WAITS)
        held = {id(each.link) for each in after}
        for at, each in enumerate(waiting):
            if at and at % EXECUTED_PER_TURN == 0:
                await asyncio.sleep(0)
            link, command = each.link, each.command
            self._waiting_bytes -= len(command.body)
            if each.is_too_late():
                link.respond(_too_late(command))
            else:
                self._execute_one(link, command)
            if id(link) in held and last[id(link)] == at:
                link.release_reading(_WAITS)

    async def _write_group(self, name: str) -> None:
        try:
            await self._persistence.groups_changed([name])
        except MQError as error:
            _log.error("group %s cannot be written: %s", name, error.message)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _too_late(command: Command) -> Command:
    """Returns the answer to a message whose client has sent it itself; nothing was stored."""
    remark = f"the topic was not made within {WAITED_MAX_S:g} s: send the message to its group"
    return Command.response_to(command, ResponseCode.SYSTEM_BUSY, remark=remark)


def _is_given_up(command: Command) -> bool:
    """Returns whether a message that is sent back is to be a dead letter at once."""
    is_back = command.code == RequestCode.CONSUMER_SEND_MSG_BACK
    return is_back and command.ext.get("delayLevel", "").startswith("-")


def _field(command: Command, names: tuple[str, str]) -> str:
    """Returns a field of a send, by whichever name the request has."""
    ext = command.ext
    return next((ext[name] for name in names if name in ext), "")


def has_subscription(flags: str) -> bool:
    """Returns whether the flags of a pull mean that it brings its subscription."""
    # The fast path has read them as a number already.
    return flags.lstrip("-").isdigit() and bool(int(flags) & _SUBSCRIPTION)


def _queues(text: str) -> int:
    try:
        return int(text) if len(text) <= 10 else _QUEUES_WITHOUT_A_NUMBER
    except ValueError:
        return _QUEUES_WITHOUT_A_NUMBER
