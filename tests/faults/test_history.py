"""The checker of histories: a sound one passes, and each rule that is broken is found."""

from dataclasses import replace

import pytest

from faults.history import Commit, History, Kind, Outcome, Read, Reign, Replica, Send

T0 = ("T", 0)
T1 = ("T", 1)


def sound() -> History:
    """Returns a history with one of everything."""
    queues = {T0: {0: "a", 1: "b", 2: "u"}, T1: {0: "c", 1: "s"}}
    log = {0: "digest of the first file", 1024: "digest of the second one"}
    offsets = {("g", T0): 2}
    sends = [
        Send("p", "a", T0, Outcome.ACKNOWLEDGED, 0, began=1, ended=2),
        Send("p", "b", T0, Outcome.ACKNOWLEDGED, 1, began=3, ended=4),
        Send("p", "c", T1, Outcome.ACKNOWLEDGED, 0, began=3, ended=5),
        Send("q", "s", T1, Outcome.STORED, 1, began=3, ended=5),
        Send("q", "r", T1, Outcome.REFUSED, began=6, ended=7),
        Send("q", "u", T0, Outcome.UNKNOWN, began=6, ended=9, tries=2),
    ]
    members = [
        Replica("master", queues, log, offsets=offsets),
        Replica("slave", queues, log, offsets=offsets),
    ]
    late = Replica("late", {T0: {0: "a"}}, {0: "other"}, is_member=False)
    return History(
        sends,
        [Read(T0, 0, "a"), Read(T1, 0, "c")],
        [Commit("g", T0, 2, at=10.0), Commit("g", T0, 3, at=49.0)],
        [*members, late],
        commits_lost_s=10.0,
        crashes=[50.0],
    )


def kinds(history: History) -> set[Kind]:
    """Returns which rules are broken."""
    return {violation.kind for violation in history.violations()}


def with_queues(history: History, at: int, **queues: dict[int, str]) -> None:
    """Changes queues of a replica: `t0`, `t1`."""
    names = {"t0": T0, "t1": T1}
    changed = {**history.replicas[at].queues, **{names[k]: v for k, v in queues.items()}}
    history.replicas[at] = replace(history.replicas[at], queues=changed)


def test_a_sound_history_breaks_no_rule() -> None:
    assert sound().violations() == []


def test_what_was_acknowledged_and_is_not_at_one_member_is_lost() -> None:
    history = sound()
    with_queues(history, 1, t0={0: "a", 1: "b"}, t1={})
    assert kinds(history) == {Kind.LOST, Kind.READ_LOST}
    (lost, *_) = [each for each in history.violations() if each.kind is Kind.LOST]
    assert "slave" in lost.text
    assert "'c'" in lost.text


def test_an_acknowledged_message_at_another_offset_is_lost() -> None:
    history = sound()
    history.sends[2] = replace(history.sends[2], offset=4)
    assert kinds(history) == {Kind.LOST}


def test_an_offset_that_has_shown_two_messages_is_found_wherever_they_were_seen() -> None:
    for change in ("read", "answer", "replica"):
        history = sound()
        if change == "read":
            history.reads.append(Read(T0, 2, "z"))
        elif change == "answer":
            history.sends.append(Send("x", "z", T0, Outcome.STORED, 2))
        else:
            with_queues(history, 2, t0={0: "z"})
        assert Kind.TWO_MESSAGES in kinds(history), change


def test_what_was_read_and_is_gone_is_found() -> None:
    history = sound()
    history.reads.append(Read(T0, 3, "gone"))
    assert kinds(history) == {Kind.READ_LOST}


def test_messages_of_one_producer_out_of_order_are_found_and_those_at_once_are_not() -> None:
    history = sound()
    history.sends[0] = replace(history.sends[0], began=5, ended=6)
    assert kinds(history) == {Kind.ORDER}
    history.sends[0] = replace(history.sends[0], began=2, ended=6)
    assert kinds(history) == set()
    history.sends[0] = replace(history.sends[0], producer="other", began=5, ended=6)
    assert kinds(history) == set()


def test_a_message_is_there_once_per_try_at_the_most() -> None:
    history = sound()
    for at in (0, 1):
        with_queues(history, at, t0={0: "a", 1: "b", 2: "u", 3: "u"})
    assert kinds(history) == set()
    for at in (0, 1):
        with_queues(history, at, t0={0: "a", 1: "b", 2: "u", 3: "u", 4: "u"})
    assert kinds(history) == {Kind.TWICE}


def test_a_message_that_was_surely_refused_is_nowhere() -> None:
    history = sound()
    for at in (0, 1):
        with_queues(history, at, t1={0: "c", 1: "s", 2: "r"})
    assert kinds(history) == {Kind.TWICE}


def test_a_hole_in_a_queue_is_found() -> None:
    history = sound()
    for at in (0, 1):
        with_queues(history, at, t0={0: "a", 1: "b", 4: "u"})
    assert kinds(history) == {Kind.HOLE}


@pytest.mark.parametrize("at", [0, 1024])
def test_logs_that_differ_are_found_in_what_both_have(at: int) -> None:
    history = sound()
    log = {**history.replicas[1].log, at: "another", 4096: "what the master has not"}
    history.replicas[1] = replace(history.replicas[1], log=log)
    (found,) = history.violations()
    assert found.kind is Kind.LOGS
    assert str(at) in found.text


def test_what_a_verification_finds_is_a_violation() -> None:
    history = sound()
    history.replicas[0] = replace(history.replicas[0], problems=["queue T 0 ends early"])
    assert kinds(history) == {Kind.LOGS}


def test_offsets_fall_by_what_was_committed_last_alone() -> None:
    history = sound()
    history.replicas[1] = replace(history.replicas[1], offsets={("g", T0): 1})
    assert kinds(history) == {Kind.OFFSETS}
    history.replicas[1] = replace(history.replicas[1], offsets={})
    assert kinds(history) == {Kind.OFFSETS}
    history.replicas[1] = replace(history.replicas[1], offsets={("g", T0): 4})
    assert kinds(history) == {Kind.OFFSETS}, "beyond the end of the queue"
    history.replicas[1] = replace(history.replicas[1], offsets={("g", T0): 3})
    assert kinds(history) == set()


def test_what_was_stored_without_a_promise_may_be_cut_where_logs_are() -> None:
    history = sound()
    for at in (0, 1):
        with_queues(history, at, t1={0: "c", 1: "u"}, t0={0: "a", 1: "b"})
    assert kinds(history) == {Kind.TWO_MESSAGES}
    assert kinds(replace(history, are_cut=True)) == set()
    for at in (0, 1):
        with_queues(history, at, t1={0: "u", 1: "c"}, t0={0: "a", 1: "b"})
    assert Kind.TWO_MESSAGES in kinds(replace(history, are_cut=True))


def test_an_epoch_has_one_writer_and_one_begin() -> None:
    history = sound()
    reigns = {1: Reign(0, frozenset({"m"})), 2: Reign(1024, frozenset())}
    for at in (0, 1):
        history.replicas[at] = replace(history.replicas[at], reigns=reigns)
    assert kinds(history) == set()
    other = {**reigns, 1: Reign(0, frozenset({"n"}))}
    history.replicas[1] = replace(history.replicas[1], reigns=other)
    assert kinds(history) == {Kind.REIGN}
    history.replicas[1] = replace(history.replicas[1], reigns={2: Reign(512, frozenset())})
    assert kinds(history) == {Kind.REIGN}
