"""Completions that are awaited: through the wake descriptor, in the order of the log."""

import asyncio
from pathlib import Path

import pytest

from mqcore import Store
from mqcore.native.errors import StoreClosedError
from small_store import SMALL

SYNC = {**SMALL, "flushDiskType": "SYNC_FLUSH"}
# Far beyond what a sync takes: a wait that is never answered fails instead of hanging.
ANSWER_SECONDS = 60.0


def test_completions_of_synced_appends_come_in_order(tmp_path: Path) -> None:
    order: list[int] = []

    async def one(store: Store, number: int) -> str:
        appended = store.append("topic", b"body", wait=False)
        status = await store.durable(appended)
        assert store.stats().flushed >= appended.end
        order.append(number)
        return status

    async def work(store: Store) -> list[str]:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await asyncio.gather(*(one(store, number) for number in range(200)))

    with Store(tmp_path, config=SYNC) as store:
        assert asyncio.run(work(store)) == ["PUT_OK"] * 200
        # One sync answers many: far fewer syncs than messages.
        assert store.stats().syncs < 200
        assert store.stats().parked == 0
    assert order == sorted(order)


def test_without_synchronous_flush_the_answer_comes_at_once(tmp_path: Path) -> None:
    async def work(store: Store) -> str:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await store.durable(store.append("topic", b"body").end)

    with Store(tmp_path, config=SMALL) as store:
        assert asyncio.run(work(store)) == "PUT_OK"
        # The next loop takes over when the first is gone.
        assert asyncio.run(work(store)) == "PUT_OK"


def test_with_a_pool_the_answer_means_committed(tmp_path: Path) -> None:
    async def work(store: Store) -> str:
        appended = store.append("topic", b"body", wait=False)
        async with asyncio.timeout(ANSWER_SECONDS):
            status = await store.durable(appended)
        assert store.stats().committed >= appended.end
        return status

    config = {**SMALL, "transientStorePoolEnable": True, "transientStorePoolSize": 3}
    with Store(tmp_path, config=config) as store:
        assert asyncio.run(work(store)) == "PUT_OK"


def test_a_time_out_is_a_status(tmp_path: Path) -> None:
    async def work(store: Store) -> str:
        async with asyncio.timeout(ANSWER_SECONDS):
            # Nothing will ever be appended there.
            return await store.durable(1 << 40)

    with Store(tmp_path, config={**SYNC, "syncFlushTimeout": 20}) as store:
        assert asyncio.run(work(store)) == "FLUSH_DISK_TIMEOUT"


def test_a_cancelled_wait_leaves_nothing(tmp_path: Path) -> None:
    async def work(store: Store) -> str:
        waiting = asyncio.create_task(store.durable(1 << 40))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with asyncio.timeout(ANSWER_SECONDS):
            return await store.durable(store.append("topic", b"body", wait=False))

    with Store(tmp_path, config=SYNC) as store:
        assert asyncio.run(work(store)) == "PUT_OK"


def test_closing_answers_those_who_wait(tmp_path: Path) -> None:
    async def work(store: Store) -> str:
        stored = asyncio.create_task(store.durable(store.append("topic", b"body", wait=False)))
        never = asyncio.create_task(store.durable(1 << 40))
        await asyncio.sleep(0)
        store.close()
        async with asyncio.timeout(ANSWER_SECONDS):
            with pytest.raises(StoreClosedError):
                await never
            return await stored

    assert asyncio.run(work(Store(tmp_path, config=SYNC))) == "PUT_OK"


def test_one_loop_at_a_time(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        first = asyncio.new_event_loop()
        try:
            appended = store.append("topic", b"body")
            assert first.run_until_complete(store.durable(appended)) == "PUT_OK"
            with pytest.raises(RuntimeError, match="another event loop"):
                asyncio.run(store.durable(appended))
        finally:
            store.close()
            first.close()
