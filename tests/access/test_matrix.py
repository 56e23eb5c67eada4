"""Every request that a broker answers, for every kind of who asks: made from the rules.

| who | answer |
|---|---|
| nobody, and somebody with another's signature | 16 |
| a user without rights | 16, but where any user may |
| a user with exactly what the rule asks for | not 16 |
| the same who is denied one of it | 16 |
"""

import re
from pathlib import Path
from typing import Any

import pytest

from access_control import REFUSED, ROOT, Guarded, guarded, with_topic
from live_broker import send_fields
from loops import run_on
from mqcore.model.message_ids import parse_offset_id
from mqcore.model.relaxed_json import compact
from mqcore.remoting import (
    RULES,
    AnsweredBy,
    Credentials,
    OwnRequestCode,
    RequestCode,
    answered_by,
    code_name,
)

_CODES = sorted(answered_by(AnsweredBy.BROKER) | answered_by(AnsweredBy.NATIVE))
# Those of mqcore that a tool or a slave sends; who asks for the rest of them is no user.
_OWN = [
    OwnRequestCode.FOLLOW_TABLES,
    OwnRequestCode.HAND_OVER,
    OwnRequestCode.REFILL_OFFER,
    OwnRequestCode.ACCESS_TABLES,
    OwnRequestCode.MEMORY,
    OwnRequestCode.SETTINGS,
    OwnRequestCode.SLOW_REQUESTS,
    OwnRequestCode.SNAPSHOT,
    OwnRequestCode.ACCESS_EXPLAINED,
    OwnRequestCode.ACCESS_REFUSALS,
    OwnRequestCode.LIMITS,
]
# The fields of a header, whatever the request: each has those that its rule names, and more.
_NAMES = {
    "topic": "t",
    "b": "t",
    "consumerGroup": "g",
    "group": "g",
    "groupName": "g",
    "compareGroup": "g",
    "srcGroup": "g",
    "destGroup": "h",
}
_OTHERS = {
    "offset": 0,
    "commitLogOffset": 0,
    "tranStateTableOffset": 0,
    "queueId": 0,
    "username": "new",
    "subject": "User:new",
    "resource": "Topic:t",
    "actions": 1,
    "filterGroups": "left",
}
_QUEUE = {"topic": "t", "brokerName": "b", "queueId": 0}
# What the body, or the message that is named, needs beside the header.
_BODIES: dict[int, tuple[Any, list[tuple[str, str]]]] = {
    18: (
        {"topicConfigList": [{"topicName": "new1"}, {"topicName": "new2"}]},
        [
            ("Topic:new1", "Create"),
            ("Topic:new2", "Create"),
        ],
    ),
    33: (None, [("Topic:t", "Get")]),
    34: (
        {
            "clientID": "c",
            "consumerDataSet": [
                {"groupName": "g", "subscriptionDataSet": [{"topic": "t"}]},
            ],
        },
        [("Group:g", "Sub"), ("Topic:t", "Sub")],
    ),
    36: (None, [("Topic:t", "Sub")]),
    37: (None, [("Topic:t", "Pub")]),
    41: (
        {"consumerGroup": "g", "clientId": "c", "mqSet": [_QUEUE]},
        [("Group:g", "Sub"), ("Topic:t", "Sub")],
    ),
    42: (
        {"consumerGroup": "g", "clientId": "c", "mqSet": [_QUEUE]},
        [("Group:g", "Sub"), ("Topic:t", "Sub")],
    ),
    200: ({"groupName": "new"}, [("Group:new", "Update")]),
    208: (None, [("Topic:t", "Get")]),
    225: ({"groupConfigList": [{"groupName": "new"}]}, [("Group:new", "Create")]),
    308: (None, [("Group:left", "Get")]),
    309: (None, [("Topic:t", "Sub")]),
    314: (None, [("Topic:t", "Update")]),
    323: (None, [("Topic:t", "Update")]),
    353: (None, [("Topic:t", "Get"), ("Group:g", "Get")]),
    354: (None, [("Topic:t", "Get")]),
    400: (
        {"topic": "t", "consumerGroup": "g", "clientId": "c"},
        [("Topic:t", "Sub"), ("Group:g", "Sub")],
    ),
    401: (
        {"topic": "t", "consumerGroup": "g", "mode": "PULL"},
        [("Topic:t", "Update"), ("Group:g", "Update")],
    ),
    200151: (
        {"brokerName": "b", "acks": [{"c": "g", "t": "t", "r": "0", "q": 0, "b": "AQ=="}]},
        [("Topic:t", "Sub"), ("Group:g", "Sub")],
    ),
}
_PAIR = re.compile(r"([TGC])(?:\(([^)]*)\))?\??$")


