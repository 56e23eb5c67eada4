"""Requests of mqcore alone about who is master next: slaves that take tables, a hand-over.

Knows their headers; nothing of how a role is handed over.
"""

from collections.abc import Mapping

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.state import BrokerState
from mqcore.broker.table_followers import Follower
from mqcore.errors import RefusedError
from mqcore.model.relaxed_json import compact
from mqcore.native import Command, FastPathProtocol
from mqcore.remoting import Handler, OwnRequestCode, Request, ResponseCode

__all__ = ["Succession"]

_NO_CONTROLLER = (
    "{} has no controller (enableControllerMode=false): there is nobody who could make another "
    "broker the master"
)


class Succession:
    """Serves the requests about who is master next."""

    def __init__(self, state: BrokerState, persistence: ConfigPersistence) -> None:
        """Takes what it works on."""
        self._state = state
        self._persistence = persistence

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {
            OwnRequestCode.FOLLOW_TABLES: self.follow,
            OwnRequestCode.HAND_OVER: self.hand_over,
            OwnRequestCode.PASS_ON: self.pass_on,
        }

    def follow(self, request: Request) -> Command:
        """FOLLOW_TABLES: a slave takes tables on this connection when it is notified."""
        if not self._state.role.is_master:
            raise RefusedError("it is no master", code=ResponseCode.SYSTEM_ERROR)
        follower = Follower(
            request.link, request.field("address"), request.integer("controllerId", 0)
        )
        if not self._persistence.followers.note(follower):
            raise RefusedError("too many slaves follow", code=ResponseCode.SYSTEM_BUSY)
        return request.answer()

    async def pass_on(self, request: Request) -> Command:
        """PASS_ON: a broker that was the master passes on what its clients ask, and names them."""
        members, link = self._state.replicas.members, request.link
        if members is None or not await members.is_member(link.peer_host, link.local_host):
            raise RefusedError(
                f"{link.peer_host} is no member of the group, or this is no master",
                code=ResponseCode.SYSTEM_ERROR,
            )
        connection = link.stream
        if isinstance(connection, FastPathProtocol):
            connection.let_name_hosts()
        return request.answer()

    async def hand_over(self, request: Request) -> Command:
        """HAND_OVER: begins one (start), names who would be master (plan), or how far it is."""
        elections = self._state.elections
        if elections is None:
            why = _NO_CONTROLLER.format(self._state.address)
            raise RefusedError(why, code=ResponseCode.SYSTEM_ERROR)
        action, to = request.ext.get("action", ""), request.ext.get("to", "")
        if action in ("start", "plan"):
            found = await elections.hand_over(to, is_plan=action == "plan")
        else:
            found = elections.handed_over()
        return request.answer(body=compact(found))
