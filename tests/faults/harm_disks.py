"""What happens to the process of a broker and to its disk; each function is one round of a fault.

A function does harm, lets it last and may end it; `Alone.heal` takes back what is left of it.
Knows the broker by its process, its files and what it prints.
"""

import errno
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from faults.alone import Alone
from faults.load import TIMEOUT_S
from faults.rounds import pass_s
from interop.patience import eventually

# For how long a process is gone or a disk is bad.
_SPELLS_S = (0.0, 0.3, 1.0)
# Some beyond the time-out of a request.
_PAUSES_S = (0.5, 2.0, TIMEOUT_S + 1.5)
# What a slow disk takes longer for each call, of which a sync is several.
_SLOW_S = (0.02, 0.1, 0.3)
_LOG = "/commitlog/"
# That which is appended to, the one made ahead of need, and those within `hotWindowBytes`.
_MAPPED_FILES = 4


def kill(it: Alone, dice: random.Random) -> None:
    """The process is killed."""
    it.broker.kill()
    pass_s(dice.choice(_SPELLS_S))
    it.broker.start()


def pause(it: Alone, dice: random.Random) -> None:
    """The process is stopped where it is, and goes on."""
    it.broker.pause()
    pass_s(dice.choice(_PAUSES_S))
    it.broker.resume()


def lose_power(it: Alone, dice: random.Random) -> None:
    """The machine loses power; what was not synced is gone, or some of it."""
    with it.losing_power():
        it.broker.kill()
        it.disk.restore(dice.randrange(1 << 30), loses_all=dice.random() < 0.5)
    it.broker.start()


def fill_disk(it: Alone, dice: random.Random) -> None:
    """No byte of the disk is free; then there is space again, and nothing is started anew."""
    it.disk.fill()
    pass_s(dice.choice((3.0, 6.0)))
    must_live(it)
    # Reads go on.
    before = len(it.reads)
    it.read_all()
    assert len(it.reads) > before


def slow_disk(it: Alone, dice: random.Random) -> None:
    """Each write and sync takes long."""
    delay_s = dice.choice(_SLOW_S)
    for call in ("WRITE", "FSYNC"):
        it.disk.slow(call, "", delay_s)
    pass_s(4.0)
    must_live(it)


def fail_sync(it: Alone, _: random.Random) -> None:
    """A sync of the log fails once: nothing is acknowledged until the store is opened again."""
    it.disk.fail("FSYNC", _LOG, errno.EIO, 1)
    must_complain(it, "FSYNC failed")
    must_live(it)
    it.broker.stop()
    it.broker.start()


def fail_write(it: Alone, dice: random.Random) -> None:
    """Writes of the log fail for a while: the kernel has acknowledged them already."""
    it.disk.fail("WRITE", _LOG, errno.EIO)
    must_complain(it, "WRITE failed")
    must_live(it)
    it.disk.heal()
    (it.broker.kill if dice.random() < 0.5 else it.broker.stop)()
    it.broker.start()


def fail_tables(it: Alone, dice: random.Random) -> None:
    """Writes and syncs of queues, index, checkpoint or config fail; the log is well."""
    part = dice.choice(("/consumequeue/", "/index/", "/checkpoint", "/config/"))
    it.disk.fail(dice.choice(("WRITE", "FSYNC")), part, errno.EIO)
    pass_s(3.0)
    must_live(it)
    it.disk.heal()
    it.broker.stop()
    it.broker.start()


def fail_reads(it: Alone, _: random.Random) -> None:
    """Reads of old files of the log fail, and nothing of them is cached; then they go again.

    The newest files are mapped: there a failed read is a signal that ends the process.
    """

    def old_files() -> list[str]:
        return sorted(each.name for each in (it.store / "commitlog").iterdir())[:-_MAPPED_FILES]

    names = eventually(old_files, bool)
    assert names, "the log has too few files"
    for name in names:
        it.disk.fail("READ", f"{_LOG}{name}", errno.EIO)
        it.disk.forget_pages(f"{_LOG}{name}")
    it.read_all()
    pass_s(1.0)
    counts = it.disk.counts()
    assert counts.get("READ failed", 0) > 0, counts
    must_live(it)


