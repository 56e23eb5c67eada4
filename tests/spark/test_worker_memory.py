"""What workers have loaded is out of the collector's sight, and nothing else."""

import gc
from collections.abc import Iterator

import pytest
from pyspark import TaskContext

from mqcore.spark import worker_memory


@pytest.fixture(autouse=True)
def _as_found() -> Iterator[None]:
    worker_memory._freeze.cache_clear()
    yield
    gc.unfreeze()
    worker_memory._freeze.cache_clear()


def test_nothing_is_set_apart_outside_of_tasks() -> None:
    before = gc.get_freeze_count()
    worker_memory.set_apart()
    assert gc.get_freeze_count() == before


def test_a_worker_sets_apart_what_is_loaded_at_its_first_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TaskContext, "get", TaskContext)
    worker_memory.set_apart()
    first = gc.get_freeze_count()
    assert first > 10_000
    made: list[object] = []
    made.append(made)
    worker_memory.set_apart()
    assert gc.get_freeze_count() <= first, "what later tasks make is collected"
    assert any(found is made for found in gc.get_objects())
