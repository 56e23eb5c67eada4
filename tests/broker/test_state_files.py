"""The small files of `config`: those of official brokers load, ours hold as much, none is lost."""

from pathlib import Path

import pytest

from golden_stores import V49_CLEAN, V53_CLEAN, V55_CLEAN, GoldenStore
from live_broker import live
from loops import run_on
from mqcore.broker.consumer_offsets import beyond_end, offsets_json, parse_offsets, split_key
from mqcore.broker.delays import DEFAULT_LEVELS, DelayTable, parse_levels
from mqcore.broker.groups import GroupTable
from mqcore.broker.topics import TopicRules, TopicTable
from mqcore.errors import BadJsonError, StateFileError
from mqcore.model.relaxed_json import compact
from mqcore.model.versions import DataVersion
from mqcore.native import OffsetRange
from mqcore.remoting import RequestCode
from mqcore.state_files import StateFile

RULES = TopicRules(cluster="DefaultCluster", broker_name="broker-a")


@pytest.fixture(scope="module", params=[V49_CLEAN, V53_CLEAN, V55_CLEAN], ids=lambda s: s.name)
def config_dir(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    store: GoldenStore = request.param
    return store.unpack(tmp_path_factory.mktemp("golden")) / "config"


def test_official_topics_load_and_keep_their_version(config_dir: Path) -> None:
    topics = TopicTable(RULES, 1)
    assert StateFile(config_dir / "topics.json").load(topics.load)
    order = topics.find("GoldenOrder")
    assert order is not None
    assert order.write_queues == 4
    closed = topics.find("GoldenReadOnly")
    assert closed is not None
    assert closed.perm == 4
    assert topics.version.counter > 1
    again = TopicTable(RULES, 1)
    again.load(topics.text()())
    assert again.topics == topics.topics
    assert again.version == topics.version


def test_official_groups_load(config_dir: Path) -> None:
    groups = GroupTable(auto_create=True, now_ms=1)
    assert StateFile(config_dir / "subscriptionGroup.json").load(groups.load)
    push = groups.find("CG_push")
    assert push is not None
    assert push.retry_max_times == 16
    again = GroupTable(auto_create=True, now_ms=1)
    again.load(groups.text()())
    assert again.groups == groups.groups


def test_official_offsets_load(config_dir: Path) -> None:
    table = parse_offsets((config_dir / "consumerOffset.json").read_bytes())
    assert table["%RETRY%CG_retry@CG_retry"] == {0: 10}
    assert table["GoldenPlain@CG_push"][0] == 600
    assert parse_offsets(compact(offsets_json(table, DataVersion(1, 2)))) == table


def test_official_delay_offsets_load(config_dir: Path) -> None:
    delays = DelayTable(parse_levels(DEFAULT_LEVELS), 1)
    assert StateFile(config_dir / "delayOffset.json").load(delays.load)
    assert delays.offset(2) == 10
    assert delays.offset(1) >= 20


def test_our_text_is_the_official_one(tmp_path: Path) -> None:
    # The official broker's own text of these tables, to the byte but for the order of groups.
    config = V49_CLEAN.unpack(tmp_path) / "config"
    official = (config / "delayOffset.json").read_text()
    delays = DelayTable(parse_levels(DEFAULT_LEVELS), 1)
    delays.load(official.encode())
    ours = delays.text().decode()
    assert ours[ours.index('\t"offsetTable"') :] == official[official.index('\t"offsetTable"') :]


def test_a_file_is_replaced_and_its_generation_kept(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "config" / "x.json")
    taken: list[bytes] = []
    assert not file.load(taken.append)
    file.save(b"one")
    file.save(b"two")
    assert file.load(taken.append)
    assert taken == [b"two"]
    assert file.backup.read_bytes() == b"one"
    assert sorted(path.name for path in file.path.parent.iterdir()) == ["x.json", "x.json.bak"]


def test_a_damaged_file_yields_to_the_generation_before(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "x.json")
    taken: list[bytes] = []

    def take(content: bytes) -> None:
        if content != b"good":
            raise BadJsonError("bad")
        taken.append(content)

    file.path.write_bytes(b"bad")
    with pytest.raises(StateFileError) as caught:
        file.load(take)
    assert str(file.path) in caught.value.message
    file.backup.write_bytes(b"good")
    assert file.load(take)
    file.path.write_bytes(b"")
    assert file.load(take)
    assert taken == [b"good", b"good"]


def test_keys_of_offsets_are_topic_and_group() -> None:
    assert split_key("T@g") == ("T", "g")
    for bad in ("T", "T@", "@g", "T@g@h"):
        assert split_key(bad) is None


def test_offsets_behind_the_end_of_their_queue_are_found() -> None:
    ends = {("T", 0): OffsetRange(0, 5), ("T", 1): OffsetRange(2, 9)}
    table = {"T@g": {0: 6, 1: 9}, "T@h": {0: 5}, "U@g": {0: 100}, "odd": {0: 7}}

    def bounds(topic: str, queue_id: int) -> OffsetRange | None:
        return ends.get((topic, queue_id))

    assert beyond_end(table, bounds, {}) == {"T@g": {0: 5}}
    assert beyond_end(table, bounds, {"T": {0: 6}}) == {}
    assert beyond_end(table, bounds, {"U": {0: 7}}) == {"T@g": {0: 5}, "U@g": {0: 7}}


def test_a_group_goes_on_at_the_end_of_a_queue_that_was_cut(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            await client.create("T")
            await client.send("T", b"x")
            await client.settled()
        path = tmp_path / "config" / "consumerOffset.json"
        path.write_bytes(b'{"offsetTable":{"T@g":{0:7}}}')
        async with live(tmp_path) as client:
            queue = {"consumerGroup": "g", "topic": "T", "queueId": 0}
            found = await client.call(RequestCode.QUERY_CONSUMER_OFFSET, queue)
            assert found.ext["offset"] == "1"

    run_on("uvloop", run())
