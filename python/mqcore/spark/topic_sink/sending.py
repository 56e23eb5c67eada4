"""Sends packed rows: several requests at once, each until a broker has acknowledged it.

One client per process and options, kept for the tasks that come: Spark uses its workers again.
Rows of one queue leave one request at a time, so that a try that failed is passed by none.
"""

import asyncio
import contextlib
import itertools
import os
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final

from mqcore.client.blocking.loop_thread import LoopThread, loop_thread
from mqcore.client.delivery import RETRIED_CODES
from mqcore.client.outgoing import Outgoing
from mqcore.client.producer import Producer
from mqcore.client.results import STATUS_OF_CODE, QueueRef
from mqcore.client.signing import Credentials
from mqcore.client.topics import Target
from mqcore.clock import monotonic_ms
from mqcore.errors import (
    CallTimeoutError,
    ConnectionLostError,
    MQError,
    RemotingError,
    ResponseError,
    SendError,
)
from mqcore.spark.topic_sink.options import ClientOptions, SinkOptions

__all__ = ["Request", "TopicClient", "Window", "topic_client"]

_MS_PER_S: Final = 1000
# A broker that starts again is back by then, or the task fails and Spark tries it anew.
_BACKOFF_MS_MAX: Final = 5_000
# How often a waiting task looks whether the loop lives.
_LOOK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent at once.

    Attributes:
        outgoing: The message or the batch.
        target: Its topic.
        queue: The queue that it must go to, or None.
        rows: How many rows it carries.
    """

    outgoing: Outgoing
    target: Target
    queue: QueueRef | None
    rows: int


class TopicClient:
    """A producer's client, for the tasks of this process."""

    def __init__(self, options: ClientOptions) -> None:
        """Connects nowhere yet."""
        self._thread: LoopThread = loop_thread()
        credentials = None
        if options.access_key is not None and options.secret_key is not None:
            credentials = Credentials(
                options.access_key, options.secret_key, options.security_token
            )
        self.producer = Producer(
            options.namesrv,
            group=options.group,
            credentials=credentials,
            namespace=options.namespace,
            tls=options.tls or None,
        )
        self._thread.run(self.producer.start)
        self._thread.close_at_exit(self, self.producer.close)
        # One request at a time for each queue that rows must go to.
        self._turns: dict[QueueRef, asyncio.Lock] = {}

    def target(self, topic: str) -> Target:
        """Returns a topic that rows go to, with its queues.

        Raises:
            RemotingError: No broker has it, or no name server answered.
        """
        return self._thread.run(lambda: self.producer.sender.target(topic))

    def need_timers(self, target: Target) -> None:
        """Checks that the brokers of a topic deliver in time what has a time of delivery.

        Raises:
            UnsupportedError: One does not.
        """
        self._thread.run(lambda: self.producer.need_timers(target))

    def run_soon(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs something on the loop; whoever gave it looks after its end."""
        self._thread.check_usable()
        asyncio.run_coroutine_threadsafe(work, self._thread.loop)

    def check_alive(self) -> None:
        """Checks that what was begun can end.

        Raises:
            ClosedError: The interpreter is ending.
        """
        self._thread.check_usable()

    def close(self) -> None:
        """Closes it; waits for nothing that is in flight."""
        self._thread.forget(self)
        self._thread.run(self.producer.close)

    async def deliver(self, request: Request, options: SinkOptions) -> None:
        """Sends a request until it is acknowledged.

        Raises:
            SendError: A broker refused it, or all tries failed.
        """
        if request.queue is None:
            await self._tries(request, options)
            return
        turn = self._turns.setdefault(request.queue, asyncio.Lock())
        async with turn:
            await self._tries(request, options)

    async def _tries(self, request: Request, options: SinkOptions) -> None:
        failed: list[tuple[str, MQError]] = []
        instance = self.producer.instance
        for number in itertools.count():
            queue = _next_queue(request, failed)
            try:
                await self._try(request, queue, options.request_timeout_ms)
            except RemotingError as error:
                failed.append((queue.broker_name, error))
                is_final = isinstance(error, ResponseError) and error.code not in RETRIED_CODES
                if is_final or number >= options.retries:
                    raise _given_up(request, failed) from error
            else:
                return
            wait_ms = min(options.retry_backoff_ms << min(number, 16), _BACKOFF_MS_MAX)
            await asyncio.sleep(wait_ms / _MS_PER_S)
            # Where no name server answers, what was known stays, and the next try tells.
            with contextlib.suppress(RemotingError):
                await instance.refresh_route(request.target.topic)

    async def _try(self, request: Request, queue: QueueRef, timeout_ms: float) -> None:
        sender = self.producer.sender
        address = sender.instance.address_of(queue.broker_name)
        if address is None:
            address = await sender.master_of(queue)
        answer = await sender.exchange(address, request.outgoing, queue, timeout_ms)
        # A status such as FLUSH_DISK_TIMEOUT is success here, as it is to the official client: it
        # is stored, and less safe than asked.
        if answer.code not in STATUS_OF_CODE:
            remark = answer.remark or ""
            raise ResponseError(
                f"{address} answered {answer.code}: {remark}",
                address=address,
                code=answer.code,
                remark=remark,
            )


def _next_queue(request: Request, failed: list[tuple[str, MQError]]) -> QueueRef:
    if request.queue is not None:
        return request.queue
    target = request.target
    if not target.queues:
        raise SendError(
            f"topic {target.topic}: no queue may be written: its brokers have no master now, or "
            "the topic's perm forbids writing",
            topic=target.topic,
            attempts=tuple(failed),
            may_be_stored=False,
        )
    last = failed[-1][0] if failed else None
    return target.choice.next(target.queues, last_broker=last, faults=None, now_ms=monotonic_ms())


def _given_up(request: Request, failed: list[tuple[str, MQError]]) -> SendError:
    tries = "; ".join(f"{name}: {error.message}" for name, error in failed)
    topic = request.target.topic
    return SendError(
        f"topic {topic}: a request of {request.rows} rows was not acknowledged after "
        f"{len(failed)} tries: {tries}",
        topic=topic,
        attempts=tuple(failed),
        may_be_stored=any(
            isinstance(error, CallTimeoutError | ConnectionLostError) for _, error in failed
        ),
    )


class Window:
    """The requests of one task that are not acknowledged yet; a bounded number of them.

    `send` and `drain` wait in the task's thread; answers come in the loop's.
    """

    def __init__(self, client: TopicClient, options: SinkOptions) -> None:
        """Begins without any."""
        self._client = client
        self._options = options
        self._changed = threading.Condition()
        self._open = 0
        self._error: BaseException | None = None

    def send(self, request: Request) -> None:
        """Sends a request as soon as there is room for it.

        Raises:
            SendError: One before it was not acknowledged.
        """
        self._wait_below(self._options.in_flight)
        with self._changed:
            self._open += 1
        self._client.run_soon(self._deliver(request))

    def drain(self) -> None:
        """Returns when everything sent so far is acknowledged.

        Raises:
            SendError: Something was not.
        """
        self._wait_below(1)

    def _wait_below(self, limit: int) -> None:
        with self._changed:
            while self._error is None and self._open >= limit:
                if not self._changed.wait(_LOOK_S):
                    self._client.check_alive()
            if self._error is not None:
                raise self._error

    async def _deliver(self, request: Request) -> None:
        error: BaseException | None = None
        try:
            await self._client.deliver(request, self._options)
        except BaseException as raised:
            # Whatever it is, the task that waits must hear of it.
            error = raised
        with self._changed:
            self._open -= 1
            self._error = self._error or error
            self._changed.notify_all()


_lock = threading.Lock()
_clients: dict[tuple[int, ClientOptions], TopicClient] = {}


def topic_client(options: ClientOptions) -> TopicClient:
    """Returns the client of this process for these options; makes it the first time.

    Raises:
        MQError: The options cannot work.
    """
    key = (os.getpid(), options)
    with _lock:
        found = _clients.get(key)
        if found is None:
            found = _clients[key] = TopicClient(options)
        return found


def _after_fork_in_child() -> None:
    global _lock
    # Somebody may have held it; the parent's clients are of no use here.
    _lock = threading.Lock()
    _clients.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
