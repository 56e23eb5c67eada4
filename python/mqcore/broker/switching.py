"""How a broker takes a role while it serves: the steps of `ReplicasManager`, in their order.

A broker that waits for its controller, or a slave, becomes master; a broker that was no master
since its store was opened becomes a slave, or follows another master. A master that is to follow
somebody is opened anew instead (`controlled`). Knows the parts, and nothing of what each does.
"""

import logging

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


class RoleSwitch:
    """The role of one broker, as long as its store is open."""

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
        self._registrar.renew()
        _log.info(
            "master of epoch %d, in sync %s; sends are taken",
            order.epoch,
            ", ".join(map(str, order.members.ids)),
        )

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

    def take_set(self, ids: tuple[int, ...], epoch: int) -> None:
        """Takes the sync-state set that the controller has now."""
        master = self._state.replicas.master
        if master is not None and master.adopt(list(ids), epoch):
            _log.info("in sync are %s", ", ".join(map(str, ids)))

    def refuse_set(self) -> None:
        """Takes back the sync-state set that was asked for."""
        master = self._state.replicas.master
        if master is not None:
            master.refuse()
