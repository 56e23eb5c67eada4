"""Large bodies, to every request: served, or refused in words, in bounded memory.

Of 1 MiB, and as long as a frame may be. The tests go through the table of codes: which requests
read their body they do not know.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from attacks.attacking import BROKER_CODES, hostile_fields, lives
from attacks.memory import bounded_growth, bounded_peak
from live_broker import field_texts, live, send_fields
from loops import run_on
from mqcore.config import Layer, Program, controller_settings, namesrv_settings, resolved
from mqcore.controller.server import Controller
from mqcore.namesrv.server import NameServer
from mqcore.native import Command
from mqcore.remoting import AnsweredBy, Client, RequestCode, ResponseCode, answered_by

_MIB = 1 << 20
# Of a frame of 16 MiB, the longest that is read, what is left behind its header.
SIZES = {"1 MiB": _MIB, "16 MiB": 16 * _MIB - 16_384}
# What client and server may occupy together, with the body three times over: Python's objects take
# up to forty times what they are written with (`{},` is an empty dictionary in a list).
_PEAK_MIB = {"1 MiB": 160, "16 MiB": 1_280}
KINDS = ("zeros", "objects", "a text", "brackets", "bytes")
_TIMEOUT_S = 120.0
# Those whose body is read as a whole, for the sample.
_READ_WHOLE = (
    RequestCode.HEART_BEAT,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
    RequestCode.LOCK_BATCH_MQ,
)
# Nothing of what a list acknowledges was there: officially a code without words.
_SERVED = (ResponseCode.SUCCESS, ResponseCode.NO_MESSAGE)
_SENDS = (
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
)


def body(kind: str, size: int) -> bytes:
    """Returns a body of nearly `size` bytes."""
    space = size - 20
    return {
        "zeros": lambda: b'{"a":[' + b"0," * (space // 2) + b"0]}",
        "objects": lambda: b'{"mqSet":[' + b"{}," * (space // 3) + b"{}]}",
        "a text": lambda: b'{"groupName":"' + b"x" * space + b'"}',
        "brackets": lambda: b"[" * size,
        "bytes": lambda: bytes(range(1, 256)) * (size // 255),
    }[kind]()


def _is_lawful(answer: Command) -> bool:
    """Whether a request was served, or refused in words."""
    return answer.is_response and (answer.code in _SERVED or bool(answer.remark))


async def _all(client: Client, address: str, codes: list[RequestCode], large: bytes) -> None:
    for code in codes:
        for fields in (field_texts(hostile_fields("g")), {"groupName": "g", "topic": "t"}):
            answer = await client.call(address, code, fields, large, timeout_s=_TIMEOUT_S)
            assert _is_lawful(answer), (code, answer)


@pytest.mark.sampled(count=2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_of_requests_with_the_longest_bodies(tmp_path: Path, kind: str) -> None:
    async def run() -> None:
        async with live(tmp_path) as running:
            large = body(kind, SIZES["16 MiB"])
            await _all(running.client, running.address, list(_READ_WHOLE), large)
            assert await lives(running)

    with bounded_growth(), bounded_peak(_PEAK_MIB["16 MiB"]):
        run_on("asyncio", run(), deadline_s=200)


@pytest.mark.matrix
@pytest.mark.timeout(900)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_request_of_a_broker_takes_large_bodies(tmp_path: Path, kind: str, size: str) -> None:
    async def run() -> None:
        async with live(tmp_path) as running:
            large = body(kind, SIZES[size])
            await _all(running.client, running.address, BROKER_CODES, large)
            assert await lives(running)

    with bounded_growth(), bounded_peak(_PEAK_MIB[size]):
        run_on("asyncio", run(), deadline_s=800)


@asynccontextmanager
async def _served(root: Path) -> AsyncIterator[Mapping[AnsweredBy, str]]:
    """Runs a name server and a controller; gives their addresses."""
    values = {"listenPort": "0", "kvConfigPath": str(root / "kvConfig.json")}
    server = NameServer(namesrv_settings(resolved(Program.NAMESRV, [Layer("t", values)])))
    kept = {"controllerStorePath": str(root / "c"), "listenPort": "0"}
    controller = Controller(controller_settings(resolved(Program.CONTROLLER, [Layer("t", kept)])))
    await server.start()
    await controller.start()
    try:
        yield {
            AnsweredBy.NAMESRV: f"127.0.0.1:{server.ports['namesrv']}",
            AnsweredBy.CONTROLLER: f"127.0.0.1:{controller.ports['controller']}",
        }
    finally:
        await controller.stop()
        await server.stop()


@pytest.mark.matrix
@pytest.mark.timeout(900)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("who", [AnsweredBy.NAMESRV, AnsweredBy.CONTROLLER])
def test_every_request_of_the_other_servers_takes_large_bodies(
    tmp_path: Path, who: AnsweredBy, kind: str, size: str
) -> None:
    async def run() -> None:
        async with _served(tmp_path) as addresses, Client() as client:
            codes = sorted(answered_by(who))
            assert len(codes) > 5
            await _all(client, addresses[who], codes, body(kind, SIZES[size]))
            code = {
                AnsweredBy.NAMESRV: RequestCode.GET_BROKER_CLUSTER_INFO,
                AnsweredBy.CONTROLLER: RequestCode.CONTROLLER_GET_METADATA_INFO,
            }[who]
            assert (await client.call(addresses[who], code)).code == 0

    with bounded_growth(), bounded_peak(_PEAK_MIB[size]):
        run_on("asyncio", run(), deadline_s=800)


@pytest.mark.parametrize("size", SIZES)
def test_a_broker_that_takes_large_messages_stores_them(tmp_path: Path, size: str) -> None:
    """`maxMessageSize` up to the longest frame: stored and read back whole, or refused in words."""
    large = body("bytes", SIZES[size])
    sizes = {"maxMessageSize": str(16 * _MIB), "mappedFileSizeCommitLog": str(32 * _MIB)}

    async def run() -> None:
        async with live(tmp_path, **sizes) as running:
            await running.create("t")
            for code in _SENDS:
                answer = await running.call(code, send_fields("t"), large)
                assert _is_lawful(answer), (code, answer)
            assert (await running.send("t", large)).code == 0
            await running.settled()
            last = (
                int(
                    (
                        await running.call(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": 0})
                    ).ext["offset"]
                )
                - 1
            )
            pulled = await running.pull("t", last)
            assert pulled.code == 0
            assert large in pulled.body

    with bounded_growth():
        run_on("asyncio", run(), deadline_s=120)
