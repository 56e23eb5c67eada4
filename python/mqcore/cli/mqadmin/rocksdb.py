"""mqadmin's commands about state in RocksDB, which brokers of mqcore do not have."""

from mqcore.cli.mqadmin.call import Call
from mqcore.clock import wall_ms
from mqcore.errors import MQError
from mqcore.model.reading import as_int, as_text
from mqcore.remoting import RequestCode

__all__ = ["compare_queues", "config_to_json"]

# `ConfigType`, as the request names them.
_TYPES = ("topics", "subscriptionGroups", "consumerOffsets")
# What is looked at without `-cf`.
_THIRTY_DAYS_MS = 30 * 24 * 3_600_000
_CHECK_ERROR = 3


async def config_to_json(call: Call) -> None:
    """Lets brokers write their tables as JSON files; those of mqcore have nothing else."""
    if any(call.has(name) for name in ("p", "e", "j")):
        raise MQError(
            "rocksDBConfigToJson is refused with -p, -e or -j: they read a RocksDB directory of an "
            "official broker; name a broker with -b or a cluster with -c"
        )
    wanted = [each.strip() for each in call.text("t").split(";") if each.strip()] or list(_TYPES)
    folded = {each.lower(): each for each in _TYPES}
    unknown = [each for each in wanted if each.lower() not in folded]
    if unknown:
        raise call.usage(f"-t {';'.join(unknown)}: {', '.join(_TYPES)} are expected")
    where = "all brokers in cluster" if call.has("c") else "broker"
    call.out.line(f"Use [rpc mode] call {where} to export to json file ")
    brokers = await (call.servers.masters(call.text("c")) if call.has("c") else call.masters())
    for address in brokers:
        ext = {"configType": ";".join(folded[each.lower()] for each in wanted)}
        await call.servers.ask(address, RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, ext)
    call.out.line("broker export done.")
    call.out.give({"brokers": brokers})


async def compare_queues(call: Call) -> None:
    """Lets brokers compare queues in RocksDB with those in files."""
    await call.servers.names_of(call.text("c"))
    info = await call.servers.cluster()
    since = call.whole("cf", wall_ms() - _THIRTY_DAYS_MS)
    given = {}
    for name, addresses in info.brokers.items():
        if 0 not in addresses:
            continue
        ext = {"topic": call.text("t"), "checkStoreTime": since}
        code = RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS
        found = await call.servers.json(addresses[0], code, ext)
        given[name] = found
        if as_int(found.get("checkStatus")) == _CHECK_ERROR:
            fault = as_text(found.get("checkResult"))
            raise MQError(f"{name} check error, please check log... errInfo: {fault}")
        call.out.line(f"{name} check doing, please wait and get the result from log... ")
    call.out.give(given)
