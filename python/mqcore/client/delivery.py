"""The tries of one send: which queue next, what an answer means, when to give up. No I/O.

The one driver of all senders: of the asyncio client, of its blocking face and of Spark's sink; they
differ in their `TryRules`. A try that failed goes to another broker where there is one, at once.
Where all were tried it waits first, and where there is only one it is tried until the deadline.
With `official_retries` it is `DefaultMQProducerImpl.sendDefaultImpl`. Whoever drives it does the
waiting:

    while True:
        queue, left_ms = delivery.next_try(queues, now_ms)
        ... send to the queue's broker, wait for the answer ...
        if delivery.accepted(answer, address, now_ms):   # or delivery.failed(error, now_ms)
            return delivery.result(answer, address)      # all raise when there is nothing to try
        ... wait for delivery.pause_ms(now_ms) ...
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final, Self

from mqcore.client.faults import FaultStrategy, Outcome, QueueChoice
from mqcore.client.outgoing import Outgoing
from mqcore.client.results import STATUS_OF_CODE, SendResult, SendStatus
from mqcore.client.settings import ProducerSettings
from mqcore.errors import (
    CallTimeoutError,
    ConnectionLostError,
    MQError,
    ResponseError,
    SendError,
    SendReason,
)
from mqcore.model.queues import MessageQueue
from mqcore.native import Command
from mqcore.remoting.response_codes import ResponseCode

__all__ = [
    "BACKOFF_MS_MAX",
    "RETRIED_CODES",
    "RETRY_PAUSE_MS",
    "RETRY_PAUSE_MS_MAX",
    "Delivery",
    "TryRules",
    "result_of",
]

# `retryResponseCodes` of 5.3: answers after which another broker may do better.
RETRIED_CODES: Final = frozenset(
    map(
        int,
        (
            ResponseCode.TOPIC_NOT_EXIST,
            ResponseCode.SERVICE_NOT_AVAILABLE,
            ResponseCode.SYSTEM_ERROR,
            ResponseCode.SYSTEM_BUSY,
            ResponseCode.NO_PERMISSION,
            ResponseCode.NO_BUYER_ID,
            ResponseCode.NOT_IN_CURRENT_UNIT,
            ResponseCode.GO_AWAY,
            # Ours: the route has the broker that a queue of a static topic has moved to.
            ResponseCode.NOT_LEADER_FOR_QUEUE,
        ),
    )
)
# Those of them that one broker gives while it starts, stops or has too much to do.
_PASSING_CODES: Final = frozenset(
    map(
        int,
        (
            ResponseCode.SERVICE_NOT_AVAILABLE,
            ResponseCode.SYSTEM_ERROR,
            ResponseCode.SYSTEM_BUSY,
            ResponseCode.GO_AWAY,
        ),
    )
)
_MS_PER_S: Final = 1000
_STORED_CODES: Final = frozenset(STATUS_OF_CODE)
# The first pause of a producer before it tries the same broker again: connections that a broker
# broke are made anew by then.
RETRY_PAUSE_MS: Final = 50
# Its longest pause: a broker that starts again is noticed within that.
RETRY_PAUSE_MS_MAX: Final = 500
# The longest pause of senders without a deadline: a broker that starts again is back by then.
BACKOFF_MS_MAX: Final = 5_000
# A pause doubles so often at the most: beyond it the maximum holds for every first pause.
_DOUBLINGS_MAX: Final = 16
# Longer than any deadline, where numbers must be whole.
_FOREVER_MS: Final = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class TryRules:
    """How often and how long a send is tried.

    Attributes:
        retries: Further tries after the first; 0 means one try in any case.
        timeout_ms: The deadline over all tries; infinite for none.
        try_timeout_ms: The deadline of one try; infinite lets one try take all that is left.
        stored_codes: Answers after which the message is stored.
        retries_other_status: Whether one of these other than SUCCESS is tried again elsewhere.
        retries_fixed: Whether what must go to one queue is tried again there.
        until_deadline: Whether a failure that may pass is tried again until the deadline, whatever
            `retries` is, where no other broker has the topic.
        backoff_ms: The pause before a broker is tried again, doubled before each further time.
        backoff_ms_max: The longest pause.
    """

    retries: int
    timeout_ms: float = inf
    try_timeout_ms: float = inf
    stored_codes: Collection[int] = _STORED_CODES
    retries_other_status: bool = False
    retries_fixed: bool = False
    until_deadline: bool = False
    backoff_ms: int = 0
    backoff_ms_max: int = BACKOFF_MS_MAX

    @classmethod
    def of(cls, settings: ProducerSettings) -> Self:
        """Returns the rules of a producer's settings."""
        try_s = settings.try_timeout_s
        waits = not settings.official_retries
        return cls(
            retries=settings.retries,
            timeout_ms=settings.timeout_s * _MS_PER_S,
            try_timeout_ms=inf if try_s is None else try_s * _MS_PER_S,
            retries_other_status=settings.retries_other_status,
            retries_fixed=waits,
            until_deadline=waits,
            backoff_ms=RETRY_PAUSE_MS if waits else 0,
            backoff_ms_max=RETRY_PAUSE_MS_MAX,
        )

    def once(self) -> Self:
        """Returns the rules for what only one broker can do, now or never."""
        return replace(self, retries=0)


