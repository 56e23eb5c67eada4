"""What a program asks of the system for itself: its allocator keeps little, and gives back."""

import subprocess
import sys

PROGRAM = """
import ctypes
import sys
from mqcore.native import bound_allocator, give_memory_back

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]

def blocks_of_their_own(size):
    before = libc.mallinfo2().hblks
    block = libc.malloc(size)
    count = libc.mallinfo2().hblks - before
    libc.free(block)
    return count

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))

if sys.argv[1] == "bounds":
    assert bound_allocator(2)
    # By itself glibc would keep blocks of up to this length from now on.
    blocks_of_their_own(16 << 20)
    assert blocks_of_their_own(4 << 20) == 1
    assert blocks_of_their_own(64 << 10) == 0
else:
    many = [bytes(2_000) for _ in range(50_000)]
    last = bytes(2_000)
    held = anonymous()
    del many
    # The last one is behind them: nothing is given back by itself.
    assert anonymous() > held - 20_000, (held, anonymous())
    assert give_memory_back()
    assert anonymous() < held - 60_000, (held, anonymous())
    assert last
"""


def run(what: str) -> None:
    command = [sys.executable, "-c", PROGRAM, what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_long_blocks_are_given_back_one_by_one_whatever_was_freed_before() -> None:
    run("bounds")


def test_memory_between_blocks_is_given_back() -> None:
    run("gives")
