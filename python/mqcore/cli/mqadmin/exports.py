"""mqadmin's commands that write files: topics and groups, settings, figures of a cluster."""

from pathlib import Path
from typing import Any, Final

from mqcore.cli.mqadmin import java
from mqcore.cli.mqadmin.brokers import runtime_of, settings_of
from mqcore.cli.mqadmin.call import Call
from mqcore.cli.mqadmin.groups import clients_of, connection_of
from mqcore.cli.mqadmin.progress import day_sum
from mqcore.clock import wall_ms
from mqcore.errors import MQError
from mqcore.model.reading import as_dict, as_float, as_int, as_list, as_text, first_number
from mqcore.model.relaxed_json import parse_object
from mqcore.model.topics import DLQ_PREFIX, HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC
from mqcore.model.versions import version_name
from mqcore.remoting import RequestCode, ResponseCode

__all__ = ["configs", "metadata", "metrics"]

_FOLDER: Final = "/tmp/rocketmq/export"  # Where mqadmin writes.
_TIMEOUT_MS: Final = 10_000
# `MixAll.isSysConsumerGroup` and `isPredefinedGroup`.
_SYSTEM_GROUP: Final = "CID_RMQ_SYS_"
_SYSTEM_GROUPS: Final = frozenset(
    {
        "DEFAULT_CONSUMER",
        "DEFAULT_PRODUCER",
        "TOOLS_CONSUMER",
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        "CLIENT_INNER_PRODUCER",
        "SELF_TEST_P_GROUP",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
    }
)
# The settings that mqadmin exports.
_KEYS: Final[tuple[str, ...]] = (
    "brokerClusterName",
    "brokerId",
    "brokerName",
    "brokerRole",
    "fileReservedTime",
    "filterServerNums",
    "flushDiskType",
    "maxMessageSize",
    "messageDelayLevel",
    "msgTraceTopicName",
    "slaveReadEnable",
    "traceOn",
    "traceTopicEnable",
    "useTLS",
    "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
)


def _write(call: Call, name: str, value: dict[str, Any]) -> None:
    """Writes a file into the folder of `-f`, and prints where."""
    folder = Path(call.text("f", _FOLDER))
    path = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(java.pretty(value), encoding="utf-8")
    call.out.line(f"export {path} success")
    call.out.give({"file": str(path)})


