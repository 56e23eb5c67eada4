"""Other brokers, asked by name for a part of a static topic: found by the topic's route, and kept.

As `RpcClientImpl` of 5.x. Knows no request.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mqcore.broker.state import BrokerState
from mqcore.errors import ConnectError, MQError, RefusedError
from mqcore.model.reading import as_dict, as_list, as_text
from mqcore.model.relaxed_json import parse_object
from mqcore.native import Command
from mqcore.remoting import Client, RequestCode, ResponseCode, expect

# How long one name server may take, as officially (`GET_TOPIC_ROUTE_TIMEOUT`).
_ROUTE_TIMEOUT_S = 3.0
# As often clients ask for routes. A master that moved is found sooner: it cannot be reached.
_KEPT_S = 30.0
# Brokers that are kept; a name server has no more by default.
_BROKERS_MAX = 10_000
_MS_PER_S = 1_000


@dataclass(frozen=True, slots=True)
class _Found:
    address: str
    at_s: float


class BrokerPeers:
    """The masters of other broker names."""

    def __init__(self, state: BrokerState) -> None:
        """Prepares; nobody is asked yet."""
        self._state = state
        self._client = Client(
            tls=state.outgoing_tls, credentials=state.credentials, version=state.version
        )
        self._known: dict[str, _Found] = {}

    async def stop(self) -> None:
        """Closes the connections."""
        await self._client.close()

    async def call(self, broker: str, topic: str, code: int, ext: Mapping[str, str]) -> Command:
        """Asks the master of a broker name.

        Args:
            broker: The name.
            topic: A topic that the broker has.
            code: What is asked.
            ext: The header's fields.

        Raises:
            MQError: It cannot be found, or did not answer in time.
        """
        timeout_s = self._state.settings.forward_timeout_ms / _MS_PER_S
        address = await self._address_of(broker, topic)
        try:
            return await self._client.call(address, code, dict(ext), timeout_s=timeout_s)
        except ConnectError:
            # Nothing was sent; it may have moved since.
            self._known.pop(broker, None)
        address = await self._address_of(broker, topic)
        return await self._client.call(address, code, dict(ext), timeout_s=timeout_s)

    async def route(self, topic: str) -> dict[str, Any]:
        """Returns the route of a topic, as a name server has it now.

        Raises:
            MQError: No name server has it.
        """
        failure: MQError | None = None
        for address in self._state.name_servers:
            try:
                answer = await self._client.call(
                    address,
                    RequestCode.GET_ROUTEINFO_BY_TOPIC,
                    {"topic": topic, "acceptStandardJsonOnly": "true"},
                    timeout_s=_ROUTE_TIMEOUT_S,
                )
                return parse_object(expect(answer, address).body)
            except MQError as error:
                failure = error
        raise failure or RefusedError(f"no name server for {topic}", code=ResponseCode.SYSTEM_ERROR)

    async def _address_of(self, broker: str, topic: str) -> str:
        now_s = asyncio.get_running_loop().time()
        known = self._known.get(broker)
        if known is not None and now_s - known.at_s < _KEPT_S:
            return known.address
        for row in as_list((await self.route(topic)).get("brokerDatas")):
            found = as_dict(row)
            master = as_text(as_dict(found.get("brokerAddrs")).get("0"))
            name = as_text(found.get("brokerName"))
            if name and master and len(self._known) < _BROKERS_MAX:
                self._known[name] = _Found(master, now_s)
        known = self._known.get(broker)
        if known is None:
            raise RefusedError(
                f"cannot find addr for broker {broker}", code=ResponseCode.SYSTEM_ERROR
            )
        return known.address
