"""Ranges of numeric settings: every one has its own, and official files go on to load."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from mqcore.cli.main import commands
from mqcore.config import Layer, Program, resolved
from mqcore.config.keys import Key, keys_of
from mqcore.config.properties import read_properties
from mqcore.config.values import parsed
from mqcore.errors import ConfigFileError, ConfigurationError

HONOURED = [key for program in Program for key in keys_of(program).values() if key.fate.is_honoured]


@pytest.mark.parametrize("key", HONOURED, ids=lambda key: key.name)
def test_every_number_has_a_range_that_has_its_defaults(key: Key) -> None:
    assert key.kind not in ("int", "long", "double")
    for default in (key.default, key.default_5):
        parsed(key.kind, default)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("fileReservedTime", "-4", "expected at least 0"),
        ("diskMaxUsedSpaceRatio", "200", "expected 0 to 100"),
        ("mappedFileSizeCommitLog", "1", "expected at least 4096"),
        ("flushIntervalCommitLog", "-1", "expected at least 0"),
        ("disappearTimeAfterStart", "-2", "expected at least -1"),
    ],
)
def test_a_number_outside_is_refused(name: str, text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}={text}: {why}"):
        resolved(Program.BROKER, [Layer("conf", {name: text})])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fileReservedTime", "0"),
        # Official brokers clamp these: such files go on to load.
        ("diskMaxUsedSpaceRatio", "99"),
        ("registerNameServerPeriod", "5"),
        ("timerPrecisionMs", "1"),
        ("disappearTimeAfterStart", "-1"),
        ("defaultPopShareQueueNum", "-1"),
        # Without an effect here, whatever it is.
        ("haSendHeartbeatInterval", "-1"),
    ],
)
def test_what_officially_works_is_taken(name: str, text: str) -> None:
    found = resolved(Program.BROKER, [Layer("conf", {name: text})])
    assert str(found.value(name)) == text


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(b"brokerName=a\nlisten\x00Port=1\n")
    with pytest.raises(ConfigFileError, match=r"broker.conf:2: it has a byte 0x00"):
        read_properties(path)
    result = CliRunner().invoke(commands, ["broker", "-c", str(path), "-p"])
    assert "KEY=VALUE" in str(result.exception)


def test_comments_in_any_encoding_are_text(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes("# \u6ce8\u91ca\n".encode("gbk") + "\t# ä\f\r\nbrokerName=a\n".encode())
    assert read_properties(path) == {"brokerName": "a"}
