"""The broker as tools see it, codes that nobody serves, and bytes that are no frames."""

import struct
from typing import Final

from recorded.conversation import (
    Advance,
    Conversation,
    Do,
    Raw,
    Restart,
    good,
    malformed,
    oneway,
    refused,
    step,
)
from recorded.requests import create, pull_fields, send_fields

__all__ = ["CONVERSATIONS"]

_SETTINGS = Conversation(
    "settings",
    [
        good(26),
        good(25, body=b"defaultTopicQueueNums=3\nmessageDelayLevel=1s 2s 3s\n"),
        good(25, body=b"# a comment\n\nautoCreateTopicEnable = false"),
        good(25, body=b""),
        good(26, note="changed"),
        refused(25, body=b"brokerName=other", answers=(16,)),
        refused(25, body=b"brokerConfigPath=x", answers=(16,)),
        refused(25, body=b"defaultTopicQueueNum=3", answers=(1,), note="misspelled"),
        refused(25, body=b"messageDelayLevel=soon", answers=(1,)),
        malformed(25, body=b"defaultTopicQueueNums=three"),
        malformed(25, body=b"\xff\xfe=\x00"),
        malformed(25, body=b"defaultTopicQueueNums"),
        malformed(26, {"unknown": "field"}, b"and a body"),
    ],
)

_MEMBER = Conversation(
    "under_a_controller",
    [
        good(1007, note="before it has led"),
        refused(310, send_fields("t"), b"0", answers=(14,), note="nobody is master"),
        Do("lead"),
        create("t"),
        step(310, send_fields("t"), b"0"),
        step(310, send_fields("t"), b"1"),
        good(1007, note="a master of one epoch"),
        malformed(1007, {"unknown": "field"}, b"and a body"),
        Restart(),
        good(1007, note="what it knows after a restart"),
    ],
    settings={"enableControllerMode": "true", "controllerAddr": "127.0.0.1:1"},
)

_PUT: Final = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "t"}

_FIGURES = Conversation(
    "figures",
    [
        Do("flush"),
        good(28, note="of an empty broker"),
        good(907, note="without slaves"),
        malformed(907, {"unknown": "field"}, b"and a body"),
        refused(1007, {}, note="without a controller"),
        malformed(1007, {"unknown": "field"}, b"and a body"),
        good(905, {"minBrokerId": "0", "brokerName": "b"}, note="without acting masters"),
        malformed(905, {"minBrokerId": "many"}, b"and a body"),
        good(906, note="of a master"),
        malformed(906, {"masterHaAddress": "nowhere"}, b"and a body"),
        good(1008, {"masterEpoch": "1"}, b"{}", note="without a controller"),
        malformed(1008, {"masterEpoch": "many"}, b"and a body"),
        create("t"),
        step(310, send_fields("t"), b"0"),
        step(310, send_fields("t", 0, {"DELAY": 5}), b"1"),
        step(310, send_fields("none", c="none"), b"2", answers=(17,)),
        Do("sample totals"),
        step(11, pull_fields("t")),
        step(11, pull_fields("t", 1), answers=(19,)),
        Advance(10_000),
        Do("sample"),
        good(315, _PUT),
        good(315, {"statsName": "GROUP_GET_NUMS", "statsKey": "t@g"}),
        good(315, {"statsName": "BROKER_PUT_NUMS", "statsKey": "c"}),
        good(315, {"statsName": "BROKER_GET_NUMS", "statsKey": "c"}),
        step(310, send_fields("t"), b"3"),
        *[Advance(10_000) if number % 2 else Do("sample") for number in range(14)],
        good(315, _PUT),
        refused(315, _PUT | {"statsKey": "none"}, answers=(1,)),
        refused(315, _PUT | {"statsName": "NONE"}, answers=(1,)),
        malformed(315, {"statsName": "TOPIC_PUT_NUMS"}),
        malformed(315, {}),
        Do("flush"),
        good(28),
        Advance(86_400_000),
        Do("sample"),
        good(28, note="a day later"),
        good(315, _PUT),
        malformed(28, {"unknown": "field"}, b"and a body"),
    ],
)

