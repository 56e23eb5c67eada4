"""Every client of ours against a name server and a broker that both ask for signatures."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import mqcore
from access_control import REFUSED, ROOT
from console_running import running, visitor
from guarded_cluster import APP, GuardedCluster, guarded_cluster
from interop.patience import eventually
from mqcore import Admin, Message, TransactionState
from mqcore.cli.main import commands
from mqcore.errors import MQError, NoRouteError, ResponseError, SendError
from mqcore.model.tools_file import tools_text
from mqcore.remoting import Credentials

_TOPIC = "orders"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedCluster]:
    directory = tmp_path_factory.mktemp("guarded")
    entries = ("Topic:orders*", "Pub,Sub,Get"), ("Group:*", "Sub,Get,Update")
    with guarded_cluster(directory, *entries) as made:
        made.make_topic(_TOPIC, queues=1)
        yield made


def end_of(cluster: GuardedCluster) -> int:
    """Returns the end of the queue."""
    bounds = cluster.server.state.store.bounds(_TOPIC, 0)
    return bounds.max_offset if bounds is not None else 0


def test_a_producer_signs_whatever_it_sends(cluster: GuardedCluster) -> None:
    with mqcore.Producer(cluster.namesrv, group="p", credentials=APP) as producer:
        assert producer.send(Message(_TOPIC, "one", tags="a", keys=["k"])).is_ok
        # Compressed before it is signed.
        assert producer.send(Message(_TOPIC, b"x" * 20_000)).is_ok
        (batch,) = producer.send_batch([Message(_TOPIC, "two"), Message(_TOPIC, "three")])
        assert batch.is_ok
        producer.send_oneway(Message(_TOPIC, "four"))
        assert eventually(lambda: end_of(cluster), lambda end: end >= 5) >= 5
        # A topic without a right is as if it was not there.
        with pytest.raises((NoRouteError, SendError)):
            producer.send(Message("TBW102", "five"))


def test_who_signs_nothing_or_wrongly_is_answered_no_route(cluster: GuardedCluster) -> None:
    for who in (None, Credentials("app", "another")):
        with (
            mqcore.Producer(cluster.namesrv, group="p", credentials=who) as producer,
            pytest.raises(MQError),
        ):
            producer.send(Message(_TOPIC, "x"))
    with Admin(cluster.namesrv) as admin, pytest.raises(ResponseError) as refused:
        admin.brokers.cluster()
    assert refused.value.code == REFUSED


def test_consumers_sign(cluster: GuardedCluster) -> None:
    got: list[bytes] = []
    with mqcore.Producer(cluster.namesrv, group="p", credentials=APP) as producer:
        producer.send(Message(_TOPIC, "pushed"))
    consumer = mqcore.PushConsumer(
        cluster.namesrv,
        group="push",
        topics=[_TOPIC],
        credentials=APP,
        handler=lambda message: got.append(message.body),
        consume_from="earliest",
    )
    with consumer:
        assert eventually(lambda: b"pushed" in got, bool)


def test_a_transaction_is_ended_and_its_end_is_signed(cluster: GuardedCluster) -> None:
    end = end_of(cluster)
    producer = mqcore.TransactionProducer(
        cluster.namesrv,
        group="tx",
        credentials=APP,
        check=lambda _message: TransactionState.COMMIT,
    )
    with producer, producer.transaction() as transaction:
        transaction.send(Message(_TOPIC, "half"))
    assert eventually(lambda: end_of(cluster), lambda now: now > end) > end


def test_the_administrator_and_the_commands_sign(cluster: GuardedCluster, tmp_path: Path) -> None:
    tools = tmp_path / "tools.yml"
    tools.write_text(tools_text(ROOT.access_key, ROOT.secret_key), encoding="utf-8")

    def run(*line: str, signs: bool = True) -> Result:
        environment = {"MQCORE_NAMESRV": cluster.namesrv}
        if signs:
            environment["MQCORE_TOOLS_FILE"] = str(tools)
        return CliRunner().invoke(commands, line, env=environment)

    for line in (
        ("topic", "list", "--json"),
        ("admin", "topicList"),
        ("admin", "clusterList"),
        ("produce", _TOPIC, "-m", "by-command"),
    ):
        made = run(*line)
        assert made.exit_code == 0, (line, made.output, made.exception)
        assert run(*line, signs=False).exit_code != 0, line
    assert _TOPIC in json.dumps(run("topic", "list", "--json").output)
    # Name servers take changes of Super users.
    with Admin(cluster.namesrv, credentials=ROOT) as admin:
        admin.name_servers.put_kv("n", "k", "v")
        assert admin.name_servers.kv(cluster.namesrv, "n") == {"k": "v"}


def test_the_console_signs(cluster: GuardedCluster, tmp_path: Path) -> None:
    with running(cluster.namesrv, tmp_path, credentials=ROOT) as console:
        page = visitor(console).page("/topics")
        assert _TOPIC in page.text
    with running(cluster.namesrv, tmp_path / "unsigned") as console:
        assert "username cannot be null" in visitor(console).get("/topics").text
