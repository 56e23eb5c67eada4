"""`mqcore ping`: whether a program answers; for start scripts and health checks."""

import asyncio
import json

import click

from mqcore.cli.cluster import tools_credentials
from mqcore.clock import monotonic_ms
from mqcore.errors import MQError, RemotingError
from mqcore.remoting import Client, RequestCode, ResponseCode

# Between two attempts of --wait: a program is ready within half a second of its start.
_RETRY_S = 0.1
_MS_PER_SECOND = 1_000


async def pinged(address: str, timeout_s: float, wait_s: float) -> tuple[str, int]:
    """Returns what answers at an address, and after how many ms.

    Args:
        address: `host:port` or `unix:/path`.
        timeout_s: How long one attempt may take.
        wait_s: How long to go on trying while nobody answers.

    Raises:
        RemotingError: Nobody answered, at last.
    """
    loop = asyncio.get_running_loop()
    last = loop.time() + wait_s
    while True:
        try:
            return await _asked(address, timeout_s)
        except RemotingError:
            if loop.time() >= last:
                raise
            await asyncio.sleep(_RETRY_S)


async def _asked(address: str, timeout_s: float) -> tuple[str, int]:
    async with Client(credentials=tools_credentials()) as client:
        began_ms = monotonic_ms()
        # A request that costs nothing; a name server does not know it, and answers so.
        code = RequestCode.GET_BROKER_RUNTIME_INFO
        answer = await client.call(address, code, timeout_s=timeout_s)
        took_ms = monotonic_ms() - began_ms
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            # Neither does a controller, which knows what a name server does not.
            metadata = RequestCode.CONTROLLER_GET_METADATA_INFO
            shown = await client.call(address, metadata, timeout_s=timeout_s)
            is_controller = shown.code == ResponseCode.SUCCESS
            return "controller" if is_controller else "name server", took_ms
    if answer.code == ResponseCode.SUCCESS:
        return "broker", took_ms
    if answer.code == ResponseCode.NO_PERMISSION:
        # It is ready: it serves those who may.
        return "server with access control", took_ms
    raise RemotingError(
        f"{address}: answers with code {answer.code}: {answer.remark or 'no remark'}",
        address=address,
    )


@click.command()
@click.argument("address", default="127.0.0.1:10911")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=3.0,
    show_default=True,
    help="Seconds per attempt.",
)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Go on trying for so many seconds.",
)
@click.option("--json", "as_json", is_flag=True, help="The outcome as one JSON object.")
def ping(address: str, timeout_s: float, wait_s: float, as_json: bool) -> None:
    """Ask whether a broker, name server or controller at ADDRESS (host:port) is ready.

    Without ADDRESS it is 127.0.0.1:10911, where a broker listens by default.

    Exit code 0 when it answers, 2 when it does not.
    """
    try:
        who, took_ms = asyncio.run(pinged(address, timeout_s, wait_s))
    except MQError as error:
        if as_json:
            click.echo(json.dumps({"address": address, "ready": False, "why": error.message}))
        raise
    if as_json:
        outcome = {"address": address, "ready": True, "program": who, "took_ms": took_ms}
        click.echo(json.dumps(outcome))
    else:
        click.echo(f"{address}: a {who} answers after {took_ms} ms")