_TOOLS = Conversation(
    "tools_of_later_releases",
    [
        good(2003, note="no thresholds"),
        good(2001, body=b"one=10\ntwo=20\n"),
        refused(2001, body=b"three=3\ntwo=many\n", answers=(1,)),
        malformed(2001, body=b"\xff\xfe=\x00"),
        good(2002, body=b"two"),
        malformed(2002, {"unknown": "field"}, b"\xff"),
        good(2003),
        malformed(2003, {"unknown": "field"}, b"and a body"),
        good(2004, {"READ_AHEAD_MODE": "1"}),
        good(2004, {"READ_AHEAD_MODE": "0"}),
        refused(2004, {"READ_AHEAD_MODE": "7"}),
        malformed(2004, {"READ_AHEAD_MODE": "x"}),
        malformed(2004, {}),
        good(354, {"topic": "", "checkStoreTime": 0}),
        malformed(354, {"unknown": "field"}, b"and a body"),
        good(355, {"configType": "topics;consumerOffsets"}),
        malformed(355, {"unknown": "field"}, b"and a body"),
        good(908, {"masterFlushOffset": 7}, note="of a master"),
        malformed(908, {"masterFlushOffset": "many"}, b"and a body"),
        good(200_056),
        malformed(200_056, {"unknown": "field"}, b"and a body"),
    ],
)

# Codes of clients, of name servers and of controllers, one that is free, and the bounds.
_FOREIGN: Final = (-1, 0, 1, 13, 39, 40, 99, 100, 103, 105, 220, 326, 901, 1_001, 3_442, 5_001)

_UNKNOWN = Conversation(
    "unknown_codes",
    [
        *[refused(code, {"topic": "t"}, b"a body", answers=(3,)) for code in _FOREIGN],
        refused(32_767, answers=(3,)),
        refused(-32_768, answers=(3,)),
        refused(99, answers=(3,), language="CPP", version=-1),
        oneway(refused(99)),
    ],
)

_UNKNOWN_TO_BINARY = Conversation(
    "unknown_codes_of_32_bits",
    [
        refused(32_768, answers=(3,)),
        refused(2**31 - 1, answers=(3,)),
        refused(-(2**31), answers=(3,)),
        refused(200_070, {"topic": "t"}, answers=(3,), note="a pop of a lite topic"),
    ],
    kinds=("json",),
)


def _framed(header: bytes, body: bytes = b"", *, kind: int = 0) -> bytes:
    """Returns bytes with the lengths of a frame."""
    return struct.pack(">II", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


_JSON_HEADER: Final = b'{"code":26,"flag":0,"language":"JAVA","opaque":5,"version":475}'
# Code 26, JAVA, version 475, number 5, no flag; a remark and fields should follow.
_BINARY_HEADER: Final = struct.pack(">hBhii", 26, 0, 475, 5, 0)

_BAD_FRAMES = Conversation(
    "bad_frames",
    [
        Raw(data=struct.pack(">I", 1 << 30), note="a length beyond the bound"),
        Raw(data=struct.pack(">II", 0, 0), note="no room for the length of a header"),
        Raw(data=struct.pack(">i", -5), note="a length below zero"),
        Raw(data=struct.pack(">II", 8, 99) + b"{}{}", note="a header longer than its frame"),
        Raw(data=_framed(b"{"), note="a header that is no JSON"),
        Raw(data=_framed(b"[]"), note="a header that is no object"),
        Raw(data=_framed(b"\xff\xfe"), note="a header that is no text"),
        Raw(data=_framed(b'{"code":"many"}'), note="a code that is no number"),
        Raw(data=_framed(_BINARY_HEADER[:5], kind=1), note="a binary header that ends too soon"),
        Raw(data=_framed(_BINARY_HEADER + struct.pack(">I", 99), kind=1), note="a remark too long"),
        Raw(
            data=_framed(_BINARY_HEADER + struct.pack(">IIH", 0, 2, 9), kind=1),
            note="fields that end too soon",
        ),
        Raw(data=_framed(_JSON_HEADER, kind=7), note="a kind of header that is none"),
    ],
    kinds=("json",),
)

CONVERSATIONS: Final = (
    _SETTINGS,
    _FIGURES,
    _TOOLS,
    _MEMBER,
    _UNKNOWN,
    _UNKNOWN_TO_BINARY,
    _BAD_FRAMES,
)
