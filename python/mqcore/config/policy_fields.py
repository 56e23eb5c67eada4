"""What the fast path is given of the broker: fields of its policy, by setting or by state.

A row of the tables of settings names its field (`pops.kept_max:usize`; `engine.` before one of the
engine's, see `engine_rows`); fields that come from no
setting are in `tables/policy.txt`. Knows no value that a user set.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from mqcore.config.keys import Key, Program, keys_of, table_lines
from mqcore.config.values import Value

__all__ = ["GROUPS", "PolicyField", "PolicyGroup", "policy_fields", "policy_values"]

_CELL: Final = re.compile(r"(\w+)\.(\w+):([\w<>]+?)(?:>=(\d+))?(?:<=(\d+))?")
_COLUMNS: Final = 3
_MS_PER_S: Final = 1_000
_INTEGERS: Final = ("i32", "i64", "u32", "u64", "usize")


@dataclass(frozen=True, slots=True)
class PolicyGroup:
    """A named tuple that is handed to the extension.

    Attributes:
        name: What the tables call it.
        python: The class in Python.
        rust: The struct in the extension.
        doc: What it holds.
    """

    name: str
    python: str
    rust: str
    doc: str


# In the order in which they are declared: one that holds others comes last.
GROUPS: Final = (
    PolicyGroup("waits", "WaitPolicy", "WaitRow", "How many requests may wait on the fast path."),
    PolicyGroup("timing", "TimingPolicy", "TimingRow", "Messages with a time of their own."),
    PolicyGroup("pops", "PopPolicy", "PopRow", "Pops."),
    PolicyGroup("broker", "BrokerPolicy", "BrokerRow", "The broker, as the fast path needs it."),
)


@dataclass(frozen=True, slots=True)
class PolicyField:
    """One field.

    Attributes:
        group: The group that has it.
        name: Its name, in Python and in Rust.
        rust_type: Its type in the extension.
        default: Its default as a text of the tables; None for none.
        words: What it means.
        least: The smallest value that is handed over: smaller ones become it. None for any.
        most: The largest.
        key: The official key that it comes from; empty for state.
        attribute: The field of `BrokerSettings` of that key.
        factor: What the setting's value is multiplied by.
    """

    group: str
    name: str
    rust_type: str
    default: str | None
    words: str
    least: int | None = None
    most: int | None = None
    key: str = ""
    attribute: str = ""
    factor: int = 1

    @property
    def described(self) -> str:
        """What it means, as a sentence that names its key."""
        words = f"{self.words[:1].upper()}{self.words[1:]}"
        unit = "; here in ms" if self.factor != 1 else ""
        return f"{words} (`{self.key}`{unit})." if self.key else f"{words}."

    @property
    def python_type(self) -> str:
        """Its type in Python."""
        inner = self.rust_type.removeprefix("Option<").removesuffix(">")
        named = {group.rust: group.python for group in GROUPS}
        names = {"String": "str", "bool": "bool"} | dict.fromkeys(_INTEGERS, "int") | named
        return names[inner] + (" | None" if inner != self.rust_type else "")

    @property
    def python_default(self) -> str:
        """Its default, as Python writes it."""
        if self.rust_type in {group.rust for group in GROUPS}:
            return f"{self.python_type}()"
        if self.default is None:
            return "None"
        match self.python_type:
            case "str":
                return f'"{self.default}"'
            case "bool":
                return str(self.default == "true")
        return f"{self.bounded(int(self.default)):_}"

    def bounded(self, value: Value) -> Value:
        """Returns the value that is handed over for that of the setting."""
        if isinstance(value, bool) or not isinstance(value, int):
            return value
        value *= self.factor
        if self.least is not None:
            value = max(self.least, value)
        return value if self.most is None else min(self.most, value)


@cache
def policy_fields(group: str) -> tuple[PolicyField, ...]:
    """Returns the fields of a group: those of settings in the order of the tables, then state.

    Raises:
        ValueError: A row of a table cannot be read.
    """
    keys = [key for key in keys_of(Program.BROKER).values() if key.policy]
    fields = [_field(key.policy, key.default, key.words, key) for key in keys]
    for cell, default, words in table_lines("policy", _COLUMNS):
        fields.append(_field(cell, None if default == "-" else default, words, None))
    return tuple(field for field in fields if field.group == group)


def _field(cell: str, default: str | None, words: str, key: Key | None) -> PolicyField:
    match = _CELL.fullmatch(cell)
    if match is None:
        raise ValueError(f"no field of a policy: {cell}")
    group, name, rust_type, least, most = match.groups()
    is_unsigned = rust_type.startswith("u")
    in_seconds = key is not None and key.unit == "s" and name.endswith("_ms")
    return PolicyField(
        group=group,
        name=name,
        rust_type=rust_type,
        default=default,
        words=words,
        least=int(least) if least else 0 if is_unsigned else None,
        most=int(most) if most else None,
        key=key.name if key is not None else "",
        attribute=key.field if key is not None else "",
        factor=_MS_PER_S if in_seconds else 1,
    )


def policy_values(group: str, settings: object) -> dict[str, Any]:
    """Returns what a group is given of a broker's settings, by field.

    Args:
        group: The group.
        settings: A `BrokerSettings`.
    """
    return {
        field.name: field.bounded(getattr(settings, field.attribute))
        for field in policy_fields(group)
        if field.attribute
    }
