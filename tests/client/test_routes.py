"""Routes out of the answers of name servers, and the queues that they mean."""

import json
from typing import Any

import pytest

from mqcore.client.name_servers import addresses_of
from mqcore.client.results import QueueRef
from mqcore.client.routes import TopicRoute
from mqcore.client.topics import Targets, queue_of_key
from mqcore.errors import AddressError, BadJsonError


def _body(
    brokers: dict[str, dict[str, str]], queues: list[tuple[str, int, int, int]], **more: Any
) -> bytes:
    return json.dumps(
        {
            "brokerDatas": [
                {"brokerAddrs": addresses, "brokerName": name, "cluster": "c"}
                for name, addresses in brokers.items()
            ],
            "queueDatas": [
                {"brokerName": name, "readQueueNums": read, "writeQueueNums": write, "perm": perm}
                for name, read, write, perm in queues
            ],
            **more,
        }
    ).encode()


def test_a_route_lists_what_may_be_written_and_what_may_be_read() -> None:
    body = _body(
        {"b": {"0": "h:1", "1": "h:2"}, "a": {"0": "h:3"}, "slave": {"1": "h:4"}},
        [("b", 2, 1, 6), ("a", 1, 2, 2), ("slave", 3, 3, 6), ("gone", 1, 1, 6)],
    )
    route = TopicRoute.of_body("t", body)
    # Sorted by name; written where a master is, read wherever the permission allows it.
    assert [(queue.broker_name, queue.queue_id) for queue in route.write_queues] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
    ]
    assert {queue.broker_name for queue in route.read_queues} == {"b", "slave", "gone"}
    broker = route.broker("b")
    assert broker is not None
    assert (broker.master, broker.any_of(1), broker.any_of(7)) == ("h:1", "h:2", "h:1")


def test_the_order_of_an_answer_means_nothing() -> None:
    brokers = {"a": {"0": "h:1"}, "b": {"0": "h:2"}}
    queues = [("a", 1, 1, 6), ("b", 1, 1, 6)]
    turned = _body(dict(reversed(brokers.items())), list(reversed(queues)))
    assert TopicRoute.of_body("t", _body(brokers, queues)) == TopicRoute.of_body("t", turned)


def test_a_fixed_order_replaces_the_queues_to_write() -> None:
    body = _body({"b": {"0": "h:1"}}, [("b", 4, 4, 6)], orderTopicConf="b:2;a:1")
    route = TopicRoute.of_body("t", body)
    assert route.write_queues == (
        QueueRef("t", "b", 0),
        QueueRef("t", "b", 1),
        QueueRef("t", "a", 0),
    )
    assert len(route.read_queues) == 4


def test_javas_own_dialect_is_read() -> None:
    body = (
        b'{"brokerDatas":[{"brokerAddrs":{0:"h:1"},"brokerName":"b","cluster":"c"}],'
        b'"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":1,"writeQueueNums":1}]}'
    )
    assert len(TopicRoute.of_body("t", body).write_queues) == 1
    with pytest.raises(BadJsonError):
        TopicRoute.of_body("t", b"<html>")
    assert TopicRoute.of_body("t", b"{}").write_queues == ()


def test_a_template_lends_as_many_queues_as_the_producer_asks_for() -> None:
    body = _body({"b": {"0": "h:1"}}, [("b", 8, 8, 7)])
    route = TopicRoute.of_body("TBW102", body).as_template("t", 4)
    assert route.topic == "t"
    assert route.write_queues == tuple(QueueRef("t", "b", at) for at in range(4))


def test_a_changed_route_changes_what_is_sent_to() -> None:
    targets = Targets()
    one = TopicRoute.of_body("i%t", _body({"b": {"0": "h:1"}}, [("b", 1, 1, 6)]))
    two = TopicRoute.of_body("i%t", _body({"b": {"0": "h:1"}}, [("b", 2, 2, 6)]))
    target = targets.put("t", one)
    targets.changed("i%t", two)
    targets.changed("other", two)
    assert targets.known("t") is target
    assert len(target.queues) == 2
    assert targets.topics == ["i%t"]


def test_a_key_has_the_queue_that_java_gives_it() -> None:
    queues = tuple(QueueRef("t", "b", at) for at in range(7))
    # "a".hashCode() is 97; the other has the smallest number of all, whose abs Java keeps negative.
    assert queue_of_key(queues, "a").queue_id == 97 % 7
    assert queue_of_key(queues, "polygenelubricants").queue_id == 0


@pytest.mark.parametrize("bad", ["", ";", "host", "host:port", "host:70000", [7], []])
def test_what_is_no_address_of_a_name_server_is_refused_at_once(bad: Any) -> None:
    with pytest.raises(AddressError):
        addresses_of(bad)


def test_name_servers_are_separated_by_semicolons_commas_or_a_list() -> None:
    assert addresses_of("a:1; b:2,a:1") == ("a:1", "b:2")
    assert addresses_of(["a:1", "b:2"]) == ("a:1", "b:2")
