"""`mqcore admin` prints of official servers what the official mqadmin prints of them.

The same commands run at two clusters of RocketMQ, by either tool, and the output is compared but
for figures. Names and arguments are compared with the help of the newest mqadmin.
"""

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner

from interop.driver import Driver
from interop.mqadmin import COMMANDS, TOPIC, SampleCluster, keys, shape
from interop.official import Official
from interop.servers import official_software, serving
from mqcore.cli.main import commands
from mqcore.cli.mqadmin.table import rows
from mqcore.model.relaxed_json import compact, parse_object

pytestmark = pytest.mark.java

TABLES = {
    "brokerStatus": ":",
    "getBrokerConfig": "=",
    "getBrokerConfig -c": "=",
    "getNamesrvConfig": "=",
}
# Where mqadmin ends with 0 and a trace, or without a word: ours ends with one line and 2.
REFUSED = {
    "topicRoute of none",
    "consumerConnection of none",
    "updateOrderConf of none",
    "getBrokerEpoch",
    "setCommitLogReadAheadMode of none",
}
# What mqadmin of 5.3 prints of a group that it makes up, and figures of the moment.
APART = {*TABLES, *REFUSED, "brokerStatus -c", "topicList -c"}
# Printed as JSON: ours quotes keys that are numbers, and keeps the order of the server.
AS_JSON = {"topicRoute", "topicRoute made", "getColdDataFlowCtrInfo", "getColdDataFlowCtrInfo -c"}
# The file that a message's body is put into, each tool in a folder of its own; traces of Java.
_DIFFERENT = re.compile(
    r"Message Body Path:.*|^(org\.|java\.|Caused by: |\tat ).*",
    re.MULTILINE,
)
# What becomes of a message in the group that a broker of 5.3 makes up, in our words.
_MADE_UP = re.compile(rf"^MessageTrack \[consumerGroup={TOPIC},.*\n", re.MULTILINE)
_RATE = re.compile(r"TPS: [\d.E-]+")
_NUMBER = re.compile(r"\d+")
# The name has the path of the log.
_OF_A_PATH = "commitLogDiskRatio_"


@dataclass(slots=True)
class OurTool:
    """Runs `mqcore admin` in this process, one that never ends in another."""

    folder: Path
    failed: dict[str, str] = field(default_factory=dict)

    def mqadmin(self, *line: str, until: str | None = None) -> str:
        """Runs one command; returns what it printed."""
        if until is not None:
            return self._until(line, until)
        # One of them writes files where it runs.
        with contextlib.chdir(self.folder):
            result = CliRunner().invoke(commands, ["admin", *line])
        if result.exit_code != 0:
            self.failed[" ".join(line)] = f"{result.output}{result.exception}"
        return result.output

    def _until(self, line: tuple[str, ...], until: str) -> str:
        command = [sys.executable, "-u", "-m", "mqcore.cli.main", "admin", *line]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            printed = ""
            for each in process.stdout:
                printed += each
                if until in each:
                    break
            process.send_signal(signal.SIGINT)
            assert process.wait() == 0
        return printed


@dataclass(frozen=True, slots=True)
class Printed:
    """What each command printed by either tool, by label; and what ours refused, by line."""

    ours: dict[str, str]
    official: dict[str, str]
    failed: dict[str, str]


@pytest.fixture(scope="module")
def printed(
    driver_53: Driver, official_53: Official, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Printed]:
    root = tmp_path_factory.mktemp("mqcore_admin")
    software, tool = official_software(official_53.version), OurTool(root)
    with (
        serving(software, root / "ours") as by_ours,
        serving(software, root / "official") as by_theirs,
        closing(SampleCluster(driver_53, by_ours, 3, exports=root / "files", tool=tool)) as sample,
        closing(SampleCluster(driver_53, by_theirs, 4, exports=root / "files")) as official_sample,
    ):
        yield Printed(sample.outputs(), official_sample.outputs(), tool.failed)


@pytest.mark.parametrize("label", [each.label for each in COMMANDS if each.label not in APART])
def test_a_command_prints_what_mqadmin_prints(printed: Printed, label: str) -> None:
    texts = (printed.ours[label], printed.official[label])
    if label in AS_JSON:
        ours, official = (_values(text) for text in texts)
        assert ours == official
        return
    texts = (_MADE_UP.sub("", texts[0]), texts[1])
    shapes = [shape(_RATE.sub("TPS: 0", _DIFFERENT.sub("", text))) for text in texts]
    assert shapes[0] == shapes[1]


def _values(text: str) -> object:
    """Returns what a text has as JSON, with numbers and addresses masked."""
    found = parse_object(text[text.index("{") :])
    return parse_object(_NUMBER.sub("0", compact(found).decode()))


@pytest.mark.parametrize("label", TABLES)
def test_a_table_has_the_same_names(printed: Printed, label: str) -> None:
    ours, official = (
        {name for name in keys(table[label], TABLES[label]) if not name.startswith(_OF_A_PATH)}
        for table in (printed.ours, printed.official)
    )
    assert len(ours) > 20
    assert ours == official


@pytest.mark.parametrize("label", sorted(REFUSED))
def test_what_mqadmin_fails_at_is_refused(printed: Printed, label: str) -> None:
    line = next(each.line for each in COMMANDS if each.label == label)
    words = [word for word in line.split() if "{" not in word]
    assert any(all(word in failed for word in words) for failed in printed.failed)


def test_names_and_arguments_are_those_of_the_newest_mqadmin(driver_55: Driver) -> None:
    listed = re.findall(r"^   (\w+) +\S", driver_55.mqadmin(), re.MULTILINE)
    assert [name for name, row in rows().items() if row.is_current] == listed
    assert {name: found for name in listed if (found := differing(driver_55, name))} == {}


def test_names_and_arguments_of_old_commands_are_those_of_mqadmin_4_9(
    driver_49: Driver, driver_55: Driver
) -> None:
    listed, newest = (
        re.findall(r"^   (\w+) +\S", driver.mqadmin(), re.MULTILINE)
        for driver in (driver_49, driver_55)
    )
    old = [name for name, row in rows().items() if not row.is_current]
    assert set(old) == set(listed) - set(newest)
    assert {name: found for name in old if (found := differing(driver_49, name))} == {}


def differing(driver: Driver, name: str) -> tuple[list[str], list[str]] | None:
    """Returns the options that ours alone has, and those that the official command alone has."""
    printed = driver.mqadmin("help", name)
    official = set(re.findall(r"^ *-(\w+),--", printed, re.MULTILINE)) - {"h", "n"}
    ours = {each.short for each in rows()[name].arguments if each.short}
    return (sorted(ours - official), sorted(official - ours)) if ours != official else None
