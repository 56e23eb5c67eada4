"""Commits what was decided, once: ends half messages, and looks what is committed already.

A broker forgets which half messages it ended when it starts again. So an end is only ever sent on a
connection that was open before somebody looked, or before the decision was written: on it answers
the process that was looked at, which knows what it ended since, or nobody.
"""

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from mqcore.client.delivery import BACKOFF_MS_MAX
from mqcore.client.results import STATUS_OF_CODE
from mqcore.client.transactions import TransactionState, state_code
from mqcore.errors import ConnectError, RemotingError, ResponseError
from mqcore.model.queues import MessageQueue
from mqcore.native import Message
from mqcore.remoting import RequestCode, ResponseCode
from mqcore.remoting.link import Link
from mqcore.spark.errors import SinkError
from mqcore.spark.topic_sink.epochs import Decision, HalfLocation
from mqcore.spark.topic_sink.marks import ROW_OF, TASK
from mqcore.spark.topic_sink.options import SinkOptions
from mqcore.spark.topic_sink.queue_messages import messages_between
from mqcore.spark.topic_sink.sending import TopicClient
from mqcore.spark.topic_source.cluster import Cluster

__all__ = ["Settling", "queue_ends", "stored_of"]

_log = logging.getLogger(__name__)
_MS_PER_S: Final = 1000
# Queues whose half messages are ended at a time; those of one queue follow one another.
_QUEUES_AT_ONCE: Final = 8
# Refusals that another try may change.
_PASSING: Final = frozenset(
    {ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL, ResponseCode.SERVICE_NOT_AVAILABLE}
)


def queue_ends(cluster: Cluster, halves: Iterable[HalfLocation]) -> dict[MessageQueue, int]:
    """Returns where the queues of half messages end now.

    Raises:
        RemotingError: A broker did not answer, or has no master.
    """
    queues = {half.queue for half in halves}
    found: dict[MessageQueue, int] = {}
    for topic in sorted({queue.topic for queue in queues}):
        bounds = cluster.bounds(topic)
        for queue in sorted(queues):
            if queue.topic == topic:
                if queue not in bounds:
                    raise ConnectError(
                        f"queue {queue.queue_id} of {topic} at broker {queue.broker_name} holds "
                        "rows of this batch, and its broker has no master now",
                        address=queue.broker_name,
                    )
                found[queue] = bounds[queue].max
    return found


def stored_of(cluster: Cluster, decision: Decision) -> dict[HalfLocation, int]:
    """Returns how many rows of each half message of a decision are committed.

    A commit stores all rows of one in a run; power loss may leave the first ones of it.

    Raises:
        RemotingError: A broker did not answer.
        SinkError: A queue cannot be read.
    """
    firsts = {(half.task, half.first_row): half for half in decision.halves}
    found: dict[HalfLocation, int] = {}
    ends = queue_ends(cluster, decision.halves)
    for queue, end in ends.items():
        # Half messages by the offset that their commit took rows from: their first, 0 included.
        begun: dict[int, HalfLocation] = {}
        for message in messages_between(cluster, queue, decision.starts.get(queue, 0), end):
            taken_from = message.prepared_transaction_offset
            half = begun.get(taken_from) or _begun(message, firsts)
            if half is not None and half.queue == queue:
                begun[taken_from] = half
                found[half] = found.get(half, 0) + 1
    return found


def _begun(message: Message, firsts: Mapping[tuple[str, int], HalfLocation]) -> HalfLocation | None:
    """Returns the half message whose first row this is."""
    properties = message.properties
    task, row = properties.get(TASK), properties.get(ROW_OF)
    if task is None or row is None or not row.isdecimal():
        return None
    return firsts.get((task, int(row)))


