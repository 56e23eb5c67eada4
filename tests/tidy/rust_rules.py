"""The rules of the Rust side: layers, headers, where `unsafe` may be, names.

Every rule takes a path (relative to the root) and a text and returns what is wrong, one sentence
each. Nothing here parses Rust fully: comments and literals are blanked, then paths are read.
"""

import re
from collections.abc import Iterator

from tidy.layers import CRATES, MODULES, TESTS, Layers, layer_of
from tidy.project import line_at

UNSAFE_FILES = frozenset(
    {
        "rust/engine/src/mmap/mod.rs",
        "rust/engine/src/disk/sys.rs",
        "rust/bindings/src/buffer.rs",
    }
)
# Tests of any module may use the failing disk.
TEST_TWIN = "disk::twin"

_BLANKED = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(\#+)".*?"\1|b?r"[^"]*"|b?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^'\\])'""",
    re.DOTALL,
)
_PATH = re.compile(r"(?<![\w:$])((?:super::)+|crate::)(?=[\w{])")
_SEGMENTS = re.compile(r"\w+(?:::\w+)*")
_TEST_BLOCK = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))? )?mod \w+ \{")
_TYPE = re.compile(r"\b(?:struct|enum|trait|union|type)\s+([A-Z]\w*)")
_GETTER = re.compile(r"\bfn\s+(get_\w*)")
# Names that the traits of openraft fix.
_FIXED = frozenset(
    {"get_current_snapshot", "get_log_reader", "get_log_state", "get_snapshot_builder"}
)
_VAGUE_WORD = re.compile(
    r"(?:Manager|Helper|Util|Impl|Service)s?(?![a-z])|^(?:Common|Base)(?![a-z])"
)


def blanked(text: str) -> str:
    """Returns `text` with comments and literals replaced by spaces; lines stay where they are."""
    return _BLANKED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def is_vague(type_name: str) -> bool:
    """Returns whether a type's name holds a word without meaning."""
    return _VAGUE_WORD.search(type_name) is not None


def header_faults(path: str, text: str) -> list[str]:
    """A file opens with a `//!` comment that describes what it is for."""
    first = text.lstrip("\n").split("\n", 1)[0]
    return [] if re.match(r"//! \S", first) else [f"{path}: opens without a //! header"]


def unsafe_faults(path: str, text: str) -> list[str]:
    """`unsafe` is in its named files only."""
    if path in UNSAFE_FILES:
        return []
    code = blanked(text)
    return [
        f"{path}:{line_at(code, match.start())}: unsafe outside its named files"
        for match in re.finditer(r"\bunsafe\b", code)
    ]


def name_faults(path: str, text: str) -> list[str]:
    """Types have names that describe what they are, and no function begins with `get_`."""
    code = blanked(text)
    vague = [match for match in _TYPE.finditer(code) if is_vague(match[1])]
    return [
        f"{path}:{line_at(code, match.start())}: the name {match[1]} has no meaning"
        for match in [*vague, *_GETTER.finditer(code)]
        if match[1] not in _FIXED
    ]


def crate_faults(path: str, text: str) -> list[str]:
    """A crate uses only crates of lower layers (Rust paths and Cargo.toml dependencies)."""
    parts = path.split("/")
    crate = parts[1] if parts[0] == "rust" else parts[0]
    layer = layer_of(CRATES, crate)
    if layer is None:
        return [f"{path}: the crate {crate} has no layer"]
    # Only dependencies count in a manifest, and a crate's own name is in it.
    pattern = r"^mqcore-([\w-]+)" if path.endswith(".toml") else r"\bmqcore_(\w+)::"
    code = text if path.endswith(".toml") else blanked(text)
    faults = []
    for match in re.finditer(pattern, code, re.MULTILINE):
        used_layer = layer_of(CRATES, match[1].replace("-", "_"))
        is_own = match[1] == crate
        if not is_own and (used_layer is None or used_layer <= layer):
            faults.append(f"{path}:{line_at(code, match.start())}: {crate} uses mqcore-{match[1]}")
    return faults


def module_faults(path: str, text: str) -> list[str]:
    """A module uses itself and modules of strictly lower layers, and nothing of `lib.rs`."""
    crate = path.split("/")[1]
    layers = MODULES[crate]
    below = path.removeprefix(f"rust/{crate}/src/").removesuffix(".rs").split("/")
    module, layer = below[0], layer_of(layers, below[0])
    if module in {"lib", TESTS}:
        return []
    if layer is None:
        return [f"{path}: the module {module} has no layer"]
    code = blanked(text)
    tests = list(_test_spans(code))
    depth = len(below) - (below[-1] == "mod")
    faults = []
    for position, used in _modules_used(code, depth, layers):
        target = used.split("::", 1)[0]
        is_test = any(position in span for span in tests) or below[-1] == "tests"
        if target == module or (is_test and used.startswith(TEST_TWIN)):
            continue
        used_layer = layer_of(layers, target)
        if used_layer is None:
            why = f"{module} uses crate::{target}: no module"
            faults.append(f"{path}:{line_at(code, position)}: {why}")
        elif used_layer <= layer:
            why = f"{module} uses {target}, which is not below it"
            faults.append(f"{path}:{line_at(code, position)}: {why}")
    return faults


def _test_spans(code: str) -> Iterator[range]:
    """Yields the extent of every `#[cfg(test)] mod` block."""
    for match in _TEST_BLOCK.finditer(code):
        yield range(match.start(), _closing_brace(code, match.end()))


def _closing_brace(code: str, start: int) -> int:
    """Returns where the block ends whose opening brace is before `start`."""
    depth = 1
    for match in re.compile(r"[{}]").finditer(code, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.start()
    return len(code)


def _modules_used(code: str, depth: int, layers: Layers) -> Iterator[tuple[int, str]]:
    """Yields position and path of everything named from the crate's root.

    Args:
        code: Blanked text of one file.
        depth: Number of modules from the root down to the file: 1 for `units.rs` and `mmap/mod.rs`.
        layers: The modules of the crate.
    """
    for match in _PATH.finditer(code):
        ups = match[1].count("super::")
        # From inside a test block one more `super` leads out of the block itself; a shorter
        # chain stays in the module.
        if ups and ups < depth:
            continue
        for position, used in _first_paths(code, match.end()):
            is_module = layer_of(layers, used.split("::", 1)[0]) is not None
            if not ups or is_module:
                yield position, used


def _first_paths(code: str, start: int) -> Iterator[tuple[int, str]]:
    """Yields the paths at `start`: one, or each of a `{...}` group."""
    if code[start] != "{":
        match = _SEGMENTS.match(code, start)
        if match:
            yield start, match[0]
        return
    end = _closing_brace(code, start + 1)
    depth = 0
    expects_path = True
    for match in re.compile(r"[{},]|\w+(?:::\w+)*").finditer(code, start + 1, end):
        token = match[0]
        if token == "{":
            depth += 1
        elif token == "}":
            depth -= 1
        elif token == ",":
            expects_path = expects_path or depth == 0
        elif depth == 0 and expects_path:
            expects_path = False
            yield match.start(), token
