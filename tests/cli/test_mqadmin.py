"""Every command of mqadmin by our command line, over a broker of ours: text, JSON, refusals.

What it prints is compared with the official tool in `tests/interop/test_mqadmin.py`.
"""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from interop.patience import eventually
from mqcore import PushConsumer, aio
from mqcore.cli.main import commands
from mqcore.cli.mqadmin.table import rows
from mqcore.client.message import Message
from mqcore.client.results import SendResult
from mqcore.testing import Broker

COUNT = 4
TOPIC = "orders"
GROUP = "readers"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A broker with messages, a group that has read them and is online, and a producer's results.

    Attributes:
        broker: The broker.
        name: Its name.
        cluster: The name of its cluster.
        sent: Where the messages went.
    """

    broker: Broker
    name: str
    cluster: str
    sent: list[SendResult]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Broker({"traceTopicEnable": True}) as broker:
        broker.create_topic(TOPIC, queues=2)
        sent = asyncio.run(filled(broker))
        runtime = asyncio.run(config_of(broker))
        with PushConsumer(broker.namesrv, group=GROUP, topics=TOPIC, handler=lambda _message: None):
            found = Cluster(broker, runtime["brokerName"], runtime["brokerClusterName"], sent)
            until_read(found)
            # Any one case may be the first of its process.
            for line in ("updateTopic -t made", "updateTopic -t listed -r 1 -w 1"):
                assert run(found, *line.split(), "-b", broker.address).exit_code == 0
            for line in ("updateSubGroup -g other -r 3", "updateSubGroup -g listed"):
                assert run(found, *line.split(), "-b", broker.address).exit_code == 0
            offsets = "resetOffsetByTime -g listed -t orders -s 0"
            assert run(found, *offsets.split()).exit_code == 0
            yield found


async def filled(broker: Broker) -> list[SendResult]:
    async with aio.Producer(broker.namesrv, group="p", trace=True) as producer:
        return [
            await producer.send(Message(TOPIC, f"order {n}", tags="new", keys=[f"k{n}", "all"]))
            for n in range(COUNT)
        ]


async def config_of(broker: Broker) -> dict[str, str]:
    from mqcore.admin import Admin

    async with Admin(broker.namesrv) as admin:
        return await admin.brokers.config(broker.address)


def until_read(cluster: Cluster) -> None:
    """Waits until the group has read everything and its offsets are committed."""

    def look() -> Result:
        return run(cluster, "consumerProgress", "-g", GROUP, "--json")

    def has_read(result: Result) -> bool:
        if result.exit_code != 0:
            return False
        queues = json.loads(result.stdout)["queues"]
        read: int = sum(row["group_offset"] for row in queues if row["topic"] == TOPIC)
        return read == COUNT

    result = eventually(look, has_read)
    if not has_read(result):
        pytest.fail(f"group {GROUP} does not read: {result.output}")


def run(cluster: Cluster, *line: str) -> Result:
    environment = {"MQCORE_NAMESRV": cluster.broker.namesrv}
    return CliRunner().invoke(commands, ["admin", *line], env=environment)


@dataclass(frozen=True, slots=True)
class Case:
    """One command line and what it has to print.

    Attributes:
        line: The words behind `mqcore admin`; `{...}` is replaced.
        shows: Parts of the text for people.
        holds: Looks at the JSON; None where any will do.
    """

    line: str
    shows: tuple[str, ...]
    holds: Callable[[Any], bool] | None = None

    @property
    def name(self) -> str:
        """The command."""
        return self.line.split()[0]


CASES = (
    Case("updateTopic -b {b} -t made -r 3 -w 2", ("create topic to {b} success.", "perm=RW-")),
    Case("updateTopic -c {c} -t kept -o true", ("set cluster orderConf", "order=true")),
    Case("updateTopicList -b {b} -f {topics}", ("submit batch of topic config to {b}",)),
    Case("topicList", ("made", "listed"), lambda found: "made" in found),
    Case("topicList -c", ("#Cluster Name", GROUP), lambda found: found[0]["cluster"] != ""),
    Case("topicRoute -t made", ('"readQueueNums":3', '"brokerDatas":[')),
    Case("topicRoute -t made -l", ("#ClusterName", "Total:")),
    Case(
        "topicStatus -t orders", ("#Min Offset", "Topic Put TPS"), lambda it: len(it["queues"]) == 2
    ),
    Case("topicClusterList -t orders", ("{c}",), lambda found: len(found) == 1),
    Case("updateTopicPerm -c {c} -t made -p 4", ("from 6 to 4 in {b} success.",)),
    Case("deleteTopic -t made -c {c}", ("delete topic [made] from NameServer success.",)),
    Case("allocateMQ -t orders -i 10.0.0.1,10.0.0.2", ('"queueId":1',)),
    Case("updateSubGroup -b {b} -g other -r 3", ("retryMaxTimes=3",)),
    Case("updateSubGroupList -c {c} -f {groups}", ("submit batch of subscription group config",)),
    Case("getConsumerConfig -g other", ("retryMaxTimes", "=  3")),
    Case("setConsumeMode -c {c} -t orders -g other -m POP -q 2", ("consume mode[POP]",)),
    Case("cloneGroupOffset -s readers -d other -t orders", ("destGroup=[other]",)),
    Case("deleteSubGroup -c {c} -g other -r true", ("delete subscription group [other]",)),
    Case("consumerProgress", ("#Group", GROUP, "CLUSTERING")),
    Case("consumerProgress -g readers -s true", ("#Client IP", "Consume Diff Total: 0")),
    Case("consumerConnection -g readers", ("#ClientId", "ConsumeType: CONSUME_PASSIVELY")),
    Case("consumerStatus -g readers", ("Rebalance OK",)),
    Case("consumerStatus -g readers -i {client} -s", ("#Consumer RT&TPS#", "#Consumer MQ Detail#")),
    Case("producer -b {b}", ()),
    Case("brokerConsumeStats -b {b}", ("#Diff", "Diff Total: ")),
    Case("statsAll -t orders", ("#Accumulation", GROUP)),
    Case("resetOffsetByTime -g readers -t orders -s now", ("#queueId",)),
    Case("resetOffsetByTime -g listed -t orders -s 0", ("#queueId",)),
    Case(
        "resetOffsetByTime -g listed -t orders -s 0 -b {b} -q 1 -o 1",
        ("reset consumer offset to 1",),
    ),
    Case("skipAccumulatedMessage -g readers -t orders", ("#offset",)),
    Case(
        "queryMsgById -t orders -i {offset_id} -f utf-8",
        ("order 0", "MessageTrack [consumerGroup=readers"),
    ),
    Case("queryMsgById -t orders -i {id} -g readers -d {client}", ("CR_SUCCESS",)),
    Case("queryMsgById -t orders -i {id} -s true", ("SEND_OK",)),
    Case("queryMsgByUniqueKey -t orders -i {id}", ("CommitLog Offset:",)),
    Case("queryMsgByUniqueKey -t orders -i {id} -a", ("Queue ID:",)),
    Case("queryMsgByKey -t orders -k k1", ("{id1}",), lambda found: found[0]["body"] == "order 1"),
    Case("queryMsgByOffset -t orders -b {name} -i 0 -o 0", ("Queue Offset:        0",)),
    Case("queryMsgTraceById -i {id}", ("#ProducerGroup", "Pub", "success")),
    Case("queryCq -t orders -q 0 -i 0 -g readers", ("min: 0", "idx: 0")),
    Case("printMsg -t orders", ("minOffset=0", "BODY: order 0")),
    Case("printMsgByQueue -t orders -a {name} -i 0 -p true -d true -f true", ("Tag: new",)),
    Case("consumeMessage -t orders -b {name} -i 0 -o 1", ("Consume ok",)),
    Case("consumeMessage -t orders -c 3", ("Consume ok",)),
    Case("sendMessage -t sent -p hello -k key -c tag", ("SEND_OK",)),
    Case("sendMsgStatus -b {name} -c 2 -s 16", ("rt=", "SEND_OK")),
    Case("checkMsgSendRT -t sent -a 3 -s 8", ("Avg RT:",)),
    Case("clusterList", ("#InTPS(LOAD)", "{b}")),
    Case("clusterList -m -c {c}", ("#InTotalToday",)),
    Case("brokerStatus -b {b}", ("brokerVersionDesc",)),
    Case("brokerStatus -c {c}", ("{b}",)),
    Case("getBrokerConfig -b {b}", ("brokerName", "=  {name}")),
    Case("getBrokerConfig -c {c}", ("============Master: {b}============",)),
    Case("updateBrokerConfig -b {b} -k fileReservedTime -v 48", ("success, {b}",)),
    Case("updateBrokerConfig -c {c} -a true -k traceOn -v true", ("success, {b}",)),
    Case("cleanExpiredCQ -b {b}", ("success",)),
    Case("cleanUnusedTopic -c {c}", ("success",)),
    Case("deleteExpiredCommitLog", ("success",)),
    Case("exportPopRecord -b {b} -d false", ("dryRun=true",)),
    Case("exportPopRecord -c {c}", ("dryRun=false",)),
    Case("updateKvConfig -s NS -k k -v v", ("create or update kv config",)),
    Case("deleteKvConfig -s NS -k k", ("delete kv config",)),
    Case("updateOrderConf -t orders -m put -v {name}:2", ("orderConf=[{name}:2]",)),
    Case("updateOrderConf -t orders -m get", ("orderConf=[{name}:2]",)),
    Case("updateOrderConf -t orders -m delete", ("delete orderConf",)),
    Case("wipeWritePerm -b {name}", ("OK, ",)),
    Case("addWritePerm -b {name}", ("OK, ",)),
    Case("getNamesrvConfig", ("============{n}============", "listenPort")),
    Case("updateNamesrvConfig -k enableTopicList -v true", ("enableTopicList : true",)),
    Case("exportMetadata -c {c} -f {folder}", ("metadata.json success",)),
    Case("exportMetadata -b {b} -t -f {folder}", ("topic.json success",)),
    Case("exportConfigs -c {c} -f {folder}", ("configs.json success",)),
    Case("exportMetrics -c {c} -f {folder}", ("metrics.json success",)),
    Case("haStatus -b {b}", ("#SlaveNum\t0",)),
    Case("resetMasterFlushOffset -b {b} -o 7", ("reset master flush offset to 7 success",)),
    Case("getColdDataFlowCtrInfo -b {b}", ('"cgColdReadThreshold":3145728',)),
    Case("updateColdDataFlowCtrGroupConfig -c {c} -g readers -v 5", ("success, {b}",)),
    Case("removeColdDataFlowCtrGroupConfig -b {b} -g readers", ("success, {b}",)),
    Case("setCommitLogReadAheadMode -b {b} -m 1", ("mode success, mode: 1",)),
    Case("rocksDBConfigToJson -b {b}", ("broker export done.",)),
    Case("checkRocksdbCqWriteProgress -c {c}", ("check doing",)),
)


@pytest.fixture(scope="module")
def known(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("mqadmin")
    topics, groups = folder / "topics.json", folder / "groups.json"
    topics.write_text('[{"topicName":"listed","readQueueNums":1,"writeQueueNums":1,"perm":6}]')
    groups.write_text('[{"groupName":"listed"}]')
    connection = json.loads(run(cluster, "consumerConnection", "-g", GROUP, "--json").stdout)
    return {
        "b": cluster.broker.address,
        "c": cluster.cluster,
        "n": cluster.broker.namesrv,
        "name": cluster.name,
        "client": connection["connectionSet"][0]["clientId"],
        "id": cluster.sent[0].message_id,
        "id1": cluster.sent[1].message_id,
        "offset_id": cluster.sent[0].offset_message_id,
        "folder": str(folder / "export"),
        "topics": str(topics),
        "groups": str(groups),
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.line)
def test_a_command_prints_for_people_and_as_json(
    cluster: Cluster,
    known: dict[str, str],
    case: Case,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [word.format(**known) for word in case.line.split()]
    result = run(cluster, *words)
    assert result.exit_code == 0, result.output
    for part in case.shows:
        assert part.format(**known) in result.stdout
    if case.name in ("deleteTopic", "deleteSubGroup"):
        return
    as_json = run(cluster, *words, "--json")
    assert as_json.exit_code == 0, as_json.output
    found = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert found
    assert case.holds is None or case.holds(found[0])


def test_every_command_that_is_not_refused_has_a_case() -> None:
    elsewhere = {
        # Endless, and those of controllers and producers: below and in the tests of controllers.
        "startMonitoring",
        "clusterRT",
        "getSyncStateSet",
        "getBrokerEpoch",
        "getControllerMetaData",
        "getControllerConfig",
        "updateControllerConfig",
        "electMaster",
        "cleanBrokerMetadata",
        "producerConnection",
        # In `test_static_topics`.
        "updateStaticTopic",
        "remappingStaticTopic",
        # In `interop.test_access` and `interop.test_plain_access`, beside mqadmin.
        *(row.name for row in rows().values() if row.function.startswith(("access.", "accounts."))),
    }
    named = {case.name for case in CASES} | elsewhere
    assert {row.name for row in rows().values() if row.function} == named


@pytest.mark.parametrize("name", [row.name for row in rows().values() if row.reason])
def test_what_is_refused_is_refused_by_name_with_the_reason(cluster: Cluster, name: str) -> None:
    result = run(cluster, name)
    assert result.exit_code == 1 or result.exit_code == 2
    assert f"{name} is refused: {rows()[name].reason}" in result.output
    assert "Refused:" in run(cluster, name, "-h").output


def test_a_producer_is_seen_while_it_is_connected(cluster: Cluster) -> None:
    async def seen() -> Result:
        async with aio.Producer(cluster.broker.namesrv, group="seen") as producer:
            await producer.send(Message(TOPIC, "x"))
            line = ("producerConnection", "-g", "seen", "-t", TOPIC)
            return await asyncio.to_thread(
                eventually, lambda: run(cluster, *line), lambda result: result.exit_code == 0
            )

    result = asyncio.run(seen())
    assert result.exit_code == 0, result.output
    assert "0001  " in result.stdout


def test_a_group_that_is_not_online_is_reset_queue_by_queue(
    cluster: Cluster, known: dict[str, str]
) -> None:
    setting = ("updateBrokerConfig", "-b", known["b"], "-k", "useServerSideResetOffset", "-v")
    assert run(cluster, *setting, "false").exit_code == 0
    try:
        result = run(cluster, "resetOffsetByTime", "-g", "listed", "-t", TOPIC, "-s", "0")
        assert result.exit_code == 0, result.output
        assert "#resetOffset" in result.stdout
        skipped = run(cluster, "skipAccumulatedMessage", "-g", "listed", "-t", TOPIC, "--json")
        assert all(row["offset"] == row["broker_offset"] for row in json.loads(skipped.stdout))
    finally:
        assert run(cluster, *setting, "true").exit_code == 0


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("updateTopic -t x", "exactly one of -b, -c"),
        ("updateTopic -b a:1 -c c -t x", "exactly one of -b, -c"),
        ("updateTopic -b {b} -t x -r many", "a whole number is expected"),
        ("updateSubGroup -g x", "-b or -c is expected"),
        ("topicStatus -t nowhere", "topic nowhere is not known"),
        ("updateTopic -c nowhere -t x", "name servers know no cluster nowhere"),
        ("consumerConnection -g nobody", "nobody"),
        ("queryMsgByKey -t orders -k none", "no message of topic orders has key none"),
        ("queryMsgById -t orders -i 00", "is not found"),
        ("updateBrokerConfig -b {b} -k storePathRootDir -v /x", "cannot be changed"),
        ("getBrokerEpoch -b {name}", "controllerMode"),
        ("rocksDBConfigToJson -p /x -t topics", "refused with -p"),
        ("updateTopicList -b {b} -f /nowhere", "No such file"),
        ("resetOffsetByTime -g g -t orders -s soon", "yyyy-MM-dd#HH:mm:ss:SSS is expected"),
        ("setConsumeMode -b {b} -t t -g g -m PUSH", "PULL or POP is expected"),
        ("consumeMessage -t orders -i 0", "Please set the brokerName"),
    ],
)
def test_a_failure_is_one_line(
    cluster: Cluster, known: dict[str, str], line: str, why: str
) -> None:
    result = run(cluster, *(word.format(**known) for word in line.split()))
    assert result.exit_code != 0
    shown = result.output if result.exception is None else f"{result.output}{result.exception}"
    assert why in shown


def test_names_are_taken_in_any_case_and_a_misspelt_one_is_corrected(cluster: Cluster) -> None:
    assert run(cluster, "TOPICLIST").exit_code == 0
    result = run(cluster, "topicRout")
    assert result.exit_code == 2
    assert "did you mean topicRoute?" in result.output


def test_a_program_ends_with_two_and_one_line(cluster: Cluster) -> None:
    import subprocess
    import sys

    line = [sys.executable, "-m", "mqcore.cli.main", "admin", "topicStatus", "-t", "nowhere"]
    done = subprocess.run(
        line,
        capture_output=True,
        text=True,
        env=os.environ | {"MQCORE_NAMESRV": cluster.broker.namesrv},
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1


def completed(words: str) -> list[str]:
    """Returns what a shell would offer behind some words."""
    import subprocess
    import sys

    environment = {
        "_MQCORE_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    line = [sys.executable, "-m", "mqcore.cli.main"]
    done = subprocess.run(
        line, capture_output=True, text=True, env=os.environ | environment, check=True
    )
    return [each.partition(",")[2] for each in done.stdout.splitlines()]


def test_shells_complete_names_and_options() -> None:
    assert completed("mqcore admin topicS") == ["topicStatus"]
    assert set(completed("mqcore admin topicStatus --cl")) == {"--cluster"}
    assert len(completed("mqcore admin ")) == len(rows())


def test_monitoring_prints_what_is_left(cluster: Cluster) -> None:
    from mqcore.cli.cluster import Cluster as Reached
    from mqcore.cli.mqadmin import monitoring
    from mqcore.cli.mqadmin.call import Call, Out
    from mqcore.cli.mqadmin.servers import Servers

    given: list[Any] = []

    class Kept(Out):
        def give(self, value: Any) -> None:
            given.append(value)

        def line(self, text: str = "") -> None:
            given.append(text)

    async def once() -> None:
        reached = Reached(
            namesrv=cluster.broker.namesrv,
            timeout_s=5.0,
            access_key=None,
            secret_key=None,
            has_tls=False,
            tls_authorities=None,
            tls_certificate=None,
            tls_key=None,
            checks_host=True,
            as_json=False,
        )
        async with Servers(reached) as servers:
            row = rows()["startMonitoring"]
            call = Call(row, {}, reached, servers, Kept(as_json=False))
            await monitoring.round_of(call)

    asyncio.run(once())
    assert given[0].endswith("beginRound")
    assert any(isinstance(each, dict) and each.get("topic") == TOPIC for each in given)
