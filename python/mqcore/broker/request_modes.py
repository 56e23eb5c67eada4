"""The table of who asks by pop, and its file, `messageRequestMode.json`.

Pure state: no file, no socket, no clock. After `MessageRequestModeManager` of 5.x.
"""

from collections.abc import Callable, Mapping

from mqcore.errors import BadJsonError
from mqcore.model.reading import as_dict
from mqcore.model.relaxed_json import parse_object, pretty
from mqcore.model.request_modes import POP, PULL, RequestMode
from mqcore.model.topics import RETRY_PREFIX

# Pairs of topic and group at the most: some hundred bytes each. Beyond it no new one is taken.
PAIRS_MAX = 1_000_000


class RequestModeTable:
    """What was set for pairs of topic and group."""

    def __init__(self) -> None:
        """Begins with nothing set."""
        self._modes: dict[str, dict[str, RequestMode]] = {}
        self._count = 0

    def find(self, topic: str, group: str) -> RequestMode | None:
        """Returns what was set for a group and a topic."""
        return self._modes.get(topic, {}).get(group)

    def put(self, wanted: RequestMode) -> bool:
        """Sets how a group asks for a topic; returns whether there was space."""
        groups = self._modes.get(wanted.topic, {})
        is_new = wanted.group not in groups
        if is_new and self._count >= PAIRS_MAX:
            return False
        self._count += is_new
        self._modes[wanted.topic] = groups | {wanted.group: wanted}
        return True

    def effective(
        self, topic: str, group: str, *, default: str, default_share_queues: int
    ) -> RequestMode:
        """Returns how a group asks for a topic: what was set, or the default.

        Args:
            topic: The topic; one of retries is pulled.
            group: The group.
            default: `defaultMessageRequestMode`.
            default_share_queues: `defaultPopShareQueueNum`.
        """
        found = self.find(topic, group)
        if found is not None:
            return found
        if topic.startswith(RETRY_PREFIX) or default != POP:
            return RequestMode(topic, group, PULL)
        return RequestMode(topic, group, POP, default_share_queues)

    def load(self, text: bytes) -> None:
        """Takes the content of a `messageRequestMode.json`.

        Raises:
            BadJsonError: It cannot be read; nothing was taken.
        """
        found = parse_object(text).get("messageRequestModeMap", {})
        if not isinstance(found, dict):
            raise BadJsonError("its messageRequestModeMap is no object")
        self._modes, self._count = {}, 0
        for topic, groups in found.items():
            for group, value in as_dict(groups).items():
                wanted = RequestMode.of_json(
                    {"topic": topic, "consumerGroup": group} | as_dict(value)
                )
                if wanted is not None:
                    self.put(wanted)

    def text(self) -> Callable[[], bytes]:
        """Returns what makes the content of `messageRequestMode.json` of now, in any thread."""
        frozen = dict(self._modes)
        return lambda: pretty(_table_json(frozen))

    def to_json(self) -> dict[str, object]:
        """Returns the table as slaves get it."""
        return _table_json(self._modes)


def _table_json(modes: Mapping[str, Mapping[str, RequestMode]]) -> dict[str, object]:
    return {
        "messageRequestModeMap": {
            topic: {group: wanted.to_json() for group, wanted in groups.items()}
            for topic, groups in modes.items()
        }
    }
