"""Looks at a machine as a broker will use it: kernel settings, limits, disk, clock.

Reads `/proc` and `/sys` below a given root and checks the numbers; changes nothing. Only
`sync_times` writes: a file without a name in the store's directory, gone when it ends.
"""

import ctypes
import os
import resource
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from mqcore.broker.damage_reports import damage_reports
from mqcore.errors import StateFileError
from mqcore.model.findings import Finding

# 64 TB of log in files of 1 GiB; every other file is read and written without a map.
MAPS_MIN = 65_530
SWAPPINESS_MAX = 10
# Below, a burst of writes makes the writer itself reclaim memory, in the middle of an append.
MIN_FREE_KB = 65_536
DIRTY_RATIO_MIN = 10
# Connections, log files, index files and up to 16,384 queue files.
OPEN_FILES_MIN = 65_536
SYNC_ROUNDS = 32
SYNC_SLOW_US = 10_000
# No device with memory that lasts answers faster; a cache that forgets does.
SYNC_DOUBTFUL_US = 20
CLOCK_ERROR_MAX_US = 100_000
KERNEL_MIN = (5, 14)
_GOOD_FILE_SYSTEMS = ("ext4", "xfs")
_MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")
_DANGEROUS_OPTIONS = ("nobarrier", "barrier=0", "data=writeback", "norecovery")
_GOOD_SCHEDULERS = ("none", "mq-deadline", "noop", "deadline")
_GOOD_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "xen")
_LOG_FILE_BYTES = 1 << 30
_PAGE_BYTES = 4096
# struct timex of 64-bit Linux: modes, offset, freq, maxerror, esterror, status.
_TIMEX_BYTES = 208
_TIMEX = struct.Struct("@ixxxxqqqqi")
_STATUS_UNSYNCHRONISED = 0x40


def kernel_findings(root: Path = Path("/")) -> Iterator[Finding]:
    """Yields what the kernel's settings are.

    Args:
        root: Where `proc` and `sys` are.
    """

    def number(name: str) -> int | None:
        text = _read(root / "proc/sys/vm" / name)
        return int(text) if text.lstrip("-").isdigit() else None

    def checked(name: str, is_bad: bool, advice: str, why: str) -> Finding:
        value = number(name)
        shown = "unknown" if value is None else str(value)
        return Finding(f"vm.{name}", shown, advice if value is not None and is_bad else "", why)

    overcommit = number("overcommit_memory")
    yield checked(
        "overcommit_memory",
        overcommit == 2,
        "sysctl vm.overcommit_memory=0 (or 1)",
        "2 counts what is asked for, not what is used: the pool and threads may be refused",
    )
    yield checked(
        "max_map_count",
        (number("max_map_count") or 0) < MAPS_MIN,
        f"sysctl vm.max_map_count={MAPS_MIN}, or more",
        "each log and index file in use is one map",
    )
    yield checked(
        "swappiness",
        (number("swappiness") or 0) > SWAPPINESS_MAX,
        f"sysctl vm.swappiness={SWAPPINESS_MAX}, or less",
        "a page of the process that was swapped out is a disk read in the middle of a request",
    )
    background, ratio = number("dirty_background_ratio"), number("dirty_ratio")
    yield checked(
        "dirty_background_ratio",
        background is not None and ratio is not None and 0 < ratio <= background,
        "sysctl vm.dirty_background_ratio below vm.dirty_ratio",
        "write-back must begin long before writers are made to wait",
    )
    yield checked(
        "dirty_ratio",
        0 < (ratio or 0) < DIRTY_RATIO_MIN,
        f"sysctl vm.dirty_ratio={DIRTY_RATIO_MIN}, or more",
        "at this percent of memory unwritten, appends wait for the disk",
    )
    yield checked(
        "min_free_kbytes",
        (number("min_free_kbytes") or 0) < MIN_FREE_KB,
        f"sysctl vm.min_free_kbytes={MIN_FREE_KB}, or more; at most a twentieth of the memory",
        "without a reserve a burst makes the writer itself look for memory",
    )
    yield checked(
        "zone_reclaim_mode",
        number("zone_reclaim_mode") not in (0, None),
        "sysctl vm.zone_reclaim_mode=0",
        "other values throw the page cache of one node away while another has free memory",
    )
    yield checked(
        "nr_hugepages",
        (number("nr_hugepages") or 0) > 0,
        "sysctl vm.nr_hugepages=0, unless another program needs them",
        "memory set apart for huge pages is lost to the page cache; the store uses none",
    )
    yield _huge_pages(root)
    yield _kernel()


