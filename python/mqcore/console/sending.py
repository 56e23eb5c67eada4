"""The producer of the console: started with the first message, one for all users."""

from mqcore.client.message import Message
from mqcore.client.producer import Producer
from mqcore.client.results import SendResult
from mqcore.console.settings import ConsoleSettings

__all__ = ["Sending"]

_GROUP = "mqcore-console"


class Sending:
    """Sends single messages."""

    def __init__(self, settings: ConsoleSettings) -> None:
        """Takes where the cluster is; nothing is started."""
        self._settings = settings
        self._producer: Producer | None = None

    async def send(self, message: Message) -> SendResult:
        """Sends a message.

        Raises:
            MQError: It was not acknowledged.
        """
        if self._producer is None:
            made = Producer(
                self._settings.namesrv,
                group=_GROUP,
                credentials=self._settings.credentials,
                tls=self._settings.tls,
            )
            await made.start()
            self._producer = made
        return await self._producer.send(message)

    async def close(self) -> None:
        """Ends the producer, if there is one."""
        if self._producer is not None:
            await self._producer.close()
            self._producer = None
