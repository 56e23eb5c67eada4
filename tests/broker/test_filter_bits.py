"""Bits of expressions beside the queues: kept in the official form, and gone by after a restart."""

import base64
import struct
from pathlib import Path
from typing import Any

from broker.test_sql import ON, beat, fill, pull
from live_broker import Live, live
from loops import run_on
from mqcore.model.relaxed_json import parse_object
from mqcore.native import decode_records
from mqcore.remoting import RequestCode

EXTENDED = ON | {
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
    "mappedFileSizeConsumeQueueExt": "65536",
}
# Size, tags code, store time, bytes of bits.
HEAD = struct.Struct(">hqqh")


def extension_of(root: Path) -> Path:
    """Returns the first file of the extension of the topic's queue."""
    return root / "consumequeue_ext" / "T" / "0" / f"{0:020}"


def units_of(root: Path) -> list[tuple[int, int, bytes]]:
    """Returns position, store time and bits of the units of the extension."""
    content = extension_of(root).read_bytes()
    units = []
    position = 0
    while (head := HEAD.unpack_from(content, position))[0] > 0:
        size, _tags_code, stored_ms, bits_len = head
        assert size == HEAD.size + bits_len
        units.append((position, stored_ms, content[position + HEAD.size : position + size]))
        position += size
    return units


async def wanted(client: Live) -> list[bytes]:
    """Returns the bodies that the group gets of the first messages."""
    answer = await pull(client, 0, version=5)
    return [each.body for each in decode_records(answer.body)]


async def send_until_later(client: Live, than_ms: int, count: int) -> int:
    """Sends more messages until one is stored later than a time; returns how many there are."""
    while True:
        await client.send("T", b"m%d" % count, n=count)
        await client.settled()
        count += 1
        if client.broker.state.stored_ms("T", 0, count - 1) > than_ms:
            return count


def test_messages_carry_bits_from_the_registration_on(tmp_path: Path) -> None:
    async def run() -> int:
        async with live(tmp_path, **EXTENDED) as client:
            await fill(client, 3)
            await beat(client, "n >= 1", 5)
            data = client.broker.state.filters.find("T", "g")
            assert data is not None
            count = await send_until_later(client, data.born_ms, 3)
            assert await wanted(client) == [b"m%d" % n for n in range(1, count)]
            return data.born_ms

    born_ms = 0

    async def first() -> None:
        nonlocal born_ms
        born_ms = await run()

    run_on("uvloop", first())
    units = units_of(tmp_path)
    assert [bits for _, _, bits in units[:3]] == [b""] * 3, "nobody wanted any"
    # Three bits of the group's, of 112.
    later = [bits for _, _, bits in units[3:]]
    assert {(len(bits), int.from_bytes(bits, "big").bit_count()) for bits in later} == {(14, 3)}

    async def again() -> None:
        async with live(tmp_path, **EXTENDED) as client:
            data = client.broker.state.filters.find("T", "g")
            assert data is not None
            assert data.born_ms == born_ms, "after a clean stop bits keep their meaning"
            await beat(client, "n >= 1", 5)
            assert await wanted(client) == [b"m%d" % n for n in range(1, len(units))]

    run_on("uvloop", again())
    # Bits of which none is set: the record is not looked at. So they are gone by.
    position, stored_ms, bits = units[-1]
    assert stored_ms > born_ms
    with extension_of(tmp_path).open("r+b") as file:
        file.seek(position + HEAD.size)
        file.write(bytes(len(bits)))

    async def spared() -> None:
        async with live(tmp_path, **EXTENDED) as client:
            await beat(client, "n >= 1", 5)
            assert await wanted(client) == [b"m%d" % n for n in range(1, len(units) - 1)]

    run_on("uvloop", spared())


async def shown(client: Live, group: str = "g") -> dict[str, Any]:
    """Returns what a tool gets of the units of the topic's queue."""
    ext = {"topic": "T", "queueId": 0, "index": 0, "count": 100, "consumerGroup": group}
    return await client.json(RequestCode.QUERY_CONSUME_QUEUE, ext)


