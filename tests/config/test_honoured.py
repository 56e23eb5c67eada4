"""A key that the table calls honoured is read by a program: it is no promise of the table alone."""

import ast
from pathlib import Path

import pytest

from mqcore.config.policy_fields import GROUPS, PolicyField, policy_fields
from mqcore.config.settings import (
    BrokerSettings,
    ControllerSettings,
    NamesrvSettings,
    key_fields,
)
from mqcore.config.typed import ListenerSettings

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "mqcore"
BINDINGS = [
    path.read_text(encoding="utf-8") for path in (ROOT / "rust" / "bindings" / "src").glob("*.rs")
]


def attributes_read() -> set[str]:
    """Returns every attribute that some module reads."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.add(node.attr)
    return found


def handed_over() -> list[PolicyField]:
    """Returns what the fast path is given of settings."""
    fields = [field for group in GROUPS for field in policy_fields(group.name)]
    return [field for field in fields if field.attribute]


def is_taken(field: PolicyField) -> bool:
    """Returns whether the extension does something with a field of the policy."""
    return any(f".{field.name}" in text for text in BINDINGS)


def test_what_is_handed_over_is_taken() -> None:
    assert [field.key for field in handed_over() if not is_taken(field)] == []


@pytest.mark.parametrize(
    "kind", [BrokerSettings, ControllerSettings, ListenerSettings, NamesrvSettings]
)
def test_every_setting_is_read(kind: type[object]) -> None:
    read = attributes_read() | {field.attribute for field in handed_over() if is_taken(field)}
    unread = [f"{name} ({key})" for name, key in key_fields(kind).items() if name not in read]
    assert unread == []
