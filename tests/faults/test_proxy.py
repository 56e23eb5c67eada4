"""The cutting proxy over real sockets: what goes through, and each kind of harm; and disks."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from faults.owners import owner_of
from faults.proxy import Proxy, Way
from faults.small_disk import small_disk
from interop.patience import eventually
from interop.servers import OURS

# No test waits for it.
_TIMEOUT_S = 30.0


class Pipe:
    """A client, a proxy and the server's end of the connection."""

    def __init__(self, stack: ExitStack) -> None:
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._listener.settimeout(_TIMEOUT_S)
        host, port = self._listener.getsockname()
        self.proxy = stack.enter_context(Proxy(f"{host}:{port}"))
        self._stack = stack
        self.client, self.server = self.connect()

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """Connects once more."""
        host, _, port = self.proxy.address.rpartition(":")
        client = self._stack.enter_context(socket.create_connection((host, int(port)), _TIMEOUT_S))
        server, _ = self._listener.accept()
        self._stack.enter_context(server)
        server.settimeout(_TIMEOUT_S)
        return client, server


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    with ExitStack() as stack:
        yield Pipe(stack)


def received(from_: socket.socket, count: int) -> bytes:
    """Returns so many bytes, or those before the end."""
    found = b""
    while len(found) < count:
        piece = from_.recv(count - len(found))
        if not piece:
            break
        found += piece
    return found


def is_silent(socket_: socket.socket) -> bool:
    """Returns whether nothing has come, and no end."""
    socket_.setblocking(False)
    try:
        socket_.recv(1)
    except BlockingIOError:
        return True
    finally:
        socket_.settimeout(_TIMEOUT_S)
    return False


def until_broken(socket_: socket.socket) -> bytes:
    """Returns what comes before the connection breaks."""
    found = b""
    with suppress(ConnectionError):
        while piece := socket_.recv(4096):
            found += piece
    return found


def test_bytes_and_ends_go_through_in_both_directions(pipe: Pipe) -> None:
    pipe.client.sendall(b"to the server")
    assert received(pipe.server, 13) == b"to the server"
    big = bytes(range(256)) * 8_000
    sender = threading.Thread(target=pipe.server.sendall, args=(big,))
    sender.start()
    assert received(pipe.client, len(big)) == big
    sender.join(_TIMEOUT_S)
    pipe.client.shutdown(socket.SHUT_WR)
    assert pipe.server.recv(1) == b""
    pipe.server.sendall(b"still")
    assert received(pipe.client, 5) == b"still"
    assert pipe.proxy.passed(Way.TO_TARGET) == 13
    assert pipe.proxy.passed(Way.TO_CLIENT) == len(big) + 5


@pytest.mark.parametrize("count", [1, 7, 12])
def test_a_connection_breaks_behind_the_byte_that_was_asked_for(pipe: Pipe, count: int) -> None:
    pipe.client.sendall(b"ab")
    assert received(pipe.server, 2) == b"ab"
    pipe.proxy.change(Way.TO_TARGET, cut_after=count)
    with suppress(ConnectionError):
        for byte in b"0123456789abcdef":
            pipe.client.sendall(bytes([byte]))
    assert until_broken(pipe.server) in (b"0123456789abcdef"[:count], b"")
    assert pipe.proxy.passed(Way.TO_TARGET) == 2 + count
    until_broken(pipe.client)
    # The next connection is a whole one.
    client, server = pipe.connect()
    client.sendall(b"whole again, and longer")
    assert received(server, 23) == b"whole again, and longer"


def test_a_direction_that_is_black_is_half_open_until_it_is_healed(pipe: Pipe) -> None:
    pipe.proxy.change(Way.TO_TARGET, is_black=True)
    pipe.client.sendall(b"lost")
    pipe.server.sendall(b"comes")
    assert received(pipe.client, 5) == b"comes"
    pipe.client.shutdown(socket.SHUT_WR)
    pipe.server.sendall(b"still")
    assert received(pipe.client, 5) == b"still"
    assert is_silent(pipe.server), "neither bytes nor the end"
    pipe.proxy.heal()
    assert until_broken(pipe.server) == b"", "what was lost does not come later"
    assert eventually(pipe.proxy.connections, lambda count: count == 0) == 0


def test_what_is_paused_comes_later_whole(pipe: Pipe) -> None:
    pipe.proxy.change(Way.TO_TARGET, is_paused=True)
    pipe.client.sendall(b"held back")
    pipe.server.sendall(b"x")
    assert received(pipe.client, 1) == b"x"
    assert is_silent(pipe.server)
    pipe.proxy.change(Way.TO_TARGET, is_paused=False)
    assert received(pipe.server, 9) == b"held back"


def test_bytes_are_late_by_the_delay_and_no_slower(pipe: Pipe) -> None:
    pipe.proxy.change(Way.TO_TARGET, delay_s=0.2)
    began = time.monotonic()
    for number in range(10):
        pipe.client.sendall(b"%d" % number)
    assert received(pipe.server, 10) == b"0123456789"
    assert 0.2 <= time.monotonic() - began < 10 * 0.2


def test_a_throttled_direction_takes_its_time(pipe: Pipe) -> None:
    pipe.proxy.change(Way.TO_CLIENT, bytes_per_second=100_000)
    began = time.monotonic()
    pipe.server.sendall(bytes(20_000))
    assert len(received(pipe.client, 20_000)) == 20_000
    assert time.monotonic() - began >= 0.19


