"""What an operator does under load: another broker takes over the directory, and gives it back.

Knows programs by their releases, and the commands that mend a store.
"""

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from faults.alone import Alone
from faults.copied import Copied
from faults.load import read_all
from faults.rounds import pass_s
from interop.earlier import earlier_software, is_earlier
from interop.processes import StartError
from interop.servers import OURS, Software, official_software

# Long enough for messages of either release.
_SPELL_S = 3.0
# How often a change of versions begins with a kill.
_KILLED = 0.5
_BODY_AT = 88
_LENGTH_BYTES = 4


def official(version: str) -> Callable[[Alone, random.Random], None]:
    """Returns what lets a broker of a release take over, and ours after it."""

    def harm(it: Alone, _: random.Random) -> None:
        for software in (official_software(version), OURS):
            _take_over(it, software)

    harm.__doc__ = f"A broker of {version} takes over the directory of ours, then ours again."
    return harm


def earlier(it: Alone, dice: random.Random) -> None:
    """Our first version takes over the directory, as after a downgrade, and gives it back.

    Half of the time what runs is killed, not stopped.
    """
    earlier_broker = earlier_software()
    for software in (earlier_broker, OURS):
        if dice.random() < _KILLED:
            it.broker.kill()
        _take_over(it, software)
        assert is_earlier(it.pid) == (software is earlier_broker)


def _take_over(it: Alone, software: Software) -> None:
    """Starts a broker on the directory, in place of the one that runs; reads all that it gives."""
    it.broker.stop()
    it.broker.become(software)
    it.broker.start()
    pass_s(_SPELL_S)
    it.reads += read_all(it.broker.address)


def rot_log(it: Copied, dice: random.Random) -> None:
    """A bit of a message changes on the master while it is down; its slave has the record."""
    master = it.group.master
    # Nothing that the slave lacks is left behind.
    it.settle()
    (master.kill if dice.random() < 0.5 else master.stop)()
    path = sorted((it.group.servers.store / "commitlog").iterdir())[0]
    flip_body(path, dice)
    try:
        master.start()
    except StartError as refused:
        why = str(refused)
    else:
        why = ""
    if why:
        assert "mqcore store" in why
        repair(it.group.servers.store, it.group.slaves[0].broker.address)
        master.start()


def flip_body(path: Path, dice: random.Random) -> None:
    """Changes a bit in the body of some record of a file of the log."""
    content, position, bodies = path.read_bytes(), 0, list[int]()
    while length := int.from_bytes(content[position : position + _LENGTH_BYTES], "big"):
        body = int.from_bytes(content[position + _BODY_AT - 4 : position + _BODY_AT], "big")
        if body:
            bodies.append(position + _BODY_AT + dice.randrange(body))
        position += length
    at = dice.choice(bodies)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes([content[at] ^ (1 << dice.randrange(8))]))


def repair(store: Path, source: str) -> None:
    """Fetches damaged records from another replica, as an operator would."""
    command = [sys.executable, "-m", "mqcore.cli.main", "store", "repair"]
    done = subprocess.run(
        [*command, "--from", source, str(store)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
