"""What tools print about static topics: mqadmin and ours, over our brokers and official ones.

Every step runs four times: either tool on a topic of its own, in a cluster of ours and in one of
RocketMQ 5.5. What is printed is compared line by line, but for addresses, times and names of files.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner

from interop.driver import Driver
from interop.official import NEWEST
from interop.patience import eventually
from interop.servers import CLUSTER, OURS, official_software
from interop.static_cluster import FIRST, SECOND, TwoBrokers, two_brokers
from mqcore.cli.main import commands
from mqcore.errors import MQError
from mqcore.model.relaxed_json import parse_object

pytestmark = [pytest.mark.java, pytest.mark.matrix, pytest.mark.slow]

# Of mqadmin and of ours, of one length: columns are as wide as names.
TOPICS = ("StaticByTheirs", "StaticByOurs00")
# Sent between two steps, round the queues.
BATCH = 12
_MASKS = (
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"), "TIME"),
    (re.compile(r"/\S*/(\w+)-\d+\.(before|after)"), r"FILE of \1 \2"),
    (re.compile(r'("?epoch"?:) ?\d+'), r"\1EPOCH"),
    (re.compile("|".join(TOPICS)), "TOPIC"),
    # mqadmin has the same word for both files of a move.
    (re.compile(r"The (old|new) mapping data"), "The mapping data"),
)
# Where a Java program was, what it logs, and the advice under an error.
_NOISE = re.compile(r"^(\s+at |\t\.\.\. |[\d:,]+ \|-|See |For more |Caused by: ).*$", re.MULTILINE)
# Rates, and what was stored in a day: of the moment.
_RATES = re.compile(r"(?<=TPS: )[\d.]+")
_FIGURES = re.compile(r"\b\d+(\.\d+)?\b")

Tool = Callable[..., str]


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and which queues each broker leads afterwards.

    Attributes:
        line: Command and arguments; `{t}` is the topic.
        leads: By broker; None where it changes nothing.
        is_refused: Whether it is refused: mqadmin prints a trace, ours one line.
    """

    line: str
    leads: Mapping[str, set[int]] | None = None
    is_refused: bool = False


_FOUR = {0, 1, 2, 3}
GROUP = "CG_{t}"
CONSUMED = "statsAll --topic {t}"
SHOWN = ("topicRoute -t {t}", "topicStatus -t {t}", "statsAll -t {t}")
STEPS = (
    Step(f"updateStaticTopic -t {{t}} -qn 4 -b {FIRST}", {FIRST: _FOUR}),
    Step(f"updateStaticTopic -t {{t}} -qn 2 -b {FIRST}", is_refused=True),
    Step(f"remappingStaticTopic -t {{t}} -b {SECOND}", {FIRST: set(), SECOND: _FOUR}),
    Step("remappingStaticTopic -t {t} -b broker-nowhere", is_refused=True),
    Step(f"updateStaticTopic -t {{t}} -qn 6 -c {CLUSTER}", {FIRST: {4, 5}, SECOND: _FOUR}),
    Step(f"remappingStaticTopic -t {{t}} -c {CLUSTER}", {FIRST: {3, 4, 5}, SECOND: {0, 1, 2}}),
)


def our_tool(*words: str) -> str:
    """Runs `mqcore admin`."""
    result = CliRunner().invoke(commands, ["admin", *words])
    if isinstance(result.exception, MQError):
        return f"refused: {result.exception.message}"
    assert result.exit_code == 0, f"{words}: {result.output}{result.exception}"
    return result.output


def masked(printed: str) -> list[str]:
    text = _NOISE.sub("", printed)
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def led(route: str) -> dict[str, set[int]]:
    """Returns which queues each broker leads, by a route that was printed."""
    if "{" not in route:
        return {}
    found: dict[str, Any] = parse_object(route[route.index("{") :].encode())
    mappings = found.get("topicQueueMappingByBroker") or {}
    return {
        broker: {int(queue) for queue in mapping.get("currIdMap") or {}}
        for broker, mapping in mappings.items()
    }


