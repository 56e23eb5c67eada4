"""How much older than by the wall clock delayed messages are: what a test let pass.

Pure numbers: the wall time is passed in. A message that was stored before `advance` is older by
what was advanced, one that is stored after it is not, as if the test had waited.
"""


class Ageing:
    """The times that a test let pass, and when.

    The clock that messages age by runs beside the wall clock, and jumps ahead at each advance.
    """

    def __init__(self) -> None:
        """Begins with nothing let pass."""
        # When it jumped, by the wall clock, with all that had been let pass behind it.
        self._jumps: list[tuple[int, int]] = []

    @property
    def passed_ms(self) -> int:
        """All that was let pass."""
        return self._jumps[-1][1] if self._jumps else 0

    def advance(self, by_ms: int, wall_ms: int) -> None:
        """Lets time pass.

        Args:
            by_ms: How much, at least 0.
            wall_ms: The wall clock; what is stored up to this millisecond gets older.
        """
        self._jumps.append((wall_ms, self.passed_ms + by_ms))

    def due_ms(self, length_ms: int, wall_ms: int) -> int:
        """Returns until which due time messages of a delay are due, on the store's clock.

        A message is due at the time when it was stored, plus its delay. That it has become older
        since is expressed by a later limit.

        Args:
            length_ms: The delay.
            wall_ms: The wall clock.
        """
        stored_ms = wall_ms + self.passed_ms - length_ms
        # Back through the jumps, to the wall time at which the ageing clock showed that.
        end_ms = wall_ms
        for jumped_ms, passed_ms in reversed(self._jumps):
            if stored_ms - passed_ms > jumped_ms:
                return min(stored_ms - passed_ms, end_ms) + length_ms
            end_ms = jumped_ms
        return min(stored_ms, end_ms) + length_ms
