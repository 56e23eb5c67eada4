"""What happens to the machine of a broker: memory, descriptors, the clock, and how files roll over.

Each function is one round of a fault; `Alone.heal` takes back what is left of it. Knows the broker
by its process.
"""

import contextlib
import random
import resource
import socket
import time
from pathlib import Path

from faults.alone import Alone, descriptors
from faults.harm_disks import must_live
from faults.rounds import pass_s
from interop.patience import eventually
from interop.registered import wait_until
from mqcore import Message, Producer

_DAY_S = 86_400.0
# Beyond what the process has of its own: some of its files stay in memory, or hardly any.
_SPARE_BYTES = (1 << 20, 8 << 20, 32 << 20)
_KNOCKS = 64
# More than a file of the timer log has.
_TIMED = 100
# Longer than a start: what comes due before the timers read it is in no file of theirs.
_TIMED_S = 5.0
_CONNECT_TIMEOUT_S = 1.0
_BEFORE_MIDNIGHT_S = 2.0
# Far beyond what a time server does: 500 parts in a million.
_SLEW = 0.05


def little_memory(it: Alone, dice: random.Random) -> None:
    """The control group has hardly more than the process needs; the kernel may kill it."""
    spare = dice.choice(_SPARE_BYTES)
    # The kernel may find nothing more to take away.
    with contextlib.suppress(OSError):
        it.memory.limit(it.memory.needed_bytes() + spare)
    pass_s(4.0)
    if it.broker.has_died:
        it.memory.limit(None)
        it.broker.kill()
        it.broker.start()


def no_descriptors(it: Alone, dice: random.Random) -> None:
    """The process may open no more than it has open, while clients knock and files roll over."""
    before = resource.prlimit(it.pid, resource.RLIMIT_NOFILE)
    allowed = descriptors(it.pid) + dice.choice((0, 2))
    resource.prlimit(it.pid, resource.RLIMIT_NOFILE, (allowed, before[1]))
    host, _, port = it.broker.address.rpartition(":")
    with contextlib.ExitStack() as stack:
        for _ in range(_KNOCKS):
            with contextlib.suppress(OSError):
                knock = socket.create_connection((host, int(port)), _CONNECT_TIMEOUT_S)
                stack.enter_context(knock)
        pass_s(3.0)
    must_live(it)
    resource.prlimit(it.pid, resource.RLIMIT_NOFILE, before)


def step_clock(it: Alone, dice: random.Random) -> None:
    """The wall clock is a day ahead, or behind, and then right again."""
    day_s = dice.choice((_DAY_S, -_DAY_S))
    for step_s in (day_s, -2 * day_s, day_s):
        it.clock.step(step_s)
        pass_s(2.0)
    must_live(it)


def leap_second(it: Alone, _: random.Random) -> None:
    """Midnight comes, and the last second of the day is there twice, as Linux has it."""
    now_s = it.clock.now_s()
    it.clock.step(_DAY_S - now_s % _DAY_S - _BEFORE_MIDNIGHT_S)
    pass_s(_BEFORE_MIDNIGHT_S)
    it.clock.step(-1.0)
    pass_s(2.0)
    must_live(it)


def slew_clock(it: Alone, dice: random.Random) -> None:
    """The clock goes too fast, then too slow, by much more than a time server would have it."""
    for rate in dice.sample((_SLEW, -_SLEW), 2):
        it.clock.slew(rate)
        pass_s(2.0)
    it.clock.slew(0.0)
    must_live(it)


def roll_over(it: Alone, dice: random.Random) -> None:
    """Files of every kind are full one after the other, and the process is killed in between."""
    for _ in range(dice.randrange(2, 4)):
        wait_until(it.servers.namesrv.address, bool)
        with Producer(it.namesrv, group="timed") as producer:
            for number in range(_TIMED):
                due_s = time.time() + _TIMED_S
                producer.send(Message("Timed", f"timed {number}", deliver_at=due_s))
        it.broker.kill()
        it.broker.start()
    for kind in ("commitlog", "consumequeue/Faults/0", "consumequeue_ext/Faults/0", "index"):
        must_have_rolled(it.store / kind)
    must_have_rolled(it.store / "timerlog")


def must_have_rolled(folder: Path) -> None:
    """Fails where there is one file of a kind, or none."""
    names = eventually(
        lambda: sorted(each.name for each in folder.iterdir()), lambda found: len(found) > 1
    )
    assert len(names) > 1, f"{folder} has {names}"
