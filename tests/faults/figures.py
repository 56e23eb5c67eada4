"""What came of a fault, as figures: counted from a history, kept as JSON, shown as a table.

    cd tests && python -m faults.figures          # prints the table of target/faults.json
    cd tests && python -m faults.figures --page   # writes it into docs/reliability.md

Knows histories and files; not how a fault is made.
"""

import fcntl
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

from faults.history import History, Kind, Outcome, Send
from faults.list import FAULTS

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "target" / "faults.json"
PAGE = ROOT / "docs" / "reliability.md"
BEGIN = "<!-- The table of faults: written by python -m faults.figures --page. -->"
END = "<!-- The end of the table of faults. -->"
_HEAD = (
    "fault",
    "rounds",
    "acknowledged",
    "lost",
    "doubled",
    "out of order",
    "longest stall, s",
    "recovered after, s",
)


@dataclass(slots=True)
class Figures:
    """What came of all rounds of a fault.

    Attributes:
        name: The fault.
        what: What was done, in words.
        rounds: How often.
        acknowledged: Messages whose senders were promised that they stay.
        lost: How many of those, and of those that a consumer was given, are not there.
        doubled: Messages that are there more often than they were sent.
        out_of_order: Messages in front of one that was acknowledged before they were sent.
        others: Other broken rules, by their kinds.
        stall_s: The longest time without an acknowledgement.
        recovered_s: The longest time from the end of the harm to the first acknowledgement.
        lacks: What this machine has not, where the fault was not made.
        note: What else was seen.
        again: What runs it again.
    """

    name: str
    what: str
    rounds: int = 0
    acknowledged: int = 0
    lost: int = 0
    doubled: int = 0
    out_of_order: int = 0
    others: dict[str, int] = field(default_factory=dict)
    stall_s: float = 0.0
    recovered_s: float = 0.0
    lacks: str = ""
    note: str = ""
    again: str = ""

    @property
    def is_green(self) -> bool:
        """Whether no promise was broken."""
        return not (self.lost or self.doubled or self.out_of_order or self.others)

    def count(self, history: History) -> None:
        """Counts what a history has broken."""
        sends = history.sends
        self.acknowledged += sum(send.outcome is Outcome.ACKNOWLEDGED for send in sends)
        kinds = Counter(violation.kind for violation in history.violations())
        self.lost += kinds.pop(Kind.LOST, 0) + kinds.pop(Kind.READ_LOST, 0)
        self.doubled += kinds.pop(Kind.TWICE, 0)
        self.out_of_order += kinds.pop(Kind.ORDER, 0)
        for kind, number in kinds.items():
            self.others[kind.value] = self.others.get(kind.value, 0) + number

    def time(self, sends: Sequence[Send], healed: float) -> None:
        """Measures the stalls of a round.

        Args:
            sends: What one source has sent.
            healed: When the harm had ended, in the unit of the sends.
        """
        ended = sorted(send.ended for send in sends if send.outcome is Outcome.ACKNOWLEDGED)
        gaps = (later - earlier for earlier, later in pairwise(ended))
        self.stall_s = max([self.stall_s, *gaps])
        after = [at - healed for at in ended if at >= healed]
        self.recovered_s = max([self.recovered_s, *after[:1]])


def keep(figures: Figures, path: Path = KEPT) -> None:
    """Writes the figures of a fault down, over those of an earlier run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        # Faults may be made side by side.
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = {each.name: each for each in kept_figures(path)}
        kept[figures.name] = figures
        rows = [asdict(each) for each in kept.values()]
        path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def kept_figures(path: Path = KEPT) -> list[Figures]:
    """Returns what was written down last; nothing where nothing was."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [Figures(**row) for row in json.loads(text)]


def table(rows: Sequence[Figures]) -> str:
    """Returns the table as Markdown."""
    lines = [f"| {' | '.join(_HEAD)} |", "|" + "---|" * len(_HEAD)]
    for row in rows:
        first = f"**{row.name}**: {row.what}"
        if row.lacks:
            cells = [f"not run here: needs {row.lacks}; elsewhere `{row.again}`"] + [""] * 6
        else:
            broken = "".join(f"; {kind}: {count}" for kind, count in row.others.items())
            note = f" ({row.note})" if row.note else ""
            cells = [
                f"{row.rounds}",
                f"{row.acknowledged:,}{note}",
                f"{row.lost}",
                f"{row.doubled}",
                f"{row.out_of_order}{broken}",
                f"{row.stall_s:.1f}",
                f"{row.recovered_s:.1f}",
            ]
        lines.append(f"| {' | '.join([first, *cells])} |")
    done = [row for row in rows if not row.lacks]
    lines.append(
        f"\nAll together: {len(done)} faults, {sum(row.rounds for row in done)} rounds, "
        f"{sum(row.acknowledged for row in done):,} acknowledged messages, "
        f"{sum(row.lost for row in done)} of them lost."
    )
    return "\n".join(lines)


def with_table(page: str, rows: Sequence[Figures]) -> str:
    """Returns a page with the table between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, behind = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(rows)}\n\n{END}{behind}"


def main() -> None:
    """Prints the table, or writes it into the page."""
    kept = {each.name: each for each in kept_figures()}
    rows = [kept[each.name] for each in FAULTS if each.name in kept]
    if "--page" in sys.argv[1:]:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(with_table(page, rows), encoding="utf-8")
    else:
        print(table(rows))


if __name__ == "__main__":
    main()
