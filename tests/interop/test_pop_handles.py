"""A popped message that is sent on: the handle of its pop is stored neither here nor officially.

Sent with each code that stores a message, to ours and to the official broker of 5.3, and then
pulled and popped.
"""

import asyncio
import struct

import pytest

from interop.cases import name_of
from interop.patience import PATIENCE_S
from interop.servers import Servers
from interop.test_pop import made, popped
from mqcore.native import decode_records
from mqcore.remoting import Client, RequestCode
from popping import Popper

pytestmark = pytest.mark.java

OLD_HANDLE = "7 1700000000000 60000 0 0 broker-a 0 7"
# The official broker looks for the whole name.
KEPT = {"UNIQ_KEY": "0A01", "POP_CK_OFFSET": "7", "MY_POP_CK": "mine", "k": "v"}
BODIES = ["long", "short", "batch-0", "batch-1"]


def text_of(properties: dict[str, str]) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())


def batch(bodies: list[str], properties: str) -> bytes:
    """Returns the body of a batch, as `MessageDecoder.encodeMessages` writes it."""
    text = properties.encode()
    out = b""
    for body in bodies:
        inner = struct.pack(">iiii", 0, 0, 0, len(body)) + body.encode()
        inner += struct.pack(">h", len(text)) + text
        out += struct.pack(">i", len(inner) + 4) + inner
    return out


async def send_on(group: Popper) -> None:
    """Sends what was popped before, by every code; the last is a batch of two."""
    text = text_of({**KEPT, "POP_CK": OLD_HANDLE})
    long = {
        **{"producerGroup": "pg", "topic": group.topic, "defaultTopic": "TBW102"},
        **{"defaultTopicQueueNums": "4", "queueId": "0", "sysFlag": "0", "flag": "0"},
        **{"bornTimestamp": "1700000000000", "properties": text, "reconsumeTimes": "0"},
        **{"unitMode": "false", "batch": "false"},
    }
    short = {
        **{"a": "pg", "b": group.topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "h": "0"},
        **{"g": "1700000000000", "i": text, "j": "0", "k": "false"},
    }
    for code, ext, body in (
        (RequestCode.SEND_MESSAGE, long, b"long"),
        (RequestCode.SEND_MESSAGE_V2, short | {"m": "false"}, b"short"),
        (RequestCode.SEND_BATCH_MESSAGE, short | {"m": "true"}, batch(BODIES[2:], text)),
    ):
        answer = await group.client.call(group.address, code, ext, body, timeout_s=20.0)
        assert answer.code == 0, (code, answer.remark)


async def pulled(group: Popper) -> dict[str, dict[str, str]]:
    """Returns the properties of the messages by their bodies, as they are stored."""
    ext = {
        **{"consumerGroup": "puller", "topic": group.topic, "queueId": "0", "queueOffset": "0"},
        **{"maxMsgNums": "32", "sysFlag": "4", "subscription": "*", "subVersion": "0"},
        **{"commitOffset": "0", "suspendTimeoutMillis": "0"},
    }
    found: dict[str, dict[str, str]] = {}
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < len(BODIES):
            answer = await group.client.call(group.address, RequestCode.PULL_MESSAGE, ext)
            records = decode_records(answer.body) if answer.code == 0 else ()
            found = {each.body.decode(): dict(each.properties) for each in records}
    return found


async def outcome(servers: Servers, topic: str, *, acknowledges: bool) -> dict[str, dict[str, str]]:
    async with Client() as client:
        group = await made(client, servers.broker.address, topic, [])
        await send_on(group)
        stored = await pulled(group)
        if acknowledges:
            got = await popped(group, len(BODIES))
            assert {each.handle.split(" ")[-1] for each in got} == {"0", "1", "2", "3"}
            assert [await group.ack(each) for each in got] == [0] * len(BODIES)
        return stored


def test_the_handle_of_an_earlier_pop_is_not_stored(
    side_by_side: dict[str, Servers], request: pytest.FixtureRequest
) -> None:
    topic = name_of(request, "sent_on")
    ours = asyncio.run(outcome(side_by_side["ours"], topic, acknowledges=True))
    official = asyncio.run(outcome(side_by_side["official"], topic, acknowledges=False))
    for body in ("long", "short"):
        assert "POP_CK" not in official[body], body
        assert ours[body] == official[body]
        assert ours[body].items() >= KEPT.items()
    # The official broker looks at the header alone: what is in a batch's body it stores.
    assert [official[body].get("POP_CK") for body in BODIES[2:]] == [OLD_HANDLE] * 2
    for body in BODIES[2:]:
        assert ours[body] == {
            name: value for name, value in official[body].items() if name != "POP_CK"
        }
