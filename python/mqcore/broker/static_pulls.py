"""The response to a pull of a physical queue, as that of a logical queue. Pure functions.

After `PullMessageProcessor.rewriteResponseForStaticTopic`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from mqcore.model.reading import as_int
from mqcore.model.static_topics import MappingItem, item_of, next_item
from mqcore.native import Command
from mqcore.remoting import ResponseCode

__all__ = ["Pulled", "logical_pull"]


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a pull has come to.

    Attributes:
        code: The response code.
        next_offset: Where to go on.
        min_offset: Where the queue begins.
        max_offset: Where it ends.
        delta: What is added to the offsets of messages.
    """

    code: int
    next_offset: int
    min_offset: int
    max_offset: int
    delta: int = 0

    @classmethod
    def of(cls, response: Command) -> Self:
        """Returns what a response contains."""
        found = response.ext.get
        return cls(
            response.code,
            as_int(found("nextBeginOffset")),
            as_int(found("minOffset")),
            as_int(found("maxOffset")),
        )

    def fields(self) -> dict[str, str]:
        """Returns the fields of a response."""
        return {
            "nextBeginOffset": str(self.next_offset),
            "minOffset": str(self.min_offset),
            "maxOffset": str(self.max_offset),
            "offsetDelta": str(self.delta),
        }


def logical_pull(
    items: Sequence[MappingItem], current: MappingItem, asked_offset: int, pulled: Pulled
) -> Pulled:
    """Returns what a pull of one item means in the logical queue.

    Args:
        items: The queue.
        current: The item that was pulled.
        asked_offset: The physical offset that was asked for.
        pulled: What the physical queue has answered.
    """
    if pulled.code != ResponseCode.SUCCESS:
        current, pulled = _nothing_found(items, current, asked_offset, pulled)
    next_offset = pulled.next_offset
    if current.is_end_decided:
        next_offset = min(next_offset, current.end_offset)
    return Pulled(
        code=pulled.code,
        next_offset=current.logical(next_offset),
        min_offset=current.logical(max(current.start_offset, pulled.min_offset)),
        max_offset=max(current.logical(pulled.max_offset), items[-1].max_logical),
        delta=current.delta,
    )


def _nothing_found(
    items: Sequence[MappingItem], current: MappingItem, asked: int, pulled: Pulled
) -> tuple[MappingItem, Pulled]:
    """Returns where to go on, of a pull that found nothing."""
    is_first = item_of(items, 0) == current
    if asked < pulled.min_offset:
        # Retention took what was asked for: the client hears of it where that is the first item.
        code = ResponseCode.PULL_OFFSET_MOVED if is_first else ResponseCode.PULL_RETRY_IMMEDIATELY
        return current, replace(pulled, code=code, next_offset=pulled.min_offset)
    if asked < pulled.max_offset:
        return current, pulled
    following = next_item(items, current)
    if following is not None:
        start = following.start_offset
        code = ResponseCode.PULL_RETRY_IMMEDIATELY
        return following, Pulled(code, start, start, start)
    if asked > pulled.max_offset and pulled.code == ResponseCode.PULL_OFFSET_MOVED:
        return current, replace(pulled, next_offset=pulled.max_offset)
    # The next item may begin any moment.
    return current, replace(pulled, code=ResponseCode.PULL_NOT_FOUND)
