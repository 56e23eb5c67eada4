"""Which queues are read, and from where to where: options and what brokers answer, into offsets.

Precedence as in Kafka's source: one time for all queues, then times per queue, then offsets.
"""

import re
from collections.abc import Iterable, Mapping

from mqcore.errors import NoRouteError
from mqcore.model.queues import MessageQueue
from mqcore.model.topics import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    DLQ_PREFIX,
    RETRY_PREFIX,
    SYSTEM_PREFIX,
    UNSENDABLE_TOPICS,
)
from mqcore.spark.errors import SparkError
from mqcore.spark.options import OptionError
from mqcore.spark.topic_source.cluster import Cluster, QueueBounds
from mqcore.spark.topic_source.options import ReadOptions
from mqcore.spark.topic_source.queue_json import EARLIEST, LATEST

__all__ = ["Topics", "cap_by_time", "ends", "is_of_users", "starts"]

Bounds = Mapping[MessageQueue, QueueBounds]
QueueOffsets = dict[MessageQueue, int]


def is_of_users(topic: str) -> bool:
    """Whether a topic was made by somebody for messages, as far as its name shows."""
    return (
        not topic.startswith((RETRY_PREFIX, DLQ_PREFIX, SYSTEM_PREFIX))
        and topic not in UNSENDABLE_TOPICS
        and topic not in (AUTO_CREATE_TOPIC, BENCHMARK_TOPIC)
    )


class Topics:
    """The topics of a query, looked up again at each trigger."""

    def __init__(self, cluster: Cluster, options: ReadOptions) -> None:
        """Takes who is asked, and for what."""
        self._cluster = cluster
        self._options = options
        self._names: set[str] = set()
        self._system: set[str] = set()

    def names(self) -> list[str]:
        """Returns the topics that are read now; a pattern may match none.

        Raises:
            NameServerError: No name server answers.
        """
        options = self._options
        if options.topics is not None:
            return list(options.topics)
        if options.assigned is not None:
            return sorted({queue.topic for queue in options.assigned})
        assert options.pattern is not None
        names = self._cluster.topic_names()
        if names != self._names:
            self._names = names
            self._system = set() if options.has_system_topics else self._cluster.system_names()
        wanted = re.compile(options.pattern)
        return sorted(
            name
            for name in names
            if wanted.fullmatch(name)
            and (options.has_system_topics or (is_of_users(name) and name not in self._system))
        )

    def bounds(self) -> dict[MessageQueue, QueueBounds]:
        """Returns what the queues that are read hold now; topics that are gone have none."""
        found: dict[MessageQueue, QueueBounds] = {}
        for name in self.names():
            found |= self._cluster.bounds(name)
        assigned = self._options.assigned
        if assigned is None:
            return found
        return {queue: found[queue] for queue in assigned if queue in found}

    def known_bounds(self) -> dict[MessageQueue, QueueBounds]:
        """Returns the same at the beginning of a query, where all that is named must be there.

        Raises:
            NoRouteError: A topic is not there.
            OptionError: A queue that was assigned is not there.
        """
        found = self.bounds()
        gone = [each for each in self._options.assigned or () if each not in found]
        if gone:
            raise OptionError(
                f"assign names queues that are not there: {_listed(gone)}", option="assign"
            )
        there = {queue.topic for queue in found}
        missing = [name for name in self._options.topics or () if name not in there]
        if missing:
            namesrv = self._cluster.access.namesrv
            raise NoRouteError(
                f"topic {', '.join(missing)} is not known at name servers {namesrv}: check the "
                f"name with `mqcore topic list`, or create it with `mqcore topic create`",
                topic=missing[0],
                name_servers=tuple(namesrv.split(";")),
                brokers={},
            )
        return found