def test_all_connections_are_cut_at_once_and_new_ones_are_refused_when_asked(pipe: Pipe) -> None:
    other, other_server = pipe.connect()
    assert eventually(pipe.proxy.connections, lambda count: count == 2) == 2
    pipe.proxy.cut()
    for one in (pipe.client, pipe.server, other, other_server):
        assert until_broken(one) == b""
    pipe.proxy.refuse(is_refusing=True)
    host, _, port = pipe.proxy.address.rpartition(":")
    with socket.create_connection((host, int(port)), _TIMEOUT_S) as refused:
        assert until_broken(refused) == b""
    pipe.proxy.heal()
    client, server = pipe.connect()
    client.sendall(b"again")
    assert received(server, 5) == b"again"


def test_a_target_that_is_not_there_closes_the_client_and_another_may_take_over() -> None:
    with ExitStack() as stack:
        gone = socket.create_server(("127.0.0.1", 0))
        host, port = gone.getsockname()
        gone.close()
        proxy = stack.enter_context(Proxy(f"{host}:{port}"))
        near = ("127.0.0.1", proxy.port)
        # It may be closed as soon as it is accepted.
        with (
            suppress(ConnectionResetError),
            socket.create_connection(near, _TIMEOUT_S) as client,
        ):
            assert until_broken(client) == b""
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        proxy.target = f"127.0.0.1:{listener.getsockname()[1]}"
        with socket.create_connection(near, _TIMEOUT_S) as client:
            server, _ = listener.accept()
            client.sendall(b"moved")
            assert received(server, 5) == b"moved"
            server.close()


def test_harm_may_be_that_of_one_owner() -> None:
    owners: dict[int, str] = {}
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        listener.settimeout(_TIMEOUT_S)
        target = f"127.0.0.1:{listener.getsockname()[1]}"
        proxy = stack.enter_context(Proxy(target, host="127.0.0.9", owner_of=lambda at: owners[at]))
        assert proxy.address == f"127.0.0.9:{proxy.port}"
        pairs = {}
        for owner in ("one", "other"):
            client = stack.enter_context(socket.socket())
            client.settimeout(_TIMEOUT_S)
            client.bind(("127.0.0.1", 0))
            owners[client.getsockname()[1]] = owner
            client.connect(("127.0.0.9", proxy.port))
            server, _ = listener.accept()
            stack.enter_context(server)
            server.settimeout(_TIMEOUT_S)
            pairs[owner] = client, server
        proxy.change(Way.TO_TARGET, owner="one", is_black=True)
        for client, _ in pairs.values():
            client.sendall(b"seen")
        assert received(pairs["other"][1], 4) == b"seen"
        assert is_silent(pairs["one"][1])
        proxy.change(Way.TO_CLIENT, is_paused=True)
        for _, server in pairs.values():
            server.sendall(b"held")
        assert is_silent(pairs["one"][0])
        assert is_silent(pairs["other"][0])
        proxy.heal()
        assert until_broken(pairs["one"][1]) == b""
        assert received(pairs["other"][0], 4) == b"held"
        proxy.cut(owner="other")
        assert until_broken(pairs["other"][0]) == b""
        assert eventually(proxy.connections, lambda count: count == 0) == 0


def test_the_owner_of_a_connection_is_found_by_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connect = (
            "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])));"
            "sys.stdin.read()"
        )
        port = listener.getsockname()[1]
        command = [sys.executable, "-c", connect, str(port)]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as other:
            connection, address = listener.accept()
            with connection:
                pids = {"us": os.getpid(), "other": other.pid, "gone": 2**22}
                assert owner_of(address[1], pids) == "other"
                assert owner_of(address[1], {"us": os.getpid()}) == ""
            assert other.stdin is not None
            other.stdin.close()
            other.wait(_TIMEOUT_S)
        assert owner_of(port, pids) == "us"


def test_a_proxy_that_accepts_nobody_any_more_gives_the_reason() -> None:
    def owner_of_none(_port: int) -> str:
        raise AttributeError("a process that has just ended")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        target = f"127.0.0.1:{listener.getsockname()[1]}"
        with Proxy(target, owner_of=owner_of_none) as proxy:
            host, _, port = proxy.address.rpartition(":")
            with socket.create_connection((host, int(port)), _TIMEOUT_S):

                def why() -> str:
                    try:
                        proxy.heal()
                    except AttributeError as error:
                        return str(error)
                    return ""

                assert eventually(why, bool) == "a process that has just ended"


def test_a_small_disk_is_filled_and_emptied(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", megabytes=4) as disk:
        if disk is None:
            pytest.skip("no user namespaces here")
        file = disk.seen / "file"
        file.write_bytes(b"x")
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            (disk.seen / "more").write_bytes(bytes(10_000))
        disk.empty()
        (disk.seen / "more").write_bytes(bytes(10_000))
        command = disk.within(OURS).broker(tmp_path / "conf", tmp_path)
        seen = subprocess.run(
            [*command[: command.index("--") + 1], "cat", str(tmp_path / "disk" / "file")],
            capture_output=True,
            check=True,
        )
        assert seen.stdout == b"x"
    assert not (tmp_path / "disk" / "file").exists()
