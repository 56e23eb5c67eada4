"""Clusters and brokers: who is there, how they do, how they are set."""

from collections.abc import Mapping
from dataclasses import replace

from mqcore.admin.arguments import lines_of, of_type
from mqcore.admin.broker_settings import BrokerSetting
from mqcore.admin.limits import BrokerLimits
from mqcore.admin.results import (
    ClusterInfo,
    Connected,
    CounterWindow,
    HandOver,
    ReplicationStatus,
)
from mqcore.admin.slow import SlowRequests
from mqcore.admin.transport import Transport
from mqcore.model.reading import as_dict, as_int, as_list, as_text
from mqcore.model.relaxed_json import parse_object
from mqcore.occupancy import Occupied
from mqcore.remoting import OwnRequestCode, RequestCode, ResponseCode

__all__ = ["Brokers"]


class Brokers:
    """The brokers of a cluster. An address is `host:port`."""

    def __init__(self, transport: Transport) -> None:
        """Takes the way to the servers."""
        self._transport = transport

    async def cluster(self) -> ClusterInfo:
        """Returns the brokers that name servers know (106)."""
        return await self._transport.cluster()

    async def runtime(self, address: str) -> dict[str, str]:
        """Returns a broker in figures, by the official names (28)."""
        answer = await self._transport.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        table = as_dict(parse_object(answer.body).get("table"))
        return {name: as_text(table[name]) for name in sorted(table)}

    async def replication(self, address: str) -> ReplicationStatus:
        """Returns how far the slaves of a broker are, or how it follows its master (907).

        Raises:
            ResponseError: The broker does not know the request: one of 4.9.
        """
        answer = await self._transport.ask(address, RequestCode.GET_BROKER_HA_STATUS)
        return ReplicationStatus.of_json(parse_object(answer.body))

    async def config(self, address: str) -> dict[str, str]:
        """Returns a broker's settings by their official keys (26)."""
        answer = await self._transport.ask(address, RequestCode.GET_BROKER_CONFIG)
        lines = answer.body.decode("utf-8", "replace").splitlines()
        pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
        return {key: value for key, separator, value in pairs if separator}

    async def change_config(self, address: str, changes: Mapping[str, str]) -> None:
        """Changes settings that may change while a broker runs (25).

        Raises:
            ResponseError: One may not; nothing was changed.
            UsageError: It is no mapping, or a value has more than one line.
        """
        body = "".join(f"{line}\n" for line in lines_of("changes", changes)).encode()
        await self._transport.ask(address, RequestCode.UPDATE_BROKER_CONFIG, body=body)

    async def settings(self, address: str) -> list[BrokerSetting]:
        """Returns the settings of a broker of mqcore, by name, with where each value comes from.

        Raises:
            ResponseError: The broker does not know the request: it is none of mqcore.
        """
        answer = await self._transport.ask(address, OwnRequestCode.SETTINGS)
        rows = as_list(parse_object(answer.body).get("settings"))
        return sorted(map(BrokerSetting.of_json, rows), key=lambda each: each.name)

    async def memory(self, address: str) -> Occupied:
        """Returns what a broker of mqcore and its store occupy, and what holds its memory.

        Raises:
            ResponseError: The broker does not know the request: it is none of mqcore.
        """
        answer = await self._transport.ask(address, OwnRequestCode.MEMORY)
        return Occupied.of_json(parse_object(answer.body))

    async def limits(self, address: str) -> BrokerLimits:
        """Returns the limits of a broker of mqcore that are at work, and whom they hold back.

        Raises:
            ResponseError: The broker does not know the request: it is none of mqcore.
        """
        answer = await self._transport.ask(address, OwnRequestCode.LIMITS)
        return BrokerLimits.of_json(parse_object(answer.body))

    async def counter(self, address: str, name: str, key: str) -> dict[str, CounterWindow] | None:
        """Returns a counter over the last `minute`, `hour` and `day`, None for one not there (315).

        Args:
            address: The broker.
            name: Such as `TOPIC_PUT_NUMS` or `GROUP_GET_NUMS`.
            key: A topic, or `topic@group`.
        """
        answer = await self._transport.ask(
            address,
            RequestCode.VIEW_BROKER_STATS_DATA,
            {"statsName": name, "statsKey": key},
            fine=(ResponseCode.SYSTEM_ERROR,),
        )
        if answer.code != ResponseCode.SUCCESS:
            return None
        found = parse_object(answer.body)
        return {
            "minute": CounterWindow.of_json(found.get("statsMinute")),
            "hour": CounterWindow.of_json(found.get("statsHour")),
            "day": CounterWindow.of_json(found.get("statsDay")),
        }

    async def producers(self, address: str, group: str) -> list[Connected]:
        """Returns the members of a producer group that a broker knows (204)."""
        answer = await self._transport.ask(
            address,
            RequestCode.GET_PRODUCER_CONNECTION_LIST,
            {"producerGroup": group},
            fine=(ResponseCode.SYSTEM_ERROR,),
        )
        if answer.code != ResponseCode.SUCCESS:
            return []
        rows = as_list(parse_object(answer.body).get("connectionSet"))
        return sorted(Connected.of_json(row) for row in rows)

    async def all_producers(self, address: str) -> dict[str, tuple[Connected, ...]]:
        """Returns the members of all producer groups that a broker knows (328, from 4.9.4)."""
        answer = await self._transport.ask(address, RequestCode.GET_ALL_PRODUCER_INFO)
        data = as_dict(parse_object(answer.body).get("data"))
        return {
            group: tuple(
                replace(
                    Connected.of_json(row),
                    address=as_text(as_dict(row).get("remoteIP")).lstrip("/"),
                )
                for row in as_list(rows)
            )
            for group, rows in sorted(data.items())
        }

    async def timers(self, address: str) -> dict[str, int]:
        """Returns how many timed messages wait on a broker, by topic (61, 5.x).

        Raises:
            ResponseError: It has no timers, or does not know them.
        """
        answer = await self._transport.ask(address, RequestCode.GET_TIMER_METRICS)
        counts = as_dict(parse_object(answer.body).get("timingCount"))
        return {topic: as_int(as_dict(row).get("count")) for topic, row in sorted(counts.items())}

    async def delay_offsets(self, address: str) -> dict[int, int]:
        """Returns how far a broker has delivered each delay level: messages, by level (45)."""
        answer = await self._transport.ask(address, RequestCode.GET_ALL_DELAY_OFFSET)
        table = as_dict(parse_object(answer.body).get("offsetTable"))
        return {as_int(level): as_int(offset) for level, offset in table.items()}

    async def delete_expired(self, address: str) -> None:
        """Lets a broker remove the log files that it need not keep any longer (329)."""
        await self._transport.ask(address, RequestCode.DELETE_EXPIRED_COMMITLOG)

    async def slow_requests(
        self, address: str, *, after: int = 0, limit: int = 100
    ) -> SlowRequests:
        """Returns the slowest requests of a broker of mqcore in the last 16 minutes.

        Args:
            address: The broker.
            after: The `mark` of an answer before: only what was answered behind it.
            limit: How many at the most.

        Raises:
            ResponseError: It is no broker of mqcore.
            UsageError: A number is none.
        """
        of_type("after", after, int)
        of_type("limit", limit, int)
        ext = {"afterUs": str(after), "limit": str(limit)}
        answer = await self._transport.ask(address, OwnRequestCode.SLOW_REQUESTS, ext)
        return SlowRequests.of_json(parse_object(answer.body))

    async def set_writable(self, broker_name: str, *, is_writable: bool) -> None:
        """Lets name servers give routes for writing to a broker, or not (327, 205).

        Name servers forget it when the broker registers a change, or when they start anew.

        Raises:
            MQError: A name server did not take it; it was sent to the others all the same.
        """
        of_type("broker_name", broker_name, str)
        codes = RequestCode.ADD_WRITE_PERM_OF_BROKER, RequestCode.WIPE_WRITE_PERM_OF_BROKER
        code = codes[0] if is_writable else codes[1]
        await self._transport.notify_name_servers(code, {"brokerName": broker_name})

    async def hand_over(self, address: str, to: str | None = None) -> HandOver:
        """Lets a master under a controller hand its role to a slave; returns how far it is.

        It goes on by itself: `handed_over` returns how far, until `is_over`.

        Args:
            address: The master, a broker of mqcore.
            to: The address of the slave; None for the one in sync that has most.

        Raises:
            ResponseError: It cannot be handed over now; nothing has changed.
            UsageError: An address is no text.
        """
        return await self._hand_over(address, "start", to)

    async def plan_hand_over(self, address: str, to: str | None = None) -> HandOver:
        """Returns to whom a master would hand its role; changes nothing. See `hand_over`."""
        return await self._hand_over(address, "plan", to)

    async def handed_over(self, address: str) -> HandOver:
        """Returns how far the last hand-over of a broker of mqcore is."""
        return await self._hand_over(address, "state", None)

    async def _hand_over(self, address: str, action: str, to: str | None) -> HandOver:
        to = to or ""
        of_type("to", to, str)
        ext = {"action": action, "to": to}
        answer = await self._transport.ask(address, OwnRequestCode.HAND_OVER, ext)
        return HandOver.of_json(parse_object(answer.body))
