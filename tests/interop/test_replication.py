"""Our slave on an official master, and the reverse: equal logs through kills, heirs of either."""

from pathlib import Path

import pytest

from interop.driver import Driver
from interop.patience import eventually
from interop.replicated import TOPIC, Pair, ask, asked, pair, pulled
from interop.servers import OURS, Software, official_software
from mqcore import Inspection
from mqcore.remoting import RequestCode

pytestmark = pytest.mark.java

BATCH = 400
GROUP = "CG_copied"
# The slave of 5.3 asks for tables a minute after its start.
PAIRS = [
    pytest.param("5.3.3", "official", id="5.3.3-ours"),
    pytest.param("4.9.7", "official", id="4.9.7-ours"),
    pytest.param("4.9.7", "ours", id="ours-4.9.7"),
    pytest.param("5.3.3", "ours", id="ours-5.3.3", marks=pytest.mark.matrix),
    pytest.param("5.5.0", "official", id="5.5.0-ours", marks=pytest.mark.matrix),
    pytest.param("5.5.0", "ours", id="ours-5.5.0", marks=pytest.mark.matrix),
]


def softwares(version: str, master: str) -> tuple[Software, Software]:
    """Returns whose master and whose slave."""
    official = official_software(version)
    return (official, OURS) if master == "official" else (OURS, official)


def read_all(both: Pair) -> set[bytes]:
    """Returns the bodies in the slave's store, which nobody has open."""
    messages = Inspection(both.slave_store).messages()
    return {each.body for each in messages if each.topic == TOPIC}


@pytest.mark.parametrize(
    ("version", "master"),
    [
        pytest.param("5.3.3", "official", id="5.3.3-ours"),
        pytest.param("5.3.3", "ours", id="ours-5.3.3"),
        pytest.param("4.9.7", "official", id="4.9.7-ours"),
        pytest.param("4.9.7", "ours", id="ours-4.9.7"),
        pytest.param("5.5.0", "official", id="5.5.0-ours", marks=pytest.mark.matrix),
        pytest.param("5.5.0", "ours", id="ours-5.5.0", marks=pytest.mark.matrix),
    ],
)
def test_logs_become_equal_after_kills_of_either(
    version: str, master: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    rounds = 6 if request.config.getoption("--matrix") else 1
    with pair(*softwares(version, master), tmp_path) as both:
        both.send(BATCH)
        both.wait_until_equal()
        for _ in range(rounds):
            both.slave.kill()
            both.send(BATCH)
            both.slave.start()
            both.send(BATCH)
            both.master.broker.kill()
            both.master.broker.start()
            both.send(BATCH)
        end = both.wait_until_equal()
        assert end > 2 << 20, "several files"
        both.slave.kill()
    assert read_all(both) == set(both.sent)
    assert len(set(both.sent)) == (1 + 3 * rounds) * BATCH


@pytest.mark.parametrize(("version", "master"), PAIRS)
def test_the_heir_of_either_has_messages_tables_and_offsets(
    version: str, master: str, tmp_path: Path
) -> None:
    theirs, ours = softwares(version, master)
    with pair(theirs, ours, tmp_path) as both:
        both.send(BATCH)
        both.commit(GROUP, 33)
        both.wait_until_equal()
        eventually(lambda: topics_of(both), lambda topics: TOPIC in topics)
        assert TOPIC in topics_of(both)
        key = f"{TOPIC}@{GROUP}"
        eventually(lambda: offsets_of(both).get(key), lambda queues: queues is not None)
        assert offsets_of(both)[key] == {"0": 33}
        both.slave.kill()
        both.inherit(theirs)
        assert sorted(pulled(both.slave.address)) == sorted(both.sent)
        ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}
        answer = asked(both.slave.address, RequestCode.QUERY_CONSUMER_OFFSET, ext)
        assert answer.ext["offset"] == "33"


def topics_of(both: Pair) -> dict[str, object]:
    """Returns the topics of the slave."""
    table = ask(both.slave.address, RequestCode.GET_ALL_TOPIC_CONFIG)["topicConfigTable"]
    assert isinstance(table, dict)
    return table


def offsets_of(both: Pair) -> dict[str, dict[str, int]]:
    """Returns the offsets that the slave has, by topic and group."""
    table = ask(both.slave.address, RequestCode.GET_ALL_CONSUMER_OFFSET)["offsetTable"]
    assert isinstance(table, dict)
    return {
        key: {str(queue): offset for queue, offset in queues.items()}
        for key, queues in table.items()
    }


def test_mqadmin_shows_how_far_a_slave_is(driver_53: Driver, tmp_path: Path) -> None:
    with pair(OURS, OURS, tmp_path) as both:
        both.send(20)
        end = both.wait_until_equal()
        line = ("haStatus", "-b", both.master.broker.address)
        printed = eventually(
            lambda: driver_53.mqadmin(*line), lambda text: text.count(str(end)) >= 2
        )
        assert printed.count(str(end)) >= 2, printed
