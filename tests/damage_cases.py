"""Kinds of damage to a store directory, and what broker, `verify` and the mending commands answer.

Data and the functions that do the damage. `python tests/damage_cases.py` prints the table of
`docs/reliability.md`. Knows names and formats of files, not how the engine reads them.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

# What the undamaged store holds: queues by topic, messages by queue.
TOPICS: Final = {"orders": 2, "events": 1}
PER_QUEUE: Final = {"orders": 400, "events": 1_500}
BODY_BYTES: Final = 1_000
SEGMENT_BYTES: Final = 1 << 20
UNIT_BYTES: Final = 20

Stop = Literal["clean", "killed"]
STOPS: Final[tuple[Stop, Stop]] = ("clean", "killed")

# Outcomes, as the table spells them.
WHOLE = "all there"
REBUILT = "all there, reported"
REFUSED = "refused"
CUT = "cut, reported"
LOST = "lost, reported"
Outcome = str


@dataclass(frozen=True, slots=True)
class Answer:
    """What is expected after one kind of stop.

    Attributes:
        start: Of the broker's start, with all messages read.
        verify: Whether `mqcore store verify` finds a defect before it.
        mend: What the mending command makes of it; empty where the start needs none.
    """

    start: Outcome
    verify: bool
    mend: Outcome = ""


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of damage.

    Attributes:
        name: What is damaged, in words.
        damage: Does it, to a directory.
        answers: What is expected, by how the broker had ended.
        command: The words of `mqcore store` that mend it.
        note: Why, where the answer is not plain.
    """

    name: str
    damage: Callable[[Path], None]
    answers: dict[Stop, Answer]
    command: tuple[str, ...] = ()
    note: str = field(default="")


def log_files(root: Path) -> list[Path]:
    """Returns the files of the log, oldest first."""
    return sorted((root / "commitlog").iterdir())


def used_log_files(root: Path) -> list[Path]:
    """Returns those that hold records: the one made ahead of need begins with zeros."""
    return [path for path in log_files(root) if path.read_bytes()[:4] != bytes(4)]


def record_at(path: Path, number: int) -> int:
    """Returns where a record of a file of the log begins, counted from 0."""
    content, position = path.read_bytes(), 0
    for _ in range(number):
        position += int.from_bytes(content[position : position + 4], "big")
    return position


def log_end(path: Path) -> int:
    """Returns where the last record of a file of the log ends."""
    content, position = path.read_bytes(), 0
    while len_bytes := int.from_bytes(content[position : position + 4], "big"):
        position += len_bytes
    return position


def overwrite(path: Path, position: int, content: bytes) -> None:
    """Writes bytes into a file, in place."""
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


def flip(path: Path, position: int) -> None:
    """Flips one bit."""
    with path.open("r+b") as file:
        file.seek(position)
        [byte] = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 4]))


def queue_files(root: Path, topic: str = "events", queue_id: int = 0) -> list[Path]:
    """Returns the files of a queue, oldest first."""
    return sorted((root / "consumequeue" / topic / str(queue_id)).iterdir())


# Fields of a record: length 0, magic 4, CRC 8, queue id 12, flag 16, queue offset 20, physical
# offset 28; the body begins at 88.
_BODY_AT = 88
_QUEUE_OFFSET_AT = 20


def _flip_in_record(number: int, position: int) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        path = log_files(root)[0]
        flip(path, record_at(path, number) + position)

    return damage


def _write_in_log(content: bytes) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        path = log_files(root)[0]
        start = record_at(path, 100)
        overwrite(path, start - start % 4_096 + 4_096, content)

    return damage


def _tear_last(root: Path) -> None:
    path = used_log_files(root)[-1]
    end = log_end(path)
    overwrite(path, end - 600, bytes(600))


def _truncate(path: Path, len_bytes: int) -> None:
    with path.open("r+b") as file:
        file.truncate(len_bytes)


def _remove(*names: str) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        for name in names:
            path = root / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    return damage


def _write(name: str, content: bytes) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        (root / name).write_bytes(content)

    return damage


def _index_file(root: Path) -> Path:
    return min((root / "index").iterdir())


def _both(clean: Answer, killed: Answer | None = None) -> dict[Stop, Answer]:
    return {"clean": clean, "killed": killed or clean}


_KEEP = ("recover", "--keep")
_CUT = ("recover", "--cut")
_ONE_LOST = "all but the damaged, reported"

