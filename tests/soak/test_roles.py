"""What the program about changes of roles reads of a process's maps."""

from soak.roles import kinds_of

SMAPS = """\
55d0c0000000-55d0c0a00000 rw-p 00000000 00:00 0                          [heap]
Rss:               10240 kB
Anonymous:         10000 kB
7f0c28000000-7f0c28400000 rw-p 00000000 00:00 0
Anonymous:          4000 kB
7f0c2b100000-7f0c2b200000 rw-p 00000000 00:00 0
Anonymous:           300 kB
7f0c2c000000-7f0c30000000 rw-s 00000000 fe:01 42 /store/commitlog/00000000000000000000
Anonymous:             0 kB
7f0c31000000-7f0c31001000 rw-p 00000000 fe:01 43 /usr/lib/libc.so.6
Anonymous:             4 kB
"""


def test_memory_is_counted_by_the_kind_of_its_maps() -> None:
    kib = 1_024
    assert kinds_of(SMAPS) == {
        "heap": 10_000 * kib,
        "arenas": 4_000 * kib,
        "maps": 300 * kib,
        "files": 4 * kib,
    }
