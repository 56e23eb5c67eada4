"""The broker's tables, with times passed in: topics, groups, members, locks, delays, counters."""

import time

import pytest

from mqcore.broker.delays import DEFAULT_LEVELS, DelayTable, parse_levels
from mqcore.broker.groups import GroupTable
from mqcore.broker.members import EXPIRY_MS, ClientInfo, Members
from mqcore.broker.order_locks import LOCK_LIFE_MS, LOCKS_PER_TURN, OrderLocks
from mqcore.broker.statistics import DailyTotals, Statistics
from mqcore.broker.topics import TopicRules, TopicTable
from mqcore.errors import BadJsonError
from mqcore.model.heartbeats import ConsumerData, HeartbeatData
from mqcore.model.queues import MessageQueue
from mqcore.model.relaxed_json import pretty
from mqcore.model.subscriptions import SubscriptionData
from mqcore.model.topics import TopicConfig
from mqcore.native import OffsetRange
from mqcore.native.errors import SettingError


def table(*, auto_create: bool = True) -> TopicTable:
    return TopicTable(TopicRules(cluster="c", broker_name="b", auto_create=auto_create), 1_000)


def test_a_send_creates_its_topic_from_the_template() -> None:
    topics = table()
    made = topics.create_for_send("T", "TBW102", 4, sys_flag=1, now_ms=2_000)
    assert made == TopicConfig(name="T", read_queues=4, write_queues=4, perm=6, sys_flag=1)
    assert topics.version.counter == 1
    assert topics.version.timestamp_ms == 2_000
    # The template has eight queues: nobody gets more.
    many = topics.create_for_send("U", "TBW102", 100, sys_flag=0, now_ms=2_001)
    assert many is not None
    assert many.write_queues == 8


def test_a_topic_that_exists_stays_as_it_is() -> None:
    topics = table()
    first = topics.create_for_send("T", "TBW102", 4, sys_flag=0, now_ms=2_000)
    assert topics.create_for_send("T", "nothing", 1, sys_flag=0, now_ms=2_001) is first
    assert topics.version.counter == 1


@pytest.mark.parametrize("template", ["TBW102", "SELF_TEST_TOPIC", "absent"])
def test_without_an_inheritable_template_nothing_is_created(template: str) -> None:
    topics = table(auto_create=False)
    assert topics.create_for_send("T", template, 4, sys_flag=0, now_ms=2_000) is None
    assert topics.version.counter == 0


def test_a_retry_topic_needs_no_template() -> None:
    made = table(auto_create=False).create_for_send("%RETRY%g", "", 4, sys_flag=0, now_ms=2)
    assert made is not None
    assert (made.read_queues, made.write_queues, made.perm) == (1, 1, 6)


def test_an_illegal_name_is_not_created() -> None:
    assert table().create_for_send("../x", "TBW102", 4, sys_flag=0, now_ms=2) is None


def test_negative_queues_become_none() -> None:
    made = table().create_for_send("T", "TBW102", -4, sys_flag=0, now_ms=2)
    assert made is not None
    assert made.write_queues == 0


def test_topics_survive_their_file() -> None:
    topics = table()
    topics.put(TopicConfig(name="T", perm=4, attributes={"message.type": "FIFO"}), 5)
    again = table()
    again.load(topics.text()())
    assert again.topics == topics.topics
    assert again.version == topics.version


def test_the_text_of_topics_follows_every_change() -> None:
    topics = table()
    for step, topic in enumerate(
        [TopicConfig(name="T"), TopicConfig(name="U", perm=4), TopicConfig(name="T", perm=2)]
    ):
        topics.put(topic, step)
        assert topics.text()() == pretty(topics.to_json())
    later = topics.text()
    topics.delete("T", 9)
    # A text is of the moment at which it was asked for.
    assert b'"T"' in later()
    assert topics.text()() == pretty(topics.to_json())


def test_a_bad_file_changes_nothing() -> None:
    topics = table()
    before = dict(topics.topics)
    for bad in (b"{", b"[]", b'{"topicConfigTable":[]}'):
        with pytest.raises(BadJsonError):
            topics.load(bad)
    assert dict(topics.topics) == before


