"""`transactionMetrics`: how many half messages wait, by the topic that they are meant for.

Pure state over passed-in times, read and written as `TransactionMetrics` of 5.x does. The live
numbers are the fast path's.
"""

from collections.abc import Callable, Mapping

from mqcore.model.reading import as_dict, as_int
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.model.versions import DataVersion


class TransactionCounts:
    """The counts as they were written last.

    Args:
        now_ms: Time of the start.
    """

    def __init__(self, now_ms: int) -> None:
        """Begins with no topic."""
        self._version = DataVersion(counter=0, timestamp_ms=now_ms)
        self._counts: dict[str, tuple[int, int]] = {}

    @property
    def waiting(self) -> dict[str, int]:
        """Half messages that wait, by topic: a copy."""
        return {topic: count for topic, (count, _) in self._counts.items()}

    def load(self, text: bytes) -> None:
        """Takes a `transactionMetrics`.

        Raises:
            BadJsonError: It cannot be read; nothing was taken.
        """
        found = parse_object(text)
        self._version = DataVersion.of_json(found.get("dataVersion"))
        for topic, value in as_dict(found.get("transactionCount")).items():
            row = as_dict(value)
            self._counts[topic] = (as_int(row.get("count")), as_int(row.get("timeStamp")))

    def note(self, waiting: Mapping[str, int], now_ms: int) -> None:
        """Takes the numbers of now; topics whose number changed get the time."""
        for topic, count in waiting.items():
            known = self._counts.get(topic)
            if known is None or known[0] != count:
                self._counts[topic] = (count, now_ms)
                self._version = self._version.next(now_ms)

    def text(self) -> Callable[[], bytes]:
        """Returns what makes the content of the file, as the table is now."""
        version, counts = self._version, dict(self._counts)
        return lambda: compact(
            {
                "dataVersion": version.to_json(),
                "transactionCount": {
                    topic: {"count": count, "timeStamp": at_ms}
                    for topic, (count, at_ms) in counts.items()
                },
            }
        )
