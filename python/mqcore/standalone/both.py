"""Starts a name server, then a broker that registers with it; stops them in the reverse order."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from mqcore.broker.app import Broker
from mqcore.config import (
    BrokerSettings,
    Layer,
    NamesrvSettings,
    Program,
    namesrv_settings,
    resolved,
)
from mqcore.config.existing import EMBEDDED
from mqcore.errors import ConfigurationError, RemotingError
from mqcore.namesrv import NameServer
from mqcore.remoting import TcpAddress, connections_within

# What is weaker than everything that a user sets: one machine rarely wants files of a gigabyte, and
# nobody expects it to take a port for slaves.
DEFAULTS: Mapping[str, str] = MappingProxyType({**EMBEDDED, "haListenEnable": "false"})
# Brokers and clients ask a name server now and then: this part of the connections is for it.
_NAMESRV_PART = 4
# Routes are there when the program prints that it is ready; nothing but a fault takes longer.
_REGISTERED_TIMEOUT_S = 5.0


def namesrv_settings_of(broker: BrokerSettings, port: int) -> NamesrvSettings:
    """Returns the settings of the name server beside a broker: its address and its directory.

    Args:
        broker: The broker's settings.
        port: Port of the name server, 0 for a free one.
    """
    listener = broker.listener
    connections = connections_within(
        listener.connections_max, queue_files=broker.queue_files_open_max
    )
    pairs = {
        "memoryAllowed": str(broker.configuration.value("memoryAllowed")),
        # Both take their descriptors from the same process.
        "connectionsMax": str(max(1, connections // _NAMESRV_PART)),
        "bindAddress": listener.host,
        "listenPort": str(port),
        "kvConfigPath": str(broker.store_dir / "namesrv" / "kvConfig.json"),
    }
    return namesrv_settings(resolved(Program.NAMESRV, [Layer("standalone", pairs)]))


class Standalone:
    """A name server and a broker.

    Attributes:
        namesrv: The name server.
        broker: The broker, from the start on.
    """

    def __init__(
        self,
        broker: BrokerSettings,
        namesrv: NamesrvSettings,
        *,
        config_path: Path | None = None,
    ) -> None:
        """Prepares; `start` opens.

        Args:
            broker: Settings of the broker; it registers with their name servers too.
            namesrv: Settings of the name server.
            config_path: The properties file that changes by tools are kept in.

        Raises:
            ConfigurationError: The broker is to have a controller: there is none here.
        """
        if broker.is_controlled:
            fault = "enableControllerMode=true: run `mqcore broker` beside a controller instead"
            raise ConfigurationError(fault, faults=(fault,))
        self._settings = broker
        self._config_path = config_path
        self.namesrv = NameServer(namesrv)
        self.broker: Broker | None = None
        # What is stopped, the last first.
        self._started = AsyncExitStack()

    @property
    def ports(self) -> dict[str, int]:
        """The ports that are listened on, by the program's name."""
        ports = dict(self.namesrv.ports)
        return ports | self.broker.ports if self.broker is not None else ports

    async def start(self) -> str:
        """Starts both; returns when the broker is in the name server's routes.

        Raises:
            MQError: One of them cannot start; the other one is stopped.
        """
        async with AsyncExitStack() as starting:
            beside = await self.namesrv.start()
            starting.push_async_callback(self.namesrv.stop)
            if not isinstance(beside, TcpAddress):
                raise RemotingError(
                    f"{beside}: a broker registers by TCP only", address=str(beside)
                )
            # Whoever listens on all addresses is dialled on one of them.
            host = "127.0.0.1" if beside.host in ("", "0.0.0.0") else beside.host
            dialled = str(TcpAddress("::1" if beside.host == "::" else host, beside.port))
            others = [name for name in self._settings.name_servers if name != dialled]
            settings = replace(self._settings, name_servers=(dialled, *others))
            self.broker = Broker(settings, config_path=self._config_path)
            address = await self.broker.start()
            starting.push_async_callback(self.broker.stop)
            await self.broker.until_registered(dialled, timeout_s=_REGISTERED_TIMEOUT_S)
            self._started = starting.pop_all()
        return f"{address}, name server {beside}"

    async def stop(self) -> None:
        """Stops both; stopping again does nothing.

        Raises:
            StoreError: The store could not be written; both are stopped all the same.
        """
        await self._started.aclose()
