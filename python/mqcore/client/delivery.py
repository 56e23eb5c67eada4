"""The tries of one send: which queue next, what an answer means, when to give up. No I/O.

One deadline over all tries. A try that failed goes to another broker where there is one. After
`DefaultMQProducerImpl.sendDefaultImpl`. Whoever drives it does the waiting:

    while True:
        queue, left_ms = delivery.next_try(queues, now_ms)
        ... send to the queue's broker, wait for the answer ...
        result = delivery.answered(command, now_ms)    # or delivery.failed(error, now_ms)
        if result is not None: return result           # both raise when there is nothing to try
"""

from collections.abc import Sequence
from typing import Final

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

__all__ = ["RETRIED_CODES", "Delivery", "result_of"]

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
        ),
    )
)
_MS_PER_S: Final = 1000


def result_of(
    answer: Command, status: SendStatus, queue: MessageQueue, message_id: str, attempts: int = 1
) -> SendResult:
    """Returns the result that an answer tells.

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
        queue: Where the current try goes.
    """

    __slots__ = (
        "_began_ms",
        "_choice",
        "_deadline_ms",
        "_faults",
        "_fixed",
        "_outgoing",
        "_settings",
        "_try_began_ms",
        "attempts",
        "queue",
    )

    def __init__(
        self,
        outgoing: Outgoing,
        settings: ProducerSettings,
        choice: QueueChoice,
        *,
        began_ms: int,
        timeout_s: float | None = None,
        fixed: MessageQueue | None = None,
        faults: FaultStrategy | None = None,
    ) -> None:
        """Begins.

        Args:
            outgoing: What is sent.
            settings: Retries and deadlines.
            choice: Chooses queues of the topic.
            began_ms: Now, on a clock that never steps back.
            timeout_s: The deadline; the settings' one when not given.
            fixed: The one queue that it must go to: then it is tried once.
            faults: Who is left alone, if that is wanted.
        """
        self._outgoing = outgoing
        self._settings = settings
        self._choice = choice
        self._began_ms = began_ms
        seconds = settings.timeout_s if timeout_s is None else timeout_s
        self._deadline_ms = began_ms + seconds * _MS_PER_S
        self._fixed = fixed
        self._faults = faults
        self._try_began_ms = began_ms
        self.attempts: list[tuple[str, MQError]] = []
        self.queue: MessageQueue | None = fixed

    def next_try(self, queues: Sequence[MessageQueue], now_ms: int) -> tuple[MessageQueue, float]:
        """Returns where to send to now, and how many ms the answer may take.

        Raises:
            SendError: The deadline has passed.
            SendError: The route has no queue that may be written.
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
            last = self.attempts[-1][0] if self.attempts else None
            queue = self._choice.next(queues, last_broker=last, faults=self._faults, now_ms=now_ms)
        self.queue = queue
        self._try_began_ms = now_ms
        if self._settings.try_timeout_s is not None:
            left_ms = min(left_ms, self._settings.try_timeout_s * _MS_PER_S)
        return queue, left_ms

    def answered(self, answer: Command, address: str, now_ms: int) -> SendResult | None:
        """Takes the answer of a try; returns the result, or None where it is to be tried again.

        Raises:
            SendError: The broker refused, and no other one would do better.
        """
        queue = self.queue
        assert queue is not None
        status = STATUS_OF_CODE.get(answer.code)
        if status is None:
            remark = answer.remark or ""
            error = ResponseError(
                f"{address} answered {answer.code}: {remark}",
                address=address,
                code=answer.code,
                remark=remark,
            )
            self.failed(error, now_ms)
            return None
        if self._faults is not None:
            self._faults.note(queue.broker_name, now_ms - self._try_began_ms, Outcome(), now_ms)
        message_id = self._outgoing.message_id
        try:
            result = result_of(answer, status, queue, message_id, len(self.attempts) + 1)
        except ValueError as error:
            raise self._error(
                SendReason.BAD_ANSWER,
                f"topic {self._outgoing.topic}: {address} stored message {message_id}, and its "
                f"answer cannot be read: {error}",
            ) from error
        if (
            status is not SendStatus.SEND_OK
            and self._settings.retries_other_status
            and self._may_try_again(now_ms)
        ):
            why = MQError(f"{address} stored it with status {status.value}")
            self.attempts.append((queue.broker_name, why))
            return None
        return result

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
            raise self._given_up(now_ms)
        if not self._may_try_again(now_ms):
            raise self._given_up(now_ms)

    def _may_try_again(self, now_ms: int) -> bool:
        has_tries = self._fixed is None and len(self.attempts) <= self._settings.retries
        return has_tries and now_ms < self._deadline_ms

    def _given_up(self, now_ms: int) -> SendError:
        took_ms = now_ms - self._began_ms
        is_late = now_ms >= self._deadline_ms
        tries = "; ".join(
            f"try {at} at {name}: {error.message}"
            for at, (name, error) in enumerate(self.attempts, 1)
        )
        text = (
            f"topic {self._outgoing.topic}: message {self._outgoing.message_id} was not "
            f"acknowledged within {took_ms} ms and {len(self.attempts)} tries: {tries}"
        )
        timed_out = is_late or (
            bool(self.attempts) and isinstance(self.attempts[-1][1], CallTimeoutError)
        )
        return self._error(SendReason.TIMEOUT if timed_out else self._last_reason(), text)

    def _last_reason(self) -> SendReason:
        is_refusal = isinstance(self.attempts[-1][1], ResponseError)
        return SendReason.REFUSED if is_refusal else SendReason.UNREACHABLE

    def _error(self, reason: SendReason, text: str) -> SendError:
        unknown = any(
            isinstance(error, CallTimeoutError | ConnectionLostError) for _, error in self.attempts
        )
        if unknown:
            text += ". It may be stored all the same; a consumer tells copies by their unique id"
        error = SendError(
            text,
            reason=reason,
            topic=self._outgoing.topic,
            attempts=tuple(self.attempts),
            may_be_stored=unknown,
        )
        error.__cause__ = self.attempts[-1][1] if self.attempts else None
        return error
