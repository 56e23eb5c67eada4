"""Messages looked up: by key, by unique key, by place, by time."""

from typing import Final

from recorded.conversation import (
    NOW_MS,
    Advance,
    Conversation,
    From,
    good,
    malformed,
    refused,
    step,
)
from recorded.requests import create, send_fields, without

__all__ = ["CONVERSATIONS"]

_ALL_TIMES: Final = {"beginTimestamp": 0, "endTimestamp": 2**63 - 1}
_KEY: Final = {"topic": "t", "key": "k1", "maxNum": 32, **_ALL_TIMES}
_UNIQUE: Final = {"topic": "t", "key": "U0", "maxNum": 1, "_UNIQUE_KEY_QUERY": "true", **_ALL_TIMES}

_QUERY = Conversation(
    "query",
    [
        create("t"),
        step(310, send_fields("t", 0, {"KEYS": "k1 k2", "UNIQ_KEY": "U0"}), b"0", name="first"),
        Advance(60_000),
        step(310, send_fields("t", 0, {"KEYS": "k1", "UNIQ_KEY": "U1"}), b"1", name="second"),
        good(12, _KEY),
        good(12, _KEY | {"key": "k2"}),
        good(12, _KEY | {"maxNum": 1}),
        good(12, _KEY | {"beginTimestamp": NOW_MS + 30_000}),
        good(12, _KEY | {"endTimestamp": NOW_MS + 30_000}),
        good(12, _UNIQUE),
        good(12, _UNIQUE | {"key": "U1"}),
        refused(12, _KEY | {"key": "k3"}, answers=(22,)),
        refused(12, _KEY | {"topic": "none"}, answers=(22,)),
        refused(12, _KEY | {"endTimestamp": 1}, answers=(22,)),
        refused(12, _KEY | {"maxNum": 0}, answers=(0, 22)),
        refused(12, _UNIQUE | {"key": "U2"}, answers=(22,)),
        malformed(12, {}),
        malformed(12, without(_KEY, "key")),
        malformed(12, _KEY | {"maxNum": "all"}),
        malformed(12, _KEY | {"beginTimestamp": 1 << 63}),
        good(33, {"offset": From("first", "msgId", is_offset=True)}),
        good(33, {"offset": From("second", "msgId", is_offset=True)}),
        refused(33, {"offset": 3}, answers=(1,)),
        refused(33, {"offset": -1}, answers=(1,)),
        refused(33, {"offset": 1 << 40}, answers=(1,)),
        malformed(33, {}),
        malformed(33, {"offset": "first"}),
        malformed(33, {"offset": ""}),
    ],
)

CONVERSATIONS: Final = (_QUERY,)
