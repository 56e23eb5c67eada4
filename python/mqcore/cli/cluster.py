"""What the commands that ask a cluster share: its options, its administrator, the end at an error.

@click.command()
@cluster_options
def list_(cluster: Cluster) -> None:
    names = cluster.ask(lambda admin: admin.topics.names())
"""

import asyncio
import functools
import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mqcore.model.name_servers import (
    DEFAULT_NAME_SERVER,
    NAME_SERVER_VARIABLES,
    name_servers_of,
)
from mqcore.model.queues import MessageQueue
from mqcore.model.tools_file import default_tools_file, read_tools_file

if TYPE_CHECKING:
    from mqcore.admin import Admin
    from mqcore.remoting.signing import Credentials
    from mqcore.remoting.tls import TlsFiles

__all__ = [
    "Cluster",
    "cluster_options",
    "confirmed",
    "queue_of",
    "some_at_once",
    "tools_credentials",
]

_Result = TypeVar("_Result")
_Command = Callable[..., Any]

# Questions at once of a command that asks about every topic or group: brokers have other work.
_AT_ONCE_MAX = 16
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Which cluster, and how it is asked.

    Attributes:
        namesrv: Its name servers, joined by `;`.
        timeout_s: The deadline of a question.
        access_key: The account, None for none.
        secret_key: Its secret.
        has_tls: Whether TLS is spoken.
        tls_authorities: A file of authorities that are trusted, None for the machine's own.
        tls_certificate: A file with the certificate that is shown to servers that ask for one.
        tls_key: Its key, None where it is in the same file.
        checks_host: Whether certificates must name the host that is dialled.
        as_json: Whether to print JSON.
    """

    namesrv: str
    timeout_s: float
    access_key: str | None
    secret_key: str | None
    has_tls: bool
    tls_authorities: Path | None
    tls_certificate: Path | None
    tls_key: Path | None
    checks_host: bool
    as_json: bool

    @property
    def credentials(self) -> "Credentials | None":
        """Who we are.

        Raises:
            UsageError: Half of it is missing.
            ClickException: There is a file of credentials that cannot be read.
        """
        if self.access_key is None and self.secret_key is None:
            return tools_credentials()
        if not self.access_key or not self.secret_key:
            raise click.UsageError("--access-key and --secret-key belong together")
        # Imported here: most commands need no client.
        from mqcore.remoting.signing import Credentials

        return Credentials(self.access_key, self.secret_key)

    @property
    def tls(self) -> "TlsFiles | None":
        """How TLS is spoken, None for plain connections.

        Raises:
            UsageError: An option of TLS was given without --tls.
        """
        if not self.has_tls:
            files = (self.tls_authorities, self.tls_certificate, self.tls_key)
            if any(each is not None for each in files) or not self.checks_host:
                raise click.UsageError(
                    "--tls-ca, --tls-client-cert, --tls-client-key and --no-tls-host-check go "
                    "with --tls"
                )
            return None
        if self.tls_key is not None and self.tls_certificate is None:
            raise click.UsageError("--tls-client-key goes with --tls-client-cert")
        # Imported here: most commands need no TLS.
        from mqcore.remoting.tls import TlsFiles

        return TlsFiles(
            certificate=self.tls_certificate,
            key=self.tls_key,
            trusted=self.tls_authorities,
            checks_host=self.checks_host,
        )

    def admin(self) -> "Admin":
        """Returns an administrator; made within the event loop that it is to live on."""
        from mqcore.admin import Admin

        return Admin(
            self.namesrv,
            credentials=self.credentials,
            tls=self.tls,
            timeout_s=self.timeout_s,
        )

    def ask(self, work: "Callable[[Admin], Awaitable[_Result]]") -> _Result:
        """Returns what `work` returns with an administrator.

        Raises:
            MQError: What it raises.
        """

        async def asked() -> _Result:
            async with self.admin() as admin:
                return await work(admin)

        return asyncio.run(asked())


def tools_credentials() -> "Credentials | None":
    """Returns the credentials of the environment, else of `tools.yml`; None where neither has any.

    Raises:
        ClickException: The file cannot be read, or has none.
    """
    keys = os.environ.get("MQCORE_ACCESS_KEY"), os.environ.get("MQCORE_SECRET_KEY")
    path = default_tools_file(os.environ)
    if path is None and not all(keys):
        return None
    from mqcore.remoting.signing import Credentials

    if keys[0] and keys[1]:
        return Credentials(keys[0], keys[1])
    assert path is not None
    try:
        found = read_tools_file(path)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from error
    if found is None:
        raise click.ClickException(f"{path} has no accessKey and secretKey")
    return Credentials(*found)


async def some_at_once(
    items: list[Any], work: Callable[[Any], Awaitable[_Result]]
) -> list[_Result]:
    """Does something for every item, a bounded number at once; returns the results in order."""
    gate = asyncio.Semaphore(_AT_ONCE_MAX)

    async def one(item: Any) -> _Result:
        async with gate:
            return await work(item)

    return await asyncio.gather(*(one(item) for item in items))


def cluster_options(command: _Command) -> _Command:
    """Adds the options of a cluster to a command, which takes them as `cluster`."""

    @functools.wraps(command)
    def gathered(**parameters: Any) -> Any:
        names = (each.name for each in fields(Cluster))
        options = Cluster(**{name: parameters.pop(name) for name in names})
        return command(cluster=options, **parameters)

    wrapped: _Command = gathered
    options: list[Callable[[_Command], _Command]] = [
        click.option(
            "-n",
            "--namesrv",
            metavar="ADDR",
            default=lambda: name_servers_of(os.environ).text,
            show_default=f"${', then $'.join(NAME_SERVER_VARIABLES)}, then {DEFAULT_NAME_SERVER}",
            help="Name servers, HOST:PORT joined by ;.",
        ),
        click.option(
            "--timeout",
            "timeout_s",
            metavar="SECONDS",
            type=click.FloatRange(min=0, min_open=True),
            default=5.0,
            show_default=True,
            help="Deadline of each question.",
        ),
        click.option(
            "--access-key",
            envvar="MQCORE_ACCESS_KEY",
            help="User; that of $MQCORE_TOOLS_FILE, or $ROCKETMQ_HOME/conf/tools.yml, without one.",
        ),
        click.option("--secret-key", envvar="MQCORE_SECRET_KEY", help="Its secret."),
        click.option("--tls", "has_tls", is_flag=True, help="Speak TLS."),
        click.option(
            "--tls-ca",
            "tls_authorities",
            metavar="FILE",
            type=_FILE,
            help="Authorities to trust, PEM; the machine's own by default.",
        ),
        click.option(
            "--tls-client-cert",
            "tls_certificate",
            metavar="FILE",
            type=_FILE,
            help="Certificate to show to servers that ask for one, PEM.",
        ),
        click.option(
            "--tls-client-key",
            "tls_key",
            metavar="FILE",
            type=_FILE,
            help="Its private key, PEM; in the same file by default.",
        ),
        click.option(
            "--no-tls-host-check",
            "checks_host",
            is_flag=True,
            flag_value=False,
            default=True,
            help="Take certificates that do not name the host: others can pose as it.",
        ),
        click.option("--json", "as_json", is_flag=True, help="JSON instead of tables."),
    ]
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


def confirmed(question: str, *, is_sure: bool) -> None:
    """Asks before something that cannot be taken back.

    Args:
        question: What is going to happen.
        is_sure: Whether `--yes` was given.

    Raises:
        UsageError: There is no terminal to ask on, and `--yes` was not given.
        ClickException: The answer was no.
    """
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Add --yes where nobody can be asked.")
    if not click.confirm(question, err=True):
        raise click.ClickException("nothing was done")


def no_queue_text(topic: str, wanted: tuple[str, int], there: Iterable[tuple[str, int]]) -> str:
    """Returns that a topic does not have a queue, and which it has.

    Args:
        topic: The topic.
        wanted: Broker name and queue id.
        there: The same of the queues that it has.
    """
    name, number = wanted
    queues = sorted(there)
    own = [each for broker, each in queues if broker == name]
    if own:
        range_text = f" to {name}:{own[-1]}" if len(own) > 1 else ""
        has = f"there it has {name}:{own[0]}{range_text}"
    else:
        has = f"it is on {', '.join(sorted({broker for broker, _ in queues})) or 'no broker'}"
    return f"topic {topic} has no queue {name}:{number}: {has}"


async def require_queue(admin: "Admin", queue: MessageQueue) -> None:
    """Returns when a topic has a queue.

    Raises:
        MQError: It has not; which it has is in the message.
    """
    from mqcore.errors import UsageError

    found = [row.queue for row in (await admin.topics.stats(queue.topic)).queues]
    if queue not in found:
        wanted = (queue.broker_name, queue.queue_id)
        there = ((each.broker_name, each.queue_id) for each in found)
        raise UsageError(no_queue_text(queue.topic, wanted, there))


def queue_of(topic: str, text: str) -> MessageQueue:
    """Returns the queue of a topic that `BROKER:ID` names.

    Raises:
        BadParameter: It names none.
    """
    broker, separator, number = text.rpartition(":")
    if not separator or not broker or not number.isdigit():
        raise click.BadParameter(f"{text!r}: BROKER:ID expected, such as broker-a:3")
    return MessageQueue(topic, broker, int(number))
