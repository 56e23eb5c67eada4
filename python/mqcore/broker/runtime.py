"""What the broker reports of itself: the table of the runtime request, and counters over time.

Functions of the state; `sample_totals` is called every second, `sample` every ten, `runtime_table`
when a tool asks.
"""

import asyncio
import shutil
from collections.abc import Generator, Iterable, Mapping

from mqcore.broker.deduplication import runtime_rows
from mqcore.broker.state import BrokerState
from mqcore.broker.statistics import DailyTotals
from mqcore.errors import MQError
from mqcore.model.topics import SCHEDULE_TOPIC
from mqcore.model.versions import version_name
from mqcore.native import QueueBounds, Stats, TimerProgress
from mqcore.remoting import in_slices

# Counters of the whole broker, keyed by the cluster as the official names have it.
PUT_TOTAL = "BROKER_PUT_NUMS"
GET_TOTAL = "BROKER_GET_NUMS"
TOPIC_PUT = "TOPIC_PUT_NUMS"
GROUP_GET = "GROUP_GET_NUMS"
# Totals of the fast path whose rates are reported, by its names for them.
_TOTALS = ("sends", "found", "missed", "pulled")
TIMER_ENTERED = "TIMER_ENQUEUE_NUMS"
TIMER_DELIVERED = "TIMER_DEQUEUE_NUMS"

# Spans of the time of a put, as the official table spells them.
_PUT_SPANS = (
    *("<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s"),
    *("1~2s", "2~3s", "3~4s", "4~5s", "5~10s", "10s~"),
)
# The official pools of threads: prefix in the table, and the setting of its queue's length.
_POOLS = ("send", "pull", "litePull", "query", "ack")

_MS_PER_S = 1_000
# Rows of a table that are looked at in one step.
_PER_STEP = 64
_S_PER_MINUTE = 60
_MINUTES_PER_HOUR = 60
_HOURS_PER_DAY = 24


def sample_totals(state: BrokerState) -> None:
    """Notes the running totals of the whole broker."""
    fast_path, now_ms = state.fast_path.stats(), state.now_ms()
    totals = {name: fast_path.get(name, 0) for name in _TOTALS}
    totals["gets"] = totals["found"] + totals["missed"]
    for name, total in totals.items():
        state.statistics.note_total(name, total, now_ms)


def sample(
    state: BrokerState, queues: Iterable[QueueBounds], timers: TimerProgress | None = None
) -> Generator[None, None, None]:
    """Notes the running totals: of the broker, of topics by their queues, of groups.

    Step by step: there may be many.

    Args:
        state: The broker.
        queues: Every queue of its store.
        timers: How far its timers are.
    """
    now_ms, numbers = state.now_ms(), state.statistics
    fast_path = state.fast_path.stats()
    cluster = state.settings.cluster
    numbers.note(PUT_TOTAL, cluster, fast_path.get("sends", 0), now_ms)
    numbers.note(GET_TOTAL, cluster, fast_path.get("pulled", 0), now_ms)
    kept = [(PUT_TOTAL, cluster), (GET_TOTAL, cluster)]
    if timers is not None:
        for name, total in ((TIMER_ENTERED, timers.entered), (TIMER_DELIVERED, timers.delivered)):
            numbers.note(name, cluster, total, now_ms)
            kept.append((name, cluster))
    totals: dict[str, int] = {}
    for at, queue in enumerate(queues):
        totals[queue.topic] = totals.get(queue.topic, 0) + queue.max_offset
        if at % _PER_STEP == 0:
            yield
    for at, (topic, total) in enumerate(totals.items()):
        numbers.note(TOPIC_PUT, topic, total, now_ms)
        kept.append((TOPIC_PUT, topic))
        if at % _PER_STEP == 0:
            yield
    for at, got in enumerate(state.fast_path.group_gets()):
        numbers.note(GROUP_GET, f"{got.topic}@{got.group}", got.messages, now_ms)
        kept.append((GROUP_GET, f"{got.topic}@{got.group}"))
        if at % _PER_STEP == 0:
            yield
    numbers.forget(kept)
    numbers.end_of_round(now_ms)


async def sampled(state: BrokerState) -> None:
    """Samples every counter; asks the store in a thread."""
    timers = state.timers
    progress = None if timers is None else await asyncio.to_thread(timers.progress)
    queues = await asyncio.to_thread(state.store.queues)
    await in_slices(sample(state, queues, progress))


def runtime_table(state: BrokerState, fast_path: Mapping[str, int]) -> dict[str, str]:
    """Returns the runtime table. Asks the kernel and reads the disk: runs in a thread.

    Args:
        state: The broker.
        fast_path: The figures of its fast path, which only the loop may ask for.
    """
    stats = state.store.stats()
    now_ms = state.now_ms()
    return {
        **_identity(state, now_ms),
        **_rates(state, fast_path),
        **_sends(fast_path),
        **_log(state, stats),
        **_delays(state),
        **_queues(state, fast_path),
        **_timers(state, now_ms + state.timers_ahead_ms),
        **runtime_rows(fast_path),
    }


def _identity(state: BrokerState, now_ms: int) -> dict[str, str]:
    version = state.version
    return {
        "bootTimestamp": str(state.boot_ms),
        "brokerActive": "true",
        "brokerVersion": str(version),
        "brokerVersionDesc": version_name(version),
        "runtime": elapsed_text(now_ms - state.boot_ms),
        "startAcceptSendRequestTimeStamp": str(state.settings.accepts_sends_from_ms),
    }


