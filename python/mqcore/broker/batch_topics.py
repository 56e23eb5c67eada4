"""Which topics of a store have batch queues: what its recovery must know before it begins.

Records of such topics go to queues of another kind. The store itself knows no attributes; whoever
opens it reads them from `topics.json` and names the topics by the setting `batchQueueTopics`.
Blocks on the disk.
"""

from pathlib import Path
from typing import Final

from mqcore.model.attributes import has_batch_queues
from mqcore.model.reading import as_dict
from mqcore.model.relaxed_json import parse_object
from mqcore.model.topics import TopicConfig
from mqcore.state_files import StateFile

SETTING: Final = "batchQueueTopics"


def batch_topics(store_dir: Path) -> str:
    """Returns the topics as the value of the setting.

    Raises:
        StateFileError: `topics.json` has content that cannot be read.
    """
    names: list[str] = []

    def take(text: bytes) -> None:
        found = as_dict(parse_object(text).get("topicConfigTable"))
        topics = (TopicConfig.of_json(value, name) for name, value in found.items())
        names[:] = sorted(topic.name for topic in topics if has_batch_queues(topic.attributes))

    StateFile.of_store(store_dir, "topics.json").load(take)
    return " ".join(names)
