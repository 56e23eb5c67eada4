"""`config/timermetrics`: how many messages of each topic wait for a time of their own.

Pure texts, as `TimerMetrics` writes them; the counts themselves are the store's.
"""

from collections.abc import Iterable
from typing import Final

from mqcore.errors import BadJsonError
from mqcore.model.reading import as_dict, as_int
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.model.versions import DataVersion
from mqcore.native import TimedTopic

# Spans that figures of waiting messages are reported for, in seconds (`TimerMetrics.timerDist`).
BOUNDS_S: Final = (5, 60, 300, 900, 3_600, 14_400, 28_800, 86_400)


def metrics_text(topics: Iterable[TimedTopic], version: DataVersion) -> bytes:
    """Returns the content of the file, and the body of GET_TIMER_METRICS."""
    counts = {each.topic: {"count": each.count, "timeStamp": each.changed_ms} for each in topics}
    return compact({"dataVersion": version.to_json(), "timingCount": counts})


def parse_metrics(text: bytes) -> tuple[list[TimedTopic], DataVersion]:
    """Returns the content of the file, parsed.

    Raises:
        BadJsonError: It cannot be read.
    """
    found = parse_object(text)
    if not isinstance(found.get("timingCount", {}), dict):
        raise BadJsonError("its timingCount is no object")
    topics = []
    for topic, entry in as_dict(found.get("timingCount")).items():
        fields = as_dict(entry)
        count, changed_ms = as_int(fields.get("count")), as_int(fields.get("timeStamp"))
        topics.append(TimedTopic(topic, count, changed_ms))
    return topics, DataVersion.of_json(found.get("dataVersion"))
