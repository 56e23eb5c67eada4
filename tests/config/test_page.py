"""The page of all keys is the one that the tables make."""

from pathlib import Path

from mqcore.config import Program, keys_of
from mqcore.config.page import page

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_is_current() -> None:
    again = "make it again: python -m mqcore.config.page > docs/configuration.md"
    assert PAGE.read_text(encoding="utf-8") == page(), again


def test_the_page_lists_every_key() -> None:
    text = page()
    for program in Program:
        assert [name for name in keys_of(program) if f"| `{name}` |" not in text] == []
