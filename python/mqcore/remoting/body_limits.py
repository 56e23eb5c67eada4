"""How long the body of a request may be that Python answers: a longer one is refused unread.

A frame may have 16 MiB, and JSON of that length would hold the event loop for seconds. Most
requests have no body, or one of some hundred bytes. Knows codes, no handler.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mqcore.remoting.request_codes import CODES, AnsweredBy, OwnRequestCode, RequestCode

__all__ = [
    "BODY_BYTES_AT_ONCE",
    "BODY_BYTES_MAX",
    "LISTS_BYTES_MAX",
    "LOCKS_BYTES_MAX",
    "body_bytes_max",
]

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
# From here on a body is read beside the event loop: JSON of it is a millisecond of work.
BODY_BYTES_AT_ONCE: Final = 64 * _KIB
# Of a request that the table below does not name. The longest that official clients send is a whole
# file of settings, some 30 KiB.
BODY_BYTES_MAX: Final = 256 * _KIB
# Lists that a person keeps in a file: 10,000 topics or groups have some 3 MiB.
LISTS_BYTES_MAX: Final = 4 * _MIB
# Queues of one group: as many as one request may name, of usual names. It is read in one go, at
# some ten milliseconds per MiB.
LOCKS_BYTES_MAX: Final = _MIB

_code = RequestCode
_LONGER: Final[Mapping[int, int]] = MappingProxyType(
    {
        _code.UPDATE_AND_CREATE_TOPIC_LIST: LISTS_BYTES_MAX,
        _code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: LISTS_BYTES_MAX,
        # The mapping of one topic: 10,000 queues with several generations each.
        _code.UPDATE_AND_CREATE_STATIC_TOPIC: LISTS_BYTES_MAX,
        # Policies of one subject, some 5,000 entries: `copyAcl` brings all of them.
        _code.AUTH_CREATE_ACL: _MIB,
        _code.AUTH_UPDATE_ACL: _MIB,
        _code.LOCK_BATCH_MQ: LOCKS_BYTES_MAX,
        _code.UNLOCK_BATCH_MQ: LOCKS_BYTES_MAX,
        # Names of brokers, of which there may be 10,000.
        _code.CONTROLLER_GET_SYNC_STATE_DATA: _MIB,
    }
)
# Bounded otherwise: by `heartbeatBytesMax`; by what a name server takes; a message, which nobody
# looks into; what programs of mqcore send to one another.
_AS_LONG_AS_A_FRAME: Final = frozenset(
    {
        _code.HEART_BEAT,
        _code.REGISTER_BROKER,
        _code.SEND_REPLY_MESSAGE,
        _code.SEND_REPLY_MESSAGE_V2,
        OwnRequestCode.CONTROLLER_MESSAGE,
        OwnRequestCode.TAKE_TABLES,
    }
)
# Of a code that nobody has declared nobody reads the body.
_OWN: Final = frozenset(int(code) for code in OwnRequestCode)
# Messages come and go by the fast path, and what a client is asked is its own affair.
_ELSEWHERE: Final = AnsweredBy.NATIVE | AnsweredBy.CLIENT


def body_bytes_max(code: int) -> int | None:
    """Returns how long the body of a request may be, bytes; None for as long as a frame."""
    longer = _LONGER.get(code)
    if longer is not None:
        return longer
    known = CODES.get(code)
    if code in _AS_LONG_AS_A_FRAME or (known is None and code not in _OWN):
        return None
    if known is not None and known.row.answered_by & _ELSEWHERE:
        return None
    return BODY_BYTES_MAX