def result_of(
    answer: Command, status: SendStatus, queue: MessageQueue, message_id: str, attempts: int = 1
) -> SendResult:
    """Returns the result in an answer.

    Args:
        answer: The answer.
        status: What its code means.
        queue: Where it was sent to; the broker may have chosen another queue of its own.
        message_id: The message's unique id.
        attempts: How many tries it took.
    """
    ext = answer.ext
    queue_id = int(ext.get("queueId", queue.queue_id))
    if queue_id != queue.queue_id:
        queue = MessageQueue(queue.topic, queue.broker_name, queue_id)
    return SendResult(
        status,
        message_id,
        queue,
        int(ext.get("queueOffset", -1)),
        ext.get("msgId", ""),
        ext.get("transactionId"),
        ext.get("recallHandle"),
        attempts,
        ext.get("MSG_REGION") or "DefaultRegion",
        ext.get("TRACE_ON") != "false",
        ext.get("batchUniqId"),
    )


class Delivery:
    """The tries of one message or batch.

    Attributes:
        attempts: Broker name and error of each try that failed.
        queue: Where the current try goes; set before the first one, where that goes.
    """

    __slots__ = (
        "_began_ms",
        "_choice",
        "_deadline_ms",
        "_faults",
        "_fixed",
        "_outgoing",
        "_queues",
        "_rules",
        "_try_began_ms",
        "_what",
        "attempts",
        "queue",
    )

    def __init__(
        self,
        outgoing: Outgoing,
        rules: TryRules,
        choice: QueueChoice,
        *,
        began_ms: int,
        timeout_s: float | None = None,
        fixed: MessageQueue | None = None,
        faults: FaultStrategy | None = None,
        what: str = "",
    ) -> None:
        """Begins.

        Args:
            outgoing: What is sent.
            rules: Retries and deadlines.
            choice: Chooses queues of the topic.
            began_ms: Now, on a clock that never steps back.
            timeout_s: The deadline over all tries; that of the rules when not given.
            fixed: The one queue that it must go to.
            faults: Who is left alone, if that is wanted.
            what: What errors call it; the message and its id when not given.
        """
        self._outgoing = outgoing
        self._rules = rules
        self._choice = choice
        self._what = what
        self._began_ms = began_ms
        total_ms = rules.timeout_ms if timeout_s is None else timeout_s * _MS_PER_S
        self._deadline_ms = began_ms + total_ms
        self._fixed = fixed
        self._faults = faults
        self._try_began_ms = began_ms
        # What could be written at the last try.
        self._queues: Sequence[MessageQueue] = ()
        self.attempts: list[tuple[str, MQError]] = []
        self.queue: MessageQueue | None = fixed

    def took(self, queue: MessageQueue, queues: Sequence[MessageQueue]) -> None:
        """Notes that the first try went to a queue, at the moment at which the delivery began.

        Args:
            queue: The queue.
            queues: The queues that could be written then.
        """
        self.queue = queue
        self._queues = queues

    def left_ms(self, now_ms: int) -> float:
        """Returns how many ms the send may still take."""
        return self._deadline_ms - now_ms

    def next_try(self, queues: Sequence[MessageQueue], now_ms: int) -> tuple[MessageQueue, float]:
        """Returns where to send to now, and how many ms the answer may take.

        Raises:
            SendError: The deadline has passed, or the route has no queue that may be written.
        """
        left_ms = self._deadline_ms - now_ms
        if left_ms <= 0:
            raise self._given_up(now_ms)
        queue = self._fixed
        if queue is None:
            if not queues:
                raise self._error(
                    SendReason.NO_QUEUE,
                    f"topic {self._outgoing.topic}: no queue may be written: its brokers have no "
                    "master now, or the topic's perm forbids writing",
                )
            if self.attempts:
                queue = self._chosen(queues, now_ms)
            else:
                queue = self.queue or self._first(queues, now_ms)
        self.queue = queue
        self._queues = queues
        self._try_began_ms = now_ms
        try_ms = self._rules.try_timeout_ms
        return queue, left_ms if left_ms < try_ms else try_ms

    def _first(self, queues: Sequence[MessageQueue], now_ms: int) -> MessageQueue:
        return self._choice.next(queues, faults=self._faults, now_ms=now_ms)

    def _chosen(self, queues: Sequence[MessageQueue], now_ms: int) -> MessageQueue:
        """Returns the queue of a further try: at a broker that was not tried, if there is one."""
        tried = {name for name, _ in self.attempts}
        fresh = [queue for queue in queues if queue.broker_name not in tried]
        last = self.attempts[-1][0]
        return self._choice.next(
            fresh or queues, last_broker=last, faults=self._faults, now_ms=now_ms
        )

    def pause_ms(self, now_ms: int) -> int:
        """Returns how long to wait before the next try: 0 where another broker is to be tried."""
        rules = self._rules
        if not rules.backoff_ms or not self.attempts:
            return 0
        times = len(self.attempts)
        if rules.until_deadline:
            names = [name for name, _ in self.attempts]
            # The next one is the broker that was tried least.
            times = min((names.count(name) for name in self._brokers()), default=times)
            if not times:
                return 0
        pause_ms = min(rules.backoff_ms << min(times - 1, _DOUBLINGS_MAX), rules.backoff_ms_max)
        # The last try is to have time for its answer.
        return min(pause_ms, int(min(self._deadline_ms - now_ms, _FOREVER_MS) / 2))

    @property
    def has_moved(self) -> bool:
        """Whether the last try came to a broker that its queue has left (static topics)."""
        error = self.attempts[-1][1] if self.attempts else None
        code = ResponseCode.NOT_LEADER_FOR_QUEUE
        return isinstance(error, ResponseError) and error.code == code

    def _brokers(self) -> frozenset[str]:
        """Returns the names of the brokers that it may go to."""
        if self._fixed is not None:
            return frozenset((self._fixed.broker_name,))
        return frozenset(queue.broker_name for queue in self._queues)

    def accepted(self, answer: Command, address: str, now_ms: int) -> bool:
        """Takes the answer of a try; returns whether the send is done, or is to be tried again.

        Raises:
            SendError: The broker refused, and no other one would do better.
        """
        queue = self.queue
        assert queue is not None
        if answer.code not in self._rules.stored_codes:
            remark = answer.remark or ""
            error = ResponseError(
                f"{address} answered {answer.code}: {remark}",
                address=address,
                code=answer.code,
                remark=remark,
            )
            self.failed(error, now_ms)
            return False
        if self._faults is not None:
            self._faults.note(queue.broker_name, now_ms - self._try_began_ms, Outcome(), now_ms)
        if (
            self._rules.retries_other_status
            and answer.code != ResponseCode.SUCCESS
            and self._may_try_again(now_ms, is_passing=False)
        ):
            status = STATUS_OF_CODE[answer.code]
            why = MQError(f"{address} stored it with status {status.value}")
            self.attempts.append((queue.broker_name, why))
            return False
        return True

    def result(self, answer: Command, address: str) -> SendResult:
        """Returns the result in an accepted answer.

        Raises:
            SendError: It cannot be read.
        """
        queue = self.queue
        assert queue is not None
        message_id = self._outgoing.message_id
        status = STATUS_OF_CODE[answer.code]
        try:
            return result_of(answer, status, queue, message_id, len(self.attempts) + 1)
        except ValueError as error:
            raise self._error(
                SendReason.BAD_ANSWER,
                f"topic {self._outgoing.topic}: {address} stored message {message_id}, and its "
                f"answer cannot be read: {error}",
            ) from error

    def failed(self, error: MQError, now_ms: int) -> None:
        """Notes that a try failed; returns where it is to be tried again.

        Raises:
            SendError: It is not.
        """
        queue = self.queue
        assert queue is not None
        if self._faults is not None:
            is_refusal = isinstance(error, ResponseError)
            is_reachable = not is_refusal and not self._faults.has_detector
            self._faults.note(
                queue.broker_name,
                now_ms - self._try_began_ms,
                Outcome(is_failed=True, is_reachable=is_reachable),
                now_ms,
            )
        self.attempts.append((queue.broker_name, error))
        if isinstance(error, ResponseError) and error.code not in RETRIED_CODES:
            raise self._refused(error)
        is_passing = not isinstance(error, ResponseError) or error.code in _PASSING_CODES
        if not self._may_try_again(now_ms, is_passing=is_passing):
            raise self._given_up(now_ms)

    def stopped(self) -> SendError:
        """Returns the error of a send whose client was closed between two tries."""
        return self._error(
            SendReason.STOPPED,
            f"{self._subject} was not acknowledged: the client was closed meanwhile: "
            f"{self._tries()}",
        )

    def _may_try_again(self, now_ms: int, *, is_passing: bool) -> bool:
        rules = self._rules
        left_ms = self._deadline_ms - now_ms
        if left_ms <= 0 or (self._fixed is not None and not rules.retries_fixed):
            return False
        if len(self.attempts) <= rules.retries:
            return True
        waits = is_passing and rules.until_deadline and rules.retries > 0
        # Less time than the first pause is none.
        return waits and left_ms > rules.backoff_ms and len(self._brokers()) <= 1

    @property
    def _subject(self) -> str:
        what = self._what or f"message {self._outgoing.message_id}"
        return f"topic {self._outgoing.topic}: {what}"

    def _tries(self) -> str:
        """Returns what each try ended with; tries in a row that ended alike are one clause."""
        found: list[tuple[int, int, str]] = []
        for at, (name, error) in enumerate(self.attempts, 1):
            clause = f"at {name}: {error.message}"
            if found and found[-1][2] == clause:
                found[-1] = (found[-1][0], at, clause)
            else:
                found.append((at, at, clause))
        return "; ".join(
            f"try {first} {clause}" if first == last else f"tries {first} to {last} {clause}"
            for first, last, clause in found
        )

    def _refused(self, error: ResponseError) -> SendError:
        """Returns the error of an answer that every broker would give."""
        before = len(self.attempts) - 1
        after = f", after {_counted_tries(before)}" if before else ""
        tries = f" ({self._tries()})" if before else ""
        name = self.attempts[-1][0]
        text = f"{self._subject} was refused by broker {name}{after}: {error.message}{tries}"
        return self._error(SendReason.REFUSED, text)

    def _given_up(self, now_ms: int) -> SendError:
        took_ms = now_ms - self._began_ms
        is_late = now_ms >= self._deadline_ms
        if self.attempts:
            text = (
                f"{self._subject} was not acknowledged within {took_ms} ms, in "
                f"{_counted_tries(len(self.attempts))}: {self._tries()}"
            )
        else:
            text = f"{self._subject} was not sent: its deadline passed before the first try"
        timed_out = is_late or (
            bool(self.attempts) and isinstance(self.attempts[-1][1], CallTimeoutError)
        )
        return self._error(SendReason.TIMEOUT if timed_out else self._last_reason(), text)

    def _last_reason(self) -> SendReason:
        is_refusal = isinstance(self.attempts[-1][1], ResponseError)
        return SendReason.REFUSED if is_refusal else SendReason.UNREACHABLE

    def _error(self, reason: SendReason, text: str) -> SendError:
        unknown = any(_may_be_stored(error) for _, error in self.attempts)
        if unknown:
            text += ". It may be stored all the same; a consumer knows copies by their unique id"
        error = SendError(
            text,
            reason=reason,
            topic=self._outgoing.topic,
            attempts=tuple(self.attempts),
            may_be_stored=unknown,
        )
        error.__cause__ = self.attempts[-1][1] if self.attempts else None
        return error


def _may_be_stored(error: BaseException) -> bool:
    """Returns whether a try that ended so may have stored the message."""
    if isinstance(error, ResponseError):
        # A broker whose sync failed answers so too, and the message is in its log.
        return error.code == ResponseCode.SERVICE_NOT_AVAILABLE
    return isinstance(error, CallTimeoutError | ConnectionLostError)


def _counted_tries(count: int) -> str:
    return "1 try" if count == 1 else f"{count} tries"
