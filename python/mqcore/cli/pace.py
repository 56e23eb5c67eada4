"""When the next message is due at a rate: a pure schedule over a passed-in time."""

__all__ = ["Pace"]


class Pace:
    """A steady rate that does not catch up with what was missed for longer than a moment."""

    # After a pause the rate goes on as it was: at most this much is sent in a burst.
    BURST_S = 0.1

    def __init__(self, per_s: float) -> None:
        """Takes a rate.

        Args:
            per_s: How many per second; 0 for as many as possible.
        """
        self._step_s = 1.0 / per_s if per_s > 0 else 0.0
        self._next_s: float | None = None

    def wait_s(self, now_s: float) -> float:
        """Returns how long to wait before the next one, which counts as sent then.

        Args:
            now_s: A time that never steps back.
        """
        if not self._step_s:
            return 0.0
        due_s = now_s if self._next_s is None else max(self._next_s, now_s - self.BURST_S)
        self._next_s = due_s + self._step_s
        return max(0.0, due_s - now_s)
