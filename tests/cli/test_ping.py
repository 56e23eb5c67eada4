"""`mqcore ping` prints whether a server answers, and waits for one that starts."""

import asyncio
import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from mqcore.cli.main import commands, main
from mqcore.cli.ping import pinged
from mqcore.errors import MQError, RemotingError
from mqcore.native import Command
from mqcore.remoting import (
    Dispatcher,
    Request,
    RequestCode,
    ResponseCode,
    Server,
    TcpAddress,
    UnixAddress,
)

# Nobody waits for it: it turns a hang into a failure.
LONG_S = 60.0


async def answered(code: int | None, *others: int) -> tuple[str, int]:
    """Returns what a ping prints of a server that answers with a code, or knows no code at all."""
    dispatcher = Dispatcher()

    def answer(request: Request) -> Command:
        return request.answer(code or 0, "a remark")

    for other in others:
        dispatcher.on(other, answer)
    if code is not None:
        dispatcher.on(RequestCode.GET_BROKER_RUNTIME_INFO, answer)
    server = Server(dispatcher)
    opened = await server.listen(TcpAddress("127.0.0.1", 0))
    try:
        return await pinged(str(opened), LONG_S, 0.0)
    finally:
        await server.close()


def closed_port() -> socket.socket:
    """Returns a socket that holds a port without listening: connections to it are refused."""
    holding = socket.socket()
    holding.bind(("127.0.0.1", 0))
    return holding


@pytest.mark.parametrize(("code", "who"), [(ResponseCode.SUCCESS, "broker"), (None, "name server")])
def test_the_program_that_answers_is_printed(code: int | None, who: str) -> None:
    assert asyncio.run(answered(code))[0] == who


def test_a_controller_is_known_from_a_name_server() -> None:
    found = asyncio.run(answered(None, RequestCode.CONTROLLER_GET_METADATA_INFO))
    assert found[0] == "controller"


def test_another_answer_is_not_ready() -> None:
    with pytest.raises(RemotingError, match="code 1: a remark"):
        asyncio.run(answered(ResponseCode.SYSTEM_ERROR))


def test_waiting_outlasts_a_start(tmp_path: Path) -> None:
    async def late() -> str:
        path = str(tmp_path / "s")
        waiting = asyncio.ensure_future(pinged(f"unix:{path}", LONG_S, LONG_S))
        with pytest.raises(RemotingError):
            await pinged(f"unix:{path}", LONG_S, 0.0)
        server = Server(Dispatcher())
        await server.listen(UnixAddress(path))
        try:
            return (await waiting)[0]
        finally:
            await server.close()

    assert asyncio.run(late()) == "name server"


def test_nobody_there_is_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with closed_port() as holding:
        address = f"127.0.0.1:{holding.getsockname()[1]}"
        monkeypatch.setattr("sys.argv", ["mqcore", "ping", "--json", address])
        with pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out)["ready"] is False
    assert address in captured.err


@pytest.mark.parametrize("address", ["nowhere", "a:b", "", "127.0.0.1:99999"])
def test_what_is_no_address_is_refused(address: str) -> None:
    result = CliRunner().invoke(commands, ["ping", address])
    assert isinstance(result.exception, MQError)


@pytest.mark.parametrize("span", [["--timeout", "0"], ["--wait", "-1"]])
def test_a_span_that_is_none_is_refused(span: list[str]) -> None:
    ended = CliRunner().invoke(commands, ["ping", "127.0.0.1:1", *span])
    assert ended.exit_code == 2
    assert "is not in the range" in ended.output
