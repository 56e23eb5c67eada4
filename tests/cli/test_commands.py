"""The commands over stores of our own: damage is found, refusals are one line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mqcore import Store
from mqcore.cli.main import commands
from small_store import SMALL, filled

QUEUE_FILE = Path("consumequeue/topic/0/00000000000000000000")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(commands, [str(argument) for argument in arguments])


def mqcore(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the command in a process of its own: errors are printed there."""
    command = [sys.executable, "-m", "mqcore.cli.main", *(str(each) for each in arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with Store(tmp_path / "store", config=SMALL) as store:
        filled(store, 1_500, queues=2)
    return tmp_path / "store"


def problems(root: Path) -> list[tuple[str, str, str]]:
    result = run("store", "verify", "--json", root)
    result_json = json.loads(result.stdout)
    assert result.exit_code == (1 if result_json["problem_count"] else 0)
    return [(part, location, why) for part, location, why in result_json["problems"]]


def overwrite(path: Path, position: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


def test_a_store_of_ours_agrees(root: Path) -> None:
    assert problems(root) == []
    assert "everything agrees" in run("store", "verify", root).stdout


def test_a_store_is_verified_while_it_is_written(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        filled(store, 200)
        store.flush()
        result = run("store", "dump", tmp_path)
        assert len(result.stdout.splitlines()) == 200
        assert run("store", "verify", tmp_path).exit_code == 0


def test_a_unit_that_names_another_offset_is_found(root: Path) -> None:
    overwrite(root / QUEUE_FILE, 20 * 7, (123).to_bytes(8, "big"))
    found = problems(root)
    assert {(part, location) for part, location, _ in found} == {("queue", "topic 0")}
    assert any("offset 7 " in why for _, _, why in found)


def test_a_unit_that_is_not_there_is_found(root: Path) -> None:
    overwrite(root / QUEUE_FILE, 20 * 100, bytes(20 * 650))
    found = problems(root)
    assert found == [("queue", "topic 0", "650 records of the log are not in it")]


def test_an_index_entry_of_another_key_is_found(root: Path) -> None:
    index = next((root / "index").iterdir())
    overwrite(index, 40 + 4 * 1_000 + 20 * 5, b"\x12\x34\x56\x78")
    assert {part for part, _, _ in problems(root)} == {"index"}


def test_damage_in_the_log_is_found(root: Path) -> None:
    overwrite(root / "commitlog" / ("0" * 20), 500_000, b"\xff" * 64)
    found = problems(root)
    assert found[0][0] == "log"
    assert "this is damage" in found[0][2]
    refused = mqcore("store", "repair", root)
    assert refused.returncode == 2
    assert "damaged at position" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_extensions_of_queues_are_looked_through(tmp_path: Path) -> None:
    root = tmp_path / "store"
    keys = {"enableConsumeQueueExt": True, "mappedFileSizeConsumeQueueExt": 4_096}
    with Store(root, config=SMALL | keys) as store:
        filled(store, 1_500, queues=2)
    assert problems(root) == []
    # Units of 20 bytes: size, tags code, store time, number of bits.
    first = root / "consumequeue_ext" / "topic" / "0" / f"{0:020}"
    content = first.read_bytes()
    for position in (20 * 7 + 2, 20 * 7 + 10):
        overwrite(first, position, bytes(8))
        ((part, location, why),) = problems(root)
        assert (part, location) == ("queue", "topic 0")
        assert "offset 7 " in why
        first.write_bytes(content)
    first.unlink()
    assert problems(root) == []
    assert "204 of its units name places" in run("store", "verify", root).stdout
    assert mqcore("store", "repair", root).returncode == 0
    assert not (root / "consumequeue_ext").exists()
    assert "everything agrees" in run("store", "verify", root).stdout


def test_errors_are_one_line(tmp_path: Path) -> None:
    empty = mqcore("store", "info", tmp_path)
    assert (empty.returncode, empty.stdout) == (2, "")
    assert empty.stderr.startswith("mqcore: ")
    assert "no store directory" in empty.stderr
    assert len(empty.stderr.splitlines()) == 1


def test_a_running_store_is_neither_recovered_nor_repaired(tmp_path: Path) -> None:
    with Store(tmp_path, config=SMALL) as store:
        filled(store, 10)
        for command in ("recover", "repair"):
            refused = mqcore("store", command, tmp_path)
            assert refused.returncode == 2
            assert "is locked" in refused.stderr


def test_sizes_can_be_given(root: Path, tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text("mappedFileSizeCommitLog = 2097152\nstorePathRootDir=/elsewhere\n")
    wrong = mqcore("store", "info", "-c", config, root)
    assert "mappedFileSizeCommitLog says 2097152" in wrong.stderr
    right = run("store", "info", "-c", config, "--set", "mappedFileSizeCommitLog=1048576", root)
    assert right.exit_code == 0
    assert run("store", "info", "--set", "nonsense", root).exit_code == 2


def test_recover_prints_what_it_cut(root: Path) -> None:
    end = json.loads(run("store", "info", "--json", root).stdout)["broker_status"]
    (root / "abort").touch()
    # Half of a record, as a power loss leaves it.
    position = int(end["commitLogMaxOffset"]) % (1 << 20)
    overwrite(root / "commitlog" / f"{1 << 20:020}", position, b"\x00\x00\x04\x00\xda\xa3\x20\xa7")
    ended = run("store", "recover", root)
    assert ended.exit_code == 0, ended.output
    assert "without being closed" in ended.stdout
    assert "cut off" in ended.stdout
    assert list((root / "truncated").iterdir())
    assert problems(root) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_MQCORE_COMPLETE" in result.stdout


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("completion",),
        ("store",),
        ("store", "info"),
        ("store", "verify"),
        ("store", "dump"),
        ("store", "recover"),
        ("store", "repair"),
    ],
    ids=" ".join,
)
def test_every_command_explains_itself(words: tuple[str, ...]) -> None:
    result = run(*words, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")


def test_a_reader_that_had_enough_is_no_error(root: Path) -> None:
    command = f"{sys.executable} -m mqcore.cli.main store dump {root} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert json.loads(done.stdout)["queue_offset"] == 0
    assert done.stderr == ""


def test_the_package_runs_as_the_command_does() -> None:
    ended = [
        subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, check=True)
        for module in ("mqcore", "mqcore.cli.main")
    ]
    assert ended[0].stdout == ended[1].stdout
    assert ended[0].stdout.startswith(b"mqcore, version ")