def test_system_topics_are_known() -> None:
    topics = table()
    assert topics.is_system("TBW102")
    assert topics.is_system("rmq_sys_anything")
    assert topics.is_system("c_REPLY_TOPIC")
    assert not topics.is_system("T")


def test_groups_are_created_where_that_is_allowed() -> None:
    groups = GroupTable(auto_create=True, now_ms=1)
    assert groups.find_or_create("g", 2) is groups.find("g")
    assert groups.version.counter == 1
    assert groups.find_or_create("bad name", 3) is None
    closed = GroupTable(auto_create=False, now_ms=1)
    assert closed.find_or_create("g", 2) is None
    assert closed.find_or_create("CID_RMQ_SYS_x", 2) is not None
    assert closed.find("TOOLS_CONSUMER") is not None


def beat(client_id: str, *topics: str, version: int = 1, group: str = "g") -> HeartbeatData:
    wanted = tuple(SubscriptionData.of_expression(topic, "*", version) for topic in topics)
    data = ConsumerData(
        group, "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", wanted, False
    )
    return HeartbeatData(client_id=client_id, producer_groups=("p",), consumers=(data,))


def client(link: str, now_ms: int) -> ClientInfo:
    return ClientInfo(link, "", f"{link}:1", "JAVA", 409, now_ms)


def take(members: Members, link: str, heartbeat: HeartbeatData, now_ms: int) -> tuple[bool, bool]:
    taken = members.beat(heartbeat, client(link, now_ms), heartbeat.consumers)
    return bool(taken.changed), bool(taken.updated)


def test_a_group_hears_of_members_and_topics_once() -> None:
    members = Members()
    assert take(members, "a", beat("A", "T"), 1) == (True, True)
    assert take(members, "a", beat("A", "T"), 2) == (False, False)
    # A newer expression is taken without a word to the members.
    assert take(members, "a", beat("A", "T", version=2), 3) == (False, True)
    assert take(members, "a", beat("A", "T", "U", version=2), 4) == (True, True)
    assert take(members, "a", beat("A", "U", version=2), 5) == (True, True)
    assert take(members, "b", beat("B", "U", version=2), 6) == (True, True)
    assert members.consumers["g"].client_ids() == ["A", "B"]
    assert set(members.consumers["g"].subscriptions) == {"U"}
    assert members.groups_of_topic("U") == ["g"]


def test_a_closed_connection_leaves_every_group() -> None:
    members = Members()
    take(members, "a", beat("A", "T"), 1)
    take(members, "b", beat("B", "T"), 1)
    take(members, "b", beat("B", "T", group="h"), 1)
    assert sorted(members.closed("b")) == ["g", "h"]
    assert members.closed("b") == []
    assert members.consumers["g"].client_ids() == ["A"]
    assert "h" not in members.consumers
    assert set(members.producers["p"]) == {"a"}


def test_a_client_leaves_the_group_that_it_names() -> None:
    members = Members()
    take(members, "a", beat("A", "T"), 1)
    assert members.leave("a", producer="p") == []
    assert members.leave("a", consumer="g") == ["g"]
    assert members.leave("a", consumer="g") == []
    assert not members.consumers
    assert not members.producers
    assert members.closed("a") == []


def test_silent_clients_expire() -> None:
    members = Members()
    take(members, "a", beat("A", "T"), 1_000)
    take(members, "b", beat("B", "T"), 2_000)
    assert members.expired(1_000 + EXPIRY_MS) == []
    assert members.expired(1_001 + EXPIRY_MS) == ["a"]


def test_one_client_holds_a_queue_until_it_lets_go_or_is_silent() -> None:
    locks = OrderLocks()
    one, two = MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)
    assert locks.lock("g", [one, two], "A", 1_000) == [one, two]
    assert locks.lock("g", [one, two], "B", 2_000) == []
    assert locks.lock("h", [one], "B", 2_000) == [one]
    locks.unlock("g", [one, two], "B")
    assert locks.holders("g", 2_000) == {one: "A", two: "A"}
    locks.unlock("g", [one], "A")
    assert locks.lock("g", [one, two], "B", 3_000) == [one]
    assert locks.lock("g", [two], "B", 1_000 + LOCK_LIFE_MS) == []
    assert locks.lock("g", [two], "B", 1_001 + LOCK_LIFE_MS) == [two]
    assert locks.until_ms("g") == 1_001 + 2 * LOCK_LIFE_MS
    assert list(locks.forget_expired(1_001 + 2 * LOCK_LIFE_MS)) == [["h"]]
    assert list(locks.forget_expired(1_002 + 2 * LOCK_LIFE_MS)) == [["g"]]
    assert locks.until_ms("g") is None


