"""A program gives freed memory back when it has grown by it."""

import subprocess
import sys
from pathlib import Path

from mqcore.occupancy.giving_back import GivingBack
from mqcore.occupancy.process import anonymous_bytes

_MIB = 1 << 20
SERVED = """
import asyncio
import os
import signal
from mqcore.cli import serving
from mqcore.cli.program import ProgramOptions
from mqcore.occupancy.process import anonymous_bytes

serving._GIVE_BACK_PERIOD_S = 0.02

class Served:
    ports = {}

    async def start(self):
        self.task = asyncio.create_task(self.free())
        return "no port"

    async def free(self):
        await asyncio.sleep(0.2)
        many = [bytes(2_000) for _ in range(50_000)]
        last = bytes(2_000)
        held = anonymous_bytes()
        del many
        while anonymous_bytes() > held - 60_000_000:
            await asyncio.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)
        return last

    async def stop(self):
        await self.task

serving.serve(ProgramOptions(), "test", Served, about="nothing")
"""
PROGRAM = """
from mqcore.occupancy.giving_back import GivingBack
from mqcore.occupancy.process import anonymous_bytes

memory = GivingBack()
assert not memory.look()
many = [bytes(2_000) for _ in range(50_000)]
last = bytes(2_000)
held = anonymous_bytes()
del many
assert memory.look(), held
assert anonymous_bytes() < held - 60_000_000, (held, anonymous_bytes())
assert not memory.look()
assert last
"""


class Process:
    """A process of so much memory, of which so much is free."""

    def __init__(self, used: int) -> None:
        self.used, self.free = used, 0
        self.memory = GivingBack(lambda: self.used + self.free, self._give_back)

    def _give_back(self) -> None:
        self.free = 0

    def look(self, used: int, free: int) -> bool:
        self.used, self.free = used * _MIB, free * _MIB
        return self.memory.look()


def test_growth_of_what_is_free_is_given_back() -> None:
    process = Process(0)
    assert not process.look(36, 0)
    assert not process.look(36, 4), "too little"
    assert process.look(36, 5)
    assert process.look(36, 5), "again"
    # It uses less: growth counts from there.
    assert not process.look(20, 0)
    assert process.look(20, 5)


def test_growth_of_what_is_used_is_looked_at_after_longer_and_longer_pauses() -> None:
    process = Process(0)
    assert not process.look(36, 0)
    given = [number for number in range(400) if process.look(60, 0)]
    assert given == [0, 2, 6, 14, 30, 62, 126, 191, 256, 321, 386]
    # What is free by then is found.
    while not process.look(36, 24):
        pass
    assert process.used + process.free == 36 * _MIB
    assert process.look(36, 24), "no pause is left"


def test_of_a_large_process_an_eighth_has_to_be_free() -> None:
    process = Process(0)
    assert not process.look(8_000, 0)
    assert not process.look(8_000, 1_000)
    assert process.look(8_000, 1_001)


def test_a_process_gives_back_what_is_free_in_the_middle() -> None:
    ended(PROGRAM)


def test_a_program_that_serves_does() -> None:
    ended(SERVED)


def ended(program: str) -> None:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr


def test_no_such_figure_is_no_growth(tmp_path: Path) -> None:
    assert anonymous_bytes(tmp_path) == 0
    assert anonymous_bytes() > _MIB
