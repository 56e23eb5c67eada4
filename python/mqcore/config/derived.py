"""Makes the sources that follow from the settings: `python -m mqcore.config.derived ROOT`.

| file | what it holds |
|---|---|
| `python/mqcore/config/typed.py` | the fields of the settings that programs take |
| `python/mqcore/native/policies.py` | what of them the fast path is given, as named tuples |
| `rust/bindings/src/policy_rows.rs` | the same, as the extension takes it |
| `rust/engine/src/config/rows.rs` | the settings that the engine takes |
| `docs/configuration.md` | the page of all settings |

They are checked in, and a test keeps them current. Knows no value that a user set.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from types import MappingProxyType
from typing import Final

from mqcore.config.engine_rows import engine_source
from mqcore.config.keys import Key, Program, keys_of
from mqcore.config.page import page
from mqcore.config.policy_fields import GROUPS, policy_fields

__all__ = ["DERIVED", "policies_source", "rows_source", "typed_source"]

_COLUMNS: Final = 100
# The classes of `typed.py`: whose fields, what they are called in the tables, what they hold.
_TYPED: Final = (
    ("ListenerSettings", Program.BROKER, "listener.", "Where and how a program listens."),
    ("AccessSettings", Program.BROKER, "access.", "Who may do what."),
    ("BrokerFields", Program.BROKER, "", "The settings of a broker that come from its keys."),
    (
        "NamesrvFields",
        Program.NAMESRV,
        "",
        "The settings of a name server that come from its keys.",
    ),
    (
        "ControllerFields",
        Program.CONTROLLER,
        "controller.",
        "The settings of a controller that come from its keys.",
    ),
)
_TYPED_HEAD: Final = '''\
"""The fields of typed settings, each with the official key that it comes from.

Made from the tables of settings by `python -m mqcore.config.derived`; a test keeps it current.
Times are in the unit of the name.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

__all__ = [
    "AccessSettings",
    "BrokerFields",
    "ControllerFields",
    "ListenerSettings",
    "NamesrvFields",
]
'''
_POLICIES_HEAD: Final = '''\
"""What the fast path is given of the broker's settings and state, as the extension takes it.

Made from the tables of settings by `python -m mqcore.config.derived`; a test keeps it current.
"""

from typing import NamedTuple

__all__ = [{names}]
'''
_ROWS_HEAD: Final = """\
//! The broker's policy as Python's named tuples hand it over.
//!
//! Made from the tables of settings by `python -m mqcore.config.derived`; a test keeps it current.

use pyo3::prelude::*;
"""


def typed_source() -> str:
    """Returns `typed.py`."""
    parts = [_TYPED_HEAD]
    for name, program, prefix, doc in _TYPED:
        keys = [key for key in keys_of(program).values() if _is_of(key, prefix)]
        parts.append(
            "\n\n@dataclass(frozen=True, slots=True, kw_only=True)\n"
            f'class {name}:\n    """{doc}"""\n\n'
        )
        parts += [
            f'    {key.field.removeprefix(prefix)}: Annotated[{_type(key)}, "{key.name}"]'
            f"{' = field(repr=False)' if key.is_secret else ''}\n"
            for key in keys
        ]
    return "".join(parts)


def policies_source() -> str:
    """Returns `policies.py`."""
    names = sorted(group.python for group in GROUPS)
    parts = [_POLICIES_HEAD.format(names=", ".join(f'"{name}"' for name in names))]
    for group in GROUPS:
        fields = policy_fields(group.name)
        parts.append(
            f'\n\nclass {group.python}(NamedTuple):\n    """{group.doc}\n\n    Attributes:\n'
        )
        for field in fields:
            parts += _indented(f"{field.name}: {field.described}", 8)
        parts.append('    """\n\n')
        parts += [
            f"    {field.name}: {field.python_type} = {field.python_default}\n" for field in fields
        ]
    return "".join(parts)


def rows_source() -> str:
    """Returns `policy_rows.rs`."""
    parts = [_ROWS_HEAD]
    for group in GROUPS:
        parts.append(
            f"\n/// `{group.python}`.\n#[derive(FromPyObject)]\npub(crate) struct {group.rust} {{\n"
        )
        parts += [
            f"    pub(crate) {field.name}: {field.rust_type},\n"
            for field in policy_fields(group.name)
        ]
        parts.append("}\n")
    return "".join(parts)


# What is made, by its path in the repository.
DERIVED: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {
        "python/mqcore/config/typed.py": typed_source,
        "python/mqcore/native/policies.py": policies_source,
        "rust/bindings/src/policy_rows.rs": rows_source,
        "rust/engine/src/config/rows.rs": engine_source,
        "docs/configuration.md": page,
    }
)


def _is_of(key: Key, prefix: str) -> bool:
    """Returns whether a key has a field in the class of a prefix."""
    if prefix:
        return key.field.startswith(prefix)
    return bool(key.field) and "." not in key.field


def _type(key: Key) -> str:
    """Returns the type of the value of a key, as Python writes it."""
    kind = key.kind
    if "/" in kind:
        return "str"
    match kind:
        case "boolean":
            return "bool"
        case "double":
            return "float"
        case "list":
            return "tuple[str, ...]"
        case "path":
            # Without a default it may be empty.
            return "Path" if key.default else "Path | str"
        case "text" | "secret":
            return "str"
    return "int"


def _indented(text: str, indent: int) -> Iterator[str]:
    """Yields the lines of an attribute's description."""
    first, more = " " * indent, " " * (indent + 4)
    for line in wrap(text, _COLUMNS, initial_indent=first, subsequent_indent=more):
        yield f"{line}\n"


if __name__ == "__main__":
    for path, source in DERIVED.items():
        (Path(sys.argv[1]) / path).write_text(source(), encoding="utf-8")
