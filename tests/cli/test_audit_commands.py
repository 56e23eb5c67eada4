"""`mqcore audit`: lines of files and of servers, checks, exit codes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mqcore.audit.files import AuditFiles
from mqcore.cli.main import commands
from mqcore.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        for name in ("orders", "bills"):
            running.create_topic(name)
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Path:
    files = AuditFiles(
        tmp_path / "audit" / "audit.log", file_bytes_max=4_096, files_max=9, is_synced=False
    )
    for number in range(100):
        files.append(
            [
                {
                    "time": f"2026-05-01T10:{number // 60:02d}:{number % 60:02d}.000Z",
                    "server": "b",
                    "event": "change",
                    "user": "ann" if number % 2 else "bob",
                    "address": "10.0.0.1:1",
                    "request": "UPDATE_AND_CREATE_TOPIC(17)",
                    "code": 17,
                    "resource": [f"Topic:t{number}"],
                    "outcome": "done",
                }
            ]
        )
    return tmp_path


def run(*line: str, namesrv: str = "") -> Result:
    environment = {"MQCORE_NAMESRV": namesrv} if namesrv else {}
    return CliRunner().invoke(commands, ("audit", *line), env=environment)


def test_files_are_read_by_their_directory_or_that_of_the_store(store: Path) -> None:
    for path in (store, store / "audit", store / "audit" / "audit.log"):
        result = run("tail", str(path), "-c", "3")
        assert result.exit_code == 0, result.output
        lines = result.output.splitlines()
        assert [line.split("Topic:")[1].split()[0] for line in lines] == ["t97", "t98", "t99"]
    assert run("tail", str(store / "audit"), "-c", "1", "--json").output.count("{") == 1
    empty = run("tail", str(store.parent))
    assert empty.exit_code == 2


def test_a_search_goes_by_all_that_is_given(store: Path) -> None:
    found = run("search", str(store), "--user", "ann", "--since", "2026-05-01T10:01", "--json")
    rows = [json.loads(line) for line in found.output.splitlines()]
    assert len(rows) == 20
    assert {row["user"] for row in rows} == {"ann"}
    assert run("search", str(store), "--resource", "Topic:t7").output.count("\n") == 11
    nothing = run("search", str(store), "--user", "eve")
    assert (nothing.exit_code, nothing.output) == (1, "")


def test_a_check_ends_with_one_where_a_line_was_changed(store: Path) -> None:
    whole = run("verify", str(store), "--json")
    assert whole.exit_code == 0
    check = json.loads(whole.output)
    kept = f"{check['last']}:{check['hash']}"
    assert run("verify", str(store), "--expect", kept).exit_code == 0
    file = sorted((store / "audit").iterdir())[1]
    text = file.read_text()
    file.write_text(text.replace("ann", "eve", 1))
    changed = run("verify", str(store))
    assert changed.exit_code == 1
    assert f"{file.name}:" in changed.output
    assert "was changed" in changed.output
    lines = text.splitlines(keepends=True)
    file.write_text("".join([lines[0], *lines[2:]]))
    missing = run("verify", str(store))
    assert (missing.exit_code, "lines are missing" in missing.output) == (1, True)
    assert run("verify", str(store), "--expect", "nonsense").exit_code == 2


def test_a_cut_end_shows_by_what_was_kept(store: Path) -> None:
    check = json.loads(run("verify", str(store), "--json").output)
    file = store / "audit" / "audit.log"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    assert run("verify", str(store)).exit_code == 0
    cut = run("verify", str(store), "--expect", f"{check['last']}:{check['hash']}")
    assert cut.exit_code == 1
    assert "not there as it was" in cut.output


def test_servers_are_asked(broker: Broker) -> None:
    found = run("search", "--resource", "Topic:orders", "--json", namesrv=broker.namesrv)
    assert found.exit_code == 0, found.output
    (row,) = [json.loads(line) for line in found.output.splitlines()]
    assert (row["at"], row["outcome"]) == (broker.address, "done")
    checked = run("verify", "--server", broker.address, namesrv=broker.namesrv)
    assert checked.exit_code == 0, checked.output
    assert "every line follows from the one before" in checked.output
    name_server = run("verify", "--server", broker.namesrv, namesrv=broker.namesrv)
    assert name_server.exit_code == 0, name_server.output
