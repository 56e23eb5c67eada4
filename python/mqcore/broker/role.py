"""What a broker is to its group: master, slave, or neither yet; `BrokerState.role` holds it.

Services, policies and registrations look here, and nowhere else, for what the broker is. Without a
controller the settings decide it once and for all; with one it changes while the broker runs. Knows
no service.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Self

from mqcore.config import BrokerSettings

__all__ = ["Duty", "Role"]


class Duty(Enum):
    """What a broker does in its group."""

    MASTER = "master"
    SLAVE = "slave"
    # Under a controller that has not named the master yet: takes no message, and no name server
    # knows the broker (`setFenced` of `ReplicasManager`).
    FENCED = "fenced"


@dataclass(frozen=True, slots=True)
class Role:
    """The role of one broker.

    Attributes:
        duty: What it does.
        broker_id: Its id in routes: 0 of a master.
        waits_for_slaves: Whether sends wait for slaves while it is master.
        is_controlled: Whether a controller decides it.
        epoch: The epoch of the master's reign; 0 without a controller.
    """

    duty: Duty
    broker_id: int = 0
    waits_for_slaves: bool = False
    is_controlled: bool = False
    epoch: int = 0

    @classmethod
    def of_settings(cls, settings: BrokerSettings) -> Self:
        """Returns the role with which a broker starts: fenced, where a controller decides."""
        if settings.is_controlled:
            return cls(Duty.FENCED, is_controlled=True)
        duty = Duty.SLAVE if settings.is_slave else Duty.MASTER
        return cls(duty, settings.broker_id, waits_for_slaves=settings.is_sync_master)

    @classmethod
    def master(cls, epoch: int) -> Self:
        """Returns the role of a master that a controller elected."""
        return cls(Duty.MASTER, 0, waits_for_slaves=True, is_controlled=True, epoch=epoch)

    @classmethod
    def slave(cls, broker_id: int, epoch: int) -> Self:
        """Returns the role of a slave under a controller.

        Args:
            broker_id: Its own id at the controller.
            epoch: The epoch of its master.
        """
        return cls(Duty.SLAVE, broker_id, is_controlled=True, epoch=epoch)

    @property
    def is_master(self) -> bool:
        """Whether it takes messages and delivers what is due."""
        return self.duty is Duty.MASTER

    @property
    def is_slave(self) -> bool:
        """Whether it copies the log of a master."""
        return self.duty is Duty.SLAVE

    @property
    def is_fenced(self) -> bool:
        """Whether it waits for its controller."""
        return self.duty is Duty.FENCED

    @property
    def official_name(self) -> str:
        """Its `brokerRole`; a controller knows no asynchronous master."""
        if self.is_master:
            return "SYNC_MASTER" if self.waits_for_slaves else "ASYNC_MASTER"
        return "SLAVE"
