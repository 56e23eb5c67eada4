"""Judges what a cluster reports: settings that promise more than they keep, and what has failed.

Pure functions of facts: each yields findings, with what to do about each. Knows no server.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from mqcore.admin.cluster_facts import BrokerFacts, ClusterFacts, ControllerFacts, ReplicaFacts
from mqcore.model.findings import Finding
from mqcore.model.reading import as_dict, as_list

__all__ = ["cluster_findings"]

# As `haMaxGapNotInSync`, where a broker does not report it.
_GAP_DEFAULT: Final = 256 << 20
_LAG_MAX_MS: Final = 15_000
# Delayed messages and timers come by the clock of the broker, to the second.
_SKEW_MAX_MS: Final = 2_000
# As `diskMaxUsedSpaceRatio`, percent, and `diskSpaceWarningLevelRatio`.
_DISK_FULL_DEFAULT: Final = 75
_DISK_REFUSES: Final = 0.90
# Time for an order, a signature and a start.
_CERTIFICATE_DAYS_MIN: Final = 14
_S_PER_DAY: Final = 86_400
_ANY_HOSTS: Final = ("", "0.0.0.0", "::", "[::]")


def cluster_findings(facts: ClusterFacts) -> list[Finding]:
    """Returns everything looked at: one with an advice could be better."""
    found = [*_name_server_findings(facts), *_version_findings(facts)]
    by_name: dict[str, list[BrokerFacts]] = defaultdict(list)
    for broker in facts.brokers:
        by_name[broker.name].append(broker)
    for name, brokers in sorted(by_name.items()):
        found += _group_findings(name, brokers, facts.controllers)
        for broker in sorted(brokers, key=lambda each: (each.broker_id, each.address)):
            found += _broker_findings(broker, brokers)
    for controller in facts.controllers:
        found += _controller_findings(controller, len(facts.controllers))
    return found


def _name_server_findings(facts: ClusterFacts) -> Iterator[Finding]:
    tables = {server: table for server, table in facts.holders.items() if table is not None}
    for server, table in facts.holders.items():
        advice = "" if table is not None else "start it, or take it out of namesrvAddr of all"
        value = f"{len(table)} brokers" if table is not None else "does not answer"
        why = "clients and brokers ask any of them: each has to know every broker"
        if table is not None and len(table) < max(map(len, tables.values())):
            advice = "look at the log of the brokers that are missing there: `not registered with`"
        yield Finding(f"name server {server}", value, advice, why)
    addresses: dict[tuple[str, int], set[str]] = defaultdict(set)
    for table in tables.values():
        for key, address in table.items():
            addresses[key].add(address)
    for (name, broker_id), held in sorted(addresses.items()):
        if len(held) < 2:
            continue
        kind = "masters" if broker_id == 0 else f"brokers with the id {broker_id}"
        yield Finding(
            f"{name} {broker_id}",
            f"{len(held)} {kind} are named {name}: {', '.join(sorted(held))}",
            "stop one; give it another brokerName, or brokerRole=SLAVE and an id of its own",
            "they take the place in name servers from each other: messages go now here, now there",
        )


def _version_findings(facts: ClusterFacts) -> Iterator[Finding]:
    by_cluster: dict[str, dict[str, list[BrokerFacts]]] = defaultdict(lambda: defaultdict(list))
    for broker in facts.brokers:
        if not broker.failure:
            software = "mqcore" if broker.is_ours else "RocketMQ"
            by_cluster[broker.cluster][software].append(broker)
    for cluster, kinds in sorted(by_cluster.items()):
        texts, is_mixed = [], False
        for software, brokers in sorted(kinds.items()):
            versions = sorted({each.version or "an unknown version" for each in brokers})
            is_mixed |= len(versions) > 1
            texts.append(f"{software} {', '.join(versions)}")
        yield Finding(
            f"cluster {cluster}: versions",
            "; ".join(texts),
            "bring all brokers to one version, slaves first" if is_mixed else "",
            "what the older one does not know is refused there, after a failover too",
        )


def _group_findings(
    name: str, brokers: list[BrokerFacts], controllers: tuple[ControllerFacts, ...]
) -> Iterator[Finding]:
    """Yields what is about all brokers of a name together."""
    there = [broker for broker in brokers if not broker.failure]
    masters = [broker for broker in there if broker.is_master]
    slaves = [broker for broker in there if not broker.is_master]
    if not masters:
        yield Finding(
            name,
            "no master",
            "start it, or make a slave the master: mqcore broker --set brokerRole=ASYNC_MASTER "
            "--set brokerId=0 on its directory",
            "nothing can be sent to its queues",
        )
    members = [broker for broker in there if broker.has("enableControllerMode")]
    if members:
        yield from _member_findings(name, members, controllers)
    elif masters:
        yield _classic_finding(masters[0], slaves)
    waits = bool(members) or any(broker.role == "SYNC_MASTER" for broker in masters)
    if waits and there:
        yield _power_finding(name, there)
    yield from _table_findings(masters, slaves)


def _classic_finding(master: BrokerFacts, slaves: list[BrokerFacts]) -> Finding:
    """Returns what an acknowledgement of a master without a controller means."""
    why = "what was acknowledged and is nowhere else is lost with the machine"
    name = f"{master.name}: acknowledgements"
    if master.role != "SYNC_MASTER":
        value = f"{master.role or 'a master'}: after the master alone, with {len(slaves)} slaves"
        return Finding(name, value, "", why)
    copies = master.number("inSyncReplicas", 1)
    if not slaves and not _connected(master):
        advice = "start a slave (brokerRole=SLAVE, brokerId=1), or set ASYNC_MASTER"
        return Finding(name, "SYNC_MASTER without a slave", advice, why)
    if master.version.startswith("V5") and not master.is_ours and copies <= 1:
        advice = f"set inSyncReplicas=2 (totalReplicas={len(slaves) + 1}) on the master"
        value = "SYNC_MASTER with inSyncReplicas=1: RocketMQ 5 waits for nobody"
        return Finding(name, value, advice, why)
    if master.has("enableAutoInSyncReplicas") and master.number("minInSyncReplicas", 1) < 2:
        advice = "set minInSyncReplicas=2, or enableAutoInSyncReplicas=false"
        value = "enableAutoInSyncReplicas with minInSyncReplicas=1: alone it waits for nobody"
        return Finding(name, value, advice, why)
    return Finding(name, f"after {max(copies, 2)} copies", "", why)


def _connected(master: BrokerFacts) -> int:
    """Returns how many slaves are connected, as their master reports."""
    return len(as_list((master.replication or {}).get("haConnectionInfo")))


def _power_finding(name: str, brokers: list[BrokerFacts]) -> Finding:
    """Returns whether a loss of power everywhere at once takes what was acknowledged."""
    syncing = [broker for broker in brokers if broker.config.get("flushDiskType") == "SYNC_FLUSH"]
    value = f"{len(syncing)} of {len(brokers)} brokers sync before they acknowledge"
    advice = (
        "" if syncing else "set flushDiskType=SYNC_FLUSH where the machines have one power supply"
    )
    why = (
        "with ASYNC_FLUSH a message is acknowledged in memory: it is on several machines, and a "
        "loss of power of all of them at once takes the last half second"
    )
    return Finding(f"{name}: loss of power", value, advice, why)


def _table_findings(masters: list[BrokerFacts], slaves: list[BrokerFacts]) -> Iterator[Finding]:
    for master in masters[:1]:
        for slave in slaves:
            if slave.topics_version != master.topics_version:
                yield Finding(
                    f"{slave.name} {slave.broker_id}: topics",
                    f"version {slave.topics_version}, the master has {master.topics_version}",
                    "look again in a minute; where it stays, look at the log of the slave: it does "
                    f"not get the tables of {master.address}",
                    "a slave that becomes master lacks the topics and groups that it has not got",
                )


def _member_findings(
    name: str, members: list[BrokerFacts], controllers: tuple[ControllerFacts, ...]
) -> Iterator[Finding]:
    """Yields what is about brokers under a controller."""
    some = members[0]
    yield _set_wait_finding(name, members)
    if all(broker.has("asyncLearner") for broker in members if not broker.is_master) and any(
        not broker.is_master for broker in members
    ):
        yield Finding(
            f"{name}: learners",
            "every slave is a learner (asyncLearner=true)",
            "set asyncLearner=false on one slave at least",
            "learners never become master: the group does not survive its master",
        )
    leaders = [each for each in controllers if name in each.replicas]
    if not leaders:
        yield Finding(
            f"{name}: controller",
            "no controller leads, or none knows the group",
            f"start those of controllerAddr={some.config.get('controllerAddr', '')}",
            "without one nobody is elected when the master ends",
        )
        return
    yield from _set_findings(name, members, leaders[0])


def _set_wait_finding(name: str, members: list[BrokerFacts]) -> Finding:
    """Returns how many copies a send waits for, where the members' settings differ the fewest."""
    why = "whoever is elected next has what all of the set have, and nothing else surely"
    whole = all(broker.has("allAckInSyncStateSet") for broker in members)
    least = min(broker.number("minInSyncReplicas", 1) for broker in members)
    copies = min(broker.number("inSyncReplicas", 1) for broker in members)
    advice = []
    if not whole:
        advice.append("allAckInSyncStateSet=true")
    if least < 2:
        advice.append("minInSyncReplicas=2")
    value = "allAckInSyncStateSet=true" if whole else f"allAckInSyncStateSet=false: {copies} copies"
    text = f"set {' and '.join(advice)} on every member" if advice else ""
    name = f"{name}: acknowledgements"
    return Finding(name, f"{value}, minInSyncReplicas={least}", text, why)


