"""What follows from the tables of settings is current, and a new row is seen everywhere."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import pytest

from mqcore.broker.settings_changes import changed
from mqcore.config import (
    Fate,
    Layer,
    Program,
    broker_settings,
    keys,
    keys_of,
    policy_fields,
    resolved,
)
from mqcore.config.derived import DERIVED, policies_source, rows_source, typed_source
from mqcore.config.engine_rows import engine_source
from mqcore.config.keys import table_keys
from mqcore.config.page import page
from mqcore.config.policy_fields import GROUPS, policy_values
from mqcore.errors import ConfigurationError
from mqcore.native import BrokerPolicy, PopPolicy, TimingPolicy, WaitPolicy

ROOT = Path(__file__).parents[2]
ROW = (
    "heldTicketsMax | int>=1<=900 | | - | - | 7 | broker | held_tickets_max | live "
    "| waits.tickets_max:usize<=500 | tickets that are held at the most\n"
)
ENGINE_ROW = (
    "samplesPerMinute | int | | - | - | 7000 | engine | | | engine.samples:usize "
    "| samples a minute\n"
)
UNIT_OF_SUFFIX = {
    "_ms": "ms",
    "_s": "s",
    "_bytes": "bytes",
    "_minutes": "minutes",
    "_mib": "MiB",
    "_percent": "percent",
}
KINDS: dict[str, Any] = {
    "waits": WaitPolicy,
    "timing": TimingPolicy,
    "pops": PopPolicy,
    "broker": BrokerPolicy,
}
CACHED: tuple[Any, ...] = (table_keys, keys_of, policy_fields.policy_fields)


@pytest.mark.parametrize("path", DERIVED)
def test_what_is_made_from_the_tables_is_current(path: str) -> None:
    made = DERIVED[path]()
    again = "make it again: python -m mqcore.config.derived ."
    assert (ROOT / path).read_text(encoding="utf-8") == made, again


@pytest.fixture
def add_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Yields what adds a row to a copy of the broker's own table."""
    folder = tmp_path / "tables"
    shutil.copytree(ROOT / "python/mqcore/config/tables", folder)

    def forget() -> None:
        for each in CACHED:
            each.cache_clear()

    def add(row: str) -> None:
        with (folder / "own.txt").open("a", encoding="utf-8") as table:
            table.write(row)
        forget()

    monkeypatch.setattr(keys, "TABLES_DIR", folder)
    yield add
    monkeypatch.undo()
    forget()


def made_classes(source: str) -> dict[str, Any]:
    """Returns what a made source of Python declares."""
    names: dict[str, Any] = {"__name__": "made"}
    exec(compile(source, "made", "exec"), names)
    return names


def test_a_new_row_is_seen_in_everything_that_is_made(add_row: Callable[[str], None]) -> None:
    before = [typed_source(), policies_source(), rows_source(), page()]
    add_row(ROW)
    typed = made_classes(typed_source())["BrokerFields"]
    hints = get_type_hints(typed, include_extras=True)
    assert hints["held_tickets_max"] == Annotated[int, "heldTicketsMax"]
    policy = made_classes(policies_source())["WaitPolicy"]
    assert policy._field_defaults["tickets_max"] == 7
    assert "Tickets that are held at the most (`heldTicketsMax`)." in policy.__doc__
    assert "    pub(crate) tickets_max: usize,\n" in rows_source()
    row = "| `heldTicketsMax` | int>=1<=900 | 7 | yes | tickets that are held at the most |\n"
    assert row in page()
    # Nothing else is another one: without the lines of the row each is what it was.
    after = [typed_source(), policies_source(), rows_source(), page()]
    for old, new in zip(before, after, strict=True):
        left = [line for line in new.splitlines() if "ickets" not in line]
        assert left == [line for line in old.splitlines() if "ickets" not in line]


def test_a_new_row_of_the_engine_is_declared_there(add_row: Callable[[str], None]) -> None:
    before = engine_source()
    add_row(ENGINE_ROW)
    row = '    /// Samples a minute.\n    samples: usize = 7_000, "samplesPerMinute";\n'
    assert row in engine_source()
    assert engine_source().replace(row, "") == before
    add_row(ENGINE_ROW.replace("7000", "often").replace("samplesPer", "moreSamplesPer"))
    with pytest.raises(ValueError, match="often"):
        engine_source()


def test_a_new_row_is_read_checked_changed_and_handed_over(add_row: Callable[[str], None]) -> None:
    add_row(ROW)
    configuration = resolved(Program.BROKER, [Layer("a file", {"heldTicketsMax": "600"})])
    assert configuration.value("heldTicketsMax") == 600
    assert resolved(Program.BROKER, ()).value("heldTicketsMax") == 7
    with pytest.raises(ConfigurationError, match="heldTicketsMax=901: expected 1 to 900"):
        resolved(Program.BROKER, [Layer("a file", {"heldTicketsMax": "901"})])
    changes = changed(broker_settings(configuration), {"heldTicketsMax": "800"})
    fresh, made = changes.settings, changes.made
    assert made == {"heldTicketsMax": "800"}
    assert fresh.configuration.value("heldTicketsMax") == 800

    class Typed:
        """Typed settings as `typed_source` would make them."""

        held_tickets_max = 800

        def __getattr__(self, name: str) -> object:
            return getattr(fresh, name)

    assert policy_values("waits", Typed())["tickets_max"] == 500


def test_a_row_that_cannot_be_read_is_an_error(add_row: Callable[[str], None]) -> None:
    add_row(ROW.replace("| live", "| alive"))
    with pytest.raises(ValueError, match="heldTicketsMax: alive is neither live nor next start"):
        keys_of(Program.BROKER)


def test_a_row_with_a_wrong_policy_is_an_error(add_row: Callable[[str], None]) -> None:
    add_row(ROW.replace("waits.tickets_max:usize", "tickets_max"))
    with pytest.raises(ValueError, match="no field of a policy: tickets_max"):
        policy_fields.policy_fields("waits")


def test_every_policy_belongs_to_a_tuple_and_has_the_fields_of_its_group() -> None:
    names = {group.name for group in GROUPS}
    assert {key.policy.partition(".")[0] for key in keys_of(Program.BROKER).values()} <= {
        "",
        "engine",
        *names,
    }
    for group in GROUPS:
        fields = [field.name for field in policy_fields.policy_fields(group.name)]
        assert fields
        assert list(KINDS[group.name]._fields) == fields


def test_only_what_has_an_effect_is_typed_live_or_handed_over() -> None:
    for program in Program:
        for key in keys_of(program).values():
            if not key.fate.is_honoured:
                assert (key.unit, key.field, key.is_live, key.policy) == ("", "", False, ""), (
                    key.name
                )
            is_handed_over = bool(key.policy) and not key.policy.startswith("engine.")
            if is_handed_over or (key.is_live and key.fate is not Fate.ENGINE):
                assert key.field, key.name


def test_a_field_ends_in_the_unit_of_its_row() -> None:
    for program in Program:
        for key in keys_of(program).values():
            units = {u for suffix, u in UNIT_OF_SUFFIX.items() if key.field.endswith(suffix)}
            assert not units or units == {key.unit}, key.name
