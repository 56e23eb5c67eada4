"""What rocketmq-exporter asks of brokers, and what it reads of the answers.

Read from its `MetricsCollectTask`, `BrokerRuntimeStats` and `ClientMetricTaskRunnable`: boards of
4.x are made of it. `replayed` asks the same in the same order, and returns what was not found.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from interop.servers import Servers
from mqcore.model.relaxed_json import parse_object
from mqcore.native import Command
from mqcore.remoting import Client, RequestCode

# Keys of the runtime table that it parses; a missing one ends its round.
RUNTIME_NUMBERS: Final = (
    *("msgPutTotalTodayNow", "msgGetTotalTodayNow", "msgPutTotalYesterdayMorning"),
    *("msgGetTotalYesterdayMorning", "msgPutTotalTodayMorning", "msgGetTotalTodayMorning"),
    *("sendThreadPoolQueueHeadWaitTimeMills", "queryThreadPoolQueueHeadWaitTimeMills"),
    *("pullThreadPoolQueueHeadWaitTimeMills", "queryThreadPoolQueueSize", "bootTimestamp"),
    *("pullThreadPoolQueueSize", "sendThreadPoolQueueSize", "commitLogMinOffset"),
    *("commitLogMaxOffset", "dispatchMaxBuffer", "brokerVersion", "pageCacheLockTimeMills"),
    *("getMessageEntireTimeMax", "putMessageEntireTimeMax", "putMessageTimesTotal"),
    *("startAcceptSendRequestTimeStamp", "earliestMessageTimeStamp", "dispatchBehindBytes"),
    *("remainTransientStoreBufferNumbs", "queryThreadPoolQueueCapacity", "putMessageSizeTotal"),
    *("sendThreadPoolQueueCapacity", "pullThreadPoolQueueCapacity"),
)
RUNTIME_DECIMALS: Final = (
    *("consumeQueueDiskRatio", "commitLogDiskRatio", "putMessageAverageSize"),
)
# Three rates: of ten seconds, a minute, ten minutes.
RUNTIME_RATES: Final = ("putTps", "getMissTps", "getTotalTps", "getFoundTps")
# Either spelling.
TRANSFERRED: Final = ("getTransferredTps", "getTransferedTps")
TOPIC_COUNTERS: Final = ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE")
GROUP_COUNTERS: Final = ("GROUP_GET_NUMS", "GROUP_GET_SIZE", "SNDBCK_PUT_NUMS")
BROKER_COUNTERS: Final = ("BROKER_PUT_NUMS", "BROKER_GET_NUMS")


@dataclass(slots=True)
class Replay:
    """What a round of the exporter found.

    Attributes:
        asked: The requests, in order.
        missing: What it looked for and did not find.
    """

    asked: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


class _Asking:
    """Asks a name server or a broker; notes what was refused."""

    def __init__(self, client: Client, servers: Servers, replay: Replay) -> None:
        self._client = client
        self._servers = servers
        self._replay = replay

    async def call(
        self, code: RequestCode, ext: dict[str, str], *, namesrv: bool = False
    ) -> Command:
        servers = self._servers
        address = servers.namesrv.address if namesrv else servers.broker.address
        self._replay.asked.append(code.name)
        return await self._client.call(address, code, ext, timeout_s=20.0)

    async def body(
        self, what: str, code: RequestCode, ext: dict[str, str], *, namesrv: bool = False
    ) -> dict[str, Any]:
        answer = await self.call(code, ext, namesrv=namesrv)
        if answer.code != 0:
            self._replay.missing.append(f"{what}: {answer.code} {answer.remark}")
            return {}
        return parse_object(answer.body)

    def need(self, what: str, is_there: bool) -> None:
        if not is_there:
            self._replay.missing.append(what)

    async def counter(self, name: str, key: str) -> None:
        ext = {"statsName": name, "statsKey": key}
        found = await self.body(f"{name} {key}", RequestCode.VIEW_BROKER_STATS_DATA, ext)
        if found:
            minute = found.get("statsMinute", {})
            self.need(f"{name} {key}: statsMinute", {"tps", "sum"} <= set(minute))


async def replayed(servers: Servers, topic: str, group: str, cluster: str) -> Replay:
    """Asks what the exporter asks of a topic, a group on it and their broker."""
    replay = Replay()
    async with Client() as client:
        asking = _Asking(client, servers, replay)
        await _topic(asking, topic)
        await _clients(asking, topic, group)
        await _counters(asking, topic, group, cluster)
        await _runtime(asking)
    return replay


async def _topic(asking: _Asking, topic: str) -> None:
    """`collectTopicOffset`."""
    code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    found = await asking.body("topic list", code, {}, namesrv=True)
    asking.need("the topic in the list", topic in found.get("topicList", []))
    found = await asking.body("topic stats", RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic})
    rows = list(found.get("offsetTable", {}).values())
    asking.need("offsets of the topic", bool(rows))
    for row in rows:
        asking.need("a row of the topic", {"maxOffset", "lastUpdateTimestamp"} <= set(row))


async def _clients(asking: _Asking, topic: str, group: str) -> None:
    """`collectProducer`, `collectConsumerOffset`."""
    found = await asking.body("producers", RequestCode.GET_ALL_PRODUCER_INFO, {})
    asking.need("producers by group", any(found.get("data", {}).values()))
    code = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
    found = await asking.body("groups of the topic", code, {"topic": topic})
    asking.need("the group of the topic", group in found.get("groupList", []))
    ext = {"consumerGroup": group}
    found = await asking.body("connections", RequestCode.GET_CONSUMER_CONNECTION_LIST, ext)
    members = found.get("connectionSet", [])
    asking.need("members of the group", bool(members))
    asking.need("message model", "messageModel" in found)
    for member in members:
        asking.need("a member", {"clientId", "clientAddr", "language"} <= set(member))
        ext = {"consumerGroup": group, "clientId": member["clientId"], "jstackEnable": "false"}
        running = await asking.body("running", RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
        asking.need("statusTable", "statusTable" in running)
    ext = {"consumerGroup": group, "topic": topic}
    found = await asking.body("progress", RequestCode.GET_CONSUME_STATS, ext)
    asking.need("consumeTps", "consumeTps" in found)
    wanted = {"brokerOffset", "consumerOffset", "lastTimestamp"}
    for row in found.get("offsetTable", {}).values():
        asking.need("a row of progress", wanted <= set(row))


async def _counters(asking: _Asking, topic: str, group: str, cluster: str) -> None:
    """`collectBrokerStatsTopic`, `collectBrokerStats`."""
    code = RequestCode.GET_BROKER_CLUSTER_INFO
    found = await asking.body("cluster", code, {}, namesrv=True)
    asking.need("the cluster", cluster in found.get("clusterAddrTable", {}))
    code = RequestCode.GET_ROUTEINFO_BY_TOPIC
    await asking.body("route", code, {"topic": topic}, namesrv=True)
    for name in TOPIC_COUNTERS:
        await asking.counter(name, topic)
    for name in GROUP_COUNTERS:
        await asking.counter(name, f"{topic}@{group}")
    for name in BROKER_COUNTERS:
        await asking.counter(name, cluster)


async def _runtime(asking: _Asking) -> None:
    """`collectBrokerRuntimeStats`."""
    found = await asking.body("runtime", RequestCode.GET_BROKER_RUNTIME_INFO, {})
    table = found.get("table", {})
    for name in RUNTIME_NUMBERS:
        asking.need(f"{name}: a whole number", table.get(name, "").lstrip("-").isdigit())
    for name in RUNTIME_DECIMALS:
        asking.need(name, _is_decimal(table.get(name, "")))
    for name in RUNTIME_RATES:
        rates = table.get(name, "").split()
        asking.need(f"{name}: three rates", len(rates) == 3 and all(map(_is_decimal, rates)))
    asking.need("getTransferredTps", any(name in table for name in TRANSFERRED))
    spans = table.get("putMessageDistributeTime", "").split(" ")
    asking.need("13 spans of puts", len(spans) == 13)
    for span in spans:
        name, _colon, count = span.rpartition(":")
        asking.need(f"the span {span}", name[:1] == "[" and name[-1:] == "]" and count.isdigit())
    rest = table.get("remainHowManyDataToFlush", "").split(" ")
    asking.need("remainHowManyDataToFlush", len(rest) == 2 and _is_decimal(rest[0]))
    capacity = table.get("commitLogDirCapacity", "")
    asking.need("commitLogDirCapacity", "Total : " in capacity and "Free : " in capacity)
    asking.need("runtime", table.get("runtime", "").startswith("[ "))
    asking.need("brokerVersionDesc", bool(table.get("brokerVersionDesc")))


def _is_decimal(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