@dataclass(frozen=True, slots=True)
class Cluster:
    """Two brokers with a topic per tool, and what is printed there."""

    brokers: TwoBrokers
    driver: Driver
    number: int

    def run(self, tool: Tool, line: str, topic: str) -> str:
        return tool(*line.format(t=topic).split(), "-n", self.brokers.namesrv.address)

    def printed(self, tool: Tool, topic: str) -> dict[str, Any]:
        """Does every step; returns what each command printed, by the number of the step."""
        found: dict[str, Any] = {}
        for number, step in enumerate(STEPS):
            text = self.run(tool, step.line, topic)
            name = f"{number} {step.line}"
            found[name] = "refused" if step.is_refused else masked(text)
            if step.is_refused:
                assert "Exception" in text or text.startswith("refused: "), text
            if step.leads is None:
                continue
            self._wait_until_led(topic, step.leads)
            self._send(f"{topic}-{number}", topic)
            for line in SHOWN:
                found[f"{number} {line}"] = self._shown(tool, line, topic)
        self._consume(topic)
        found[CONSUMED] = self._shown(tool, CONSUMED, topic)
        return found

    def _consume(self, topic: str) -> None:
        """Lets a group read what is sent, to the end of the queues."""
        name, namesrv = f"{topic}-c{self.number}", self.brokers.namesrv.address
        self.driver.call("push", name, group=GROUP.format(t=topic), topic=topic, namesrv=namesrv)
        self._send(f"{topic}-consumed", topic)
        self.driver.got(name, BATCH)
        # The offsets go to the brokers.
        self.driver.close(name)
        assert eventually(lambda: self._lag(topic), str.isdigit)

    def _lag(self, topic: str) -> str:
        """Returns how many messages the group has not read, as mqadmin prints it.

        Of official brokers, too, it depends on when the group began: the parts of a queue begin at
        multiples of 10,000, and places that no message ever has count as unread.
        """
        rows = [row.split() for row in self.run(self.driver.mqadmin, CONSUMED, topic).splitlines()]
        found = [row[2] for row in rows if row[:2] == [topic, GROUP.format(t=topic)]]
        return found[0] if found else ""

    def _wait_until_led(self, topic: str, leads: Mapping[str, set[int]]) -> None:
        """Returns when the route has the queues at these brokers."""

        def led_now() -> dict[str, set[int]]:
            found = led(self.run(self.driver.mqadmin, SHOWN[0], topic))
            return {broker: found.get(broker, set()) for broker in leads}

        assert eventually(led_now, lambda found: found == leads) == leads

    def _send(self, name: str, topic: str) -> None:
        """Sends round the queues, by a producer of its own: it has the newest route."""
        name = f"{name}-{self.number}"
        namesrv = self.brokers.namesrv.address
        self.driver.call("producer", name, group="PG_static_output", namesrv=namesrv)
        sent = self.driver.call("send", name, topic=topic, body="b", count=BATCH, how="selector")
        assert {item["status"] for item in sent} == {"SEND_OK"}
        self.driver.close(name)

    def _shown(self, tool: Tool, line: str, topic: str) -> Any:
        rows = masked(self.run(tool, line, topic))
        if line.startswith("statsAll"):
            return [_FIGURES.sub("#", row) for row in rows]
        if not line.startswith("topicRoute"):
            return [_RATES.sub("#", row) for row in rows]
        # Ours quotes keys that are numbers; brokers come in any order.
        route = parse_object("\n".join(rows).replace("EPOCH", "0").encode())
        for name in ("brokerDatas", "queueDatas"):
            route[name].sort(key=lambda row: row["brokerName"])
        return route


@pytest.fixture(scope="module")
def printed(
    driver_55: Driver, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """Returns what was printed, by whose tool and whose brokers."""
    found: dict[str, dict[str, Any]] = {}
    for whose, software in (("theirs", official_software(NEWEST)), ("ours", OURS)):
        with two_brokers(software, tmp_path_factory.mktemp(whose)) as brokers:
            cluster = Cluster(brokers, driver_55, len(found))
            for name, tool, topic in (
                ("mqadmin", driver_55.mqadmin, TOPICS[0]),
                ("mqcore", our_tool, TOPICS[1]),
            ):
                found[f"{name} at {whose}"] = cluster.printed(tool, topic)
    return found


@pytest.mark.parametrize("which", ["mqadmin at ours", "mqcore at theirs", "mqcore at ours"])
def test_the_same_is_printed_as_by_mqadmin_of_official_brokers(
    printed: dict[str, dict[str, Any]], which: str
) -> None:
    official, found = printed["mqadmin at theirs"], printed[which]
    shown = len(SHOWN) * sum(step.leads is not None for step in STEPS)
    assert len(official) == len(STEPS) + shown + 1
    different = [
        f"{name}\n  printed {found[name]}\n  of official ones {rows}"
        for name, rows in official.items()
        if found[name] != rows
    ]
    assert not different, "\n".join(different)
