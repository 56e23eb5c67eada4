"""Requests for queues of static topics: each goes to the physical queue that has the offset.

That is here, or on another broker, which is asked with `lo=false`; the response gets the numbers of
the logical queue again. After `rewriteRequestForStaticTopic` and `rewriteResponseForStaticTopic` of
5.x. Does not know how a request is executed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from mqcore.broker.peers import BrokerPeers
from mqcore.broker.state import BrokerState
from mqcore.broker.static_pulls import Pulled, logical_pull
from mqcore.errors import MQError, RefusedError
from mqcore.model.reading import as_dict, as_int
from mqcore.model.relaxed_json import parse_object, queue_of_key
from mqcore.model.static_topics import MappingItem, StaticTopic, item_of, next_item
from mqcore.native import Command
from mqcore.remoting import Family, Request, RequestCode, ResponseCode, code_name, family

__all__ = ["Inside", "StaticRequests"]

_log = logging.getLogger("mqcore.broker")

# Requests that are under way at the most: each waits for a queue of its own, or for another broker.
WAITING_MAX: Final = 65_536
# The same in bytes of bodies: some of the largest frames.
WAITING_BYTES_MAX: Final = 128 << 20

_SENDS = family(Family.SEND)
_PULLS = family(Family.PULL)
# Fields by their long name and, of a send from V2 on, by letter.
_TOPIC = ("topic", "b")
_QUEUE = ("queueId", "e")
_PROPERTIES = ("properties", "i")
# Bits of a pull's flags (`PullSysFlag`).
_COMMITS, _SUSPENDS = 1, 2
_INT64_MAX: Final = 2**63 - 1
# What makes a half message of a send.
_IS_HALF = "TRAN_MSG\x01true"
_PULL_ANSWERS = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)


class Inside(Protocol):
    """A client's connection, as far as it is needed here."""

    def ask_inside(self, command: Command) -> "asyncio.Future[Command] | None":
        """Executes a request; returns what becomes its response, None where it is not executed."""

    def respond(self, response: Command) -> None:
        """Sends a response to the client."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request for a queue that this broker leads."""

    link: Inside
    command: Command
    topic: StaticTopic
    queue: int
    items: tuple[MappingItem, ...]

    def integer(self, name: str, default: int | None = None) -> int:
        """Returns a field that is a number.

        Raises:
            RefusedError: It is none, or missing without a default.
        """
        text = self.command.ext.get(name, "" if default is None else str(default))
        try:
            return int(text) if len(text) <= 20 else 0
        except ValueError:
            raise RefusedError(
                f"the custom field <{name}> is no number: {text[:40]!r}",
                code=ResponseCode.SYSTEM_ERROR,
            ) from None

    def answer(
        self,
        code: int = ResponseCode.SUCCESS,
        remark: str | None = None,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Command:
        """Returns the response to it."""
        return Command.response_to(
            self.command, int(code), remark=remark, ext=dict(ext or {}) or None, body=body
        )


class StaticRequests:
    """Serves the requests for static topics that the fast path would answer."""

    def __init__(self, state: BrokerState) -> None:
        """Takes the broker."""
        self._state = state
        self.peers = BrokerPeers(state)
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting_bytes = 0
        # Who holds a pull of a topic: done when its queues have moved.
        self._moves: dict[str, asyncio.Future[None]] = {}
        state.static_topics.changed = self._let_go
        self._handlers: dict[int, Callable[[_Asked], Awaitable[Command]]] = {
            **dict.fromkeys(_SENDS, self._send),
            **dict.fromkeys(_PULLS, self._pull),
            RequestCode.QUERY_CONSUMER_OFFSET: self._query,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._update,
            RequestCode.GET_MAX_OFFSET: self._max,
            RequestCode.GET_MIN_OFFSET: self._min,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self._search,
        }

    async def stop(self) -> None:
        """Ends what is under way, and closes the connections to other brokers."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.peers.stop()

    def serve(self, link: Inside, command: Command) -> bool:
        """Answers a request for a static topic; returns False for any other request."""
        if not self._state.static_topics.topics or command.code not in self._handlers:
            return False
        topic = self._static_topic(command)
        if topic is None:
            return False
        size = len(command.body)
        if len(self._tasks) >= WAITING_MAX or self._waiting_bytes + size > WAITING_BYTES_MAX:
            link.respond(_refusal(command, ResponseCode.SYSTEM_BUSY, "too many requests wait"))
            return True
        self._waiting_bytes += size
        task = asyncio.get_running_loop().create_task(self._answer(link, command, topic))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(done, size))
        return True

    def _let_go(self, topic: str) -> None:
        """Lets held pulls of a topic be answered: messages may come elsewhere from now on."""
        move = self._moves.pop(topic, None)
        if move is not None and not move.done():
            move.set_result(None)

    def _ended(self, task: asyncio.Task[None], size: int) -> None:
        self._tasks.discard(task)
        self._waiting_bytes -= size

    def _static_topic(self, command: Command) -> StaticTopic | None:
        """Returns the topic of a request, None where its queue is meant to be a physical one."""
        ext = command.ext
        if ext.get("lo", "").strip().lower() == "false":
            return None
        return self._state.static_topics.find(_field(ext, _TOPIC)[1])

    async def _answer(self, link: Inside, command: Command, topic: StaticTopic) -> None:
        try:
            response = await self._answered(link, command, topic)
        except RefusedError as error:
            response = _refusal(command, error.code, error.message)
        except MQError as error:
            response = _refusal(command, ResponseCode.SYSTEM_ERROR, error.message)
        except Exception as error:
            _log.exception("%s of %s failed", code_name(command.code), topic.topic)
            response = _refusal(command, ResponseCode.SYSTEM_ERROR, str(error))
        if not command.is_oneway:
            link.respond(response)

    async def _answered(self, link: Inside, command: Command, topic: StaticTopic) -> Command:
        ext = command.ext
        queue = as_int(_field(ext, _QUEUE)[1], -1)
        if queue < 0 and command.code in _SENDS:
            # Any queue: one that is led here.
            queue = next((each for each in sorted(topic.queues) if topic.leads(each)), queue)
        if topic.leads(queue) is None:
            raise _not_leader(topic, queue, command.code)
        asked = _Asked(link, command, topic, queue, topic.queues[queue])
        return await self._handlers[command.code](asked)

    # What is asked of a physical queue.

    async def _ask(
        self, asked: _Asked, item: MappingItem, changes: Mapping[str, str], code: int | None = None
    ) -> Command:
        """Asks for a physical queue, here or at another broker.

        Args:
            asked: The request.
            item: The queue.
            changes: Fields that differ from those of the request; the queue's number is one.
            code: What is asked, where that is another code than that of the request.
        """
        ext = {**asked.command.ext, "queueId": str(item.queue_id), **changes, "lo": "false"}
        code = asked.command.code if code is None else code
        if item.broker != asked.topic.broker:
            ext["bname"] = item.broker
            return await self.peers.call(item.broker, asked.topic.topic, code, ext)
        return await self._execute(asked, ext, code)

    async def _execute(self, asked: _Asked, ext: dict[str, str], code: int) -> Command:
        given = asked.command
        # What was asked for itself is answered to whoever asks here, not to the client.
        is_given = code == given.code
        command = Command(
            code,
            ext=ext,
            body=given.body if is_given else b"",
            flag=given.flag if is_given else 0,
            language=given.language,
            version=given.version,
            serialization=given.serialization,
        )
        future = asked.link.ask_inside(command)
        if future is None:
            raise RefusedError("it is not executed now", code=ResponseCode.SERVICE_NOT_AVAILABLE)
        if command.is_oneway:
            return asked.answer()
        if code in _PULLS:
            return await self._held(asked, command, future)
        return await future

    async def _held(
        self, asked: _Asked, command: Command, future: "asyncio.Future[Command]"
    ) -> Command:
        """Returns the response to a pull; that there is nothing, once its queue may have moved."""
        topic = asked.topic.topic
        move = self._moves.get(topic)
        if move is None:
            move = self._moves[topic] = asyncio.get_running_loop().create_future()
        waits: set[asyncio.Future[Any]] = {future, move}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if future.done():
            return future.result()
        future.cancel()
        low, high = self._state.bounds(topic, as_int(command.ext.get("queueId")))
        ext = {
            "nextBeginOffset": command.ext.get("queueOffset", "0"),
            "minOffset": str(low),
            "maxOffset": str(high),
            "suggestWhichBrokerId": "0",
        }
        return asked.answer(ResponseCode.PULL_NOT_FOUND, ext=ext)

    # Sends and pulls.

    async def _send(self, asked: _Asked) -> Command:
        name, _value = _field(asked.command.ext, _QUEUE)
        item = asked.items[-1]
        properties = _field(asked.command.ext, _PROPERTIES)[1]
        ext = {**asked.command.ext, name: str(item.queue_id)}
        response = await self._execute(asked, ext, asked.command.code)
        found = dict(response.ext)
        if "queueId" in found:
            found["queueId"] = str(asked.queue)
        if "queueOffset" in found and _IS_HALF not in properties:
            # That of a half message stays: its end has it as a field.
            found["queueOffset"] = str(item.logical_or_none(as_int(found["queueOffset"])))
        return asked.answer(response.code, response.remark, found, response.body)

    async def _pull(self, asked: _Asked) -> Command:
        offset = asked.integer("queueOffset")
        item = item_of(asked.items, offset)
        if item is None:
            raise _not_leader(asked.topic, asked.queue, asked.command.code)
        physical = item.physical(offset)
        changes = {"queueOffset": str(physical)}
        if item.is_end_decided and physical < item.end_offset:
            wanted = asked.integer("maxMsgNums", 32)
            changes["maxMsgNums"] = str(min(item.end_offset - physical, wanted))
        flags = asked.integer("sysFlag", 0)
        flags = await self._committed(asked, item, flags, changes)
        is_here = item.broker == asked.topic.broker
        if not is_here or next_item(asked.items, item) is not None:
            # What is not there now will never be there.
            flags &= ~_SUSPENDS
        response = await self._ask(asked, item, changes | {"sysFlag": str(flags)})
        if response.code not in _PULL_ANSWERS:
            return asked.answer(response.code, response.remark, response.ext, response.body)
        pulled = logical_pull(asked.items, item, physical, Pulled.of(response))
        found = {**response.ext, **pulled.fields()}
        if not is_here:
            # Its slave is none of this broker's.
            found["suggestWhichBrokerId"] = "0"
        body = response.body if response.code == ResponseCode.SUCCESS else b""
        return asked.answer(pulled.code, response.remark, found, body)

    async def _committed(
        self, asked: _Asked, item: MappingItem, flags: int, changes: dict[str, str]
    ) -> int:
        """Commits the offset that a pull brings, at its own queue; returns the flags without it.

        The official broker commits it as it is, to the queue that is pulled.
        """
        if not flags & _COMMITS:
            return flags
        offset = asked.integer("commitOffset", 0)
        owner = item_of(asked.items, offset)
        if owner == item and item.broker == asked.topic.broker:
            changes["commitOffset"] = str(max(item.start_offset, item.physical(offset)))
            return flags
        if owner is not None:
            try:
                await self._commit(asked, owner, offset)
            except MQError as error:
                # Clients commit every few seconds by themselves.
                _log.debug("%s: not committed: %s", asked.topic.topic, error.message)
        return flags & ~_COMMITS

    # Offsets.

    async def _commit(self, asked: _Asked, item: MappingItem, offset: int) -> Command:
        physical = max(item.start_offset, item.physical(offset))
        code = RequestCode.UPDATE_CONSUMER_OFFSET
        return await self._ask(asked, item, {"commitOffset": str(physical)}, code)

    async def _update(self, asked: _Asked) -> Command:
        offset = asked.integer("commitOffset")
        item = item_of(asked.items, offset)
        if item is None:
            raise _not_leader(asked.topic, asked.queue, asked.command.code)
        response = await self._commit(asked, item, offset)
        return asked.answer(response.code, response.remark)

    async def _query(self, asked: _Asked) -> Command:
        """Asks the newest queue first: a group may not have come to it yet."""
        if len(asked.items) == 1 and not asked.items[0].logic_offset:
            response = await self._ask(asked, asked.items[0], {})
            return asked.answer(response.code, response.remark, response.ext)
        for item in reversed(asked.items):
            if not item.is_decided:
                continue
            response = await self._ask(asked, item, {"setZeroIfNotFound": "false"})
            if response.code == ResponseCode.SUCCESS:
                offset = item.logical(as_int(response.ext.get("offset")))
                return asked.answer(ext={"offset": str(offset)})
            if response.code != ResponseCode.QUERY_NOT_FOUND:
                raise _unknown(response)
        return asked.answer(
            ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first"
        )

    async def _max(self, asked: _Asked) -> Command:
        item = _item(asked, _INT64_MAX)
        offset = await self._offset(asked, item)
        return asked.answer(ext={"offset": str(item.logical(offset))})

    async def _min(self, asked: _Asked) -> Command:
        item = _item(asked, 0)
        offset = await self._offset(asked, item)
        return asked.answer(ext={"offset": str(item.logical_or_none(offset))})

    async def _search(self, asked: _Asked) -> Command:
        """Asks the first queue that has a message of the time, or a later one."""
        timestamp_ms = asked.integer("timestamp")
        decided = [item for item in asked.items if item.is_decided]
        for item in decided[:-1]:
            last_ms = await self._last_ms(asked, item)
            if last_ms is not None and last_ms >= timestamp_ms:
                break
        else:
            item = decided[-1]
        offset = await self._offset(asked, item)
        return asked.answer(ext={"offset": str(item.logical(max(0, offset)))})

    async def _offset(self, asked: _Asked, item: MappingItem) -> int:
        response = await self._ask(asked, item, {})
        if response.code != ResponseCode.SUCCESS:
            raise _unknown(response)
        return as_int(response.ext.get("offset"))

    async def _last_ms(self, asked: _Asked, item: MappingItem) -> int | None:
        """Returns when the last message of a physical queue was stored; None without one."""
        topic, state = asked.topic.topic, self._state
        if item.broker == asked.topic.broker:
            low, high = state.bounds(topic, item.queue_id)
            if high <= low:
                return None
            return await asyncio.to_thread(state.stored_ms, topic, item.queue_id, high - 1)
        row = (await self.stats_of(topic, item.broker)).get(item.queue_id, {})
        if as_int(row.get("maxOffset")) <= as_int(row.get("minOffset")):
            return None
        return as_int(row.get("lastUpdateTimestamp"))

    async def stats_of(self, topic: str, broker: str) -> dict[int, dict[str, Any]]:
        """Returns the bounds of the physical queues of another broker, by number.

        Raises:
            MQError: It does not answer.
        """
        ext = {"topic": topic, "lo": "false", "bname": broker}
        code = RequestCode.GET_TOPIC_STATS_INFO
        response = await self.peers.call(broker, topic, code, ext)
        if response.code != ResponseCode.SUCCESS:
            raise _unknown(response)
        rows = as_dict(parse_object(response.body).get("offsetTable")).items()
        named = ((queue_of_key(key), as_dict(row)) for key, row in rows)
        return {queue.queue_id: row for queue, row in named if queue is not None}

    # What Python answers by itself.

    async def routed(self, request: Request) -> Request | Command:
        """Returns a question about the first message of a queue as it is asked here.

        Of a queue that begins on another broker: the response of that one.

        Raises:
            RefusedError: The queue is led by another broker.
        """
        command = request.command
        topic = self._static_topic(command)
        if topic is None:
            return request
        queue = request.integer("queueId", bits=32)
        if topic.leads(queue) is None:
            raise _not_leader(topic, queue, command.code)
        item = item_of(topic.queues[queue], 0)
        if item is None:
            raise _not_leader(topic, queue, command.code)
        ext = {**command.ext, "queueId": str(item.queue_id), "lo": "false"}
        if item.broker != topic.broker:
            ext["bname"] = item.broker
            response = await self.peers.call(item.broker, topic.topic, command.code, ext)
            return request.answer(response.code, response.remark, ext=response.ext)
        return Request(
            Command(
                command.code,
                ext=ext,
                opaque=command.opaque,
                flag=command.flag,
                language=command.language,
                version=command.version,
                serialization=command.serialization,
            ),
            request.link,
        )


def _field(ext: Mapping[str, str], names: tuple[str, str]) -> tuple[str, str]:
    """Returns a field by whichever name a request has: the name, and the value."""
    return next(((name, ext[name]) for name in names if name in ext), (names[0], ""))


def _item(asked: _Asked, offset: int) -> MappingItem:
    item = item_of(asked.items, offset)
    if item is None:
        raise _not_leader(asked.topic, asked.queue, asked.command.code)
    return item


def _refusal(command: Command, code: int, remark: str) -> Command:
    return Command.response_to(command, int(code), remark=remark)


def _not_leader(topic: StaticTopic, queue: int, code: int) -> RefusedError:
    name, broker = f"{topic.topic}-{queue}", topic.broker
    if code in _PULLS:
        why = f"{name} cannot find mapping item in request process of current broker {broker}"
    elif code == RequestCode.GET_MIN_OFFSET:
        why = f"{name} is not leader in broker {broker}, request code {code}"
    else:
        # Spelled so by the official broker.
        why = f"{name} does not exit in request process of current broker {broker}"
    return RefusedError(why, code=ResponseCode.NOT_LEADER_FOR_QUEUE)


def _unknown(response: Command) -> RefusedError:
    return RefusedError(
        f"Unknown response code {response.code}: {response.remark or ''}".rstrip(": "),
        code=ResponseCode.SYSTEM_ERROR,
    )
