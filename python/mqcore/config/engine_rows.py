"""The settings that the engine takes, as it declares them: `rust/engine/src/config/rows.rs`.

A row of the tables of settings names its field and type (`engine.index_slots:u64`); key, spellings,
default and meaning are those of the row. Knows no value that a user set.
"""

from collections.abc import Iterator
from textwrap import wrap
from typing import Final

from mqcore.config.keys import SPELLINGS
from mqcore.config.policy_fields import PolicyField, policy_fields

__all__ = ["engine_source"]

_GROUP: Final = "engine"
_COLUMNS: Final = 100
_HEAD: Final = """\
//! The settings of a store, one row each: field, type, default, official key and other spellings.
//!
//! Made from the tables of settings by `python -m mqcore.config.derived`; a test keeps it current.

use std::path::PathBuf;

use super::{FlushDiskType, Setting, parse_setting};
use crate::error::Result;

settings! {
"""
_CHOICES: Final = {
    "FlushDiskType": {
        "ASYNC_FLUSH": "FlushDiskType::Async",
        "SYNC_FLUSH": "FlushDiskType::Sync",
    }
}


def engine_source() -> str:
    """Returns `rows.rs`.

    Raises:
        ValueError: A row of a table cannot be read, or has a default of another type.
    """
    rows = [line for field in policy_fields(_GROUP) for line in _row(field)]
    return f"{_HEAD}{''.join(rows)}}}\n"


def _row(field: PolicyField) -> Iterator[str]:
    words = f"{field.words[:1].upper()}{field.words[1:]}."
    lead = "    /// "
    for line in wrap(words, _COLUMNS, initial_indent=lead, subsequent_indent=lead):
        yield f"{line}\n"
    older = [spelling for spelling, key in SPELLINGS.items() if key == field.key]
    keys = " | ".join(f'"{key}"' for key in (field.key, *older))
    yield f"    {field.name}: {field.rust_type} = {_default(field)}, {keys};\n"


def _default(field: PolicyField) -> str:
    """Returns a default as Rust writes it; the engine has none for a directory."""
    text = field.default or ""
    match field.rust_type:
        case "Option<PathBuf>":
            return "None"
        case "String":
            return f'"{text}".to_owned()' if text else "String::new()"
        case "bool":
            if text not in ("true", "false"):
                raise ValueError(f"{field.key}: {text} is neither true nor false")
            return text
        case "u64" | "usize":
            return f"{int(text):_}"
    return _CHOICES[field.rust_type][text]
