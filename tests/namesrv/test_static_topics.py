"""Which broker leads which queue of a static topic goes into routes, and out with the topic."""

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from mqcore.client.routes import TopicRoute
from mqcore.model.queues import MessageQueue
from mqcore.model.static_topics import NOBODY, StaticQueues
from namesrv.asking import CLUSTER, Asked, registration_body, rows, topic_row

LED = StaticQueues("S", "broker-a", 2, 7, led=((1, 0),))


def body(counter: int = 1, led: StaticQueues = LED) -> bytes:
    """Returns a registration with a static topic."""
    found: dict[str, Any] = json.loads(registration_body(rows("S", "T"), counter=counter))
    wrapper = found["topicConfigSerializeWrapper"]
    wrapper["topicQueueMappingInfoMap"] = {"S": led.to_json()}
    # Java writes the keys of the map as bare numbers.
    return json.dumps(found).replace('{"1": 0}', "{1: 0}").encode()


def compressed(led: StaticQueues) -> bytes:
    """Returns the compressed form of 5.x."""

    def block(text: bytes) -> bytes:
        return struct.pack(">i", len(text)) + text

    version = b'{"counter":1,"stateVersion":0,"timestamp":7}'
    mapping = json.dumps(led.to_json()).encode()
    topics = block(version) + struct.pack(">i", 1) + block(b"S 8 8 6 SINGLE_TAG")
    return zlib.compress(topics + block(b"[]") + struct.pack(">i", 1) + block(mapping))


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_route_has_who_leads_which_queue(tmp_path: Path, is_compressed: bool) -> None:
    asked = Asked(tmp_path)
    assert asked.register(body=body()).code == 0
    if is_compressed:
        again = compressed(LED)
        assert asked.register(body=again, compressed="true", counter=2).code == 0
    found = asked.route("S")
    assert found is not None
    assert found["topicQueueMappingByBroker"] == {"broker-a": LED.to_json()}
    plain = asked.route("T")
    assert plain is not None
    assert "topicQueueMappingByBroker" not in plain
    route = TopicRoute.of_body("S", json.dumps(found).encode())
    queues = [MessageQueue("S", "__syslo__global__", number) for number in range(2)]
    assert list(route.read_queues) == list(route.write_queues) == queues
    assert [route.broker_of(queue) for queue in queues] == [NOBODY, "broker-a"]
    assert route.broker_of(MessageQueue("S", "x", 0)) == "x"


def test_a_compressed_registration_of_a_new_broker_has_it_too(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    asked.register()
    whole = compressed(LED)
    # A part, of a broker that is known.
    assert asked.register(body=whole, compressed="true").code == 0
    found = asked.route("S")
    assert found is not None
    assert found["topicQueueMappingByBroker"] == {"broker-a": LED.to_json()}


def test_what_a_topic_leads_changes_and_goes_with_it(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    asked.register(body=body())
    moved = StaticQueues("S", "broker-a", 2, 8)
    asked.register(body=body(2, moved))
    found = asked.route("S")
    assert found is not None
    assert found["topicQueueMappingByBroker"]["broker-a"]["currIdMap"] == {}
    # An entry by hand does not make it an ordinary topic.
    row = topic_row("S") | {"brokerName": "broker-a"}
    entered = json.dumps({"queueDatas": [row], "brokerDatas": []}).encode()
    assert asked.ask(217, {"topic": "S"}, entered).code == 0
    found = asked.route("S")
    assert found is not None
    assert found["topicQueueMappingByBroker"]["broker-a"]["epoch"] == 8
    assert asked.ask(216, {"topic": "S", "clusterName": CLUSTER}).code == 0
    assert asked.route("S") is None
    # Officially a topic that is made anew has the mapping of the one before.
    asked.register(counter=3, topics=rows("S", "T"))
    found = asked.route("S")
    assert found is not None
    assert "topicQueueMappingByBroker" not in found
