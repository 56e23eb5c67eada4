"""Static topics with brokers and clients of ours alone: moves below producers and consumers."""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import mqcore
from interop.patience import eventually
from interop.servers import OURS
from interop.static_cluster import FIRST, SECOND, TwoBrokers, two_brokers
from mqcore.cli.main import commands

pytestmark = pytest.mark.slow

TOPIC = "orders"


def admin(cluster: TwoBrokers, *line: str) -> Result:
    """Runs `mqcore admin`."""
    return CliRunner().invoke(commands, ["admin", *line, "-n", cluster.namesrv.address])


def done(result: Result) -> str:
    """Returns what a command printed that has to succeed."""
    assert result.exit_code == 0, f"{result.output}{result.exception}"
    return result.output


def test_our_clients_go_on_through_moves(tmp_path: Path) -> None:
    got: list[tuple[bytes, int, int]] = []
    lock = threading.Lock()

    def take(message: mqcore.ReceivedMessage) -> None:
        with lock:
            got.append((message.body, message.queue.queue_id, message.queue_offset))

    with two_brokers(OURS, tmp_path) as cluster:
        namesrv = cluster.namesrv.address
        done(admin(cluster, "updateStaticTopic", "-t", TOPIC, "-qn", "4", "-b", FIRST))
        sent = []
        with (
            mqcore.Producer(namesrv, group="pg") as producer,
            mqcore.PushConsumer(namesrv, group="cg", topics=TOPIC, handler=take),
        ):
            for part, target in enumerate((None, SECOND, FIRST)):
                if target is not None:
                    done(admin(cluster, "remappingStaticTopic", "-t", TOPIC, "-b", target))
                for number in range(40):
                    body = f"{part}-{number}"
                    result = producer.send(mqcore.Message(TOPIC, body))
                    where = (result.queue.queue_id, result.queue_offset)
                    sent.append((body.encode(), *where))
                    assert result.queue.broker_name == "__syslo__global__"
                    assert result.queue_offset // 10_000 == part
            eventually(lambda: len(got), lambda count: count >= len(sent))
        assert Counter(got) == Counter(sent)
        status = done(admin(cluster, "topicStatus", "-t", TOPIC))
        rows = [line.split() for line in status.splitlines() if "__syslo__global__" in line]
        assert [row[1:4] for row in rows] == [[str(at), "0", "20010"] for at in range(4)]
        # A group goes on where it was.
        more: list[bytes] = []
        with (
            mqcore.PushConsumer(
                namesrv, group="cg", topics=TOPIC, handler=lambda each: more.append(each.body)
            ),
            mqcore.Producer(namesrv, group="pg") as producer,
        ):
            producer.send(mqcore.Message(TOPIC, "last"))
            eventually(lambda: list(more), lambda seen: b"last" in seen)
        assert more == [b"last"]


def test_a_message_of_a_static_topic_is_tried_again(tmp_path: Path) -> None:
    seen: list[int] = []

    def take(message: mqcore.ReceivedMessage) -> None:
        seen.append(message.reconsume_times)
        if len(seen) == 1:
            raise ValueError("once")

    with two_brokers(OURS, tmp_path, {"messageDelayLevel": " ".join(["1s"] * 18)}) as cluster:
        namesrv = cluster.namesrv.address
        done(admin(cluster, "updateStaticTopic", "-t", TOPIC, "-qn", "1", "-b", SECOND))
        with (
            mqcore.PushConsumer(namesrv, group="cg", topics=TOPIC, handler=take),
            mqcore.Producer(namesrv, group="pg") as producer,
        ):
            producer.send(mqcore.Message(TOPIC, "x"))
            eventually(lambda: list(seen), lambda found: len(found) == 2)
        assert seen == [0, 1]


def test_a_move_that_was_interrupted_is_repeated_from_its_file(tmp_path: Path) -> None:
    with two_brokers(OURS, tmp_path) as cluster:
        done(admin(cluster, "updateStaticTopic", "-t", TOPIC, "-qn", "2", "-b", FIRST))
        cluster.second.broker.pause()
        try:
            failed = admin(
                cluster, "--timeout", "1", "remappingStaticTopic", "-t", TOPIC, "-b", SECOND
            )
        finally:
            cluster.second.broker.resume()
        assert failed.exit_code != 0
        moved = done(admin(cluster, "remappingStaticTopic", "-t", TOPIC, "-b", SECOND))
        path = moved.split()[-1]
        # Once more, from the file, it changes nothing.
        done(admin(cluster, "remappingStaticTopic", "-t", TOPIC, "-b", SECOND, "-mf", path))
        status = done(admin(cluster, "topicStatus", "-t", TOPIC))
        assert status.count("__syslo__global__") == 2
        assert "10000" in status


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (("updateStaticTopic", "-t", TOPIC, "-qn", "2", "-b", "nowhere"), "no master of nowhere"),
        (("updateStaticTopic", "-t", TOPIC, "-qn", "1", "-b", FIRST), "Cannot decrease"),
        (("remappingStaticTopic", "-t", "none", "-b", FIRST), "on no broker"),
        (("remappingStaticTopic", "-t", "plain", "-b", FIRST), "no static topic"),
        (("remappingStaticTopic", "-t", TOPIC, "-b", FIRST, "-mf", "/nowhere"), "/nowhere"),
    ],
)
def test_what_cannot_be_done_is_refused(
    refusing: TwoBrokers, line: tuple[str, ...], why: str
) -> None:
    result = admin(refusing, *line)
    assert result.exit_code != 0
    assert why in f"{result.output}{result.exception}"


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBrokers]:
    """Two brokers with a static topic and a plain one."""
    with two_brokers(OURS, tmp_path_factory.mktemp("static")) as cluster:
        done(admin(cluster, "updateStaticTopic", "-t", TOPIC, "-qn", "2", "-b", FIRST))
        done(admin(cluster, "updateTopic", "-t", "plain", "-b", cluster.first.broker.address))
        yield cluster
