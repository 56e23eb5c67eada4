"""Access control with what RocketMQ has: mqadmin's commands, clients, copies of users both ways."""

import json
import re
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from click.testing import CliRunner

from guarded_cluster import tables_of, write_access
from interop.driver import Driver, driving
from interop.install import JavaMissingError, OfficialError, go_client
from interop.mqadmin import create_topic
from interop.official import Official
from interop.patience import eventually
from interop.processes import environment
from interop.servers import (
    OURS,
    Servers,
    Software,
    official_software,
    prepared,
    serving,
    started,
)
from mqcore.cli.main import commands
from mqcore.model.tools_file import tools_text

pytestmark = pytest.mark.java

_AUTH = "org.apache.rocketmq.auth"
ON = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": (
        f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": (
        f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider"
    ),
    "initAuthenticationUser": '{"username":"root","password":"root12345678"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"inner12345678"}',
}
ROOT = ("root", "root12345678")
TOPIC = "T_access"
# In the order of a life. `{b}` is the broker.
LINES = (
    "listUser -b {b}",
    "createUser -b {b} -u app -p app12345678",
    "createUser -b {b} -u app -p app12345678",
    "createUser -b {b} -u admin -p admin12345678 -t Super",
    "getUser -b {b} -u app",
    "getUser -b {b} -u nobody",
    "updateUser -b {b} -u app -s disable",
    "updateUser -b {b} -u nobody -s disable",
    "listUser -b {b}",
    "listUser -b {b} -f dmi",
    "updateUser -b {b} -u app -s enable",
    "updateUser -b {b} -u app -t Super",
    "updateUser -b {b} -u app -t Normal",
    "getUser -b {b} -u app",
    "getAcl -b {b} -s User:app",
    "getAcl -b {b} -s User:nobody",
    "listAcl -b {b}",
    "createAcl -b {b} -s User:app -r Topic:orders*,Group:g1 -a Sub,Get -i 10.0.0.0/8 -d Allow",
    "createAcl -b {b} -s User:app -r Topic:orders* -a Pub -d Deny",
    "createAcl -b {b} -s User:nobody -r Topic:t -a Pub -d Allow",
    "createAcl -b {b} -s User:app -r Nothing:t -a Pub -d Allow",
    "createAcl -b {b} -s User:app -r Topic:t -a Any -d Allow",
    "createAcl -b {b} -s User:app -r Topic:t -a Pub -i 10.0.0.300 -d Allow",
    "createAcl -b {b} -s User:app -r Topic:t -a Pub -d Maybe",
    "getAcl -b {b} -s User:app",
    "updateAcl -b {b} -s User:app -r Group:g1,Cluster:* -a All -d Allow",
    "updateAcl -b {b} -s User:admin -r * -a Get -d Allow",
    "listAcl -b {b}",
    "listAcl -b {b} -s adm",
    "listAcl -b {b} -r orders",
    "deleteAcl -b {b} -s User:app -r Topic:orders*",
    "getAcl -b {b} -s User:app",
    "deleteAcl -b {b} -s User:app",
    "deleteAcl -b {b} -s User:app",
    "getAcl -b {b} -s User:app",
    "deleteUser -b {b} -u app",
    "deleteUser -b {b} -u app",
    "listUser -b {b}",
    "listAcl -b {b}",
)
# Where in its code Java was, and what its first command logs.
_NOISE = re.compile(r"^(\tat |\t\.\.\. |[\d:,]+ \|-).*\n", re.MULTILINE)
_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")


def tool_of(version: str) -> AbstractContextManager[Driver]:
    """Starts the official clients, whose mqadmin signs as `root`."""
    return driving(version, credentials=tools_text(*ROOT))


def shown(printed: str) -> str:
    """Returns what a command printed without addresses and noise."""
    lines = _ADDRESS.sub("ADDRESS", _NOISE.sub("", printed)).splitlines()
    return "\n".join(line.rstrip() for line in lines if line.strip())


def printed_of(driver: Driver, servers: Servers) -> list[str]:
    found = []
    for line in LINES:
        words = line.format(b=servers.broker.address).split()
        found.append(f"{line}\n{shown(driver.mqadmin(*words, '-n', servers.namesrv.address))}")
    return found


