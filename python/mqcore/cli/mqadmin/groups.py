"""mqadmin's commands about groups: settings, request modes, who is connected."""

from typing import Any, Final

from mqcore.admin.results import Connected
from mqcore.cli.mqadmin import java
from mqcore.cli.mqadmin.call import Call
from mqcore.cli.mqadmin.topics import configs_of
from mqcore.errors import MQError, UsageError
from mqcore.model.attributes import AttributeFaultError, parse_changes
from mqcore.model.reading import as_dict, as_int, as_list, as_text
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.model.topics import DLQ_PREFIX, RETRY_PREFIX
from mqcore.model.versions import version_name
from mqcore.remoting import RequestCode

__all__ = [
    "config",
    "connection_of",
    "consumer_connection",
    "delete_group",
    "producer_connection",
    "producers",
    "set_consume_mode",
    "update_group",
    "update_group_list",
]

# Tables of name servers that have rows by topic (`kvNamespaceToDeleteList`).
_KV_OF_TOPICS: Final = ("ORDER_TOPIC_CONFIG",)
_MODES: Final = ("PULL", "POP")
_FIELD_FORMAT: Final = "%-40s=  %s"


async def update_group(call: Call) -> None:
    """Creates or changes a group."""
    group = {
        "groupName": call.text("g"),
        "consumeEnable": call.is_true("s", default=True),
        "consumeFromMinEnable": call.is_true("m"),
        "consumeBroadcastEnable": call.is_true("d"),
        "consumeMessageOrderly": call.is_true("o"),
        "retryQueueNums": call.whole("q", 1),
        "retryMaxTimes": call.whole("r", 16),
        "groupRetryPolicy": _policy(call),
        "brokerId": call.whole("i", 0),
        "whichBrokerWhenConsumeSlowly": call.whole("w", 1),
        "notifyConsumerIdsChangedEnable": call.is_true("a", default=True),
        "groupSysFlag": 0,
        "consumeTimeoutMinute": 15,
        "attributes": _attributes(call),
    }
    masters = await call.masters()
    for address in masters:
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        await call.servers.ask(address, code, body=compact(group))
        call.out.line(f"create subscription group to {address} success.")
    call.out.line(java.group_text(group))
    call.out.give({"group": group, "brokers": masters})


def _policy(call: Call) -> dict[str, Any]:
    if not call.has("p"):
        return {"type": "CUSTOMIZED"}
    try:
        return parse_object(call.text("p"))
    except MQError as error:
        raise UsageError(f"-p: {error.message}") from error


def _attributes(call: Call) -> dict[str, str]:
    try:
        return parse_changes(call.text("attributes"))
    except AttributeFaultError as error:
        raise UsageError(f"--attributes: {error}") from error


async def update_group_list(call: Call) -> None:
    """Creates or changes many groups."""
    body = compact({"groupConfigList": configs_of(call)})
    what = "group config" if call.has("b") else "subscription group config"
    masters = await call.masters()
    for address in masters:
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
        await call.servers.ask(address, code, body=body)
        call.out.line(
            f"submit batch of {what} to {address} success, please check the result later."
        )
    call.out.give({"brokers": masters})


async def set_consume_mode(call: Call) -> None:
    """Lets the members of a group read a topic by pull, or by pop."""
    topic, group, mode = call.text("t"), call.text("g"), call.text("m")
    share = call.whole("q", 0)
    if mode not in _MODES:
        raise call.usage(f"-m {mode}: PULL or POP is expected")
    body = {"topic": topic, "consumerGroup": group, "mode": mode, "popShareQueueNum": share}
    masters = await call.masters()
    for address in masters:
        code = RequestCode.SET_MESSAGE_REQUEST_MODE
        await call.servers.ask(address, code, body=compact(body))
        call.out.line(f"set consume mode to {address} success.")
    call.out.line(f"topic[{topic}] group[{group}] consume mode[{mode}] popShareQueueNum[{share}]")
    call.out.give(body | {"brokers": masters})


async def delete_group(call: Call) -> None:
    """Deletes a group; with `-c` its topics for retries and dead letters too."""
    group = call.text("g")
    masters = await call.masters()
    for address in masters:
        ext = {"groupName": group, "cleanOffset": call.is_true("r")}
        await call.servers.ask(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, ext)
        where = f"broker [{address}]" + ("" if call.has("b") else f" in cluster [{call.text('c')}]")
        call.out.line(f"delete subscription group [{group}] from {where} success.")
    if not call.has("b"):
        for topic in (f"{RETRY_PREFIX}{group}", f"{DLQ_PREFIX}{group}"):
            await _delete_topic(call, topic)
    call.out.give({"group": group, "brokers": masters})


