"""What holds the memory of a broker: its owners, counted, each beside what it keeps.

What is counted in bytes is exact; the rest is a count times the usual size of one, which the
constants here have with the way in which they were measured. Runs on the event loop, whose tables
it counts. Knows no request.
"""

import sys
from collections.abc import Mapping
from typing import Final

from mqcore.broker.state import BrokerState
from mqcore.native import Stats
from mqcore.occupancy import Held

__all__ = ["held_by_owners"]

# The usual size of one. Topics, groups and offsets were measured as growth of RssAnon over
# thousands of them (x86-64, CPython 3.11); the others are about the type and its heap.
# What Rust keeps of one; the objects that Python has of it are Python's.
_CONNECTION_BYTES: Final = 600
_PARKED_BYTES: Final = 240
_HELD_BYTES: Final = 500
_DEFERRED_BYTES: Final = 2_048
_OFFSETS_PAIR_BYTES: Final = 220
_OFFSET_BYTES: Final = 20
_POP_BYTES: Final = 200
_REPEAT_BYTES: Final = 32
_END_BYTES: Final = 90
_QUEUE_BYTES: Final = 700
_TOPIC_BYTES: Final = 540
_GROUP_BYTES: Final = 1_170
_CLIENT_BYTES: Final = 1_024
# A block of CPython's allocator, by `sys._debugmallocstats` of a broker that runs.
_BLOCK_BYTES: Final = 110
# Of each event loop and reactor (`RECEIVE_BYTES` in the bindings).
_RECEIVE_BYTES: Final = 256 * 1024
# Threads of the interpreter and of Rust touch so much of their stacks.
_STACK_BYTES: Final = 32 * 1024
_PYTHON: Final = "Python objects"


def held_by_owners(
    state: BrokerState,
    fast_path: Mapping[str, int],
    offsets: Mapping[str, Mapping[int, int]],
    stats: Stats,
    threads: int,
) -> list[Held]:
    """Returns what holds the anonymous memory of a broker, the largest first. Bytes.

    Args:
        state: The broker; tables are only counted.
        fast_path: The figures of its fast path.
        offsets: Its consumer offsets.
        stats: The figures of its store.
        threads: How many threads the process has.
    """
    queued, pinned = fast_path.get("queued_bytes", 0), fast_path.get("pinned_bytes", 0)
    receivers = 1 + len(state.fast_path.connections_of_reactors())
    pool = stats.pool_buffers * (stats.segments[-1].len_bytes if stats.segments else 0)
    members = state.members
    clients = sum(len(each) for each in members.producers.values())
    clients += sum(len(each.clients) for each in members.consumers.values())
    rows = [
        Held(_PYTHON, sys.getallocatedblocks(), sys.getallocatedblocks() * _BLOCK_BYTES),
        _counted("topics", len(state.topics.topics), _TOPIC_BYTES, _PYTHON),
        _counted("consumer groups", len(state.groups.groups), _GROUP_BYTES, _PYTHON),
        _counted("members of groups", clients, _CLIENT_BYTES, _PYTHON),
        _counted("connections", fast_path.get("connections", 0), _CONNECTION_BYTES),
        Held("receive buffers", receivers, receivers * _RECEIVE_BYTES, True),
        Held("unfinished requests", None, fast_path.get("half_frames_bytes", 0), True),
        Held("answers not yet written", None, max(0, queued - pinned), True),
        _counted("parked sends", fast_path.get("parked", 0), _PARKED_BYTES),
        _counted("held pulls", fast_path.get("held", 0), _HELD_BYTES),
        _counted("held pops", fast_path.get("pops_held", 0), _HELD_BYTES),
        _counted("requests that wait for a log file", _deferred(fast_path), _DEFERRED_BYTES),
        _offsets(offsets),
        _counted("messages popped, not acknowledged", fast_path.get("pops_open", 0), _POP_BYTES),
        _counted("ended transactions", fast_path.get("ends_remembered", 0), _END_BYTES),
        _counted("remembered sends", fast_path.get("repeat_keys", 0), _REPEAT_BYTES),
        _counted("queues", stats.queues, _QUEUE_BYTES),
        Held("queue units not yet written", None, stats.queue_pending_bytes, True),
        Held("buffers of the transient pool", stats.pool_buffers, pool, True),
        _counted("stacks of threads", threads, _STACK_BYTES),
    ]
    return sorted(rows, key=lambda each: -each.bytes)


def _counted(owner: str, count: int, each_bytes: int, part_of: str = "") -> Held:
    return Held(owner, count, count * each_bytes, part_of=part_of)


def _deferred(fast_path: Mapping[str, int]) -> int:
    return fast_path.get("deferred", 0) + fast_path.get("filtered_waiting", 0)


def _offsets(offsets: Mapping[str, Mapping[int, int]]) -> Held:
    count = sum(map(len, offsets.values()))
    size = len(offsets) * _OFFSETS_PAIR_BYTES + count * _OFFSET_BYTES
    return Held("consumer offsets", count, size)