def _kernel() -> Finding:
    release = os.uname().release
    return Finding(
        "kernel",
        release,
        "" if _version(release) >= KERNEL_MIN else "5.14 or newer",
        "older kernels cannot populate pages ahead of the append by one call",
    )


def _huge_pages(root: Path) -> Finding:
    text = _read(root / "sys/kernel/mm/transparent_hugepage/enabled")
    chosen = _chosen(text)
    return Finding(
        "transparent_hugepage",
        chosen,
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled" if chosen == "always" else "",
        "always makes heaps larger and looks for huge pages in the middle of a request",
    )


def limit_findings() -> Iterator[Finding]:
    """Yields the limits of this process, which a broker started here would inherit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    yield Finding(
        "memlock",
        _limit(soft),
        ""
        if soft == resource.RLIM_INFINITY or soft >= 2 * _LOG_FILE_BYTES
        else "for lockMappedFile=true: LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited",
        "lockMappedFile keeps two log files in memory; without it nothing is locked",
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield Finding(
        "nofile",
        f"{_limit(soft)} (hard {_limit(hard)})",
        "" if soft >= OPEN_FILES_MIN else "LimitNOFILE=655350 in the unit, or ulimit -n 655350",
        "each connection and each open file of the store is one; half of them may be queue files",
    )


def disk_findings(directory: Path, root: Path = Path("/")) -> Iterator[Finding]:
    """Yields what lies under a directory: file system, its options, its device.

    Args:
        directory: It exists.
        root: Where `proc` and `sys` are.
    """
    kind, options, mount_point = _mount(directory, root)
    advice = ""
    if kind in _MEMORY_FILE_SYSTEMS:
        advice = "a disk: this file system is memory, a restart of the machine loses all messages"
    elif kind not in _GOOD_FILE_SYSTEMS:
        advice = "ext4 or xfs: others are not tested"
    yield Finding(
        "file system", f"{kind} at {mount_point}", advice, "allocation and sync depend on it"
    )
    dangerous = [option for option in options if option in _DANGEROUS_OPTIONS]
    yield Finding(
        "mount options",
        ",".join(options),
        f"mount without {', '.join(dangerous)}" if dangerous else "",
        "without barriers a sync returns before the disk has the bytes",
    )
    scheduler = _scheduler(directory.stat().st_dev, root)
    yield Finding(
        "I/O scheduler",
        scheduler,
        ""
        if scheduler in (*_GOOD_SCHEDULERS, "unknown")
        else "none for NVMe and virtual disks, mq-deadline for others",
        "schedulers that share a disk fairly let a sync wait behind other writers",
    )
    space = os.statvfs(directory)
    used = 100 * (space.f_blocks - space.f_bfree) // (space.f_blocks or 1)
    free_gib = space.f_bavail * space.f_frsize / (1 << 30)
    yield Finding(
        "disk space",
        f"{used} % used, {free_gib:.1f} GiB free",
        "more space, or a shorter fileReservedTime" if used >= 75 else "",
        "at 75 % expired files go at any hour, at 85 % others too, at 90 % sends are refused",
    )


def damage_findings(store_dir: Path) -> Iterator[Finding]:
    """Yields what recoveries cut off a log or replaced in it, unless it was acknowledged."""
    why = "messages that the log held whole may be missing for consumers"
    advice = f"look at the copies, then: mqcore store damage {store_dir} --acknowledge"
    try:
        for report in damage_reports(store_dir):
            yield Finding("damage in the log", str(report), advice, why)
    except StateFileError as error:
        yield Finding("damage in the log", f"unknown: {error}", "make the report readable", why)


def sync_finding(times_us: list[float]) -> Finding:
    """Returns what times of `fdatasync` after writes of a page mean."""
    ordered = sorted(times_us)
    median, worst = ordered[len(ordered) // 2], ordered[-1]
    advice = ""
    if median > SYNC_SLOW_US:
        advice = "a disk with power-loss protection, or asynchronous flush"
    elif median < SYNC_DOUBTFUL_US:
        advice = "make sure that the disk's write cache survives power loss: it answers at once"
    return Finding(
        "fdatasync",
        f"median {median:.0f} us, worst {worst:.0f} us of {len(ordered)}",
        advice,
        "with synchronous flush every send waits for one; many wait for the same",
    )


def sync_times(directory: Path, rounds: int = SYNC_ROUNDS) -> list[float]:
    """Returns how long `fdatasync` takes in a directory, us each, after a write of a page."""
    page = bytes(range(256)) * (_PAGE_BYTES // 256)
    found = []
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, rounds * _PAGE_BYTES)
        os.fsync(file.fileno())
        for number in range(rounds):
            os.pwrite(file.fileno(), page, number * _PAGE_BYTES)
            began = time.perf_counter_ns()
            os.fdatasync(file.fileno())
            found.append((time.perf_counter_ns() - began) / 1_000)
    return found


def clock_findings(root: Path = Path("/")) -> Iterator[Finding]:
    """Yields what the clock is read from, and how far off it may be."""
    folder = root / "sys/devices/system/clocksource/clocksource0"
    source = _read(folder / "current_clocksource") or "unknown"
    yield Finding(
        "clock source",
        source,
        "" if source in (*_GOOD_CLOCKS, "unknown") else "tsc or the virtual machine's own clock",
        "every message is stamped: other sources are a system call of a microsecond",
    )
    state = _timex()
    if state is None:
        yield Finding("clock offset", "unknown", "", "times of messages order searches by time")
        return
    error_us, is_synchronised = state
    advice = "" if is_synchronised and error_us <= CLOCK_ERROR_MAX_US else "run chrony or ntpd"
    shown = (
        f"{'synchronised' if is_synchronised else 'not synchronised'}, error up to {error_us} us"
    )
    why = "delays, retention and searches by time follow the clock of this machine"
    yield Finding("clock offset", shown, advice, why)


def _timex() -> tuple[int, bool] | None:
    """Returns the kernel's bound of the clock's error, us, and whether somebody keeps the clock."""
    buffer = ctypes.create_string_buffer(_TIMEX_BYTES)
    try:
        # All zero: nothing is set, only read.
        outcome = ctypes.CDLL(None).adjtimex(buffer)
    except (AttributeError, OSError):
        return None
    if outcome < 0:
        return None
    _, _, _, error_us, _, status = _TIMEX.unpack_from(buffer)
    return error_us, not status & _STATUS_UNSYNCHRONISED


def _mount(directory: Path, root: Path) -> tuple[str, list[str], str]:
    """Returns kind, options and mount point of the file system that a directory is on."""
    wanted = os.path.realpath(directory)
    best = ("unknown", list[str](), "")
    for line in _read(root / "proc/self/mountinfo").splitlines():
        head, _, tail = line.partition(" - ")
        fields, more = head.split(), tail.split()
        mount_point = fields[4].encode().decode("unicode_escape")
        is_above = wanted == mount_point or wanted.startswith(mount_point.rstrip("/") + "/")
        # Of two at one mount point the later hides the earlier.
        if is_above and len(mount_point) >= len(best[2]):
            options = [*fields[5].split(","), *more[2].split(",")]
            best = (more[0], list(dict.fromkeys(options)), mount_point)
    return best


def _scheduler(device: int, root: Path) -> str:
    """Returns the scheduler of a device, or of the disk that it is a part of."""
    block = root / f"sys/dev/block/{os.major(device)}:{os.minor(device)}"
    for queue in (block / "queue", block.resolve().parent / "queue"):
        text = _read(queue / "scheduler")
        if text:
            return _chosen(text)
    return "unknown"


def _chosen(text: str) -> str:
    """Returns the word in brackets."""
    begin, end = text.find("["), text.find("]")
    return text[begin + 1 : end] if 0 <= begin < end else text or "unknown"


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def _version(release: str) -> tuple[int, ...]:
    numbers = release.split("-")[0].split(".")[:2]
    return tuple(int(number) for number in numbers if number.isdigit())


def _read(path: Path) -> str:
    """Returns a small file's text, empty when there is none for us."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