def needs_of(code: int) -> list[tuple[str, str]]:
    """Returns exactly what a request needs, of several actions the last."""
    found = []
    for part in RULES[code].split(", "):
        if part in ("any", "super", "body"):
            continue
        what, _, actions = part.partition(" ")
        match = _PAIR.match(what)
        assert match is not None, part
        kind = {"T": "Topic", "G": "Group", "C": "Cluster"}[match[1]]
        name = "c" if match[1] == "C" else _NAMES[match[2].split("|")[0]]
        found.append((f"{kind}:{name}", actions.split("/")[-1]))
    if RULES[code].split(", ")[-1] == "body":
        found += _BODIES[code][1]
    return found


@pytest.mark.parametrize("part", range(4))
def test_every_request_is_served_to_who_may_and_refused_to_all_others(
    tmp_path: Path, part: int
) -> None:
    codes = [*_CODES, *_OWN][part::4]

    async def run() -> None:
        async with guarded(tmp_path) as broker:
            known = await prepared(broker)
            nobody = await broker.user("nobody")
            faults = []
            for code in codes:
                ext = _NAMES | _OTHERS | known
                body = _BODIES[code][0] if code in _BODIES else None
                request = (ext, b"" if body is None else compact(body))
                faults += await faults_of(broker, code, request, nobody)
            assert not faults

    run_on("uvloop", run())


async def prepared(broker: Guarded) -> dict[str, object]:
    """Makes a topic with a message at the log's beginning and a half one; returns their fields."""
    await with_topic(broker)
    sent = await broker.ask(ROOT, RequestCode.SEND_MESSAGE_V2, send_fields("t"), b"x")
    half = {"f": 4, "i": "TRAN_MSG\x01true\x02PGROUP\x01pg\x02"}
    put = await broker.ask(ROOT, RequestCode.SEND_MESSAGE_V2, send_fields("t") | half, b"x")
    named = parse_offset_id(put.ext["msgId"])
    assert named is not None
    return {
        "msgId": sent.ext["msgId"],
        "producerGroup": "pg",
        "commitLogOffset": named.physical_offset,
        "tranStateTableOffset": 0,
        "commitOrRollback": 8,
    }


async def faults_of(
    broker: Guarded,
    code: int,
    request: tuple[dict[str, object], bytes],
    nobody: Credentials,
) -> list[str]:
    """Returns what is wrong about the answers to a request, by who asks."""
    name, found = code_name(code), []

    async def refusal(who: Credentials | None) -> bool:
        return (await broker.ask(who, code, *request)).code == REFUSED

    if not await refusal(None):
        found.append(f"{name} without a user is served")
    if not await refusal(Credentials("root", "another")):
        found.append(f"{name} with another's signature is served")
    rule = RULES[code]
    if await refusal(nobody) != (rule != "any"):
        found.append(f"{name} of a user without rights: not as {rule}")
    if rule in ("any", "super"):
        return found
    needs = needs_of(code)
    user, denied = f"u{code}", f"d{code}"
    may = await broker.user(user)
    await broker.grant(user, *merged(needs))
    answer = await broker.ask(may, code, *request)
    if answer.code == REFUSED and "permission to access" in (answer.remark or ""):
        found.append(f"{name} with {needs}: {answer.remark}")
    other = await broker.user(denied)
    await broker.grant(denied, ("*", "All"))
    await broker.grant(denied, needs[-1], decision="Deny")
    if not await refusal(other):
        found.append(f"{name} with {needs[-1]} denied is served")
    return found


def merged(needs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Returns one entry for each resource."""
    table: dict[str, list[str]] = {}
    for resource, action in needs:
        table.setdefault(resource, []).append(action)
    return [(resource, ",".join(actions)) for resource, actions in table.items()]
