"""The exception of a request that is refused: by a handler, or by access control in the extension.

Knows no request.
"""

from mqcore.native.errors import MQError

__all__ = ["RefusedError"]


class RefusedError(MQError):
    """A handler or access control refuses a request: the peer gets the code, the message as remark.

    Attributes:
        code: The answer's code.
    """

    code: int
