"""How a slave asks its master: where, for how long, and what is logged where that fails.

Knows no table.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from mqcore.broker.state import BrokerState
from mqcore.errors import MQError
from mqcore.native import Command
from mqcore.remoting import Client, Dispatcher, Link

__all__ = ["MasterCalls", "report_as"]

_log = logging.getLogger("mqcore.broker")

_TIMEOUT_S: Final = 3.0
# A failure that lasts is logged once in so many.
_LOG_EVERY: Final = 60


class MasterCalls:
    """The requests of one slave to its master."""

    def __init__(self, state: BrokerState, dispatcher: Dispatcher | None = None) -> None:
        """Takes the broker, and what serves requests of its master on the same connection."""
        self._state = state
        self._client = Client(
            dispatcher, tls=state.outgoing_tls, credentials=state.credentials, version=state.version
        )

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()

    @property
    def address(self) -> str:
        """Where the master answers requests; empty while it is not known, or is ourselves.

        Nor is one known whose epoch is before the last one of our log: another one was master since
        (`LinkFault::OldMaster`), and what it has delivered and made is not what we have a copy of.
        """
        address, epochs = self._state.replicas.master_address, self._state.replicas.epochs
        is_over = epochs is not None and self._state.role.epoch < epochs.last_epoch
        return "" if is_over or address == self._state.address else address

    async def link(self, address: str) -> Link:
        """Returns the connection to a master.

        Raises:
            ConnectError: There is none.
        """
        return await self._client.link(address, timeout_s=_TIMEOUT_S)

    def open_link(self, address: str) -> Link | None:
        """Returns the connection to a master, if it is open."""
        return self._client.open_link(address)

    async def ask(
        self,
        address: str,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Command:
        """Sends a request to a master; returns its answer, whatever its code.

        Raises:
            RemotingError: It did not answer.
        """
        return await self._client.call(address, code, ext, body, timeout_s=_TIMEOUT_S)


def report_as(what: str) -> Callable[[Exception, int], None]:
    """Returns what logs failures, for `PeriodicTasks`: what did not happen, and why."""

    def report(error: Exception, failures: int) -> None:
        if failures % _LOG_EVERY == 0:
            why = error.message if isinstance(error, MQError) else repr(error)
            _log.warning("%s: %s", what, why)

    return report
