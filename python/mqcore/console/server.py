"""The running console: its parts made, its port bound, its figures sampled; stopped cleanly.

Runs on the event loop that starts it, beside whatever else runs there.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Final

import uvicorn

from mqcore.admin import Admin
from mqcore.console.app import State, application
from mqcore.console.audit import Audit
from mqcore.console.history import History
from mqcore.console.sending import Sending
from mqcore.console.settings import ConsoleSettings
from mqcore.console.users import Users
from mqcore.errors import ConfigurationError
from mqcore.remoting.tls import TlsFiles, renewed_server_context

__all__ = ["Console"]

_log = logging.getLogger("mqcore.console")
_CONNECTIONS_MAX: Final = 500
# Live views have no end of their own.
_STOP_S: Final = 1
_USERS_FILE: Final = "users.json"
_AUDIT_FILE: Final = "audit.jsonl"


class _Server(uvicorn.Server):
    """A server that leaves signals to the program that it is a part of."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()


class Console:
    """The console of one cluster.

    Attributes:
        state: What it works with.
        ports: The port that is listened on, by `console`.
        password: The password of the first user where this start made one; None else.
    """

    def __init__(self, settings: ConsoleSettings) -> None:
        """Makes its parts; nothing is bound.

        Raises:
            ConfigurationError: The settings are not safe, or a file cannot be used.
        """
        settings.check()
        self._settings = settings
        users = Users(settings.data / _USERS_FILE)
        self.password = users.begin()
        admin = Admin(settings.namesrv, credentials=settings.credentials, tls=settings.tls)
        self.state = State(
            settings=settings,
            admin=admin,
            users=users,
            audit=Audit(settings.data / _AUDIT_FILE),
            history=History(admin, question_s=settings.question_s),
            sending=Sending(settings),
        )
        self.ports: Mapping[str, int] = {}
        self._server: _Server | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> str:
        """Binds the port; returns the URL.

        Raises:
            ConfigurationError: The port cannot be bound.
            TlsError: The certificate cannot be used.
        """
        settings = self._settings
        config = uvicorn.Config(
            application(self.state),
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(settings.proxies),
            forwarded_allow_ips=list(settings.proxies),
            limit_concurrency=_CONNECTIONS_MAX,
            timeout_graceful_shutdown=_STOP_S,
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.key,
        )
        if settings.certificate is not None:
            _follow(config, TlsFiles(certificate=settings.certificate, key=settings.key))
        bound = _bound(settings.host, settings.port)
        host, port = bound.getsockname()[:2]
        self._server = server = _Server(config)
        self._tasks = [
            asyncio.create_task(server.serve(sockets=[bound]), name="console"),
            asyncio.create_task(self.state.history.run(), name="console history"),
        ]
        await server.is_up.wait()
        self.ports = {"console": port}
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if settings.is_secure else 'http'}://{shown}:{port}/"

    async def stop(self) -> None:
        """Ends it; ending again does nothing."""
        server, tasks = self._server, self._tasks
        self._server, self._tasks = None, []
        if server is not None:
            server.should_exit = True
            serving, history = tasks
            history.cancel()
            await asyncio.gather(serving, history, return_exceptions=True)
        await self.state.sending.close()
        await self.state.admin.close()


def _follow(config: uvicorn.Config, files: TlsFiles) -> None:
    """Lets every new connection have the certificate as it is in its files by then.

    Raises:
        TlsError: The files cannot be used.
    """
    followed = renewed_server_context(files, "certificate of the console")

    def chosen(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        # Called once in each handshake, whether or not the client names a host.
        connection.context = followed.now()

    config.load()
    assert config.ssl is not None
    config.ssl.sni_callback = chosen


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host.strip("[]"), port))
        found.listen()
        found.setblocking(False)
    except OSError as error:
        found.close()
        fault = f"{host}:{port} cannot be listened on: {error.strerror or error}"
        raise ConfigurationError(fault, faults=(fault,)) from error
    return found
