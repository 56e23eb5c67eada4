"""A store of ours follows an official master in controller mode: the same bytes, the same epochs.

The stream of AutoSwitch alone: who is a broker at the controller is the official one. What is ours
is a store and the thread that follows.
"""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.group import epochs_of
from interop.elected import Group, group
from interop.patience import eventually
from interop.replicated import SMALL, log_of
from interop.servers import official_software
from mqcore.native import (
    EndedLink,
    ReplicationEpochs,
    ReplicationMaster,
    ReplicationMembership,
    ReplicationPace,
    ReplicationSlave,
    Store,
)

OFFICIAL = "5.3.3"
COUNT = 200
OUR_ID = 9
HEARTBEAT_MS = 1_000
SILENCE_MAX_MS = 20_000


class Copy:
    """A store that follows."""

    def __init__(self, root: Path, cut_at: int | None = None) -> None:
        """Opens it."""
        self.root = root
        self.store = Store(root, config=SMALL, is_member=True, cut_at=cut_at)
        self.epoch_file = root / "epochFileCheckpoint"
        self.epochs = ReplicationEpochs(self.store, str(self.epoch_file))
        self.slave = ReplicationSlave(
            self.store,
            heartbeat_ms=HEARTBEAT_MS,
            silence_max_ms=SILENCE_MAX_MS,
            epochs=self.epochs,
            controller_id=OUR_ID,
        )

    def follow(self, them: Group) -> None:
        """Follows the master over a new connection."""
        host, port = them.master().address.split(":")
        with socket.create_connection((host, int(port) + 1)) as connected:
            self.slave.follow(connected.detach(), f"{host}:{port}")

    def wait_until_equal(self, them: Group) -> None:
        """Returns when the log has the same bytes as the master's."""
        store = them.master().store

        def ends() -> tuple[int, int]:
            return self.epochs.positions().end, end_of_log(store)

        found = eventually(ends, lambda both: both[0] == both[1] > 0)
        assert found[0] == found[1], self.slave.take_ended()
        assert found[0] > 0
        ours, theirs = log_of(self.root), log_of(store)
        for name, file in theirs.items():
            below = max(0, found[0] - int(name))
            assert ours.get(name, b"")[:below] == file[:below], name

    def ended(self) -> EndedLink:
        """Returns the link that ended, when one did."""
        (link,) = eventually(self.slave.take_ended, lambda links: links != [])
        return link

    def close(self) -> None:
        """Closes everything."""
        self.slave.stop()
        self.store.close()


def end_of_log(store: Path) -> int:
    """Returns where the records of a log end, by their lengths."""
    end = 0
    for name, file in sorted(log_of(store).items()):
        at = 0
        while at + 8 <= len(file) and (length := int.from_bytes(file[at : at + 4])) > 0:
            blank = int.from_bytes(file[at + 4 : at + 8]) == 0xCBD43194
            at = len(file) if blank else at + length
        end = int(name) + at
        if at < len(file):
            break
    return end


@contextlib.contextmanager
def copy(root: Path, cut_at: int | None = None) -> Iterator[Copy]:
    """Opens a store that follows; closes it at the end."""
    made = Copy(root, cut_at)
    try:
        yield made
    finally:
        made.close()


def restart(them: Group) -> None:
    """Kills the official master and starts it anew: it is elected again, with a later epoch."""
    (broker,) = them.brokers
    broker.program.kill()
    eventually(lambda: them.master_address(), lambda address: address == "")
    broker.program.start()


@pytest.mark.java
def test_a_store_of_ours_becomes_a_copy_of_an_official_master(tmp_path: Path) -> None:
    official = official_software(OFFICIAL)
    with group([official], tmp_path / "them", controller=official) as them:
        assert them.send(them.master(), COUNT) == COUNT
        with copy(tmp_path / "ours") as ours:
            ours.follow(them)
            ours.wait_until_equal(them)
            them.send(them.master(), COUNT)
            ours.wait_until_equal(them)
            restart(them)
            them.send(them.master(), COUNT)
            ours.follow(them)
            ours.wait_until_equal(them)
            theirs = (them.master().store / "epochFileCheckpoint").read_bytes()
            assert ours.epoch_file.read_bytes() == theirs
            assert len(ours.epochs.entries()) > 1
            common = ours.epochs.positions().end
            # It goes on alone, with an epoch that nobody else has.
            ours.slave.stop()
            member = ReplicationMembership(controller_id=OUR_ID)
            master = ReplicationMaster(
                ours.store,
                heartbeat_ms=HEARTBEAT_MS,
                silence_max_ms=SILENCE_MAX_MS,
                pace=ReplicationPace(batch_bytes=32_768),
                membership=member,
                epochs=ours.epochs,
            )
            own = ours.epochs.last_epoch + 1
            assert master.lead(own, [OUR_ID], 1)
            for number in range(COUNT):
                ours.store.append("divergent", b"%d" % number)
            master.stop()
        them.send(them.master(), COUNT)
        with copy(tmp_path / "ours") as ours:
            assert ours.epochs.last_epoch == own
            # A master whose last epoch is before ours was deposed: nothing is cut for it.
            alone = ours.epochs.positions().end
            ours.follow(them)
            refused = ours.ended()
            assert refused.cut_at is None, refused
            assert f"our log has epoch {own}" in refused.why
            assert ours.epochs.positions().end == alone > common
            while epochs_of(them.master().store)[-1][0] <= own:
                restart(them)
                them.send(them.master(), COUNT)
            ours.follow(them)
            ended = ours.ended()
            assert ended.cut_at == common, ended
        with copy(tmp_path / "ours", cut_at=ended.cut_at) as ours:
            assert ours.epochs.positions().end == common
            ours.follow(them)
            ours.wait_until_equal(them)
            theirs = (them.master().store / "epochFileCheckpoint").read_bytes()
            assert ours.epoch_file.read_bytes() == theirs
