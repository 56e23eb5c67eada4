"""Bounds how often one kind of event is logged: bad peers must not fill a disk with lines."""

__all__ = ["Throttle"]


class Throttle:
    """Allows so many lines per interval and counts the rest."""

    def __init__(self, lines: int, interval_s: float) -> None:
        """Takes the bound."""
        self._lines = lines
        self._interval_s = interval_s
        self._began_s = float("-inf")
        self._logged = 0
        self._left_out = 0

    def allows(self, now_s: float) -> bool:
        """Returns whether a line may be logged now, and counts it either way."""
        if now_s - self._began_s >= self._interval_s:
            self._began_s = now_s
            self._logged = 0
        if self._logged < self._lines:
            self._logged += 1
            return True
        self._left_out += 1
        return False

    def left_out(self) -> int:
        """Returns how many lines were left out since the last question, for the next line."""
        count, self._left_out = self._left_out, 0
        return count