@pytest.mark.parametrize("version", [pytest.param("5.5.0", marks=pytest.mark.matrix), "5.3.3"])
def test_mqadmin_prints_of_ours_what_it_prints_of_an_official_broker(
    request: pytest.FixtureRequest, version: str, tmp_path: Path
) -> None:
    fixture = {"5.5.0": "official_55", "5.3.3": "official_53"}[version]
    official: Official = request.getfixturevalue(fixture)
    software = official_software(official.version)
    with (
        tool_of(version) as driver,
        serving(OURS, tmp_path / "ours", ON) as ours,
        serving(software, tmp_path / "theirs", ON) as theirs,
    ):
        pairs = zip(printed_of(driver, ours), printed_of(driver, theirs), strict=True)
        assert [pair for pair in pairs if pair[0] != pair[1]] == []


def test_our_tool_prints_what_mqadmin_prints(official_53: Official, tmp_path: Path) -> None:
    with (
        tool_of(official_53.version) as driver,
        serving(OURS, tmp_path / "ours", ON) as first,
        serving(OURS, tmp_path / "again", ON) as second,
    ):
        wanted = printed_of(driver, first)
        for line, theirs in zip(LINES, wanted, strict=True):
            words = line.format(b=second.broker.address).split()
            keys = ["--access-key", ROOT[0], "--secret-key", ROOT[1]]
            run = CliRunner().invoke(
                commands, ["admin", *words, "-n", second.namesrv.address, *keys]
            )
            mine = f"{line}\n{shown(run.output)}"
            if run.exit_code == 0:
                assert mine == theirs
            else:
                # A refusal is one line: its text is in the trace of the official one.
                words_of = run.exception.args[0] if run.exception else run.output
                assert "Exception" in theirs, (mine, words_of)


def test_users_and_policies_are_copied_between_official_brokers_and_ours(
    official_53: Official, tmp_path: Path
) -> None:
    software = official_software(official_53.version)
    with (
        tool_of(official_53.version) as driver,
        serving(OURS, tmp_path / "ours", ON) as ours,
        serving(software, tmp_path / "theirs", ON) as theirs,
    ):

        def run(line: str, servers: Servers = ours) -> str:
            words = line.format(o=ours.broker.address, t=theirs.broker.address).split()
            return driver.mqadmin(*words, "-n", servers.namesrv.address)

        run("createUser -b {t} -u app -p app12345678")
        run("createAcl -b {t} -s User:app -r Topic:orders*,Group:g -a Sub,Get -i ::1 -d Allow")
        assert "copy user of app" in run("copyUser -f {t} -t {o}")
        assert "copy acl of User:app" in run("copyAcl -f {t} -t {o}")
        for line in ("listUser -b {%s}", "listAcl -b {%s}"):
            assert run(line % "o") == run(line % "t")
        run("updateUser -b {o} -u app -p other12345678")
        run("updateAcl -b {o} -s User:app -r Topic:orders* -a Pub -d Deny")
        assert "copy user of app" in run("copyUser -f {o} -t {t} -u app")
        assert "copy acl of User:app" in run("copyAcl -f {o} -t {t} -s User:app")
        for line in ("getUser -b {%s} -u app", "getAcl -b {%s} -s User:app"):
            assert run(line % "o") == run(line % "t")


def rights(driver: Driver, servers: Servers) -> None:
    """Makes a topic, a user who may use it, and one who may do nothing."""
    create_topic(driver, servers.namesrv.address, TOPIC)
    broker, namesrv = servers.broker.address, servers.namesrv.address
    for line in (
        f"createUser -b {broker} -u app -p app12345678",
        f"createUser -b {broker} -u nobody -p nobody12345678",
        f"createAcl -b {broker} -s User:app -r Topic:{TOPIC} -a Pub,Sub,Get -d Allow",
        f"createAcl -b {broker} -s User:app -r Group:* -a Sub,Get -d Allow",
    ):
        printed = driver.mqadmin(*line.split(), "-n", namesrv)
        assert "success" in printed, printed


