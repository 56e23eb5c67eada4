"""What one user holds over all connections, and how many there are; others do not notice."""

from mqcore.remoting.users import UserHold, Users

KIB = 1 << 10
LIMIT = 1_024 * KIB


class Readings:
    """Which connections are read no further."""

    def __init__(self) -> None:
        self.paused: list[str] = []
        self.users: Users[str] = Users(self.paused.append, self.paused.remove)
        self.users.bytes_max = lambda: LIMIT

    def has(self, user: str, *connections: str) -> None:
        for each in connections:
            assert self.users.seen(each, user)


def test_who_holds_too_much_is_read_no_further_and_others_are() -> None:
    them = Readings()
    them.has("shop", "s1", "s2")
    them.has("other", "o1")
    them.users.note_frames("s1", 600 * KIB)
    them.users.note_requests("s2", 600 * KIB)
    # The one that began first goes on to its end.
    assert them.paused == ["s2"]
    them.users.note_frames("o1", 600 * KIB)
    assert them.paused == ["s2"]
    assert them.users.most(1) == [UserHold("shop", 2, 1_200 * KIB, 1)]
    assert them.users.paused_count == 1
    them.users.note_frames("s1", 0)
    assert them.paused == []


def test_frames_and_requests_of_a_connection_count_together() -> None:
    them = Readings()
    them.has("shop", "s1", "s2")
    them.users.note_frames("s1", 100 * KIB)
    them.users.note_frames("s2", 500 * KIB)
    assert them.paused == []
    them.users.note_requests("s2", 500 * KIB)
    assert them.paused == ["s2"]
    them.users.note_requests("s2", 0)
    assert them.users.most(1)[0].held_bytes == 600 * KIB


def test_what_a_connection_holds_before_its_user_is_known_counts_from_then_on() -> None:
    them = Readings()
    them.has("shop", "s1")
    them.users.note_frames("s1", 1_000 * KIB)
    them.users.note_frames("s2", 1_000 * KIB)
    assert them.paused == []
    them.has("shop", "s2")
    assert them.paused == ["s2"]


def test_a_connection_that_ends_or_changes_its_user_holds_nothing_any_more() -> None:
    them = Readings()
    them.has("shop", "s1", "s2", "s3")
    for each in ("s1", "s2", "s3"):
        them.users.note_frames(each, 500 * KIB)
    assert them.paused == ["s2", "s3"]
    them.has("other", "s2")
    assert them.paused == ["s3"]
    them.users.forget("s1")
    assert them.paused == []
    for each in ("s2", "s3"):
        them.users.forget(each)
    assert them.users.most(9) == []


def test_the_bound_is_asked_for_each_time_and_nothing_is_none() -> None:
    them = Readings()
    them.users.bytes_max = lambda: 0
    them.has("shop", "s1", "s2")
    them.users.note_frames("s1", 100 * LIMIT)
    them.users.note_frames("s2", 100 * LIMIT)
    assert them.paused == []
    them.users.bytes_max = lambda: LIMIT
    them.users.note_frames("s2", 100 * LIMIT + 1)
    assert them.paused == ["s2"]


def test_a_user_has_so_many_connections_and_no_more() -> None:
    them = Readings()
    them.users.connections_max = lambda: 2
    them.has("shop", "s1", "s2")
    assert not them.users.seen("s3", "shop")
    assert them.users.seen("o1", "other")
    them.users.forget("s1")
    assert them.users.seen("s3", "shop")
    assert [(row.user, row.connections) for row in them.users.most(9)] == [
        ("shop", 2),
        ("other", 1),
    ]
