"""A slave that acts for its master while that is gone, without remote escape (RIP-32).

All brokers of the name report to name servers every second, and ask who of them is alive.
While the master is gone its slave with the smallest id acts: name servers show it to clients
as id 0, for reading, offsets and locks of queues. It stores nothing, so nothing that the master
would deliver is delivered until that is back: an official slave tries, fails and tries again.

What one slave knows of its group is `Standing`, a state machine; around it are the requests.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mqcore.broker.state import BrokerState
from mqcore.errors import MQError
from mqcore.model.reading import as_dict, as_int, as_list, as_text
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.model.topics import member_group_topic
from mqcore.periodic import PeriodicTasks
from mqcore.remoting import Client, RequestCode, ResponseCode, expect

__all__ = [
    "Acting",
    "MasterIs",
    "Standing",
    "ask_ha_address",
    "ask_members",
    "members_in_group",
    "members_in_route",
]

_log = logging.getLogger("mqcore.broker")

_MASTER: Final = 0
_MS_PER_S: Final = 1_000
_TIMEOUT_S: Final = 3.0
# However small a setting is, name servers have other work.
_PERIOD_MIN_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class MasterIs:
    """What became of the master.

    Attributes:
        there: Whether it is there now.
        address: Where it answers, if it is.
    """

    there: bool
    address: str = ""


class Standing:
    """What one broker knows of who of its group lives.

    Attributes:
        own_id: Its id.
        min_id: The smallest id of those that live; None while nobody is known.
        acts: Whether it acts for its master.
    """

    def __init__(self, own_id: int) -> None:
        """Begins without knowing anybody."""
        self.own_id = own_id
        self.min_id: int | None = None
        self.acts = False

    def min_is(self, min_id: int, address: str) -> MasterIs | None:
        """Takes who has the smallest id; returns what became of the master, None for no news."""
        if min_id == self.min_id or self.own_id == _MASTER:
            self.min_id = min_id
            return None
        was_there = self.min_id == _MASTER
        self.min_id = min_id
        self.acts = min_id == self.own_id
        if min_id == _MASTER:
            return MasterIs(there=True, address=address)
        return MasterIs(there=False) if was_there or self.acts else None


class Acting:
    """Heartbeats of one broker of such a group, and what it does about its master."""

    def __init__(self, state: BrokerState) -> None:
        """Prepares; `start` begins."""
        self._state = state
        self._client = Client(
            tls=state.outgoing_tls, credentials=state.credentials, version=state.version
        )
        self._standing = Standing(state.role.broker_id)
        self._tasks = PeriodicTasks()
        self._asking: set[asyncio.Task[None]] = set()

    @property
    def acts(self) -> bool:
        """Whether this broker acts for its master."""
        return self._standing.acts

    def start(self) -> None:
        """Begins."""
        settings = self._state.settings
        self._state.replicas.acting = self
        self._tasks.every(
            "heartbeats to name servers",
            self._beat,
            period_s=lambda: _period_s(settings.heartbeat_interval_ms),
            first_s=0.0,
        )
        self._tasks.every(
            "members of the group",
            self.look,
            period_s=lambda: _period_s(settings.members_interval_ms),
        )

    async def stop(self) -> None:
        """Ends."""
        await self._tasks.stop()
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        await self._client.close()

    async def _beat(self) -> None:
        await asyncio.gather(*(self._beat_to(each) for each in self._state.name_servers))

    async def _beat_to(self, name_server: str) -> None:
        """Reports to one name server, as one of 4.9 understands it where that is set."""
        state = self._state
        settings = state.settings
        ext = {
            "clusterName": settings.cluster,
            "brokerName": settings.name,
            "brokerAddr": state.address,
            "brokerId": str(state.role.broker_id),
        }
        code, body = RequestCode.BROKER_HEARTBEAT, b""
        if settings.keeps_to_old_name_servers:
            code = RequestCode.QUERY_DATA_VERSION
            body = compact(state.topics.version.to_json())
        timeout_s = settings.heartbeat_send_timeout_ms / _MS_PER_S
        try:
            await self._client.oneway(name_server, code, ext, body, timeout_s=timeout_s)
        except MQError as error:
            _log.debug("no heartbeat to %s: %s", name_server, error.message)

    async def look(self) -> None:
        """Asks the name servers who lives."""
        members = await ask_members(self._client, self._state)
        if members:
            least = min(members)
            self.min_id_changed(least, members[least], "")

    def min_id_changed(self, min_id: int, address: str, ha_address: str) -> None:
        """Takes who has the smallest id of the group, from a name server (905) or by asking.

        Args:
            min_id: The id.
            address: Where it answers.
            ha_address: Where it ships its log, as a master; empty for unknown.
        """
        did_act = self._standing.acts
        news = self._standing.min_is(min_id, address)
        if self._standing.acts and not did_act:
            _log.warning(
                "the master is gone: this slave acts for it. It serves reads, offsets and locks of "
                "queues; nothing is sent to it, and what is delayed waits for the master"
            )
        elif did_act and not self._standing.acts:
            _log.warning("another broker of the group has a smaller id: this slave acts no more")
        if news is None or not news.there:
            return
        task = asyncio.get_running_loop().create_task(self._meet(address, ha_address))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _meet(self, address: str, ha_address: str) -> None:
        """Learns where a master that is back ships its log."""
        if not ha_address:
            try:
                ha_address = await ask_ha_address(self._client, address)
            except MQError as error:
                # The answer to a registration has it, too.
                _log.debug("the master %s does not name its port: %s", address, error.message)
                return
        self._state.replicas.learn(address, ha_address)


async def ask_ha_address(client: Client, master: str) -> str:
    """Returns where a master ships its log; empty where it does not name it.

    Raises:
        MQError: It did not answer, or refused.
    """
    code = RequestCode.EXCHANGE_BROKER_HA_INFO
    answer = expect(await client.call(master, code, timeout_s=_TIMEOUT_S), master)
    return answer.ext.get("masterHaAddress", "")


async def ask_members(client: Client, state: BrokerState) -> dict[int, str] | None:
    """Returns the brokers of our name that live, by id; None where no name server answers."""
    settings = state.settings
    for name_server in state.name_servers:
        try:
            if settings.keeps_to_old_name_servers:
                code, read = RequestCode.GET_ROUTEINFO_BY_TOPIC, members_in_route
                ext = {"topic": member_group_topic(settings.name)}
            else:
                code, read = RequestCode.GET_BROKER_MEMBER_GROUP, members_in_group
                ext = {"clusterName": settings.cluster, "brokerName": settings.name}
            answer = await client.call(name_server, code, ext, timeout_s=_TIMEOUT_S)
            if answer.code == ResponseCode.TOPIC_NOT_EXIST:
                return {}
            found = parse_object(expect(answer, name_server).body)
        except MQError as error:
            _log.debug("%s does not name who lives: %s", name_server, error.message)
            continue
        return read(found, settings.cluster, settings.name)
    return None


def members_in_group(found: Mapping[str, object], cluster: str, name: str) -> dict[int, str]:
    """Returns the brokers in the answer to GET_BROKER_MEMBER_GROUP, by id."""
    del cluster, name
    return _by_id(as_dict(found.get("brokerMemberGroup")).get("brokerAddrs"))


def members_in_route(found: Mapping[str, object], cluster: str, name: str) -> dict[int, str]:
    """Returns the brokers of a name in a route, by id."""
    for each in as_list(found.get("brokerDatas")):
        row = as_dict(each)
        if (row.get("cluster"), row.get("brokerName")) == (cluster, name):
            return _by_id(row.get("brokerAddrs"))
    return {}


def _by_id(rows: object) -> dict[int, str]:
    found = {as_int(key, -1): as_text(address) for key, address in as_dict(rows).items()}
    return {broker_id: address for broker_id, address in found.items() if broker_id >= 0}


def _period_s(period_ms: int) -> float:
    return max(_PERIOD_MIN_S, period_ms / _MS_PER_S)