class Settling:
    """Ends the half messages of decisions."""

    def __init__(self, client: TopicClient, cluster: Cluster, options: SinkOptions) -> None:
        """Takes what it asks with."""
        self._client = client
        self._cluster = cluster
        self._options = options
        self._pause = threading.Event()

    def links(self, halves: Iterable[HalfLocation]) -> dict[str, Link]:
        """Returns open connections to the brokers of half messages.

        Raises:
            RemotingError: One cannot be reached.
        """
        queues = {half.queue for half in halves}
        return self._client.links(
            sorted({queue.topic for queue in queues}),
            sorted({queue.broker_name for queue in queues}),
        )

    def commit(self, decision: Decision, links: Mapping[str, Link] | None = None) -> None:
        """Commits what a decision names and is not committed; returns when all of it is.

        Args:
            decision: What was decided.
            links: Connections from before it was written, when it was written just now by who
                calls: nothing of it can be committed but on them.

        Raises:
            SinkError: A half message is gone, or brokers do not answer.
        """
        failed: list[str] = []
        while True:
            try:
                return self._commit_rest(decision, links)
            except RemotingError as error:
                if isinstance(error, ResponseError) and error.code not in _PASSING:
                    raise SinkError(
                        f"batch {decision.batch} of query {decision.query} is decided, and a part "
                        f"of it cannot be committed: {error.message}"
                    ) from error
                failed.append(error.message)
                if len(failed) > self._options.retries:
                    raise SinkError(
                        f"batch {decision.batch} of query {decision.query} is decided and not "
                        "committed yet; it will be when the query starts again: "
                        + "; ".join(failed)
                    ) from error
                _log.warning("commits of batch %d begin again: %s", decision.batch, error.message)
            links = None
            wait_ms = min(self._options.retry_backoff_ms << min(len(failed), 16), BACKOFF_MS_MAX)
            self._pause.wait(wait_ms / _MS_PER_S)

    def roll_back(self, group: str, halves: Iterable[HalfLocation]) -> None:
        """Rolls back half messages; brokers that do not hear of it ask later."""
        listed = list(halves)
        if not listed:
            return
        try:
            self._end(group, [(half, 0) for half in listed], self.links(listed), is_commit=False)
        except RemotingError as error:
            _log.warning("%d half messages wait for a check: %s", len(listed), error.message)

    def _commit_rest(self, decision: Decision, links: Mapping[str, Link] | None) -> None:
        stored: Mapping[HalfLocation, int] = {}
        if links is None:
            # Before anybody looks.
            links = self.links(decision.halves)
            stored = stored_of(self._cluster, decision)
        left = [(half, stored.get(half, 0)) for half in decision.halves]
        self._end(
            decision.group,
            [(half, count) for half, count in left if count < half.rows],
            links,
            is_commit=True,
        )

    def _end(
        self,
        group: str,
        halves: Iterable[tuple[HalfLocation, int]],
        links: Mapping[str, Link],
        *,
        is_commit: bool,
    ) -> None:
        queues: dict[MessageQueue, list[tuple[HalfLocation, int]]] = defaultdict(list)
        for half, stored in halves:
            queues[half.queue].append((half, stored))
        state = TransactionState.COMMIT if is_commit else TransactionState.ROLLBACK
        turns = asyncio.Semaphore(_QUEUES_AT_ONCE)

        async def end_queue(of_queue: list[tuple[HalfLocation, int]]) -> None:
            async with turns:
                for half, stored in of_queue:
                    fields = end_fields_of(group, half, stored, state)
                    await self._ask(links[half.queue.broker_name], fields)

        async def end_all() -> None:
            async with asyncio.TaskGroup() as tasks:
                for of_queue in queues.values():
                    tasks.create_task(end_queue(of_queue))

        try:
            self._client.run(end_all)
        except* RemotingError as errors:
            raise _first(errors) from None

    async def _ask(self, link: Link, fields: dict[str, str]) -> None:
        timeout_s = self._options.request_timeout_ms / _MS_PER_S
        answer = await link.call(RequestCode.END_TRANSACTION, fields, timeout_s=timeout_s)
        if answer.code not in STATUS_OF_CODE:
            remark = answer.remark or ""
            raise ResponseError(
                f"{link.peer} answered {answer.code}: {remark}",
                address=link.peer,
                code=answer.code,
                remark=remark,
            )


def end_fields_of(
    group: str, half: HalfLocation, stored: int, state: TransactionState
) -> dict[str, str]:
    """Returns the header's fields of END_TRANSACTION.

    Args:
        group: Who sent the half message.
        half: Where it is.
        stored: How many of its rows are committed already.
        state: How it ends.
    """
    fields = {
        "topic": half.queue.topic,
        "producerGroup": group,
        "tranStateTableOffset": str(half.half_offset),
        "commitLogOffset": str(half.physical_offset),
        "commitOrRollback": str(state_code(state)),
        "fromTransactionCheck": "false",
        "msgId": "",
        "bname": half.queue.broker_name,
    }
    # Sent only where it matters: official brokers do not know this field.
    return fields | ({"mqcoreStored": str(stored)} if stored else {})


def _first(errors: BaseExceptionGroup) -> RemotingError:
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, RemotingError)
    return found
