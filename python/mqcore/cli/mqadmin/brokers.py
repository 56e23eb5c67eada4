"""mqadmin's commands about brokers: figures, settings, housekeeping."""

from collections.abc import Mapping
from typing import Any, Final

from mqcore.cli.mqadmin import java
from mqcore.cli.mqadmin.call import Call
from mqcore.cli.mqadmin.settings import SETTING_FORMAT, settings_at
from mqcore.clock import wall_ms
from mqcore.errors import MQError
from mqcore.model.reading import as_dict, as_int, as_text, first_number
from mqcore.remoting import RequestCode

__all__ = [
    "clean_queues",
    "clean_topics",
    "cluster_list",
    "config",
    "delete_log_files",
    "export_pops",
    "runtime_of",
    "settings_of",
    "status",
    "update_config",
]

_MORE_FORMAT: Final = "%-16s  %-32s %14s %14s %14s %14s"
_MORE_HEADS: Final = (
    "#Cluster Name",
    "#Broker Name",
    "#InTotalYest",
    "#OutTotalYest",
    "#InTotalToday",
    "#OutTotalToday",
)
_BASE_FORMAT: Final = "%-22s  %-22s  %-4s  %-22s %-16s  %16s  %30s  %-22s  %11s  %-12s  %-8s  %10s"
_BASE_HEAD_FORMAT: Final = (
    "%-22s  %-22s  %-4s  %-22s %-16s  %16s  %30s  %-22s  %-11s  %-12s  %-8s  %-10s"
)
_BASE_HEADS: Final = (
    "#Cluster Name",
    "#Broker Name",
    "#BID",
    "#Addr",
    "#Version",
    "#InTPS(LOAD)",
    "#OutTPS(LOAD)",
    "#Timer(Progress)",
    "#PCWait(ms)",
    "#Hour",
    "#SPACE",
    "#ACTIVATED",
)
_MS_PER_HOUR: Final = 3_600_000
_TEN_THOUSAND: Final = 10_000
_POPS_TIMEOUT_MS: Final = 30_000


