"""Requests that brokers send to a client, and the part that each of them is for.

After the official `ClientRemotingProcessor`. Knows groups and codes; what is done is the parts'.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from mqcore.client.parts import Part
from mqcore.client.properties import CORRELATION_ID, PGROUP, parse_properties
from mqcore.errors import RecordError, RefusedError, StoreError
from mqcore.native import decode_records
from mqcore.remoting.dispatch import Answer, Handler, Request
from mqcore.remoting.request_codes import RequestCode
from mqcore.remoting.response_codes import ResponseCode

__all__ = ["Pushed", "ReplySink"]

_log = logging.getLogger(__name__)

# Takes a reply by its correlation id; returns whether somebody waits for it.
ReplySink = Callable[[str, Request], bool]

# Requests for one consumer group, with the field that names it.
_GROUP_FIELDS: Mapping[int, str] = {
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: "group",
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: "group",
    RequestCode.GET_CONSUMER_RUNNING_INFO: "consumerGroup",
    RequestCode.CONSUME_MESSAGE_DIRECTLY: "consumerGroup",
}


class Pushed:
    """The parts of an instance, by group, and the way from a broker's request to one of them."""

    def __init__(self, namespace: str) -> None:
        """Begins without parts."""
        self._namespace = namespace
        self._producers: dict[str, Part] = {}
        self._consumers: dict[str, Part] = {}
        self._sinks: list[ReplySink] = []

    @property
    def parts(self) -> list[Part]:
        """All parts."""
        return [*self._producers.values(), *self._consumers.values()]

    @property
    def producers(self) -> list[Part]:
        """Parts that produce."""
        return list(self._producers.values())

    @property
    def consumers(self) -> list[Part]:
        """Parts that consume."""
        return list(self._consumers.values())

    def add(self, part: Part) -> bool:
        """Takes a part; returns whether its group was free."""
        return self._table_of(part).setdefault(part.group, part) is part

    def remove(self, part: Part) -> None:
        """Forgets a part."""
        table = self._table_of(part)
        if table.get(part.group) is part:
            del table[part.group]

    def take_replies(self, sink: ReplySink) -> None:
        """Lets `sink` see every reply that comes."""
        self._sinks.append(sink)

    def leave_replies(self, sink: ReplySink) -> None:
        """Lets `sink` see no more."""
        if sink in self._sinks:
            self._sinks.remove(sink)

    def handlers(self) -> dict[int, Handler]:
        """Returns what serves each code."""
        table: dict[int, Handler] = dict.fromkeys(_GROUP_FIELDS, self._for_group)
        table[RequestCode.NOTIFY_CONSUMER_IDS_CHANGED] = self._ids_changed
        table[RequestCode.CHECK_TRANSACTION_STATE] = self._check_transaction
        table[RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT] = self._reply
        return table

    def _table_of(self, part: Part) -> dict[str, Part]:
        return self._producers if part.consumer_data() is None else self._consumers

    async def _for_group(self, request: Request) -> Answer:
        group = request.field(_GROUP_FIELDS[request.code])
        part = self._consumers.get(group)
        if part is None or request.code not in part.handlers:
            raise RefusedError(
                f"The Consumer Group <{group}> not exist in this consumer",
                code=ResponseCode.SYSTEM_ERROR,
            )
        return await _served(part.handlers[request.code], request)

    async def _ids_changed(self, request: Request) -> Answer:
        # The official client rebalances all its groups; who is not concerned finds nothing changed.
        await _serve_all(self._consumers.values(), request)
        return None

    async def _check_transaction(self, request: Request) -> Answer:
        try:
            record = decode_records(request.body)[0]
        except (RecordError, StoreError, IndexError) as error:
            _log.warning("%s: an unreadable transaction check: %s", request.link.peer, error)
            return None
        group = record.properties.get(PGROUP, "")
        part = self._producers.get(group)
        handler = part.handlers.get(request.code) if part is not None else None
        if handler is None:
            _log.warning(
                "%s asks for a transaction of group %r, which this client has not",
                request.link.peer,
                group,
            )
            return None
        return await _served(handler, request)

    async def _reply(self, request: Request) -> Answer:
        properties = parse_properties(request.ext.get("properties", ""))
        correlation = properties.get(CORRELATION_ID, "")
        for sink in list(self._sinks):
            if sink(correlation, request):
                return request.answer()
        # As the official client answers: it came too late, and nobody can do anything about it.
        _log.info("%s: a reply that nobody waits for: %s", request.link.peer, correlation)
        return request.answer()


async def _served(handler: Handler, request: Request) -> Answer:
    outcome = handler(request)
    return await outcome if asyncio.iscoroutine(outcome) or asyncio.isfuture(outcome) else outcome  # type: ignore[return-value]


async def _serve_all(parts: Iterable[Part], request: Request) -> None:
    for part in list(parts):
        handler = part.handlers.get(request.code)
        if handler is None:
            continue
        try:
            await _served(handler, request)
        except Exception:
            _log.exception("group %s failed to serve request %d", part.group, request.code)
