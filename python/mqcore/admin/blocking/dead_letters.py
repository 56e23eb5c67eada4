"""Dead letters, synchronously: the methods of `mqcore.admin.dead_letters`, on the loop's thread."""

from collections.abc import Iterable
from datetime import datetime

from mqcore.admin import dead_letters as asynchronous
from mqcore.admin.dead_letters import DeadLetter, ResendResult, Resent
from mqcore.client.blocking.loop_thread import LoopThread

__all__ = ["DeadLetters"]

_FOREVER_MS = 2**63 - 1


class DeadLetters:
    """The dead letters of a cluster's groups."""

    def __init__(self, thread: LoopThread, core: asynchronous.DeadLetters) -> None:
        """Takes the loop, and the asyncio methods under it."""
        self._thread = thread
        self._core = core

    def of_group(
        self,
        group: str,
        *,
        begin_ms: int | datetime = 0,
        end_ms: int | datetime = _FOREVER_MS,
        limit: int | None = None,
    ) -> list[DeadLetter]:
        """Returns the dead letters of a group, the oldest first.

        Args:
            group: Which.
            begin_ms: Dead not before: Unix ms, or a `datetime` with a time zone.
            end_ms: Dead not behind: likewise.
            limit: At most so many.

        Raises:
            MQError: There is no such group.
        """
        return self._thread.run(
            lambda: self._core.of_group(group, begin_ms=begin_ms, end_ms=end_ms, limit=limit)
        )

    def resend(self, group: str, letter: DeadLetter, *, only_group: bool = False) -> Resent:
        """Sends a dead letter again, as a new message with its first id.

        The dead letter itself stays: whoever sends it twice, has it twice.

        Args:
            group: Whose.
            letter: Which.
            only_group: Whether it goes to the group alone, by its retry topic, instead of to
                everybody who reads the topic that it came from.

        Raises:
            MQError: The topic that it came from is not known, or cannot be written.
            ResponseError: A broker refuses it.
        """
        return self._thread.run(lambda: self._core.resend(group, letter, only_group=only_group))

    def resend_all(
        self,
        group: str,
        *,
        ids: Iterable[str] = (),
        begin_ms: int | datetime = 0,
        end_ms: int | datetime = _FOREVER_MS,
        limit: int | None = None,
        only_group: bool = False,
        dry_run: bool = False,
    ) -> list[ResendResult]:
        """Sends dead letters of a group again, the oldest first; one that fails stops none.

        The dead letters themselves stay: whoever sends them twice, has them twice.

        Args:
            group: Whose.
            ids: Only these: ids of producers, or offset ids of the dead letters.
            begin_ms: Dead not before: Unix ms, or a `datetime` with a time zone.
            end_ms: Dead not behind: likewise.
            limit: At most so many.
            only_group: Whether they go to the group alone; see `resend`.
            dry_run: Whether to send nothing, and return what would be sent.

        Returns:
            A result for each dead letter that was chosen.

        Raises:
            MQError: There is no such group.
        """
        return self._thread.run(
            lambda: self._core.resend_all(
                group,
                ids=ids,
                begin_ms=begin_ms,
                end_ms=end_ms,
                limit=limit,
                only_group=only_group,
                dry_run=dry_run,
            )
        )