async def _delete_topic(call: Call, topic: str) -> None:
    for address in await call.servers.all_of(call.text("c")):
        await call.servers.ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    await call.servers.ask_name_servers(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})
    for namespace in _KV_OF_TOPICS:
        row = {"namespace": namespace, "key": topic}
        await call.servers.ask_name_servers(RequestCode.DELETE_KV_CONFIG, row)


async def config(call: Call) -> None:
    """Prints the settings of a group at each broker name that has it."""
    group = call.text("g")
    info = await call.servers.cluster()
    given = []
    for name, addresses in info.brokers.items():
        address = addresses.get(0) or next(iter(addresses.values()), "")
        found = await call.servers.json(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        settings = as_dict(as_dict(found.get("subscriptionGroupTable")).get(group))
        if not settings:
            continue
        rule = "=" * 29
        call.out.line(f"{rule}{info.cluster_of(name)}:{name}{rule}")
        for field, value in java.group_fields(settings):
            call.out.row(_FIELD_FORMAT, field, value)
        given.append({"broker_name": name, "group": settings})
    if not given:
        raise MQError(f"no broker has settings of group {group}")
    call.out.give(given)


async def connection_of(call: Call, group: str, address: str | None = None) -> dict[str, Any]:
    """Returns who of a group is connected to a broker, or to one that has its retry topic (203).

    Raises:
        ResponseError: Nobody is (code 206).
        NoRouteError: The group has no retry topic.
    """
    if address is None:
        brokers = await call.servers.brokers_of(f"{RETRY_PREFIX}{group}")
        address = next(iter(brokers.values()))
    ext = {"consumerGroup": group}
    found = await call.servers.json(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, ext)
    if not as_list(found.get("connectionSet")):
        raise MQError(f"group {group}: nobody is connected to {address}")
    return found


def clients_of(found: dict[str, Any]) -> list[Connected]:
    """Returns the clients of an answer, by client id."""
    return sorted(Connected.of_json(row) for row in as_list(found.get("connectionSet")))


async def consumer_connection(call: Call) -> None:
    """Prints who of a consumer group is connected, and what it subscribes."""
    found = await connection_of(call, call.text("g"), call.optional("b"))
    call.out.give(found)
    heads = ("#ClientId", "#ClientAddr", "#Language", "#Version")
    call.out.row("%-36s %-22s %-10s %s", *heads)
    for each in clients_of(found):
        cells = (each.client_id, each.address, each.language, version_name(each.version))
        call.out.row("%-36s %-22s %-10s %s", *cells)
    call.out.line()
    call.out.line("Below is subscription:")
    call.out.row("%-20s %s", "#Topic", "#SubExpression")
    table = as_dict(found.get("subscriptionTable"))
    for topic in sorted(table):
        row = as_dict(table[topic])
        call.out.row("%-20s %s", as_text(row.get("topic")), as_text(row.get("subString")))
    call.out.line()
    call.out.line(f"ConsumeType: {java.text(found.get('consumeType'))}")
    call.out.line(f"MessageModel: {java.text(found.get('messageModel'))}")
    call.out.line(f"ConsumeFromWhere: {java.text(found.get('consumeFromWhere'))}")


async def producer_connection(call: Call) -> None:
    """Prints who of a producer group is connected to a broker that has a topic."""
    group = call.text("g")
    brokers = await call.servers.brokers_of(call.text("t"))
    address = next(iter(brokers.values()))
    ext = {"producerGroup": group}
    found = await call.servers.json(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, ext)
    rows = clients_of(found)
    if not rows:
        raise MQError(f"producer group {group}: nobody is connected to {address}")
    for number, each in enumerate(rows, 1):
        cells = (each.client_id, each.address, each.language, version_name(each.version))
        call.out.row("%04d  %-32s %-22s %-8s %s", number, *cells)
    call.out.give(found)


async def producers(call: Call) -> None:
    """Prints all producers that are connected to a broker."""
    found = await call.servers.json(call.text("b"), RequestCode.GET_ALL_PRODUCER_INFO)
    data = as_dict(found.get("data"))
    for group in sorted(data):
        rows = as_list(data[group])
        if not rows:
            call.out.line(f"producer group ({group}) instances are empty")
        for row in map(as_dict, rows):
            shown = (
                f"clientId={as_text(row.get('clientId'))},remoteIP={as_text(row.get('remoteIP'))}, "
                f"language={as_text(row.get('language'))}, version={as_int(row.get('version'))}, "
                f"lastUpdateTimestamp={as_int(row.get('lastUpdateTimestamp'))}"
            )
            call.out.line(f"producer group ({group}) instance : {shown}")
    call.out.give(data)
