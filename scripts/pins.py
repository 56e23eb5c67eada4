"""Renews requirements/*.txt: every package with its version and the hashes of all its files.

    python scripts/pins.py                  # what requirements/*.in ask for now; the rest stays
    python scripts/pins.py --upgrade        # the newest of everything that is not pinned there

`*.in` has what we chose, `*.txt` what it leads to on every platform. Asks the package index: `make
pins` is for people, no build runs it.
"""

import subprocess
import sys
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "requirements"
# The oldest Python that the project is for.
_PYTHON = "3.11"
# The others are installed beside it: what is in it decides for them too.
_FIRST = "dev"
_HEAD = "# Made by `make pins` from {name}.in: change that file, not this one.\n"


def main() -> None:
    """Writes every file anew."""
    names = sorted(path.stem for path in _FOLDER.glob("*.in"))
    names.remove(_FIRST)
    for name in [_FIRST, *names]:
        target = _FOLDER / f"{name}.txt"
        command = [
            *(sys.executable, "-m", "uv", "pip", "compile", "--quiet"),
            *("--universal", "--generate-hashes", "--no-header", "--python-version", _PYTHON),
            *([] if name == _FIRST else ["--constraint", f"{_FIRST}.txt"]),
            *(f"{name}.in", "--output-file", target.name, *sys.argv[1:]),
        ]
        subprocess.run(command, cwd=_FOLDER, check=True)
        text = target.read_text(encoding="utf-8")
        target.write_text(_HEAD.format(name=name) + text, encoding="utf-8")


if __name__ == "__main__":
    main()
