"""What `/metrics` shows is what the official exporter shows: names, types, labels and units.

Both brokers get the same load. What is different is in a list, each with its reason.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from interop.exporter_sequence import replayed
from interop.measured import GROUP, SETTINGS, TOPIC, driven, scraped
from interop.official import NEWEST
from interop.patience import eventually
from interop.processes import free_port
from interop.servers import CLUSTER, OURS, Servers, Software, official_software, serving
from mqcore.broker.metric_families import COMMON, FAMILIES
from mqcore.native import decode_records
from mqcore.remoting import Client, RequestCode

pytestmark = pytest.mark.java
matrix = pytest.mark.matrix

# Of the library that the official exporter is made of; boards do not ask for them.
LABELS_OF_OTEL = {"otel_scope_name"}
# Official families that ours has not.
NOT_OURS = {
    "target_info": "of the OpenTelemetry library: it is of no use",
    "otel_scope_info": "of the OpenTelemetry library: the name of its meter",
    "rocketmq_pop_buffer_scan_time_consume_milliseconds": (
        "no thread scans the pops that are open: each is looked at when it is due"
    ),
    "rocketmq_pop_revive_in_message_total": (
        "check points are counted without a group: mqcore_pop_records_total"
    ),
    "rocketmq_pop_revive_out_message_total": (
        "what came again is counted without a group: mqcore_pop_revived_total"
    ),
    "rocketmq_pop_revive_retry_messages_total": (
        "what came again is counted without a group: mqcore_pop_revived_total"
    ),
}
# 5.3 appends the unit to samples and not to the line of the type: 5.5 mended it.
SUFFIXES = ("_milliseconds", "_seconds", "_bytes")


@dataclass(frozen=True, slots=True)
class Seen:
    """A family as Prometheus reads it: its type, and the names of its labels."""

    kind: str
    labels: frozenset[str]


def families(text: str) -> dict[str, Seen]:
    """Returns the families of a scrape that have a sample, by the names that queries have."""
    found: dict[str, Seen] = {}
    kinds = {
        family.name: family.type
        for family in text_string_to_metric_families(text)
        if family.type != "unknown"
    }
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name
            kind = family.type
            if kind == "unknown":
                # A sample with the unit, below a type without it.
                bare = name
                for end in ("_bucket", "_count", "_sum"):
                    bare = bare.removesuffix(end)
                for unit in SUFFIXES:
                    if bare.removesuffix(unit) in kinds:
                        kind = kinds[bare.removesuffix(unit)]
            if kind == "histogram":
                for end in ("_bucket", "_count", "_sum"):
                    name = name.removesuffix(end)
            labels = frozenset(sample.labels) - LABELS_OF_OTEL - {"le"}
            found[name] = Seen(kind, labels)
    return found


@contextmanager
def measured(software: Software, root: Path) -> Iterator[tuple[Servers, str]]:
    """Starts a broker under load; gives it with what it shows."""
    port = free_port()
    config = {
        **SETTINGS,
        "metricsPromExporterPort": str(port),
        "metricsPromExporterHost": "127.0.0.1",
    }
    with serving(software, root, config) as servers, driven(servers):
        # Dead letters come last, after two tries.
        text = scraped(port, lambda text: "rocketmq_send_to_dlq_messages_total{" in text)
        yield servers, text


@pytest.mark.parametrize(
    "version", [pytest.param("5.3.3", marks=matrix), pytest.param(NEWEST, id="newest")]
)
def test_every_official_family_is_ours_with_its_type_and_labels(
    version: str, tmp_path: Path
) -> None:
    with measured(official_software(version), tmp_path / "official") as (_servers, text):
        official = families(text)
    with measured(OURS, tmp_path / "ours") as (_servers, text):
        ours = families(text)
    assert len(official) > 35
    missing = {name for name in official if name not in ours}
    assert missing - set(NOT_OURS) == set()
    different = {
        name: (seen, ours[name])
        for name, seen in official.items()
        if name in ours and ours[name] != seen
    }
    assert different == {}
    # And what ours shows is what its table has.
    for name, seen in ours.items():
        family = FAMILIES[name]
        assert seen.kind == family.kind.value, name
        assert seen.labels == {*COMMON, *family.labels}, name


def test_no_difference_is_kept_that_is_none() -> None:
    assert set(NOT_OURS).isdisjoint(FAMILIES)


def test_the_exporter_of_4_finds_all_it_looks_for(tmp_path: Path) -> None:
    with measured(OURS, tmp_path) as (servers, _text):
        topic = f"{TOPIC}NORMAL"
        # Something must have been sent back, and a sample taken of it.
        asyncio.run(_sent_back(servers, topic))
        replay = eventually(
            lambda: asyncio.run(replayed(servers, topic, GROUP, CLUSTER)),
            lambda replay: not replay.missing,
        )
    assert replay.missing == []
    assert len(set(replay.asked)) == 11


@matrix
def test_the_exporter_of_4_finds_all_it_looks_for_at_the_official_broker(tmp_path: Path) -> None:
    with measured(official_software("5.3.3"), tmp_path) as (servers, _text):
        topic = f"{TOPIC}NORMAL"
        asyncio.run(_sent_back(servers, topic))
        replay = eventually(
            lambda: asyncio.run(replayed(servers, topic, GROUP, CLUSTER)),
            lambda replay: not replay.missing,
        )
    assert replay.missing == []


async def _sent_back(servers: Servers, topic: str) -> None:
    """Sends the first message of a queue back for a retry, as its group."""
    address = servers.broker.address
    async with Client() as client:
        ext = {
            **{"consumerGroup": GROUP, "topic": topic, "queueId": "0", "queueOffset": "0"},
            **{"maxMsgNums": "1", "sysFlag": "4", "commitOffset": "0"},
            **{"suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0"},
        }
        pulled = await client.call(address, RequestCode.PULL_MESSAGE, ext, timeout_s=20.0)
        (message,) = decode_records(pulled.body)
        ext = {
            **{"offset": str(message.physical_offset), "group": GROUP, "delayLevel": "0"},
            **{"originMsgId": "x", "originTopic": topic, "unitMode": "false"},
            "maxReconsumeTimes": "16",
        }
        code = RequestCode.CONSUMER_SEND_MSG_BACK
        answer = await client.call(address, code, ext, timeout_s=20.0)
        assert answer.code == 0, answer.remark
