"""mqadmin's commands about controllers: who leads, who is in sync, elections, settings.

What changes something, or has to be the newest, is asked of the leader, which any controller names.
"""

from typing import Any

from mqcore.cli.mqadmin.call import Call
from mqcore.cli.mqadmin.servers import broker_ids
from mqcore.cli.mqadmin.settings import print_settings
from mqcore.errors import MQError
from mqcore.model.reading import as_bool, as_dict, as_int, as_list, as_text
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.remoting import RequestCode

__all__ = ["clean", "config", "elect", "metadata", "sync_state_set", "update_config"]


def _controllers(call: Call) -> list[str]:
    found = [each.strip() for each in call.text("a").split(";") if each.strip()]
    if not found:
        raise call.usage("-a: an address is expected")
    return found


async def _leader(call: Call) -> str:
    """Returns the address of the leader, as the first controller named knows it (1005)."""
    address = _controllers(call)[0]
    answer = await call.servers.ask(address, RequestCode.CONTROLLER_GET_METADATA_INFO)
    leader = answer.ext.get("controllerLeaderAddress", "")
    if not leader:
        raise MQError(f"controller {address} knows no leader now")
    return leader


async def metadata(call: Call) -> None:
    """Prints the group of controllers and its leader, as one of them knows it."""
    address = _controllers(call)[0]
    ext = (await call.servers.ask(address, RequestCode.CONTROLLER_GET_METADATA_INFO)).ext
    call.out.line()
    call.out.line(f"#ControllerGroup\t{ext.get('group', 'null')}")
    call.out.line(f"#ControllerLeaderId\t{ext.get('controllerLeaderId', 'null')}")
    call.out.line(f"#ControllerLeaderAddress\t{ext.get('controllerLeaderAddress', 'null')}")
    peers = [each for each in ext.get("peers", "").split(";") if each]
    for peer in peers:
        call.out.line(f"#Peer:\t{peer}")
    call.out.give(
        {
            "group": ext.get("group"),
            "leader_id": ext.get("controllerLeaderId"),
            "leader": ext.get("controllerLeaderAddress"),
            "peers": peers,
        }
    )


async def config(call: Call) -> None:
    """Prints the settings of controllers."""
    await print_settings(call, _controllers(call), RequestCode.GET_CONTROLLER_CONFIG)


async def update_config(call: Call) -> None:
    """Changes a setting of controllers."""
    key, value, controllers = call.text("k"), call.text("v"), _controllers(call)
    for address in controllers:
        body = f"{key}={value}\n".encode()
        await call.servers.ask(address, RequestCode.UPDATE_CONTROLLER_CONFIG, body=body)
    call.out.line(f"update controller config success![{', '.join(controllers)}]")
    call.out.line(f"{key} : {value}")
    call.out.give({"controllers": controllers, "key": key, "value": value})


async def sync_state_set(call: Call) -> None:
    """Prints who is in sync with the master, of a broker name or of a cluster's."""
    await call.repeat(lambda: _sync_state_set(call))


async def _sync_state_set(call: Call) -> None:
    if call.has("b"):
        names = [call.text("b")]
    elif call.has("c"):
        names = await call.servers.names_of(call.text("c"))
    else:
        raise call.usage("-b or -c is expected")
    code, body = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, compact(names)
    answer = await call.servers.ask(await _leader(call), code, body=body)
    table = as_dict(parse_object(answer.body).get("replicasInfoTable"))
    for name in sorted(table):
        _print_set(call, name, as_dict(table[name]))
    call.out.give(table)


def _print_set(call: Call, name: str, found: dict[str, Any]) -> None:
    members = as_list(found.get("inSyncReplicas"))
    call.out.line()
    call.out.line(f"#brokerName\t{name}")
    call.out.line(f"#MasterBrokerId\t{as_int(found.get('masterBrokerId'))}")
    call.out.line(f"#MasterAddr\t{as_text(found.get('masterAddress'))}")
    call.out.line(f"#MasterEpoch\t{as_int(found.get('masterEpoch'))}")
    call.out.line(f"#SyncStateSetEpoch\t{as_int(found.get('syncStateSetEpoch'))}")
    call.out.line(f"#SyncStateSetNums\t{len(members)}")
    for kind, rows in (
        ("InSyncReplica", members),
        ("NotInSyncReplica", as_list(found.get("notInSyncReplicas"))),
    ):
        for row in map(as_dict, rows):
            shown = (
                f"ReplicaIdentity{{brokerName='{as_text(row.get('brokerName'))}', "
                f"brokerId={as_int(row.get('brokerId'))}, "
                f"brokerAddress='{as_text(row.get('brokerAddress'))}', "
                f"alive={'true' if as_bool(row.get('alive')) else 'false'}}}"
            )
            call.out.line()
            call.out.line(f"{kind}:\t{shown}")


async def elect(call: Call) -> None:
    """Makes a broker the master of its name."""
    cluster, name = call.text("c"), call.text("bn")
    ext = {
        "clusterName": cluster,
        "brokerName": name,
        "brokerId": call.whole("b"),
        "designateElect": True,
    }
    answer = await call.servers.ask(await _leader(call), RequestCode.CONTROLLER_ELECT_MASTER, ext)
    found = answer.ext
    call.out.line()
    call.out.line(f"#ClusterName\t{cluster}")
    call.out.line(f"#BrokerName\t{name}")
    call.out.line(f"#BrokerMasterAddr\t{found.get('masterAddress', 'null')}")
    call.out.line(f"#MasterEpoch\t{found.get('masterEpoch', 'null')}")
    call.out.line(f"#SyncStateSetEpoch\t{found.get('syncStateSetEpoch', 'null')}")
    members = broker_ids(parse_object(answer.body)) if answer.body else {}
    for broker_id, address in members.items():
        call.out.line(f"\t#Broker\t{broker_id}\t{address}")
    call.out.give(
        {
            "cluster": cluster,
            "broker_name": name,
            "master": found.get("masterAddress"),
            "master_epoch": as_int(found.get("masterEpoch")),
            "sync_state_set_epoch": as_int(found.get("syncStateSetEpoch")),
            "brokers": {str(broker_id): address for broker_id, address in members.items()},
        }
    )


async def clean(call: Call) -> None:
    """Lets controllers forget brokers of a name: those of `-b`, or all that are not alive."""
    name, ids, everybody = call.text("bn"), call.text("b"), call.has("l")
    if not all(each.strip().isdigit() for each in ids.split(";") if ids):
        raise call.usage(f"-b {ids}: ids with ; between are expected, such as 1;2;3")
    if not everybody and not call.has("c"):
        raise call.usage("without -l the cluster is needed: -c")
    ext: dict[str, object] = {"brokerName": name, "isCleanLivingBroker": everybody}
    if call.has("c"):
        ext["clusterName"] = call.text("c")
    if ids:
        ext["brokerControllerIdsToClean"] = ids
    await call.servers.ask(await _leader(call), RequestCode.CLEAN_BROKER_DATA, ext)
    call.out.line(f"clear broker {name} metadata from controller success! ")
    call.out.give({"broker_name": name, "ids": ids})
