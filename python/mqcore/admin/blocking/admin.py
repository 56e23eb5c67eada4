"""The synchronous administrator of one cluster: the names of `mqcore.aio.Admin`, for any thread."""

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from mqcore.admin import admin as asynchronous
from mqcore.admin.blocking.access import Access
from mqcore.admin.blocking.brokers import Brokers
from mqcore.admin.blocking.dead_letters import DeadLetters
from mqcore.admin.blocking.groups import Groups
from mqcore.admin.blocking.messages import Messages
from mqcore.admin.blocking.name_servers import NameServers
from mqcore.admin.blocking.topics import Topics
from mqcore.admin.blocking.traces import Traces
from mqcore.admin.cluster_facts import ClusterFacts
from mqcore.admin.transport import TIMEOUT_S
from mqcore.client.blocking.loop_thread import LoopThread, loop_thread
from mqcore.client.instance import TlsOption
from mqcore.remoting.signing import Credentials

__all__ = ["Admin"]


class Admin:
    """Requests of administration tools to servers, from any thread.

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
        thread: The loop that it shares with all synchronous clients of the process.
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
            namesrv: Name servers: `host:port`, several with `;` between, or a sequence. None:
                those of `MQCORE_NAMESRV` or `NAMESRV_ADDR`, else 127.0.0.1:9876.
            credentials: Who we are to servers that ask.
            tls: Speak TLS.
            timeout_s: The deadline of each question.

        Raises:
            AddressError: A name server's address is none.
            TlsError: The files of `tls` cannot be used.
            UsageError: This thread runs an event loop.
        """
        self.thread: LoopThread = loop_thread()
        self._core = asynchronous.Admin(
            namesrv, credentials=credentials, tls=tls, timeout_s=timeout_s
        )
        self.topics = Topics(self.thread, self._core.topics)
        self.groups = Groups(self.thread, self._core.groups)
        self.brokers = Brokers(self.thread, self._core.brokers)
        self.name_servers = NameServers(self.thread, self._core.name_servers)
        self.messages = Messages(self.thread, self._core.messages)
        self.dead_letters = DeadLetters(self.thread, self._core.dead_letters)
        self.traces = Traces(self.thread, self._core.traces)
        self.access = Access(self.thread, self._core.access)
        self.thread.close_at_exit(self, self._core.close)

    def facts(self) -> ClusterFacts:
        """Returns what all servers report of themselves, for `cluster_findings`.

        Raises:
            MQError: No name server answers.
        """
        return self.thread.run(self._core.facts)

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes it."""
        self.close()

    def close(self) -> None:
        """Closes the connections. Again: does nothing."""
        self.thread.forget(self)
        self.thread.run(self._core.close)
