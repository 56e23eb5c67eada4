"""Registered expressions and what members want, as tables; and their file."""

import json

import pytest

from mqcore.broker.bloom import BloomBits, BloomFilter
from mqcore.broker.filters import FilterTable
from mqcore.broker.subscription_checks import SubscriptionCheck
from mqcore.errors import BadJsonError
from mqcore.model.relaxed_json import parse_object
from mqcore.model.subscriptions import SubscriptionData
from mqcore.native import sql_fault

DAY_MS = 86_400_000
BLOOM = BloomFilter.of(20, 32)


def table() -> FilterTable:
    return FilterTable(BLOOM, sql_fault, DAY_MS)


def sql(text: str, version: int = 1, topic: str = "T", kind: str = "SQL92") -> SubscriptionData:
    return SubscriptionData(topic, text, version=version, kind=kind)


def test_the_bits_are_those_of_the_official_filter() -> None:
    # As rocketmq-filter 5.3.3 decides; tests/interop asks it for more.
    assert BloomFilter(hashes=3, bits=112) == BLOOM
    assert BLOOM.bits_of("g#t") == BloomBits((22, 87, 58), 112)
    assert BLOOM.fits(BLOOM.bits_of(""))
    assert not BloomFilter.of(20, 64).fits(BLOOM.bits_of(""))


def test_a_newer_version_replaces_an_expression_and_an_older_one_does_not() -> None:
    filters = table()
    assert filters.register("g", [sql("a = 1", 5)], 100)
    assert not filters.register("g", [sql("a = 2", 5)], 200)
    assert not filters.register("g", [sql("a = 2", 4)], 200)
    found = filters.find("T", "g")
    assert found is not None
    assert (found.expression, found.version, found.born_ms) == ("a = 1", 5, 100)
    assert filters.register("g", [sql("a = 1", 6)], 300)
    assert (found.version, found.born_ms) == (6, 100), "the same text keeps its registration time"
    assert filters.register("g", [sql("a = 2", 7)], 400)
    found = filters.find("T", "g")
    assert found is not None
    assert (found.expression, found.version, found.born_ms) == ("a = 2", 7, 400)


def test_what_does_not_compile_is_not_registered_and_takes_the_old_one_away() -> None:
    filters = table()
    assert not filters.register("g", [sql("a >"), sql("a = 1", kind="XPATH", topic="U")], 1)
    assert filters.of_group("g") == ()
    filters.register("g", [sql("a = 1", 2)], 1)
    assert filters.register("g", [sql("a >", 3)], 2)
    assert filters.find("T", "g") is None
    assert not filters.register("g", [SubscriptionData("T"), sql("", topic="U")], 3)


def test_the_texts_of_all_groups_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqcore.broker.filters.TEXTS_MAX", 10)
    filters = table()
    assert filters.register("g", [sql("a = 1")], 1)
    assert not filters.register("h", [sql("a = 12")], 1)
    filters.unregister("g", 1)
    filters.clean(1 + DAY_MS)
    assert filters.register("h", [sql("a = 12", 2)], 2)


def test_a_topic_or_a_group_that_goes_is_dead_and_comes_alive_again() -> None:
    filters = table()
    filters.register("g", [sql("a = 1"), sql("b = 1", topic="U")], 100)
    filters.register("g", [sql("a = 1")], 200)
    dead = filters.find("U", "g")
    assert dead is not None
    assert (dead.is_dead, dead.dead_ms) == (True, 200)
    filters.unregister("g", 300)
    assert [data.dead_ms for data in filters.of_group("g")] == [300, 200]
    assert filters.register("g", [sql("a = 1")], 400)
    alive = filters.find("T", "g")
    assert alive is not None
    assert (alive.is_dead, alive.born_ms) == (False, 100)
    filters.clean(200 + DAY_MS - 1)
    assert filters.find("U", "g") is not None
    filters.clean(200 + DAY_MS)
    assert filters.find("U", "g") is None
    assert filters.find("T", "g") is not None


