"""Whether a producer can send now, and whether a message can be sent. Sends nothing."""

from mqcore.client.here import current_loop
from mqcore.client.instance import Instance
from mqcore.client.message import Message
from mqcore.client.outgoing import check_sendable
from mqcore.client.sending_forms import Body, message_of
from mqcore.client.settings import ProducerSettings
from mqcore.errors import ClosedError, UsageError, UsageReason
from mqcore.model.topics import UNSENDABLE_TOPICS

__all__ = ["ProducerState"]


class ProducerState:
    """Whether a producer is started and closed, and what is checked at every send.

    Attributes:
        is_started: Whether it was started.
        is_closed: Whether it was closed.
        is_running: Started and not closed.
    """

    __slots__ = ("_group", "_instance", "_settings", "is_closed", "is_running", "is_started")

    def __init__(self, group: str, instance: Instance, settings: ProducerSettings) -> None:
        """Begins before the start.

        Args:
            group: The producer's group, as the user calls it.
            instance: The client.
            settings: How it sends.
        """
        self._group = group
        self._instance = instance
        self._settings = settings
        self.is_started = self.is_closed = self.is_running = False

    def started(self) -> None:
        """Records the start."""
        self.is_started = self.is_running = True

    def closed(self) -> None:
        """Records the end."""
        self.is_closed = True
        self.is_running = False

    def sendable(self, message: Message | str, body: Body | None) -> Message:
        """Returns the message of a call; checks it, and that it can be sent now."""
        instance = self._instance
        # What the three below check, at once: they cost as much as the rest of `send_soon`.
        if not (
            type(message) is Message
            and body is None
            and self.is_running
            and instance.is_open
            and instance.is_in_its_loop
            and 0 < len(message.body) <= self._settings.body_bytes_max
            and message.topic not in UNSENDABLE_TOPICS
        ):
            self.check_usable()
            message = message_of(message, body)
            check_sendable(message, self._settings)
        return message

    def check_usable(self) -> None:
        """Checks that it can send now.

        Raises:
            UsageError: It is not started, or closed, or of another process.
        """
        instance = self._instance
        is_here = instance.is_in_its_loop or current_loop() is None
        if is_here and self.is_running and instance.is_open:
            return
        if self.is_closed:
            raise ClosedError(f"producer {self._group} is closed: make another one")
        if not self.is_started:
            raise UsageError(
                f"producer {self._group} is not started: call start(), or use it "
                "as a context manager",
                reason=UsageReason.NOT_STARTED,
            )
        self._instance.check_usable()
