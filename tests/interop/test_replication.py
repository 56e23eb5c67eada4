"""Our slave on an official master, and the reverse: equal logs through kills, heirs of either."""

from pathlib import Path

import pytest

from interop.driver import Driver
from interop.patience import eventually
from interop.replicated import TOPIC, Pair, ask, asked, pair, pulled, send_delayed
from interop.servers import OURS, Software, official_software
from mqcore import Inspection
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.remoting import RequestCode, expect

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
# Whole tables, and directories that change hands, with the last broker of 4.9 that Maven has. Of
# 4.9.8 it has the client alone: its store and `SlaveSynchronize` have the sources of 4.9.7.
PAIRS_OF_4_9 = [
    pytest.param("4.9.7", "official", id="4.9.7-ours"),
    pytest.param("4.9.7", "ours", id="ours-4.9.7"),
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
    with pair(*softwares(version, master), tmp_path, names_master=True) as both:
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
        wait_until_taken(both)
        both.slave.kill()
        both.inherit(theirs)
        assert sorted(pulled(both.slave.address)) == sorted(both.sent)
        ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}
        answer = asked(both.slave.address, RequestCode.QUERY_CONSUMER_OFFSET, ext)
        assert answer.ext["offset"] == "33"


@pytest.mark.sampled
@pytest.mark.parametrize(("version", "master"), PAIRS_OF_4_9)
def test_either_directory_goes_on_under_the_program_of_the_other(
    version: str, master: str, tmp_path: Path
) -> None:
    theirs, ours = softwares(version, master)
    with pair(theirs, ours, tmp_path) as both:
        both.send(BATCH)
        both.commit(GROUP, 33)
        both.wait_until_equal()
        wait_until_taken(both)
        both.slave.kill()
        # A broker writes offsets every five seconds, and at its end.
        both.master.broker.stop()
        both.master.broker.become(ours)
        both.slave.become(theirs)
        both.master.broker.start()
        both.slave.start()
        assert sorted(pulled(both.master.broker.address)) == sorted(both.sent)
        assert offsets_of(both, both.master.broker.address)[f"{TOPIC}@{GROUP}"] == {"0": 33}
        both.send(BATCH)
        both.wait_until_equal()
        wait_until_taken(both)
        both.slave.kill()
    assert read_all(both) == set(both.sent)


@pytest.mark.sampled
@pytest.mark.parametrize(("version", "master"), PAIRS_OF_4_9)
def test_a_slave_has_the_tables_of_its_master_and_what_is_deleted_goes(
    version: str, master: str, tmp_path: Path
) -> None:
    with pair(*softwares(version, master), tmp_path, {"messageDelayLevel": "1s 2s"}) as both:
        address, slave = both.master.broker.address, both.slave.address
        make_tables(address)
        both.send(1)
        both.commit(GROUP, 1)
        send_delayed(address, b"delayed")
        made = eventually(lambda: tables_at(slave), lambda found: found == MADE)
        assert made == MADE
        wait_until_taken(both, offset=1)
        delays = both.slave_store / "config" / "delayOffset.json"

        def progress() -> dict[str, int]:
            found = parse_object(delays.read_bytes()) if delays.exists() else {}
            return {str(level): at for level, at in found.get("offsetTable", {}).items()}

        assert eventually(progress, lambda found: found.get("2") == 1).get("2") == 1
        delete_tables(address)
        left = eventually(lambda: tables_at(slave), lambda found: found == (None, None))
        assert left == (None, None)


# A topic and a group as they are made: queues and permission, tries and their queues.
MADE = ((5, 3, 4), (7, 2))
MADE_TOPIC, MADE_GROUP = "made", "CG_made"


def make_tables(address: str) -> None:
    """Makes a topic and a group with settings of their own."""
    ext = {
        "topic": MADE_TOPIC,
        "defaultTopic": "TBW102",
        "readQueueNums": "5",
        "writeQueueNums": "3",
        "perm": "4",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    expect(asked(address, RequestCode.UPDATE_AND_CREATE_TOPIC, ext), address)
    body = compact({"groupName": MADE_GROUP, "retryMaxTimes": 7, "retryQueueNums": 2})
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    expect(asked(address, code, {}, body), address)


def delete_tables(address: str) -> None:
    """Deletes both."""
    code = RequestCode.DELETE_TOPIC_IN_BROKER
    expect(asked(address, code, {"topic": MADE_TOPIC}), address)
    code = RequestCode.DELETE_SUBSCRIPTIONGROUP
    expect(asked(address, code, {"groupName": MADE_GROUP}), address)


def tables_at(address: str) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """Returns what a broker has of that topic and of that group."""
    topics = ask(address, RequestCode.GET_ALL_TOPIC_CONFIG)["topicConfigTable"]
    groups = ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)["subscriptionGroupTable"]
    assert isinstance(topics, dict)
    assert isinstance(groups, dict)
    topic, group = topics.get(MADE_TOPIC), groups.get(MADE_GROUP)
    return (
        topic and (topic["readQueueNums"], topic["writeQueueNums"], topic["perm"]),
        group and (group["retryMaxTimes"], group["retryQueueNums"]),
    )


def wait_until_taken(both: Pair, offset: int = 33) -> None:
    """Returns when the slave has the topic and the offset of its master, the offset on its disk."""
    eventually(lambda: topics_of(both), lambda topics: TOPIC in topics)
    assert TOPIC in topics_of(both)
    key, wanted = f"{TOPIC}@{GROUP}", {"0": offset}
    found = eventually(lambda: offsets_of(both).get(key), lambda queues: queues == wanted)
    assert found == wanted
    # Whoever has it in memory may still be writing it, and may be killed next.
    path = both.slave_store / "config" / "consumerOffset.json"
    text = eventually(
        lambda: path.read_text(encoding="utf-8") if path.exists() else "",
        lambda text: f":{offset}" in text,
    )
    assert f":{offset}" in text


def topics_of(both: Pair) -> dict[str, object]:
    """Returns the topics of the slave."""
    table = ask(both.slave.address, RequestCode.GET_ALL_TOPIC_CONFIG)["topicConfigTable"]
    assert isinstance(table, dict)
    return table


def offsets_of(both: Pair, address: str = "") -> dict[str, dict[str, int]]:
    """Returns the offsets that the slave has, or another broker, by topic and group."""
    table = ask(address or both.slave.address, RequestCode.GET_ALL_CONSUMER_OFFSET)["offsetTable"]
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
