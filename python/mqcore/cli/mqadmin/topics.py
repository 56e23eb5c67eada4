"""mqadmin's commands about topics: made, changed, deleted, listed, looked at."""

from pathlib import Path
from typing import Any, Final

from mqcore.admin.results import queue_table
from mqcore.cli.mqadmin import java
from mqcore.cli.mqadmin.call import Call
from mqcore.cli.mqadmin.logical import logical_rows
from mqcore.cli.mqadmin.servers import broker_ids
from mqcore.errors import MQError, UsageError
from mqcore.model.allocation import Averagely
from mqcore.model.attributes import AttributeFaultError, parse_changes
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_dict, as_float, as_int, as_list, as_text
from mqcore.model.relaxed_json import compact, parse
from mqcore.model.topics import DLQ_PREFIX, PERM_READ, RETRY_PREFIX
from mqcore.remoting import RequestCode, ResponseCode

__all__ = [
    "ORDER_CONF",
    "allocate",
    "clusters",
    "configs_of",
    "delete_topic",
    "first_broker",
    "groups_of",
    "list_topics",
    "put_topic",
    "route",
    "status",
    "update_perm",
    "update_topic",
    "update_topic_list",
]

_TEMPLATE: Final = "TBW102"
_QUEUES: Final = 8
_PERM: Final = 6
# `TopicSysFlag`.
_UNIT: Final = 1
_UNIT_SUB: Final = 2
ORDER_CONF: Final = "ORDER_TOPIC_CONFIG"
_LIST_FORMAT: Final = "%-45s %-32s %-50s %-10s %-11s %-5s"
_RULE: Final = "-" * 158


async def update_topic(call: Call) -> None:
    """Creates or changes a topic; `-o true` writes its order into the name servers too."""
    topic = {
        "topicName": call.text("t"),
        "readQueueNums": call.whole("r", _QUEUES),
        "writeQueueNums": call.whole("w", _QUEUES),
        "perm": call.whole("p", _PERM),
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": _UNIT * call.is_true("u") | _UNIT_SUB * call.is_true("s"),
        "order": call.is_true("o"),
        "attributes": _attributes(call),
    }
    masters = await call.masters()
    for address in masters:
        await put_topic(call, address, topic)
        if not call.has("b") or not topic["order"]:
            call.out.line(f"create topic to {address} success.")
    if topic["order"]:
        await _put_order(call, topic, masters)
    call.out.line(java.topic_text(topic))
    call.out.give({"topic": topic, "brokers": masters})


async def put_topic(call: Call, address: str, topic: dict[str, Any]) -> None:
    """Creates or changes a topic on one broker (17)."""
    attributes = ",".join(
        f"{name}={value}" if value else name for name, value in topic["attributes"].items()
    )
    ext = {
        "topic": topic["topicName"],
        "defaultTopic": _TEMPLATE,
        "readQueueNums": topic["readQueueNums"],
        "writeQueueNums": topic["writeQueueNums"],
        "perm": topic["perm"],
        "topicFilterType": topic["topicFilterType"],
        "topicSysFlag": topic["topicSysFlag"],
        "order": topic["order"],
        "attributes": attributes,
    }
    await call.servers.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, ext)


def _attributes(call: Call) -> dict[str, str]:
    try:
        return parse_changes(call.text("a"))
    except AttributeFaultError as error:
        raise UsageError(f"-a: {error}") from error


async def _put_order(call: Call, topic: dict[str, Any], masters: list[str]) -> None:
    """Writes the fixed order of queues: of one broker beside those of others, or of a cluster."""
    names = [await call.servers.name_of(address) for address in masters]
    parts = {name: f"{name}:{topic['writeQueueNums']}" for name in names}
    own = ";".join(parts.values())
    if call.has("b"):
        answer = await call.servers.look_up(
            RequestCode.GET_KV_CONFIG,
            {"namespace": ORDER_CONF, "key": topic["topicName"]},
            fine=(ResponseCode.QUERY_NOT_FOUND,),
        )
        before = answer.ext.get("value", "").split(";") if answer.code == 0 else []
        parts = {each.partition(":")[0]: each for each in before if each} | parts
    value = ";".join(parts.values())
    await call.servers.ask_name_servers(
        RequestCode.PUT_KV_CONFIG,
        {"namespace": ORDER_CONF, "key": topic["topicName"], "value": value},
    )
    kind = "broker" if call.has("b") else "cluster"
    call.out.line(f"set {kind} orderConf. isOrder=true, orderConf=[{own}]")
    if call.has("b"):
        call.out.line(f"create topic to {masters[0]} success.")


