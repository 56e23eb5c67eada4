"""`mqcore topic queues` and `mqcore topic move`: no message is stranded, at any brokers."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import mqcore
from interop.official import Official
from interop.patience import eventually
from interop.servers import OURS, official_software
from interop.static_cluster import FIRST, SECOND, TwoBrokers, two_brokers
from mqcore.cli.main import commands
from mqcore.errors import NoRouteError

pytestmark = pytest.mark.slow

TOPIC, GROUP = "orders", "readers"
# Our producers ask for routes as often, in these tests.
_POLL_S = 0.5
QUIET_S = "2"


def topic(cluster: TwoBrokers, *line: str) -> Result:
    """Runs a command of `mqcore topic`."""
    return CliRunner().invoke(commands, ["topic", *line, "-n", cluster.namesrv.address])


def done(result: Result) -> str:
    """Returns what a command printed that has to succeed."""
    assert result.exit_code == 0, f"{result.output}{result.exception}"
    return result.output


def queues_of(cluster: TwoBrokers) -> dict[str, tuple[int, int, int]]:
    """Returns read queues, write queues and permission in the route, by broker."""
    with mqcore.Admin(cluster.namesrv.address) as admin:
        route = admin.topics.route(TOPIC)
    return {each.broker_name: (each.read, each.write, each.perm) for each in route.counts}


class Flood:
    """Sends without a pause until it is ended; what was acknowledged is in `sent`."""

    def __init__(self, namesrv: str) -> None:
        self.sent: list[bytes] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send, args=(namesrv,))
        self._thread.start()

    def _send(self, namesrv: str) -> None:
        with (
            mqcore.Client(namesrv, route_interval_s=_POLL_S) as client,
            client.producer(group="pg") as producer,
        ):
            number = 0
            while not self._is_over.wait(0.005):
                body = str(number).encode()
                producer.send(mqcore.Message(TOPIC, body))
                self.sent.append(body)
                number += 1

    def end(self) -> list[bytes]:
        self._is_over.set()
        self._thread.join()
        return self.sent


@contextmanager
def flooded(cluster: TwoBrokers) -> Iterator[tuple[Flood, list[bytes]]]:
    """A producer and a consumer of the topic; at the end everything was consumed."""
    namesrv = cluster.namesrv.address
    got: list[bytes] = []
    with (
        mqcore.Client(namesrv, route_interval_s=_POLL_S) as client,
        client.push_consumer(
            group=GROUP,
            topics=TOPIC,
            handler=lambda each: got.append(each.body),
            rebalance_interval_s=_POLL_S,
        ),
    ):
        flood = Flood(namesrv)
        try:
            eventually(lambda: len(got), lambda count: count > 20)
            yield flood, got
            now = len(flood.sent)
            eventually(lambda: len(got), lambda count: count > now + 20)
        finally:
            sent = flood.end()
        eventually(lambda: len(set(got)), lambda count: count >= len(sent))
    assert set(sent) == set(got)


def test_queues_come_and_go_below_clients(tmp_path: Path) -> None:
    with two_brokers(OURS, tmp_path) as cluster:
        done(topic(cluster, "create", TOPIC, "-q", "4", "-b", cluster.first.broker.address))
        with flooded(cluster):
            assert "4 queues -> 6" in done(topic(cluster, "queues", TOPIC, "6", "--dry-run"))
            assert queues_of(cluster) == {FIRST: (4, 4, 6)}
            done(topic(cluster, "queues", TOPIC, "6", "-y"))
            assert queues_of(cluster) == {FIRST: (6, 6, 6)}
            done(topic(cluster, "queues", TOPIC, "2", "-y", "--quiet-s", QUIET_S))
            assert queues_of(cluster) == {FIRST: (2, 2, 6)}


def test_a_topic_moves_below_clients(tmp_path: Path) -> None:
    with two_brokers(OURS, tmp_path) as cluster:
        moved_below_clients(cluster)


@pytest.mark.java
def test_a_topic_moves_below_clients_of_official_brokers(
    official_53: Official, tmp_path: Path
) -> None:
    with two_brokers(official_software(official_53.version), tmp_path) as cluster:
        moved_below_clients(cluster)


def moved_below_clients(cluster: TwoBrokers) -> None:
    """Moves a topic from the first broker to the second, and looks what is left."""
    done(topic(cluster, "create", TOPIC, "-q", "3", "-b", cluster.first.broker.address))
    line = ("move", TOPIC, "--from", FIRST, "--to", SECOND)
    with flooded(cluster) as (flood, _got):
        assert "3 queues" in done(topic(cluster, *line, "--dry-run"))
        done(topic(cluster, *line, "-y", "--quiet-s", QUIET_S))
        assert queues_of(cluster) == {SECOND: (3, 3, 6)}
        with mqcore.Admin(cluster.namesrv.address) as admin:
            assert list(admin.topics.configs(TOPIC)) == [SECOND]
            assert admin.topics.config_at(cluster.first.broker.address, TOPIC) is None
        before = len(flood.sent)
    assert len(flood.sent) > before
    # It may be given again.
    again = topic(cluster, *line, "-y")
    assert again.exit_code != 0
    assert f"not on {FIRST}" in f"{again.output}{again.exception}"


def test_a_group_that_is_behind_is_waited_for(tmp_path: Path) -> None:
    with two_brokers(OURS, tmp_path) as cluster:
        namesrv = cluster.namesrv.address
        done(topic(cluster, "create", TOPIC, "-q", "4", "-b", cluster.first.broker.address))
        first: list[bytes] = []
        consumer = mqcore.PushConsumer(
            namesrv, group=GROUP, topics=TOPIC, handler=lambda each: first.append(each.body)
        )
        with consumer, mqcore.Producer(namesrv, group="pg") as producer:
            producer.send(mqcore.Message(TOPIC, "first"))
            assert eventually(lambda: list(first), bool) == [b"first"]
        # It is known by its offsets now: nobody of it is there.
        with mqcore.Admin(namesrv) as admin:
            assert GROUP in eventually(
                lambda: admin.topics.groups(TOPIC), lambda found: GROUP in found
            )
        with mqcore.Producer(namesrv, group="pg") as producer:
            for number in range(40):
                producer.send(mqcore.Message(TOPIC, str(number)))
        shrink = ("queues", TOPIC, "1", "-y", "--quiet-s", "0")
        results: list[Result] = []
        thread = threading.Thread(target=lambda: results.append(topic(cluster, *shrink)))
        thread.start()
        seen = eventually(lambda: queues_of(cluster), lambda found: found[FIRST][1] == 1)
        assert seen == {FIRST: (4, 1, 6)}, "read until they are consumed"
        got: list[bytes] = []
        with mqcore.PushConsumer(
            namesrv, group=GROUP, topics=TOPIC, handler=lambda each: got.append(each.body)
        ):
            eventually(lambda: len(got), lambda count: count == 40)
        thread.join()
        assert f"waiting for {GROUP}: " in done(results[0])
        assert queues_of(cluster) == {FIRST: (1, 1, 6)}
        assert Counter(got) == Counter(str(number).encode() for number in range(40))


def test_what_cannot_be_done_is_refused(tmp_path: Path) -> None:
    with two_brokers(OURS, tmp_path) as cluster:
        done(topic(cluster, "create", TOPIC, "-q", "2", "-b", cluster.first.broker.address))
        line = ["-t", "static", "-qn", "1", "-b", FIRST, "-n", cluster.namesrv.address]
        made = CliRunner().invoke(commands, ["admin", "updateStaticTopic", *line])
        assert made.exit_code == 0
        for words, why in (
            (("queues", TOPIC, "1", "-b", "nowhere", "-y"), "not on nowhere"),
            (("queues", TOPIC, "1"), "Add --yes"),
            (("move", TOPIC, "--from", SECOND, "--to", FIRST, "-y"), f"not on {SECOND}"),
            (("move", TOPIC, "--from", FIRST, "--to", "nowhere", "-y"), "no master of nowhere"),
            (("move", TOPIC, "--from", FIRST, "--to", FIRST, "-y"), "the same broker"),
            (("move", "static", "--from", FIRST, "--to", SECOND, "-y"), "static topic"),
        ):
            refused = topic(cluster, *words)
            assert refused.exit_code != 0
            assert why in f"{refused.output}{refused.exception}"
        assert queues_of(cluster) == {FIRST: (2, 2, 6)}
        with mqcore.Admin(cluster.namesrv.address) as admin:
            with pytest.raises(NoRouteError):
                admin.topics.delete_at("none", FIRST)
            with pytest.raises(mqcore.MQError, match="not on broker"):
                admin.topics.delete_at(TOPIC, SECOND)
