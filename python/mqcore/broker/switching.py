"""How a broker takes a role while it serves: the steps of `ReplicasManager`, in their order.

A broker that waits for its controller, or a slave, becomes master; one that was no master since
its store was opened becomes a slave, or follows another master; a master that has handed its role
over becomes a slave. One that is to follow somebody otherwise is opened anew (`controlled`). Knows
the parts, and nothing of what each does.
"""

import asyncio
import logging
from typing import Final

from mqcore.broker.leading import MasterWork
from mqcore.broker.policy import fill_broker
from mqcore.broker.registration import Registrar
from mqcore.broker.replication import Replication
from mqcore.broker.replication.orders import (
    Become,
    Follow,
)
from mqcore.broker.role import Role
from mqcore.broker.state import BrokerState

__all__ = ["RoleSwitch"]

_log = logging.getLogger("mqcore.broker")

# A master with too few in sync for a send waits so long before name servers know it: official
# slaves learn from them where its log is.
_SET_S: Final = 0.5


class RoleSwitch:
    """The role of one broker, as long as its store is open.

    Attributes:
        has_stepped_down: Whether it was master, and handed the role over.
    """

    def __init__(
        self,
        state: BrokerState,
        services: MasterWork,
        replication: Replication,
        registrar: Registrar,
    ) -> None:
        """Takes the parts, all of them started."""
        self._state = state
        self._services = services
        self._replication = replication
        self._registrar = registrar
        self.has_stepped_down = False
        self._waits_for_set = False

    async def lead(self, order: Become, own_id: int) -> None:
        """Becomes master, or master of a later epoch; connections and tables stay.

        Args:
            order: What the controller wants.
            own_id: The id of the broker at its controller.

        Raises:
            StoreError: The log cannot be led: the broker stays what it was, and follows nobody.
            AddressError: The port for slaves cannot be listened on.
        """
        state, is_new = self._state, not self._state.role.is_master
        await self._replication.lead(order, own_id)
        if is_new:
            await self._services.take_over()
        state.role = Role.master(order.epoch)
        fill_broker(state)
        self._services.start()
        state.topics.reign(order.epoch, state.now_ms())
        self._register_as_master(len(order.members.ids))
        _log.info(
            "master of epoch %d, in sync %s; sends are taken",
            order.epoch,
            ", ".join(map(str, order.members.ids)),
        )

    def _register_as_master(self, in_sync: int) -> None:
        """Lets name servers know the new master; with too few in sync for a send, a moment later.

        Slaves are back within milliseconds, and a client that came before would be refused.
        """
        if in_sync >= self._state.settings.replication_in_sync_min:
            self._registrar.renew()
            return
        self._waits_for_set = True
        asyncio.get_running_loop().call_later(_SET_S, self._register_late)

    def _register_late(self) -> None:
        if self._waits_for_set and self._state.role.is_master:
            self._waits_for_set = False
            self._registrar.renew()

    async def follow(self, order: Follow, own_id: int) -> None:
        """Becomes a slave, or the slave of another master.

        Raises:
            StoreError: The log cannot be followed.
        """
        state = self._state
        assert not state.role.is_master, "a master is opened anew"
        state.role = Role.slave(own_id, order.epoch)
        fill_broker(state)
        await self._replication.follow(order, own_id)
        state.topics.reign(order.epoch, state.now_ms())
        self._registrar.renew()
        _log.info(
            "slave of %s, id %d, in epoch %d", order.master_address, order.master_id, order.epoch
        )

    async def step_down(self, order: Follow, own_id: int) -> None:
        """Becomes the slave of the master that this one has handed its role to.

        Connections stay. The broker is opened anew before it leads again: what a master has in
        memory alone was stored or handed over. Offsets of groups go back to what an open would
        read: another one than the successor may have been elected, which has not all of the log.

        Raises:
            StoreError: The log cannot be followed.
        """
        state = self._state
        self.has_stepped_down = True
        await self._services.stop()
        await self._services.take_offsets_back()
        state.role = Role.slave(own_id, order.epoch)
        fill_broker(state)
        await self._replication.step_down(order, own_id)
        state.topics.reign(order.epoch, state.now_ms())
        self._registrar.renew()
        _log.info(
            "slave of %s, id %d, in epoch %d; it was handed the role",
            order.master_address,
            order.master_id,
            order.epoch,
        )

    def take_set(self, ids: tuple[int, ...], epoch: int) -> None:
        """Takes the sync-state set that the controller has now."""
        master = self._state.replicas.master
        if master is not None and master.adopt(list(ids), epoch):
            _log.info("in sync are %s", ", ".join(map(str, ids)))
        if len(ids) >= self._state.settings.replication_in_sync_min:
            self._register_late()

    def refuse_set(self) -> None:
        """Takes back the sync-state set that was asked for."""
        master = self._state.replicas.master
        if master is not None:
            master.refuse()
