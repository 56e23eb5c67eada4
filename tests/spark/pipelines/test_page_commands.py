"""The commands of the page of pipelines run unchanged, in order, and print what it shows.

Numbers differ from the page's, which are of a larger store; everything else is as shown.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mqcore import Message, Producer, Store
from mqcore.spark.pipelines.archive_directory import ArchiveDirectory
from mqcore.testing import Broker
from small_store import SMALL, filled

PAGE = Path(__file__).parents[3] / "docs" / "pipelines.md"
# What the page calls its name server, its directories, and an object store.
ADDRESS = "127.0.0.1:9876"
DATA = "/data/"
BUCKET = "s3://bucket/"
# The hour of the messages that the page replays; those of the test are of now.
HOUR = ("2026-11-22T10:00", "2026-11-22T11:00")
COMMAND_S = 240.0
# Every command of the page that runs in Spark starts a JVM: six, some half a minute each.
PAGE_S = 900
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# A command, over several lines where they end in a backslash, and what it prints.
_TURN = re.compile(r"((?:[^\n]*\\\n)*[^\n]*\n)(.*)", re.DOTALL)
_NUMBER = re.compile(r"\d[\d,.]*(?: [KMGT]?i?B\b)?")


def turns() -> Iterator[tuple[str, str]]:
    """Yields the commands of the page with what each prints."""
    for block in _BLOCK.findall(PAGE.read_text("utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, shown = _TURN.fullmatch(part).groups()  # type: ignore[union-attr]
            yield command.replace("\\\n", " "), shown


def form_of(line: str) -> str:
    """Returns a line of the page as a pattern: any number for a number, anything for dots."""
    parts = [_NUMBER.sub("\0", part) for part in line.split("...")]
    anything = [re.escape(part).replace(re.escape("\0"), _NUMBER.pattern) for part in parts]
    return ".*".join(anything)


def of_now(command: str) -> str:
    """Returns a command with the hours around now in place of the page's."""
    now = datetime.now(UTC)
    for shown, here in zip(HOUR, (now - timedelta(hours=1), now + timedelta(hours=1)), strict=True):
        command = command.replace(shown, f"{here:%Y-%m-%dT%H:%M}")
    return command


def filled_broker(broker: Broker) -> None:
    """Sends what the page reads."""
    with Producer(broker.namesrv) as producer:
        for topic in ("orders", "prices"):
            broker.create_topic(topic)
            for number in range(50):
                producer.send(Message(topic, f"{topic} {number}", keys=f"k-{number % 7}"))
        broker.create_topic("flights")
        for number in range(20):
            body = f'{{"number": {number}, "carrier": "{"UA" if number % 2 else "AA"}"}}'
            producer.send(Message("flights", body))


@pytest.mark.matrix
@pytest.mark.timeout(PAGE_S)
def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with Store(data / "store", config=SMALL) as opened:
        filled(opened, 2_000, topic="orders")
    (tmp_path / "carriers.csv").write_text("carrier,name\nAA,American\nUA,United\n", "utf-8")
    seen = list(turns())
    assert len(seen) >= 7
    with Broker(directory=tmp_path / "broker") as broker:
        filled_broker(broker)
        broker.create_topic("orders-again")
        for command, shown in seen:
            here = of_now(command).replace(ADDRESS, broker.namesrv).replace(DATA, f"{data}/")
            words = shlex.split(here.replace(BUCKET, f"{tmp_path}/bucket/"))
            assert words[0] == "mqcore"
            if words[1] == "spark":
                words += ["-c", f"spark.local.dir={tmp_path / 'local'}", "--master", "local[2]"]
            done = subprocess.run(
                [sys.executable, "-m", "mqcore.cli.main", *words[1:]],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                timeout=COMMAND_S,
                check=False,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr[-3_000:]}"
            printed = done.stdout.replace(str(data) + "/", DATA)
            for line in shown.splitlines():
                assert re.search(form_of(line), printed), f"{command}{line}\n{printed}"
    assert ArchiveDirectory(data / "archive").manifest().files()
    assert (data / "report" / "report.html").is_file()
