"""The newest official release: its directories are taken over and handed back, clean and killed.

What 4.9 and 5.3 are asked in full is not asked again of 5.5; here is what it has otherwise: the
index with tags, the checkpoint with a position of the queues, and the small files as its JSON
library writes them.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from golden_stores import GOLDEN_CONFIG, V55_CLEAN
from interop.driver import Driver
from interop.mqadmin import until_routed
from interop.official import NEWEST
from interop.servers import OURS, QUICK_STOP, Servers, official_software, prepared
from mqcore import Inspection, Store
from mqcore.model.relaxed_json import parse_object
from mqcore.native import decode_records
from mqcore.remoting import Client, RequestCode

pytestmark = pytest.mark.java

TOPIC = "GoldenKeys"
INT64_MAX = str(2**63 - 1)
PATIENCE_S = 30.0
# A query gives so many at the most, the newest (`maxMsgsNumBatch`).
QUERIED_MAX = 64
# A message in a line of `mqadmin queryMsgByKey`.
ID = re.compile(r"^([0-9A-F]{32,}) ", re.MULTILINE)
# Theirs, ours, theirs.
TURNS = 3
DELAY_LEVELS = 18
UNIQUE = {"_UNIQUE_KEY_QUERY": "true"}
TAGS = {"indexType": "T"}
CONFIG = {
    **GOLDEN_CONFIG,
    **QUICK_STOP,
    "maxMessageSize": "65536",
    "transactionCheckInterval": "36000000",
}
# What the tables of a broker hold of the golden store, and where in the answer it is.
TABLES = {
    RequestCode.GET_ALL_TOPIC_CONFIG: "topicConfigTable",
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: "subscriptionGroupTable",
    RequestCode.GET_ALL_CONSUMER_OFFSET: "offsetTable",
}
GROUPS = ("CG_push", "CG_order", "CG_retry", "CG_partial", "CG_created")


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Returns our name server, running, and a broker that waits, on the golden store of 5.5."""
    servers = prepared(OURS, tmp_path, CONFIG)
    V55_CLEAN.unpack(tmp_path).rename(servers.store)
    servers.namesrv.start()
    yield servers
    servers.end()


async def offsets(
    client: Client, address: str, key: str, more: Mapping[str, str]
) -> dict[int, bytes]:
    """Returns the records that a broker finds, by their physical offsets."""
    ext = {"topic": TOPIC, "key": key, "maxNum": str(QUERIED_MAX), "beginTimestamp": "0"}
    ext |= {"endTimestamp": INT64_MAX, **more}
    answer = await client.call(address, RequestCode.QUERY_MESSAGE, ext, timeout_s=20.0)
    if answer.code != 0:
        return {}
    return {each.physical_offset: each.record for each in decode_records(answer.body)}


async def until(look: Callable[[], Awaitable[bool]]) -> None:
    """Returns when something has come true."""
    async with asyncio.timeout(PATIENCE_S):
        while not await look():
            pass


async def sent(client: Client, address: str, who: str) -> dict[str, str]:
    """Sends a message; returns its key, unique key, tags and offset id."""
    named = {"UNIQ_KEY": f"{who}-unique", "KEYS": f"{who}-a {who}-b", "TAGS": f"{who}标签"}
    text = "".join(f"{name}\x01{value}\x02" for name, value in named.items())
    ext = {"a": "pg", "b": TOPIC, "c": "TBW102", "d": "4", "e": "1", "f": "0", "h": "0"}
    ext |= {"g": "1700000000000", "i": text, "j": "0", "k": "false", "m": "false"}
    answer = await client.call(
        address, RequestCode.SEND_MESSAGE_V2, ext, who.encode(), timeout_s=20.0
    )
    assert answer.code == 0, answer.remark
    return {**named, "id": answer.ext["msgId"]}


async def assert_finds(client: Client, address: str, message: dict[str, str]) -> None:
    """Asserts that a broker finds a message by each of its keys, its tags and its offset id."""
    at_offset = int(message["id"][-16:], 16)
    wanted: list[tuple[str, Mapping[str, str]]] = [(key, {}) for key in message["KEYS"].split()]
    wanted += [(message["UNIQ_KEY"], UNIQUE), (message["TAGS"], TAGS)]
    for key, more in wanted:

        async def is_found(key: str = key, more: Mapping[str, str] = more) -> bool:
            return list(await offsets(client, address, key, more)) == [at_offset]

        # Keys follow the log.
        await until(is_found)
    view = {"offset": str(at_offset)}
    viewed = await client.call(address, RequestCode.VIEW_MESSAGE_BY_ID, view, timeout_s=20.0)
    (record,) = decode_records(viewed.body)
    assert record.physical_offset == at_offset


