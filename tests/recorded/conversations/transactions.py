"""Transactions: half messages, their ends, and the broker's question about those without an end."""

from typing import Final

from recorded.conversation import (
    Advance,
    Conversation,
    Do,
    From,
    Request,
    good,
    malformed,
    oneway,
    refused,
    step,
)
from recorded.requests import batch_body, create, heartbeat, pull_fields, send_fields, without

__all__ = ["CONVERSATIONS"]

_UNKNOWN, _COMMIT, _ROLLBACK = 0, 8, 12
# Where the message that was given up is in the log.
_GIVEN_UP_AT: Final = 0x209
_HALF_TOPIC, _OP_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"


def _half(name: str, **properties: object) -> Request:
    """Returns a step that sends a half message."""
    named = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": name, "TAGS": "a"} | properties
    return step(310, send_fields("t", 0, named, f=4), name.encode(), name=name)


def _end(name: str, state: int, **more: object) -> dict[str, object]:
    """Returns the fields of an end."""
    fields: dict[str, object] = {
        "producerGroup": "pg",
        "tranStateTableOffset": From(name, "queueOffset"),
        "commitLogOffset": From(name, "msgId", is_offset=True),
        "commitOrRollback": state,
        "fromTransactionCheck": False,
        "msgId": name,
        "transactionId": name,
        "bname": "b",
    }
    return fields | more


_ENDS = Conversation(
    "transactions",
    [
        create("t"),
        _half("H0"),
        _half("H1", KEYS="k"),
        _half("H2"),
        good(11, pull_fields("t"), answers=(19,), note="nobody sees them yet"),
        good(37, _end("H0", _COMMIT)),
        good(37, _end("H1", _ROLLBACK)),
        good(11, pull_fields("t")),
        good(37, _end("H0", _COMMIT), answers=(0, 1), note="again"),
        refused(37, _end("H0", _ROLLBACK), answers=(0, 1), note="the other way round"),
        oneway(good(37, _end("H2", _COMMIT, fromTransactionCheck=True))),
        good(37, _end("H2", _UNKNOWN), frames={}, note="not decided: not answered"),
        refused(37, _end("H1", _COMMIT, producerGroup="another"), answers=(1,)),
        refused(37, _end("H1", _COMMIT, tranStateTableOffset=9), answers=(1,)),
        refused(37, _end("H1", _COMMIT, commitLogOffset=3), answers=(1,)),
        refused(37, _end("H1", _COMMIT, commitLogOffset=-1), answers=(1,)),
        refused(37, _end("H1", _COMMIT, commitLogOffset=1 << 40), answers=(1,)),
        refused(37, _end("H1", 4), frames={}, note="a state that is none"),
        malformed(37, {}),
        malformed(37, without(_end("H1", _COMMIT), "producerGroup")),
        malformed(37, _end("H1", _COMMIT, tranStateTableOffset="x")),
        malformed(37, _end("H1", _COMMIT, commitOrRollback="commit")),
        Do("write notes"),
        good(11, pull_fields(_OP_TOPIC), answers=(0, 16, 19)),
        good(11, pull_fields(_HALF_TOPIC)),
        good(11, pull_fields("t")),
        step(25, body=b"rejectTransactionMessage=true"),
        refused(310, send_fields("t", 0, {"TRAN_MSG": "true", "PGROUP": "pg"}, f=4), b"x"),
    ],
)

_CHECKS = Conversation(
    "transactions_asked_about",
    [
        create("t"),
        step(34, body=heartbeat("p1", producers=["pg"]), by="B"),
        _half("H0"),
        _half("H1", CHECK_IMMUNITY_TIME_IN_SECONDS="60"),
        _half("H2"),
        good(37, _end("H2", _COMMIT)),
        Do("check transactions"),
        Advance(10_000),
        Do("check transactions", {"B": 1}),
        good(37, _end("H0", _COMMIT, fromTransactionCheck=True), by="B"),
        Advance(60_000),
        Do("check transactions", {"B": 1}),
        good(37, _end("H1", _UNKNOWN, fromTransactionCheck=True), by="B", frames={}),
        Advance(60_000),
        Do("check transactions"),
        good(11, pull_fields("TRANS_CHECK_MAX_TIME_TOPIC"), answers=(0, 17)),
        good(11, pull_fields("t")),
        refused(37, _end("H1", _COMMIT), answers=(0, 1)),
        step(30, {"topic": _HALF_TOPIC, "queueId": 0}),
    ],
    settings={"transactionCheckMax": "1"},
)

# An address and a port that nobody looks at.
_ANYWHERE: Final = "7F00000100002A9F"
_GIVEN_UP = Conversation(
    "transactions_given_up",
    [
        create("t"),
        step(34, body=heartbeat("p1", producers=["pg"]), by="B"),
        _half("H0"),
        Advance(10_000),
        Do("check transactions", {"B": 1}),
        Advance(60_000),
        Do("check transactions"),
        step(11, pull_fields("TRANS_CHECK_MAX_TIME_TOPIC")),
        refused(323, {"msgId": From("H0", "msgId")}, answers=(1,), note="one that is asked about"),
        refused(323, {"msgId": f"{_ANYWHERE}0000000000000001"}, answers=(1,)),
        good(323, {"msgId": f"{_ANYWHERE}{_GIVEN_UP_AT:016X}"}),
        Advance(10_000),
        Do("check transactions", {"B": 1}),
        malformed(323, {"msgId": "none"}),
        malformed(323, {}),
    ],
    settings={"transactionCheckMax": "1"},
)

_ROWS: Final = batch_body([(b"row 0", {"KEYS": "k0"}), (b"row 1", {"TAGS": "b"})])

_BATCHES = Conversation(
    "transactions_of_batches",
    [
        create("t"),
        step(
            320,
            send_fields(
                "t", 0, {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": "B0"}, f=4, m=True
            ),
            _ROWS,
            name="B0",
            answers=(0, 1, 13),
        ),
        step(
            310,
            send_fields(
                "t",
                0,
                {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": "B1", "MQCORE_HALF_BATCH": "0"},
                f=4,
            ),
            _ROWS,
            name="B1",
            answers=(0, 13),
        ),
        good(37, _end("B1", _COMMIT), answers=(0, 1, 13)),
        good(11, pull_fields("t"), answers=(0, 19)),
    ],
)

CONVERSATIONS: Final = (_ENDS, _CHECKS, _GIVEN_UP, _BATCHES)