def starts(
    cluster: Cluster, options: ReadOptions, bounds: Bounds, *, is_stream: bool
) -> QueueOffsets:
    """Returns where each queue begins.

    Args:
        cluster: Who knows times and groups.
        options: What the user gave.
        bounds: What the queues hold.
        is_stream: Whether the default is `latest`, as for streams, or `earliest`.

    Raises:
        OptionError: JSON leaves queues out, or names some that are not there.
        SparkError: Nothing is as new as the time, and that is an error.
    """
    if options.starting_ms is not None:
        return _at_times(cluster, options, bounds, dict.fromkeys(bounds, options.starting_ms))
    if options.starting_times is not None:
        _check_named("startingOffsetsByTimestamp", options.starting_times, bounds)
        return _at_times(cluster, options, bounds, options.starting_times)
    wanted = options.starting_offsets
    if isinstance(wanted, dict):
        _check_named("startingOffsets", wanted, bounds)
        return {queue: _named_offset(wanted[queue], bounds[queue]) for queue in bounds}
    if wanted == "group":
        assert options.group is not None
        return {
            queue: _group_offset(cluster, options.group, queue, held)
            for queue, held in bounds.items()
        }
    is_latest = is_stream if wanted is None else wanted == "latest"
    return {queue: held.max if is_latest else held.min for queue, held in bounds.items()}


def ends(cluster: Cluster, options: ReadOptions, bounds: Bounds) -> QueueOffsets:
    """Returns where each queue of a batch ends.

    Raises:
        OptionError: JSON leaves queues out, or names some that are not there.
    """
    latest = {queue: held.max for queue, held in bounds.items()}
    if options.ending_ms is not None:
        return cap_by_time(cluster, bounds, options.ending_ms)
    if options.ending_times is not None:
        _check_named("endingOffsetsByTimestamp", options.ending_times, bounds)
        return {
            queue: _at_time(cluster, queue, held, options.ending_times[queue])
            for queue, held in bounds.items()
        }
    wanted = options.ending_offsets
    if isinstance(wanted, dict):
        _check_named("endingOffsets", wanted, bounds)
        return {queue: _named_offset(wanted[queue], bounds[queue]) for queue in bounds}
    return latest


def cap_by_time(cluster: Cluster, bounds: Bounds, ending_ms: int) -> QueueOffsets:
    """Returns the ends of queues at a time: the first message stored then or later is behind."""
    return {queue: _at_time(cluster, queue, held, ending_ms) for queue, held in bounds.items()}


def _at_times(
    cluster: Cluster, options: ReadOptions, bounds: Bounds, times: Mapping[MessageQueue, int]
) -> QueueOffsets:
    late = [queue for queue, held in bounds.items() if not _is_reached(held, times[queue])]
    if late and options.no_match == "error":
        raise SparkError(
            f"nothing is as new as the time that reading is to begin at, in {_listed(late)}: set "
            "startingOffsetsByTimestampStrategy to latest to begin at the end there"
        )
    return {queue: _at_time(cluster, queue, held, times[queue]) for queue, held in bounds.items()}


def _is_reached(held: QueueBounds, timestamp_ms: int) -> bool:
    return held.max > held.min and held.last_ms >= timestamp_ms


def _at_time(cluster: Cluster, queue: MessageQueue, held: QueueBounds, timestamp_ms: int) -> int:
    # Brokers of 4.9 answer the last message where all are older: the last one's time decides.
    if not _is_reached(held, timestamp_ms):
        return held.max
    return min(max(cluster.offset_at(queue, timestamp_ms), held.min), held.max)


def _group_offset(cluster: Cluster, group: str, queue: MessageQueue, held: QueueBounds) -> int:
    """A queue that the group never read begins at its oldest message: nothing is left out."""
    offset = cluster.group_offset(group, queue)
    return held.min if offset is None else offset


def _named_offset(offset: int, held: QueueBounds) -> int:
    return {EARLIEST: held.min, LATEST: held.max}.get(offset, offset)


def _check_named(option: str, named: Mapping[MessageQueue, int], bounds: Bounds) -> None:
    """As in Kafka's source: JSON names every queue that is read, and no other."""
    missing = sorted(bounds.keys() - named.keys())
    if missing:
        raise OptionError(
            f"{option} must name every queue (-2 is earliest, -1 latest), and leaves out "
            f"{_listed(missing)}",
            option=option,
        )
    unknown = sorted(named.keys() - bounds.keys())
    if unknown:
        raise OptionError(
            f"{option} names queues that are not read: {_listed(unknown)}", option=option
        )


def _listed(queues: Iterable[MessageQueue]) -> str:
    return ", ".join(f"{each.topic}@{each.broker_name}:{each.queue_id}" for each in queues)