async def topics_of(call: Call, address: str, *, with_special: bool) -> dict[str, Any]:
    """Returns a broker's topics without its own (`getUserTopicConfig`)."""
    found = await call.servers.json(
        address, RequestCode.GET_ALL_TOPIC_CONFIG, timeout_ms=_TIMEOUT_MS
    )
    listed = await call.servers.json(address, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    own = {as_text(each) for each in as_list(listed.get("topicList"))}
    table = as_dict(found.get("topicConfigTable"))
    found["topicConfigTable"] = {
        name: table[name]
        for name in sorted(table)
        if name not in own and (with_special or not name.startswith((RETRY_PREFIX, DLQ_PREFIX)))
    }
    return found


async def groups_of(call: Call, address: str) -> dict[str, Any]:
    """Returns a broker's groups without its own (`getUserSubscriptionGroup`)."""
    code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    found = await call.servers.json(address, code, timeout_ms=_TIMEOUT_MS)
    table = as_dict(found.get("subscriptionGroupTable"))
    found["subscriptionGroupTable"] = {
        name: table[name]
        for name in sorted(table)
        if not name.startswith(_SYSTEM_GROUP) and name not in _SYSTEM_GROUPS
    }
    return found


async def metadata(call: Call) -> None:
    """Writes topics and groups of a broker, or of a cluster's masters together."""
    with_special = call.has("s")
    if call.has("b"):
        if call.has("t"):
            found = await topics_of(call, call.text("b"), with_special=with_special)
            _write(call, "topic.json", found)
        elif call.has("g"):
            _write(call, "subscriptionGroup.json", await groups_of(call, call.text("b")))
        else:
            raise call.usage("with -b, -t or -g is expected")
        return
    topics: dict[str, dict[str, Any]] = {}
    groups: dict[str, dict[str, Any]] = {}
    for address in await call.masters():
        found = await topics_of(call, address, with_special=with_special)
        sums = ("writeQueueNums", "readQueueNums")
        _add(topics, as_dict(found["topicConfigTable"]), sums)
        found = await groups_of(call, address)
        _add(groups, as_dict(found["subscriptionGroupTable"]), ("retryQueueNums",))
    value: dict[str, Any] = {"exportTime": wall_ms()}
    name = "metadata.json"
    if not call.has("g") or call.has("t"):
        value["topicConfigTable"] = topics
    if not call.has("t"):
        value["subscriptionGroupTable"] = groups
    if call.has("t"):
        name = "topic.json"
    elif call.has("g"):
        name = "subscriptionGroup.json"
    _write(call, name, value)


def _add(table: dict[str, dict[str, Any]], rows: dict[str, Any], summed: tuple[str, ...]) -> None:
    """Takes rows into a table; numbers of queues of several brokers are added."""
    for name, value in rows.items():
        row = dict(as_dict(value))
        before = table.get(name)
        if before is not None:
            row |= {each: as_int(before.get(each)) + as_int(row.get(each)) for each in summed}
        table[name] = row


async def configs(call: Call) -> None:
    """Writes the settings of a cluster that matter, and how many servers it has."""
    masters = slaves = 0
    found: dict[str, dict[str, str]] = {}
    for master, others in await call.servers.groups_of(call.text("c")):
        slaves += len(others)
        if master is None:
            continue
        masters += 1
        settings = await settings_of(call, master)
        own = {key: settings[key] for key in _KEYS if key in settings}
        found[settings.get("brokerName", master)] = own
    scale = {
        "namesrvSize": len(call.servers.name_servers),
        "masterBrokerSize": masters,
        "slaveBrokerSize": slaves,
    }
    _write(call, "configs.json", {"brokerConfigs": found, "clusterScale": scale})


async def metrics(call: Call) -> None:
    """Writes figures of a cluster's masters: what they carry, and who is connected."""
    report: dict[str, Any] = {}
    rates: dict[str, float] = {}
    days: dict[str, int] = {}
    info = await call.servers.cluster()
    for name in await call.servers.names_of(call.text("c")):
        address = info.brokers.get(name, {}).get(0)
        if address is None:
            raise MQError(f"broker {name} has no master now")
        table, settings = await runtime_of(call, address), await settings_of(call, address)
        groups = as_dict((await groups_of(call, address))["subscriptionGroupTable"])
        quota = await _quota(call, address, table)
        quota["groupSize"] = len(groups)
        for kind, value in quota["tps"].items():
            total = f"total{kind[0].upper()}{kind[1:]}"
            rates[total] = rates.get(total, 0.0) + value
        for kind, value in quota["oneDayNum"].items():
            days[kind] = days.get(kind, 0) + value
        report[name] = {
            "runtimeEnv": {
                "cpuNum": settings.get("clientCallbackExecutorThreads"),
                "totalMemKBytes": table.get("totalMemKBytes"),
            },
            "runtimeQuota": quota,
            "runtimeVersion": await _versions(call, list(groups), table),
        }
    totals = {"totalTps": rates, "totalOneDayNum": days}
    _write(call, "metrics.json", {"evaluateReport": report, "totalData": totals})


async def _quota(call: Call, address: str, table: dict[str, str]) -> dict[str, Any]:
    transactions = await _counter(call, address, HALF_TOPIC)
    delayed = await _counter(call, address, SCHEDULE_TOPIC)
    topics = await topics_of(call, address, with_special=False)

    def today(kind: str) -> int:
        names = (f"msg{kind}TotalTodayMorning", f"msg{kind}TotalYesterdayMorning")
        return as_int(table.get(names[0])) - as_int(table.get(names[1]))

    return {
        "diskRatio": {
            "commitLogDiskRatio": table.get("commitLogDiskRatio"),
            "consumeQueueDiskRatio": table.get("consumeQueueDiskRatio"),
        },
        "tps": {
            "normalInTps": first_number(table.get("putTps", "")),
            "normalOutTps": first_number(table.get("getTransferredTps", "")),
            "transInTps": _per_s(transactions),
            "scheduleInTps": _per_s(delayed),
        },
        "oneDayNum": {
            "normalOneDayInNum": today("Put"),
            "normalOneDayOutNum": today("Get"),
            "transOneDayInNum": day_sum(transactions),
            "scheduleOneDayInNum": day_sum(delayed),
        },
        "messageAverageSize": table.get("putMessageAverageSize"),
        "topicSize": len(as_dict(topics["topicConfigTable"])),
    }


async def _counter(call: Call, address: str, topic: str) -> dict[str, Any]:
    """Returns what came into a topic (315), empty where nothing did."""
    answer = await call.servers.ask(
        address,
        RequestCode.VIEW_BROKER_STATS_DATA,
        {"statsName": "TOPIC_PUT_NUMS", "statsKey": topic},
        fine=(ResponseCode.SYSTEM_ERROR,),
    )
    return parse_object(answer.body) if answer.code == ResponseCode.SUCCESS else {}


def _per_s(found: dict[str, Any]) -> float:
    return as_float(as_dict(found.get("statsMinute")).get("tps"))


async def _versions(call: Call, groups: list[str], table: dict[str, str]) -> dict[str, Any]:
    """Returns the versions of the broker and of the clients that are connected."""
    seen: set[str] = set()
    for group in groups:
        try:
            clients = clients_of(await connection_of(call, group))
        except MQError:
            # Nobody of the group is online.
            continue
        seen |= {f"{each.language}%{version_name(each.version)}" for each in clients}
    return {"rocketmqVersion": table.get("brokerVersionDesc"), "clientInfo": sorted(seen)}