CASES: Final[tuple[Case, ...]] = (
    Case(
        "one bit in a body",
        _flip_in_record(50, _BODY_AT + 500),
        _both(Answer(REFUSED, verify=True, mend=_ONE_LOST)),
        _KEEP,
        "in files that the start does not walk the scrub and cold reads find and report it",
    ),
    Case(
        "one bit in a record's length",
        _flip_in_record(50, 2),
        _both(Answer(REFUSED, verify=True, mend=_ONE_LOST)),
        _KEEP,
    ),
    Case(
        "one bit in a record's queue offset",
        _flip_in_record(50, _QUEUE_OFFSET_AT + 7),
        _both(Answer(LOST, verify=True)),
    ),
    Case(
        "a sector of zeros in the log",
        _write_in_log(bytes(512)),
        _both(Answer(REFUSED, verify=True, mend=_ONE_LOST)),
        _KEEP,
    ),
    Case(
        "a page of zeros in the log",
        _write_in_log(bytes(4_096)),
        _both(Answer(REFUSED, verify=True, mend=_ONE_LOST)),
        _KEEP,
    ),
    Case(
        "a page of other bytes in the log",
        _write_in_log(b"\xa5" * 4_096),
        _both(Answer(REFUSED, verify=True, mend=_ONE_LOST)),
        _KEEP,
    ),
    Case(
        "the last record torn",
        _tear_last,
        _both(Answer(REFUSED, verify=True, mend=CUT), Answer(CUT, verify=True)),
        _CUT,
    ),
    Case(
        "the newest file of the log removed",
        lambda root: used_log_files(root)[-1].unlink(),
        _both(Answer(REFUSED, verify=True, mend=CUT)),
        _CUT,
    ),
    Case(
        "a file in the middle of the log removed",
        lambda root: used_log_files(root)[1].unlink(),
        _both(Answer(REFUSED, verify=True)),
    ),
    Case(
        "the oldest file of the log removed",
        lambda root: log_files(root)[0].unlink(),
        _both(Answer(LOST, verify=False)),
        note="what retention does",
    ),
    Case(
        "a file of the log shortened",
        lambda root: _truncate(used_log_files(root)[1], SEGMENT_BYTES // 2),
        _both(Answer(REFUSED, verify=True)),
    ),
    Case(
        "the directory of a queue removed",
        _remove("consumequeue/events/0"),
        _both(Answer(REBUILT, verify=True), Answer(WHOLE, verify=False)),
        ("repair",),
    ),
    Case(
        "the directory of a topic removed",
        _remove("consumequeue/orders"),
        _both(Answer(REBUILT, verify=True), Answer(WHOLE, verify=False)),
        ("repair",),
    ),
    Case(
        "all queues removed",
        _remove("consumequeue"),
        _both(Answer(REBUILT, verify=True), Answer(WHOLE, verify=False)),
        ("repair",),
    ),
    Case(
        "50 units zeroed in the middle of a queue",
        lambda root: overwrite(queue_files(root)[0], UNIT_BYTES * 500, bytes(UNIT_BYTES * 50)),
        _both(Answer(REBUILT, verify=True), Answer(WHOLE, verify=True)),
        ("repair",),
    ),
    Case(
        "the last 50 units of a queue zeroed",
        lambda root: overwrite(queue_files(root)[-1], UNIT_BYTES * 450, bytes(UNIT_BYTES * 50)),
        _both(Answer(REBUILT, verify=True), Answer(WHOLE, verify=False)),
        ("repair",),
    ),
    Case(
        "the newest file of a queue removed",
        lambda root: queue_files(root)[-1].unlink(),
        _both(Answer(REBUILT, verify=True), Answer(WHOLE, verify=False)),
        ("repair",),
    ),
    Case(
        "the oldest file of a queue removed",
        lambda root: queue_files(root)[0].unlink(),
        _both(Answer(REBUILT, verify=True), Answer(REBUILT, verify=False)),
        ("repair",),
    ),
    Case(
        "a file of a queue shortened",
        lambda root: _truncate(queue_files(root)[0], UNIT_BYTES * 300),
        _both(Answer(REBUILT, verify=True), Answer(REFUSED, verify=False)),
        ("repair",),
    ),
    Case(
        "one bit in a unit of a queue",
        lambda root: flip(queue_files(root)[0], UNIT_BYTES * 500 + 6),
        _both(Answer(REBUILT, verify=True), Answer(WHOLE, verify=True)),
        ("repair",),
    ),
    Case(
        "a file of the index removed",
        lambda root: _index_file(root).unlink(),
        _both(Answer(WHOLE, verify=False)),
        ("repair",),
        "queries by key miss what it held until `repair`; messages are read by their queues",
    ),
    Case(
        "other bytes in the index",
        lambda root: overwrite(_index_file(root), 40 + 4 * 1_000 + 20 * 5, b"\xa5" * 400),
        _both(Answer(WHOLE, verify=True)),
        ("repair",),
    ),
    Case("checkpoint removed", _remove("checkpoint"), _both(Answer(WHOLE, verify=False))),
    Case(
        "checkpoint of zeros",
        _write("checkpoint", bytes(4_096)),
        _both(Answer(WHOLE, verify=False)),
    ),
    Case(
        "the manifest of the queues removed",
        _remove("queues.manifest"),
        _both(Answer(WHOLE, verify=False)),
    ),
    Case(
        "the marker of an unclean end removed",
        _remove("abort"),
        _both(Answer(WHOLE, verify=False)),
    ),
    Case(
        "topics.json and its backup removed",
        _remove("config/topics.json", "config/topics.json.bak"),
        _both(Answer(REBUILT, verify=False)),
        ("repair", "--topics"),
        "the broker names the topics; `repair` makes them again from their queues",
    ),
    Case(
        "topics.json empty",
        _write("config/topics.json", b""),
        _both(Answer(WHOLE, verify=False)),
        note="the generation before is read",
    ),
)


def table() -> str:
    """Returns the table of the page: one row per kind of damage."""
    rows = [
        "| damage | clean stop: start | killed: start | `verify` finds it | mended by |",
        "|---|---|---|---|---|",
    ]
    for case in CASES:
        clean, killed = case.answers["clean"], case.answers["killed"]
        found = {answer.verify for answer in (clean, killed)}
        verify = "yes" if found == {True} else "no" if found == {False} else "in part"
        mend = f"`mqcore store {' '.join(case.command)}`" if case.command else ""
        outcomes = {answer.mend for answer in (clean, killed) if answer.mend}
        if outcomes:
            mend += f": {' or '.join(sorted(outcomes))}"
        note = f" ({case.note})" if case.note else ""
        rows.append(f"| {case.name}{note} | {clean.start} | {killed.start} | {verify} | {mend} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