def _set_findings(
    name: str, members: list[BrokerFacts], leader: ControllerFacts
) -> Iterator[Finding]:
    replicas = leader.replicas[name]
    in_sync = [replica for replica in replicas if replica.is_in_sync]
    why = "the set is who may become master: with one member its end is the end of the group"
    advice = ""
    if len(in_sync) < 2:
        advice = "start another replica, or look why it is behind: mqadmin haStatus, its log"
    value = f"{len(in_sync)} of {len(replicas)} replicas are in sync"
    yield Finding(f"{name}: sync-state set", value, advice, why)
    known = {replica.address: replica for replica in replicas}
    for broker in members:
        yield from _seen_findings(broker, known.get(broker.address), leader)
    addresses = {broker.address for broker in members}
    for replica in replicas:
        if replica.address not in addresses and not replica.is_alive:
            yield Finding(
                f"{name} {replica.broker_id} at {replica.address}",
                "the controller knows it, and it is gone",
                "start it; where it will not come back: mqadmin cleanBrokerMetadata -a "
                f"{leader.address} -bn {name} -b {replica.broker_id}",
                "a replica less to fail over to",
            )


def _seen_findings(
    broker: BrokerFacts, replica: ReplicaFacts | None, leader: ControllerFacts
) -> Iterator[Finding]:
    if replica is not None and replica.is_alive:
        return
    value = "not known to" if replica is None else "not alive for"
    yield Finding(
        f"{broker.name} {broker.broker_id}: controller",
        f"{broker.address} is {value} the controller {leader.address}",
        f"let it reach {leader.address} (controllerAddr, firewalls), and look at its log",
        "the controller elects without it, or another one in its place",
    )


