"""mqadmin's commands of 4.9 about accounts of 4.x, those of `plain_acl.yml`.

What is printed about an account has its secret only where a broker answers it: an official one up
to 4.9.7, to `getAclConfig`.
"""

from collections.abc import Mapping
from typing import Any, Final

from mqcore.cli.mqadmin import java
from mqcore.cli.mqadmin.call import Call
from mqcore.errors import MQError, ResponseError
from mqcore.model.reading import as_dict, as_int, as_list
from mqcore.model.relaxed_json import parse_object
from mqcore.remoting import RequestCode, ResponseCode

__all__ = ["delete", "show", "update", "update_white", "versions"]

_VERSION_LAYOUT: Final = "%-16s  %-22s  %-22s  %-20s  %-22s  %-22s"
_SECRET: Final = "secretKey"
# The fields of `PlainAccessConfig`, in its order.
_FIELDS: Final = (
    "accessKey",
    _SECRET,
    "whiteRemoteAddress",
    "admin",
    "defaultTopicPerm",
    "defaultGroupPerm",
    "topicPerms",
    "groupPerms",
)


async def update(call: Call) -> None:
    """Makes an account, or changes it; what is not given stays."""
    account: dict[str, Any] = {"accessKey": call.text("a"), _SECRET: call.text("s")}
    texts = (("w", "whiteRemoteAddress"), ("i", "defaultTopicPerm"), ("u", "defaultGroupPerm"))
    account |= {field: call.text(option) for option, field in texts if call.has(option)}
    account["admin"] = call.is_true("m")
    for option, field in (("t", "topicPerms"), ("g", "groupPerms")):
        if call.has(option):
            account[field] = _parts(call.text(option))
    ext = {
        field: ",".join(value) if isinstance(value, list) else value
        for field, value in account.items()
    }
    brokers = await _each(
        call,
        RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
        ext,
        "create or update plain access config to",
    )
    shown = {field: value for field, value in account.items() if field != _SECRET}
    fields = ", ".join(f"{field}={java.text(value)}" for field, value in shown.items())
    call.out.line(f"PlainAccessConfig [{fields}]")
    call.out.give({"brokers": brokers, "account": shown})


async def delete(call: Call) -> None:
    """Deletes an account."""
    name = call.text("a")
    brokers = await _each(
        call,
        RequestCode.DELETE_ACL_CONFIG,
        {"accessKey": name},
        "delete plain access config account from",
    )
    call.out.line(f"account's accesskey is:{name}")
    call.out.give({"brokers": brokers, "account": name})


async def update_white(call: Call) -> None:
    """Replaces the addresses from which nobody needs a signature."""
    ext = {"globalWhiteAddrs": call.text("g")}
    if call.has("p"):
        ext["aclFileFullPath"] = call.text("p")
    brokers = await _each(
        call,
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        ext,
        "update global white remote addresses to",
    )
    call.out.give({"brokers": brokers})


async def versions(call: Call) -> None:
    """Prints how often, and when, tools have changed each file of accounts."""
    of_cluster = call.has("c")
    if of_cluster:
        heads = ("#Cluster Name", "#Broker Name", "#Broker Addr")
        versions = ("#AclFilePath", "#AclConfigVersionNum", "#AclLastUpdateTime")
        call.out.row(_VERSION_LAYOUT, *heads, *versions)
    for address in await call.masters():
        answer = await call.servers.ask(address, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
        broker = [answer.ext.get(name, "") for name in ("clusterName", "brokerName", "brokerAddr")]
        files = parse_object(answer.ext.get("allAclFileVersion", "{}").encode())
        for path, version in files.items():
            found = as_dict(version)
            number, time_ms = (as_int(found.get(name)) for name in ("counter", "timestamp"))
            call.out.row(_VERSION_LAYOUT, *broker, path, number, java.day_time(time_ms))
            row = {"file": path, "version": number, "changed_ms": time_ms}
            call.out.give({"cluster": broker[0], "broker": broker[1], "address": broker[2]} | row)
    whose = "cluster" if of_cluster else "broker"
    call.out.line(f"get {whose}'s plain access config version success.")


async def show(call: Call) -> None:
    """Prints all accounts with their secrets; brokers from 4.9.8 on do not answer it."""
    for address in await call.masters():
        found = await _all_accounts(call, address)
        call.out.line()
        white = as_list(found.get("globalWhiteAddrs"))
        call.out.line(f"{'globalWhiteRemoteAddresses':<20}: {java.text(white)}")
        call.out.line()
        call.out.line("accounts:")
        for account in map(as_dict, as_list(found.get("plainAccessConfigs"))):
            for field in _FIELDS:
                value = account.get(field)
                call.out.line(f"  {field:<18}: {'' if value is None else java.text(value)}")
            call.out.line()
        call.out.give({"address": address} | found)


async def _all_accounts(call: Call, address: str) -> dict[str, Any]:
    code = RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG
    try:
        return await call.servers.json(address, code)
    except ResponseError as error:
        if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
        raise MQError(f"{address} does not answer it: {code.row.reason}") from error


async def _each(call: Call, code: RequestCode, ext: Mapping[str, object], done: str) -> list[str]:
    """Asks the broker of `-b`, or masters and slaves of `-c`: each has files of its own."""
    brokers = await (call.servers.all_of(call.text("c")) if call.has("c") else call.masters())
    for address in brokers:
        await call.servers.ask(address, code, ext)
        call.out.line(f"{done} {address} success.")
    return brokers


def _parts(text: str) -> list[str]:
    """Returns the parts of a list as `String.split` has them: no empty ones at its end."""
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts
