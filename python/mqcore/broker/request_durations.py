"""How long the requests took that Python answers, by code: the fast path counts its own.

Pure state over passed-in durations.
"""

from bisect import bisect_left
from typing import Final

from mqcore.broker.metric_families import FAMILIES, LATENCY_BOUNDS_MS
from mqcore.metrics.families import Buckets, Rows, Value
from mqcore.remoting import RequestCode, ResponseCode

__all__ = ["RequestDurations"]

# Pairs of request and response code that are distinguished.
_PAIRS_MAX: Final = 1_024
_TOPICS: Final = frozenset(
    {RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST}
)
_GROUPS: Final = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    }
)
_TOPIC_FAMILY: Final = "rocketmq_topic_create_execution_time_milliseconds"
_GROUP_FAMILY: Final = "rocketmq_consumer_group_create_execution_time_milliseconds"


class _Durations:
    """Durations in the buckets of a family, ms."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def note(self, took_ms: float) -> None:
        self._counts[bisect_left(self._bounds, took_ms)] += 1
        self._total += took_ms

    def buckets(self) -> Buckets:
        return Buckets(tuple(self._counts), self._total)


class RequestDurations:
    """Durations by request and response code; those that make topics and groups by outcome."""

    def __init__(self) -> None:
        """Begins without any."""
        self._by_pair: dict[tuple[int, int], _Durations] = {}
        self._made: dict[tuple[str, str], _Durations] = {}

    def note(self, code: int, response: int, took_ms: float) -> None:
        """Takes what a request took, from its call to its answer."""
        found = self._by_pair.get((code, response))
        if found is None:
            if len(self._by_pair) >= _PAIRS_MAX:
                return
            found = self._by_pair[code, response] = _Durations(LATENCY_BOUNDS_MS)
        found.note(took_ms)
        if code in _TOPICS or code in _GROUPS:
            name = _TOPIC_FAMILY if code in _TOPICS else _GROUP_FAMILY
            outcome = "success" if response == ResponseCode.SUCCESS else "failure"
            made = self._made.setdefault((name, outcome), _Durations(FAMILIES[name].bounds))
            made.note(took_ms)

    def by_pair(self) -> dict[tuple[int, int], Buckets]:
        """Returns durations by request and response code, ms."""
        return {pair: found.buckets() for pair, found in list(self._by_pair.items())}

    def made(self) -> dict[str, Rows]:
        """Returns how long it took to make topics and groups, by family."""
        shown: dict[str, dict[tuple[str, ...], Value]] = {_TOPIC_FAMILY: {}, _GROUP_FAMILY: {}}
        for (name, outcome), found in list(self._made.items()):
            shown[name][outcome, "false"] = found.buckets()
        return dict(shown)
