"""A change of users or policies: made here, taken by the slaves, then answered.

Tools send a change to every broker of a cluster, masters and slaves in any order. A slave whose
tables have it already answers so; else it lets its master make it, and has it when that answers.
Of a master that is no mqcore, which does not replicate its users, a slave keeps tables of its own.
"""

import logging
from typing import Final

from mqcore.access import AccessTables, User
from mqcore.access.control import Change
from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.replication.asking import MasterCalls
from mqcore.broker.state import BrokerState
from mqcore.broker.table_followers import ACCESS
from mqcore.errors import RefusedError
from mqcore.native import Command
from mqcore.remoting import Request, ResponseCode
from mqcore.remoting.signing import SIGNING_FIELDS

__all__ = ["AccessChanges"]

_log = logging.getLogger("mqcore.broker")

# The mark of a slave that asks for what a tool has asked it for.
_FROM_SLAVE: Final = "mqcoreFromSlave"
# A tool that asks all brokers in turn comes to the master within this.
_TOOL_MS: Final = 60_000
# Users that slaves have had made lately: more than a tool makes in a minute.
_MADE_MAX: Final = 1_024


class AccessChanges:
    """Makes changes of users and policies."""

    def __init__(self, state: BrokerState, persistence: ConfigPersistence) -> None:
        """Takes what it works on."""
        self._state = state
        self._persistence = persistence
        self._calls: MasterCalls | None = None
        # Users that were made for a tool by way of a slave, and when.
        self._made: dict[str, int] = {}

    async def stop(self) -> None:
        """Closes the connection to the master."""
        if self._calls is not None:
            await self._calls.close()

    async def make_user(self, request: Request, user: User) -> Command:
        """Makes a user; one that is there as it is to be was made by way of another broker."""
        access, now_ms = self._state.access, self._state.now_ms()
        is_there = access.tables.users.get(user.name) == user.made()
        if is_there and (not self._state.role.is_master or self._was_made(user.name, now_ms)):
            return request.answer()
        answer = await self.change(request, lambda tables: tables.with_new(user))
        if _FROM_SLAVE in request.ext and answer.code == ResponseCode.SUCCESS:
            if len(self._made) >= _MADE_MAX:
                self._made.clear()
            self._made[user.name] = now_ms
        return answer

    def _was_made(self, name: str, now_ms: int) -> bool:
        made_ms = self._made.pop(name, None)
        return made_ms is not None and now_ms - made_ms < _TOOL_MS

    async def delete_policies(self, request: Request, user: str, make: Change) -> Command:
        """Deletes policies; at a slave those that are not there are deleted already."""
        tables = self._state.access.tables
        is_gone = user in tables.users and user not in tables.acls
        if is_gone and not self._state.role.is_master:
            return request.answer()
        return await self.change(request, make)

    async def change(self, request: Request, make: Change) -> Command:
        """Makes a change, and answers when all slaves that are required have it.

        Raises:
            RefusedError: It cannot be, or slaves that are required do not have it.
            StoreError: A file cannot be written; nothing has changed.
        """
        if not self._state.role.is_master and self._state.replicas.gives_access:
            answer = await self._at_master(request, make)
            if answer is not None:
                return answer
        if await self._state.access.change(make):
            await self._persistence.slaves_have(ACCESS)
        return request.answer()

    async def _at_master(self, request: Request, make: Change) -> Command | None:
        """Returns the master's answer; None where it is the slave's own matter."""
        try:
            tables: AccessTables | None = make(self._state.access.tables)
        except RefusedError:
            tables = None
        if tables == self._state.access.tables:
            return request.answer()
        if self._calls is None:
            self._calls = MasterCalls(self._state)
        address = self._calls.address
        if not address:
            raise RefusedError("the master is not known", code=ResponseCode.SYSTEM_ERROR)
        ext = {name: value for name, value in request.ext.items() if name not in SIGNING_FIELDS}
        ext[_FROM_SLAVE] = "true"
        answer = await self._calls.ask(address, request.code, ext, request.body)
        return request.answer(answer.code, answer.remark, body=answer.body)
