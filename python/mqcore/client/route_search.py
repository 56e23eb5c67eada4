"""The search for the route of a topic that is sent to: asked again until a deadline.

A topic that no broker has is reported at once. A name server that does not answer, or knows no
broker yet, may be about to start: programs may be started in any order. Brokers without a master
may be about to get one: where a slave takes its place the route is another one in a moment.
"""

import asyncio
import contextlib
from typing import Final

from mqcore.client.delivery import RETRY_PAUSE_MS, RETRY_PAUSE_MS_MAX
from mqcore.client.instance import Instance
from mqcore.client.routes import TopicRoute
from mqcore.errors import MQError, NameServerError, NoRouteError, RemotingError

__all__ = ["RouteSearch"]

_MS_PER_S: Final = 1000


class RouteSearch:
    """The search for one topic."""

    def __init__(self, instance: Instance, topic: str, *, is_patient: bool) -> None:
        """Takes who asks.

        Args:
            instance: The client.
            topic: The topic, its namespace included.
            is_patient: Whether it asks again.
        """
        self._instance = instance
        self._topic = topic
        self._is_patient = is_patient
        self._error: MQError | None = None

    async def route(self, timeout_s: float) -> TopicRoute:
        """Returns the route, or what it will be once a broker makes the topic.

        Raises:
            NoRouteError: No broker has it.
            NameServerError: No name server answered in time.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await self._found()
        except TimeoutError:
            # Where the wait was cut explains nothing to who reads the traceback.
            if self._error is not None:
                raise self._error from None
            addresses = self._instance.name_servers.addresses
            raise NameServerError(
                f"topic {self._topic}: no name server answered within {timeout_s:g} s: "
                f"{', '.join(addresses)}. Check the addresses, and that `mqcore namesrv` or "
                "`mqcore standalone` runs there",
                address=";".join(addresses),
                causes={},
            ) from None

    async def _found(self) -> TopicRoute:
        pause_ms = RETRY_PAUSE_MS
        while True:
            try:
                return await self._instance.route(self._topic, has_template=True)
            except NameServerError as error:
                self._error = error
            except NoRouteError as error:
                self._error = error
                if error.brokers:
                    raise
            if not self._is_patient:
                raise self._error
            await asyncio.sleep(pause_ms / _MS_PER_S)
            pause_ms = min(2 * pause_ms, RETRY_PAUSE_MS_MAX)

    async def until_writable(self, left_s: float) -> None:
        """Returns when the route may be written, or there is no more time.

        Where brokers have their masters, and the topic forbids writing, nothing is waited for.
        """
        pause_ms = RETRY_PAUSE_MS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, left_s)):
                while self._is_patient and self._lacks_master():
                    # Where no name server answers, what was known stays.
                    with contextlib.suppress(RemotingError):
                        await self._instance.refresh_route(self._topic)
                    if not self._lacks_master():
                        return
                    await asyncio.sleep(pause_ms / _MS_PER_S)
                    pause_ms = min(2 * pause_ms, RETRY_PAUSE_MS_MAX)

    def _lacks_master(self) -> bool:
        route = self._instance.known_route(self._topic)
        if route is None or route.write_queues:
            return False
        return any(self._instance.address_of(each.name) is None for each in route.brokers)
