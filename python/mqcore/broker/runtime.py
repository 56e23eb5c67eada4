"""What the broker reports of itself: the table of the runtime request, and counters over time.

Functions of the state; `sample_totals` is called every second, `sample` every ten, `runtime_table`
when a tool asks.
"""

import asyncio
import shutil
from collections.abc import Generator, Mapping

from mqcore.broker.deduplication import runtime_rows
from mqcore.broker.durations import percentile_us, spans_text
from mqcore.broker.state import BrokerState
from mqcore.broker.statistics import DailyTotals
from mqcore.errors import MQError
from mqcore.model.topics import RETRY_PREFIX, SCHEDULE_TOPIC
from mqcore.model.versions import version_name
from mqcore.native import GroupGets, Stats, TimerProgress
from mqcore.remoting import in_slices

# Counters of the whole broker, keyed by the cluster as the official names have it.
PUT_TOTAL = "BROKER_PUT_NUMS"
GET_TOTAL = "BROKER_GET_NUMS"
# The same without what belongs to the broker.
PUT_OF_USERS = "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"
GET_OF_USERS = "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC"
TOPIC_PUT = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE = "TOPIC_PUT_SIZE"
GROUP_GET = "GROUP_GET_NUMS"
GROUP_GET_SIZE = "GROUP_GET_SIZE"
SENT_BACK = "SNDBCK_PUT_NUMS"
DEAD = "DLQ_PUT_NUMS"
# Messages that came back once too often; whose they are is not known, which is `null` in the key.
SENT_BACK_DEAD = "SNDBCK2DLQ_TIMES"
_SENT_BACK_DEAD_KEY = "null@{topic}@{group}@SEND_BACK_TO_DLQ"
GROUP_ACK, ACK_TOTAL = "GROUP_ACK_NUMS", "BROKER_ACK_NUMS"
GROUP_POINTS, POINTS_TOTAL = "GROUP_CK_NUMS", "BROKER_CK_NUMS"
QUEUE_PUT, QUEUE_PUT_SIZE = "QUEUE_PUT_NUMS", "QUEUE_PUT_SIZE"
# How long requests took, ms; keys begin with the queue.
TOPIC_PUT_LATENCY, GROUP_GET_LATENCY = "TOPIC_PUT_LATENCY", "GROUP_GET_LATENCY"
# With more queues than this those of single queues are left out: series are bounded, and topics and
# groups come first.
QUEUES_COUNTED_MAX = 4_000
# Totals of the fast path whose rates are reported, by its names for them.
_TOTALS = ("sends", "found", "missed", "pulled")
TIMER_ENTERED = "TIMER_ENQUEUE_NUMS"
TIMER_DELIVERED = "TIMER_DEQUEUE_NUMS"

# The official pools of threads: prefix in the table, and the setting of its queue's length.
_POOLS = ("send", "pull", "litePull", "query", "ack")

_MS_PER_S = 1_000
_US_PER_MS = 1_000
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


class _Round:
    """One round of samples: which counters there are now."""

    def __init__(self, state: BrokerState) -> None:
        self._numbers = state.statistics
        self._now_ms = state.now_ms()
        self._kept: list[tuple[str, str]] = []

    def note(self, name: str, key: str, total: int, times: int | None = None) -> None:
        """Takes a running total, and how many additions made it where that is another number."""
        self._numbers.note(name, key, total, self._now_ms, times)
        self._kept.append((name, key))

    def end(self) -> None:
        """Drops the counters that were not noted."""
        self._numbers.forget(self._kept)
        self._numbers.end_of_round(self._now_ms)


