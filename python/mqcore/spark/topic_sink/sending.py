"""Sends packed rows: several requests at once, each until a broker has acknowledged it.

One client per process and options, kept for the tasks that come: Spark uses its workers again.
Rows of one queue leave one request at a time, so that a try that failed is passed by none.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from mqcore.client.blocking.loop_thread import LoopThread, loop_thread
from mqcore.client.delivery import Delivery, TryRules
from mqcore.client.message import Message
from mqcore.client.outgoing import Outgoing
from mqcore.client.producer import Producer
from mqcore.client.results import STATUS_OF_CODE, QueueRef, SendResult
from mqcore.client.topics import Target
from mqcore.client.transaction_producer import TransactionProducer
from mqcore.client.transactions import CheckCallback
from mqcore.clock import monotonic_ms
from mqcore.errors import ConnectError, RemotingError, UnsupportedError
from mqcore.native import Command
from mqcore.remoting.link import Link
from mqcore.remoting.response_codes import ResponseCode
from mqcore.remoting.signing import Credentials
from mqcore.spark.topic_sink.options import ClientOptions, SinkOptions

__all__ = ["Request", "Stored", "TopicClient", "Window", "topic_client"]

_T = TypeVar("_T")

_MS_PER_S: Final = 1000
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
        first_row: The number of the first one.
        last_row: The number of the last one.
    """

    outgoing: Outgoing
    target: Target
    queue: QueueRef | None
    rows: int
    first_row: int = 0
    last_row: int = 0


@dataclass(frozen=True, slots=True)
class Stored:
    """A request that a broker acknowledged.

    Attributes:
        request: The request.
        queue: The queue that it went to.
        answer: The broker's answer.
    """

    request: Request
    queue: QueueRef
    answer: Command


