"""An asynchronous master that dies takes with it no more than the lag that it has shown.

Each round is a master and a slave of their own: the slave falls behind, the lag is looked at, the
master is killed for good, and the slave takes over.
"""

import random
from pathlib import Path

import pytest

from faults.group import Group, Slave, group, state_of
from faults.history import Outcome
from faults.load import Load
from faults.proxy import Way
from faults.rounds import chapters, pass_s
from interop.patience import eventually
from interop.replicated import end_of, log_of
from mqcore import Admin, Inspection

# Messages before the slave falls behind, and at least so many behind that.
_CALM = 50


def behind(slave: Slave, dice: random.Random) -> str:
    """Lets a slave fall behind; returns how."""
    kind = dice.choice(["held", "lost", "slow", "paused"])
    if kind == "held":
        slave.proxy.change(Way.TO_CLIENT, is_paused=True)
    elif kind == "lost":
        slave.proxy.change(dice.choice(list(Way)), is_black=True)
    elif kind == "slow":
        slave.proxy.change(Way.TO_CLIENT, bytes_per_second=20_000)
    else:
        slave.broker.pause()
    return kind


def lag_of(all_: Group) -> int:
    """Returns how many bytes the master shows its slave to be behind."""
    with Admin(all_.servers.namesrv.address) as admin:

        def lags() -> list[int]:
            replicas = admin.brokers.replication(all_.master.address).replicas
            return [each.lag_bytes for each in replicas]

        return eventually(lags, bool)[0]


def positions_of(store: Path) -> dict[tuple[str, int, int], int]:
    """Returns where each message lies in a log, by topic, queue and offset."""
    found = {}
    for batch in Inspection(store).scan():
        rows = zip(
            batch.topics, batch.queue_ids, batch.queue_offsets, batch.physical_offsets, strict=True
        )
        found.update({(topic, queue, offset): position for topic, queue, offset, position in rows})
    return found


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_no_more_is_lost_than_the_lag_that_was_shown(tmp_path: Path) -> None:
    for chapter in chapters("asynchronous", 2, 6):
        for number in range(chapter.count):
            one_round(tmp_path / chapter.name / f"{number}", chapter.dice, chapter.again)


def one_round(root: Path, dice: random.Random, again: str) -> None:
    """Kills a master whose slave is behind."""
    with group(root, 1, {"brokerRole": "ASYNC_MASTER"}) as all_:
        (slave,) = all_.slaves
        with Load(all_.master.address, "a") as load:
            load.wait_for(_CALM, Outcome.ACKNOWLEDGED)
            eventually(lambda: lag_of(all_), lambda lag: lag == 0)
            kind = behind(slave, dice)
            load.wait_for(_CALM, Outcome.ACKNOWLEDGED)
            pass_s(dice.choice([0.0, 0.1, 0.5]))
        end, lag = end_of(all_.master), lag_of(all_)
        print(f"{again}, {kind}: {lag} of {end} bytes behind", flush=True)
        all_.master.kill()
        slave.broker.resume()
        slave.broker.stop()
        slave.broker.settings |= {"brokerRole": "ASYNC_MASTER", "brokerId": "0"}
        slave.broker.start()
        slave.broker.stop()
        there = positions_of(all_.servers.store)
        here = state_of("slave", slave.store, are_stopped=True)
        assert here.problems == []
        lost = [
            there[*send.queue, send.offset]
            for send in load.sends
            if send.outcome is Outcome.ACKNOWLEDGED
            and send.offset is not None
            and here.queues.get(send.queue, {}).get(send.offset) != send.message_id
        ]
        assert min(lost, default=end) >= end - lag, f"{again}, {kind}: {lag} bytes were shown"
        theirs, scan = log_of(all_.servers.store), Inspection(slave.store).scan()
        kept_to = max(scan.position for _ in scan)
        for name, content in log_of(slave.store).items():
            kept = max(0, kept_to - int(name))
            assert content[:kept] == theirs[name][:kept], name
