"""Who is read no further while unfinished frames take too much: the pure state, by its rules."""

from mqcore.remoting.frames import SMALL_BYTES, FramePart, Frames

KIB = 1 << 10
MIB = 1 << 20


class Read:
    """The connections that are read."""

    def __init__(self, limit_bytes: int) -> None:
        self.stopped: list[str] = []
        self.part: FramePart[str] = FramePart(
            limit_bytes, pause=self.stopped.append, resume=self.stopped.remove
        )


def test_a_full_part_stops_all_but_the_oldest() -> None:
    read = Read(10 * MIB)
    for at, name in enumerate("abc"):
        read.part.note(name, 3 * MIB, at)
    # An eighth is for small frames alone.
    assert read.stopped == ["c"]
    read.part.note("b", 4 * MIB, 1)
    assert read.stopped == ["c", "b"]
    read.part.note("a", 16 * MIB, 0)
    assert read.stopped == ["c", "b"]
    assert read.part.held_bytes == 23 * MIB


def test_the_next_oldest_goes_on_when_the_oldest_is_done() -> None:
    read = Read(4 * MIB)
    for at, name in enumerate("abc"):
        read.part.note(name, 2 * MIB, at)
    assert read.stopped == ["b", "c"]
    read.part.note("a", 0, 0)
    assert read.stopped == ["c"]
    # Its next frame is the youngest.
    read.part.note("a", 2 * MIB, 7)
    assert read.stopped == ["c", "a"]
    read.part.forget("b")
    assert read.stopped == ["a"]
    read.part.forget("c")
    assert read.stopped == []
    assert read.part.held_bytes == 2 * MIB


def test_another_frame_of_the_same_connection_goes_behind_the_others() -> None:
    read = Read(4 * MIB)
    read.part.note("a", 2 * MIB, 0)
    read.part.note("b", 2 * MIB, 0)
    assert read.stopped == ["b"]
    # The end of one frame and the begin of another came in one read.
    read.part.note("a", 2 * MIB, 1)
    assert read.stopped == ["a"]


def test_small_frames_are_read_while_large_ones_wait() -> None:
    read = Read(8 * MIB)
    read.part.note("a", 16 * MIB, 0)
    read.part.note("large", 7 * MIB, 0)
    assert read.stopped == ["large"]
    for at in range(16):
        read.part.note(f"small {at}", SMALL_BYTES, 0)
    # The oldest does not count here, however large it has become.
    assert read.stopped == ["large", "small 15"]


def test_free_space_resumes_only_as_many_as_fit() -> None:
    read = Read(16 * MIB)
    read.part.note("a", 15 * MIB, 0)
    for at in range(100):
        read.part.note(f"n{at}", 100 * KIB, 0)
    assert len(read.stopped) == 100
    read.part.note("a", 0, 0)
    # The oldest, and by what the hundred leave of 16 MiB; the others when these have read.
    reads = -(-(16 * MIB - 100 * 100 * KIB) // (256 * KIB))
    assert len(read.stopped) == 100 - 1 - reads


def test_who_has_asked_counts_in_the_other_part() -> None:
    stopped: list[str] = []
    frames: Frames[str] = Frames(2 * MIB, 4 * MIB, stopped.append, stopped.remove)
    frames.note("new", 2 * MIB, 0, has_asked=False)
    frames.note("known", 2 * MIB, 0, has_asked=True)
    assert (frames.first.held_bytes, frames.later.held_bytes) == (2 * MIB, 2 * MIB)
    frames.note("another", 1 * MIB, 0, has_asked=False)
    assert stopped == ["another"]
    # Its first frame is whole: what it holds now is of the second.
    frames.note("new", 1 * MIB, 1, has_asked=True)
    assert stopped == []
    assert (frames.first.held_bytes, frames.later.held_bytes) == (1 * MIB, 3 * MIB)
    for name in ("new", "known", "another"):
        frames.forget(name)
    assert frames.held_bytes == 0
