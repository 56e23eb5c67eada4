"""Client and server over real sockets: calls, answers, deadlines, ends."""

import asyncio

import pytest

from loops import until
from mqcore.errors import (
    CallTimeoutError,
    ConnectError,
    ConnectionLostError,
    ResponseError,
    TooBusyError,
)
from mqcore.native import Command
from mqcore.remoting import (
    Client,
    Dispatcher,
    Limits,
    Link,
    LinkEvents,
    Request,
    ResponseCode,
    UnixAddress,
    expect,
)
from remoting.conftest import Run
from remoting.peers import ECHO, FAIL, LATER, ONEWAY_FLAG, ask, peer_of, served


class Heard(LinkEvents):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def connected(self, link: Link) -> None:
        del link
        self.events.append("connected")

    def closed(self, link: Link) -> None:
        del link
        self.events.append("closed")

    def failed(self, link: Link, error: Exception) -> None:
        del link, error
        self.events.append("failed")

    def idle(self, link: Link) -> None:
        del link
        self.events.append("idle")


def test_a_call_is_answered(run: Run) -> None:
    async def work() -> None:
        async with served() as it, Client() as client:
            answer = await client.call(it.address, ECHO, {"a": "b"}, b"body", timeout_s=30)
            assert (answer.code, answer.ext, answer.body) == (0, {"a": "b"}, b"body")
            assert answer.version == 409
            assert it.seen[0].link.peer_host == "127.0.0.1"
            assert it.seen[0].link.local_host == "127.0.0.1"

    run(work())


def test_answers_find_their_callers_in_any_order(run: Run) -> None:
    async def work() -> None:
        async with served() as it, Client() as client:
            slow = [
                asyncio.create_task(client.call(it.address, LATER, body=b"%d" % i, timeout_s=30))
                for i in range(50)
            ]
            await until(lambda: len(it.seen) == 50)
            fast = await client.call(it.address, ECHO, body=b"fast", timeout_s=30)
            assert fast.body == b"fast"
            assert not any(task.done() for task in slow)
            it.gate.set()
            answers = await asyncio.gather(*slow)
            assert [answer.body for answer in answers] == [b"%d" % i for i in range(50)]
            assert len(it.server.hub.links) == 1

    run(work())


def test_an_answer_has_the_requests_number_and_serialization(run: Run) -> None:
    async def work() -> None:
        async with served() as it, peer_of(it.address) as peer:
            for opaque in (0, -1, 2**31 - 1, -(2**31), 7, 7):
                for serialization in (0, 1):
                    request = Command(code=ECHO, opaque=opaque, serialization=serialization)
                    peer.send(request)
                    answer = await peer.hear()
                    assert answer is not None
                    assert answer.is_response
                    assert (answer.opaque, answer.serialization) == (opaque, serialization)

    run(work())


def test_an_unknown_code_is_answered_and_the_connection_lives_on(run: Run) -> None:
    async def work() -> None:
        async with served() as it, Client() as client:
            answer = await client.call(it.address, 9999, timeout_s=30)
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            assert answer.remark == " request type 9999 not supported"
            expect(await client.call(it.address, ECHO, timeout_s=30), it.address)
            assert len(it.seen) == 1

    run(work())


def test_a_handler_that_raises_answers_system_error(run: Run) -> None:
    async def work() -> None:
        async with served() as it, Client() as client:
            answer = await client.call(it.address, FAIL, timeout_s=30)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert answer.remark == "KeyError: 'no such thing'"
            with pytest.raises(ResponseError) as caught:
                expect(answer, it.address)
            assert (caught.value.code, caught.value.address) == (1, it.address)

    run(work())


def test_a_oneway_request_is_served_and_never_answered(run: Run) -> None:
    async def work() -> None:
        async with served() as it, peer_of(it.address) as peer:
            peer.send(
                ask(1, ECHO, flag=ONEWAY_FLAG),
                ask(2, FAIL, flag=ONEWAY_FLAG),
                ask(3, 9999, flag=ONEWAY_FLAG),
                ask(4, ECHO),
            )
            answer = await peer.hear()
            assert answer is not None
            assert answer.opaque == 4
            assert [request.command.opaque for request in it.seen] == [1, 2, 4]
        async with served() as it, Client() as client:
            await client.oneway(it.address, ECHO, body=b"x", timeout_s=30)
            await until(lambda: len(it.seen) == 1)

    run(work())


def test_a_call_without_answer_times_out_and_the_late_answer_hurts_nobody(run: Run) -> None:
    async def work() -> None:
        async with served() as it, Client() as client:
            link = await client.link(it.address)
            with pytest.raises(CallTimeoutError) as caught:
                await link.call(LATER, timeout_s=0.05)
            assert caught.value.code == LATER
            it.gate.set()
            for number in range(3):
                answer = await client.call(it.address, ECHO, body=b"%d" % number, timeout_s=30)
                assert answer.body == b"%d" % number

    run(work())


def test_calls_that_wait_fail_at_once_when_the_connection_ends(run: Run) -> None:
    async def work() -> None:
        async with served() as it, Client() as client:
            calls = [
                asyncio.create_task(client.call(it.address, LATER, timeout_s=300))
                for _ in range(10)
            ]
            await until(lambda: len(it.seen) == 10)
            for link in list(it.server.hub.links):
                link.abort()
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(result) for result in results} == {ConnectionLostError}
            # The next call makes a new connection.
            expect(await client.call(it.address, ECHO, timeout_s=30), it.address)

    run(work())


