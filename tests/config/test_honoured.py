"""A key that the table calls honoured is read by a program: it is no promise of the table alone."""

import ast
from pathlib import Path

import pytest

from mqcore.config.settings import BrokerSettings, ListenerSettings, NamesrvSettings, key_fields

PACKAGE = Path(__file__).parents[2] / "python" / "mqcore"


def attributes_read() -> set[str]:
    """Returns every attribute that some module reads."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.add(node.attr)
    return found


@pytest.mark.parametrize("kind", [BrokerSettings, ListenerSettings, NamesrvSettings])
def test_every_setting_is_read(kind: type[object]) -> None:
    read = attributes_read()
    unread = [f"{name} ({key})" for name, key in key_fields(kind).items() if name not in read]
    assert unread == []
