"""The exception of a request that is refused: by a handler, or by access control in the extension.

Knows no request.
"""

from typing import Final

from mqcore.native.errors import MQError

__all__ = ["ANSWERED_LATE", "ANSWERED_NEVER", "ANSWERED_NOW", "RefusedError"]

# When the peer hears of it: a wrong signature of many is answered late, or not at all.
ANSWERED_NOW: Final = "now"
ANSWERED_LATE: Final = "late"
ANSWERED_NEVER: Final = "never"


class RefusedError(MQError):
    """A handler or access control refuses a request: the peer gets the code, the message as remark.

    Attributes:
        code: The answer's code.
        answered: When the peer is to hear of it: `now`, `late` or `never`.
    """

    code: int
    answered: str = ANSWERED_NOW
