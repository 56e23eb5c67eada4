"""Whatever is sent to a running name server, it lives, answers others and forgets the sender.

`MQCORE_FUZZ_ROUNDS` makes the run longer: `make fuzz` does.
"""

import asyncio
import logging
import os
from pathlib import Path

import pytest

from loops import run_on, until
from mqcore.namesrv import NameServer
from mqcore.remoting import Client, RequestCode
from namesrv.asking import registration_body, rows, settings_of
from remoting.hostile import Hostile
from remoting.peers import attack

ROUNDS = int(os.environ.get("MQCORE_FUZZ_ROUNDS", "400"))
# Connections that are open at once.
AT_ONCE = 20

FIELDS = {
    "topic": "T",
    "cluster": "DefaultCluster",
    "clusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "brokerAddr": "10.0.0.1:10911",
    "brokerId": "0",
    "haServerAddr": "10.0.0.1:10912",
    "heartbeatTimeoutMillis": "100000",
    "enableActingMaster": "false",
    "compressed": "false",
    "bodyCrc32": "0",
    "namespace": "space",
    "key": "key",
    "value": "value",
    "acceptStandardJsonOnly": "true",
    "__ZONE_NAME": "zone",
    "__ZONE_MODE": "false",
}
BODIES = [
    registration_body(rows("T", "U")),
    registration_body(rows(*(f"topic-{i}" for i in range(30)))),
    b'{"counter":1,"stateVersion":0,"timestamp":7}',
    b'{"queueDatas":[{"brokerName":"broker-a","perm":6}]}',
    b"orderMessageEnable=true\nscanNotActiveBrokerInterval=100\nkvConfigPath=/x\n",
]


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.timeout(3600)
def test_hostile_peers_disturb_nobody(
    loop: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)

    async def work() -> None:
        server = NameServer(settings_of(tmp_path))
        address = str(await server.start())
        codes = [int(code) for code in server.requests.dispatcher().codes]
        hostile = Hostile(20, codes=codes, fields=FIELDS, bodies=BODIES)
        try:
            await storm(server, address, list(hostile.streams(ROUNDS)))
        finally:
            await server.stop()

    async def storm(server: NameServer, address: str, streams: list[bytes]) -> None:
        async with Client() as witness:
            for first in range(0, len(streams), AT_ONCE):
                await asyncio.gather(
                    *(attack(address, each) for each in streams[first : first + AT_ONCE])
                )
                answer = await witness.call(
                    address, RequestCode.GET_BROKER_CLUSTER_INFO, timeout_s=30
                )
                assert answer.code == 0
            assert server.server is not None
            hub = server.server.hub
            # What they asked for may outlive them: a write to the disk is finished.
            await until(lambda: len(hub.links) == 1 and hub.held_bytes == 0)
            # The streams are what they are meant to be: some no frames, many that come through.
            assert hub.refusals.get("bad_frame", 0) > ROUNDS // 20
            assert server.requests.kv.snapshot()

    run_on(loop, work(), deadline_s=60.0 + ROUNDS / 10)
    # A refusal is an answer; anything else that a handler raises is logged as an error.
    assert [record.getMessage() for record in caplog.records] == []
