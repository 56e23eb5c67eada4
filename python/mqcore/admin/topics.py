"""Topics: listed, routed, made, changed, deleted, measured. One method per request."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from mqcore.admin.arguments import (
    INT_MAX,
    of_type,
    texts_of,
    topic_name,
    topic_text,
    unix_ms,
    whole,
)
from mqcore.admin.results import TopicStats
from mqcore.admin.transport import Transport, all_of
from mqcore.client.routes import TopicRoute
from mqcore.errors import MQError
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_dict, as_int, as_list, as_text
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.model.topics import QUEUES_MAX, TopicConfig
from mqcore.remoting import RequestCode, ResponseCode

__all__ = ["Topics"]

# The official defaults of `mqadmin updateTopic`.
_QUEUES = 8
# Brokers of 4.9 do not know the question for one topic's configuration.
_UNKNOWN_CODE = (ResponseCode.REQUEST_CODE_NOT_SUPPORTED,)


class Topics:
    """The topics of a cluster."""

    def __init__(self, transport: Transport) -> None:
        """Takes the way to the servers."""
        self._transport = transport

    async def names(self) -> list[str]:
        """Returns the names of all topics, those of the servers and of groups too (206)."""
        answer = await self._transport.look_up(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return _names(answer.body)

    async def of_cluster(self, cluster: str) -> list[str]:
        """Returns the names of the topics of one cluster (224).

        Raises:
            MQError: There is no such cluster.
        """
        of_type("cluster", cluster, str)
        answer = await self._transport.look_up(
            RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": cluster}
        )
        found = _names(answer.body)
        if not found:
            await self._transport.masters(cluster)
        return found

    async def of_system(self) -> set[str]:
        """Returns the names that the servers use for themselves (304, 305)."""
        answer = await self._transport.look_up(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
        found = parse_object(answer.body)
        names = {as_text(name) for name in as_list(found.get("topicList"))}
        broker = as_text(found.get("brokerAddr"))
        if broker:
            listed = await self._transport.ask(
                broker, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER
            )
            names.update(_names(listed.body))
        return names

    async def route(self, topic: str) -> TopicRoute:
        """Returns where a topic is (105).

        Raises:
            NoRouteError: No name server knows it.
        """
        return await self._transport.route(topic)

    async def put(
        self,
        topic: TopicConfig,
        *,
        changes: Iterable[str] = (),
        brokers: Iterable[str] = (),
        cluster: str | None = None,
    ) -> list[str]:
        """Creates a topic, or changes it, on brokers (17).

        Args:
            topic: The topic as it is to be, but for its attributes.
            changes: Of its attributes: `+key=value` adds or changes one, `-key` takes one away.
            brokers: Addresses; without them all masters.
            cluster: Only the masters of this cluster.

        Returns:
            The addresses of the brokers that have it now.

        Raises:
            ResponseError: A broker refuses it.
            UsageError: An argument cannot work; nothing was sent.
        """
        _check(topic)
        wanted = ",".join(texts_of("changes", changes))
        addresses = texts_of("brokers", brokers) or sorted(
            (await self._transport.masters(cluster)).values()
        )
        ext = {
            "topic": topic.name,
            "defaultTopic": "TBW102",
            "readQueueNums": str(topic.read_queues),
            "writeQueueNums": str(topic.write_queues),
            "perm": str(topic.perm),
            "topicFilterType": topic.filter_type,
            "topicSysFlag": str(topic.sys_flag),
            "order": str(topic.order).lower(),
        }
        if wanted:
            ext["attributes"] = wanted
        code = RequestCode.UPDATE_AND_CREATE_TOPIC
        await all_of(addresses, lambda address: self._transport.ask(address, code, ext))
        return addresses

    async def create(
        self,
        topic: str,
        *,
        queues: int = _QUEUES,
        ordered: bool = False,
        brokers: Iterable[str] = (),
        cluster: str | None = None,
    ) -> list[str]:
        """Creates a topic; see `put`.

        Args:
            topic: Its name.
            queues: Queues for reading and for writing, on each broker: 1 to 65,536.
            ordered: Whether it promises order.
            brokers: Addresses; without them all masters.
            cluster: Only the masters of this cluster.

        Returns:
            The addresses of the brokers that have it now.

        Raises:
            ResponseError: A broker refuses it.
            UsageError: An argument cannot work; nothing was sent.
        """
        whole("queues", queues, 1, QUEUES_MAX)
        config = TopicConfig(topic, read_queues=queues, write_queues=queues, order=ordered)
        return await self.put(config, brokers=brokers, cluster=cluster)

    async def delete(self, topic: str, *, cluster: str | None = None) -> list[str]:
        """Deletes a topic with its messages: on masters, then on name servers (215, 216).

        A topic that is not there is no error.

        Returns:
            The addresses of the brokers.

        Raises:
            ResponseError: A broker refuses.
        """
        topic_text(topic)
        addresses = sorted((await self._transport.masters(cluster)).values())
        code, ext = RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic}
        await all_of(addresses, lambda address: self._transport.ask(address, code, ext))
        if cluster is not None:
            ext = ext | {"clusterName": cluster}
        await self._transport.notify_name_servers(RequestCode.DELETE_TOPIC_IN_NAMESRV, ext)
        return addresses

    async def delete_at(self, topic: str, broker: str) -> str:
        """Deletes a topic with its messages on one broker; the others keep theirs (215, 216, 217).

        Name servers forget the topic of that broker alone: the others are entered again at once,
        and register it once more.

        Args:
            topic: Which.
            broker: The broker's name.

        Returns:
            The address of the broker.

        Raises:
            NoRouteError: No name server knows the topic.
            MQError: It is not on such a broker.
            ResponseError: A broker refuses.
        """
        configs = await self.configs(topic)
        addresses = await self._transport.addresses_of_topic(topic)
        if broker not in addresses:
            raise MQError(f"topic {topic} is not on broker {broker}")
        route = await self.route(topic)
        ext = {"topic": topic}
        await self._transport.ask(addresses[broker], RequestCode.DELETE_TOPIC_IN_BROKER, ext)
        of = route.broker(broker)
        forgotten = ext | {"clusterName": of.cluster if of is not None else ""}
        await self._transport.notify_name_servers(RequestCode.DELETE_TOPIC_IN_NAMESRV, forgotten)
        others = {name: each for name, each in configs.items() if name != broker}
        await self._entered_again(topic, others)
        for name, config in others.items():
            await self.put(config, brokers=[addresses[name]])
        return addresses[broker]

    async def _entered_again(self, topic: str, configs: Mapping[str, TopicConfig]) -> None:
        """Enters a topic on brokers into name servers; those of 4.9 wait for its registration."""
        rows = [
            {
                "brokerName": name,
                "perm": config.perm,
                "readQueueNums": config.read_queues,
                "topicSysFlag": config.sys_flag,
                "writeQueueNums": config.write_queues,
            }
            for name, config in configs.items()
        ]
        code = RequestCode.REGISTER_TOPIC_IN_NAMESRV
        body = compact({"queueDatas": rows, "brokerDatas": []})
        await all_of(
            self._transport.name_servers,
            lambda address: self._transport.ask(
                address, code, {"topic": topic}, body, fine=_UNKNOWN_CODE
            ),
        )

    async def configs(self, topic: str) -> dict[str, TopicConfig]:
        """Returns a topic's configuration by broker name (351; 21 with brokers of 4.9).

        Raises:
            NoRouteError: No name server knows it.
        """
        brokers = await self._transport.addresses_of_topic(topic)
        found = await all_of(brokers.values(), lambda address: self.config_at(address, topic))
        return {name: each for name, each in zip(brokers, found, strict=True) if each is not None}

    async def all_configs(self, *, cluster: str | None = None) -> dict[str, dict[str, TopicConfig]]:
        """Returns all topics that brokers know: configurations by topic and broker name (21)."""
        masters = await self._transport.masters(cluster)
        code = RequestCode.GET_ALL_TOPIC_CONFIG
        answers = await all_of(masters.values(), lambda address: self._transport.ask(address, code))
        found: dict[str, dict[str, TopicConfig]] = {}
        for broker, answer in zip(masters, answers, strict=True):
            table = as_dict(parse_object(answer.body).get("topicConfigTable"))
            for name, value in table.items():
                found.setdefault(name, {})[broker] = TopicConfig.of_json(value, name)
        return dict(sorted(found.items()))

    async def configs_at(self, address: str) -> dict[str, TopicConfig]:
        """Returns all topics that one broker knows, by name (21)."""
        answer = await self._transport.ask(address, RequestCode.GET_ALL_TOPIC_CONFIG)
        table = as_dict(parse_object(answer.body).get("topicConfigTable"))
        return {name: TopicConfig.of_json(value, name) for name, value in table.items()}

    async def stats_at(self, address: str, topic: str) -> TopicStats:
        """Returns how full the queues of a topic are on one broker (202).

        Raises:
            ResponseError: The broker has no such topic.
        """
        topic_text(topic)
        code, ext = RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}
        answer = await self._transport.ask(address, code, ext)
        return TopicStats.of_bodies(topic, [parse_object(answer.body)])

    async def config_at(self, address: str, topic: str) -> TopicConfig | None:
        """Returns a topic's configuration on one broker, None where it has no such topic.

        Args:
            address: The broker (351; 21 with brokers of 4.9).
            topic: Which.

        Raises:
            ResponseError: The broker refuses.
        """
        topic_text(topic)
        answer = await self._transport.ask(
            address,
            RequestCode.GET_TOPIC_CONFIG,
            {"topic": topic},
            fine=(*_UNKNOWN_CODE, ResponseCode.TOPIC_NOT_EXIST),
        )
        if answer.code == ResponseCode.SUCCESS:
            return TopicConfig.of_json(parse_object(answer.body), topic)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        whole = await self._transport.ask(address, RequestCode.GET_ALL_TOPIC_CONFIG)
        table = as_dict(parse_object(whole.body).get("topicConfigTable"))
        return TopicConfig.of_json(table[topic], topic) if topic in table else None

    async def stats(self, topic: str) -> TopicStats:
        """Returns how full a topic's queues are (202).

        Raises:
            NoRouteError: No name server knows it.
        """
        brokers = await self._transport.addresses_of_topic(topic)
        code, ext = RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}
        answers = await all_of(
            brokers.values(), lambda address: self._transport.ask(address, code, ext)
        )
        return TopicStats.of_bodies(topic, [parse_object(answer.body) for answer in answers])

    async def groups(self, topic: str) -> list[str]:
        """Returns the groups that read a topic, or have read it (300).

        Raises:
            NoRouteError: No name server knows it.
        """
        brokers = await self._transport.addresses_of_topic(topic)
        code, ext = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic}
        answers = await all_of(
            brokers.values(), lambda address: self._transport.ask(address, code, ext)
        )
        found: set[str] = set()
        for answer in answers:
            found.update(map(as_text, as_list(parse_object(answer.body).get("groupList"))))
        return sorted(found)

    async def offset_at(self, queue: MessageQueue, time_ms: int | datetime) -> int:
        """Returns the first offset of a queue at or behind a time (29).

        Args:
            queue: Which.
            time_ms: Unix ms, or a `datetime` with a time zone; before the first message means the
                first one, behind the last one the end (with brokers of 4.9 the last message).

        Raises:
            NoRouteError: No name server knows the topic, or the broker.
            UsageError: The time is a `datetime` without a time zone, or no time.
        """
        at_ms = unix_ms("time_ms", time_ms)
        address = await self._transport.address_of(queue)
        ext = {
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "timestamp": str(at_ms),
        }
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        answer = await self._transport.ask(address, code, ext)
        return as_int(answer.ext.get("offset"))


def _check(topic: TopicConfig) -> None:
    """Refuses a topic that cannot be as it is to be."""
    of_type("topic", topic, TopicConfig)
    topic_name(topic.name)
    whole("read_queues", topic.read_queues, 0, QUEUES_MAX)
    whole("write_queues", topic.write_queues, 0, QUEUES_MAX)
    whole("perm", topic.perm)
    whole("sys_flag", topic.sys_flag, 0, INT_MAX)
    of_type("order", topic.order, bool)


def _names(body: bytes) -> list[str]:
    return sorted(as_text(name) for name in as_list(parse_object(body).get("topicList")))
