"""Transactions: a message that consumers see once the sender's own work is known to have succeeded.

After `TransactionMQProducer`: a half message, the local work, then its end; a broker that hears of
no end asks the group back. What each step sends is a pure function here; the producers that use
them wait.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from mqcore.client import properties as names
from mqcore.client.handlers import check_callback
from mqcore.client.message import Message, ReceivedMessage
from mqcore.client.results import SendResult
from mqcore.errors import UsageError
from mqcore.model.message_ids import parse_offset_id
from mqcore.remoting.dispatch import Request

__all__ = [
    "HALF_BATCH",
    "CheckCallback",
    "LocalWork",
    "TransactionResult",
    "TransactionState",
    "check_asked",
    "check_transactional",
    "check_work",
    "checked_fields",
    "decide",
    "end_fields",
    "half_properties",
    "state_code",
    "state_of",
]

_log = logging.getLogger(__name__)

# The property of a half message whose body is that of a batch: a commit stores each message of it.
# Its value is the system flag of these. Our brokers know it (`HALF_BATCHES_FIELD`); see
# `HALF_BATCH` of rust/fast_path/src/transactions/batch.rs.
HALF_BATCH: Final = "MQCORE_HALF_BATCH"


class TransactionState(Enum):
    """What became of the local work, under the official names."""

    COMMIT = "COMMIT_MESSAGE"
    ROLLBACK = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOW"


_CODES: Final = {
    TransactionState.COMMIT: 8,
    TransactionState.ROLLBACK: 12,
    TransactionState.UNKNOWN: 0,
}

# What may be answered: a state, or True, False and None for its three.
Decision: TypeAlias = TransactionState | bool | None
# Returns the state of a message's transaction, when a broker asks. Plain functions run in a thread.
CheckCallback: TypeAlias = Callable[[ReceivedMessage], Decision | Awaitable[Decision]]
# The local work: the message as it was sent, and what the caller gave along.
LocalWork: TypeAlias = Callable[[Message, Any], Decision | Awaitable[Decision]]


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """What came of a transaction.

    Attributes:
        sent: Where the half message went.
        state: What was sent to the broker; UNKNOWN lets it ask later.
    """

    sent: SendResult
    state: TransactionState


def check_asked(check: object) -> None:
    """Checks what can be known of a check callback before a broker asks.

    Raises:
        UsageError: It cannot be called with a message.
    """
    check_callback("check", check, "one argument, the message")


def check_work(work: object) -> None:
    """Checks what can be known of local work before its half message is sent.

    Raises:
        UsageError: It cannot be called with a message and the argument.
    """
    check_callback("work", work, "two arguments, the message and `argument`", count=2)


def check_transactional(message: Message) -> None:
    """Checks that a message may be part of a transaction.

    Raises:
        UsageError: It is delayed: the official client drops the delay in silence.
    """
    if message.is_delayed:
        raise UsageError(
            f"topic {message.topic}: a message of a transaction cannot be delayed: brokers would "
            "ignore it"
        )


def half_properties(group: str) -> dict[str, str]:
    """Returns what makes a message a half message of a group."""
    return {names.TRAN_MSG: "true", names.PGROUP: group}


def state_code(state: TransactionState) -> int:
    """Returns the number of a state in END_TRANSACTION."""
    return _CODES[state]


def state_of(value: object) -> TransactionState:
    """Returns the state that a callback's answer means; UNKNOWN for nonsense, which is logged."""
    if isinstance(value, TransactionState):
        return value
    if value is None or isinstance(value, bool):
        by_truth = {True: TransactionState.COMMIT, False: TransactionState.ROLLBACK}
        return TransactionState.UNKNOWN if value is None else by_truth[value]
    _log.error("a transaction's callback gave %r; a TransactionState is expected", value)
    return TransactionState.UNKNOWN


async def decide(work: Callable[..., Any], *arguments: Any) -> TransactionState:
    """Runs a callback; one that is no coroutine function runs in a thread.

    Raises:
        Exception: Whatever the callback raises.
    """
    if inspect.iscoroutinefunction(work):
        return state_of(await work(*arguments))
    value = await asyncio.to_thread(work, *arguments)
    return state_of(await value if inspect.isawaitable(value) else value)


def end_fields(
    sent: SendResult, *, topic: str, group: str, state: TransactionState
) -> dict[str, str]:
    """Returns the header's fields of END_TRANSACTION after the local work.

    Args:
        sent: Where the half message went.
        topic: Its topic, the namespace included.
        group: The group, the namespace included.
        state: What became of the work.

    Raises:
        UsageError: The broker's id contains no physical offset.
    """
    offset_id = parse_offset_id(sent.offset_message_id)
    if offset_id is None:
        raise UsageError(f"broker id {sent.offset_message_id!r} contains no physical offset")
    fields = {
        "topic": topic,
        "producerGroup": group,
        "tranStateTableOffset": str(sent.queue_offset),
        "commitLogOffset": str(offset_id.physical_offset),
        "commitOrRollback": str(_CODES[state]),
        "fromTransactionCheck": "false",
        "msgId": sent.message_id,
        "bname": sent.queue.broker_name,
    }
    if sent.transaction_id:
        fields["transactionId"] = sent.transaction_id
    return fields


def checked_fields(
    request: Request, message: ReceivedMessage, *, group: str, state: TransactionState
) -> dict[str, str]:
    """Returns the header's fields of END_TRANSACTION after a broker asked.

    Args:
        request: The broker's CHECK_TRANSACTION_STATE.
        message: The half message in it.
        group: The group, the namespace included.
        state: What became of the work.
    """
    fields = {
        "producerGroup": group,
        "tranStateTableOffset": request.field("tranStateTableOffset"),
        "commitLogOffset": request.field("commitLogOffset"),
        "commitOrRollback": str(_CODES[state]),
        "fromTransactionCheck": "true",
        "msgId": message.message_id,
    }
    for name in ("transactionId", "bname", "topic"):
        if name in request.ext:
            fields[name] = request.ext[name]
    return fields
