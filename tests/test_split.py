"""The test files are divided among processes by measured time (`scripts/split_tests.py`)."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "split_tests.py"
TIMES = """\
{"test": "tests/broker/test_pop.py::test_a", "phase": "setup", "outcome": "passed", "took_s": 1.0}
{"test": "tests/broker/test_pop.py::test_a", "phase": "call", "outcome": "passed", "took_s": 0.25}
{"test": "tests/broker/test_pop.py::test_b[x]", "phase": "call", "outcome": "failed", "took_s": 2.0}
{"test": "tests/test_golden.py::test_c", "phase": "call", "outcome": "passed", "took_s": 0.5}
"""


@pytest.fixture(scope="module")
def split() -> ModuleType:
    """Returns the script as a module."""
    spec = importlib.util.spec_from_file_location("split_tests", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_file_goes_to_one_process(split: ModuleType) -> None:
    files = split.test_files()
    shares = split.divided(files, split.seconds(), 3)
    assert len(shares) == 3
    assert sorted(file for share in shares for file in share) == files
    assert "tests/test_split.py" in files


def test_all_processes_have_as_much_to_do(split: ModuleType) -> None:
    table = {f"tests/test_{number}.py": float(number) for number in range(1, 41)}
    shares = split.divided(table, table, 3)
    loads = [sum(table[file] for file in share) for share in shares]
    assert max(loads) - min(loads) <= 1.0


def test_what_shares_a_session_stays_together(split: ModuleType) -> None:
    spark = {f"tests/spark/test_{number}.py": 1.0 for number in range(9)}
    others = {f"tests/test_{number}.py": 1.0 for number in range(9)}
    shares = split.divided([*spark, *others], spark | others, 2)
    assert sorted(spark) in shares
    assert sorted(others) in shares


def test_files_that_ask_for_the_same_brokers_stay_together(
    split: ModuleType, tmp_path: Path
) -> None:
    folder = tmp_path / "tests" / "interop"
    folder.mkdir(parents=True)
    for name, parameter in (("a", "side_by_side: S"), ("b", "reference: S"), ("c", "port: int")):
        text = f"def test_one({parameter}) -> None: ..."
        (folder / f"test_{name}.py").write_text(text, encoding="utf-8")
    found = [split.bundle_of(f"tests/interop/test_{name}.py", tmp_path) for name in "abc"]
    assert found == ["side_by_side", "reference", "tests/interop/test_c.py"]


@pytest.mark.parametrize("fixture", ["side_by_side", "reference"])
def test_one_process_starts_the_brokers_that_several_files_share(
    split: ModuleType, fixture: str
) -> None:
    asking = {file for file in split.test_files() if split.bundle_of(file) == fixture}
    assert len(asking) > 1
    (share,) = (
        share
        for share in split.divided(split.test_files(), split.seconds(), 4)
        if asking & set(share)
    )
    assert asking <= set(share)


def test_nearly_all_files_were_measured(split: ModuleType) -> None:
    # Others are taken for five seconds: with many of them the processes end minutes apart.
    unknown = [file for file in split.test_files() if file not in split.seconds()]
    assert len(unknown) <= 20, f"run scripts/run_tests.py --measure: {unknown}"


def test_files_with_programs_of_others_are_the_last(split: ModuleType) -> None:
    for share in split.divided(split.test_files(), split.seconds(), 4):
        others = [file.startswith("tests/interop/") for file in share]
        assert others == sorted(others)


def test_times_are_added_up_by_file(split: ModuleType, tmp_path: Path) -> None:
    times = tmp_path / "times.jsonl"
    times.write_text(TIMES, encoding="utf-8")
    assert split.measured(times) == {"tests/broker/test_pop.py": 3.2, "tests/test_golden.py": 0.5}


def test_a_seed_chooses_a_third_of_the_rotated_files(split: ModuleType) -> None:
    rotated, table = split.rotated(), split.seconds()
    assert set(rotated) <= set(split.test_files())
    whole_s = sum(table.get(file, split.UNKNOWN_S) for file in rotated)
    longest_s = max(table.get(file, split.UNKNOWN_S) for file in rotated)
    seen: set[str] = set()
    for seed in range(20):
        unchosen = split.left_out(rotated, table, seed)
        assert unchosen == split.left_out(reversed(rotated), table, seed)
        chosen = set(rotated) - unchosen
        taken_s = sum(table.get(file, split.UNKNOWN_S) for file in chosen)
        assert whole_s / 3 <= taken_s <= whole_s / 3 + longest_s
        seen |= chosen
    assert seen == set(rotated), "every file has its turn"
