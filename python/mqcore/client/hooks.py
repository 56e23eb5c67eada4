"""What a user, or the trace, hears of every try of a send. Knows no connection.

After the official `SendMessageHook` and `CheckForbiddenHook`.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mqcore.client.message import Message
from mqcore.client.outgoing import Outgoing
from mqcore.client.results import QueueRef, SendResult
from mqcore.errors import MQError

__all__ = ["SendContext", "SendHook", "call_after_send", "call_before_send"]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class SendContext:
    """One try of a send.

    Attributes:
        group: The producer's group, the namespace included.
        message: What is sent; of a batch its first message.
        outgoing: How it is sent.
        queue: Where to.
        address: The broker's address.
        began_ms: When the try began, in ms since 1970.
        mode: `SYNC`, `ASYNC` or `ONEWAY`, as the official client calls them.
        result: What came of it, in `after_send`.
        error: What went wrong, in `after_send`.
        notes: Whatever a hook wants to remember between before and after.
    """

    group: str
    message: Message
    outgoing: Outgoing
    queue: QueueRef
    address: str
    began_ms: int
    mode: str
    result: SendResult | None = None
    error: MQError | None = None
    notes: dict[str, Any] = field(default_factory=dict)


class SendHook:
    """Hears of tries; derive and override. It must not wait: sends wait for it.

    An `MQError` that `before_send` raises refuses the send; whatever else a hook raises is logged.
    """

    def before_send(self, context: SendContext) -> None:
        """A try is about to be sent."""

    def after_send(self, context: SendContext) -> None:
        """A try has ended; a oneway send has left."""


def call_before_send(hooks: Iterable[SendHook], context: SendContext) -> None:
    """Calls every hook for a try that begins.

    Raises:
        MQError: A hook refuses it.
    """
    for hook in hooks:
        try:
            hook.before_send(context)
        except MQError:
            raise
        except Exception:
            _log.exception("%s.before_send failed", type(hook).__name__)


def call_after_send(hooks: Iterable[SendHook], context: SendContext) -> None:
    """Calls every hook for a try that ended."""
    for hook in hooks:
        try:
            hook.after_send(context)
        except Exception:
            _log.exception("%s.after_send failed", type(hook).__name__)
