"""Whatever is sent to a running broker, it lives, serves others and forgets the sender.

`MQCORE_FUZZ_ROUNDS` makes the run longer: `make fuzz` does.
"""

import asyncio
import json
import logging
import os
from pathlib import Path

import pytest

from live_broker import Live, live
from loops import run_on, until
from mqcore.broker.membership_changes import MembershipChanges
from mqcore.broker.processors import dispatcher_of
from mqcore.broker.static_requests import StaticRequests
from mqcore.broker.topic_queues import TopicQueues
from mqcore.remoting import AnsweredBy, answered_by
from remoting.hostile import Hostile
from remoting.peers import attack

pytestmark = pytest.mark.usefixtures("with_reactors")

ROUNDS = int(os.environ.get("MQCORE_FUZZ_ROUNDS", "400"))
# Connections that are open at once.
AT_ONCE = 20

# What the fast path serves itself; oneway or not.
FAST_PATH_CODES = sorted(answered_by(AnsweredBy.NATIVE))
QUEUE = {"topic": "T", "brokerName": "b", "queueId": 0}
FIELDS = {
    "topic": "T",
    "queueId": "0",
    "offset": "0",
    "queueOffset": "0",
    "commitOffset": "0",
    "maxMsgNums": "32",
    "sysFlag": "4",
    "suspendTimeoutMillis": "0",
    "subscription": "*",
    "subVersion": "1",
    "invisibleTime": "5000",
    "pollTime": "0",
    "initMode": "0",
    "extraInfo": "0 1 5000 0 0 b 0 0",
    "expressionType": "TAG",
    "producerGroup": "p",
    "consumerGroup": "g",
    "group": "g",
    "groupName": "g",
    "clientID": "c",
    "consumerList": "c",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "bornTimestamp": "1",
    "flag": "0",
    "properties": "TAGS\u0001A\u0002",
    "reconsumeTimes": "0",
    "delayLevel": "1",
    "originMsgId": "x",
    "originTopic": "T",
    "maxReconsumeTimes": "3",
    "key": "k",
    "maxNum": "8",
    "beginTimestamp": "0",
    "endTimestamp": "9223372036854775807",
    "timestamp": "0",
    "readQueueNums": "2",
    "writeQueueNums": "2",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0",
    "order": "false",
    "isForce": "true",
    "srcGroup": "g",
    "destGroup": "h",
    "offline": "false",
    "statsName": "TOPIC_PUT_NUMS",
    "statsKey": "T",
    "index": "0",
    "count": "10",
    "a": "p",
    "b": "T",
    "c": "TBW102",
    "d": "4",
    "e": "0",
    "f": "0",
    "g": "1",
    "h": "0",
    "i": "TAGS\u0001A\u0002",
    "j": "0",
    "k": "false",
    "m": "false",
}
BODIES = [
    b"a body",
    b"",
    json.dumps(
        {
            "clientID": "c",
            "consumerDataSet": [
                {
                    "groupName": "g",
                    "consumeType": "CONSUME_PASSIVELY",
                    "messageModel": "CLUSTERING",
                    "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                    "subscriptionDataSet": [
                        {"topic": "T", "subString": "A || B", "tagsSet": ["A"], "codeSet": [65]}
                    ],
                    "unitMode": False,
                }
            ],
            "producerDataSet": [{"groupName": "p"}],
        }
    ).encode(),
    json.dumps({"consumerGroup": "g", "clientId": "c", "mqSet": [QUEUE]}).encode(),
    json.dumps({"topic": "T", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 1}).encode(),
    json.dumps(
        {
            "topic": "T",
            "consumerGroup": "g",
            "clientId": "c",
            "strategyName": "AVG",
            "messageModel": "CLUSTERING",
        }
    ).encode(),
    json.dumps({"groupName": "g", "consumeEnable": True, "retryQueueNums": 1}).encode(),
    b"maxMessageSize=4096\nstorePathRootDir=/x\nbrokerPermission=6\n",
]


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.timeout(3600)
def test_hostile_peers_disturb_nobody(
    loop: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)

    async def witnessed(client: Live, number: int) -> None:
        """Another client sends and reads back, as if nothing happened."""
        sent = await client.send("Witness", b"%d" % number)
        assert sent.code == 0, sent.remark
        await client.settled()
        pulled = await client.pull("Witness", int(sent.ext["queueOffset"]), group="w")
        assert pulled.code == 0, pulled.remark
        assert b"%d" % number in pulled.body

    async def work() -> None:
        async with live(tmp_path) as client:
            await client.create("T", 2)
            await client.create("Witness")
            state, persistence = client.broker.state, client.broker._opened_persistence()
            codes = [
                *dispatcher_of(
                    state,
                    persistence,
                    MembershipChanges(state),
                    TopicQueues(state),
                    StaticRequests(state),
                ).codes,
                *FAST_PATH_CODES,
                *FAST_PATH_CODES,
            ]
            hostile = Hostile(21, codes=codes, fields=FIELDS, bodies=BODIES)
            streams = list(hostile.streams(ROUNDS))
            for first in range(0, len(streams), AT_ONCE):
                await asyncio.gather(
                    *(attack(client.address, each) for each in streams[first : first + AT_ONCE])
                )
                await witnessed(client, first)
            server = client.broker._server
            assert server is not None
            hub = server.hub
            await until(lambda: len(hub.links) == 1 and hub.held_bytes == 0)
            # Nothing is kept of who is gone, and no text of theirs is a kind of refusal.
            assert not hub.users._held.keys() - hub.links.keys()
            assert 0 < len(hub.refusals) < 5, hub.refusals

    run_on(loop, work(), deadline_s=60.0 + ROUNDS / 10)
    # A refusal is an answer; anything else that a handler raises is logged as an error.
    assert [record.getMessage() for record in caplog.records] == []
