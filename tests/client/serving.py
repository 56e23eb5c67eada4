"""A name server with a broker on a loop in a thread, and one whose answers the test sets.

What is tested runs on its own loop, or blocks its own thread.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from live_broker import SMALL
from loops import DEADLINE_S
from mqcore.config import Layer, Program, broker_settings, resolved
from mqcore.model.queues import MessageQueue
from mqcore.native import Command, Message, decode_records
from mqcore.remoting import (
    Client,
    Dispatcher,
    Request,
    RequestCode,
    Server,
    ServerTls,
    TcpAddress,
    expect,
)
from mqcore.standalone import Standalone, namesrv_settings_of

_T = TypeVar("_T")

# Of asyncio: the task of an accept, its transport, what that calls; and one more.
TURNS_OF_ACCEPT = 4
STORED = {"msgId": "7F00000100002A9F0000000000000000", "queueId": "0", "queueOffset": "0"}


class Elsewhere:
    """A loop in a thread, for what is tested against."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="elsewhere")
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(DEADLINE_S)

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(DEADLINE_S)
        self.loop.close()


class Cluster:
    """A name server and a broker that serve.

    Attributes:
        namesrv: Where routes are asked for.
        broker: Where the broker listens.
        running: Both.
    """

    def __init__(self, running: Standalone) -> None:
        self.running = running
        self.namesrv = f"127.0.0.1:{running.ports['namesrv']}"
        self.broker = f"127.0.0.1:{running.ports['broker']}"


@contextmanager
def serving(store_dir: Path, *, namesrv_port: int = 0, **keys: str) -> Iterator[Cluster]:
    """Runs a name server and a broker on a directory until the block ends."""
    pairs = SMALL | {"storePathRootDir": str(store_dir)} | keys
    pairs.pop("mappedFileSizeCommitLog", None)
    pairs["mappedFileSizeCommitLog"] = str(8 << 20)
    pairs["maxMessageSize"] = str(4 << 20)
    settings = broker_settings(resolved(Program.BROKER, [Layer("given", pairs)]))
    running = Standalone(settings, namesrv_settings_of(settings, namesrv_port))
    elsewhere = Elsewhere()
    try:
        elsewhere.run(running.start())
        try:
            yield Cluster(running)
        finally:
            elsewhere.run(running.stop())
    finally:
        elsewhere.end()


async def pulled(
    cluster: Cluster, queue: MessageQueue, offset: int, *, count: int = 1, wait_ms: int = 15_000
) -> list[Message]:
    """Returns records as a consumer gets them."""
    ext = {
        "consumerGroup": "g",
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(count),
        # Hold the request; the subscription is in it.
        "sysFlag": "6",
        "commitOffset": "0",
        "suspendTimeoutMillis": str(wait_ms),
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    async with Client() as client:
        code = RequestCode.PULL_MESSAGE
        answer = await client.call(cluster.broker, code, ext, timeout_s=30.0)
        return list(decode_records(expect(answer, cluster.broker).body))


class Scripted:
    """A name server and brokers in one, whose answers a test writes.

    Attributes:
        asked: The requests that came, in order: code and fields.
        send: Answers a send; the default stores it. Called with the request.
        route: What a route's body is; None answers that the topic is not there.
        loop: Where it runs.
        ports: Where it listens; each port is a broker by the name `b0`, `b1`, ...
    """

    def __init__(self, brokers: int = 1, tls: ServerTls | None = None) -> None:
        self.asked: list[Command] = []
        self.send: Callable[[Request], Any] = lambda request: request.answer(ext=STORED)
        self.route: Callable[[str], dict[str, Any] | None] = self.default_route
        self._brokers = brokers
        self._tls = tls
        self._servers: list[Server] = []
        self.ports: list[int] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.ports[0]}"

    def codes(self) -> list[int]:
        return [command.code for command in self.asked]

    def default_route(self, topic: str) -> dict[str, Any]:
        del topic
        return {
            "brokerDatas": [
                {"brokerName": f"b{at}", "cluster": "c", "brokerAddrs": {"0": f"127.0.0.1:{port}"}}
                for at, port in enumerate(self.ports)
            ],
            "queueDatas": [
                {"brokerName": f"b{at}", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
                for at in range(len(self.ports))
            ],
        }

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        for _ in range(self._brokers):
            server = Server(self._dispatcher(len(self._servers)))
            bound = await server.listen(TcpAddress("127.0.0.1", 0), tls=self._tls)
            assert isinstance(bound, TcpAddress)
            self._servers.append(server)
            self.ports.append(bound.port)

    async def stop(self) -> None:
        # A connection that was just accepted gets its transport in the next turns.
        for _ in range(TURNS_OF_ACCEPT):
            await asyncio.sleep(0)
        for server in self._servers:
            await server.close(grace_s=0.0)

    async def stop_broker(self, at: int) -> None:
        await self._servers[at].close(grace_s=0.0)

    def _dispatcher(self, at: int) -> Dispatcher:
        def noted(answer: Callable[[Request], Any]) -> Callable[[Request], Any]:
            def note(request: Request) -> Any:
                request.command.ext["at"] = str(at)
                self.asked.append(request.command)
                return answer(request)

            return note

        return Dispatcher(
            {
                RequestCode.GET_ROUTEINFO_BY_TOPIC: noted(self._routed),
                RequestCode.GET_BROKER_CLUSTER_INFO: noted(self._cluster),
                RequestCode.HEART_BEAT: noted(lambda request: request.answer()),
                RequestCode.UNREGISTER_CLIENT: noted(lambda request: request.answer()),
                RequestCode.SEND_MESSAGE_V2: noted(lambda request: self.send(request)),
                RequestCode.SEND_BATCH_MESSAGE: noted(lambda request: self.send(request)),
                RequestCode.SEND_REPLY_MESSAGE_V2: noted(lambda request: self.send(request)),
                RequestCode.END_TRANSACTION: noted(lambda _: None),
                RequestCode.GET_MAX_OFFSET: noted(lambda request: request.answer()),
            }
        )

    def _routed(self, request: Request) -> Command:
        route = self.route(request.field("topic"))
        if route is None:
            return request.answer(17, "no such topic")
        return request.answer(body=json.dumps(route).encode())

    def _cluster(self, request: Request) -> Command:
        table = {
            f"b{at}": {"brokerAddrs": {"0": f"127.0.0.1:{port}"}}
            for at, port in enumerate(self.ports)
        }
        return request.answer(body=json.dumps({"brokerAddrTable": table}).encode())


@contextmanager
def scripted(brokers: int = 1, tls: ServerTls | None = None) -> Iterator[Scripted]:
    """Runs a scripted name server and its brokers in a thread until the block ends."""
    elsewhere = Elsewhere()
    server = Scripted(brokers, tls)
    try:
        elsewhere.run(server.start())
        try:
            yield server
        finally:
            elsewhere.run(server.stop())
    finally:
        elsewhere.end()
