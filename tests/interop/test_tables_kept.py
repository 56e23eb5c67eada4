"""What a master has just made is known to the one that is elected when it is killed at once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interop.elected import SAFE, Broker, group
from interop.replicated import asked
from interop.servers import OURS
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.remoting import RequestCode, expect

# What a test makes, and what it looks for at the next master.
Kind = tuple[Callable[[Broker, int], None], Callable[[Broker, int], None]]


def _ask(broker: Broker, code: RequestCode, ext: dict[str, str], body: bytes = b"") -> bytes:
    return expect(asked(broker.address, code, ext, body), broker.address).body


def make_topic(broker: Broker, number: int) -> None:
    """Makes a topic with queues, a permission and an attribute of its own."""
    ext = {
        "topic": f"made-{number}",
        "defaultTopic": "TBW102",
        "readQueueNums": str(5 + number),
        "writeQueueNums": str(3 + number),
        "perm": "4" if number % 2 else "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "true" if number % 3 else "false",
        "attributes": "+message.type=FIFO",
    }
    _ask(broker, RequestCode.UPDATE_AND_CREATE_TOPIC, ext)


def find_topic(broker: Broker, number: int) -> None:
    """Checks that a master knows the topic as it was made."""
    body = _ask(broker, RequestCode.GET_TOPIC_CONFIG, {"topic": f"made-{number}"})
    found: dict[str, Any] = parse_object(body)
    assert (found["readQueueNums"], found["writeQueueNums"]) == (5 + number, 3 + number)
    assert found["perm"] == (4 if number % 2 else 6)
    assert found["order"] is bool(number % 3)
    assert found["attributes"] == {"message.type": "FIFO"}


def make_group(broker: Broker, number: int) -> None:
    """Makes a group with settings of its own."""
    body = compact({"groupName": f"made-{number}", "retryMaxTimes": number, "retryQueueNums": 2})
    _ask(broker, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)


def find_group(broker: Broker, number: int) -> None:
    """Checks that a master knows the group as it was made."""
    body = _ask(broker, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": f"made-{number}"})
    found = parse_object(body)
    assert (found["retryMaxTimes"], found["retryQueueNums"]) == (number, 2)


def make_by_send(broker: Broker, number: int) -> None:
    """Makes a topic by its first message."""
    ext = {"a": "pg", "b": f"sent-{number}", "c": "TBW102", "d": str(2 + number), "e": "0"}
    ext |= {"f": "0", "g": "1700000000000", "h": "0", "i": "", "j": "0", "k": "false", "m": "false"}
    _ask(broker, RequestCode.SEND_MESSAGE_V2, ext, b"first")


def find_sent(broker: Broker, number: int) -> None:
    """Checks that a master knows the topic, with as many queues as its sender asked for."""
    found = parse_object(_ask(broker, RequestCode.GET_TOPIC_CONFIG, {"topic": f"sent-{number}"}))
    assert found["writeQueueNums"] == min(2 + number, 8)


KINDS: dict[str, Kind] = {
    "topic": (make_topic, find_topic),
    "group": (make_group, find_group),
    "send": (make_by_send, find_sent),
}


def _check(kinds: list[str], rounds: int, root: Path) -> None:
    with group([OURS] * 3, root, SAFE, controller=OURS) as them:
        for number in range(rounds):
            for kind in kinds:
                make, find = KINDS[kind]
                master = them.master()
                them.wait_for_in_sync(3)
                make(master, number)
                master.program.kill()
                find(them.master(master), number)
                master.program.start()


def test_what_was_just_made_is_known_after_a_kill(tmp_path: Path) -> None:
    _check(list(KINDS), 1, tmp_path)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", KINDS)
def test_in_twenty_rounds_nothing_made_is_lost(kind: str, tmp_path: Path) -> None:
    _check([kind], 20, tmp_path)