async def assert_finds_golden(client: Client, address: str) -> None:
    """Asserts that queries give what the manifest of the golden store has."""
    lines = [line for line in V55_CLEAN.messages() if line["topic"] == TOPIC]
    by_tags: dict[str, list[int]] = {}
    for line in lines:
        if line["tags"]:
            by_tags.setdefault(line["tags"], []).append(line["physical_offset"])
    assert by_tags
    for tags, offsets_of_tag in by_tags.items():
        found = await offsets(client, address, tags, TAGS)
        assert sorted(found) == sorted(offsets_of_tag)[-QUERIED_MAX:], tags
    for line in lines[::25]:
        at_offset = line["physical_offset"]
        assert list(await offsets(client, address, line["uniq_key"], UNIQUE)) == [at_offset]
        for key in line["keys"].split():
            assert at_offset in await offsets(client, address, key, {}), key


async def delay_offsets(client: Client, address: str) -> dict[str, int]:
    """Returns the offsets of the delay levels that have delivered something.

    Of a level that has delivered nothing ours writes nothing.
    """
    answer = await client.call(address, RequestCode.GET_ALL_DELAY_OFFSET, {}, timeout_s=20.0)
    assert answer.code == 0, answer.remark
    table = parse_object(answer.body)["offsetTable"]
    return {level: offset for level, offset in table.items() if offset}


async def until_delivered(client: Client, address: str) -> None:
    """Returns when a broker has delivered every delayed message of the golden store.

    All are due, the longest delay is two hours; deliveries begin after the start.
    """
    ends: dict[str, int] = {}
    for level in range(1, DELAY_LEVELS + 1):
        ext = {"topic": "SCHEDULE_TOPIC_XXXX", "queueId": str(level - 1)}
        answer = await client.call(address, RequestCode.GET_MAX_OFFSET, ext, timeout_s=20.0)
        assert answer.code == 0, answer.remark
        if end := int(answer.ext["offset"]):
            ends[str(level)] = end
    assert ends

    async def are_delivered() -> bool:
        return await delay_offsets(client, address) == ends

    await until(are_delivered)


async def tables(client: Client, address: str) -> dict[int, Any]:
    """Returns what a broker answers with of its small files, as far as the golden store has it."""
    await until_delivered(client, address)
    found: dict[int, Any] = {RequestCode.GET_ALL_DELAY_OFFSET: await delay_offsets(client, address)}
    for code, name in TABLES.items():
        answer = await client.call(address, code, {}, timeout_s=20.0)
        assert answer.code == 0, (code, answer.remark)
        table = parse_object(answer.body)[name]
        if code == RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG:
            found[code] = {group: table[group] for group in GROUPS}
        else:
            found[code] = {name: row for name, row in table.items() if name.startswith("Golden")}
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_directory_of_5_5_is_taken_over_and_handed_back(servers: Servers, how: str) -> None:
    official = official_software(NEWEST)
    address = servers.broker.address

    async def run() -> None:
        messages: list[dict[str, str]] = []
        seen: list[dict[int, Any]] = []
        for turn, software in enumerate((official, OURS, official)):
            servers.broker.become(software)
            await asyncio.to_thread(servers.broker.start)
            async with Client() as client:
                await assert_finds_golden(client, address)
                messages.append(await sent(client, address, f"{how}-{turn}"))
                for message in messages:
                    await assert_finds(client, address, message)
                seen.append(await tables(client, address))
            is_last = len(messages) == TURNS
            end = servers.broker.kill if is_last else getattr(servers.broker, how)
            await asyncio.to_thread(end)
        first, ours, last = seen
        assert all(first.values())
        assert ours == first
        assert last == first

    asyncio.run(run())
    with Store(servers.store, config=GOLDEN_CONFIG) as store:
        assert not store.open_report().was_clean
        assert store.close()
    with Store(servers.store, config=GOLDEN_CONFIG) as store:
        for turn in range(TURNS):
            (found,) = store.query(TOPIC, f"{how}-{turn}-a")
            assert found.body == f"{how}-{turn}".encode()
            tagged = store.query(TOPIC, f"T#{how}-{turn}标签")
            assert [each.physical_offset for each in tagged] == [found.physical_offset]
        assert store.close()
    verification = Inspection(servers.store).verify()
    assert verification.problems == []
    assert verification.index_entries > 0


def test_the_newest_mqadmin_finds_messages_by_their_tags(
    driver_55: Driver, servers: Servers
) -> None:
    servers.broker.become(OURS)
    servers.broker.start()
    until_routed(driver_55, servers.namesrv.address, TOPIC)
    tags: dict[str, list[str]] = {}
    for line in V55_CLEAN.messages():
        if line["topic"] == TOPIC and line["tags"]:
            tags.setdefault(line["tags"], []).append(line["uniq_key"])
    assert tags
    for tag, ids in tags.items():
        asked = ("queryMsgByKey", "-t", TOPIC, "-k", tag, "-n", servers.namesrv.address)
        printed = driver_55.mqadmin(*asked, "-p", "T", "-m", str(QUERIED_MAX))
        assert sorted(re.findall(ID, printed)) == sorted(ids[-QUERIED_MAX:]), printed
        assert re.findall(ID, driver_55.mqadmin(*asked, "-p", "K")) == []
