"""Groups: listed, made, deleted, how far they have read, who is online, moved to other offsets."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from mqcore.admin.arguments import (
    INT_MAX,
    LONG_MAX,
    group_name,
    group_text,
    of_type,
    texts_of,
    topic_text,
    unix_ms,
    whole,
)
from mqcore.admin.messages import located
from mqcore.admin.results import GroupConnections, GroupProgress, queue_table
from mqcore.admin.transport import Transport, all_of
from mqcore.errors import MQError, ResponseError
from mqcore.model.groups import GroupConfig
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_dict, as_int, as_list, as_text
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.model.request_modes import RequestMode
from mqcore.model.topics import DLQ_PREFIX, RETRY_PREFIX
from mqcore.native import Command
from mqcore.remoting import RequestCode, ResponseCode

__all__ = ["LATEST_MS", "Groups", "unknown_group"]

# The time that means "behind the last message".
LATEST_MS = -1
# The official default of a group.
_RETRIES = 16
# A broker asks a client for its state for 10 s; its own answer takes no longer.
_RUNNING_INFO_TIMEOUT_S = 12.0
# How a broker of 4.9 ends the remark about a group without an offset in the topic.
_NO_OFFSET = "> not exist"


def unknown_group(group: str) -> MQError:
    """Returns the error of every question about a group that no broker knows."""
    return MQError(
        f"there is no group {group}: see `mqcore group list`, or make it with "
        f"`mqcore group create {group}`"
    )


class Groups:
    """The consumer groups of a cluster."""

    def __init__(self, transport: Transport) -> None:
        """Takes the way to the servers."""
        self._transport = transport

    async def configs(self, *, cluster: str | None = None) -> dict[str, dict[str, GroupConfig]]:
        """Returns all groups that brokers know: configurations by group and broker name (201)."""
        masters = await self._transport.masters(cluster)
        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        answers = await all_of(masters.values(), lambda address: self._transport.ask(address, code))
        found: dict[str, dict[str, GroupConfig]] = {}
        for broker, answer in zip(masters, answers, strict=True):
            table = as_dict(parse_object(answer.body).get("subscriptionGroupTable"))
            for name, value in table.items():
                found.setdefault(name, {})[broker] = GroupConfig.of_json(value, name)
        return dict(sorted(found.items()))

    async def configs_at(self, address: str) -> dict[str, GroupConfig]:
        """Returns all groups that one broker knows, by name (201)."""
        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        answer = await self._transport.ask(address, code)
        table = as_dict(parse_object(answer.body).get("subscriptionGroupTable"))
        return {name: GroupConfig.of_json(value, name) for name, value in table.items()}

    async def put(
        self, group: GroupConfig, *, brokers: Iterable[str] = (), cluster: str | None = None
    ) -> list[str]:
        """Creates or replaces a group on brokers (200).

        Args:
            group: The group as it is to be.
            brokers: Addresses; without them all masters.
            cluster: Only the masters of this cluster.

        Returns:
            The addresses of the brokers that have it now.

        Raises:
            ResponseError: A broker refuses it.
            UsageError: An argument cannot work; nothing was sent.
        """
        of_type("group", group, GroupConfig)
        group_name(group.name)
        whole("retry_max_times", group.retry_max_times, -INT_MAX)
        whole("retry_queues", group.retry_queues)
        addresses = texts_of("brokers", brokers) or sorted(
            (await self._transport.masters(cluster)).values()
        )
        code, body = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, compact(group.to_json())
        await all_of(addresses, lambda address: self._transport.ask(address, code, body=body))
        return addresses

    async def create(
        self,
        group: str,
        *,
        retries: int = _RETRIES,
        brokers: Iterable[str] = (),
        cluster: str | None = None,
    ) -> list[str]:
        """Creates a group with the defaults of brokers, or sets it back to them; see `put`.

        Args:
            group: Its name.
            retries: Deliveries again after which a message goes to the dead letters.
            brokers: Addresses; without them all masters.
            cluster: Only the masters of this cluster.

        Returns:
            The addresses of the brokers that have it now.

        Raises:
            ResponseError: A broker refuses it.
            UsageError: An argument cannot work; nothing was sent.
        """
        whole("retries", retries)
        config = GroupConfig(group, retry_max_times=retries)
        return await self.put(config, brokers=brokers, cluster=cluster)

    async def set_mode(self, wanted: RequestMode, *, cluster: str | None = None) -> list[str]:
        """Sets how members that are assigned their queues ask for a topic: pull or pop (401, 5.x).

        Args:
            wanted: The mode, with topic and group.
            cluster: Only on the masters of this cluster.

        Returns:
            The addresses of the brokers that have it now.

        Raises:
            ResponseError: A broker refuses: it has no such topic, or it is of 4.9.
        """
        of_type("wanted", wanted, RequestMode)
        addresses = sorted((await self._transport.masters(cluster)).values())
        code, body = RequestCode.SET_MESSAGE_REQUEST_MODE, compact(wanted.to_json())
        await all_of(addresses, lambda address: self._transport.ask(address, code, body=body))
        return addresses

    async def delete(
        self, group: str, *, cluster: str | None = None, removes_offsets: bool = True
    ) -> list[str]:
        """Deletes a group, and its retry and dead letter topics (207, 215, 216).

        A group that is not there is no error.

        Args:
            group: Its name.
            cluster: Only on the masters of this cluster.
            removes_offsets: Whether brokers forget how far it has read.

        Returns:
            The addresses of the brokers.
        """
        group_text(group)
        addresses = sorted((await self._transport.masters(cluster)).values())
        removed = str(removes_offsets).lower()
        # 4.9 and 5.x call it by different names.
        ext = {"groupName": group, "removeOffset": removed, "cleanOffset": removed}
        code = RequestCode.DELETE_SUBSCRIPTIONGROUP
        await all_of(addresses, lambda address: self._transport.ask(address, code, ext))
        for topic in (f"{RETRY_PREFIX}{group}", f"{DLQ_PREFIX}{group}"):
            await self._delete_topic(topic, addresses)
        return addresses

    async def _delete_topic(self, topic: str, addresses: list[str]) -> None:
        """Deletes a topic that may not be there."""
        ext, code = {"topic": topic}, RequestCode.DELETE_TOPIC_IN_BROKER
        await all_of(addresses, lambda address: self._transport.ask(address, code, ext))
        await self._transport.notify_name_servers(RequestCode.DELETE_TOPIC_IN_NAMESRV, ext)

    async def progress(
        self,
        group: str,
        *,
        topic: str | None = None,
        cluster: str | None = None,
        must_exist: bool = True,
    ) -> GroupProgress:
        """Returns how far a group has read (208).

        Args:
            group: Which; of a group that never committed there is no queue in the answer.
            topic: Only this topic, with all its queues, from 0 where nothing is committed.
            cluster: Only this cluster.
            must_exist: False saves a question where the group has read nothing: a name that nobody
                knows is no error then.

        Raises:
            MQError: There is no such group.
            NoRouteError: No name server knows the topic.
        """
        group_text(group)
        if topic is not None:
            topic_text(topic)
        masters = await self._transport.masters(cluster)
        ext = {"consumerGroup": group} | ({"topic": topic} if topic is not None else {})
        code = RequestCode.GET_CONSUME_STATS
        answers = await all_of(
            masters.values(), lambda address: self._transport.ask(address, code, ext)
        )
        found = GroupProgress.of_bodies(group, [parse_object(answer.body) for answer in answers])
        if not must_exist or any(row.group_offset > 0 for row in found.queues):
            return found
        # Brokers answer so to a name that was mistyped too: of a topic with all its queues.
        if topic is not None:
            await self.progress(group, cluster=cluster)
            await self._transport.route(topic)
        elif not found.queues and group not in await self.configs(cluster=cluster):
            raise unknown_group(group)
        return found

    async def progress_at(self, address: str, group: str, topic: str) -> GroupProgress:
        """Returns how far a group has read a topic on one broker (208).

        Every queue of the topic is in it, from 0 where nothing is committed.
        """
        group_text(group)
        topic_text(topic)
        ext = {"consumerGroup": group, "topic": topic}
        answer = await self._transport.ask(address, RequestCode.GET_CONSUME_STATS, ext)
        return GroupProgress.of_bodies(group, [parse_object(answer.body)])

    async def all_progress_at(self, address: str) -> dict[str, GroupProgress]:
        """Returns how far each group has read what one broker has, by group (317).

        A group that has committed nothing there is left out.
        """
        code = RequestCode.GET_BROKER_CONSUME_STATS
        found: dict[str, list[Any]] = {}
        for is_ordered in ("false", "true"):
            answer = await self._transport.ask(address, code, {"isOrder": is_ordered})
            for row in as_list(parse_object(answer.body).get("consumeStatsList")):
                for group, stats in as_dict(row).items():
                    found.setdefault(group, []).extend(as_list(stats))
        return {group: GroupProgress.of_bodies(group, found[group]) for group in sorted(found)}

    async def consume_again(self, group: str, client_id: str, topic: str, offset_id: str) -> str:
        """Lets a member consume a stored message now; returns how that ended (309).

        Args:
            group: Its group.
            client_id: The member.
            topic: The topic of the message.
            offset_id: The broker's id of the message.

        Returns:
            Such as `CR_SUCCESS` or `CR_LATER`, and what it remarks.

        Raises:
            MQError: It is no broker's id.
            ResponseError: The member is not online, or did not answer.
        """
        group_text(group)
        topic_text(topic)
        address, _ = located(offset_id)
        ext = {"consumerGroup": group, "clientId": client_id, "topic": topic, "msgId": offset_id}
        answer = await self._transport.ask(
            address,
            RequestCode.CONSUME_MESSAGE_DIRECTLY,
            ext,
            timeout_s=_RUNNING_INFO_TIMEOUT_S,
        )
        found = parse_object(answer.body)
        remark = as_text(found.get("remark"))
        return f"{as_text(found.get('consumeResult'), 'unknown')} {remark}".strip()

    async def connections(
        self, group: str, *, cluster: str | None = None
    ) -> GroupConnections | None:
        """Returns the members of a group, None when nobody is online, or no such group (203)."""
        group_text(group)
        masters = await self._transport.masters(cluster)
        code, ext = RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group}

        async def ask(address: str) -> Command:
            fine = (ResponseCode.CONSUMER_NOT_ONLINE, ResponseCode.SYSTEM_ERROR)
            return await self._transport.ask(address, code, ext, fine=fine)

        answers = await all_of(masters.values(), ask)
        online = [parse_object(each.body) for each in answers if each.code == ResponseCode.SUCCESS]
        return GroupConnections.of_bodies(online) if online else None

    async def next_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Returns where a broker lets a group go on in a queue, None where the group decides (14).

        That is what it committed. Of a group that has committed nothing there it is 0 while the
        broker still has the first message in memory; otherwise its members begin by their own rule.

        Raises:
            NoRouteError: No name server knows the topic.
            MQError: The topic has no such broker.
        """
        group_text(group)
        address = await self._transport.address_of(queue)
        ext = {"consumerGroup": group, "topic": queue.topic, "queueId": str(queue.queue_id)}
        answer = await self._transport.ask(
            address,
            RequestCode.QUERY_CONSUMER_OFFSET,
            ext,
            fine=(ResponseCode.QUERY_NOT_FOUND,),
        )
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return as_int(answer.ext.get("offset"))

    async def running_info(
        self, group: str, client_id: str, *, stacks: bool = False
    ) -> dict[str, Any]:
        """Returns what a member reports of itself, by the official names (307).

        Args:
            group: Its group.
            client_id: Who.
            stacks: Whether it is to report the stacks of its threads.

        Raises:
            ResponseError: It is not online, or did not answer.
        """
        group_text(group)
        of_type("client_id", client_id, str)
        ext = {
            "consumerGroup": group,
            "clientId": client_id,
            "jstackEnable": str(stacks).lower(),
        }
        code, last = RequestCode.GET_CONSUMER_RUNNING_INFO, None
        for address in (await self._transport.masters()).values():
            try:
                answer = await self._transport.ask(
                    address, code, ext, timeout_s=_RUNNING_INFO_TIMEOUT_S
                )
            except ResponseError as error:
                # Every broker knows those of its own connections alone.
                last = error
                continue
            return parse_object(answer.body)
        assert last is not None
        raise last

    async def reset_to_time(
        self, group: str, topic: str, time_ms: int | datetime, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """Moves a group to a time in every queue of a topic (222).

        Brokers of 4.9 refuse it while nobody of the group is online, and where the group has not
        committed anything yet: then its offsets are written from here, as official tools do.

        Args:
            group: Which.
            topic: Which.
            time_ms: Unix ms, or a `datetime` with a time zone; `LATEST_MS` for behind the last
                message.
            force: Whether to move ahead too (brokers of 4.9).

        Returns:
            Where the group goes on, by queue.

        Raises:
            NoRouteError: No name server knows the topic.
            ResponseError: A broker refuses: it has no such group.
            UsageError: The time is a `datetime` without a time zone, or no time.
        """
        group_text(group)
        at_ms = unix_ms("time_ms", time_ms, LATEST_MS)
        brokers = await self._transport.addresses_of_topic(topic)
        ext = {
            "topic": topic,
            "group": group,
            "timestamp": str(at_ms),
            "isForce": str(force).lower(),
        }
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        moved: dict[MessageQueue, int] = {}
        for address in brokers.values():
            offline = (ResponseCode.CONSUMER_NOT_ONLINE,)
            try:
                answer = await self._transport.ask(address, code, ext, fine=offline)
            except ResponseError as error:
                if not await self._has_no_offset(address, group, error):
                    raise
            else:
                if answer.code == ResponseCode.SUCCESS:
                    moved |= _offsets(answer)
                    continue
            moved |= await self._written_to_time(address, group, topic, at_ms)
        return dict(sorted(moved.items()))

    async def _has_no_offset(self, address: str, group: str, error: ResponseError) -> bool:
        """Returns whether a broker of 4.9 has a group that it answers not to know."""
        is_unknown = error.code == ResponseCode.SYSTEM_ERROR and _NO_OFFSET in (error.remark or "")
        return is_unknown and group in await self.configs_at(address)

    async def _written_to_time(
        self, address: str, group: str, topic: str, time_ms: int
    ) -> dict[MessageQueue, int]:
        """Writes the offsets of a group of which nobody is online, on one broker."""
        stats = await self._transport.ask(
            address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}
        )
        moved = {}
        for queue, row in queue_table(parse_object(stats.body).get("offsetTable")).items():
            queue_fields = {"topic": topic, "queueId": str(queue.queue_id)}
            offset = as_int(as_dict(row).get("maxOffset"))
            if time_ms != LATEST_MS:
                search = queue_fields | {"timestamp": str(time_ms)}
                found = await self._transport.ask(
                    address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search
                )
                offset = as_int(found.ext.get("offset"))
            commit = queue_fields | {"consumerGroup": group, "commitOffset": str(offset)}
            await self._transport.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, commit)
            moved[queue] = offset
        return moved

    async def reset_queue(self, group: str, queue: MessageQueue, offset: int) -> int:
        """Moves a group to an exact offset in one queue (222 with an offset: 5.x and mqcore).

        A broker of 4.9 would move all queues to a time: its offset is written from here, and only
        while nobody of the group is online, who would overwrite it.

        Returns:
            Where it goes on.

        Raises:
            NoRouteError: No name server knows the topic, or the broker.
            ResponseError: The broker refuses: the offset is not in the queue, or no such group.
            MQError: It is a broker of 4.9, and the group is online.
            UsageError: The offset is below 0, or no number.
        """
        group_text(group)
        # Brokers take an offset below 0 for none, and move all queues of the topic.
        whole("offset", offset, 0, LONG_MAX)
        address = await self._transport.address_of(queue)
        queue_fields = {"topic": queue.topic, "queueId": str(queue.queue_id)}
        known = await self._transport.ask(
            address,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
            {"group": group},
            fine=(ResponseCode.REQUEST_CODE_NOT_SUPPORTED,),
        )
        if known.code == ResponseCode.SUCCESS:
            ext = queue_fields | {
                "group": group,
                "timestamp": str(LATEST_MS),
                "isForce": "true",
                "offset": str(offset),
            }
            code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
            return _offsets(await self._transport.ask(address, code, ext)).get(queue, offset)
        if await self.connections(group) is not None:
            raise MQError(
                f"group {group} is online, and broker {queue.broker_name} at {address} is of 4.9, "
                "which moves groups by time only: stop its consumers first"
            )
        commit = queue_fields | {"consumerGroup": group, "commitOffset": str(offset)}
        await self._transport.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, commit)
        return offset

    async def clone(self, source: str, target: str, topic: str | None = None) -> None:
        """Gives a group the offsets of another one (314).

        Args:
            source: Whose offsets.
            target: Who gets them.
            topic: Only in this topic.

        Raises:
            MQError: There is no group `source`.
            NoRouteError: No name server knows the topic.
        """
        group_text(source)
        group_name(target)
        # Raises where there is no such group.
        await self.progress(source)
        if topic is not None:
            await self._transport.route(topic)
        masters = await self._transport.masters()
        ext = {"srcGroup": source, "destGroup": target, "topic": topic or "", "offline": "true"}
        code = RequestCode.CLONE_GROUP_OFFSET
        await all_of(masters.values(), lambda address: self._transport.ask(address, code, ext))


def _offsets(answer: Command) -> dict[MessageQueue, int]:
    """Returns the offsets in a `ResetOffsetBody`."""
    table = parse_object(answer.body).get("offsetTable") if answer.body else {}
    return {queue: as_int(offset) for queue, offset in queue_table(table).items()}
