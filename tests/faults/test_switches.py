"""Roles change while a master delivers delayed messages, timers, pops, and asks about transactions.

Three brokers under a controller: another one becomes master by election, because the master is
killed, or because it is stopped. Nothing comes early, nothing is lost, and what comes twice is in
the guide (`docs/failover.md`). `MQCORE_SWITCHES=50` sets how many (`make switches`),
`MQCORE_FAULTS_SEED` which.
"""

import os
import random
import time
from pathlib import Path

import pytest

from faults.deliveries import Deliveries, Stored
from faults.failovers import elect
from faults.rounds import SEED, pass_s
from faults.trio import Member, Trio, trio
from faults.works import (
    CHECKED,
    COMMITTED,
    DELAYED,
    LEVELS_S,
    ORDERED,
    TIMED,
    WORKS,
    Works,
)
from interop.patience import eventually
from mqcore import Inspection

SWITCHES = int(os.environ.get("MQCORE_SWITCHES", "4"))
_KEYS = {
    "timerWheelEnable": "true",
    "messageDelayLevel": " ".join(f"{each}s" for each in LEVELS_S),
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "1000",
    "transactionOpBatchInterval": "500",
    "transactionCheckMax": "1000",
    # A slave that takes the tables of its master does so each ten seconds.
    "flushDelayOffsetInterval": "1000",
    "flushConsumerOffsetInterval": "1000",
}
# How long before a change of role what is delivered again was delivered: a slave follows delays and
# timers of its master each second, ends of transactions within half a second.
_GRACE_MS = {
    DELAYED: 5_000.0,
    TIMED: 5_000.0,
    COMMITTED: 5_000.0,
    CHECKED: 5_000.0,
}
# Before a change, so that something of every kind is under way; at the end, for what comes again.
_BUSY_S = 2.5
_SETTLE_S = 4.0


def by_election(all_: Trio, master: Member) -> None:
    """A person asks for another master."""
    slaves = [each for each in all_.members if each is not master]
    assert any(elect(all_, each) for each in slaves)


def by_kill(all_: Trio, master: Member) -> None:
    """The master is killed, and comes back."""
    master.broker.kill()
    new_master(all_, master)
    master.broker.start()


def by_stop(all_: Trio, master: Member) -> None:
    """The master is stopped, and comes back."""
    master.broker.stop()
    new_master(all_, master)
    master.broker.start()


def new_master(all_: Trio, old: Member) -> None:
    """Returns when another broker is master."""
    found = eventually(
        lambda: all_.state().get("masterAddress") or "", lambda new: new not in ("", old.address)
    )
    assert found not in ("", old.address), all_.state()


def switch(all_: Trio, dice: random.Random, changes_ms: list[tuple[float, float]]) -> str:
    """Changes the master; returns how."""
    master = all_.master()
    how = dice.choice([by_election, by_kill, by_stop])
    began_ms = time.time() * 1_000
    how(all_, master)
    new_master(all_, master)
    changes_ms.append((began_ms, time.time() * 1_000))
    all_.wait_until_in_sync()
    return how.__name__


def stored(store: Path) -> list[Stored]:
    """Returns what lies in the topics."""
    found = []
    for batch in Inspection(store).scan():
        rows = zip(
            batch.topics,
            batch.stored_bodies,
            batch.store_timestamps_ms,
            batch.queue_ids,
            batch.queue_offsets,
            strict=True,
        )
        found += [
            Stored(topic, body.decode(), stored_ms, queue_id, offset)
            for topic, body, stored_ms, queue_id, offset in rows
            if topic in WORKS
        ]
    return found


@pytest.mark.slow
@pytest.mark.timeout(300 + 60 * SWITCHES)
def test_what_a_master_delivers_by_itself_goes_on_with_the_next_one(tmp_path: Path) -> None:
    dice = random.Random(f"{SEED} switches")
    changes_ms: list[tuple[float, float]] = []
    with trio(tmp_path, keys=_KEYS) as all_:
        all_.wait_until_ready()
        all_.create_topics(*WORKS)
        with Works(all_.namesrv_addresses, all_.find_master) as works:
            for number in range(SWITCHES):
                pass_s(_BUSY_S)
                how = switch(all_, dice, changes_ms)
                print(f"MQCORE_FAULTS_SEED={SEED}, switch {number} {how}", flush=True)
            pass_s(_BUSY_S)
            works.rest()
            missing = eventually(works.missing, lambda found: not found)
            pass_s(_SETTLE_S)
        all_.wait_until_whole()
        all_.stop()
        first, *others = [stored(each.store) for each in all_.members]
        assert all(each == first for each in others)
    seen = Deliveries(works.jobs, first, works.given, changes_ms, _GRACE_MS, (ORDERED,))
    for work, (count, copies, times) in seen.doubles().items():
        print(f"{work}: {count} messages, {copies} more copies, {times} more deliveries")
    flaws = seen.flaws()
    assert not flaws, f"MQCORE_FAULTS_SEED={SEED}: {len(flaws)}, the first: {flaws[:5]}"
    assert not missing
    assert {job.work for job in works.jobs} == set(WORKS)
