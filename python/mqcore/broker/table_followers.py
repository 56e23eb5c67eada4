"""Slaves of mqcore that their master notifies of its tables: who they are, and who has what.

A slave names the connection on which it takes tables (`FOLLOW_TABLES`). When a topic or group has
changed the master notifies each, which takes them (`TAKE_TABLES`), and those that are required
have them before the change is acknowledged. Official slaves ask by themselves, every 10 s to 60 s:
nobody waits for them. Knows no table.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from mqcore.errors import MQError
from mqcore.remoting import Link, OwnRequestCode, expect

__all__ = ["ACCESS", "GROUPS", "MODES", "TOPICS", "Follower", "TableFollowers"]

_log = logging.getLogger("mqcore.broker")

# Names of tables that have versions of their own, as a master notifies of them.
TOPICS: Final = "topics"
GROUPS: Final = "groups"
MODES: Final = "modes"
ACCESS: Final = "access"

# Slaves of one master at the most, as many as may copy its log.
_FOLLOWERS_MAX: Final = 16
# Between two looks whether who does not answer is still required.
_LOOK_S: Final = 0.5
# A slave of mqcore names its connection within a part of a second: so long one that is required and
# has named none is waited for. After that it is an official one, which nobody waits for.
_NAMES_S: Final = 1.0
_AGAIN_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Follower:
    """A slave that takes tables when it is notified.

    Attributes:
        link: The connection on which it is notified.
        address: Where it answers requests; it is known by that.
        controller_id: Its id at the controller; 0 without one.
    """

    link: Link
    address: str
    controller_id: int


class TableFollowers:
    """The slaves of one master that take tables when they are notified."""

    def __init__(self, required: Callable[[], frozenset[int] | None]) -> None:
        """Begins with nobody.

        Args:
            required: Returns the controller ids of the slaves that have to have a change before it
                is acknowledged; None for all that follow.
        """
        self._required = required
        self._known: dict[str, Follower] = {}
        # Ids at the controller that were required lately: since when, and of which it is known that
        # they are of mqcore.
        self._since_s: dict[int, float] = {}
        self._ours: set[int] = set()
        self._tasks: set[asyncio.Task[bool]] = set()

    def note(self, follower: Follower) -> bool:
        """Takes a slave, or its new connection; returns False where there are too many."""
        self._forget_lost()
        if follower.address not in self._known and len(self._known) >= _FOLLOWERS_MAX:
            return False
        self._known[follower.address] = follower
        self._ours.add(follower.controller_id)
        return True

    def _forget_lost(self) -> None:
        for address in [each.address for each in self._known.values() if not each.link.is_open]:
            del self._known[address]

    def of(self, controller_id: int) -> Follower | None:
        """Returns the slave of an id at the controller, if it follows."""
        self._forget_lost()
        found = (each for each in self._known.values() if each.controller_id == controller_id)
        return next(found, None)

    async def notify(
        self, follower: Follower, tables: Collection[str], body: bytes = b"", *, timeout_s: float
    ) -> None:
        """Lets one slave take tables; returns when it has them.

        Args:
            follower: The slave.
            tables: Their names, of `MetadataSync`; none for all, with offsets and timers.
            body: What it takes beside them.
            timeout_s: How long it may take.

        Raises:
            MQError: It has not taken them.
        """
        code, ext = OwnRequestCode.TAKE_TABLES, {"tables": ",".join(tables)}
        answer = await follower.link.call(code, ext, body, timeout_s=timeout_s)
        expect(answer, follower.address)

    async def have(self, tables: Collection[str], *, timeout_s: float) -> list[str]:
        """Lets every slave take tables that have changed; waits for those that are required.

        Args:
            tables: The names of the tables.
            timeout_s: How long to wait at the most.

        Returns:
            The addresses of those that were required to the end and do not have them.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        unnamed = await self._until_named(end_s)
        if unnamed:
            return [f"broker {each}" for each in sorted(unnamed)]
        waiting = {self._begin(each, tables, timeout_s): each for each in self._known.values()}
        while needed := {task for task, each in waiting.items() if self._is_required(each)}:
            left_s = min(_LOOK_S, end_s - loop.time())
            if left_s <= 0:
                return [waiting[task].address for task in needed]
            done, _ = await asyncio.wait(needed, timeout=left_s)
            for task in done:
                follower = waiting.pop(task)
                if not task.result() and self._is_required(follower):
                    # It is asked again as long as it has to have them.
                    await asyncio.sleep(min(_LOOK_S, max(0.0, end_s - loop.time())))
                    again = self._known.get(follower.address, follower)
                    left_s = max(0.0, end_s - loop.time())
                    waiting[self._begin(again, tables, left_s)] = again
        return []

    async def _until_named(self, end_s: float) -> set[int]:
        """Waits for connections of slaves that are required; returns the ids of ours without one.

        One that has just come into the set, or whose connection has ended, names one soon.
        """
        loop = asyncio.get_running_loop()
        while True:
            self._forget_lost()
            required = self._required() or frozenset()
            for each in self._since_s.keys() - required:
                del self._since_s[each]
                self._ours.discard(each)
            named = {each.controller_id for each in self._known.values()}
            for each in required:
                self._since_s.setdefault(each, loop.time())
            unnamed = {
                each
                for each in required - named
                if each in self._ours or loop.time() - self._since_s[each] < _NAMES_S
            }
            if not unnamed:
                return unnamed
            if loop.time() >= end_s:
                unnamed &= self._ours
                # It may have become another one's: that is found out anew.
                self._ours -= unnamed
                return unnamed
            await asyncio.sleep(_AGAIN_S)

    def _begin(
        self, follower: Follower, tables: Collection[str], timeout_s: float
    ) -> asyncio.Task[bool]:
        notified = self._notified(follower, tables, timeout_s)
        task = asyncio.get_running_loop().create_task(notified, name="tables")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _is_required(self, follower: Follower) -> bool:
        required = self._required()
        return required is None or follower.controller_id in required

    async def _notified(
        self, follower: Follower, tables: Collection[str], timeout_s: float
    ) -> bool:
        try:
            await self.notify(follower, tables, timeout_s=timeout_s)
        except MQError as error:
            _log.debug("%s has not taken %s: %s", follower.address, tables, error.message)
            return False
        return True