def _broker_findings(broker: BrokerFacts, group: list[BrokerFacts]) -> Iterator[Finding]:
    """Yields what is about one broker."""
    name = f"{broker.name} {broker.broker_id}"
    if broker.failure:
        advice = "start it, let it be reached, or stop it cleanly so that it leaves name servers"
        why = "clients are sent to it"
        yield Finding(f"{name} at {broker.address}", f"no answer: {broker.failure}", advice, why)
        return
    yield Finding(
        f"{name} at {broker.address}", f"{broker.role} {broker.version}".strip(), "", "it answers"
    )
    yield from _clock_findings(name, broker)
    yield from _disk_findings(name, broker)
    yield from _certificate_findings(name, broker)
    if broker.is_master:
        yield from _port_findings(name, broker, group)
    else:
        yield from _slave_findings(name, broker, group)


def _clock_findings(name: str, broker: BrokerFacts) -> Iterator[Finding]:
    skew_ms = broker.skew_ms
    if skew_ms is None:
        return
    is_off = abs(skew_ms) > _SKEW_MAX_MS
    where = "ahead of" if skew_ms > 0 else "behind"
    value = f"{abs(skew_ms) / 1000:.1f} s {where} this machine" if is_off else "as here"
    advice = "synchronise the clocks of all machines (chrony, ntpd)" if is_off else ""
    why = "delayed and timed messages come by the clock of the broker; after a failover by another"
    yield Finding(f"{name}: clock", value, advice, why)


def _disk_findings(name: str, broker: BrokerFacts) -> Iterator[Finding]:
    try:
        ratio = float(broker.runtime.get("commitLogDiskRatio", ""))
    except ValueError:
        return
    full_at = broker.number("diskMaxUsedSpaceRatio", _DISK_FULL_DEFAULT) / 100
    advice = ""
    if ratio >= _DISK_REFUSES:
        advice = "free space at once: sends are refused (mqadmin deleteExpiredCommitLog, more disk)"
    elif ratio >= full_at:
        advice = "more disk, or a shorter fileReservedTime: files go before their time"
    why = "a full disk refuses sends, and before that takes messages that groups have not read"
    yield Finding(f"{name}: disk", f"{ratio:.0%} used", advice, why)


