"""The rule of decoders: whatever reads bytes or text of others has a fuzz target.

A decoder is a function of Rust that others may call, whose name is one of a reader's (`decode`,
`parse`, `feed`, ...) and that takes bytes or text. `tests/fuzz/decoders.txt` has a row for each.
Pure functions of text.
"""

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["decoders", "faults", "rows", "targets"]

# Whose bytes come from files, sockets or settings. What is missing has no bytes of others.
CRATES: Final = (
    *("record", "wire", "replica", "engine", "access", "fast_path", "columns", "packing"),
    "consensus",
)
_NAMES: Final = re.compile(
    r"of|of_text|feed|scan|head|check|compile|items|pairs|lookup|split|verify|read_mark|\w*_of"
    r"|(?:decode|parse|inflate|peek|scan|unpack)\w*"
)
_FUNCTION: Final = re.compile(
    r"^ *pub(?:\((?:crate|super)\))? (?:const )?fn (\w+)(?:<[^(]*>)?\(([^)]*)\)", re.MULTILINE
)
_BYTES: Final = re.compile(
    r"\b(?:bytes|body|text|header|frame|piece|record|lock_content): "
    r"(?:&(?:mut )?)?&?(?:'\w+ )?(?:\[u8|str\b)"
)
_TESTS: Final = "#[cfg(test)]\nmod tests"
_TARGET: Final = re.compile(r"(?:target\(\s*|name: )\"(\w+)\"")
_NONE: Final = "-"


def decoders(path: str, text: str) -> list[str]:
    """Returns the decoders of a file as `path name`, each as often as it is there."""
    code = text.split(_TESTS, maxsplit=1)[0]
    return [
        f"{path} {name}"
        for name, arguments in _FUNCTION.findall(code)
        if _NAMES.fullmatch(name) and _BYTES.search(" ".join(arguments.split()))
    ]


def targets(crate: str, text: str) -> set[str]:
    """Returns the fuzz targets that a file of a crate's fuzz program declares, as `crate:name`."""
    return {f"{crate}:{name}" for name in _TARGET.findall(text)}


def rows(text: str) -> dict[str, str]:
    """Returns the table: `path name | crate:target`, or `| - why none` for one without."""
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in (line.partition("|") for line in lines)}


def faults(found: list[str], known: Mapping[str, str], all_targets: set[str]) -> list[str]:
    """Returns decoders without a row, rows without a decoder, rows whose target is not there."""
    lines = [f"{each}: a decoder without a fuzz target" for each in found if each not in known]
    lines += [f"{key}: there is no such decoder" for key in known if key not in found]
    for key, value in known.items():
        if value.startswith(f"{_NONE} "):
            continue
        lines += [f"{key}: there is no target {value}"] if value not in all_targets else []
    return lines