def _rates(state: BrokerState, fast_path: Mapping[str, int]) -> dict[str, str]:
    numbers = state.statistics
    table = {
        "getFoundTps": numbers.rate_text("found"),
        "getMissTps": numbers.rate_text("missed"),
        "getTotalTps": numbers.rate_text("gets"),
        # The spelling of 4.9, and that of 5.x.
        "getTransferedTps": numbers.rate_text("pulled"),
        "getTransferredTps": numbers.rate_text("pulled"),
        "putTps": numbers.rate_text("sends"),
    }
    for name, total in (("Get", "pulled"), ("Put", "sends")):
        days = numbers.days.get(total, DailyTotals())
        table |= {
            f"msg{name}TotalTodayMorning": str(days.today_morning),
            f"msg{name}TotalTodayNow": str(fast_path.get(total, 0)),
            f"msg{name}TotalYesterdayMorning": str(days.yesterday_morning),
        }
    return table


def _sends(fast_path: Mapping[str, int]) -> dict[str, str]:
    """What was stored. Tools want the times of single messages too, which are not measured: 0."""
    sends, size_bytes = fast_path.get("sends", 0), fast_path.get("send_bytes", 0)
    failed = sum(fast_path.get(name, 0) for name in ("refused_illegal", "refused_unavailable"))
    return {
        "getMessageEntireTimeMax": "0",
        "putLatency99": "0.00",
        "putLatency999": "0.00",
        "putMessageDistributeTime": " ".join(f"[{span}]:0" for span in _PUT_SPANS),
        "putMessageEntireTimeMax": "0",
        "putMessageAverageSize": str(size_bytes / max(1, sends)),
        "putMessageFailedTimes": str(failed),
        "putMessageSizeTotal": str(size_bytes),
        "putMessageTimesTotal": str(sends),
    }


def _log(state: BrokerState, stats: Stats) -> dict[str, str]:
    settings = state.settings
    usage = shutil.disk_usage(settings.store_dir)
    configured = settings.configuration.settings["storePathCommitLog"].shown
    log_dir = configured or settings.store_dir / "commitlog"
    ratio = str(usage.used / usage.total if usage.total else 0.0)
    earliest_ms = -1
    if stats.dispatched > stats.log_start:
        try:
            earliest_ms = state.store.message_at(stats.log_start).store_timestamp_ms
        except MQError:
            # Its file was removed just now; the next question finds the next one.
            earliest_ms = -1
    return {
        "commitLogDirCapacity": f"Total : {_size(usage.total)}, Free : {_size(usage.free)}.",
        "commitLogDiskRatio": ratio,
        f"commitLogDiskRatio_{log_dir}": ratio,
        "commitLogMaxOffset": str(stats.appended),
        "commitLogMinOffset": str(stats.log_start),
        "consumeQueueDiskRatio": ratio,
        "dispatchBehindBytes": str(stats.dispatch_lag_bytes),
        "dispatchMaxBuffer": "0",
        "earliestMessageTimeStamp": str(earliest_ms),
        "pageCacheLockTimeMills": str(stats.lock_held_ms),
        "remainHowManyDataToCommit": _size(stats.commit_lag_bytes),
        "remainHowManyDataToFlush": _size(stats.flush_lag_bytes),
        "remainTransientStoreBufferNumbs": str(stats.pool_buffers_free),
    }


def _delays(state: BrokerState) -> dict[str, str]:
    table = {}
    for level, offset in state.delays.offsets.items():
        high = state.bounds(SCHEDULE_TOPIC, level - 1)[1]
        table[f"scheduleMessageOffset_{level}"] = f"{offset},{high}"
    return table


def _queues(state: BrokerState, fast_path: Mapping[str, int]) -> dict[str, str]:
    """What the official broker queues for its threads is here what waits in the fast path.

    The capacities are those of the settings: nothing here is bounded by them.
    """
    settings = state.settings.configuration.settings
    waiting = {"send": fast_path.get("parked", 0), "pull": fast_path.get("held", 0)}
    table = {}
    for name in _POOLS:
        capacity = f"{name}ThreadPoolQueueCapacity"
        table[capacity] = settings[capacity].shown
        table[f"{name}ThreadPoolQueueSize"] = str(waiting.get(name, 0))
        table[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = "0"
    # Named so by the official broker.
    table["EndTransactionQueueSize"] = str(fast_path.get("ends_to_note", 0))
    table["EndTransactionThreadPoolQueueCapacity"] = settings[
        "endTransactionPoolQueueCapacity"
    ].shown
    return table


def _timers(state: BrokerState, now_ms: int) -> dict[str, str]:
    """How far the timers are; rates are those of the last minute."""
    timers = state.timers
    if timers is None:
        zeros = dict.fromkeys(("timerReadBehind", "timerOffsetBehind", "timerCongestNum"), "0")
        return zeros | dict.fromkeys(("timerEnqueueTps", "timerDequeueTps"), "0.0")
    progress = timers.progress()
    cluster = state.settings.cluster
    series = [state.statistics.find(each, cluster) for each in (TIMER_ENTERED, TIMER_DELIVERED)]
    rates = [0.0 if each is None else each.minute.per_second for each in series]
    return {
        "timerReadBehind": str(max(0, now_ms - progress.read_ms) // _MS_PER_S),
        "timerOffsetBehind": str(progress.behind),
        "timerCongestNum": str(progress.waiting),
        "timerEnqueueTps": f"{rates[0]:.1f}",
        "timerDequeueTps": f"{rates[1]:.1f}",
    }


def elapsed_text(elapsed_ms: int) -> str:
    """Returns a duration as the official table has it."""
    seconds = max(0, elapsed_ms) // _MS_PER_S
    minutes, seconds = divmod(seconds, _S_PER_MINUTE)
    hours, minutes = divmod(minutes, _MINUTES_PER_HOUR)
    days, hours = divmod(hours, _HOURS_PER_DAY)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _size(count: float) -> str:
    """Returns bytes with a unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1024
    return f"{count:.2f} TiB"