async def runtime_of(call: Call, address: str) -> dict[str, str]:
    """Returns a broker's figures (28), by name in order."""
    found = await call.servers.json(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    table = as_dict(found.get("table"))
    return {name: as_text(table[name]) for name in sorted(table)}


async def settings_of(call: Call, address: str) -> dict[str, str]:
    """Returns a broker's settings (26), by key in order."""
    return await settings_at(call, address, RequestCode.GET_BROKER_CONFIG)


async def status(call: Call) -> None:
    """Prints the figures of a broker, or of all brokers of a cluster."""
    if call.has("b"):
        table = await runtime_of(call, call.text("b"))
        for name, value in table.items():
            call.out.row("%-32s: %s", name, value)
        call.out.give({call.text("b"): table})
        return
    given = {}
    for address in await call.servers.all_of(call.text("c")):
        given[address] = await runtime_of(call, address)
        for name, value in given[address].items():
            call.out.row("%-24s %-32s: %s", address, name, value)
    call.out.give(given)


async def config(call: Call) -> None:
    """Prints the settings of a broker, or of all brokers of a cluster."""
    given = {}
    for head, address in await with_heads(call):
        call.out.line(head)
        given[address] = await settings_of(call, address)
        for key, value in given[address].items():
            call.out.row(SETTING_FORMAT, key, value)
        call.out.line()
    call.out.give(given)


async def with_heads(call: Call) -> list[tuple[str, str]]:
    """Returns the brokers that `-b` or `-c` names, each with the line above it.

    Raises:
        UsageError: Neither was given.
        MQError: There is no such cluster.
    """
    if call.has("b"):
        return [(f"============{call.text('b')}============", call.text("b"))]
    if not call.has("c"):
        raise call.usage("-b or -c is expected")
    found = []
    for master, slaves in await call.servers.groups_of(call.text("c")):
        shown = master or "NO_MASTER"
        if master is not None:
            found.append((f"============Master: {master}============", master))
        found += [
            (f"============My Master: {shown}=====Slave: {slave}============", slave)
            for slave in slaves
        ]
    return found


async def update_config(call: Call) -> None:
    """Changes a setting of a broker, or of a cluster's masters; with `-a` of its slaves too."""
    key, value = call.text("k"), call.text("v")
    body = f"{key}={value}\n".encode()
    everybody = call.has("a") and not call.has("b")
    brokers = await (call.servers.all_of(call.text("c")) if everybody else call.masters())
    remarks = {}
    for address in brokers:
        answer = await call.servers.ask(address, RequestCode.UPDATE_BROKER_CONFIG, body=body)
        remarks[address] = answer.remark or ""
        call.out.line(f"update broker config success, {address}")
        if answer.remark:
            # Of mqcore alone: what takes effect later.
            call.out.line(f"{address}: {answer.remark}")
    call.out.give({"key": key, "value": value, "brokers": remarks})


async def clean_queues(call: Call) -> None:
    """Removes queue files that nothing names any more."""
    await _clean(call, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)


async def clean_topics(call: Call) -> None:
    """Removes the queues of topics that are gone."""
    await _clean(call, RequestCode.CLEAN_UNUSED_TOPIC)


async def delete_log_files(call: Call) -> None:
    """Removes log files that are older than they have to be kept."""
    await _clean(call, RequestCode.DELETE_EXPIRED_COMMITLOG)


async def _clean(call: Call, code: RequestCode) -> None:
    """Asks a broker, the masters and slaves of a cluster, or all that name servers know."""
    if call.has("b"):
        brokers = [call.text("b")]
    elif call.has("c"):
        brokers = await call.servers.all_of(call.text("c"))
    else:
        info = await call.servers.cluster()
        brokers = [each for by_id in info.brokers.values() for each in by_id.values()]
    for address in brokers:
        await call.servers.ask(address, code)
    call.out.line("success" if brokers else "false")
    call.out.give({"brokers": brokers})


async def export_pops(call: Call) -> None:
    """Lets brokers move open pops from RocksDB into the log; with `-d` it only names them."""
    # mqadmin takes `-d false` for a dry run, and only that.
    is_dry = call.has("d") and call.text("d").lower() == "false"
    if call.has("b"):
        name = (await settings_of(call, call.text("b"))).get("brokerName", "")
        brokers = [(name, call.text("b"))]
    else:
        names = await call.servers.names_of(call.text("c")) if call.has("c") else []
        brokers = [(name, each) for name in names for each in await call.servers.of_name(name)]
    if not brokers:
        raise call.usage("-b or -c is expected")
    for name, address in brokers:
        if not is_dry:
            code = RequestCode.POP_ROLLBACK
            await call.servers.ask(address, code, timeout_ms=_POPS_TIMEOUT_MS)
        call.out.line(
            f"Export broker records, brokerName={name}, brokerAddr={address}, "
            f"dryRun={'true' if is_dry else 'false'}"
        )
    call.out.give({"brokers": [address for _, address in brokers], "dry_run": is_dry})


async def cluster_list(call: Call) -> None:
    """Prints the brokers of clusters with their figures; with `-m` what came in and went out."""
    await call.repeat(lambda: _cluster_list(call))


async def _cluster_list(call: Call) -> None:
    info = await call.servers.cluster()
    wanted = call.text("c")
    if wanted and wanted not in info.clusters:
        await call.servers.names_of(wanted)
    rows = [
        (cluster, name, broker_id, address)
        for cluster, names in info.clusters.items()
        if wanted in ("", cluster)
        for name in names
        for broker_id, address in info.brokers.get(name, {}).items()
    ]
    if call.has("m"):
        call.out.row(_MORE_FORMAT, *_MORE_HEADS)
    else:
        call.out.row(_BASE_HEAD_FORMAT, *_BASE_HEADS)
    given = []
    for cluster, name, broker_id, address in rows:
        try:
            table = await runtime_of(call, address)
        except MQError as error:
            # As mqadmin: who does not answer is in the list, without figures.
            table, fault = {}, error.message
        else:
            fault = ""
        if call.has("m"):
            call.out.row(_MORE_FORMAT, cluster, name, *_totals(table))
        else:
            call.out.row(_BASE_FORMAT, cluster, name, broker_id, address, *_figures(table))
        given.append(
            {
                "cluster": cluster,
                "broker_name": name,
                "broker_id": broker_id,
                "address": address,
                "runtime": table,
                "error": fault,
            }
        )
    call.out.give(given)


def _totals(table: Mapping[str, str]) -> tuple[int, int, int, int]:
    def of(name: str) -> int:
        return as_int(table.get(name))

    return (
        of("msgPutTotalTodayMorning") - of("msgPutTotalYesterdayMorning"),
        of("msgGetTotalTodayMorning") - of("msgGetTotalYesterdayMorning"),
        of("msgPutTotalTodayNow") - of("msgPutTotalTodayMorning"),
        of("msgGetTotalTodayNow") - of("msgGetTotalTodayMorning"),
    )


def _figures(table: Mapping[str, str]) -> tuple[Any, ...]:
    def of(name: str, default: str = "") -> str:
        return table.get(name, default)

    def wait(kind: str, default: str = "") -> str:
        return (
            f"{of(f'{kind}ThreadPoolQueueSize', default)},"
            f"{of(f'{kind}ThreadPoolQueueHeadWaitTimeMills', default)}ms"
        )

    earliest = of("earliestMessageTimeStamp")
    hours = (wall_ms() - as_int(earliest)) / _MS_PER_HOUR if earliest else 0.0
    congested = as_int(of("timerCongestNum")) / _TEN_THOUSAND
    return (
        of("brokerVersionDesc"),
        java.laid("%9.2f(%s)", first_number(of("putTps")), wait("send")),
        java.laid(
            "%9.2f(%s|%s)", first_number(of("getTransferredTps")), wait("pull"), wait("ack", "N")
        ),
        java.laid(
            "%d-%d(%.1fw, %.1f, %.1f)",
            as_int(of("timerReadBehind")),
            as_int(of("timerOffsetBehind")),
            congested,
            first_number(of("timerEnqueueTps")),
            first_number(of("timerDequeueTps")),
        ),
        of("pageCacheLockTimeMills"),
        java.laid("%2.2f", hours),
        java.laid("%.4f", first_number(of("commitLogDiskRatio"))),
        "true" if of("brokerActive").lower() == "true" else "false",
    )