@pytest.mark.parametrize("version", [pytest.param("5.3.3", marks=pytest.mark.matrix), "4.9.7"])
def test_java_clients_with_rights_send_and_consume_and_others_are_refused(
    request: pytest.FixtureRequest, version: str, official_53: Official, tmp_path: Path
) -> None:
    fixture = {"4.9.7": "official_49", "5.3.3": "official_53"}[version]
    clients: Official = request.getfixturevalue(fixture)
    with (
        serving(OURS, tmp_path / "ours", ON) as servers,
        tool_of(official_53.version) as tool,
        driving(clients.version) as driver,
    ):
        rights(tool, servers)
        namesrv = servers.namesrv.address
        app = {"access_key": "app", "secret_key": "app12345678"}
        driver.call("producer", "p", group="PG_access", namesrv=namesrv, **app)
        driver.call("push", "c", group="CG_access", namesrv=namesrv, topic=TOPIC, **app)
        sent = driver.call("send", "p", topic=TOPIC, body="hello", count=10)
        assert {item["status"] for item in sent} == {"SEND_OK"}
        assert len(driver.got("c", 10)) == 10
        other = {"access_key": "nobody", "secret_key": "nobody12345678"}
        wrong = {"access_key": "app", "secret_key": "nobody12345678"}
        for name, keys, words in (
            ("other", other, "no permission"),
            ("wrong", wrong, "check signature failed"),
            ("without", {}, "username cannot be null"),
        ):
            driver.call("producer", name, group=f"PG_{name}", namesrv=namesrv, **keys)
            with pytest.raises(OfficialError, match=words):
                driver.call("send", name, topic=TOPIC, body="hello", count=1)
        driver.close("p", "c", "other", "wrong", "without")


@pytest.mark.matrix
def test_the_go_client_with_rights_sends_and_consumes(
    official_53: Official, tmp_path: Path
) -> None:
    try:
        program = go_client()
    except JavaMissingError as missing:
        pytest.fail(str(missing), pytrace=False)
    with (
        serving(OURS, tmp_path / "ours", ON) as servers,
        tool_of(official_53.version) as tool,
    ):
        rights(tool, servers)
        home = tmp_path / "go"
        home.mkdir()

        def failures(key: str, secret: str) -> dict[str, str]:
            keys = {"INTEROP_ACCESS_KEY": key, "INTEROP_SECRET_KEY": secret}
            done = subprocess.run(
                [program, servers.namesrv.address, TOPIC],
                capture_output=True,
                text=True,
                timeout=270,
                check=False,
                cwd=home,
                env={**environment(), "HOME": str(home), **keys},
            )
            rows = [json.loads(x) for x in done.stdout.splitlines() if x.startswith("{")]
            assert rows, done.stderr[-2000:]
            return {row["case"]: row["failure"] for row in rows if row["failure"]}

        assert failures("app", "app12345678") == {}


def test_our_client_with_rights_works_with_an_official_broker(
    official_53: Official, tmp_path: Path
) -> None:
    import mqcore
    from mqcore import Message
    from mqcore.errors import NoRouteError, SendError

    software: Software = official_software(official_53.version)
    with (
        serving(software, tmp_path / "theirs", ON) as servers,
        tool_of(official_53.version) as tool,
    ):
        rights(tool, servers)
        namesrv = servers.namesrv.address
        app = mqcore.Credentials("app", "app12345678")

        def is_routed(producer: mqcore.Producer) -> bool:
            try:
                return bool(producer.queues(TOPIC))
            except NoRouteError:
                return False

        with mqcore.Producer(namesrv, group="PG_ours", credentials=app) as producer:
            assert eventually(lambda: is_routed(producer), bool)
            assert producer.send(Message(TOPIC, "hello")).is_ok
            with pytest.raises(SendError, match="no permission"):
                producer.send(Message("TBW102", "hello"))


def test_a_broker_of_4_9_registers_at_a_guarded_name_server_by_its_address(
    official_49: Official, tmp_path: Path
) -> None:
    servers = prepared(official_software(official_49.version), tmp_path, {})
    access = tmp_path / "access"
    write_access(access, tables_of())
    guarded = {
        "mqcoreNamesrvAuth": "true",
        "mqcoreNamesrvTrusted": "127.0.0.1",
        "authConfigPath": str(access),
    }
    servers.namesrv.settings |= guarded
    servers.namesrv.become(OURS)
    # The broker signs nothing; whoever does is looked at, wherever it comes from.
    tools = tools_text("root", "root-secret")
    with (
        started(servers) as running,
        driving(official_49.version, credentials=tools) as driver,
    ):
        printed = driver.mqadmin("clusterList", "-n", running.namesrv.address)
        assert running.broker.address in printed, printed
