"""Whether a producer can send now, and whether a message can be sent. Sends nothing."""

from mqcore.client.here import current_loop
from mqcore.client.instance import Instance
from mqcore.client.message import Message
from mqcore.client.outgoing import check_sendable
from mqcore.client.sending_forms import Body, message_of
from mqcore.client.settings import ProducerSettings
from mqcore.errors import ClosedError, UsageError, UsageReason
from mqcore.model.topics import UNSENDABLE_TOPICS

__all__ = ["Checking"]


class Checking:
    """A producer's state, and what is checked at every send.

    Attributes:
        group: Its group, as the user calls it.
        instance: The client.
        settings: How it sends.
    """

    group: str
    instance: Instance
    settings: ProducerSettings
    _is_started: bool
    _is_closed: bool
    # Started and not closed.
    _is_running: bool

    def _sendable(self, message: Message | str, body: Body | None) -> Message:
        """Returns the message of a call; checks it, and that it can be sent now."""
        instance = self.instance
        # What the three below check, at once: they cost as much as the rest of `send_soon`.
        if not (
            type(message) is Message
            and body is None
            and self._is_running
            and instance.is_open
            and instance.is_in_its_loop
            and 0 < len(message.body) <= self.settings.body_bytes_max
            and message.topic not in UNSENDABLE_TOPICS
        ):
            self.check_usable()
            message = message_of(message, body)
            check_sendable(message, self.settings)
        return message

    def check_usable(self) -> None:
        """Checks that it can send now.

        Raises:
            UsageError: It is not started, or closed, or of another process.
        """
        instance = self.instance
        is_here = instance.is_in_its_loop or current_loop() is None
        if is_here and self._is_running and instance.is_open:
            return
        if self._is_closed:
            raise ClosedError(f"producer {self.group} is closed: make another one")
        if not self._is_started:
            raise UsageError(
                f"producer {self.group} is not started: call start(), or use it "
                "as a context manager",
                reason=UsageReason.NOT_STARTED,
            )
        self.instance.check_usable()
