"""mqadmin's commands about replication: slaves, epochs, a number of slaves."""

from typing import Any

from mqcore.cli.mqadmin import java
from mqcore.cli.mqadmin.call import Call
from mqcore.errors import MQError
from mqcore.model.reading import as_bool, as_dict, as_int, as_list, as_text
from mqcore.remoting import RequestCode

__all__ = ["epochs", "ha_status", "reset_flush_offset"]

_KIB = 1_024
_SLAVE_HEADS = (
    "#SlaveAddr",
    "#SlaveAckOffset",
    "#Diff",
    "#TransferSpeed(KB/s)",
    "#Status",
    "#TransferFromWhere",
)


async def reset_flush_offset(call: Call) -> None:
    """Gives a slave the number of bytes that its master had on its disk."""
    if not call.has("b") or not call.has("o"):
        raise call.usage("-b and -o are expected")
    offset = call.whole("o", least=0)
    ext = {"masterFlushOffset": offset}
    await call.servers.ask(call.text("b"), RequestCode.RESET_MASTER_FLUSH_OFFSET, ext)
    call.out.line(f"reset master flush offset to {offset} success")
    call.out.give({"broker": call.text("b"), "offset": offset})


async def ha_status(call: Call) -> None:
    """Prints how far the slaves of a master are, or how a slave follows."""
    await call.repeat(lambda: _ha_status(call))


async def _ha_status(call: Call) -> None:
    given = {}
    for address in await call.masters():
        found = await call.servers.json(address, RequestCode.GET_BROKER_HA_STATUS)
        given[address] = found
        if as_bool(found.get("master")):
            _print_master(call, address, found)
        else:
            _print_slave(call, as_dict(found.get("haClientRuntimeInfo")))
    call.out.give(given)


def _print_master(call: Call, address: str, found: dict[str, Any]) -> None:
    slaves = [as_dict(each) for each in as_list(found.get("haConnectionInfo"))]
    call.out.line()
    call.out.line(f"#MasterAddr\t{address}")
    call.out.line(f"#MasterCommitLogMaxOffset\t{as_int(found.get('masterCommitLogMaxOffset'))}")
    call.out.line(f"#SlaveNum\t{len(slaves)}")
    call.out.line(f"#InSyncSlaveNum\t{as_int(found.get('inSyncSlaveNums'))}")
    call.out.row("%-32s  %-16s %16s %16s %16s %16s", *_SLAVE_HEADS)
    for row in slaves:
        call.out.row(
            "%-32s  %-16d %16d %16.2f %16s %16d",
            as_text(row.get("addr")),
            as_int(row.get("slaveAckOffset")),
            as_int(row.get("diff")),
            as_int(row.get("transferredByteInSecond")) / _KIB,
            "OK" if as_bool(row.get("inSync")) else "Fall Behind",
            as_int(row.get("transferFromWhere")),
        )


def _print_slave(call: Call, found: dict[str, Any]) -> None:
    speed = as_int(found.get("transferredByteInSecond")) / _KIB
    call.out.line()
    call.out.line(f"#MasterAddr\t{as_text(found.get('masterAddr'))}")
    call.out.line(f"#CommitLogMaxOffset\t{as_int(found.get('maxOffset'))}")
    call.out.line(f"#TransferSpeed(KB/s)\t{speed:.2f}")
    call.out.line(f"#LastReadTime\t{java.time_ms(as_int(found.get('lastReadTimestamp')))}")
    call.out.line(f"#LastWriteTime\t{java.time_ms(as_int(found.get('lastWriteTimestamp')))}")
    call.out.line(f"#MasterFlushOffset\t{as_int(found.get('masterFlushOffset'))}")


async def epochs(call: Call) -> None:
    """Prints which master wrote which part of the log, of a broker name or of a cluster."""
    await call.repeat(lambda: _epochs(call))


async def _epochs(call: Call) -> None:
    if call.has("b"):
        brokers = await call.servers.of_name(call.text("b"))
        if not brokers:
            raise MQError(f"name servers know no broker {call.text('b')}")
    else:
        brokers = await call.servers.all_of(call.text("c"))
    given = []
    for address in brokers:
        found = await call.servers.json(address, RequestCode.GET_BROKER_EPOCH_CACHE)
        given.append({"address": address} | found)
        call.out.line()
        call.out.line(f"#clusterName\t{as_text(found.get('clusterName'))}")
        call.out.line(f"#brokerName\t{as_text(found.get('brokerName'))}")
        call.out.line(f"#brokerAddr\t{address}")
        call.out.line(f"#brokerId\t{as_int(found.get('brokerId'))}")
        entries = [as_dict(each) for each in as_list(found.get("epochList"))]
        for entry in entries:
            is_last = entry is entries[-1]
            end = as_int(found.get("maxOffset") if is_last else entry.get("endOffset"))
            call.out.line(
                f"#Epoch: EpochEntry{{epoch={as_int(entry.get('epoch'))}, "
                f"startOffset={as_int(entry.get('startOffset'))}, endOffset={end}}}"
            )
    call.out.give(given)
