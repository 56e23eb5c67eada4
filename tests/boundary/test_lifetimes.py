"""What was handed out stays good: messages outlive their files; a forked child is refused."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from mqcore import Store
from mqcore.native import OffsetRange
from mqcore.native.errors import BodyTooLargeError, ForkedError
from small_store import SEGMENT_LEN_BYTES, SMALL, body_of, filled


def test_messages_outlive_their_file_and_the_store(tmp_path: Path) -> None:
    store = Store(tmp_path, config=SMALL)
    filled(store, 2_500)
    got = store.get("topic", 0, 0).messages
    batch = next(store.scan())
    store.flush()
    removed = store.remove_oldest(max_files=1)
    assert (removed.log_files, removed.log_bytes) == (1, SEGMENT_LEN_BYTES)
    assert removed.unread_bytes == 0
    assert not (tmp_path / "commitlog" / ("0" * 20)).exists()
    assert store.get("topic", 0, 0).status == "OFFSET_TOO_SMALL"
    assert [message.body for message in got] == [body_of(number) for number in range(len(got))]
    store.close()
    del store
    assert batch[5].body == body_of(5)
    assert batch.stored_bodies[7] == body_of(7)


def test_retention_reports_what_nobody_had_read(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        filled(store, 2_500)
        store.flush()
        removed = store.remove_oldest(max_files=1, unread_from=1_000)
        assert (removed.log_files, removed.log_bytes) == (1, SEGMENT_LEN_BYTES)
        assert removed.unread_bytes == SEGMENT_LEN_BYTES - 1_000


def in_child(work: Callable[[], bool]) -> bool:
    """Runs `work` in a forked child and returns what it returned."""
    with warnings.catch_warnings():
        # Python warns of forks in processes with threads: that is what is tested.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 2
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def test_a_forked_child_is_refused_with_its_parents_id(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        filled(store, 10)
        message = store.get("topic", 0, 0).messages[0]
        batch = next(store.scan())
        parent = os.getpid()

        def refused(call: Callable[[], object]) -> bool:
            try:
                call()
            except ForkedError as error:
                return error.opener == parent
            return False

        def work() -> bool:
            return all(
                refused(call)
                for call in (
                    lambda: store.append("topic", b"body"),
                    lambda: store.get("topic", 0, 0),
                    lambda: message.body,
                    lambda: batch[0].topic,
                    lambda: batch.stored_bodies,
                    store.close,
                )
            )

        assert in_child(work)
        # The parent's store is as it was.
        assert store.append("topic", b"body").queue_offset == 10


def test_a_child_that_lets_its_parents_store_go_ends(tmp_path: Path) -> None:
    stores = [Store(tmp_path, config=SMALL)]
    stores[0].append("topic", b"body")

    def work() -> bool:
        stores.clear()
        return True

    assert in_child(work)
    assert stores[0].close()


@pytest.mark.parametrize("_round", range(25))
def test_a_child_may_open_its_own(tmp_path: Path, _round: int) -> None:
    # Rounds: what a fork leaves behind of the parent's threads depends on where they just were.
    with Store(tmp_path / "parents", config=SMALL) as store:
        store.append("topic", b"body")

        def work() -> bool:
            with Store(tmp_path / "childs", config=SMALL) as own:
                filled(own, 20)
                return own.append("topic", b"body").status == "PUT_OK"

        assert in_child(work)
        assert store.append("topic", b"body").queue_offset == 1


def test_a_store_that_was_not_closed_is_as_after_a_kill(tmp_path: Path) -> None:
    store = Store(tmp_path, config=SMALL)
    filled(store, 100)
    del store
    assert (tmp_path / "abort").exists()
    with Store(tmp_path, config=SMALL) as again:
        assert not again.open_report().was_clean
        assert again.bounds("topic", 0) == OffsetRange(0, 100)


def test_leaving_the_block_closes(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        store.append("topic", b"body")
    assert store.is_closed
    assert not (tmp_path / "abort").exists()
    with pytest.raises(BodyTooLargeError), Store(tmp_path, config=SMALL) as store:
        store.append("topic", bytes(70_000))
    assert store.is_closed
    assert not (tmp_path / "abort").exists()
