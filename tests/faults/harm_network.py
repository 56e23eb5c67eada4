"""What happens between clients, name servers and a broker; each function is one round of a fault.

`Alone.heal` takes back what is left of it. Knows ports, frames and routes.
"""

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from faults.alone import Alone
from faults.group import TOPIC
from faults.harm_disks import must_live
from faults.load import QUEUES, TIMEOUT_S
from faults.lying import lying_name_server
from faults.proxy import Way
from faults.rounds import pass_s
from interop.patience import eventually
from interop.registered import brokers
from mqcore import Message, MQError, Producer
from mqcore.native import Command
from mqcore.remoting import RequestCode

IDLE = 10_000
_STORM = 4_000
_AT_ONCE = 500
_SLOW_READERS = 8
_SLOW_PULLS = 400
_SPELLS_S = (0.3, 1.5, TIMEOUT_S + 1.0)
_CONNECT_TIMEOUT_S = 10.0
_NEWCOMER_TIMEOUT_S = 2.0
# Closing with this lets the system send a reset.
_LINGER_NOT = struct.pack("ii", 1, 0)
_TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(192)
_HTTP = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
_SOURCES = 4


def cut(it: Alone, dice: random.Random) -> None:
    """Every connection of clients breaks, at a byte or at once, again and again."""
    for _ in range(dice.randrange(2, 6)):
        if dice.random() < 0.5:
            it.proxy.cut()
        else:
            it.proxy.change(dice.choice(list(Way)), cut_after=dice.randrange(1, 20_000))
        pass_s(dice.choice(_SPELLS_S[:2]))


def half_open(it: Alone, dice: random.Random) -> None:
    """Nothing comes through either way, and nobody is informed."""
    for way in Way:
        it.proxy.change(way, is_black=True)
    pass_s(dice.choice(_SPELLS_S))


def one_way(it: Alone, dice: random.Random) -> None:
    """What one side sends is lost: requests, or answers to what was stored."""
    it.proxy.change(dice.choice(list(Way)), is_black=True)
    pass_s(dice.choice(_SPELLS_S))


def slow_link(it: Alone, _: random.Random) -> None:
    """The network is late and narrow."""
    for way in Way:
        it.proxy.change(way, delay_s=0.1, bytes_per_second=200_000)
    pass_s(3.0)


def slow_readers(it: Alone, _dice: random.Random) -> None:
    """Clients pull without reading what they get."""
    body = _pulls()
    with contextlib.ExitStack() as stack:
        for _ in range(_SLOW_READERS):
            one = stack.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            one.settimeout(_CONNECT_TIMEOUT_S)
            one.connect(_endpoint(it.broker.address))
            one.setblocking(False)
            # What the broker does not take any more is not sent.
            with contextlib.suppress(OSError):
                one.send(body)
        pass_s(4.0)
    must_live(it)


def _pulls() -> bytes:
    ext = {"consumerGroup": "slow", "topic": TOPIC, "queueOffset": "0", "maxMsgNums": "32"}
    ext |= {"sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0"}
    ext |= {"subscription": "*", "subVersion": "0", "expressionType": "TAG"}
    code = RequestCode.PULL_MESSAGE
    frames = (
        Command(code, ext={**ext, "queueId": str(number % QUEUES)}, opaque=number).encode()
        for number in range(_SLOW_PULLS)
    )
    return b"".join(frames)


def garbage(it: Alone, dice: random.Random) -> None:
    """Every port of broker and name server gets bytes that are no request."""
    broker = int(it.broker.settings["listenPort"])
    ports = [broker, int(it.broker.settings["haListenPort"]), broker - 2]
    ports += [_endpoint(it.servers.namesrv.address)[1]]
    for _ in range(100):
        for port in ports:
            with contextlib.suppress(OSError):
                one = socket.create_connection(("127.0.0.1", port), _CONNECT_TIMEOUT_S)
                with one:
                    one.sendall(_nonsense(dice))
    must_live(it)
    assert not it.servers.namesrv.has_died


def _nonsense(dice: random.Random) -> bytes:
    kind = dice.randrange(6)
    if kind == 0:
        return dice.randbytes(dice.randrange(1, 5_000))
    if kind == 1:
        # A frame of a length that never comes, or of none.
        return struct.pack(">i", dice.choice((0, -1, 1 << 30, 16 << 20, 5))) + dice.randbytes(9)
    if kind == 2:
        return struct.pack(">ii", 40, dice.choice((0, 36, 1 << 24, -1))) + dice.randbytes(36)
    if kind == 3:
        return _TLS_HELLO
    if kind == 4:
        return _HTTP
    frame = bytearray(Command(RequestCode.PULL_MESSAGE, ext={"topic": TOPIC}).encode())
    for _ in range(3):
        frame[dice.randrange(8, len(frame))] = dice.randrange(256)
    return bytes(frame)


