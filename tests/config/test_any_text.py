"""Whatever is in a file or a value: settings come out, or a refusal, and nothing else."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mqcore.config import (
    Configuration,
    Layer,
    Program,
    broker_settings,
    controller_settings,
    file_layer,
    keys_of,
    namesrv_settings,
    parse_properties,
    resolved,
)
from mqcore.config.settings import (
    BrokerSettings,
    ControllerSettings,
    NamesrvSettings,
    key_fields,
)
from mqcore.config.values import parsed, rendered
from mqcore.errors import ConfigFileError, ConfigurationError

# No time limit per example: a busy machine is no fault of the code. The same examples every time.
BOUNDED = settings(deadline=None, derandomize=True, max_examples=60)
NAMES = sorted({name for program in Program for name in keys_of(program)})
SET = {
    Program.BROKER: sorted(key_fields(BrokerSettings).values()),
    Program.NAMESRV: sorted(key_fields(NamesrvSettings).values()),
    Program.CONTROLLER: sorted(key_fields(ControllerSettings).values()),
}
MADE: dict[Program, Callable[[Configuration], object]] = {
    Program.BROKER: broker_settings,
    Program.NAMESRV: namesrv_settings,
    Program.CONTROLLER: controller_settings,
}
TEXTS = st.one_of(
    st.text(max_size=40),
    st.integers().map(str),
    st.sampled_from(
        ["", "~", "~nobody-has-this-name/x", "\0", "-1", "0", "true", "unix:/x", "9" * 400]
    ),
)


def pairs_of(program: Program) -> st.SearchStrategy[dict[str, str]]:
    names = st.one_of(st.sampled_from(SET[program]), st.sampled_from(NAMES), st.text(max_size=20))
    return st.dictionaries(names, TEXTS, max_size=4)


@pytest.mark.slow
@BOUNDED
@given(
    st.sampled_from(list(Program)).flatmap(lambda each: st.tuples(st.just(each), pairs_of(each)))
)
def test_any_pairs(given_pairs: tuple[Program, dict[str, str]]) -> None:
    program, pairs = given_pairs
    try:
        configuration = resolved(program, [Layer("any", pairs)])
        MADE[program](configuration)
    except ConfigurationError:
        return
    assert all(setting.shown is not None for setting in configuration.settings.values())


@BOUNDED
@given(st.text())
def test_any_properties(text: str) -> None:
    try:
        found = parse_properties(text)
    except ConfigFileError:
        return
    assert all(value == value.strip() for value in found.values())


@BOUNDED
@given(content=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
@example(content=b"a=" + b"[" * 50_000)
@example(content=b"a" + b".a" * 3_000 + b"=1")
@example(content=b"a=" + b"9" * 50_000)
@example(content=b"a=1" + b" " * (1 << 20))
def test_any_toml(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "a.toml"
    path.write_bytes(content)
    with contextlib.suppress(ConfigFileError):
        file_layer(path, Program.BROKER)


@BOUNDED
@given(st.sampled_from(NAMES), TEXTS)
def test_a_value_is_the_same_when_written_back(name: str, text: str) -> None:
    key = keys_of(Program.BROKER).get(name) or keys_of(Program.NAMESRV)[name]
    try:
        value = parsed(key.kind, text)
    except ValueError:
        return
    assert parsed(key.kind, rendered(value)) == value
