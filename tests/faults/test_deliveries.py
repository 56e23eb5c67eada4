"""The checker of deliveries finds each broken rule, and nothing in what is as it should be."""

from dataclasses import replace

from faults.deliveries import Deliveries, Given, Job, Kind, Stored


def sound() -> Deliveries:
    """Two delayed messages, one rolled back, two in order; one change of role."""
    return Deliveries(
        jobs=[
            Job("D", "a", due_ms=1_000),
            Job("D", "b", due_ms=2_000),
            Job("C", "c", due_ms=0, is_wanted=False),
            Job("O", "x", due_ms=0),
            Job("O", "y", due_ms=0),
        ],
        stored=[
            Stored("D", "a", 1_000),
            Stored("D", "b", 2_050),
            Stored("O", "x", 10),
            Stored("O", "y", 20),
        ],
        given=[
            Given("D", "a"),
            Given("D", "b", offset=1),
            Given("O", "x"),
            Given("O", "y", offset=1),
            Given("O", "x"),
        ],
        changes_ms=[(2_000.0, 2_100.0)],
        grace_ms={"D": 1_500.0},
        ordered=["O"],
    )


def kinds(seen: Deliveries) -> set[Kind]:
    return {flaw.kind for flaw in seen.flaws()}


def test_what_is_sound_has_no_flaw_and_doubles_are_counted() -> None:
    seen = sound()
    assert seen.flaws() == []
    assert seen.doubles() == {"D": (2, 0, 0), "C": (1, 0, 0), "O": (2, 0, 1)}


def test_what_is_nowhere_or_was_given_to_nobody_is_lost() -> None:
    seen = sound()
    del seen.stored[1]
    assert kinds(seen) == {Kind.LOST}
    seen = sound()
    del seen.given[1]
    assert kinds(seen) == {Kind.LOST}


def test_a_copy_before_its_time_is_early() -> None:
    seen = sound()
    seen.stored[0] = replace(seen.stored[0], stored_ms=999)
    assert kinds(seen) == {Kind.EARLY}


def test_what_was_rolled_back_is_unwanted() -> None:
    seen = sound()
    seen.stored.append(Stored("C", "c", 5))
    assert kinds(seen) == {Kind.UNWANTED}


def test_a_second_copy_is_explained_by_a_change_that_came_soon_behind_the_first() -> None:
    seen = sound()
    seen.stored.append(Stored("D", "a", 3_000))
    assert kinds(seen) == set()
    assert seen.doubles()["D"] == (2, 1, 0)
    # Too late, behind the second copy, before the first one.
    for began_ms, ended_ms in ((2_600.0, 2_700.0), (3_001.0, 3_002.0), (900.0, 999.0)):
        assert kinds(replace(seen, changes_ms=[(began_ms, ended_ms)])) == {Kind.AGAIN}
    assert kinds(replace(seen, changes_ms=[(900.0, 1_000.0)])) == set()
    assert kinds(replace(seen, grace_ms={})) == {Kind.AGAIN}
    # Its producer had to send it again.
    seen.jobs[0] = replace(seen.jobs[0], is_sent_once=False)
    assert kinds(replace(seen, grace_ms={})) == set()


def test_a_message_that_is_passed_over_in_order_is_found() -> None:
    seen = sound()
    seen.given[2], seen.given[3] = seen.given[3], seen.given[2]
    assert kinds(seen) == {Kind.SKIPPED}
