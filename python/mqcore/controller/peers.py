"""The controllers that agree with one another: their ids and addresses, and which one this is.

Official values (`controllerDLegerPeers`): `n0-127.0.0.1:9878;n1-127.0.0.1:9868`. Pure functions of
settings.
"""

from dataclasses import dataclass, replace

from mqcore.config import ControllerSettings, reachable_host
from mqcore.errors import ConfigurationError

__all__ = ["Peers", "peers_of"]

# Every message of a leader goes to all of them.
_PEERS_MAX = 9


@dataclass(frozen=True, slots=True)
class Peers:
    """The controllers of a group.

    Attributes:
        self_id: Which of them this one is.
        addresses: `host:port` by id, in the order of the settings.
    """

    self_id: str
    addresses: dict[str, str]

    @property
    def own_address(self) -> str:
        """Where brokers and tools reach this controller."""
        return self.addresses[self.self_id]

    @property
    def own_port(self) -> int:
        """The port of this controller; 0 for any free one."""
        return int(self.own_address.rpartition(":")[2])

    @property
    def numbers(self) -> dict[str, int]:
        """The numbers by which they agree: the same ids give the same numbers."""
        return {peer: number for number, peer in enumerate(sorted(self.addresses))}

    def numbered(self, number: int) -> tuple[str, str]:
        """Returns the id and the address of a number."""
        peer = sorted(self.addresses)[number]
        return peer, self.addresses[peer]

    @property
    def text(self) -> str:
        """All of them, as answers to tools have them."""
        return "".join(f"{peer}:{address};" for peer, address in self.addresses.items())

    def at(self, port: int) -> "Peers":
        """Returns the same with the port that was chosen for this controller."""
        host = self.own_address.rpartition(":")[0]
        return replace(self, addresses=self.addresses | {self.self_id: f"{host}:{port}"})


def peers_of(settings: ControllerSettings) -> Peers:
    """Returns the controllers; without `controllerDLegerPeers` one that listens on `listenPort`.

    Raises:
        ConfigurationError: They cannot be understood.
    """
    self_id = settings.self_id
    if not settings.peers.strip():
        host = reachable_host(settings.listener.host)
        return Peers(self_id, {self_id: f"{host}:{settings.listener.port}"})
    addresses = {}
    for entry in filter(None, (part.strip() for part in settings.peers.split(";"))):
        peer, separator, address = entry.partition("-")
        host, _, port = address.rpartition(":")
        if not (separator and peer and host and port.isascii() and port.isdigit()):
            raise _fault(f"{entry}: ID-HOST:PORT expected, such as n0-127.0.0.1:9878")
        if int(port) >= 1 << 16:
            raise _fault(f"{entry}: a port is below 65536")
        if peer in addresses:
            raise _fault(f"{peer} is there twice")
        addresses[peer] = address
    if self_id not in addresses:
        raise _fault(f"controllerDLegerSelfId={self_id} is none of them")
    if len(addresses) > _PEERS_MAX:
        raise _fault(
            f"{len(addresses)} are too many: three or five are usual, at most {_PEERS_MAX}"
        )
    return Peers(self_id, addresses)


def _fault(why: str) -> ConfigurationError:
    fault = f"controllerDLegerPeers: {why}"
    return ConfigurationError(fault, faults=(fault,))
