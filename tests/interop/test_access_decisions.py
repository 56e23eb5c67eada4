"""What may be done with which policies: ours and a live official broker, asked the same.

Policies are made at both by the same requests, a user of its own for each, and requests are signed
by these users. Where the two differ is kept in `access_decisions.txt`, a line each; a difference
that is not there, or one there that is none, fails. Official 5.5 has the documented order of
entries, and does not check some requests.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Final

import pytest

import mqcore
from interop.official import Official
from interop.servers import OURS, Servers, Software, official_software, serving
from interop.test_access import ON, ROOT
from live_broker import field_texts, send_fields
from loops import run_on
from mqcore.admin import Entry, Resource, User
from mqcore.model.relaxed_json import compact
from mqcore.remoting import Client, Credentials, RequestCode
from request_fields import pull_fields, topic_fields

pytestmark = [pytest.mark.java, pytest.mark.matrix]

KEPT: Final = Path(__file__).with_name("access_decisions.txt")
_REFUSED: Final = 16
_TOPIC, _GROUP = "orders-a", "g"
_SECRET: Final = "secret-of-it"
_SEND: Final = "send"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of the table."""

    code: RequestCode
    ext: dict[str, object]
    body: bytes = b""


_OF_GROUP = {"topic": _TOPIC, "consumerGroup": _GROUP, "queueId": 0}
_LOCK = {"consumerGroup": _GROUP, "clientId": "c"}
_QUEUES = [{"topic": _TOPIC, "brokerName": "broker-a", "queueId": 0}]
REQUESTS: Final = {
    _SEND: Asked(RequestCode.SEND_MESSAGE_V2, send_fields(_TOPIC), b"x"),
    "pull": Asked(RequestCode.PULL_MESSAGE, pull_fields(_TOPIC, group=_GROUP)),
    "lite pull": Asked(RequestCode.LITE_PULL_MESSAGE, pull_fields(_TOPIC, group=_GROUP)),
    "offset": Asked(RequestCode.QUERY_CONSUMER_OFFSET, _OF_GROUP),
    "commit": Asked(RequestCode.UPDATE_CONSUMER_OFFSET, _OF_GROUP | {"commitOffset": 0}),
    "end": Asked(RequestCode.GET_MAX_OFFSET, {"topic": _TOPIC, "queueId": 0}),
    "query": Asked(
        RequestCode.QUERY_MESSAGE,
        {"topic": _TOPIC, "key": "k", "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 1},
    ),
    "lock": Asked(RequestCode.LOCK_BATCH_MQ, {}, compact(_LOCK | {"mqSet": _QUEUES})),
    "members": Asked(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": _GROUP}),
    "stats": Asked(RequestCode.GET_TOPIC_STATS_INFO, {"topic": _TOPIC}),
    "topics": Asked(RequestCode.GET_ALL_TOPIC_CONFIG, {}),
    "settings": Asked(RequestCode.GET_BROKER_CONFIG, {}),
    "change": Asked(RequestCode.UPDATE_BROKER_CONFIG, {}, b"maxDelayTime=40\n"),
    "create topic": Asked(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields("made-new")),
    "delete group": Asked(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "never-there"}),
    "users": Asked(RequestCode.AUTH_LIST_USER, {}),
    "make user": Asked(
        RequestCode.AUTH_CREATE_USER,
        {"username": "made"},
        compact({"username": "made", "password": "p"}),
    ),
}
# Which of two entries decides.
_ORDERED: Final = (f"Topic:{_TOPIC}", "Topic:orders*", "Topic:o*", "Topic:*", "*")
_RIGHTS: Final = (
    (),
    *((f"{resource} {action}",) for resource, action in (
        ("Topic:*", "Pub"),
        ("Topic:*", "Sub"),
        ("Topic:*", "Get"),
        ("Topic:*", "All"),
        ("Group:*", "Sub"),
        ("Group:*", "Get"),
        ("Group:*", "All"),
        ("Cluster:*", "Get"),
        ("Cluster:*", "Update"),
        ("*", "All"),
    )),
    ("Topic:* Sub", "Group:* Sub"),
    ("Topic:* Get", "Group:* Get"),
)  # fmt: skip


def entry_of(text: str, decision: str = "Allow") -> Entry:
    resource, action = text.split()
    found = Resource.of_text(resource)
    assert found is not None
    return Entry(found, (action,), decision=decision)


def table() -> Iterator[tuple[str, list[tuple[Entry, bool]], tuple[str, ...]]]:
    """Returns the name of each row, its entries (whether they are Default), and its requests."""
    one = list(product(_ORDERED, ("Allow", "Deny")))
    for resource, decision in one:
        yield f"{decision} {resource}", [(entry_of(f"{resource} Pub", decision), False)], (_SEND,)
    for (first, yes), (second, no) in combinations(one, 2):
        if first == second or yes == no:
            continue
        entries = [entry_of(f"{first} Pub", yes), entry_of(f"{second} Pub", no)]
        name = f"{yes} {first}, {no} {second}"
        yield name, [(each, False) for each in entries], (_SEND,)
        yield f"{name} (Default)", [(entries[0], False), (entries[1], True)], (_SEND,)
    for rights in _RIGHTS:
        given = [(entry_of(each), False) for each in rights]
        yield ", ".join(rights) or "nothing", given, tuple(REQUESTS)


def decisions(software: Software, root: Path) -> dict[str, str]:
    """Returns what becomes of every request of every row: passed or refused."""
    with serving(software, root, ON) as servers:
        rows = list(table())
        with mqcore.Admin(servers.namesrv.address, credentials=Credentials(*ROOT)) as admin:
            admin.topics.create(_TOPIC, queues=1)
            at = [servers.broker.address]
            for number, (_name, entries, _asked) in enumerate(rows):
                admin.access.create_user(User(f"u{number}", _SECRET), brokers=at)
                for entry, is_default in entries:
                    admin.access.grant(f"u{number}", entry, is_default=is_default, brokers=at)
        return run_on("asyncio", _outcomes(servers, rows))


async def _outcomes(
    servers: Servers, rows: list[tuple[str, list[tuple[Entry, bool]], tuple[str, ...]]]
) -> dict[str, str]:
    found = {}

    async def row(number: int) -> None:
        name, _entries, asked = rows[number]
        who = Credentials(f"u{number}", _SECRET)
        async with Client(credentials=who) as client:
            for each in asked:
                request = REQUESTS[each]
                ext = field_texts(request.ext)
                answer = await client.call(
                    servers.broker.address, request.code, ext, request.body, timeout_s=30
                )
                # Settings that nobody may change by the wire have the same code.
                is_refused = answer.code == _REFUSED and "User:" in (answer.remark or "")
                found[f"{each} with {name}"] = "refused" if is_refused else "passed"

    for begin in range(0, len(rows), 8):
        await asyncio.gather(*(row(at) for at in range(begin, min(begin + 8, len(rows)))))
    return found


def test_decisions_are_those_of_an_official_broker_but_for_what_is_kept(
    official_55: Official, tmp_path: Path
) -> None:
    ours = decisions(OURS, tmp_path / "ours")
    theirs = decisions(official_software(official_55.version), tmp_path / "theirs")
    assert ours.keys() == theirs.keys()
    differing = [
        f"{name}: ours {ours[name]}, official {theirs[name]}"
        for name in sorted(ours)
        if ours[name] != theirs[name]
    ]
    kept = [
        line
        for line in KEPT.read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    if differing != kept:
        pytest.fail("\n".join(["other differences than are kept:", *differing]), pytrace=False)