def idle_connections(it: Alone, _: random.Random) -> None:
    """Ten thousand connections send nothing."""
    with _crowd(it, IDLE):
        pass_s(3.0)
    must_live(it)


def connection_storm(it: Alone, dice: random.Random) -> None:
    """Thousands connect and go at once, some of them by a reset."""

    async def one(number: int) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError), socket.socket() as client:
            client.setblocking(False)
            client.bind((f"127.0.0.{number % _SOURCES + 1}", 0))
            await loop.sock_connect(client, _endpoint(it.broker.address))
            if dice.random() < 0.5:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)

    async def work() -> None:
        for first in range(0, _STORM, _AT_ONCE):
            await asyncio.gather(*map(one, range(first, first + _AT_ONCE)))

    asyncio.run(work())
    must_live(it)


@contextmanager
def _crowd(it: Alone, count: int) -> Iterator[None]:
    """Holds so many connections, or as many as the broker lets be."""

    async def one(number: int) -> socket.socket | None:
        client = socket.socket()
        client.setblocking(False)
        try:
            client.bind((f"127.0.0.{number % _SOURCES + 1}", 0))
            await asyncio.get_running_loop().sock_connect(client, _endpoint(it.broker.address))
        except OSError:
            client.close()
            return None
        return client

    async def work() -> list[socket.socket | None]:
        found: list[socket.socket | None] = []
        for first in range(0, count, _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, count))
            found += await asyncio.gather(*map(one, numbers))
        return found

    clients = [each for each in asyncio.run(work()) if each is not None]
    try:
        assert len(clients) > count * 0.9, f"{len(clients)} of {count} could connect"
        yield
    finally:
        for each in clients:
            each.close()


def _endpoint(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


# Name servers. Who knows a route goes on with it; so somebody comes who knows none.


@contextmanager
def newcomer(it: Alone) -> Iterator[Callable[[], bool]]:
    """A producer that begins now; gives what sends a message, and returns whether it is stored."""
    with Producer(it.namesrv, group="newcomers", timeout_s=_NEWCOMER_TIMEOUT_S) as producer:

        def is_stored() -> bool:
            with contextlib.suppress(MQError):
                return producer.send(Message(TOPIC, b"new")).is_ok
            return False

        yield is_stored


def name_server_gone(it: Alone, dice: random.Random) -> None:
    """The name server dies: who knows the way goes on."""
    it.servers.namesrv.kill()
    pass_s(dice.choice((1.0, 4.0)))
    it.servers.namesrv.start()


def name_server_empty(it: Alone, _: random.Random) -> None:
    """The name server comes back and knows nothing until the broker registers again."""
    it.servers.namesrv.kill()
    it.servers.namesrv.start()
    with newcomer(it) as is_stored:
        must_be_known(it)
        assert eventually(is_stored, bool), "a newcomer does not find the broker"


def name_server_lies(it: Alone, _: random.Random) -> None:
    """Something in the name server's stead sends everybody to a port where nobody is."""
    namesrv = it.servers.namesrv
    namesrv.kill()
    with contextlib.ExitStack() as stack:
        with lying_name_server(namesrv.address):
            is_stored = stack.enter_context(newcomer(it))
            assert not is_stored()
            pass_s(2.0)
        namesrv.start()
        must_be_known(it)
        assert eventually(is_stored, bool), "who was sent to nobody does not find the broker"


def name_servers_disagree(it: Alone, dice: random.Random) -> None:
    """Of two name servers one knows no broker, or sends clients where nobody is."""
    other = it.other_namesrv
    if dice.random() < 0.5:
        other.start()
        with newcomer(it) as is_stored:
            assert eventually(is_stored, bool), "one of two name servers knows the broker"
        other.kill()
        return
    with contextlib.ExitStack() as stack:
        with lying_name_server(other.address):
            is_stored = stack.enter_context(newcomer(it))
            is_stored()
            pass_s(2.0)
        assert eventually(is_stored, bool), "who was sent to nobody does not find the broker"


def must_be_known(it: Alone) -> None:
    """Waits until the name server knows the broker again."""
    address = it.servers.namesrv.address
    found = eventually(lambda: brokers(address), bool)
    assert found, "the broker has not registered again"