def test_closing_the_client_fails_its_calls(run: Run) -> None:
    async def work() -> None:
        async with served() as it:
            client = Client()
            call = asyncio.create_task(client.call(it.address, LATER, timeout_s=300))
            await until(lambda: len(it.seen) == 1)
            await client.close()
            with pytest.raises(ConnectionLostError):
                await call
            with pytest.raises(ConnectError):
                await client.call(it.address, ECHO)

    run(work())


@pytest.mark.parametrize(
    "host", ["\ufffd.x", "a\x00b", "." + "a" * 70], ids=["letter", "zero", "long"]
)
def test_a_name_that_no_host_can_have_is_no_connection(run: Run, host: str) -> None:
    """A broker, a controller or a name server dials what others gave it for their address."""

    async def work() -> None:
        async with Client() as client:
            with pytest.raises(ConnectError):
                await client.call(f"{host}:1", ECHO, timeout_s=30)

    run(work())


def test_nobody_there_is_reported_with_the_address(run: Run) -> None:
    async def work() -> None:
        async with served() as it:
            address = it.address
        async with Client() as client:
            with pytest.raises(ConnectError) as caught:
                await client.call(address, ECHO, timeout_s=30)
            assert caught.value.address == address
            assert caught.value.message == f"{address}: Connection refused"

    run(work())


def test_callers_share_the_attempt_to_connect(run: Run) -> None:
    async def work() -> None:
        heard = Heard()
        async with served(events=heard) as it, Client() as client:
            hurried = asyncio.create_task(client.link(it.address))
            await asyncio.sleep(0)
            hurried.cancel()
            links = await asyncio.gather(*(client.link(it.address) for _ in range(20)))
            assert len(set(links)) == 1
            # A server hears of a connection when its first byte distinguishes plain from TLS.
            expect(await client.call(it.address, ECHO, timeout_s=30), it.address)
            assert heard.events == ["connected"]

    run(work())


def test_a_server_calls_its_client(run: Run) -> None:
    async def work() -> None:
        def answer(request: Request) -> Command:
            return request.answer(body=request.body[::-1])

        async with served() as it, Client(Dispatcher({40: answer})) as client:
            await client.call(it.address, ECHO, timeout_s=30)
            (link,) = it.server.hub.links
            found = await link.call(40, body=b"abc", timeout_s=30)
            assert found.body == b"cba"

    run(work())


def test_no_more_calls_than_the_bound_wait(run: Run) -> None:
    async def work() -> None:
        async with served() as it, Client(limits=Limits(calls_max=2)) as client:
            calls = [
                asyncio.create_task(client.call(it.address, LATER, timeout_s=300)) for _ in range(2)
            ]
            await until(lambda: len(it.seen) == 2)
            with pytest.raises(TooBusyError):
                await client.call(it.address, ECHO, timeout_s=30)
            it.gate.set()
            await asyncio.gather(*calls)
            expect(await client.call(it.address, ECHO, timeout_s=30), it.address)

    run(work())


def test_listeners_hear_of_every_connection_once(run: Run) -> None:
    async def work() -> None:
        heard = Heard()
        async with served(events=heard) as it:
            async with peer_of(it.address) as peer:
                peer.send(ask(1))
                await peer.hear()
            await until(lambda: heard.events == ["connected", "closed"])

    run(work())


def test_a_listener_that_fails_stops_nobody(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(LinkEvents):
        def connected(self, link: Link) -> None:
            raise RuntimeError(f"no {link.peer}, please")

    async def work() -> None:
        async with served(events=Failing()) as it, Client() as client:
            heard = Heard()
            it.server.hub.listen(heard)
            expect(await client.call(it.address, ECHO, timeout_s=30), it.address)
            assert heard.events == ["connected"]

    run(work())
    assert "a listener failed at connected" in caplog.text


def test_a_stop_lets_half_done_requests_be_answered(run: Run) -> None:
    async def work() -> None:
        async with served() as it, Client() as client:
            call = asyncio.create_task(client.call(it.address, LATER, body=b"x", timeout_s=30))
            await until(lambda: len(it.seen) == 1)
            stop = asyncio.create_task(it.server.close(grace_s=30))
            await asyncio.sleep(0)
            it.gate.set()
            assert (await call).body == b"x"
            await stop
            assert not it.server.hub.links

    run(work())


def test_a_stop_does_not_wait_for_ever(run: Run) -> None:
    async def work() -> None:
        async with served() as it, Client() as client:
            call = asyncio.create_task(client.call(it.address, LATER, timeout_s=300))
            await until(lambda: len(it.seen) == 1)
            await it.server.close(grace_s=0.05)
            with pytest.raises(ConnectionLostError):
                await call

    run(work())


def test_a_unix_socket_serves_its_owner(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    async def work() -> None:
        path = tmp_path_factory.mktemp("s") / "s"
        async with served() as it, Client() as client:
            address = await it.server.listen(UnixAddress(str(path)))
            assert str(address) == f"unix:{path}"
            assert path.stat().st_mode & 0o777 == 0o600
            answer = await client.call(str(address), ECHO, body=b"x", timeout_s=30)
            assert answer.body == b"x"
            assert it.seen[0].link.local_host == ""
        assert not path.exists()

    run(work())
