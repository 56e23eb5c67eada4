"""The list of faults that the broker must pass, as data; `docs/reliability.md` has what came of it.

Each is made some rounds long under load; `running.py` does so. Knows who does the harm, not how.
"""

import enum
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from faults import harm_disks, harm_machine, harm_network, harm_versions
from faults.alone import Need
from faults.copied import some_harm_to_a_pair, some_harm_to_three
from interop.official import NEWEST

_SYNC: Final = {"flushDiskType": "SYNC_FLUSH"}
_ASYNC: Final = {"flushDiskType": "ASYNC_FLUSH"}
# What asynchronous flush may lose: what is less than its least pages waits for
# `flushCommitLogThoroughInterval`; and how long a sync takes on a busy machine.
_FLUSH_S: Final = 10.0 + 3.0
# A file of each kind is full after some seconds.
_TINY_FILES: Final = {
    **_ASYNC,
    "mappedFileSizeCommitLog": str(128 << 10),
    "maxMessageSize": "16384",
    "mappedFileSizeConsumeQueue": "400",
    "enableConsumeQueueExt": "true",
    "mappedFileSizeConsumeQueueExt": "2048",
    "maxHashSlotNum": "64",
    "maxIndexNum": "256",
    "timerWheelEnable": "true",
    "mappedFileSizeTimerLog": "4096",
}
_TIMERS: Final = {
    **_ASYNC,
    "timerWheelEnable": "true",
    "messageDelayLevel": "1s 2s 5s 8s",
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "1000",
    "flushDelayOffsetInterval": "1000",
}

_DISK: Final = frozenset({Need.DISK})
_CLOCK: Final = frozenset({Need.CLOCK})
_PROXY: Final = frozenset({Need.PROXY})
_NONE: Final[frozenset[Need]] = frozenset()


class Who(enum.Enum):
    """Which brokers a fault is done to."""

    ALONE = "one broker"
    PAIR = "a synchronous master and its slave"
    THREE = "three brokers under a controller"
    THREE_OF_THREE = "three brokers under three controllers"


class With(enum.Enum):
    """What works beside the senders and the consumer that are always there."""

    # A producer of the official Java client.
    JAVA = "java"
    # Delays, timers, transactions, pops, ordered consumption.
    WORKS = "works"


@dataclass(frozen=True, slots=True)
class Fault:
    """A row of the list.

    Attributes:
        name: What it is called.
        what: What is done in a round, in words.
        harm: Does it.
        rounds: How often, in `make faults`.
        keys: Settings of the brokers.
        needs: What the machine must have.
        who: Whose brokers.
        beside: What works beside.
        loses_s: What was acknowledged so long before power is lost may be gone, at the end of each
            queue.
        keeps_reads: Whether what a consumer was given stays all the same.
        needs_java: Whether the harm is done with official brokers.
        few: Rounds in `make test`, where it is drawn for the sample; 0: too long for that.
    """

    name: str
    what: str
    harm: Callable[[Any, random.Random], None]
    rounds: int
    keys: Mapping[str, str] = field(default_factory=dict)
    needs: frozenset[Need] = _NONE
    who: Who = Who.ALONE
    beside: frozenset[With] = frozenset()
    loses_s: float = 0.0
    keeps_reads: bool = False
    needs_java: bool = False
    few: int = 0

    @property
    def needs_client(self) -> bool:
        """Whether an official client works beside."""
        return With.JAVA in self.beside


_JAVA: Final = frozenset({With.JAVA})
_WORKS: Final = frozenset({With.WORKS})

