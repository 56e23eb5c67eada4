"""Access control of 4.x: tools and clients of 4.9, and ours, against ours and an official broker.

All have the same files; what is printed, what is refused and what the files hold afterwards is
compared.
"""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from access_control import PLAIN_ADMIN, plain_accounts
from interop.driver import Driver, driving
from interop.install import OfficialError
from interop.mqadmin import create_topic
from interop.official import Official
from interop.servers import CLUSTER, OURS, Servers, Software, official_software, prepared, started
from mqcore.cli.main import commands
from mqcore.cli.ways_out import error_line
from mqcore.errors import MQError
from mqcore.model.tools_file import tools_text

pytestmark = pytest.mark.java

KEYS = {
    "MQCORE_ACCESS_KEY": PLAIN_ADMIN.access_key,
    "MQCORE_SECRET_KEY": PLAIN_ADMIN.secret_key,
}
ON = {"aclEnable": "true"}
TOPIC = "orders"
# {b} is the broker's address, {f} a file of its.
LINES = (
    "updateAclConfig -b {b} -a made1234 -s secret12 -t orders=PUB|SUB,u=SUB -g g1=DENY -m false",
    "updateAclConfig -b {b} -a made1234 -s secret12 -i PUB -u SUB -w 10.1.2.*",
    "updateAclConfig -b {b} -a producer1 -s 12345678 -t orders=SUB|PUB",
    "updateAclConfig -b {b} -a short -s secret12",
    "updateAclConfig -b {b} -a made1234 -s secret12 -t orders",
    "updateAclConfig -b {b} -a made1234 -s secret12 -t orders=ALL",
    "clusterAclConfigVersion -b {b}",
    "updateGlobalWhiteAddr -b {b} -g 10.1.*.*,10.2.2.2 -p {f}",
    "updateGlobalWhiteAddr -b {b} -g 10.1.*.* -p /etc/other.yml",
    "clusterAclConfigVersion -b {b}",
    f"updateAclConfig -c {CLUSTER} -a made1234 -s secret12 -m true",
    f"updateGlobalWhiteAddr -c {CLUSTER} -g 10.10.103.*",
    f"clusterAclConfigVersion -c {CLUSTER}",
    "deleteAclConfig -b {b} -a made1234",
    "deleteAclConfig -b {b} -a made1234",
    f"deleteAclConfig -c {CLUSTER} -a producer1",
)
_NOISE = re.compile(r"^(\tat |\t\.\.\. |[\d:,]+ \|-).*\n", re.MULTILINE)
_REFUSAL = re.compile(r"CODE: \d+ DESC: (.*?)(?: BROKER:| For more information|$)")
FAILED = "refused: "
_MASKS = (
    # The official object has no text of its own.
    (re.compile(r"(org\.\S+)?PlainAccessConfig(@[0-9a-f]+| \[.*\])"), "CONFIG"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "TIME"),
    # Where the official text has the secret, ours has none.
    (re.compile(r"The accessKey=(\w+) and (its )?secretKey(=\w+)? cannot"), r"KEY \1 cannot"),
)


def file_of(servers: Servers) -> Path:
    return servers.broker.home / "conf" / "plain_acl.yml"


def serving_files(software: Software, root: Path) -> AbstractContextManager[Servers]:
    """Runs servers whose broker has the accounts."""
    servers = prepared(software, root, ON)
    path = file_of(servers)
    path.parent.mkdir(parents=True)
    path.write_text(plain_accounts(TOPIC), encoding="utf-8")
    return started(servers)


def tool_of(version: str) -> AbstractContextManager[Driver]:
    """Starts official clients, whose mqadmin signs as an administrator."""
    return driving(version, credentials=tools_text(PLAIN_ADMIN.access_key, PLAIN_ADMIN.secret_key))


def shown(printed: str, servers: Servers) -> list[str]:
    text = _NOISE.sub("", printed).replace(str(file_of(servers)), "FILE")
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def printed_of(tool: Callable[..., str], servers: Servers) -> list[tuple[str, list[str]]]:
    return [(line, shown(tool(*words_of(line, servers)), servers)) for line in LINES]


def words_of(line: str, servers: Servers) -> list[str]:
    words = line.format(b=servers.broker.address, f=file_of(servers)).split()
    return [*words, "-n", servers.namesrv.address]


def our_tool(*words: str) -> str:
    """Runs `mqcore admin` as an administrator."""
    result = CliRunner().invoke(commands, ["admin", *words], env=KEYS)
    error = result.exception
    assert error is None or isinstance(error, MQError), (words, result.output, error)
    return result.output if error is None else f"{FAILED}{error_line(error)}"


