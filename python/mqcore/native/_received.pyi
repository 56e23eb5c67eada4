"""The part of the extension `_native` that handlers get: its type alone, no module of its own."""

from typing import Any, Self, final

from mqcore.model.queues import MessageQueue
from mqcore.native._native import Message

@final
class ReceivedMessage:
    """A message that came, decoded field by field when it is asked for.

    Attributes:
        local_attempts: How often an orderly consumer tried it in vain, which no broker counts.
    """

    local_attempts: int

    def __new__(cls, record: Message, queue: MessageQueue, topic: str) -> Self: ...
    @property
    def record(self) -> Message:
        """Everything the broker keeps of it."""
    @property
    def queue(self) -> MessageQueue:
        """The queue that it came from."""
    @property
    def topic(self) -> str:
        """The topic that was subscribed, without the namespace.

        Of a retried message the one that it was first sent to.
        """
    @property
    def properties(self) -> dict[str, str]:
        """All its properties: the user's, the client's, the broker's; the same object each time."""
    @property
    def body(self) -> bytes:
        """The content, inflated where it came small."""
    @property
    def tags(self) -> str | None:
        """Its tag."""
    @property
    def keys(self) -> tuple[str, ...]:
        """Its keys."""
    @property
    def sharding_key(self) -> str | None:
        """What orders it."""
    @property
    def message_id(self) -> str:
        """Its unique id, which its sender made; the broker's where it has none."""
    @property
    def offset_message_id(self) -> str:
        """The broker's id: store address and physical offset."""
    @property
    def queue_offset(self) -> int:
        """Its place in the queue."""
    @property
    def physical_offset(self) -> int:
        """Its place in the broker's log, in bytes."""
    @property
    def reconsume_times(self) -> int:
        """How often it was given back before."""
    @property
    def attempt(self) -> int:
        """Which delivery this is, from 1."""
    @property
    def born_timestamp_ms(self) -> int:
        """When it was sent, in ms since 1970 by the sender's clock."""
    @property
    def store_timestamp_ms(self) -> int:
        """When it was stored, in ms since 1970 by the broker's clock."""
    @property
    def born_host(self) -> str:
        """The address that it was sent from."""
    @property
    def store_host(self) -> str:
        """The address of the broker that it was stored at."""
    @property
    def flag(self) -> int:
        """The user's number."""
    @property
    def delay_level(self) -> int:
        """The level of delay that it was sent with; 0 for none."""
    def body_text(self, encoding: str = "utf-8") -> str:
        """Returns the content as text.

        Raises:
            UnicodeDecodeError: It is none.
        """
    def json(self) -> Any:
        """Returns the value of a content that is JSON.

        Raises:
            ValueError: It is none.
        """