def fail_mapped_reads(it: Alone, _: random.Random) -> None:
    """Reads of the log fail, and nothing is cached: where it is mapped that ends the process.

    It names the file, and is started again when the disk is well.
    """
    began = len(it.broker.printed())
    it.disk.fail("READ", _LOG, errno.EIO)
    it.disk.forget_pages(_LOG)

    def read() -> bool:
        it.read_all()
        return it.broker.has_died

    assert eventually(read, bool), "it lives on"
    printed = it.broker.printed()[began:]
    assert "(SIGBUS): " in printed, printed[-2_000:]
    assert f"{_LOG}0" in printed.split("(SIGBUS): ")[1].splitlines()[0]
    it.disk.heal()
    it.broker.kill()
    it.broker.start()


def remove_file(it: Alone, dice: random.Random) -> None:
    """A file of the log or of a queue is removed by hand while the broker runs.

    It goes on with what it has open, and `verify` names the file. One of the log is put back before
    the broker is started again, as from a copy; one of a queue is made again from the log.
    """
    folder = it.store / dice.choice(("commitlog", "consumequeue"))
    is_log = folder.name == "commitlog"
    files = sorted(each for each in folder.rglob("*") if each.is_file() and each.name.isdecimal())
    # The last one of the log is made ahead of need: nobody misses it, and it is made anew.
    path = dice.choice(files[:-1] if is_log else files)
    kept = path.with_name("kept-by-a-test")
    path.rename(kept)
    pass_s(1.0)
    it.read_all()
    must_live(it)
    it.broker.stop()
    named = verified(it)
    assert path.name in named or path.parent.name in named, named
    if is_log:
        assert not path.exists(), f"{path} was made anew"
        kept.rename(path)
    else:
        kept.unlink()
    it.broker.start()


def verified(it: Alone) -> str:
    """Returns what `mqcore store verify` prints of the stopped broker's store."""
    command = [sys.executable, "-m", "mqcore.cli.main", "store", "verify", str(it.store)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def must_live(it: Alone) -> None:
    """Fails where the broker has died."""
    assert not it.broker.has_died, f"it has died: {it.broker.printed()[-2_000:]}"


def must_complain(it: Alone, what: str) -> None:
    """Waits until the disk has failed; the broker's log must have it."""
    began = len(it.broker.printed())
    failed = eventually(it.disk.counts, lambda counts: counts.get(what, 0) > 0)
    assert failed.get(what, 0) > 0, failed
    printed = eventually(lambda: it.broker.printed()[began:], lambda text: "errno 5" in text)
    assert "errno 5" in printed, f"nobody complains: {printed[-2_000:]}"


# Bits that go bad.

_RECORD_BODY_AT = 88


def rot(
    part: str, *, count: int = 4, repairs: bool = False
) -> Callable[[Alone, random.Random], None]:
    """Returns what changes bits in files of a stopped broker.

    Args:
        part: The directory or file below the store.
        count: How many bits.
        repairs: Whether somebody runs `mqcore store repair`, as for what no start looks at.
    """

    def harm(it: Alone, dice: random.Random) -> None:
        path = it.store / part
        # What is written each ten seconds may not be there yet.
        is_killed = path.exists() and dice.random() < 0.5
        (it.broker.kill if is_killed else it.broker.stop)()
        files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        for _ in range(count):
            flip_some_bit(dice.choice(files), dice)
        if repairs:
            command = [sys.executable, "-m", "mqcore.cli.main", "store", "repair", str(it.store)]
            subprocess.run(command, check=True, capture_output=True)
        it.broker.start()
        # A read of what is damaged has it made again.
        it.read_all()

    harm.__doc__ = f"Bits of {part} change while the broker is down."
    return harm


def flip_some_bit(path: Path, dice: random.Random) -> None:
    """Changes one bit of a file that is not blank there."""
    content = bytearray(path.read_bytes())
    written = [at for at, byte in enumerate(content) if byte]
    if not written:
        return
    at = dice.choice(written)
    content[at] ^= 1 << dice.randrange(8)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content[at : at + 1])
