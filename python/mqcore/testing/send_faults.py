"""Refuses the next sends of a broker, as one that is too busy does.

Pure state over decoded requests: holds no socket.
"""

from mqcore.native import Command
from mqcore.remoting import Family, ResponseCode, family

_SENDS = family(Family.SEND)


class SendFaults:
    """Sends that are to be refused.

    Attributes:
        left: How many more.
    """

    def __init__(self) -> None:
        """Begins with none."""
        self.left = 0
        self._code: int = ResponseCode.SYSTEM_BUSY
        self._remark = ""

    def set(self, count: int, code: int, remark: str) -> None:
        """Refuses the next sends.

        Args:
            count: How many; a batch counts as one.
            code: The answer's code.
            remark: The answer's remark.
        """
        self.left, self._code, self._remark = count, code, remark

    def answer(self, request: Command) -> Command | None:
        """Returns the refusal of a request, None for one that is to be executed."""
        if self.left <= 0 or request.code not in _SENDS:
            return None
        self.left -= 1
        return Command.response_to(request, self._code, remark=self._remark)
