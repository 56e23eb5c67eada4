"""A process that appends until it is killed, and records what was acknowledged.

`python writer.py STORE ACKS SEED KEY=VALUE...`: after each acknowledged append the message's line
is written to ACKS, in one call, so that a kill leaves at most the last line cut. The messages are
those of `workload.draft` for the seed.
"""

import json
import os
import random
import sys
from pathlib import Path

from mqcore import Store

# Run as a script: the folder above holds this package.
sys.path.insert(0, str(Path(__file__).parents[1]))
from interop.workload import draft

# Far more than fits the time given; a writer that is never killed ends.
COUNT_MAX = 200_000


def main(root: str, acks: str, seed: str, *settings: str) -> None:
    """Appends and records."""
    config = dict(setting.split("=", 1) for setting in settings)
    rng = random.Random(int(seed))
    with Store(root, config=config) as store:
        out = os.open(acks, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        for number in range(COUNT_MAX):
            line = draft(rng, number).put(store)
            os.write(out, f"{json.dumps(line)}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
