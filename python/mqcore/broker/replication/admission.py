"""Who is let in at the port for slaves: members of the group, strangers as the settings want it.

A stranger is served without being counted, or refused; by `haStrangers`. Both kinds are
bounded apart, so that strangers keep no slave out. Knows no byte of the stream.
"""

import asyncio
import contextlib
import logging
import socket
from dataclasses import dataclass
from typing import Final

from mqcore.broker.replication.member_hosts import MemberHosts
from mqcore.broker.state import BrokerState
from mqcore.native import ReplicationMaster
from mqcore.periodic import PeriodicTasks

__all__ = ["SLAVES_MAX", "STRANGERS_MAX", "Admission", "ConnectionLog"]

_log = logging.getLogger("mqcore.broker")

# Slaves of one master at the most: each costs the network all that is sent to the broker once more.
SLAVES_MAX: Final = 16
# Connections of no member at the most, those among them about which name servers are being asked.
STRANGERS_MAX: Final = 16
# How often it is asked again whether a stranger has become a member.
_ASK_AGAIN_S: Final = 5.0
# A slave connects once in a while; who does it without end fills no log.
_LINES_PER_HOST: Final = 10
_LINES_AGAIN_S: Final = 60.0
_HOSTS_MAX: Final = 64

_SERVED = "it gets the log, and nothing that it reports counts"
_REFUSED = "it is refused"
_WAY_OUT = (
    "no broker %s is registered from there. Where it is a slave of ours, name its address in "
    "haMemberHosts"
)


class ConnectionLog:
    """Lines about connections, bounded per host: a port scan is a few lines a minute."""

    def __init__(self) -> None:
        """Begins with nobody."""
        self._began_s = float("-inf")
        self._lines: dict[str, int] = {}

    def note(self, level: int, host: str, text: str, *values: object) -> None:
        """Logs a line about a host, unless there were enough of it within a minute."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._began_s >= _LINES_AGAIN_S:
            self._began_s, self._lines = now_s, {}
        # Of hosts beyond the bound all have one share.
        key = host if host in self._lines or len(self._lines) < _HOSTS_MAX else ""
        count = self._lines[key] = self._lines.get(key, 0) + 1
        if count <= _LINES_PER_HOST:
            _log.log(level, text, *values)
            if count == _LINES_PER_HOST:
                _log.warning("what else %s does at the port for slaves is not logged now", host)


@dataclass(slots=True)
class _Doubtful:
    """A connection that is not surely a member's.

    Attributes:
        host: Where it comes from.
        own_host: Our end of it.
        counts: Whether what it reports counts now.
        is_old: Whether it has been there when it was asked before.
    """

    host: str
    own_host: str
    counts: bool
    is_old: bool = False


class Admission:
    """Lets connections in to one master."""

    def __init__(self, state: BrokerState, master: ReplicationMaster, log: ConnectionLog) -> None:
        """Prepares; `start` begins."""
        self._state = state
        self._master = master
        self._log = log
        self._members = MemberHosts(state)
        self._asking: set[asyncio.Task[None]] = set()
        self._doubtful: dict[str, _Doubtful] = {}
        self._tasks = PeriodicTasks()

    def start(self) -> None:
        """Begins to ask again about who is not surely a member."""
        self._state.replicas.members = self
        self._tasks.every("strangers", self.ask_again, period_s=lambda: _ASK_AGAIN_S)

    async def stop(self) -> None:
        """Ends; who is still being asked about is closed."""
        self._state.replicas.members = None
        await self._tasks.stop()
        asking = list(self._asking)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await self._members.close()

    async def is_member(self, host: str, own_host: str) -> bool:
        """Returns whether a host is that of a member; who is registered may be asked for."""
        if not self._members.has(host, own_host):
            await self._members.look()
        return self._members.has(host, own_host) is True

    def meet(self, accepted: socket.socket, address: str) -> None:
        """Lets a connection in, refuses it, or asks about it first. Owns the socket from now on."""
        host, own_host = accepted.getpeername()[0], accepted.getsockname()[0]
        is_certain = self._state.settings.replication_strangers == "count"
        if is_certain or self._members.has(host, own_host):
            with contextlib.closing(accepted):
                self._add(accepted, host, address, counts=True)
        elif len(self._asking) >= STRANGERS_MAX:
            accepted.close()
            self._note(host, "%s is refused: %d are asked about", address, STRANGERS_MAX)
        else:
            asking = self._ask(accepted, host, own_host, address)
            task = asyncio.get_running_loop().create_task(asking, name=f"who is {address}")
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _ask(self, accepted: socket.socket, host: str, own_host: str, address: str) -> None:
        with contextlib.closing(accepted):
            await self._members.look()
            is_member = self._members.has(host, own_host)
            counts = is_member is not False
            name = self._state.settings.name
            if not counts and self._state.settings.replication_strangers == "refuse":
                self._note(host, f"%s is no slave: {_REFUSED}; {_WAY_OUT}", address, name)
                return
            if self._add(accepted, host, address, counts=counts) and not is_member:
                self._doubtful[address] = _Doubtful(host, own_host, counts)
                if not counts:
                    self._note(host, f"%s is no slave: {_SERVED}; {_WAY_OUT}", address, name)

    def _add(self, accepted: socket.socket, host: str, address: str, *, counts: bool) -> bool:
        """Lets a connection in, where there are not too many; returns whether it was."""
        master = self._master
        same_kind = sum(slave.counts == counts for slave in master.slaves())
        limit = SLAVES_MAX if counts else STRANGERS_MAX
        if same_kind >= limit or master.open_links() >= SLAVES_MAX + STRANGERS_MAX:
            self._note(host, "slave %s is refused: %d are connected", address, limit)
            return False
        self._log.note(logging.INFO, host, "slave %s has connected", address)
        protection = self._state.replicas.protection
        tls = protection.serving() if protection is not None else None
        master.add(accepted.detach(), address, counts=counts, tls=tls)
        return True

    async def ask_again(self) -> None:
        """Looks whether strangers have registered, and who was let in when nobody knew."""
        there = {slave.address for slave in self._master.slaves()}
        for address, doubtful in list(self._doubtful.items()):
            if doubtful.is_old and address not in there:
                del self._doubtful[address]
            doubtful.is_old = True
        if not self._doubtful:
            return
        await self._members.look()
        for address, doubtful in self._doubtful.items():
            is_member = self._members.has(doubtful.host, doubtful.own_host)
            if is_member is None or is_member is doubtful.counts:
                continue
            doubtful.counts = is_member
            self._master.set_counts(address, is_member)
            how = "is a slave, and counts" if is_member else f"is no slave: {_SERVED}"
            self._note(doubtful.host, f"%s {how}", address)

    def _note(self, host: str, text: str, *values: object) -> None:
        self._log.note(logging.WARNING, host, text, *values)
