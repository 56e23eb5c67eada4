"""Counts the living and has a master elected; notifies brokers of it.

Everything that is decided is decided by `ControllerNode`: here is who was alive when it was asked,
and that it is asked again where the state moved on meanwhile. Knows no request.
"""

import asyncio
import logging
from collections.abc import Callable

from mqcore.access import credentials_of
from mqcore.config import ControllerSettings
from mqcore.controller.bodies import set_body
from mqcore.controller.liveness import BrokerKey, Liveness
from mqcore.errors import RemotingError
from mqcore.native import BrokerSetView, CandidateRow, ControllerAnswer, ControllerNode, ElectRow
from mqcore.remoting import Client, RequestCode, ResponseCode, outgoing_tls_of

__all__ = ["Elections", "keys_of_set"]

_log = logging.getLogger(__name__)

# As the official controller waits; a broker that misses it asks within 5 s.
NOTIFY_TIMEOUT_S = 3.0
# Who may be alive and was not heard of: anybody who has is a better candidate.
_SILENT = CandidateRow(0, -1, -1, (1 << 31) - 1)


def keys_of_set(name: str, view: BrokerSetView) -> list[BrokerKey]:
    """Returns the brokers of a name as heartbeats name them."""
    return [BrokerKey(view.cluster, name, broker_id) for broker_id in view.replicas]


class Elections:
    """Elections of one controller."""

    def __init__(
        self,
        node: ControllerNode,
        liveness: Liveness,
        settings: Callable[[], ControllerSettings],
        *,
        clock: Callable[[], int],
        elected: Callable[[str, str, int], None],
    ) -> None:
        """Takes what is worked on.

        Args:
            node: Who decides.
            liveness: Who is alive.
            settings: Returns the settings as they are now.
            clock: Returns milliseconds that never step back.
            elected: Gets each election: cluster, broker name, code of the answer.
        """
        self._elected = elected
        self._node = node
        self._liveness = liveness
        self._settings = settings
        self._clock = clock
        self._client: Client | None = None
        self._is_leader = False

    def leads(self) -> bool:
        """Returns whether this controller is the leader; one that has become it begins to count."""
        is_leader = self._node.standing().is_leader
        if is_leader and not self._is_leader:
            _log.info("this controller leads")
            self._liveness.lead(self._clock())
        self._is_leader = is_leader
        return is_leader

    async def held(
        self, name: str, broker_id: int | None, *, is_designated: bool = False
    ) -> ControllerAnswer:
        """Has a master elected where one is wanted; brokers that live are notified.

        Args:
            name: The broker name.
            broker_id: The broker that asks, or that a person wants; None where a master is gone.
            is_designated: Whether a person wants that broker and no other.

        Raises:
            StoreError: It could not be kept.
        """
        answer = await self._asked(name, broker_id, is_designated=is_designated)
        for _ in range(self._settings().elections_max - 1):
            if answer.code != ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH:
                break
            answer = await self._asked(name, broker_id, is_designated=is_designated)
        view = answer.view
        self._elected(view.cluster if view is not None else "", name, answer.code)
        if answer.code == ResponseCode.SUCCESS and view is not None:
            _log.info("broker %d is master of %s, epoch %d", view.master, name, view.master_epoch)
            if self._settings().notifies_roles:
                await self._notify(name, view)
        elif answer.is_changed:
            _log.warning("%s has no master: %s", name, answer.remark)
        return answer

    async def lost(self, key: BrokerKey) -> None:
        """Has a master elected where the one that is gone was it.

        Raises:
            StoreError: It could not be kept.
        """
        if not self.leads():
            return
        view = self._node.view(key.name)
        if view is None or view.master != key.broker_id or view.cluster != key.cluster:
            _log.info("broker %s %d is gone", key.name, key.broker_id)
            return
        _log.warning("the master of %s, broker %d, is gone", key.name, key.broker_id)
        await self.held(key.name, None)

    async def look(self) -> None:
        """Has masters elected where one is dead while another broker of its name lives.

        Raises:
            StoreError: It could not be kept.
        """
        if not self.leads():
            return
        now_ms = self._clock()
        for name in self._node.names():
            view = self._node.view(name)
            if view is None or view.master is None:
                continue
            if self._liveness.may_be_alive(BrokerKey(view.cluster, name, view.master), now_ms):
                continue
            if self._liveness.candidates(keys_of_set(name, view), now_ms):
                await self.held(name, None)

    async def close(self) -> None:
        """Closes the connections by which brokers are notified."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _asked(
        self, name: str, broker_id: int | None, *, is_designated: bool
    ) -> ControllerAnswer:
        view = self._node.view(name)
        settings = self._settings()
        row = ElectRow(
            name,
            broker_id,
            is_designated,
            master_epoch=view.master_epoch if view is not None else 0,
            set_epoch=view.set_epoch if view is not None else 0,
            alive=self._alive(name, view) if view is not None else (),
            allows_unclean=settings.allows_unclean,
            in_sync_min=settings.in_sync_min,
        )
        return await asyncio.to_thread(self._node.elect, row)

    def _alive(self, name: str, view: BrokerSetView) -> list[CandidateRow]:
        """Returns the living, and the master where it has not had the time to report."""
        now_ms = self._clock()
        found = self._liveness.candidates(keys_of_set(name, view), now_ms)
        if view.master is None or any(each.id == view.master for each in found):
            return found
        key = BrokerKey(view.cluster, name, view.master)
        if self._liveness.may_be_alive(key, now_ms):
            found.append(_SILENT._replace(id=view.master))
        return found

    async def _notify(self, name: str, view: BrokerSetView) -> None:
        now_ms = self._clock()
        if self._client is None:
            tls = outgoing_tls_of(self._settings().listener)
            self._client = Client(
                tls=tls,
                credentials=credentials_of(self._settings().access),
                connect_timeout_s=NOTIFY_TIMEOUT_S,
            )
        ext = {
            "masterAddress": view.master_address or "",
            "masterBrokerId": str(view.master),
            "masterEpoch": str(view.master_epoch),
            "syncStateSetEpoch": str(view.set_epoch),
        }
        living = {
            address
            for broker_id, address in view.replicas.items()
            if self._liveness.is_alive(BrokerKey(view.cluster, name, broker_id), now_ms)
        }
        sends = [self._notify_one(self._client, address, ext, set_body(view)) for address in living]
        await asyncio.gather(*sends)

    async def _notify_one(
        self, client: Client, address: str, ext: dict[str, str], body: bytes
    ) -> None:
        try:
            await client.oneway(
                address,
                RequestCode.NOTIFY_BROKER_ROLE_CHANGED,
                ext,
                body,
                timeout_s=NOTIFY_TIMEOUT_S,
            )
        except RemotingError as error:
            _log.warning("%s could not be notified of its master: %s", address, error)