def is_alike(ours: tuple[str, list[str]], official: tuple[str, list[str]]) -> bool:
    """Whether both print the same; of a refusal ours has one line with the words of the broker."""
    found = _REFUSAL.search(" ".join(official[1]))
    if found is None:
        return ours == official
    return ours[1][0].startswith(FAILED) and found[1] in " ".join(ours[1])


def held(servers: Servers) -> dict[str, Any]:
    """Returns what the file has, but for the time of the last change."""
    text = file_of(servers).read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.load(text, Loader=yaml.BaseLoader)
    for each in content["dataVersion"]:
        del each["timestamp"]
    return content


def test_mqadmin_of_4_9_prints_the_same_and_leaves_the_same_file(
    official_49: Official, tmp_path: Path
) -> None:
    with (
        tool_of(official_49.version) as driver,
        serving_files(OURS, tmp_path / "ours") as ours,
        serving_files(official_software(official_49.version), tmp_path / "theirs") as theirs,
    ):
        official = printed_of(driver.mqadmin, theirs)
        pairs = zip(printed_of(driver.mqadmin, ours), official, strict=True)
        assert [pair for pair in pairs if pair[0] != pair[1]] == []
        assert held(ours) == held(theirs)


@pytest.mark.parametrize(
    "is_ours",
    [pytest.param(True, marks=pytest.mark.matrix, id="ours"), pytest.param(False, id="theirs")],
)
def test_our_tool_prints_what_mqadmin_of_4_9_prints(
    official_49: Official, tmp_path: Path, is_ours: bool
) -> None:
    theirs = official_software(official_49.version)
    software = OURS if is_ours else theirs
    with (
        tool_of(official_49.version) as driver,
        serving_files(software, tmp_path / "by-ours") as by_ours,
        serving_files(theirs, tmp_path / "by-theirs") as by_theirs,
    ):
        pairs = zip(
            printed_of(our_tool, by_ours), printed_of(driver.mqadmin, by_theirs), strict=True
        )
        assert [pair for pair in pairs if not is_alike(*pair)] == []
        assert held(by_ours) == held(by_theirs)
        shows = words_of("getAclConfig -b {b}", by_ours)
        if is_ours:
            assert "CVE-2024-23321" in our_tool(*shows)
        else:
            assert our_tool(*shows).splitlines() == driver.mqadmin(*shows).splitlines()


def refusals(driver: Driver, servers: Servers) -> list[str]:
    """Returns what is answered to clients who may not."""
    namesrv, found = servers.namesrv.address, []
    for name, keys, topic in (
        ("denied", ("producer1", "12345678"), "denied"),
        ("wrong", ("producer1", "another-secret"), TOPIC),
        ("unknown", ("nobody12", "another-secret"), TOPIC),
        ("without", None, TOPIC),
    ):
        fields = {} if keys is None else {"access_key": keys[0], "secret_key": keys[1]}
        driver.call("producer", name, group=f"PG_{name}", namesrv=namesrv, **fields)
        with pytest.raises(OfficialError) as refused:
            driver.call("send", name, topic=topic, body="hello", count=1)
        # What is behind it is a place in the official code.
        match = re.search(r"AclException: (.*?)(,| +BROKER|\n|$)", str(refused.value))
        found.append(f"{name}: {match[1] if match else refused.value}")
        driver.close(name)
    return found


def test_clients_of_4_9_with_keys_of_the_file_are_served_and_refused_alike(
    official_49: Official, tmp_path: Path
) -> None:
    answers = []
    with tool_of(official_49.version) as driver:
        for software in (OURS, official_software(official_49.version)):
            with serving_files(software, tmp_path / software.name.split()[0]) as servers:
                namesrv = servers.namesrv.address
                for topic in (TOPIC, "denied"):
                    create_topic(driver, namesrv, topic)
                app = {"access_key": "producer1", "secret_key": "12345678"}
                driver.call("producer", "p", group="PG_plain", namesrv=namesrv, **app)
                driver.call("push", "c", group="CG_plain", namesrv=namesrv, topic=TOPIC, **app)
                sent = driver.call("send", "p", topic=TOPIC, body="hello", count=10)
                assert {item["status"] for item in sent} == {"SEND_OK"}
                assert len(driver.got("c", 10)) == 10
                driver.close("p", "c")
                answers.append(refusals(driver, servers))
    assert answers[0] == answers[1]
    assert answers[0][0] == "denied: No default permission for topic:denied"