def _certificate_findings(name: str, broker: BrokerFacts) -> Iterator[Finding]:
    if broker.certificate_end_s is None:
        return
    left_s = broker.certificate_end_s - time.time()
    days = int(left_s / _S_PER_DAY)
    value = f"ends in {days} days" if left_s >= 0 else f"ended {-days} days ago"
    advice = "put a new one in its place" if days < _CERTIFICATE_DAYS_MIN else ""
    yield Finding(f"{name}: certificate", value, advice, "clients refuse one that has ended")


def _port_findings(name: str, broker: BrokerFacts, group: list[BrokerFacts]) -> Iterator[Finding]:
    port = broker.number("haListenPort", 0)
    second, first = broker.config.get("brokerIP2", ""), broker.config.get("brokerIP1", "")
    if len(group) > 1 and not broker.is_port_open and not _connected(broker):
        yield Finding(
            f"{name}: port for slaves",
            f"{second or first or 'brokerIP2'}:{port} takes no connection from here, and no slave "
            "is connected",
            "set brokerIP2 to the address at which slaves reach this machine: without it the first "
            "address of the machine is given to them",
            "a slave copies nothing, and its log says that it cannot connect",
        )
    bound = broker.config.get("bindAddress", "")
    is_everywhere = not broker.is_ours or bound in _ANY_HOSTS
    keeps_out = broker.config.get("haStrangers") == "refuse"
    if broker.is_port_open and is_everywhere and not keeps_out:
        advice = "let only the machines of the group reach it (firewall)"
        if broker.is_ours:
            advice += ", and set haStrangers=refuse"
        yield Finding(
            f"{name}: port for slaves",
            "open: it takes a connection from here, on every address of the machine",
            advice,
            "who reaches it can read every message"
            + ("" if broker.is_ours else ", and eight bytes of anybody count as a slave's report"),
        )


def _slave_findings(name: str, slave: BrokerFacts, group: list[BrokerFacts]) -> Iterator[Finding]:
    masters = [each for each in group if each.is_master and not each.failure]
    why = "what a slave has not got is lost with the disk of its master"
    if not masters or masters[0].end is None or slave.end is None:
        return
    # The master was asked at another moment: what came meanwhile is no lag that counts.
    lag = max(0, masters[0].end - slave.end)
    gap = masters[0].number("haMaxGapNotInSync", _GAP_DEFAULT)
    lag_ms = max(_lags_ms(masters[0]), default=0)
    is_late = lag >= gap or (lag > 0 and lag_ms > _LAG_MAX_MS)
    client = (slave.replication or {}).get("haClientRuntimeInfo")
    is_cut = isinstance(client, dict) and client.get("activated") is False
    advice = ""
    if is_cut:
        advice = f"look at its log: it is not connected to its master {masters[0].address}"
    elif is_late:
        advice = "look at network and disk of the slave; mqadmin haStatus shows what it gets"
    value = "not connected to its master" if is_cut else f"{lag} bytes behind"
    yield Finding(f"{name}: lag", value, advice, why)


def _lags_ms(master: BrokerFacts) -> list[int]:
    rows = as_list((master.replication or {}).get("haConnectionInfo"))
    found = [as_dict(row).get("lagMs") for row in rows]
    return [each for each in found if isinstance(each, int)]


def _controller_findings(controller: ControllerFacts, count: int) -> Iterator[Finding]:
    name = f"controller {controller.address}"
    why = "controllers elect masters; a majority of them has to live"
    if controller.failure:
        advice = "start it, or take it out of controllerAddr of all brokers"
        yield Finding(name, f"no answer: {controller.failure}", advice, why)
        return
    if not controller.leader:
        advice = "start a majority of controllerDLegerPeers"
        yield Finding(name, "knows no leader", advice, why)
        return
    advice = "run three, on machines of their own" if count == 1 else ""
    yield Finding(name, f"group {controller.group}, leader {controller.leader}", advice, why)
    if controller.config.get("enableElectUncleanMaster", "").lower() == "true":
        yield Finding(
            f"{name}: elections",
            "enableElectUncleanMaster=true",
            "set it to false",
            "a broker may become master that misses messages which were acknowledged",
        )
