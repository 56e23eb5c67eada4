"""Reports of damage: read, shown by every command that shows a store, acknowledged."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mqcore.broker.damage_reports import acknowledge, damage_reports
from mqcore.cli.findings import damage_findings
from mqcore.cli.main import commands
from mqcore.errors import StateFileError


def report(root: Path, physical_offset: int, **changes: object) -> Path:
    """Writes a report as the engine does."""
    folder = root / "truncated"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{physical_offset:020}"
    fields = {
        "kind": "cut",
        "physical_offset": physical_offset,
        "bytes": 4_096,
        "whole_records": 3,
        "missing_bytes": 0,
        "why": "bad CRC",
        "kept_in": [f"truncated/{name}"],
        "removed": [],
        "at_ms": 1_700_000_000_000,
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(fields | changes))
    return path


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(commands, ["store", "damage", *map(str, words)])
    return done.exit_code, done.output


def test_a_store_without_reports_has_none(tmp_path: Path) -> None:
    assert damage_reports(tmp_path) == []
    assert list(damage_findings(tmp_path)) == []
    assert run(tmp_path) == (0, "nothing was cut off or replaced\n")


def test_open_reports_are_printed_until_they_are_acknowledged(tmp_path: Path) -> None:
    report(tmp_path, 2_000, kind="keep", removed=["commitlog/00000000000000004096"])
    report(tmp_path, 100)
    code, text = run(tmp_path)
    first, second = text.splitlines()
    assert code == 1
    assert "2023-11-14 22:13:20.000Z" in first
    assert "4096 bytes with 3 whole records were cut off; physical offset 100 (bad CRC)" in first
    assert "were replaced, 3 whole records behind stay; physical offset 2000" in second
    assert "removed commitlog/00000000000000004096" in second
    [one, _other] = damage_findings(tmp_path)
    assert "physical offset 100" in one.value
    assert "--acknowledge" in one.advice

    assert run(tmp_path, "--acknowledge") == (0, "2 reports acknowledged\n")
    assert run(tmp_path) == (0, "nothing was cut off or replaced\n")
    assert list(damage_findings(tmp_path)) == []
    code, text = run(tmp_path, "--all", "--json")
    seen = [json.loads(line) for line in text.splitlines()]
    assert code == 0
    assert [(each["physical_offset"], each["is_acknowledged"]) for each in seen] == [
        (100, True),
        (2_000, True),
    ]


def test_a_log_cut_twice_at_one_offset_keeps_both_reports(tmp_path: Path) -> None:
    report(tmp_path, 100, bytes=1)
    acknowledge(tmp_path)
    report(tmp_path, 100, bytes=2)
    acknowledge(tmp_path)
    assert [each.bytes for each in damage_reports(tmp_path, acknowledged=True)] == [2, 1]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"kind": 1}', "nonsense", "\x00\xff"])
def test_what_is_no_report_is_an_error_with_its_name(tmp_path: Path, text: str) -> None:
    path = report(tmp_path, 7)
    path.write_text(text)
    with pytest.raises(StateFileError, match=path.name):
        damage_reports(tmp_path)
    [finding] = damage_findings(tmp_path)
    assert finding.value.startswith("unknown")
    assert run(tmp_path)[0] != 0
