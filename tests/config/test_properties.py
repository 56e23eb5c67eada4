"""Properties files are read as Java reads them."""

from pathlib import Path

import pytest

from mqcore.config import parse_properties, read_properties
from mqcore.errors import ConfigFileError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("a==b", {"a": "=b"}),
        ("a", {"a": ""}),
        ("# no\n! no\n\n  a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=one, \\\n    two", {"a": "one, two"}),
        ("a=x\\\\\nb=y", {"a": "x\\", "b": "y"}),
        ("a\\=b\\ c=d", {"a=b c": "d"}),
        ("a=\\u4e0a\\u6d77\\t!", {"a": "上海\t!"}),
        ("a=\\ud83d\\ude00", {"a": "\U0001f600"}),
        ("a=b#c", {"a": "b#c"}),
        ("a=b\\", {"a": "b"}),
    ],
)
def test_lines(text: str, found: dict[str, str]) -> None:
    assert parse_properties(text) == found


def test_a_file_is_latin_1(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(b"brokerName=caf\xe9\nlistenPort : 10911\n")
    assert read_properties(path) == {"brokerName": "café", "listenPort": "10911"}


def test_a_bad_escape_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("a=1\nb=\\u12x4\n")
    with pytest.raises(ConfigFileError) as caught:
        read_properties(path)
    assert (caught.value.path, caught.value.line) == (str(path), 2)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigFileError) as caught:
        read_properties(tmp_path / "none.conf")
    assert caught.value.path == str(tmp_path / "none.conf")


def test_a_text_that_is_longer_than_any_configuration_is_refused() -> None:
    fits = "a=" + "x" * ((1 << 20) - 2)
    assert len(parse_properties(fits)["a"]) == (1 << 20) - 2
    with pytest.raises(ConfigFileError, match="at most 1048576"):
        parse_properties(fits + "x")
