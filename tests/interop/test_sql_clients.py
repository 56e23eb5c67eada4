"""SQL92 filters of unmodified official clients on our broker.

`--official=VERSION` runs the same cases against the official servers: what is expected here is what
those give.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.cases import Case, bodies, name_of
from interop.driver import Driver
from interop.install import OfficialError
from interop.patience import eventually
from interop.servers import Servers, Software, official_software, serving
from mqcore.broker.bloom import BloomFilter
from mqcore.broker.filters import FilterTable
from mqcore.model.relaxed_json import parse_object
from mqcore.native import sql_fault

pytestmark = pytest.mark.java

COUNT = 40
# What each expression gives of messages with number = 0 to 39, tags A and B in turn, keys k-NUMBER.
SELECTED = {
    "number > 30": range(31, COUNT),
    "number >= 5 AND number < 8": range(5, 8),
    "number BETWEEN 3 AND 5 OR number = 20": [3, 4, 5, 20],
    "number NOT BETWEEN 1 AND 38": [0, 39],
    "TAGS = 'A' AND number <= 6": [0, 2, 4, 6],
    "TAGS <> 'A' AND NOT (number > 4)": [1, 3],
    "KEYS IN ('k-7', 'k-8', 'k-99')": [7, 8],
    "KEYS NOT IN ('k-7') AND number BETWEEN 6 AND 8": [6, 8],
    "missing IS NULL AND number = 1": [1],
    "missing IS NOT NULL OR number = 2": [2],
    "missing > 1 OR number = 3": [3],
    "missing <> 1": [],
    "TAGS > 1 OR number = 4": [],
    "number = 4 OR TAGS > 1": [4],
    "number = '5'": [5],
    "number = 6.0": [6],
    "number > 36.5": [37, 38, 39],
    "TRUE": range(COUNT),
    "FALSE OR NULL": [],
    "number": [],
    "NOT number": range(COUNT),
    "number = 9 whatever follows": [9],
    "number /* c */ = 10": [10],
}
# Words that came with 5.x.
SELECTED_5 = {
    "KEYS CONTAINS '-1' AND number < 15": [1, 10, 11, 12, 13, 14],
    "KEYS STARTSWITH 'k-3' AND number > 36": [37, 38, 39],
    "KEYS ENDSWITH '9'": [9, 19, 29, 39],
    "KEYS NOT CONTAINS '-' OR number = 1": [1],
    "missing NOT CONTAINS 'x'": [],
}
WRONG = ["number >", "number > 'x'", "(number = 1", "number = 0.0", "number IN ()", "5"]


@pytest.fixture
def case(driver: Driver, servers: Servers, request: pytest.FixtureRequest) -> Iterator[Case]:
    case = Case(driver, servers, name_of(request, request.node.originalname, driver.version))
    change = ["-b", servers.broker.address, "-k", "enablePropertyFilter", "-v", "true"]
    printed = driver.mqadmin("updateBrokerConfig", "-n", case.namesrv, *change)
    assert "success" in printed
    yield case
    case.close()


def test_expressions_select_what_they_select_officially(
    case: Case, sample_software: Software
) -> None:
    case.create(1)
    case.send(case.producer(), count=COUNT, tags="A,B", keys="k")
    case.pulled(COUNT)
    wanted = SELECTED if sample_software.name == "official 4.9.7" else SELECTED | SELECTED_5
    asked = {"group": case.group, "namesrv": case.namesrv, "topic": case.topic}
    found = case.driver.call("select", "selecting", sqls="\x1f".join(wanted), **asked)
    selected = {item["sql"]: [int(number) for number in item["numbers"]] for item in found}
    assert selected == {sql: list(numbers) for sql, numbers in wanted.items()}


def test_push_and_lite_consumers_get_what_matches(case: Case) -> None:
    case.create()
    producer = case.producer()
    push = case.push(sql="TAGS = 'A' AND number BETWEEN 10 AND 19")
    lite = case.lite(group=f"{case.group}_lite", sql="number > 35")
    sent = case.send(producer, count=COUNT, tags="A,B")
    held = case.driver.got(push, 5)
    assert bodies(held) == bodies(sent[10:20:2])
    assert bodies(case.driver.got(lite, 4)) == bodies(sent[36:])
    # Those that wait at the end of their queues are woken by what matches.
    more = case.send(producer, body="later", count=COUNT, tags="A,B")
    assert bodies(case.driver.got(push, 10)) == bodies(sent[10:20:2] + more[10:20:2])


def test_what_is_retried_comes_again_whatever_it_matches(case: Case) -> None:
    case.create()
    push = case.push(sql="number > 37", fail=1)
    sent = case.send(case.producer(), count=COUNT)
    got = eventually(lambda: case.driver.got(push, 2), lambda items: len(items) >= 4)
    assert bodies(got) == bodies(sent[38:] * 2)


def test_a_wrong_expression_is_refused_at_the_start(case: Case) -> None:
    case.create()
    case.until_routed()
    for sql in WRONG:
        with pytest.raises(OfficialError, match="CODE: 23"):
            case.push(sql=sql)


def test_what_an_official_broker_has_registered_is_read(driver_53: Driver, tmp_path: Path) -> None:
    config = {"enablePropertyFilter": "true"}
    with serving(official_software("5.3.3"), tmp_path, config) as servers:
        case = Case(driver_53, servers, "registered")
        case.create()
        consumer = case.push(sql="number > 5")
        case.send(case.producer(), count=8)
        case.driver.got(consumer, 2)
        case.close()
        servers.broker.stop()
    text = (servers.store / "config" / "consumerFilter.json").read_bytes()
    filters = FilterTable(BloomFilter.of(20, 32), sql_fault, keep_ms=86_400_000)
    filters.load(text, now_ms=0)
    found = filters.find(case.topic, case.group)
    assert found is not None
    assert (found.expression, found.kind, found.is_dead) == ("number > 5", "SQL92", True)
    assert parse_object(filters.text()()) == parse_object(text)
