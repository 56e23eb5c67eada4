"""Name servers, synchronously: the methods of `mqcore.admin.name_servers`, on the loop's thread."""

from collections.abc import Mapping

from mqcore.admin import name_servers as asynchronous
from mqcore.admin.results import ClusterInfo
from mqcore.client.blocking.loop_thread import LoopThread

__all__ = ["NameServers"]


class NameServers:
    """The name servers of a cluster. An address is `host:port`."""

    def __init__(self, thread: LoopThread, core: asynchronous.NameServers) -> None:
        """Takes the loop, and the asyncio methods under it."""
        self._thread = thread
        self._core = core

    def addresses(self) -> list[str]:
        """Returns the name servers that are asked."""
        return self._thread.run(lambda: self._core.addresses())

    def brokers(self, address: str) -> ClusterInfo:
        """Returns the brokers that one name server knows (106)."""
        return self._thread.run(lambda: self._core.brokers(address))

    def permission_at(self, address: str, topic: str, broker_name: str) -> int:
        """Returns what one name server lets clients do with a topic on a broker (105).

        Returns:
            The sum of 4 to read and 2 to write; 0 where it gives no route there.
        """
        return self._thread.run(lambda: self._core.permission_at(address, topic, broker_name))

    def config(self, address: str) -> dict[str, str]:
        """Returns the settings of one name server by their official keys (319)."""
        return self._thread.run(lambda: self._core.config(address))

    def change_config(self, address: str, changes: Mapping[str, str]) -> None:
        """Changes settings of one name server; one of mqcore keeps them until its end (318).

        Raises:
            ResponseError: One may not be changed; nothing was.
            UsageError: It is no mapping, or a value has more than one line.
        """
        self._thread.run(lambda: self._core.change_config(address, changes))

    def kv(self, address: str, namespace: str) -> dict[str, str]:
        """Returns the values of a namespace at one name server, by key (219); empty without any."""
        return self._thread.run(lambda: self._core.kv(address, namespace))

    def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Sets a value at every name server (100).

        Raises:
            MQError: A name server did not take it; it was sent to the others all the same.
        """
        self._thread.run(lambda: self._core.put_kv(namespace, key, value))

    def delete_kv(self, namespace: str, key: str) -> None:
        """Removes a value from every name server; one that is not there is no error (102).

        Raises:
            MQError: A name server did not take it; it was sent to the others all the same.
        """
        self._thread.run(lambda: self._core.delete_kv(namespace, key))