def test_a_tool_sees_what_the_extension_holds_of_each_unit(tmp_path: Path) -> None:
    count = 0

    async def run() -> None:
        nonlocal count
        async with live(tmp_path, **EXTENDED) as client:
            await fill(client, 1)
            body = await shown(client)
            assert body["filterData"] == "g@T is not online!"
            await beat(client, "n >= 1", 5)
            data = client.broker.state.filters.find("T", "g")
            assert data is not None
            count = await send_until_later(client, data.born_ms, 1) + 1
            await client.send("T", b"none", n=0, TAGS="a")
            await client.settled()
            body = await shown(client)
            assert parse_object(body["filterData"].encode())["expression"] == "n >= 1"
            assert body["subscriptionData"]["subString"] == "n >= 1"
            rows = body["queueData"]
            assert len(rows) == count
            # Stored before anybody wanted it; wanted by its bits; not wanted by its bits.
            assert [rows[at]["eval"] for at in (0, -2, -1)] == [True, True, False]
            assert ["bitMap" in rows[at] for at in (0, -1)] == [False, True]
            assert rows[-1]["tagsCode"] == 97
            assert [row["eval"] for row in (await shown(client, "other"))["queueData"]] == (
                [False] * count
            )

    run_on("uvloop", run())
    units = units_of(tmp_path)
    position, stored_ms, bits = units[-2]

    async def again() -> None:
        async with live(tmp_path, **EXTENDED) as client:
            rows = (await shown(client))["queueData"]
            extension = parse_object(rows[-2]["extendDataJson"].encode())
            assert base64.b64decode(extension.pop("filterBitMap")) == bits
            assert extension == {"msgStoreTime": stored_ms, "size": 34, "tagsCode": 0}
            digits = rows[-2]["bitMap"].replace("\n", "")
            assert int(digits, 2) == int.from_bytes(bits, "little")
            assert rows[-2]["bitMap"].index("\n") == 8 * (len(bits) - 8)
            # What cannot be found is reported, with the position as the queue spells it.
            assert rows[0]["tagsCode"] == -(1 << 63)
            assert rows[0]["msg"] == f"Cq extend not exist!addr: {-(1 << 63)}"
            assert "extendDataJson" not in rows[0]

    with extension_of(tmp_path).open("r+b") as file:
        file.write(b"\0\0")
    run_on("uvloop", again())
    assert position > 0


def test_without_the_second_switch_units_have_no_bits(tmp_path: Path) -> None:
    async def run() -> None:
        keys = EXTENDED | {"enableCalcFilterBitMap": "false"}
        async with live(tmp_path, **keys) as client:
            await fill(client, 1)
            await beat(client, "n >= 1", 5)
            data = client.broker.state.filters.find("T", "g")
            assert data is not None
            count = await send_until_later(client, data.born_ms, 1)
            assert await wanted(client) == [b"m%d" % n for n in range(1, count)]

    run_on("uvloop", run())
    assert {bits for _, _, bits in units_of(tmp_path)} == {b""}


def test_a_mounted_store_is_not_gone_through_by_bits(tmp_path: Path) -> None:
    source = tmp_path / "source"

    async def make() -> None:
        async with live(source, **EXTENDED) as client:
            await fill(client, 1)
            await beat(client, "n >= 100", 5)
            data = client.broker.state.filters.find("T", "g")
            assert data is not None
            await send_until_later(client, data.born_ms, 1)

    run_on("uvloop", make())
    content = extension_of(source).read_bytes()

    async def serve() -> None:
        keys = EXTENDED | {"mountedStoreDir": str(source)}
        async with live(tmp_path / "mount", **keys) as client:
            await beat(client, "n >= 1", 6)
            assert await wanted(client) == [b"m%d" % n for n in range(1, len(units_of(source)))]
            assert not client.broker.state.makes_bits

    run_on("uvloop", serve())
    assert extension_of(tmp_path / "mount").is_symlink()
    assert extension_of(source).read_bytes() == content
