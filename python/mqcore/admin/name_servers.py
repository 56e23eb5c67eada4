"""Name servers: what each of them has, its settings, and the table of keys and values."""

from collections.abc import Mapping
from typing import Final

from mqcore.admin.arguments import lines_of, of_type, topic_text
from mqcore.admin.results import ClusterInfo
from mqcore.admin.transport import Transport
from mqcore.model.reading import as_dict, as_int, as_list, as_text
from mqcore.model.relaxed_json import parse_object
from mqcore.remoting import RequestCode, ResponseCode

__all__ = ["ORDER_NAMESPACE", "NameServers"]

# Where the fixed order of queues of ordered topics is kept (`NAMESPACE_ORDER_TOPIC_CONFIG`).
ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


class NameServers:
    """The name servers of a cluster. An address is `host:port`."""

    def __init__(self, transport: Transport) -> None:
        """Takes the way to the servers."""
        self._transport = transport

    async def addresses(self) -> list[str]:
        """Returns the name servers that are asked."""
        return list(self._transport.name_servers)

    async def brokers(self, address: str) -> ClusterInfo:
        """Returns the brokers that one name server knows (106)."""
        answer = await self._transport.ask(address, RequestCode.GET_BROKER_CLUSTER_INFO)
        return ClusterInfo.of_json(parse_object(answer.body))

    async def permission_at(self, address: str, topic: str, broker_name: str) -> int:
        """Returns what one name server lets clients do with a topic on a broker (105).

        Returns:
            The sum of 4 to read and 2 to write; 0 where it gives no route there.
        """
        of_type("broker_name", broker_name, str)
        topic_text(topic)
        answer = await self._transport.ask(
            address,
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            {"topic": topic, "acceptStandardJsonOnly": "true"},
            fine=(ResponseCode.TOPIC_NOT_EXIST,),
        )
        if answer.code != ResponseCode.SUCCESS:
            return 0
        rows = map(as_dict, as_list(parse_object(answer.body).get("queueDatas")))
        named = (row for row in rows if row.get("brokerName") == broker_name)
        return next((as_int(row.get("perm")) for row in named), 0)

    async def config(self, address: str) -> dict[str, str]:
        """Returns the settings of one name server by their official keys (319)."""
        answer = await self._transport.ask(address, RequestCode.GET_NAMESRV_CONFIG)
        lines = answer.body.decode("utf-8", "replace").splitlines()
        pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
        return {key: value for key, separator, value in pairs if separator}

    async def change_config(self, address: str, changes: Mapping[str, str]) -> None:
        """Changes settings of one name server; one of mqcore keeps them until its end (318).

        Raises:
            ResponseError: One may not be changed; nothing was.
            UsageError: It is no mapping, or a value has more than one line.
        """
        body = "".join(f"{line}\n" for line in lines_of("changes", changes)).encode()
        await self._transport.ask(address, RequestCode.UPDATE_NAMESRV_CONFIG, body=body)

    async def kv(self, address: str, namespace: str) -> dict[str, str]:
        """Returns the values of a namespace at one name server, by key (219); empty without any."""
        of_type("namespace", namespace, str)
        answer = await self._transport.ask(
            address,
            RequestCode.GET_KVLIST_BY_NAMESPACE,
            {"namespace": namespace},
            fine=(ResponseCode.QUERY_NOT_FOUND,),
        )
        if answer.code != ResponseCode.SUCCESS:
            return {}
        table = as_dict(parse_object(answer.body).get("table"))
        return {key: as_text(table[key]) for key in sorted(table)}

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Sets a value at every name server (100).

        Raises:
            MQError: A name server did not take it; it was sent to the others all the same.
        """
        for name, text in (("namespace", namespace), ("key", key), ("value", value)):
            of_type(name, text, str)
        ext = {"namespace": namespace, "key": key, "value": value}
        await self._transport.notify_name_servers(RequestCode.PUT_KV_CONFIG, ext)

    async def delete_kv(self, namespace: str, key: str) -> None:
        """Removes a value from every name server; one that is not there is no error (102).

        Raises:
            MQError: A name server did not take it; it was sent to the others all the same.
        """
        of_type("namespace", namespace, str)
        of_type("key", key, str)
        ext = {"namespace": namespace, "key": key}
        await self._transport.notify_name_servers(RequestCode.DELETE_KV_CONFIG, ext)
