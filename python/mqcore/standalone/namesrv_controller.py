"""A name server with a controller in the same process, each on a port of its own."""

from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from mqcore.config import ControllerSettings, NamesrvSettings
from mqcore.controller import Controller
from mqcore.namesrv import NameServer

__all__ = ["NameServerWithController"]


class NameServerWithController:
    """Both; they know nothing of each other.

    Attributes:
        namesrv: The name server.
        controller: The controller.
    """

    def __init__(
        self,
        namesrv: NamesrvSettings,
        controller: ControllerSettings,
        *,
        config_path: Path | None = None,
    ) -> None:
        """Prepares; `start` opens.

        Args:
            namesrv: Settings of the name server.
            controller: Settings of the controller.
            config_path: The properties file that changes by tools are kept in.

        Raises:
            ConfigFileError: The KV configuration is there and cannot be read.
            ConfigurationError: The controllers cannot be understood.
        """
        self.namesrv = NameServer(namesrv, config_path=config_path)
        # One port for the pages of health: the name server's.
        apart = replace(controller.listener, health_address="")
        self.controller = Controller(replace(controller, listener=apart), config_path=config_path)
        # What is stopped, the last first.
        self._started = AsyncExitStack()

    @property
    def ports(self) -> dict[str, int]:
        """The ports that are listened on, by the program's name."""
        return self.namesrv.ports | self.controller.ports

    async def start(self) -> str:
        """Starts both.

        Raises:
            MQError: One of them cannot start; the other one is stopped.
        """
        async with AsyncExitStack() as starting:
            address = await self.namesrv.start()
            starting.push_async_callback(self.namesrv.stop)
            beside = await self.controller.start()
            starting.push_async_callback(self.controller.stop)
            self._started = starting.pop_all()
        return f"{address}, controller {beside}"

    async def stop(self) -> None:
        """Stops both; stopping again does nothing."""
        await self._started.aclose()