FAULTS: Final = (
    Fault(
        "kill -9",
        "the process is killed, asynchronous flush",
        harm_disks.kill,
        10,
        _ASYNC,
        beside=_JAVA,
        few=2,
    ),
    Fault(
        "kill -9, synchronous flush",
        "the process is killed",
        harm_disks.kill,
        10,
        _SYNC,
        few=2,
    ),
    Fault(
        "pause",
        "SIGSTOP for 0.5 to 4.5 s, then SIGCONT",
        harm_disks.pause,
        6,
        _ASYNC,
        beside=_JAVA,
        few=1,
    ),
    Fault(
        "power loss",
        "synchronous flush; what was not synced is gone, or some of its sectors, lengths, names",
        harm_disks.lose_power,
        10,
        _SYNC,
        _DISK,
        few=2,
    ),
    Fault(
        "power loss, asynchronous flush",
        "the same; what the flush interval allows may be lost, at the end of each queue alone",
        harm_disks.lose_power,
        10,
        _ASYNC,
        _DISK,
        loses_s=_FLUSH_S,
        few=2,
    ),
    Fault(
        "power loss, consumeFlushedOnly",
        "the same; nothing that a consumer was given is lost, no group is beyond a queue",
        harm_disks.lose_power,
        6,
        {**_ASYNC, "consumeFlushedOnly": "true"},
        _DISK,
        loses_s=_FLUSH_S,
        keeps_reads=True,
        few=2,
    ),
    Fault(
        "full disk",
        "no byte is free for 3 to 6 s; no start afterwards",
        harm_disks.fill_disk,
        4,
        _ASYNC,
        _DISK,
        few=1,
    ),
    Fault(
        "full disk, synchronous flush",
        "the same",
        harm_disks.fill_disk,
        3,
        _SYNC,
        _DISK,
        few=1,
    ),
    Fault(
        "slow disk",
        "each write and sync takes 20 to 300 ms longer",
        harm_disks.slow_disk,
        4,
        _SYNC,
        _DISK,
        few=1,
    ),
    Fault(
        "EIO at sync",
        "one sync of the log fails; nothing is acknowledged until the broker is started again",
        harm_disks.fail_sync,
        4,
        _SYNC,
        _DISK,
        few=1,
    ),
    Fault(
        "EIO at write",
        "writing back pages of the log fails; the broker is killed or stopped, and started again",
        harm_disks.fail_write,
        4,
        _SYNC,
        _DISK,
        few=1,
    ),
    Fault(
        "EIO at read",
        "reads of files below `hotWindowBytes` fail, and they are not cached; no start afterwards",
        harm_disks.fail_reads,
        4,
        {**_ASYNC, "hotWindowBytes": str(256 << 10), "mappedFileSizeCommitLog": str(256 << 10)},
        _DISK,
        few=1,
    ),
    Fault(
        "EIO at read of mapped bytes",
        "reads of the whole log fail, and it is not cached: the process ends, names the file, and "
        "is started again",
        harm_disks.fail_mapped_reads,
        2,
        _SYNC,
        _DISK,
        few=1,
    ),
    Fault(
        "file removed under the process",
        "a file of the log or of a queue is removed while the broker runs; `mqcore store verify` "
        "names it; one of the log is put back before the next start",
        harm_disks.remove_file,
        4,
        {**_ASYNC, "mappedFileSizeCommitLog": str(256 << 10)},
        few=1,
    ),
    Fault(
        "EIO of queues, index, checkpoint, config",
        "their writes or syncs fail; the log is well",
        harm_disks.fail_tables,
        6,
        _ASYNC,
        _DISK,
        few=1,
    ),
    Fault(
        "little memory",
        "a control group with 1 to 32 MiB more than the process needs; the kernel may kill it",
        harm_machine.little_memory,
        4,
        _ASYNC,
        frozenset({Need.MEMORY}),
        few=1,
    ),
    Fault(
        "no descriptors",
        "RLIMIT_NOFILE is what is open, while clients connect and files roll over",
        harm_machine.no_descriptors,
        4,
        {**_ASYNC, "mappedFileSizeCommitLog": str(256 << 10)},
        few=1,
    ),
    Fault(
        "clock steps of a day",
        "the broker's wall clock goes ahead or back by a day, beyond the other way, and home",
        harm_machine.step_clock,
        2,
        _TIMERS,
        _CLOCK,
        beside=_WORKS,
    ),
    Fault(
        "leap second",
        "midnight, and its last second twice",
        harm_machine.leap_second,
        2,
        _TIMERS,
        _CLOCK,
        beside=_WORKS,
    ),
    Fault(
        "slewed clock",
        "the clock goes 5 % too fast, then too slow",
        harm_machine.slew_clock,
        2,
        _TIMERS,
        _CLOCK,
        beside=_WORKS,
    ),
    Fault(
        "network cut",
        "connections of clients break at once or at a byte",
        harm_network.cut,
        5,
        _ASYNC,
        _PROXY,
        beside=_JAVA,
        few=1,
    ),
    Fault(
        "half-open",
        "all bytes of clients and broker are lost, and no side is informed",
        harm_network.half_open,
        5,
        _ASYNC,
        _PROXY,
        beside=_JAVA,
        few=1,
    ),
    Fault(
        "one way",
        "requests are lost, or the answers",
        harm_network.one_way,
        5,
        _ASYNC,
        _PROXY,
        few=1,
    ),
    Fault(
        "slow network",
        "100 ms late, 200 kB/s",
        harm_network.slow_link,
        3,
        _ASYNC,
        _PROXY,
        few=1,
    ),
    Fault(
        "slow readers",
        "eight clients pull and do not read",
        harm_network.slow_readers,
        4,
        _ASYNC,
        few=1,
    ),
    Fault(
        "garbage on every port",
        "400 connections a round: random bytes, wrong lengths, TLS, HTTP, broken requests",
        harm_network.garbage,
        4,
        _ASYNC,
        few=1,
    ),
    Fault(
        "10,000 idle connections",
        "they send nothing",
        harm_network.idle_connections,
        2,
        _ASYNC,
        frozenset({Need.DESCRIPTORS}),
        few=1,
    ),
    Fault(
        "connection storm",
        "4,000 connect and go, half of them by a reset",
        harm_network.connection_storm,
        4,
        _ASYNC,
        few=1,
    ),
    Fault(
        "name server gone",
        "it is killed, and started again 1 to 4 s later",
        harm_network.name_server_gone,
        4,
        _ASYNC,
        beside=_JAVA,
        few=1,
    ),
    Fault(
        "name server empty",
        "it is killed and started at once; a producer begins meanwhile",
        harm_network.name_server_empty,
        3,
        _ASYNC,
    ),
    Fault(
        "name server lies",
        "every route leads to a port where nobody is; a producer begins meanwhile",
        harm_network.name_server_lies,
        2,
        _ASYNC,
    ),
    Fault(
        "name servers disagree",
        "a second one knows no broker, or lies; a producer begins meanwhile",
        harm_network.name_servers_disagree,
        4,
        _ASYNC,
        frozenset({Need.NAMES}),
        few=1,
    ),
    Fault(
        "roll-over of every kind of file",
        "tiny files of log, queues and their extension, index, timer log, and kill -9",
        harm_machine.roll_over,
        6,
        _TINY_FILES,
        few=1,
    ),
    Fault(
        "RocketMQ 4.9 takes over and gives back",
        "its broker is started on our directory in mid-stream, then ours",
        harm_versions.official("4.9.7"),
        2,
        _ASYNC,
        needs_java=True,
    ),
    Fault(
        "RocketMQ 5.3 takes over and gives back",
        "the same",
        harm_versions.official("5.3.3"),
        2,
        _ASYNC,
        needs_java=True,
    ),
    Fault(
        "RocketMQ 5.5 takes over and gives back",
        "the same",
        harm_versions.official(NEWEST),
        2,
        _ASYNC,
        needs_java=True,
    ),
    Fault(
        "mqcore 0.1 takes over and gives back",
        "our first version is started on the directory, then this one; stopped or killed",
        harm_versions.earlier,
        4,
        _ASYNC,
        frozenset({Need.EARLIER}),
    ),
    Fault(
        "bit rot in the log",
        "a bit of a message on the master; the record comes back from the slave",
        harm_versions.rot_log,
        4,
        who=Who.PAIR,
    ),
    Fault(
        "bit rot in queues",
        "four bits, while the broker is down",
        harm_disks.rot("consumequeue"),
        5,
        _ASYNC,
        few=1,
    ),
    Fault(
        "bit rot in the index",
        "four bits; `mqcore store repair` makes it again",
        harm_disks.rot("index", repairs=True),
        5,
        _ASYNC,
        few=1,
    ),
    Fault(
        "bit rot in the checkpoint",
        "four bits",
        harm_disks.rot("checkpoint"),
        5,
        _ASYNC,
        few=1,
    ),
    Fault(
        "bit rot in the config",
        "a bit of one of the tables",
        harm_disks.rot("config", count=1),
        6,
        _ASYNC,
        few=1,
    ),
    Fault(
        "pair",
        "kills, pauses, cut, slow and half-open links of a synchronous master and its slave",
        some_harm_to_a_pair,
        12,
        who=Who.PAIR,
    ),
    Fault(
        "failover",
        "the same to three brokers under a controller",
        some_harm_to_three,
        10,
        who=Who.THREE,
    ),
    Fault(
        "failover, three controllers",
        "the same, and to controllers",
        some_harm_to_three,
        10,
        who=Who.THREE_OF_THREE,
    ),
)
