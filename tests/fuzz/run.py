"""Bad bytes into every port of running programs, for as long as somebody wants.

    cd tests && python -m fuzz.run --minutes 60 --out ../target/mqcore-fuzz

Prints what was tried; exits with 1 where a promise was broken. `make fuzz` runs it.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from fuzz.storm import Plan, running, storm


def main() -> int:
    """Storms, prints, writes; 1 where a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True, help="where the result is written")
    line = parser.parse_args()
    line.out.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="fuzz-", dir=line.out))
    with running(root) as programs:
        result = storm(programs, Plan(line.minutes * 60, line.seed), root)
    for name, report in result.reports.items():
        rate = report.get("inputs_per_second", 0.0)
        print(f"{name}: {report['inputs']:,} inputs, {rate:,.0f} a second")
    print(f"{result.inputs:,} inputs in all, --seed {line.seed}")
    document = {"seed": line.seed, "inputs": result.inputs, "ports": result.reports}
    document["faults"] = result.faults
    (line.out / "result.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for each in result.faults:
        print(f"FAULT {each}")
    if result.faults:
        print(f"logs are kept in {root}")
        return 1
    shutil.rmtree(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
