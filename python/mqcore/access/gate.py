"""Access control of a name server or controller: every request is checked before its handler.

    gate = ServerGate(settings.access, directory=..., trail=trail)
    gate.load()                       # blocks: at the start
    gate.guard(dispatcher)
    tasks.every("access", gate.look, period_s=lambda: LOOK_S)

Users and policies are the same files as a broker's, and are read anew when they change: a name
server answers no request that changes them. Off it does nothing.
"""

import asyncio
import ipaddress
import logging
from collections.abc import Awaitable
from pathlib import Path
from typing import Final

from mqcore.access.control import AccessControl
from mqcore.access.provisions import check_access
from mqcore.access.refusals import RefusalLog
from mqcore.audit import AuditTrail
from mqcore.config import AccessSettings
from mqcore.errors import (
    ANSWERED_NEVER,
    ANSWERED_NOW,
    ConfigurationError,
    MQError,
    RefusedError,
)
from mqcore.remoting import Answer, Dispatcher, Request, RequestCode, ResponseCode

__all__ = ["LOOK_S", "ServerGate"]

_log = logging.getLogger("mqcore.access")

# How late many wrong signatures are answered: as the fast path of a broker does.
_LATE_S: Final = 1.0
# Between two looks at refusals and at the files.
LOOK_S: Final = 1.0
# The cluster that policies name where no setting does.
_CLUSTER: Final = "DefaultCluster"
# The connection is closed: hardly anybody reads it.
_TOO_MANY: Final = "the user has too many connections"
_NO_ROUTE: Final = "No topic route info in name server for the topic: "


class ServerGate:
    """Checks the requests of one server without a fast path."""

    def __init__(self, settings: AccessSettings, *, directory: Path, trail: AuditTrail) -> None:
        """Prepares; nothing is read yet.

        Args:
            settings: The server's settings of access control.
            directory: Where the files are, unless the settings have another place.
            trail: The server's audit, where refusals get lines.

        Raises:
            ConfigurationError: A setting cannot work.
        """
        for warning in check_access(settings):
            _log.warning("%s", warning)
        self._trusted = _networks(settings.trusted)
        self.control: AccessControl | None = None
        if settings.guards_routes:
            cluster = settings.cluster or _CLUSTER
            self.control = AccessControl(settings, cluster=cluster, directory=directory, is_on=True)
            engine, note = self.control.engine, trail.note
            self._refusals = RefusalLog(engine, trail.server, note=note)
        self._seen: object = None

    def load(self) -> None:
        """Reads the files. Blocks; for the start.

        Raises:
            StateFileError: There is content that cannot be read.
            StoreError: A file cannot be written.
        """
        if self.control is not None:
            self.control.load()
            self._seen = self._stamps()

    def guard(self, dispatcher: Dispatcher) -> None:
        """Lets every request be checked before its handler."""
        if self.control is not None:
            dispatcher.check = self.check

    def check(self, request: Request) -> Awaitable[Answer] | None:
        """Returns None where a request may be served; what refuses it later, where many are wrong.

        Raises:
            RefusedError: It may not.
        """
        control, link = self.control, request.link
        if control is None or self._is_trusted(request):
            link.has_asked = True
            return None
        try:
            request.command.user = control.engine.check(
                request.command,
                link.peer_host,
                is_tls=link.is_tls,
                principal=link.certificate_name,
            )
        except RefusedError as error:
            if error.answered != ANSWERED_NOW:
                return _refuse_late(error)
            is_route = request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
            if is_route and control.user_of(request.command, link.certificate_name) is not None:
                # Whether there is such a topic is not answered either.
                topic = request.ext.get("topic", "")
                raise RefusedError(
                    f"{_NO_ROUTE}{topic}", code=ResponseCode.TOPIC_NOT_EXIST
                ) from error
            raise
        link.has_asked = True
        if request.user and not link.hub.note_user(link, request.user):
            raise RefusedError(_TOO_MANY, code=ResponseCode.NO_PERMISSION)
        return None

    def first_request_s(self) -> float:
        """Returns within how many seconds a connection must show who it is; 0 for no bound."""
        control = self.control
        return 0.0 if control is None else control.settings.first_request_s

    def apply(self, settings: AccessSettings, user: str) -> None:
        """Takes other settings from a user; they count from the next request on.

        Raises:
            RefusedError: It is no Super user, where users are checked.
        """
        control = self.control
        if control is None:
            return
        if control.is_enforced and not control.is_super(user):
            raise RefusedError(f"User:{user} is not a super user.", code=ResponseCode.NO_PERMISSION)
        control.apply(settings)

    def signer(self, request: Request) -> str:
        """Returns whose signature a request has that was not checked; empty for nobody's."""
        user = None if self.control is None else self.control.signer_of(request.command)
        return "" if user is None else user.name

    def _is_trusted(self, request: Request) -> bool:
        """Returns whether an unsigned request comes from where nobody signs."""
        if not self._trusted or request.ext.get("AccessKey"):
            return False
        try:
            source = ipaddress.ip_address(request.link.peer_host)
        except ValueError:
            return False
        return any(source in network for network in self._trusted)

    async def look(self) -> None:
        """Logs what was refused; reads the files anew where they changed."""
        control = self.control
        if control is None:
            return
        self._refusals.look()
        stamps = self._stamps()
        if stamps == self._seen:
            return
        self._seen = stamps
        try:
            is_changed = await asyncio.to_thread(control.reload)
        except MQError as error:
            _log.error("users and policies stay as they were: %s", error.message)
            return
        if is_changed:
            control.put_read_in_force()
            _log.info("users and policies were read anew")

    def _stamps(self) -> object:
        """Returns what differs after a change of the files."""
        control = self.control
        if control is None:
            return None
        found = []
        for path in control.paths:
            try:
                stat = path.stat()
                found.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
            except OSError:
                found.append((0, 0, 0))
        return tuple(found)


async def _refuse_late(error: RefusedError) -> Answer:
    """Refuses a while later, or not at all where as many wait as may."""
    await asyncio.sleep(_LATE_S)
    if error.answered == ANSWERED_NEVER:
        return None
    raise error


def _networks(text: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    key, found = "mqcoreNamesrvTrusted", []
    for part in (each.strip() for each in text.split(",")):
        if not part:
            continue
        try:
            found.append(ipaddress.ip_network(part, strict=False))
        except ValueError as error:
            raise ConfigurationError(f"{key}={part}: {error}", faults=(key,)) from error
    return found
