"""`mqcore acl` and `mqcore auth`: users, grants, tests of a decision, export and import."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from access_control import ON, guarded
from loops import run_on
from mqcore.cli.main import commands
from mqcore.model.tools_file import read_tools_file, tools_text
from mqcore.remoting import Credentials, RequestCode
from mqcore.testing import Broker


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tools") / "tools.yml"
    path.write_text(tools_text("root", "root-secret"), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(ON) as running:
        yield running


def run(broker: Broker, tools: Path, *line: str) -> Result:
    environment = {"MQCORE_NAMESRV": broker.namesrv, "MQCORE_TOOLS_FILE": str(tools)}
    return CliRunner().invoke(commands, line, env=environment)


def done(broker: Broker, tools: Path, *line: str) -> str:
    result = run(broker, tools, *line)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_what_is_granted_is_shown_tested_and_revoked(broker: Broker, tools: Path) -> None:
    done(broker, tools, "admin", "createUser", "-b", broker.address, "-u", "app", "-p", "s3cret")
    done(broker, tools, "acl", "grant", "app", "pub,Sub", "Topic:orders*", "--from", "10.0.0.0/8")
    done(broker, tools, "acl", "grant", "app", "Pub", "Topic:orders-old", "--deny")
    (row,) = [
        row
        for row in json.loads(done(broker, tools, "acl", "users", "--json"))
        if row["user"] == "app"
    ]
    assert row == {"user": "app", "kind": "Normal", "status": "enable", "entries": 2}
    shown = json.loads(done(broker, tools, "acl", "show", "app", "--json"))
    assert [e["resource"] for e in shown[0]["policies"][0]["entries"]] == [
        "Topic:orders*",
        "Topic:orders-old",
    ]
    test = ("acl", "test", "app", "pub")
    allowed = run(broker, tools, *test, "Topic:orders-new", "--from", "10.1.2.3")
    assert (allowed.exit_code, allowed.output.split(":")[0]) == (0, "allowed")
    assert "-> Custom Allow Pub,Sub Topic:orders* from 10.0.0.0/8" in allowed.output
    denied = run(broker, tools, *test, "Topic:orders-old", "--from", "10.1.2.3")
    assert denied.exit_code == 1
    assert "-> Custom Deny Pub Topic:orders-old from anywhere" in denied.output
    elsewhere = run(broker, tools, *test, "Topic:orders-new", "--from", "11.1.2.3")
    assert (elsewhere.exit_code, "no entry matches" in elsewhere.output) == (1, True)
    done(broker, tools, "acl", "revoke", "app", "Topic:orders*")
    assert run(broker, tools, *test, "Topic:orders-new").exit_code == 1
    done(broker, tools, "acl", "revoke", "app", "--yes")
    assert run(broker, tools, "acl", "show", "app").exit_code == 1


def test_users_and_policies_are_exported_and_made_again(
    broker: Broker, tools: Path, tmp_path: Path
) -> None:
    done(broker, tools, "admin", "createUser", "-b", broker.address, "-u", "kept", "-p", "s3cret")
    done(broker, tools, "acl", "grant", "kept", "Get", "Group:*", "--default")
    file = tmp_path / "backup.json"
    done(broker, tools, "acl", "export", str(file), "--with-secrets")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "s3cret" not in done(broker, tools, "acl", "export")
    done(broker, tools, "admin", "deleteUser", "-b", broker.address, "-u", "kept")
    planned = done(broker, tools, "acl", "import", str(file), "--dry-run").splitlines()
    assert planned == [
        "user kept: make (Normal)",
        "User:kept: Default Allow Get Group:*",
    ]
    done(broker, tools, "acl", "import", str(file))
    again = done(broker, tools, "acl", "import", str(file), "--dry-run")
    assert again == "nothing differs\n"


def test_what_was_refused_is_suggested_as_grants(broker: Broker, tools: Path) -> None:
    done(broker, tools, "admin", "createUser", "-b", broker.address, "-u", "poor", "-p", "s3cret")
    keys = ("--access-key", "poor", "--secret-key", "s3cret")
    line = ("admin", "getConsumerConfig", "-g", "readers")
    assert run(broker, tools, *line, *keys).exit_code != 0
    wrong = ("--access-key", "poor", "--secret-key", "other")
    forged = ("admin", "getUser", "-b", broker.address, "-u", "x", *wrong)
    assert run(broker, tools, *forged).exit_code != 0
    found = done(broker, tools, "acl", "suggest")
    assert "mqcore acl grant poor Get 'Cluster:DefaultCluster'" in found
    assert "check signature failed." in found


def test_rules_are_explained_by_number_and_name(broker: Broker, tools: Path) -> None:
    wanted = "SEND_MESSAGE_V2 (310): T(b) Pub\n"
    for code in ("310", "send_message_v2"):
        assert done(broker, tools, "acl", "explain", code) == wanted
    assert run(broker, tools, "acl", "explain", "nothing").exit_code == 2


def test_the_first_super_user_is_made_with_a_secret_that_nobody_knows(tmp_path: Path) -> None:
    store, file = tmp_path / "store", tmp_path / "tools.yml"
    line = ["auth", "init", str(store), "--tools", str(file)]
    result = CliRunner().invoke(commands, line)
    assert result.exit_code == 0, (result.output, result.exception)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    keys = read_tools_file(file)
    assert keys is not None
    assert keys[1] not in result.output
    assert CliRunner().invoke(commands, line).exit_code != 0

    async def asked() -> None:
        async with guarded(store, initAuthenticationUser="") as running:
            who = Credentials(*keys)
            users = await running.done(RequestCode.AUTH_LIST_USER, who=who)
            assert [user["username"] for user in users] == ["admin"]

    run_on("uvloop", asked())


def test_a_ping_without_credentials_finds_who_asks_for_them(broker: Broker) -> None:
    result = CliRunner().invoke(commands, ["ping", broker.address])
    assert result.exit_code == 0, (result.output, result.exception)
    assert "server with access control" in result.output


def test_a_running_broker_gets_its_first_super_user(tmp_path: Path) -> None:
    file = tmp_path / "tools.yml"
    with Broker() as broker:
        line = ["auth", "init", "--broker", broker.address, "--tools", str(file)]
        result = CliRunner().invoke(commands, line)
        assert result.exit_code == 0, (result.output, result.exception)
        assert "admin" in done(broker, file, "acl", "users", "-b", broker.address)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("accessKey: a\nsecretKey: b\n", ("a", "b")),
        ("accessKey: \"a\"  # who\nsecretKey: 'b#c'\n", ("a", "b#c")),
        ("# accessKey: x\naccessKey: a # who\nsecretKey: b\n", ("a", "b")),
        ("accessKey: a\n", None),
        ("", None),
    ],
)
def test_credentials_of_tools_are_read(
    tmp_path: Path, text: str, keys: tuple[str, str] | None
) -> None:
    path = tmp_path / "tools.yml"
    path.write_text(text, encoding="utf-8")
    assert read_tools_file(path) == keys
