"""mqadmin's commands about name servers: their settings, their KV table, write permissions."""

from mqcore.cli.mqadmin.call import Call
from mqcore.cli.mqadmin.settings import print_settings
from mqcore.cli.mqadmin.topics import ORDER_CONF
from mqcore.errors import MQError
from mqcore.remoting import RequestCode

__all__ = [
    "add_write_perm",
    "config",
    "delete_kv",
    "order_conf",
    "put_kv",
    "update_config",
    "wipe_write_perm",
]


async def put_kv(call: Call) -> None:
    """Writes a value into the KV table of every name server."""
    row = {"namespace": call.text("s"), "key": call.text("k"), "value": call.text("v")}
    await call.servers.ask_name_servers(RequestCode.PUT_KV_CONFIG, row)
    call.out.line("create or update kv config to namespace success.")
    call.out.give(row)


async def delete_kv(call: Call) -> None:
    """Deletes a value from the KV table of every name server."""
    row = {"namespace": call.text("s"), "key": call.text("k")}
    await call.servers.ask_name_servers(RequestCode.DELETE_KV_CONFIG, row)
    call.out.line("delete kv config from namespace success.")
    call.out.give(row)


async def order_conf(call: Call) -> None:
    """Gets, puts or deletes the fixed order of a topic's queues."""
    topic, how = call.text("t"), call.text("m")
    row = {"namespace": ORDER_CONF, "key": topic}
    value = call.text("v")
    if how == "get":
        value = (await call.servers.look_up(RequestCode.GET_KV_CONFIG, row)).ext.get("value", "")
        call.out.line(f"get orderConf success. topic=[{topic}], orderConf=[{value}] ")
    elif how == "put":
        if not value:
            raise call.usage("please set orderConf with option -v.")
        await call.servers.ask_name_servers(RequestCode.PUT_KV_CONFIG, row | {"value": value})
        call.out.line(f"update orderConf success. topic=[{topic}], orderConf=[{value}]")
    elif how == "delete":
        await call.servers.ask_name_servers(RequestCode.DELETE_KV_CONFIG, row)
        call.out.line(f"delete orderConf success. topic=[{topic}]")
    else:
        raise call.usage(f"-m {how}: get, put or delete is expected")
    call.out.give({"topic": topic, "order_conf": value})


async def wipe_write_perm(call: Call) -> None:
    """Lets nobody write to a broker any more, until it registers with a new version."""
    code = RequestCode.WIPE_WRITE_PERM_OF_BROKER
    await _change_perm(call, code, "wipe", "wipeTopicCount")


async def add_write_perm(call: Call) -> None:
    """Lets everybody read and write all topics of a broker, also those that were read-only."""
    code = RequestCode.ADD_WRITE_PERM_OF_BROKER
    await _change_perm(call, code, "add", "addTopicCount")


async def _change_perm(call: Call, code: RequestCode, verb: str, field: str) -> None:
    name = call.text("b")
    done, failure = [], None
    for address in call.servers.name_servers:
        what = f"{verb} write perm of broker[{name}] in name server[{address}]"
        try:
            answer = await call.servers.ask(address, code, {"brokerName": name})
        except MQError as error:
            call.out.line(f"{what} Failed")
            failure = failure or error
        else:
            call.out.line(f"{what} OK, {answer.ext.get(field, '0')}")
            done.append({"name_server": address, "topics": int(answer.ext.get(field, "0"))})
    if failure is not None:
        raise failure
    call.out.give({"broker": name, "name_servers": done})


async def config(call: Call) -> None:
    """Prints the settings of every name server."""
    await print_settings(call, call.servers.name_servers, RequestCode.GET_NAMESRV_CONFIG)


async def update_config(call: Call) -> None:
    """Changes a setting of every name server."""
    key, value = call.text("k"), call.text("v")
    body = f"{key}={value}\n".encode()
    await call.servers.ask_name_servers(RequestCode.UPDATE_NAMESRV_CONFIG, {}, body)
    servers = ", ".join(call.servers.name_servers)
    call.out.line(f"update name server config success![{servers}]")
    call.out.line(f"{key} : {value}")
    call.out.give({"name_servers": list(call.servers.name_servers), "key": key, "value": value})