class TopicClient:
    """A producer's client, for the tasks of this process."""

    def __init__(self, options: ClientOptions, check: CheckCallback | None = None) -> None:
        """Connects nowhere yet.

        Args:
            options: Whom it speaks to.
            check: Answers brokers what became of half messages, where such are sent.
        """
        self._thread: LoopThread = loop_thread()
        credentials = None
        if options.access_key is not None and options.secret_key is not None:
            credentials = Credentials(
                options.access_key, options.secret_key, options.security_token
            )
        shared: dict[str, Any] = {
            "group": options.group,
            "credentials": credentials,
            "namespace": options.namespace,
            "tls": options.tls or None,
        }
        self.producer: Producer = (
            Producer(options.namesrv, **shared)
            if check is None
            else TransactionProducer(options.namesrv, check=check, **shared)
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

    @property
    def group(self) -> str:
        """The producer group, its namespace included."""
        return self.producer.sender.group

    def full_name(self, topic: str) -> str:
        """Returns a topic as brokers know it: with the namespace."""
        return self.producer.instance.full_name(topic)

    def need_half_batches(self, target: Target) -> None:
        """Checks that the brokers of a topic commit half messages that stand for many rows.

        They know the group afterwards, and ask it back.

        Raises:
            UnsupportedError: One does not.
        """
        self._thread.run(lambda: self._need_half_batches(target))

    async def _need_half_batches(self, target: Target) -> None:
        instance = self.producer.instance
        names = sorted({queue.broker_name for queue in target.queues})
        await instance.until_known(names)
        for name in names:
            address = instance.address_of(name)
            if address is not None and address not in instance.with_half_batches:
                raise UnsupportedError(
                    f"topic {target.topic}: broker {name} at {address} does not say that it "
                    "commits many rows at once, which delivery 'exactly-once' needs: brokers of "
                    "mqcore do; it may not have answered",
                    address=address,
                )

    def send(self, message: Message, queue: QueueRef) -> SendResult:
        """Sends a message to a queue; returns when it is stored.

        Raises:
            MQError: It is not known to be stored.
        """
        return self._thread.run(lambda: self.producer.send(message, queue=queue))

    def links(self, topics: Iterable[str], broker_names: Iterable[str]) -> dict[str, Link]:
        """Returns open connections to the masters of brokers, by name.

        What is asked on one of them is answered by the broker that runs now, or not at all.

        Raises:
            RemotingError: One cannot be reached.
        """
        return self._thread.run(lambda: self._links(list(topics), list(broker_names)))

    async def _links(self, topics: list[str], broker_names: list[str]) -> dict[str, Link]:
        instance = self.producer.instance
        for topic in topics:
            await instance.refresh_route(topic)
        found: dict[str, Link] = {}
        for name in broker_names:
            address = instance.address_of(name)
            if address is None:
                raise ConnectError(f"broker {name} has no master now", address=name)
            found[name] = await instance.remote.link(address)
        return found

    def run(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Runs a coroutine on the loop and returns what it returns."""
        return self._thread.run(work)

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

    async def deliver(self, request: Request, options: SinkOptions) -> Stored:
        """Sends a request until it is acknowledged.

        Raises:
            SendError: A broker refused it, or all tries failed.
        """
        if request.queue is None:
            return await self._tries(request, options)
        turn = self._turns.setdefault(request.queue, asyncio.Lock())
        async with turn:
            return await self._tries(request, options)

    async def _tries(self, request: Request, options: SinkOptions) -> Stored:
        sender, target = self.producer.sender, request.target
        delivery = Delivery(
            request.outgoing,
            _rules(options),
            target.choice,
            began_ms=monotonic_ms(),
            fixed=request.queue,
            what=f"a request of {request.rows} rows",
        )
        while True:
            queue, left_ms = delivery.next_try(target.queues, monotonic_ms())
            try:
                address = sender.instance.address_of(queue.broker_name)
                if address is None:
                    address = await sender.master_of(queue)
                answer = await sender.exchange(address, request.outgoing, queue, left_ms)
                if delivery.accepted(answer, address, monotonic_ms()):
                    return Stored(request, queue, answer)
            except RemotingError as error:
                delivery.failed(error, monotonic_ms())
            await asyncio.sleep(delivery.pause_ms(monotonic_ms()) / _MS_PER_S)
            # Where no name server answers, what was known stays, and the next try finds out.
            with contextlib.suppress(RemotingError):
                await sender.instance.refresh_route(target.topic)


def _rules(options: SinkOptions) -> TryRules:
    """Returns how often requests are tried.

    A status such as FLUSH_DISK_TIMEOUT is success here, as it is to the official client: it is
    stored, and less safe than asked. A half message that a decision is to name must be as safe as
    that. What must go to one queue is tried again there: no request passes it.
    """
    return TryRules(
        retries=options.retries,
        try_timeout_ms=options.request_timeout_ms,
        stored_codes=(ResponseCode.SUCCESS,) if options.is_exact else STATUS_OF_CODE,
        retries_fixed=True,
        backoff_ms=options.retry_backoff_ms,
    )


class Window:
    """The requests of one task that are not acknowledged yet; a bounded number of them.

    `send` and `drain` wait in the task's thread; answers come in the loop's.

    Attributes:
        stored: Of half messages what was acknowledged; those of one queue in their order.
    """

    def __init__(self, client: TopicClient, options: SinkOptions) -> None:
        """Begins without any."""
        self._client = client
        self._options = options
        self._changed = threading.Condition()
        self._open = 0
        self._error: BaseException | None = None
        self.stored: list[Stored] = []

    def send(self, request: Request) -> None:
        """Sends a request as soon as there is capacity for it.

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
            stored = await self._client.deliver(request, self._options)
            if self._options.is_exact:
                self.stored.append(stored)
        except BaseException as raised:
            # Whatever it is, the task that waits must hear of it.
            error = raised
        with self._changed:
            self._open -= 1
            self._error = self._error or error
            self._changed.notify_all()


_lock = threading.Lock()
_clients: dict[tuple[int, ClientOptions, str], TopicClient] = {}


def topic_client(
    options: ClientOptions,
    name: str = "",
    make: Callable[[ClientOptions], TopicClient] = TopicClient,
) -> TopicClient:
    """Returns the client of this process for these options; makes it the first time.

    Args:
        options: Whom it speaks to.
        name: What distinguishes it from others with the same options.
        make: Makes it.

    Raises:
        MQError: The options cannot work.
    """
    key = (os.getpid(), options, name)
    with _lock:
        found = _clients.get(key)
        if found is None:
            found = _clients[key] = make(options)
        return found


def _after_fork_in_child() -> None:
    global _lock
    # Somebody may have held it; the parent's clients are of no use here.
    _lock = threading.Lock()
    _clients.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
