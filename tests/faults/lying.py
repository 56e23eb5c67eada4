"""A name server that lies: every topic is at a broker where nobody listens.

Runs on an event loop in a thread of its own. Knows routes and nothing else of the protocol.
"""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from interop.servers import BROKER_NAME, CLUSTER
from mqcore.native import Command
from mqcore.remoting import Dispatcher, Handler, Request, RequestCode, Server, TcpAddress

_QUEUES = 4
_READ_AND_WRITE = 6
_START_TIMEOUT_S = 30.0


@contextmanager
def lying_name_server(address: str) -> Iterator[None]:
    """Lies at an address until the end of the block."""
    host, _, port = address.rpartition(":")
    loop = asyncio.new_event_loop()
    ending = asyncio.Event()
    ready = threading.Event()
    failed: list[BaseException] = []

    async def serve() -> None:
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            # Bound and not listened to by anybody who answers: it is closed before it is named.
            dead = f"127.0.0.1:{nobody.getsockname()[1]}"
        server = Server(Dispatcher(_handlers(dead)))
        await server.listen(TcpAddress(host, int(port)))
        ready.set()
        await ending.wait()
        await server.close()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        except BaseException as error:
            failed.append(error)
            ready.set()
        finally:
            loop.close()

    thread = threading.Thread(target=run, name="lying")
    thread.start()
    try:
        assert ready.wait(_START_TIMEOUT_S)
        assert failed == []
        yield
    finally:
        if not failed:
            loop.call_soon_threadsafe(ending.set)
        thread.join()


def _handlers(dead: str) -> dict[int, Handler]:
    route = {
        "brokerDatas": [
            {"brokerAddrs": {"0": dead}, "brokerName": BROKER_NAME, "cluster": CLUSTER}
        ],
        "filterServerTable": {},
        "queueDatas": [
            {
                "brokerName": BROKER_NAME,
                "perm": _READ_AND_WRITE,
                "readQueueNums": _QUEUES,
                "topicSysFlag": 0,
                "writeQueueNums": _QUEUES,
            }
        ],
    }
    body = json.dumps(route).encode()

    def answer(request: Request) -> Command:
        return request.answer(body=body)

    def take(request: Request) -> Command:
        return request.answer()

    return {
        RequestCode.GET_ROUTEINFO_BY_TOPIC: answer,
        RequestCode.REGISTER_BROKER: take,
        RequestCode.UNREGISTER_BROKER: take,
    }