def configs_of(call: Call) -> list[Any]:
    """Returns the list in the JSON file of `-f`.

    Raises:
        UsageError: It cannot be read, or holds no list.
    """
    path = Path(call.text("f"))
    try:
        found = as_list(parse(path.read_bytes()))
    except (OSError, MQError) as error:
        raise UsageError(f"-f {path}: {error}") from error
    if not found:
        raise UsageError(f"-f {path}: a list of one object or more is expected, as JSON")
    return found


async def update_topic_list(call: Call) -> None:
    """Creates or changes many topics, each broker all of them or none."""
    body = compact({"topicConfigList": configs_of(call)})
    masters = await call.masters()
    for address in masters:
        await call.servers.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body)
        call.out.line(
            f"submit batch of topic config to {address} success, please check the result later."
        )
    call.out.give({"brokers": masters})


async def delete_topic(call: Call) -> None:
    """Deletes a topic from a cluster's masters, and from the name servers."""
    topic, cluster = call.text("t"), call.text("c")
    for address in await call.servers.masters(cluster):
        await call.servers.ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    call.out.line(f"delete topic [{topic}] from cluster [{cluster}] success.")
    await call.servers.ask_name_servers(
        RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic, "clusterName": cluster}
    )
    call.out.line(f"delete topic [{topic}] from NameServer success.")
    call.out.give({"topic": topic, "cluster": cluster})


async def update_perm(call: Call) -> None:
    """Changes what is allowed on a topic; the numbers of queues stay."""
    name, perm = call.text("t"), call.whole("p")
    route = await call.servers.route(name)
    counts = [as_dict(each) for each in as_list(route.get("queueDatas"))]
    if not counts:
        raise MQError(f"topic {name} has no queues")
    topic = {
        "topicName": name,
        "readQueueNums": as_int(counts[0].get("readQueueNums")),
        "writeQueueNums": as_int(counts[0].get("writeQueueNums")),
        "perm": perm,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": as_int(counts[0].get("topicSysFlag")),
        "order": False,
        "attributes": {},
    }
    before = as_int(counts[0].get("perm"))
    if call.has("b"):
        before = _perm_of_master(route, counts, call.text("b"))
        if before == perm:
            raise MQError(f"{name} has permission {perm} on {call.text('b')} already")
    masters = await call.masters()
    for address in masters:
        await put_topic(call, address, topic)
        call.out.line(f"update topic perm from {before} to {perm} in {address} success.")
    if call.has("b"):
        call.out.line(f"{java.topic_text(topic)}.")
    call.out.give({"topic": name, "before": before, "perm": perm, "brokers": masters})


def _perm_of_master(route: dict[str, Any], counts: list[dict[str, Any]], address: str) -> int:
    for data in as_list(route.get("brokerDatas")):
        if broker_ids(data).get(0) == address:
            name = as_text(as_dict(data).get("brokerName"))
            perms = (each.get("perm") for each in counts if each.get("brokerName") == name)
            return as_int(next(perms, 0))
    raise MQError(f"no master of the topic is at {address}")


async def route(call: Call) -> None:
    """Prints where a topic is: as JSON, or with `-l` as a table."""
    found = await call.servers.route(call.text("t"))
    call.out.give(found)
    if not call.has("l"):
        call.out.line(java.pretty(found))
        return
    counts = {
        as_text(as_dict(each).get("brokerName")): as_dict(each)
        for each in as_list(found.get("queueDatas"))
    }
    heads = ("#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm")
    call.out.row(_LIST_FORMAT, *heads)
    read = write = 0
    brokers = (as_dict(each) for each in as_list(found.get("brokerDatas")))
    for data in sorted(brokers, key=lambda each: as_text(each.get("brokerName"))):
        name = as_text(data.get("brokerName"))
        row = counts.get(name, {})
        read += as_int(row.get("readQueueNums"))
        write += as_int(row.get("writeQueueNums"))
        shown = java.mapping_text(broker_ids(data))
        cells = (row.get(each, 0) for each in ("readQueueNums", "writeQueueNums", "perm"))
        call.out.row(_LIST_FORMAT, as_text(data.get("cluster")), name, shown, *cells)
    call.out.line(_RULE)
    call.out.row(_LIST_FORMAT, "Total:", len(counts), "", read, write, "")


