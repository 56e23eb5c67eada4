"""Bodies that are made to be expensive: deep, typed, inflated. Every request that has one."""

import zlib
from pathlib import Path

import pytest

from attacks.attacking import BROKER_CODES, hostile_fields, lives
from attacks.memory import bounded_growth
from live_broker import Live, live, send_fields
from loops import run_on
from mqcore.config import Layer, Program, namesrv_settings, resolved
from mqcore.namesrv.server import NameServer
from mqcore.remoting import AnsweredBy, Client, RequestCode, answered_by

_DEPTH = 10_000
_MIB = 1 << 20
_BOMB_BYTES = 1 << 30
_COMPRESSED = 1
_TYPED = b'{"@type":"com.sun.rowset.JdbcRowSetImpl","dataSourceName":"rmi://127.0.0.1:1/x"}'

SMALL = {
    "arrays": b"[" * _DEPTH,
    "arrays that end": b"[" * _DEPTH + b"]" * _DEPTH,
    "objects": b'{"a":' * _DEPTH + b"1" + b"}" * _DEPTH,
    "objects in a list": b'{"mqSet":[' * _DEPTH,
    "a type": _TYPED,
    "a type within": b'{"topicConfigList":[' + _TYPED + b'],"groupName":' + _TYPED + b"}",
    "large numbers": b'{"retryMaxTimes":1e999,"groupName":"g","readQueueNums":1e999,"perm":1e400}',
    "long numbers": b'{"retryMaxTimes":' + b"9" * 5_000 + b',"groupName":"g"}',
    "no numbers": b'{"retryMaxTimes":NaN,"perm":Infinity,"groupName":-Infinity}',
    "twice": b'{"groupName":"g","groupName":"../x","topic":"t","topic":"../x","mqSet":7}',
    "escapes": b'{"groupName":"' + b"\\u0000\\ud800" * 1_000 + b'"}',
    "no end of a text": b'{"groupName":"' + b"x" * 10_000,
}


async def _answered(running: Live, code: int, body: bytes) -> None:
    """Sends a body with every field that the code could look at, and with none."""
    await running.call(code, hostile_fields("g"), body)
    await running.call(code, {}, body)


@pytest.mark.sampled(count=5)
@pytest.mark.parametrize("kind", SMALL)
def test_every_request_of_a_broker_survives(tmp_path: Path, kind: str) -> None:
    async def run() -> None:
        async with live(tmp_path) as running:
            for code in BROKER_CODES:
                await _answered(running, code, SMALL[kind])
            assert await lives(running)

    with bounded_growth():
        run_on("asyncio", run())


@pytest.mark.sampled(count=5)
@pytest.mark.parametrize("kind", SMALL)
def test_every_request_of_a_name_server_survives(tmp_path: Path, kind: str) -> None:
    async def run() -> None:
        values = {"listenPort": "0", "kvConfigPath": str(tmp_path / "kvConfig.json")}
        server = NameServer(namesrv_settings(resolved(Program.NAMESRV, [Layer("t", values)])))
        await server.start()
        address = f"127.0.0.1:{server.ports['namesrv']}"
        ext = {name: str(value) for name, value in hostile_fields("g").items()}
        try:
            async with Client() as client:
                for code in sorted(answered_by(AnsweredBy.NAMESRV)):
                    for fields in (ext, {}):
                        await client.call(address, code, fields, SMALL[kind], timeout_s=30)
                answer = await client.call(address, RequestCode.GET_BROKER_CLUSTER_INFO)
                assert answer.code == 0
        finally:
            await server.stop()

    with bounded_growth():
        run_on("asyncio", run())


def _bomb() -> bytes:
    """Returns what inflates to a gigabyte."""
    made = zlib.compressobj(9)
    block = bytes(_MIB)
    parts = [made.compress(block) for _ in range(_BOMB_BYTES // _MIB)]
    return b"".join((*parts, made.flush()))


def test_what_inflates_without_end_is_given_up(tmp_path: Path) -> None:
    bomb = _bomb()
    assert len(bomb) < 2 * _MIB

    async def run() -> None:
        values = {"listenPort": "0", "kvConfigPath": str(tmp_path / "kvConfig.json")}
        server = NameServer(namesrv_settings(resolved(Program.NAMESRV, [Layer("t", values)])))
        await server.start()
        address = f"127.0.0.1:{server.ports['namesrv']}"
        try:
            async with Client() as client:
                ext = {
                    "compressed": "true",
                    "brokerName": "b",
                    "clusterName": "c",
                    "brokerAddr": "127.0.0.1:1",
                    "brokerId": "0",
                }
                answer = await client.call(
                    address, RequestCode.REGISTER_BROKER, ext, bomb, timeout_s=60
                )
                assert answer.code != 0
                assert (await client.call(address, RequestCode.GET_BROKER_CLUSTER_INFO)).code == 0
        finally:
            await server.stop()
        sizes = {"maxMessageSize": str(4 * _MIB), "mappedFileSizeCommitLog": str(8 * _MIB)}
        async with live(tmp_path / "store", **sizes) as running:
            await running.create("t")
            sent = send_fields("t") | {"f": _COMPRESSED}
            for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
                await running.call(code, sent, bomb)
            await running.call(RequestCode.HEART_BEAT, {}, bomb)
            assert await lives(running)

    with bounded_growth():
        run_on("asyncio", run(), deadline_s=120)
