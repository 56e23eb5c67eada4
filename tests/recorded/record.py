"""Records the golden files anew: for a wanted change of the wire, and for new conversations.

    cd tests; python -m recorded.record [NAME...]

Writes `golden/NAME.KIND.txt`, all of them without a name, and prints what changed. Look at the
difference before it is committed: every line of it is a change that clients see.
"""

import sys
import tempfile
from pathlib import Path

from recorded.conversations import CONVERSATIONS
from recorded.playing import GOLDEN, play


def _main(names: list[str]) -> int:
    unknown = set(names) - {each.name for each in CONVERSATIONS}
    if unknown:
        print(f"no such conversation: {', '.join(sorted(unknown))}")
        return 2
    with tempfile.TemporaryDirectory() as directory:
        found = play(Path(directory), names).transcripts
    is_good = True
    for name, transcript in sorted(found.items()):
        if transcript.faults:
            is_good = False
            print(f"{name}:\n{transcript.faults}")
            if not transcript.text:
                continue
        path = GOLDEN / f"{name}.txt"
        before = path.read_text(encoding="ascii") if path.exists() else None
        if before != transcript.text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(transcript.text, encoding="ascii")
            print(f"{name}: {'new' if before is None else 'changed'}")
    if not names:
        for path in GOLDEN.glob("*.txt"):
            if path.stem not in found:
                path.unlink()
                print(f"{path.stem}: removed")
    return 0 if is_good else 1


if __name__ == "__main__":
    raise SystemExit(_main(sys.argv[1:]))