async def status(call: Call) -> None:
    """Prints the bounds of a topic's queues; with `-c` those of a topic that another one routes."""
    topic = call.text("t")
    rows: dict[MessageQueue, Any] = {}
    rate = 0.0
    for address in (await call.servers.brokers_of(call.text("c") or topic)).values():
        found = await call.servers.json(address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic})
        rows |= queue_table(found.get("offsetTable"))
        rate += 0.0 if call.has("c") else as_float(found.get("topicPutTps"))
    if not rows:
        raise MQError(f"topic {topic} has no queues that report their offsets")
    if not call.has("c"):
        rows |= await logical_rows(call, topic, rows)
    call.out.row(
        "%-32s  %-4s  %-20s  %-20s    %s",
        "#Broker Name",
        "#QID",
        "#Min Offset",
        "#Max Offset",
        "#Last Updated",
    )
    given = []
    for queue in java.ranked(rows):
        row = as_dict(rows[queue])
        low, high, ms = (
            as_int(row.get(each)) for each in ("minOffset", "maxOffset", "lastUpdateTimestamp")
        )
        cells = (java.clipped(queue.broker_name, 32), queue.queue_id, low, high)
        call.out.row("%-32s  %-4d  %-20d  %-20d    %s", *cells, java.time_ms(ms) if ms > 0 else "")
        given.append(
            {
                "broker_name": queue.broker_name,
                "queue_id": queue.queue_id,
                "min_offset": low,
                "max_offset": high,
                "last_update_ms": ms,
            }
        )
    call.out.line()
    call.out.line(f"Topic Put TPS: {rate}")
    call.out.give({"topic": topic, "put_per_s": rate, "queues": given})


async def clusters(call: Call) -> None:
    """Prints the clusters that have the first broker of a topic."""
    info = await call.servers.cluster()
    found = await call.servers.route(call.text("t"))
    name = first_broker(found)
    names = [each for each, brokers in info.clusters.items() if name in brokers]
    for each in names:
        call.out.line(each)
    call.out.give(names)


def first_broker(found: dict[str, Any]) -> str:
    """Returns the broker name that a route names first; empty for none."""
    brokers = as_list(found.get("brokerDatas"))
    return as_text(as_dict(brokers[0]).get("brokerName")) if brokers else ""


async def list_topics(call: Call) -> None:
    """Prints all topics; with `-c` each with its cluster and the groups that read it."""
    topics = await call.servers.topics()
    if not call.has("c"):
        for topic in topics:
            call.out.line(topic)
        call.out.give(topics)
        return
    info = await call.servers.cluster()
    call.out.row("%-20s  %-48s  %-48s", "#Cluster Name", "#Topic", "#Consumer Group")
    given = []
    for topic in topics:
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            continue
        try:
            cluster = info.cluster_of(first_broker(await call.servers.route(topic)))
            groups = await groups_of(call, topic)
        except MQError:
            # As mqadmin: a topic that nobody answers for is in the list all the same.
            cluster, groups = "", []
        for group in groups or [""]:
            cells = (java.clipped(topic, 64), java.clipped(group, 64))
            call.out.row("%-20s  %-64s  %-64s", java.clipped(cluster, 20), *cells)
        given.append({"cluster": cluster, "topic": topic, "groups": groups})
    call.out.give(given)


async def groups_of(call: Call, topic: str) -> list[str]:
    """Returns the groups that read a topic, as the first of its brokers knows them (300)."""
    for address in (await call.servers.brokers_of(topic)).values():
        ext = {"topic": topic}
        found = await call.servers.json(address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, ext)
        return [as_text(each) for each in as_list(found.get("groupList"))]
    return []


async def allocate(call: Call) -> None:
    """Prints how queues would be divided among clients that are given by their addresses."""
    topic, clients = call.text("t"), call.text("i").split(",")
    found = await call.servers.route(topic)
    queues = sorted(
        MessageQueue(topic, as_text(row.get("brokerName")), queue_id)
        for row in map(as_dict, as_list(found.get("queueDatas")))
        if as_int(row.get("perm")) & PERM_READ
        for queue_id in range(as_int(row.get("readQueueNums")))
    )
    strategy = Averagely()
    shares = {
        client: [
            {"brokerName": each.broker_name, "queueId": each.queue_id, "topic": each.topic}
            for each in strategy.allocate(client, queues, clients)
        ]
        for client in clients
    }
    call.out.line(compact({"result": shares}).decode())
    call.out.give(shares)