def test_free_locks_are_dropped_in_turns() -> None:
    locks = OrderLocks()
    count = 10 * LOCKS_PER_TURN
    many = [MessageQueue("T", "b", number) for number in range(count)]
    locks.lock("many", many, "A", 0)
    for number in range(count):
        locks.lock(f"g{number}", many[:1], "A", 0)
    locks.lock("many", many[:1], "A", 1)
    assert locks.until_ms("many") == 1 + LOCK_LIFE_MS
    turns = list(locks.forget_expired(1 + LOCK_LIFE_MS))
    assert sum(map(len, turns)) == count
    assert max(map(len, turns)) <= LOCKS_PER_TURN
    assert len(turns) >= 2 * count // (2 * LOCKS_PER_TURN)
    assert locks.holders("many", 1 + LOCK_LIFE_MS) == {many[0]: "A"}
    assert locks.lock("h", many[1:], "A", 2) == many[1:], "they are counted off"


def test_a_member_of_many_groups_leaves_them_in_turns() -> None:
    members = Members()
    groups = [f"g{number}" for number in range(300)]
    for begin in range(0, 300, 100):
        data = "".join(f'{{"groupName":"{name}"}},' for name in groups[begin : begin + 100])
        heartbeat = HeartbeatData.parse(
            f'{{"clientID":"c","consumerDataSet":[{data[:-1]}],"producerDataSet":[]}}'.encode()
        )
        members.beat(heartbeat, client("a", 1), heartbeat.consumers)
    # Who goes out of some of them in one turn is out of no other.
    steps = members.closing("a")
    left = [next(steps) for _ in range(64)]
    assert len(members.consumers) == 300 - 64
    left += steps
    assert sorted(left) == sorted(groups)
    assert not members.consumers


def test_levels_are_read_as_the_official_broker_does() -> None:
    levels = parse_levels(DEFAULT_LEVELS)
    assert len(levels) == 18
    assert (levels[0], levels[4], levels[17]) == (1_000, 60_000, 7_200_000)
    for bad in ("", "1", "s", "1s 2x", "1.5s"):
        with pytest.raises(SettingError):
            parse_levels(bad)


def test_levels_are_looked_at_in_time() -> None:
    delays = DelayTable((1_000, 5_000), 0)
    assert delays.due(999) == []
    assert delays.due(1_000) == [1, 2]
    delays.delivered(1, 7, 1_500, 1_000)
    delays.delivered(2, 0, 2_000, 1_000)
    assert delays.until_look_ms(1_000) == 500
    assert delays.due(1_500) == [1]
    assert delays.offsets == {1: 7}


def test_levels_are_looked_at_when_the_clock_is_set_back() -> None:
    day_ms = 86_400_000
    delays = DelayTable((1_000, 5_000), day_ms)
    delays.delivered(1, 7, day_ms + 500, day_ms)
    delays.delivered(2, 0, day_ms + 500, day_ms)
    assert delays.due(1) == [1, 2]
    assert delays.until_look_ms(1) == 0


def test_delay_offsets_survive_their_file_and_a_changed_level_table() -> None:
    delays = DelayTable((1_000, 5_000, 9_000), 0)
    delays.load(b'{"offsetTable":{1:20,2:10,3:5\n\t}\n}')
    assert delays.offsets == {1: 20, 2: 10, 3: 5}
    fewer = DelayTable((1_000,), 0)
    fewer.load(delays.text())
    fewer.clamp(1, OffsetRange(25, 30))
    assert fewer.offsets == {1: 25, 2: 10, 3: 5}
    fewer.clamp(1, None)
    assert fewer.offset(1) == 0


