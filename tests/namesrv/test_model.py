"""The route table against a naive one that works every answer out anew from what was registered."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mqcore.namesrv import answers
from mqcore.remoting import Connection
from namesrv.asking import CLUSTER, Asked, topic_row

NAMES = st.sampled_from(["a", "b", "c"])
IDS = st.integers(0, 2)
TOPICS = ["T0", "T1", "T2", "T3"]
TIMEOUT_MS = 120_000


@dataclass
class Broker:
    """What the naive table knows of a broker."""

    name: str
    broker_id: int
    version: int
    channel: int
    heard_ms: int


@dataclass
class Naive:
    """Brokers by address, queue counts by topic and broker name."""

    brokers: dict[str, Broker] = field(default_factory=dict)
    topics: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)

    def names(self) -> set[str]:
        return {broker.name for broker in self.brokers.values()}

    def register(self, name: str, new: Broker, address: str, topics: dict[str, int]) -> bool:
        if address not in self.brokers and len(topics) == 1:
            return False
        before = self.brokers.get(address)
        is_new = before is None or before.version != new.version
        self.brokers[address] = new
        if new.broker_id == 0:
            for topic, queues in topics.items():
                here = self.topics.setdefault(topic, {})
                if is_new or name not in here:
                    here[name] = (queues, 6)
        return True

    def forget(self, addresses: list[str]) -> None:
        for address in addresses:
            self.brokers.pop(address, None)
        here = self.names()
        for topic in list(self.topics):
            self.topics[topic] = {n: q for n, q in self.topics[topic].items() if n in here}
            if not self.topics[topic]:
                del self.topics[topic]


def address_of(name: str, broker_id: int) -> str:
    return f"{name}-{broker_id}:10911"


class Tables(RuleBasedStateMachine):
    """Sends the same to both and compares every route after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.asked = Asked(Path(self.folder.name))
        self.links = [Connection(self.asked.hub).link for _ in range(3)]
        self.naive = Naive()

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(
        name=NAMES,
        broker_id=IDS,
        version=st.integers(0, 2),
        channel=st.integers(0, 2),
        topics=st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 3), max_size=4),
    )
    def register(
        self, name: str, broker_id: int, version: int, channel: int, topics: dict[str, int]
    ) -> None:
        address = address_of(name, broker_id)
        answer = self.asked.register(
            name,
            address,
            broker_id,
            {topic: topic_row(topic, queues=queues) for topic, queues in topics.items()},
            counter=version,
            link=self.links[channel],
        )
        new = Broker(name, broker_id, version, channel, self.asked.now_ms)
        assert (answer.code == 0) is self.naive.register(name, new, address, topics)

    @rule(name=NAMES, broker_id=IDS)
    def unregister(self, name: str, broker_id: int) -> None:
        address = address_of(name, broker_id)
        fields = {"brokerName": name, "clusterName": CLUSTER, "brokerAddr": address}
        assert self.asked.ask(104, {**fields, "brokerId": broker_id}).code == 0
        self.naive.forget([address])

    @rule(channel=st.integers(0, 2))
    def close(self, channel: int) -> None:
        self.asked.requests.table.channel_closed(self.links[channel])
        self.naive.forget([a for a, b in self.naive.brokers.items() if b.channel == channel])

    @rule(pause_ms=st.integers(0, 90_000))
    def time_passes(self, pause_ms: int) -> None:
        self.asked.now_ms += pause_ms
        self.asked.requests.table.expire(self.asked.now_ms)
        oldest_ms = self.asked.now_ms - TIMEOUT_MS
        self.naive.forget([a for a, b in self.naive.brokers.items() if b.heard_ms < oldest_ms])

    @rule(name=NAMES, broker_id=IDS)
    def is_heard_of(self, name: str, broker_id: int) -> None:
        address = address_of(name, broker_id)
        fields = {"brokerName": name, "clusterName": CLUSTER, "brokerAddr": address}
        self.asked.ask(904, fields)
        if address in self.naive.brokers:
            self.naive.brokers[address].heard_ms = self.asked.now_ms

    @rule(name=NAMES, wipes=st.booleans())
    def change_perms(self, name: str, wipes: bool) -> None:
        self.asked.ask(205 if wipes else 327, {"brokerName": name})
        for here in self.naive.topics.values():
            if name in here:
                here[name] = (here[name][0], 4 if wipes else 6)

    @rule(topic=st.sampled_from(TOPICS))
    def delete_topic(self, topic: str) -> None:
        self.asked.ask(216, {"topic": topic})
        self.naive.topics.pop(topic, None)

    @invariant()
    def routes_agree(self) -> None:
        for topic in TOPICS:
            route = self.asked.route(topic)
            here = self.naive.topics.get(topic)
            if here is None:
                assert route is None
                continue
            assert route is not None
            queues = {q["brokerName"]: (q["readQueueNums"], q["perm"]) for q in route["queueDatas"]}
            assert queues == here
            shown = {row["brokerName"]: row["brokerAddrs"] for row in route["brokerDatas"]}
            assert shown == {
                name: {
                    str(broker.broker_id): address
                    for address, broker in self.naive.brokers.items()
                    if broker.name == name
                }
                for name in here
            }

    @invariant()
    def what_is_kept_encoded_is_what_would_be_encoded_now(self) -> None:
        for topic, body in self.asked.requests._encoded.items():
            view = answers.route_of(
                self.asked.requests.table, topic, order_conf=None, has_acting_master=False
            )
            assert view is not None
            assert body == answers.route_body(view)

    @invariant()
    def the_cluster_agrees(self) -> None:
        shown = json.loads(self.asked.ask(106).body)
        assert set(shown["brokerAddrTable"]) == self.naive.names()
        assert set(shown["clusterAddrTable"].get(CLUSTER, [])) == self.naive.names()


Tables.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestTables = Tables.TestCase