def test_the_file_is_the_official_one_and_is_read_again() -> None:
    filters = table()
    filters.register("g", [sql("a > 1", 7)], 1_000)
    text = filters.text()()
    assert parse_object(text) == {
        "filterDataByTopic": {
            "T": {
                "groupFilterData": {
                    "g": {
                        "bloomFilterData": {
                            "bitNum": 112,
                            "bitPos": list(BLOOM.bits_of("g#T").positions),
                        },
                        "bornTime": 1_000,
                        "clientVersion": 7,
                        "consumerGroup": "g",
                        "dead": False,
                        "deadTime": 0,
                        "expression": "a > 1",
                        "expressionType": "SQL92",
                        "topic": "T",
                    }
                },
                "topic": "T",
            }
        }
    }
    again = table()
    again.load(text, 100_000)
    found = again.find("T", "g")
    assert found is not None
    # Nobody is there when it is read: the official broker assumes since half a minute.
    assert (found.expression, found.version, found.dead_ms) == ("a > 1", 7, 70_000)
    soon = table()
    soon.load(text, 2_000)
    found = soon.find("T", "g")
    assert found is not None
    assert (found.dead_ms, found.is_dead) == (1_000, True)


def test_who_comes_is_born_no_earlier_than_messages_have_its_bits() -> None:
    filters = table()
    filters.register("g", [sql("a = 1")], 100)
    filters.register("h", [sql("a = 2")], 110)
    filters.unregister("h", 120)
    changes, placed = filters.changes, filters.placed
    filters.settle(150)
    found = {data.group: (data.born_ms, data.dead_ms, data.is_dead) for data in filters.all()}
    assert found == {"g": (150, 0, False), "h": (150, 150, True)}
    assert filters.changes > changes, "the file has to follow"
    assert filters.placed == placed
    filters.settle(200)
    assert {data.born_ms for data in filters.all()} == {150}, "they had them since"
    filters.register("g", [sql("a = 3", 2)], 210)
    assert filters.placed > placed
    filters.settle(205)
    assert sorted(data.born_ms for data in filters.all()) == [150, 210]


def test_after_an_unclean_end_nobody_was_born_before() -> None:
    filters = table()
    filters.register("g", [sql("a > 1", 7)], 1_000)
    text = filters.text()()
    for was_clean, born_ms in ((True, 1_000), (False, 100_000)):
        again = table()
        again.load(text, 100_000, was_clean=was_clean)
        again.settle(300_000)
        found = again.find("T", "g")
        assert found is not None
        assert found.born_ms == (born_ms if was_clean else 300_000)
        assert found.is_dead


def test_a_file_with_other_bits_is_left_out_and_a_bad_one_refused() -> None:
    filters = FilterTable(BloomFilter.of(20, 64), sql_fault, DAY_MS)
    filters.register("g", [sql("a > 1")], 1)
    mine = table()
    mine.load(filters.text()(), 2)
    assert mine.of_group("g") == ()
    with pytest.raises(BadJsonError, match="filterDataByTopic"):
        mine.load(json.dumps({"filterDataByTopic": 5}).encode(), 2)
    mine.load(b"{}", 2)


def test_members_that_want_the_same_agree_however_they_spell_it() -> None:
    check = SubscriptionCheck()
    check.note("a", [SubscriptionData.of_expression("T", "x || y"), SubscriptionData("%RETRY%g")])
    check.note("b", [SubscriptionData.of_expression("T", "y||x", 5)])
    assert (check.count, check.news()) == (1, False)
    assert check.differences({"a": "A", "b": "B"}) == {}


def test_members_that_differ_are_logged_once_per_change() -> None:
    check = SubscriptionCheck()
    common = SubscriptionData("C")
    check.note("a", [common, sql("n > 1")])
    check.note("b", [common, sql("n > 2")])
    check.note("c", [common])
    assert (check.count, check.news(), check.news()) == (3, True, False)
    assert check.differences({"a": "A", "b": "B", "c": "C"}) == {
        "A": {"T": "n > 1"},
        "B": {"T": "n > 2"},
        "C": {"T": ""},
    }
    check.note("b", [common, sql("n > 3")])
    assert check.news()
    check.forget("b")
    check.forget("c")
    assert (check.count, check.news()) == (1, False)
    check.note("c", [common])
    assert check.news(), "again, after they had agreed"
