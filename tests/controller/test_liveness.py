"""Who is taken for alive: heartbeats, ends of connections, time."""

from mqcore.controller.liveness import BrokerKey, Claim, Heartbeat, Holding, Liveness
from mqcore.native import CandidateRow

ONE = BrokerKey("c", "broker-a", 1)
TWO = BrokerKey("c", "broker-a", 2)
BEGAN_MS = 5_000


def table() -> Liveness:
    return Liveness(BEGAN_MS)


def test_a_broker_lives_as_long_as_it_asks_for() -> None:
    liveness = table()
    beat = Heartbeat(timeout_ms=300)
    assert liveness.heard(ONE, beat, "x", 6_000)
    assert not liveness.heard(ONE, beat, "x", 6_200)
    assert liveness.is_alive(ONE, 6_500)
    assert not liveness.is_alive(ONE, 6_501)
    assert liveness.expired(6_500) == []
    assert liveness.expired(6_501) == [(ONE, "x")]
    assert not liveness.may_be_alive(ONE, 6_501)
    assert len(liveness) == 0


def test_the_end_of_a_connection_ends_its_brokers_alone() -> None:
    liveness = table()
    liveness.heard(ONE, Heartbeat(), "x", 6_000)
    liveness.heard(TWO, Heartbeat(), "y", 6_000)
    assert liveness.closed("x") == [ONE]
    assert liveness.closed("x") == []
    assert not liveness.is_alive(ONE, 6_000)
    assert liveness.is_alive(TWO, 6_000)


def test_a_broker_that_reconnected_goes_with_its_new_connection() -> None:
    liveness = table()
    liveness.heard(ONE, Heartbeat(), "old", 6_000)
    liveness.heard(ONE, Heartbeat(), "new", 6_100)
    assert liveness.closed("old") == []
    assert liveness.closed("new") == [ONE]


def test_nobody_is_dead_who_had_no_time_to_report_unless_it_went() -> None:
    liveness = table()
    assert liveness.may_be_alive(ONE, BEGAN_MS + 10_000)
    assert not liveness.is_alive(ONE, BEGAN_MS)
    assert not liveness.may_be_alive(ONE, BEGAN_MS + 10_001)
    liveness.heard(ONE, Heartbeat(), "x", BEGAN_MS)
    liveness.closed("x")
    assert not liveness.may_be_alive(ONE, BEGAN_MS)
    assert liveness.may_be_alive(TWO, BEGAN_MS)


def test_the_farthest_that_a_connection_reported_counts() -> None:
    liveness = table()

    def reported(epoch: int, max_offset: int, channel: str = "x") -> CandidateRow:
        beat = Heartbeat(epoch=epoch, max_offset=max_offset, priority=7)
        liveness.heard(ONE, beat, channel, 6_000)
        (found,) = liveness.candidates([ONE, TWO], 6_000)
        return found

    assert reported(1, 100) == CandidateRow(1, 1, 100, 7)
    # Late news of the same process.
    assert reported(1, 90) == CandidateRow(1, 1, 100, 7)
    assert reported(2, 50) == CandidateRow(1, 2, 50, 7)
    # Another process, or one whose log was cut.
    assert reported(1, 10, "y") == CandidateRow(1, 1, 10, 7)


def test_a_broker_cannot_be_alive_for_ever() -> None:
    liveness = table()
    liveness.heard(ONE, Heartbeat(timeout_ms=1 << 60), "x", 6_000)
    assert liveness.is_alive(ONE, 606_000)
    assert not liveness.is_alive(ONE, 606_001)
    liveness.heard(TWO, Heartbeat(timeout_ms=-5), "x", 6_000)
    assert liveness.is_alive(TWO, 6_001)
    assert not liveness.is_alive(TWO, 6_002)


OTHER = Claim("host:2;7;ab", is_proven=False)
PROVEN = Claim("host:2;7;cd", is_proven=True)
# Behind the time in which who was not heard may come yet.
LATER_MS = BEGAN_MS + 20_000


def test_who_sends_heartbeats_after_a_claim_keeps_its_id() -> None:
    for claim in (OTHER, PROVEN):
        liveness = table()
        liveness.heard(ONE, Heartbeat(), "x", LATER_MS)
        assert liveness.holding(ONE, claim, LATER_MS + 100) is Holding.PERHAPS
        # What waited in a socket is no sign of life.
        liveness.heard(ONE, Heartbeat(), "x", LATER_MS + 150)
        assert liveness.holding(ONE, claim, LATER_MS + 200) is Holding.PERHAPS
        liveness.heard(ONE, Heartbeat(), "x", LATER_MS + 1_100)
        assert liveness.holding(ONE, claim, LATER_MS + 1_100) is Holding.HELD


def test_who_is_silent_loses_its_id_sooner_where_the_claim_is_proven() -> None:
    liveness = table()
    liveness.heard(ONE, Heartbeat(), "x", LATER_MS)
    assert liveness.holding(ONE, OTHER, LATER_MS) is Holding.PERHAPS
    assert liveness.holding(ONE, OTHER, LATER_MS + 10_000) is Holding.PERHAPS
    assert liveness.holding(ONE, OTHER, LATER_MS + 10_001) is Holding.FREE
    liveness = table()
    liveness.heard(ONE, Heartbeat(), "x", LATER_MS)
    assert liveness.holding(ONE, PROVEN, LATER_MS) is Holding.PERHAPS
    assert liveness.holding(ONE, PROVEN, LATER_MS + 2_499) is Holding.PERHAPS
    assert liveness.holding(ONE, PROVEN, LATER_MS + 2_500) is Holding.FREE


def test_whose_connection_has_ended_holds_nothing() -> None:
    liveness = table()
    liveness.heard(ONE, Heartbeat(), "x", BEGAN_MS)
    liveness.closed("x")
    assert liveness.holding(ONE, OTHER, BEGAN_MS) is Holding.FREE


def test_who_has_just_registered_holds_its_id_until_it_is_heard() -> None:
    liveness = table()
    liveness.registered(ONE, LATER_MS)
    assert liveness.holding(ONE, OTHER, LATER_MS + 1) is Holding.PERHAPS
    assert liveness.holding(ONE, OTHER, LATER_MS + 1_200) is Holding.FREE
    liveness.heard(ONE, Heartbeat(), "x", LATER_MS + 100)
    liveness.closed("x")
    assert liveness.holding(ONE, OTHER, LATER_MS + 150) is Holding.FREE


def test_who_was_not_heard_by_a_controller_that_has_just_begun_has_a_moment() -> None:
    liveness = table()
    assert liveness.holding(ONE, PROVEN, BEGAN_MS) is Holding.PERHAPS
    assert liveness.holding(ONE, PROVEN, BEGAN_MS + 1_200) is Holding.FREE
    assert table().holding(ONE, PROVEN, LATER_MS) is Holding.FREE
