"""`consumerOffset.json`: the text of the fast path's live table, and back. Functions of tables.

The table is the fast path's; here it is a mapping of `topic@group` to offsets by queue.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from mqcore.errors import BadJsonError
from mqcore.model.groups import SYSTEM_GROUP_PREFIX
from mqcore.model.reading import as_dict, as_int
from mqcore.model.relaxed_json import parse_object
from mqcore.model.versions import DataVersion
from mqcore.native import OffsetRange

_log = logging.getLogger("mqcore.broker")

SEPARATOR = "@"
# The content of a file without an offset.
NO_OFFSETS = b"{}"

OffsetTable = Mapping[str, Mapping[int, int]]

_Offsets = TypeVar("_Offsets", bound=Mapping[int, int])


def parse_offsets(text: bytes) -> dict[str, dict[int, int]]:
    """Returns the table of a `consumerOffset.json`; what 5.x derives from it is left out.

    Raises:
        BadJsonError: It cannot be read.
    """
    return offsets_of(parse_object(text))


def offsets_of(found: Mapping[str, object]) -> dict[str, dict[int, int]]:
    """Returns the table of the object of a `consumerOffset.json`.

    Raises:
        BadJsonError: It has none.
    """
    if not isinstance(found.get("offsetTable", {}), dict):
        raise BadJsonError("its offsetTable is no object")
    table: dict[str, dict[int, int]] = {}
    for key, queues in as_dict(found.get("offsetTable")).items():
        offsets = {as_int(q, -1): as_int(offset) for q, offset in as_dict(queues).items()}
        table[key] = {q: max(0, offset) for q, offset in offsets.items() if q >= 0}
    return table


def offsets_json(table: OffsetTable, version: DataVersion) -> dict[str, object]:
    """Returns a table as `ConsumerOffsetSerializeWrapper` has it."""
    return {
        "dataVersion": version.to_json(),
        "offsetTable": {key: dict(queues) for key, queues in table.items()},
    }


def beyond_end(
    table: OffsetTable,
    bounds: Callable[[str, int], OffsetRange | None],
    behind: Mapping[str, Mapping[int, int]],
) -> dict[str, dict[int, int]]:
    """Returns the offsets that lie behind the end of their queue, as they should be: at its end.

    Power loss may take messages that were read already. What is written in their place has their
    offsets: a group that kept its own would never read it.

    Args:
        table: All offsets.
        bounds: Returns the bounds of a queue, None for one that is not there.
        behind: Where queues end by what the log holds and they have not got yet
            (`NativeStore.ends_behind_queues`). The queues of a member have what is confirmed,
            which is less after a start than what groups had read.
    """
    found: dict[str, dict[int, int]] = {}
    for key, queues in table.items():
        topic_group = split_key(key)
        if topic_group is None:
            continue
        for queue_id, offset in queues.items():
            known = bounds(topic_group[0], queue_id)
            later = behind.get(topic_group[0], {}).get(queue_id)
            if known is None and later is None:
                continue
            end = max(later or 0, 0 if known is None else known.max_offset)
            if offset > end:
                found.setdefault(key, {})[queue_id] = end
    return found


def clip(
    table: dict[str, dict[int, int]],
    bounds: Callable[[str, int], OffsetRange | None],
    behind: Mapping[str, Mapping[int, int]],
) -> None:
    """Takes offsets back to the end of their queue where they lie behind it, with a warning each.

    Args:
        table: All offsets.
        bounds: As for `beyond_end`.
        behind: As for `beyond_end`.
    """
    for key, queues in beyond_end(table, bounds, behind).items():
        for queue_id, offset in queues.items():
            _log.warning(
                "%s: queue %d was read up to %d, but ends at %d: its group goes on there",
                key,
                queue_id,
                table[key][queue_id],
                offset,
            )
        table[key] |= queues


def changed_since(table: OffsetTable, before: OffsetTable) -> set[tuple[str, int]]:
    """Returns the keys and queues whose offset is another one than before, or was not there."""
    return {
        (key, queue_id)
        for key, queues in table.items()
        for queue_id, offset in queues.items()
        if before.get(key, {}).get(queue_id) != offset
    }


def ahead_of(
    ours: OffsetTable, theirs: OffsetTable, before: OffsetTable, committed: set[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    """Returns offsets that were committed here and are beyond those of another table.

    Not one that was set back over there since `before`: that is newer than any commit.

    Args:
        ours: Our table.
        theirs: The other one.
        before: The other one as it was before.
        committed: Keys and queues that consumers committed here.
    """
    found = {}
    for key, queue_id in committed:
        offset = ours.get(key, {}).get(queue_id, 0)
        other = theirs.get(key, {}).get(queue_id, 0)
        if other < offset and other >= before.get(key, {}).get(queue_id, 0):
            found[key, queue_id] = offset
    return found


def own_of(table: OffsetTable) -> dict[str, dict[int, int]]:
    """Returns the offsets of the broker's own groups."""
    return {key: dict(queues) for key, queues in table.items() if is_own(key)}


def with_own(table: Mapping[str, _Offsets], own: Mapping[str, _Offsets]) -> dict[str, _Offsets]:
    """Returns a table with other offsets of the broker's own groups."""
    return {key: queues for key, queues in table.items() if not is_own(key)} | dict(own)


def split_key(key: str) -> tuple[str, str] | None:
    """Returns topic and group of a key, None for one that is not exactly that."""
    topic, separator, group = key.partition(SEPARATOR)
    return (topic, group) if separator and topic and group and SEPARATOR not in group else None


def is_own(key: str) -> bool:
    """Returns whether a key's offset is one of the broker itself: how far it has delivered."""
    return key.partition(SEPARATOR)[2].startswith(SYSTEM_GROUP_PREFIX)


def topics_of_group(table: OffsetTable, group: str) -> list[str]:
    """Returns the topics in which a group has offsets."""
    keys = (split_key(key) for key in table)
    return [key[0] for key in keys if key is not None and key[1] == group]


def groups_of_topic(table: OffsetTable, topic: str) -> list[str]:
    """Returns the groups that have offsets in a topic."""
    keys = (split_key(key) for key in table)
    return [key[1] for key in keys if key is not None and key[0] == topic]
