"""What a broker reports of its inside: its memory by owners, its settings with their sources."""

from pathlib import Path
from typing import Any

from live_broker import live
from loops import run_on
from mqcore.admin import Admin
from mqcore.model.relaxed_json import parse_object
from mqcore.occupancy import Held, Occupied
from mqcore.remoting import OwnRequestCode, RequestCode

LOG_FILE = "commitlog/00000000000000000000"


def by_owner(found: Occupied) -> dict[str, Held]:
    return {each.owner: each for each in found.held}


def test_memory_is_reported_over_the_wire_by_what_holds_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client, Admin("127.0.0.1:1") as admin:
            await client.create("t", queues=3)
            found = await admin.brokers.memory(client.address)
            assert found.process["VmRSS"] >= found.process["RssAnon"] > 1 << 20
            assert found.threads > 1
            assert found.descriptors > 3
            assert found.rollup["Rss"] > 1 << 20
            assert found.faults["minor"] > 0
            held = by_owner(found)
            assert held["topics"].count == len(client.broker.state.topics.topics)
            assert held["topics"].part_of == "Python objects"
            assert held["connections"].count is not None
            assert held["connections"].count >= 1
            assert held["receive buffers"].bytes >= 256 * 1024
            assert 0 < found.accounted_bytes == sum(e.bytes for e in found.held if not e.part_of)
            log = next(each for each in found.page_cache if each.part == LOG_FILE)
            assert log.length == 1 << 20
            assert 0 < log.resident <= log.length
            assert len(log.strip) == 64
            assert log.strip[0] > 0
            assert {"MemTotal", "Cached", "Dirty"} <= set(found.machine)

    run_on("uvloop", run())


def test_a_report_survives_what_makes_no_sense() -> None:
    found = Occupied.of_json(
        {
            "pid": "x",
            "process": {"VmRSS": "1", "RssAnon": 7},
            "held": [{"owner": 3, "bytes": 5}, "x", {"owner": "a", "count": 2, "bytes": 3}],
            "page_cache": [{"part": "p", "strip": [1, "x"]}],
            "libraries": None,
        }
    )
    assert found.pid == 0
    assert found.process == {"RssAnon": 7}
    assert [(each.owner, each.count, each.bytes) for each in found.held] == [
        ("", None, 5),
        ("a", 2, 3),
    ]
    assert found.page_cache[0].strip == (1, 0)
    assert (found.accounted_bytes, found.rest_bytes) == (8, 0)
    assert Occupied.of_json([]) == Occupied()


def test_settings_name_where_they_come_from(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path, transactionTimeOut="7000") as client, Admin("a:1") as admin:
            rows = {row.name: row for row in await admin.brokers.settings(client.address)}
            assert rows["transactionTimeOut"].value == "7000"
            assert not rows["transactionTimeOut"].is_default
            assert rows["flushDiskType"].source == "default"
            assert rows["flushDiskType"].is_default
            body = b"transactionTimeOut=8000\n"
            await client.call(RequestCode.UPDATE_BROKER_CONFIG, {}, body)
            answer = await client.call(OwnRequestCode.SETTINGS)
            changed = _named(parse_object(answer.body)["settings"], "transactionTimeOut")
            assert changed["value"] == "8000"
            assert changed["source"] == "changed by a tool"
            assert changed["isLive"] is True

    run_on("asyncio", run())


def _named(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(row for row in rows if row["name"] == name)
