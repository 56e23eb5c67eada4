"""The administrator of one cluster: connections, and the families of requests over them.

Holds no request of its own: each family has a file.
"""

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from mqcore.admin.access import Access
from mqcore.admin.brokers import Brokers
from mqcore.admin.cluster_facts import ClusterFacts, gathered
from mqcore.admin.dead_letters import DeadLetters
from mqcore.admin.groups import Groups
from mqcore.admin.messages import Messages
from mqcore.admin.name_servers import NameServers
from mqcore.admin.topics import Topics
from mqcore.admin.traces import Traces
from mqcore.admin.transport import TIMEOUT_S, Transport
from mqcore.client.instance import TlsOption, tls_context
from mqcore.remoting import Client
from mqcore.remoting.signing import Credentials

__all__ = ["Admin"]


class Admin:
    """Requests of administration tools to servers. Belongs to one event loop.

    It connects when it is first asked for something. Where one request goes to several brokers,
    they are asked at once.

    Attributes:
        topics: Topics.
        groups: Consumer groups.
        brokers: Clusters and brokers.
        name_servers: Name servers.
        messages: Single messages.
        dead_letters: Messages that groups failed on too often.
        traces: What became of traced messages.
        access: Users, and what they may.
    """

    def __init__(
        self,
        namesrv: str | Iterable[str] | None = None,
        *,
        credentials: Credentials | None = None,
        tls: TlsOption = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Prepares; nothing is connected yet.

        Args:
            namesrv: Name servers: `host:port`, several with `;` between, or a sequence; those of
                the environment when not given.
            credentials: Who we are to servers that ask.
            tls: Speak TLS.
            timeout_s: The deadline of each question.

        Raises:
            AddressError: A name server's address is none.
            TlsError: The files of `tls` cannot be used.
        """
        remote = Client(tls=tls_context(tls), credentials=credentials)
        self._transport = transport = Transport(remote, namesrv, timeout_s)
        self.topics = Topics(transport)
        self.groups = Groups(transport)
        self.brokers = Brokers(transport)
        self.name_servers = NameServers(transport)
        self.messages = Messages(transport)
        self.dead_letters = DeadLetters(transport)
        self.traces = Traces(self.messages)
        self.access = Access(transport)

    async def facts(self) -> ClusterFacts:
        """Returns what all servers report of themselves, for `cluster_findings`.

        Raises:
            MQError: No name server answers.
        """
        return await gathered(self._transport, self._transport.name_servers)

    async def __aenter__(self) -> Self:
        """Returns itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes it."""
        await self.close()

    async def close(self) -> None:
        """Closes the connections. Again: does nothing."""
        await self._transport.close()