def test_a_slave_is_no_farther_with_any_level_than_its_master() -> None:
    """It was master, and what it had delivered of a level was lost with its log."""
    delays = DelayTable((1_000, 5_000, 9_000), 0)
    delays.load(b'{"offsetTable":{1:20,2:10,7:3}}')
    master = DelayTable((1_000, 5_000, 9_000), 0)
    master.delivered(2, 4, 0, 0)
    delays.follow(master.text())
    assert delays.offsets == {2: 4}
    with pytest.raises(BadJsonError):
        delays.follow(b'{"offsetTable":[]}')
    assert delays.offsets == {2: 4}


def test_counters_over_a_window() -> None:
    numbers = Statistics()
    for step in range(10):
        numbers.note("TOPIC_PUT_NUMS", "T", 100 * step, 10_000 * step)
    series = numbers.find("TOPIC_PUT_NUMS", "T")
    assert series is not None
    assert (series.minute.sum, series.minute.per_second) == (600, 10.0)
    assert series.hour.sum == 0
    assert series.to_json()["statsMinute"] == {"avgpt": 1.0, "sum": 600, "tps": 10.0}
    assert numbers.find("TOPIC_PUT_NUMS", "U") is None


def test_a_counter_that_comes_later_begins_at_zero() -> None:
    numbers = Statistics()
    numbers.note("TOPIC_PUT_NUMS", "old", 1_000_000, 50_000)
    assert numbers.is_old(50_000)
    numbers.end_of_round(50_000)
    assert not numbers.is_old(50_999)
    assert numbers.is_old(51_000)
    numbers.note("TOPIC_PUT_NUMS", "old", 1_000_030, 60_000)
    numbers.note("TOPIC_PUT_NUMS", "new", 500, 60_000)
    old, new = (numbers.find("TOPIC_PUT_NUMS", name) for name in ("old", "new"))
    assert old is not None
    assert new is not None
    assert (old.minute.sum, old.minute.per_second) == (30, 3.0)
    assert old.day.sum == 0
    # As if it had begun a step before its first sample.
    assert (new.minute.sum, new.minute.per_second) == (500, 50.0)
    assert (new.hour.sum, new.day.sum) == (500, 500)


def test_rates_of_the_whole_broker_are_there_after_a_second() -> None:
    numbers = Statistics()
    assert numbers.rate_text("sends") == "0.0 0.0 0.0"
    numbers.note_total("sends", 0, 1_000)
    numbers.note_total("sends", 50, 1_500)
    numbers.note_total("sends", 100, 2_000)
    assert numbers.rate_text("sends") == "100.0 100.0 100.0"
    for second in range(3, 700):
        numbers.note_total("sends", 100 if second < 695 else 600, 1_000 * second)
    assert numbers.rate_text("sends") == f"50.0 {500 / 60} {500 / 600}"


def test_totals_of_the_morning_roll_at_local_midnight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        totals = DailyTotals()
        day_ms = 86_400_000
        # 22:00 UTC is midnight two hours east of Greenwich.
        midnight_ms = 20_000 * day_ms - 7_200_000
        seen = []
        for total, at_ms in (
            (5, midnight_ms - 60_000),
            (7, midnight_ms - 1),
            (8, midnight_ms),
            (9, midnight_ms + 1_000),
            (9, midnight_ms - 1_000),
            (9, midnight_ms + 1_000),
            (20, midnight_ms + day_ms),
        ):
            totals.note(total, at_ms)
            seen.append((totals.yesterday_morning, totals.today_morning))
        assert seen == [(0, 0), (0, 0), (0, 8), (0, 8), (0, 8), (0, 8), (8, 20)]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_locks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqcore.broker.order_locks.LOCKS_MAX", 2)
    locks = OrderLocks()
    queues = [MessageQueue("T", "b", number) for number in range(3)]
    assert locks.lock("g", queues, "A", 1) == queues[:2]
    assert locks.lock("h", queues, "A", 1) == []
    locks.unlock("g", queues[:1], "A")
    assert locks.lock("h", queues, "B", 1) == queues[:1]
    list(locks.forget_expired(10 * LOCK_LIFE_MS))
    assert locks.lock("h", queues, "B", 10 * LOCK_LIFE_MS) == queues[:2]