def sample(state: BrokerState, timers: TimerProgress | None = None) -> Generator[None, None, None]:
    """Notes the running totals: of the broker, of topics, of groups (`BrokerStatsManager`).

    Step by step: there may be many.

    Args:
        state: The broker.
        timers: How far its timers are.
    """
    noted, cluster = _Round(state), state.settings.cluster
    fast_path = state.fast_path.stats()
    noted.note(PUT_TOTAL, cluster, fast_path.get("sends", 0))
    noted.note(GET_TOTAL, cluster, fast_path.get("pulled", 0))
    if timers is not None:
        noted.note(TIMER_ENTERED, cluster, timers.entered)
        noted.note(TIMER_DELIVERED, cluster, timers.delivered)
    topics: dict[str, tuple[int, int]] = {}
    of_users = 0
    for at, sent in enumerate(state.fast_path.times.topics()):
        messages, size = topics.get(sent.topic, (0, 0))
        topics[sent.topic] = messages + sent.messages, size + sent.bytes
        of_users += 0 if state.topics.is_system(sent.topic) else sent.messages
        if at % _PER_STEP == 0:
            yield
    noted.note(PUT_OF_USERS, cluster, of_users)
    queues_left = queues_max = QUEUES_COUNTED_MAX if state.settings.counts_queues else 0
    for at, (topic, (messages, size)) in enumerate(topics.items()):
        noted.note(TOPIC_PUT, topic, messages)
        noted.note(TOPIC_PUT_SIZE, topic, size, messages)
        if at % _PER_STEP == 0:
            yield
    of_users = 0
    for at, got in enumerate(state.fast_path.group_gets()):
        key = f"{got.topic}@{got.group}"
        noted.note(GROUP_GET, key, got.messages)
        noted.note(GROUP_GET_SIZE, key, got.bytes, got.messages)
        of_users += 0 if state.topics.is_system(got.topic) else got.messages
        queues_left = _noted_pulls(noted, got, key, queues_left)
        if at % _PER_STEP == 0:
            yield
    noted.note(GET_OF_USERS, cluster, of_users)
    yield from _noting_pairs(noted, state)
    for at, sent_to in enumerate(state.fast_path.times.queues(queues_max)):
        key = f"{sent_to.topic}@{sent_to.queue_id}"
        noted.note(QUEUE_PUT, key, sent_to.messages)
        noted.note(QUEUE_PUT_SIZE, key, sent_to.bytes, sent_to.messages)
        if sent_to.answers:
            key = f"{sent_to.queue_id}@{sent_to.topic}"
            noted.note(TOPIC_PUT_LATENCY, key, sent_to.answers_us // _US_PER_MS, sent_to.answers)
        if at % _PER_STEP == 0:
            yield
    for name, key, total, times in state.tallies.rows():
        noted.note(name, key, total, times)
    noted.end()


def _noted_pulls(noted: _Round, got: GroupGets, key: str, queues_left: int) -> int:
    """Notes how long the pulls of a group took; returns how many queues may be noted after it.

    By queue where single queues are counted, as officially, and else for all of the topic together.
    """
    pulled = [(at, each) for at, each in enumerate(got.pulls) if each]
    if not pulled:
        return queues_left
    if len(pulled) > queues_left:
        noted.note(GROUP_GET_LATENCY, key, sum(got.pulls_us) // _US_PER_MS, sum(got.pulls))
        return queues_left
    for at, pulls in pulled:
        noted.note(GROUP_GET_LATENCY, f"{at}@{key}", got.pulls_us[at] // _US_PER_MS, pulls)
    return queues_left - len(pulled)


def _noting_pairs(noted: _Round, state: BrokerState) -> Generator[None, None, None]:
    """Notes what groups gave back and acknowledged, by topic and group."""
    acks = points = 0
    for at, given in enumerate(state.fast_path.times.given_back()):
        if at % _PER_STEP == 0:
            yield
        key = f"{given.topic}@{given.group}"
        acks += given.acked
        points += given.points
        for name, count in (
            (SENT_BACK, given.retried),
            (DEAD, given.dead),
            (GROUP_ACK, given.acked),
            (GROUP_POINTS, given.points),
        ):
            if count:
                noted.note(name, key, count)
        if given.dead and not given.topic.startswith(RETRY_PREFIX):
            key = _SENT_BACK_DEAD_KEY.format(topic=given.topic, group=given.group)
            noted.note(SENT_BACK_DEAD, key, given.dead)
    for name, count in ((ACK_TOTAL, acks), (POINTS_TOTAL, points)):
        if count:
            noted.note(name, state.settings.cluster, count)


async def sampled(state: BrokerState) -> None:
    """Samples every counter."""
    timers = state.timers
    progress = None if timers is None else await asyncio.to_thread(timers.progress)
    await in_slices(sample(state, progress))


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
        **_sends(state, fast_path),
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


def _sends(state: BrokerState, fast_path: Mapping[str, int]) -> dict[str, str]:
    """What was stored, and how long that took since the start (`StoreStatsService`)."""
    sends, size_bytes = fast_path.get("sends", 0), fast_path.get("send_bytes", 0)
    failed = sum(fast_path.get(name, 0) for name in ("refused_illegal", "refused_unavailable"))
    stages = {(each.kind, each.stage): each for each in state.fast_path.times.stages()}
    appended, read = stages.get(("send", "appended")), stages.get(("pull", "read"))
    counts, max_us = ((), 0) if appended is None else (appended.counts, appended.max_us)
    latencies = {
        name: f"{percentile_us(counts, share, max_us) / _US_PER_MS:.2f}"
        for name, share in (("putLatency99", 0.99), ("putLatency999", 0.999))
    }
    return {
        "getMessageEntireTimeMax": str(0 if read is None else read.max_us // _US_PER_MS),
        **latencies,
        "putMessageDistributeTime": spans_text(counts),
        "putMessageEntireTimeMax": str(max_us // _US_PER_MS),
        "putMessageAverageSize": str(size_bytes / max(1, sends)),
        "putMessageFailedTimes": str(failed),
        "putMessageSizeTotal": str(size_bytes),
        "putMessageTimesTotal": str(sends),
    }


def _used_share(used_bytes: int, usable_bytes: int) -> float:
    """Returns how full a disk is, in whole percents (`getDiskPartitionSpaceUsedPercent`)."""
    whole = used_bytes + usable_bytes
    return -(-used_bytes * 100 // whole) / 100 if whole else 0.0


def _log(state: BrokerState, stats: Stats) -> dict[str, str]:
    settings = state.settings
    usage = shutil.disk_usage(settings.store_dir)
    configured = settings.configuration.settings["storePathCommitLog"].shown
    log_dir = configured or settings.store_dir / "commitlog"
    ratio = str(_used_share(usage.used, usage.free))
    earliest_ms = -1
    if stats.dispatched > stats.log_start:
        try:
            earliest_ms = state.store.message_at(stats.log_start).store_timestamp_ms
        except MQError:
            # Its file was removed just now; the next question finds the next one.
            earliest_ms = -1
    return {
        # What is reserved for the superuser is free, and is not usable (`File.getFreeSpace`).
        "commitLogDirCapacity": (
            f"Total : {_size(usage.total)}, Free : {_size(usage.total - usage.used)}."
        ),
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
