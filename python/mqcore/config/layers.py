"""Gathers what a user set: files, environment, flags, each a layer of texts with its source.

A file is a properties file as official brokers have it, or TOML with the same names. Knows the
names of keys, and nothing of their meaning.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqcore.config.keys import Program, folded, keys_of
from mqcore.config.properties import LEN_MAX_BYTES, read_properties
from mqcore.config.values import rendered
from mqcore.errors import ConfigFileError

_PREFIX = "MQCORE_"
# What the official programs read when neither file nor flag sets it.
_OFFICIAL_VARIABLE = "NAMESRV_ADDR"


@dataclass(frozen=True, slots=True)
class Layer:
    """Settings of one source; later layers win.

    Attributes:
        source: What to call it.
        pairs: Keys as they were written, with texts.
        remarks: What is to be warned of: what the source has, and is not taken.
    """

    source: str
    pairs: Mapping[str, str]
    remarks: tuple[str, ...] = ()


def file_layer(path: Path, program: Program) -> Layer:
    """Returns the settings of a file.

    Raises:
        ConfigFileError: It cannot be read.
    """
    if path.suffix == ".toml":
        return Layer(path.name, dict(_toml_pairs(path, program)))
    return Layer(path.name, read_properties(path))


def environment_layers(environment: Mapping[str, str], program: Program) -> tuple[Layer, Layer]:
    """Returns the layer below files (`NAMESRV_ADDR`) and the one above them (`MQCORE_...`).

    `MQCORE_BROKER_FLUSH_DISK_TYPE` and `MQCORE_BROKER_flushDiskType` both set `flushDiskType`.

    Args:
        environment: As `os.environ`.
        program: `broker`, `namesrv` or `controller` is the middle of the names.
    """
    below: dict[str, str] = {}
    if program is Program.BROKER and environment.get(_OFFICIAL_VARIABLE):
        below["namesrvAddr"] = environment[_OFFICIAL_VARIABLE]
    prefix = f"{_PREFIX}{program.value.upper()}_"
    names = {folded(name): name for name in keys_of(program)}
    above = {}
    for variable, text in sorted(environment.items()):
        if variable.startswith(prefix):
            name = variable.removeprefix(prefix)
            above[names.get(folded(name), name)] = text
    return Layer(f"environment {_OFFICIAL_VARIABLE}", below), Layer("environment", above)


def _toml_pairs(path: Path, program: Program) -> Iterator[tuple[str, str]]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from error
    if len(content) > LEN_MAX_BYTES:
        raise _refused(path, f"it has {len(content)} bytes, a configuration at most 1 MiB")
    try:
        tree = tomllib.loads(content.decode("utf-8"))
        leaves = list(_leaves(path, tree, program))
    except RecursionError:
        raise _refused(path, "tables or lists are nested too deep") from None
    except ValueError as error:
        # Bad TOML, bad UTF-8, a number of thousands of digits.
        raise _refused(path, str(error)) from error
    yield from leaves


def _leaves(path: Path, tree: dict[str, Any], program: Program) -> Iterator[tuple[str, str]]:
    sections = {each.value: tree.pop(each.value, {}) for each in Program}
    # What is outside the sections is for the program that the file was given to.
    yield from _flat(path, "", tree)
    own = sections[program.value]
    if not isinstance(own, dict):
        raise _refused(path, f"{program.value} must be a table")
    yield from _flat(path, "", own)


def _flat(path: Path, above: str, tree: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the leaves of a tree by their dotted names."""
    for name, value in tree.items():
        dotted = f"{above}{name}"
        if isinstance(value, dict):
            yield from _flat(path, f"{dotted}.", value)
        elif isinstance(value, list) and all(isinstance(each, str) for each in value):
            yield dotted, ";".join(value)
        elif isinstance(value, bool | int | float | str):
            yield dotted, rendered(value)
        else:
            raise _refused(path, f"{dotted}: a text, a number, true, false or a list of texts")


def _refused(path: Path, why: str) -> ConfigFileError:
    return ConfigFileError(f"{path}: {why}", path=str(path), line=0, why=why)
