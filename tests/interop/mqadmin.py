"""A cluster in which every command of mqadmin has something to show, and the commands in order.

    with closing(SampleCluster(driver, servers, 1)) as sample:
        lines = sample.outputs()                   # {"topicRoute": "what it printed", ...}
    shape(lines["topicRoute"])                     # the same without figures, ids, times, addresses

The clients and messages are the same for every kind of servers, so that what they make mqadmin
print can be compared. Knows nothing of what is right.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from interop.driver import Driver
from interop.patience import eventually
from interop.servers import BROKER_NAME, CLUSTER, Servers

TOPIC = "TopicAdmin"
GROUP = "CG_admin"
OTHER_GROUP = "CG_other"
PRODUCER_GROUP = "PG_admin"
MESSAGES = 8


# What updateTopic prints for each broker that made the topic.
_CREATED = re.compile(r"create topic to \S+ success")


class Tool(Protocol):
    """What runs commands of mqadmin."""

    def mqadmin(self, *line: str, until: str | None = None) -> str:
        """Runs one command; returns what it printed, up to `until` of one that never ends."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command line, without the address of the name server.

    Attributes:
        label: What the tests call it.
        line: Command and arguments; `{...}` is replaced by what `SampleCluster` knows.
        until: What it prints before it is cut, for one that never ends.
        line_49: The line for tools of 4.9, where it differs.
        waits_for: What it prints once the servers are as far; asked again until then.
    """

    label: str
    line: str
    until: str | None = None
    waits_for: str | None = None
    line_49: str | None = None


# In the order of a life: what makes something, what shows it, what takes it away.
COMMANDS = (
    Command("clusterList", "clusterList", waits_for=BROKER_NAME),
    Command("clusterList -m", "clusterList -m"),
    Command("updateTopic", f"updateTopic -c {CLUSTER} -t TopicMade -r 3 -w 2"),
    Command("updateTopic -b", "updateTopic -b {broker} -t TopicMadeToo -r 1 -w 1 -o true"),
    Command("topicList", "topicList", waits_for="TopicMadeToo"),
    Command("topicList -c", "topicList -c", waits_for=f"{TOPIC}                "),
    Command("topicRoute", f"topicRoute -t {TOPIC}"),
    Command("topicRoute of none", "topicRoute -t Nowhere"),
    Command("topicStatus", f"topicStatus -t {TOPIC}"),
    Command("topicClusterList", f"topicClusterList -t {TOPIC}"),
    Command("updateTopicPerm", f"updateTopicPerm -c {CLUSTER} -t TopicMade -p 4"),
    Command("topicRoute made", "topicRoute -t TopicMade", waits_for='"perm":4'),
    Command("updateSubGroup", f"updateSubGroup -c {CLUSTER} -g {OTHER_GROUP} -s true -r 3"),
    Command("brokerStatus", "brokerStatus -b {broker}", waits_for="putTps"),
    Command("brokerStatus -c", f"brokerStatus -c {CLUSTER}"),
    Command("getBrokerConfig", "getBrokerConfig -b {broker}"),
    Command("getBrokerConfig -c", f"getBrokerConfig -c {CLUSTER}"),
    Command("updateBrokerConfig", "updateBrokerConfig -b {broker} -k defaultTopicQueueNums -v 8"),
    Command("getNamesrvConfig", "getNamesrvConfig"),
    Command("consumerProgress", "consumerProgress", waits_for=GROUP),
    Command("consumerProgress -g", f"consumerProgress -g {GROUP}"),
    Command("consumerProgress -g -s", f"consumerProgress -g {GROUP} -s true"),
    Command("consumerConnection", f"consumerConnection -g {GROUP}"),
    Command("consumerConnection of none", "consumerConnection -g CG_nobody"),
    Command("producerConnection", f"producerConnection -g {PRODUCER_GROUP} -t {TOPIC}"),
    Command("consumerStatus", f"consumerStatus -g {GROUP}"),
    Command(
        "queryMsgById",
        f"queryMsgById -t {TOPIC} -i {{offset_msg_id}}",
        line_49="queryMsgById -i {offset_msg_id}",
    ),
    Command("queryMsgByKey", f"queryMsgByKey -t {TOPIC} -k key-3", waits_for="{msg_id_3}"),
    Command("queryMsgByUniqueKey", f"queryMsgByUniqueKey -t {TOPIC} -i {{msg_id}}"),
    Command("queryMsgByOffset", f"queryMsgByOffset -t {TOPIC} -b {BROKER_NAME} -i 0 -o 0"),
    Command("printMsg", f"printMsg -t {TOPIC} -d true"),
    Command("consumeMessage", f"consumeMessage -t {TOPIC} -b {BROKER_NAME} -i 1 -o 0 -c 2"),
    Command("printMsgByQueue", f"printMsgByQueue -t {TOPIC} -a {BROKER_NAME} -i 1 -p true -d true"),
    Command("printMsgByQueue -f", f"printMsgByQueue -t {TOPIC} -a {BROKER_NAME} -i 1 -f true"),
    Command("sendMessage", f"sendMessage -t {TOPIC} -p hello -k sent -c TagS"),
    Command("resetOffsetByTime", f"resetOffsetByTime -g {GROUP} -t {TOPIC} -s -1"),
    Command(
        "cloneGroupOffset", f"cloneGroupOffset -s {GROUP} -d {OTHER_GROUP} -t {TOPIC} -o false"
    ),
    Command("wipeWritePerm", f"wipeWritePerm -b {BROKER_NAME}"),
    Command("addWritePerm", f"addWritePerm -b {BROKER_NAME}"),
    Command("updateTopic -o", f"updateTopic -c {CLUSTER} -t TopicInOrder -r 2 -w 2 -o true"),
    Command("updateOrderConf get", "updateOrderConf -t TopicInOrder -m get"),
    Command("updateOrderConf put", f"updateOrderConf -t TopicInOrder -m put -v {BROKER_NAME}:1"),
    Command("updateOrderConf got", "updateOrderConf -t TopicInOrder -m get"),
    Command("updateOrderConf delete", "updateOrderConf -t TopicInOrder -m delete"),
    Command("updateOrderConf of none", "updateOrderConf -t TopicInOrder -m get"),
    Command("updateKvConfig", "updateKvConfig -s NS_admin -k k -v v"),
    Command("deleteKvConfig", "deleteKvConfig -s NS_admin -k k"),
    Command("allocateMQ", f"allocateMQ -t {TOPIC} -i 10.0.0.1,10.0.0.2"),
    Command("checkMsgSendRT", f"checkMsgSendRT -t {TOPIC} -a 3 -s 64"),
    Command("clusterRT", f"clusterRT -c {CLUSTER} -a 3 -s 16 -i 1", until=BROKER_NAME),
    Command("statsAll", f"statsAll -t {TOPIC}"),
    Command("getBrokerEpoch", f"getBrokerEpoch -b {BROKER_NAME}"),
    Command("haStatus", "haStatus -b {broker}"),
    Command("haStatus -c", f"haStatus -c {CLUSTER}"),
    Command("resetMasterFlushOffset", "resetMasterFlushOffset -b {broker} -o 7"),
    Command(
        "updateColdDataFlowCtrGroupConfig",
        f"updateColdDataFlowCtrGroupConfig -b {{broker}} -g {GROUP} -v 1024",
    ),
    Command("getColdDataFlowCtrInfo", "getColdDataFlowCtrInfo -b {broker}"),
    Command(
        "removeColdDataFlowCtrGroupConfig",
        f"removeColdDataFlowCtrGroupConfig -c {CLUSTER} -g {GROUP}",
    ),
    Command("getColdDataFlowCtrInfo -c", f"getColdDataFlowCtrInfo -c {CLUSTER}"),
    Command("setCommitLogReadAheadMode", "setCommitLogReadAheadMode -b {broker} -m 1"),
    Command("setCommitLogReadAheadMode -c", f"setCommitLogReadAheadMode -c {CLUSTER} -m 0"),
    Command("setCommitLogReadAheadMode of none", "setCommitLogReadAheadMode -b {broker} -m 3"),
    Command("exportPopRecord", "exportPopRecord -b {broker}"),
    Command("exportPopRecord -d", f"exportPopRecord -c {CLUSTER} -d false"),
    Command("rocksDBConfigToJson", f"rocksDBConfigToJson -c {CLUSTER} -t topics"),
    Command("checkRocksdbCqWriteProgress", f"checkRocksdbCqWriteProgress -c {CLUSTER}"),
    Command("brokerConsumeStats", "brokerConsumeStats -b {broker}"),
    Command("getConsumerConfig", f"getConsumerConfig -g {OTHER_GROUP}"),
    Command("cleanExpiredCQ", "cleanExpiredCQ -b {broker}"),
    Command("cleanUnusedTopic", f"cleanUnusedTopic -c {CLUSTER}"),
    Command("deleteExpiredCommitLog", "deleteExpiredCommitLog -b {broker}"),
    Command("queryCq", f"queryCq -t {TOPIC} -q 0 -i 0 -c 2"),
    Command("sendMsgStatus", f"sendMsgStatus -b {BROKER_NAME} -c 2 -s 16"),
    Command("skipAccumulatedMessage", f"skipAccumulatedMessage -g {GROUP} -t {TOPIC}"),
    Command("updateNamesrvConfig", "updateNamesrvConfig -k enableTopicList -v true"),
    Command("exportConfigs", f"exportConfigs -c {CLUSTER} -f {{folder}}"),
    Command("exportMetadata", f"exportMetadata -c {CLUSTER} -f {{folder}}"),
    Command("exportMetrics", f"exportMetrics -c {CLUSTER} -f {{folder}}"),
    Command("setConsumeMode", f"setConsumeMode -c {CLUSTER} -t {TOPIC} -g {GROUP} -m PULL -q 2"),
    Command("deleteSubGroup", f"deleteSubGroup -c {CLUSTER} -g {OTHER_GROUP}"),
    Command("deleteTopic", f"deleteTopic -c {CLUSTER} -t TopicMade"),
)


class SampleCluster:
    """Servers with a topic, and a producer and a consumer that are online."""

    def __init__(
        self,
        driver: Driver,
        servers: Servers,
        number: int,
        *,
        exports: Path,
        tool: Tool | None = None,
    ) -> None:
        """Starts the clients, which differ from those of other clusters by the `number`.

        Args:
            driver: The official clients.
            servers: The servers.
            number: What no other cluster has.
            exports: Where commands write files, which they name in what they print.
            tool: Runs the commands; the official tool without one.
        """
        self._driver = driver
        self._tool = tool or driver
        self._exports = exports
        self._servers = servers
        self._namesrv = servers.namesrv.address
        self._producer, self._consumer = f"admin-p{number}", f"admin-c{number}"
        create_topic(driver, self._namesrv, TOPIC)
        driver.call("producer", self._producer, group=PRODUCER_GROUP, namesrv=self._namesrv)
        asked = {"group": GROUP, "namesrv": self._namesrv, "topic": TOPIC}
        driver.call("push", self._consumer, **asked)
        # The bodies have no word that looks like a figure.
        fields = {"topic": TOPIC, "body": "body", "keys": "key", "tags": "TagA", "how": "selector"}
        self._sent = driver.call("send", self._producer, count=MESSAGES, **fields)

    def outputs(self) -> dict[str, str]:
        """Runs every command; returns what each printed, by label."""
        driver, namesrv = self._driver, self._namesrv
        driver.got(self._consumer, MESSAGES)
        until_committed(driver, self._consumer, namesrv)
        known = {
            "broker": self._servers.broker.address,
            "msg_id": self._sent[0]["msg_id"],
            "msg_id_3": self._sent[3]["msg_id"],
            "offset_msg_id": self._sent[0]["offset_msg_id"],
            "folder": str(self._exports),
        }
        return {command.label: self._run(command, known) for command in COMMANDS}

    def _run(self, command: Command, known: dict[str, str]) -> str:
        is_49 = self._driver.version.startswith("4.9")
        line = command.line_49 if is_49 and command.line_49 else command.line
        words = [word.format(**known) for word in line.split()]
        wanted = (command.waits_for or "").format(**known)
        return eventually(
            lambda: self._tool.mqadmin(*words, "-n", self._namesrv, until=command.until),
            lambda printed: wanted in printed,
        )

    def close(self) -> None:
        """Ends the clients."""
        self._driver.close(self._consumer, self._producer)


def create_topic(driver: Driver, namesrv: str, topic: str, queues: int = 4) -> None:
    """Creates a topic and waits until the name server has it."""
    sizes = ["-r", str(queues), "-w", str(queues)]
    line = "updateTopic", "-n", namesrv, "-c", CLUSTER, "-t", topic, *sizes
    # An official broker serves before the name server knows it.
    printed = eventually(
        lambda: driver.mqadmin(*line), lambda text: _CREATED.search(text) is not None
    )
    assert _CREATED.search(printed), printed
    until_routed(driver, namesrv, topic)


def until_routed(driver: Driver, namesrv: str, topic: str) -> None:
    """Waits until the name server has a topic that the broker was asked to make."""
    asked = "topicRoute", "-t", topic, "-n", namesrv
    seen = eventually(lambda: driver.mqadmin(*asked), lambda printed: "brokerDatas" in printed)
    assert "brokerDatas" in seen, seen


def until_committed(driver: Driver, consumer: str, namesrv: str) -> None:
    """Waits until the consumer has committed its offsets.

    Of its retry topic it knows when the first pull has ended, which the broker holds for 15 s.
    """
    asked = "consumerProgress", "-g", GROUP, "-n", namesrv

    def printed() -> str:
        driver.call("commit", consumer)
        return driver.mqadmin(*asked)

    eventually(
        printed,
        lambda printed: all(each in printed for each in (f"\n{TOPIC} ", "%RETRY%", "Total: 0")),
    )


# Text between brackets of messages' properties, in either way to print them.
_PROPERTIES = re.compile(r"(properties=|Properties: +)\{([^}]*)\}")
# What the broker of 5.x writes into every message, and what the one of 4.9 leaves in or takes out.
_BROKERS_OWN = ("MSG_REGION=", "TRACE_ON=", "WAIT=")
_CODE = re.compile(r"CODE: (\d+) +DESC:.*")
_ID = re.compile(r"\b[0-9A-F]{16,}\b")
_FIGURE = re.compile(r"-?\d[\d.]*(E-?\d+)?")
# A group that mqadmin of 5.3 makes up: it asks a 5.3 broker for a topic's groups and gets the topic
# among them.
_MADE_UP = re.compile(
    rf"(?s:MessageTrack \[consumerGroup={TOPIC},.*?\)\]\n?)"
    rf"|^{TOPIC} +{TOPIC} .*$|(?<={TOPIC}) +{TOPIC} *$",
    re.MULTILINE,
)
# Where a Java program was, and the advice under an error.
_NOISE = re.compile(r"^\s+at |^See |^For more |\.\.\. \d+ more")


def shape(printed: str) -> list[str]:
    """Returns what was printed, sorted, without figures, ids, addresses and widths of columns."""
    text = _PROPERTIES.sub(_sorted_properties, _MADE_UP.sub("", printed))
    # The code is no figure: it is kept as letters.
    text = _CODE.sub(lambda found: "CODE " + _letters(found[1]), text)
    text = "\n".join(line for line in text.splitlines() if not _NOISE.search(line))
    text = _FIGURE.sub("#", _ID.sub("ID", text))
    lines = (" ".join(line.split()) for line in text.splitlines())
    return sorted(line for line in lines if line)


def keys(printed: str, separator: str) -> set[str]:
    """Returns the names of a table of names and values."""
    named = (line.split(separator)[0].split() for line in printed.splitlines() if separator in line)
    return {words[-1] for words in named if words}


def _sorted_properties(found: re.Match[str]) -> str:
    pairs = sorted(pair for pair in found[2].split(", ") if not pair.startswith(_BROKERS_OWN))
    return f"{found[1]}{{{', '.join(pairs)}}}"


def _letters(digits: str) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in digits)
