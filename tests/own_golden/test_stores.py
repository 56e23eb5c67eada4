"""Stores that mqcore 0.1 wrote: every record, every queue and every table is read as it was."""

import base64
import json
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from damage_cases import log_end, overwrite, used_log_files
from mqcore import Store
from mqcore.errors import DamagedError
from own_golden.cases import (
    CLEAN,
    CUT,
    KILLED,
    NAMES,
    STORES,
    actual_files,
    contents,
    listed_files,
)
from own_golden.observed import command, copied, dump_of, opened, served, verification_of
from own_golden.serving import STORE_KEYS, queues_of
from own_golden.write import TORN_BYTES

Roots = Callable[[str], Path]
every_store = pytest.mark.parametrize("name", STORES)


def snapshot(root: Path) -> dict[str, tuple[bytes, int]]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.mark.parametrize("name", NAMES)
def test_a_directory_holds_what_its_list_names(name: str, golden_root: Roots) -> None:
    assert actual_files(golden_root(name)) == listed_files(name)


@every_store
def test_every_record_is_dumped_as_it_was_and_nothing_is_changed(
    name: str, golden_root: Roots
) -> None:
    root, expected = golden_root(name), contents(name)
    before = snapshot(root)
    assert dump_of(root) == expected["dump"]
    assert verification_of(root) == expected["verdict"]
    assert command("store", "info", root)[0] == 0
    assert snapshot(root) == before


@every_store
def test_no_store_has_a_problem(name: str) -> None:
    verification = contents(name)["verdict"]
    assert verification["problems"] == []
    assert verification["records"] > 50


@every_store
def test_every_queue_and_key_is_read_as_it_was(name: str, golden_copy: Roots) -> None:
    root, expected = golden_copy(name), contents(name)
    found = opened(root)
    assert found == expected["opened"]
    assert sum(len(rows) for rows in found["queues"].values()) > 50
    # What was opened is closed: a second open finds the same, without a recovery.
    assert opened(root) == found | {"was_clean": True}
    assert dump_of(root) == expected["dump"]


@pytest.mark.parametrize("name", [CLEAN, KILLED])
def test_every_acknowledged_message_has_its_bytes(name: str, golden_copy: Roots) -> None:
    sent = contents(name)["sent"]
    assert len(sent) > 60
    with Store(golden_copy(name), config=STORE_KEYS) as store:
        for each in sent:
            message = store.message_at(each["physical_offset"])
            # Delayed, timed and half messages are in topics of the broker's own.
            topic = message.properties.get("REAL_TOPIC", message.topic)
            stored = (topic, message.queue_offset, message.flag)
            assert stored == (each["topic"], each["queue_offset"], each["flag"])
            assert message.stored_body == base64.b64decode(each["body"])
            kept = {key: message.properties.get(key) for key in each["properties"]}
            assert kept == each["properties"] | {
                # The broker moves these to properties of its own.
                key: None
                for key in each["properties"]
                if key in ("DELAY", "TIMER_DELAY_SEC", "TRAN_MSG") and key not in kept
            }


@every_store
def test_a_broker_has_the_tables_that_it_had(name: str, golden_copy: Roots) -> None:
    expected = contents(name)
    assert served(golden_copy(name), expected["now_ms"]) == expected["tables"]


def test_the_reports_of_damage_are_read(golden_root: Roots) -> None:
    expected = contents(CUT)["damage"]
    code, text = command("store", "damage", "--all", "--json", golden_root(CUT))
    reports = [json.loads(line) | {"path": ""} for line in text.splitlines()]
    assert {"exit_code": code, "reports": reports} == expected
    assert sorted(each["kind"] for each in reports) == ["cut", "keep"]
    assert [each["is_acknowledged"] for each in reports if each["kind"] == "keep"] == [True]


def manifest_ends(path: Path) -> dict[str, int]:
    """Returns where a manifest of queues ends each of them, read by its byte table."""
    content = path.read_bytes()
    magic, _queue_file_bytes, stamp_bytes = struct.unpack_from(">8sQI", content)
    assert magic == b"MQCQMAN1"
    assert struct.unpack(">I", content[-4:])[0] == zlib.crc32(content[:-4])
    (count,) = struct.unpack_from(">Q", content, 20 + stamp_bytes)
    at, topic, found = 28 + stamp_bytes, "", {}
    for _ in range(count):
        (topic_bytes,) = struct.unpack_from(">H", content, at)
        topic = content[at + 2 : at + 2 + topic_bytes].decode() or topic
        at += 2 + topic_bytes
        queue_id, _min, end, _first, _files_end, _last = struct.unpack_from(">iQQQQq", content, at)
        found[f"{topic}@{queue_id}"] = end
        at += 44
    assert at == len(content) - 4
    return found


def test_the_manifests_of_queues_have_the_form_that_they_had(golden_root: Roots) -> None:
    queues = contents(CLEAN)["opened"]["queues"]
    ends = manifest_ends(golden_root(CLEAN) / "queues.manifest")
    for queue, rows in queues.items():
        # Units of batches count bytes of a queue of their own.
        assert queue.startswith("Batches@") or ends[queue] == rows[-1][0] + 1, queue
    before = manifest_ends(golden_root(KILLED) / "queues.manifest.before")
    queues = contents(KILLED)["opened"]["queues"]
    assert before["Pop@0"] == len(queues["Pop@0"]) == 1
    assert 0 < before["Plain@0"] < len(queues["Plain@0"])


def test_a_lost_queue_is_known_from_the_manifest(golden_copy: Roots) -> None:
    expected = contents(CLEAN)["opened"]["queues"]
    root = golden_copy(CLEAN)
    shutil.rmtree(root / "consumequeue" / "Tx" / "0")
    (root / "queues.manifest.before").unlink()
    control = copied(root, root.parent / "control")
    (control / "queues.manifest").unlink()
    with Store(root, config=STORE_KEYS) as store:
        assert queues_of(store) == expected
    with Store(control, config=STORE_KEYS) as store:
        assert queues_of(store) != expected, "without the file nobody knows of it"


def test_the_mark_of_the_session_distinguishes_a_lost_end_from_a_torn_one(
    golden_copy: Roots,
) -> None:
    root = golden_copy(CLEAN)
    content = (root / "mqcore.session").read_bytes()
    slots = [struct.unpack_from(">8sQ16sQQQI", content, at) for at in (0, 4_096)]
    newest = max(slots, key=lambda slot: slot[1])
    assert newest[0] == b"MQCSESS1"
    assert (newest[3], newest[4], newest[5]) == (contents(CLEAN)["opened"]["end"], 1, 0)
    last = used_log_files(root)[-1]
    end = log_end(last)
    overwrite(last, end - TORN_BYTES, bytes(TORN_BYTES))
    with pytest.raises(DamagedError):
        Store(root, config=STORE_KEYS)
