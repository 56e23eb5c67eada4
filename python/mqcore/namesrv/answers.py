"""Writes the bodies that a name server answers with.

All of them are legal JSON: integer keys are quoted, which every known client reads (the official
name server writes them bare for clients before 4.9.4). Pure functions of the table.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from mqcore.model.versions import DataVersion
from mqcore.namesrv.routes import RouteTable
from mqcore.namesrv.shapes import MASTER_ID, PERM_WRITE, BrokerGroup, Queues

__all__ = [
    "RouteView",
    "cluster_body",
    "data_version_body",
    "kv_body",
    "member_group_body",
    "route_body",
    "route_of",
    "topic_list_body",
]

# Topics that brokers of one group synchronise by: they must see the addresses as they are.
_MEMBER_GROUP_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"


class RouteView:
    """The route of one topic, taken from the table as it is now."""

    __slots__ = ("groups", "order_conf", "queues")

    def __init__(
        self,
        groups: list[BrokerGroup],
        queues: dict[str, Queues],
        order_conf: str | None = None,
    ) -> None:
        """Takes the parts.

        Args:
            groups: The brokers, each a copy.
            queues: Queues by broker name.
            order_conf: The order configuration, if there is one to return.
        """
        self.groups = groups
        self.queues = queues
        self.order_conf = order_conf

    def in_zone(self, zone: str) -> "RouteView":
        """Returns the part of a zone: its brokers, and those that have no master to be near to."""
        near = [
            group
            for group in self.groups
            if MASTER_ID not in group.addresses or (group.zone or "").lower() == zone.lower()
        ]
        far = {group.name for group in self.groups} - {group.name for group in near}
        queues = {name: queues for name, queues in self.queues.items() if name not in far}
        return RouteView(near, queues, self.order_conf)


def route_of(
    table: RouteTable, topic: str, *, order_conf: str | None, has_acting_master: bool
) -> RouteView | None:
    """Returns the route of a topic, or None where no broker has it.

    Args:
        table: Where to look.
        topic: The topic.
        order_conf: Its order configuration, if there is one to return.
        has_acting_master: Whether a slave is shown as master where the master is gone and the
            group allows it.
    """
    queues = table.topics.get(topic)
    if not queues:
        return None
    groups = [table.groups[name] for name in queues if name in table.groups]
    if not groups:
        return None
    acts = has_acting_master and not topic.startswith(_MEMBER_GROUP_PREFIX)
    shown = [_shown(group, queues[group.name], acts=acts) for group in groups]
    return RouteView(shown, dict(queues), order_conf)


def _shown(group: BrokerGroup, queues: Queues, *, acts: bool) -> BrokerGroup:
    addresses = dict(group.addresses)
    if (
        acts
        and addresses
        and MASTER_ID not in addresses
        and group.has_acting_master
        and not queues.perm & PERM_WRITE
    ):
        addresses[MASTER_ID] = addresses.pop(min(addresses))
    return BrokerGroup(group.name, group.cluster, addresses, group.has_acting_master, group.zone)


def route_body(view: RouteView) -> bytes:
    """Returns a TopicRouteData in its standard form: keys sorted, all ASCII, `/` escaped."""
    route: dict[str, Any] = {
        "brokerDatas": [_broker_data(group) for group in view.groups],
        "filterServerTable": {},
        "queueDatas": [
            {
                "brokerName": name,
                "perm": queues.perm,
                "readQueueNums": queues.read,
                "topicSysFlag": queues.sys_flag,
                "writeQueueNums": queues.write,
            }
            for name, queues in view.queues.items()
        ],
    }
    if view.order_conf is not None:
        route["orderTopicConf"] = view.order_conf
    static = {
        name: queues.static.to_json()
        for name, queues in view.queues.items()
        if queues.static is not None
    }
    if static:
        route["topicQueueMappingByBroker"] = static
    text = json.dumps(route, separators=(",", ":"), sort_keys=True)
    return text.replace("/", "\\/").encode()


def cluster_body(table: RouteTable) -> bytes:
    """Returns a ClusterInfo: every broker, and the names of each cluster."""
    return _encoded(
        {
            "brokerAddrTable": {name: _broker_data(group) for name, group in table.groups.items()},
            "clusterAddrTable": {
                cluster: sorted(names) for cluster, names in table.clusters.items()
            },
        }
    )


def member_group_body(table: RouteTable, cluster: str, name: str) -> bytes:
    """Returns the brokers of one name, with none where it is not known."""
    group = table.groups.get(name)
    addresses = group.addresses if group is not None else {}
    return _encoded(
        {
            "brokerMemberGroup": {
                "brokerAddrs": {str(broker_id): addresses[broker_id] for broker_id in addresses},
                "brokerName": name,
                "cluster": cluster,
            }
        }
    )


def topic_list_body(topics: Iterable[str], *, broker_address: str | None = None) -> bytes:
    """Returns a TopicList, with one broker's address where the client needs it."""
    body: dict[str, Any] = {"topicList": list(topics)}
    if broker_address is not None:
        body["brokerAddr"] = broker_address
    return _encoded(body)


def kv_body(table: Mapping[str, str]) -> bytes:
    """Returns a KVTable."""
    return _encoded({"table": dict(table)})


def data_version_body(version: DataVersion) -> bytes:
    """Returns a DataVersion."""
    return _encoded(version.to_json())


def _broker_data(group: BrokerGroup) -> dict[str, Any]:
    data: dict[str, Any] = {
        "brokerAddrs": {
            str(broker_id): group.addresses[broker_id] for broker_id in group.addresses
        },
        "brokerName": group.name,
        "cluster": group.cluster,
        "enableActingMaster": group.has_acting_master,
    }
    if group.zone is not None:
        data["zoneName"] = group.zone
    return data


def _encoded(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode(
        "utf-8", "replace"
    )
