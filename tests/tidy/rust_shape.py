"""The shape of the Rust side, of syntax trees: methods and files of each type, and who uses whom.

Test code is left out. A file uses another one where it names something of it by a path, or calls a
method whose name only one file of the crate defines. A `mod.rs` and the files of its folder are one
module: what a `mod.rs` re-exports is followed to its file, and uses between the two do not count.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import tree_sitter_rust
from tree_sitter import Language, Node, Parser

from tidy.circles import is_one_module

_RUST = Language(tree_sitter_rust.language())
# Outer path prefixes that stay inside a crate.
_INSIDE = frozenset({"crate", "super", "self"})
# How many re-exports are followed one after the other.
_HOPS_MAX = 8

Path = tuple[str, ...]


@dataclass(slots=True)
class RustFile:
    """What one file declares and uses.

    Attributes:
        path: The file, relative to the root.
        module: Its path: crate, then modules.
        methods: Names of the methods of inherent implementations, by type.
        defines: Names of the methods of its types and traits that other files may call.
        names: Items that the file declares.
        exports: What it re-exports: name to path, absolute in the crate.
        globs: Modules of which it re-exports everything.
        paths: Paths that it names, absolute in the crate.
        calls: Names of methods that it calls.
        outer: Paths that it names of other crates, or of names that a `use` brought.
    """

    path: str
    module: Path
    methods: dict[str, list[str]] = field(default_factory=dict)
    defines: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    exports: dict[str, Path] = field(default_factory=dict)
    globs: list[Path] = field(default_factory=list)
    paths: set[Path] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    outer: set[Path] = field(default_factory=set)


@cache
def _parser() -> Parser:
    return Parser(_RUST)


def _text(node: Node | None) -> str:
    return (node.text or b"").decode() if node is not None else ""


def _name(node: Node) -> str:
    return _text(node.child_by_field_name("name"))


def module_of(path: str) -> Path:
    """Returns crate and modules of `rust/CRATE/src/...`."""
    parts = path.removesuffix(".rs").split("/")
    below = [part for part in parts[3:] if part not in ("mod", "lib")]
    return (parts[1], *below)


def is_test_file(path: str) -> bool:
    """Returns whether a file of `src` holds tests alone."""
    parts = path.removesuffix(".rs").split("/")
    return "tests" in parts[3:] or parts[-1] in ("tests", "twin") or "twin" in parts[3:]


def read(path: str, text: str) -> RustFile:
    """Reads one file."""
    found = RustFile(path, module_of(path))
    _walk(_parser().parse(text.encode()).root_node, found.module, found)
    return found


def _is_test(attributes: list[Node]) -> bool:
    return any("cfg(test" in _text(each) or "#[test]" in _text(each) for each in attributes)


def _children(node: Node) -> Iterator[Node]:
    """Yields the children that are no test code."""
    attributes: list[Node] = []
    for child in node.named_children:
        if child.type == "attribute_item":
            attributes.append(child)
            continue
        if not _is_test(attributes):
            yield child
        if child.type not in ("line_comment", "block_comment"):
            attributes = []


_ITEMS = frozenset(
    {
        "struct_item",
        "enum_item",
        "trait_item",
        "union_item",
        "type_item",
        "const_item",
        "static_item",
        "function_item",
        "macro_definition",
    }
)


def _walk(node: Node, module: Path, found: RustFile) -> None:
    for child in _children(node):
        if child.type == "use_declaration":
            _use(child, module, found)
        elif child.type == "mod_item":
            body = child.child_by_field_name("body")
            if body is not None:
                _walk(body, (*module, _name(child)), found)
        else:
            if child.type in _ITEMS and module == found.module and node.type in _SCOPES:
                found.names.add(_name(child))
            _take(child, module, found)
            _walk(child, module, found)


def _take(node: Node, module: Path, found: RustFile) -> None:
    """Notes what a node itself declares, names or calls."""
    if node.type == "impl_item":
        _implementation(node, found)
    elif node.type == "trait_item":
        body = node.child_by_field_name("body")
        methods = [] if body is None else list(_children(body))
        found.defines.update(_name(each) for each in methods if each.type in _FUNCTIONS)
    elif node.type in ("scoped_identifier", "scoped_type_identifier"):
        segments = _segments(node)
        path = _absolute(segments, module)
        if path is not None:
            found.paths.add(path)
        else:
            found.outer.add(tuple(segments))
    elif node.type == "call_expression":
        called = node.child_by_field_name("function")
        if called is not None and called.type == "generic_function":
            called = called.child_by_field_name("function")
        if called is not None and called.type == "field_expression":
            found.calls.add(_text(called.child_by_field_name("field")))


_FUNCTIONS = frozenset({"function_item", "function_signature_item"})
# Methods of the standard library and of libraries: a call of these names nobody.
# fmt: off
_COMMON = frozenset(
    {
        "add", "all", "any", "append", "apply", "as_bytes", "as_deref", "as_mut", "as_ref",
        "as_slice", "as_str", "begin", "bytes", "call", "capacity", "checked", "chunk", "clear",
        "clone", "close", "cmp", "collect", "compare", "contains", "copy", "count", "create",
        "cut", "decode", "default", "drain", "encode", "end", "entry", "eq", "errors", "extend",
        "file", "fill", "filter", "find", "finish", "first", "flush", "fold", "for_each", "get",
        "get_mut", "has", "hash", "held", "id", "index", "insert", "into", "into_inner",
        "is_empty", "is_none", "is_some", "iter", "iter_mut", "join", "keep", "key", "keys",
        "kind", "last", "len", "limit", "list", "load", "lock", "look", "map", "map_err", "max",
        "merge", "min", "name", "names", "new", "next", "note", "now", "ok", "open", "parse",
        "peek", "pop", "pop_front", "position", "push", "put", "read", "recv", "release",
        "remove", "rename", "repeat", "replace", "reserve", "reset", "resize", "retain", "rev",
        "run", "seek", "send", "set", "size", "skip", "sort", "spawn", "split", "start", "stat",
        "state", "step", "stop", "store", "sum", "swap", "sync", "take", "text", "then", "time",
        "to_owned", "total", "truncate", "try_from", "unlink", "update", "value", "values",
        "wait", "with", "write", "zip",
    }
)
# fmt: on
_SCOPES = frozenset({"source_file", "declaration_list"})


def _implementation(node: Node, found: RustFile) -> None:
    if node.child_by_field_name("trait") is not None:
        return
    implemented = node.child_by_field_name("type")
    if implemented is not None and implemented.type == "generic_type":
        implemented = implemented.child_by_field_name("type")
    name = _text(implemented).rsplit("::", 1)[-1]
    body = node.child_by_field_name("body")
    methods = [] if body is None else list(_children(body))
    functions = [each for each in methods if each.type == "function_item"]
    found.methods.setdefault(name, []).extend(_name(each) for each in functions)
    # Other files see none that is private: those of `#[pymethods]` are Python's alone.
    found.defines.update(_name(each) for each in functions if _is_visible(each))


def _is_visible(node: Node) -> bool:
    return any(child.type == "visibility_modifier" for child in node.children)


def _segments(node: Node | None) -> list[str]:
    """The segments of a path, without type arguments."""
    if node is None:
        return []
    if node.type in ("scoped_identifier", "scoped_type_identifier"):
        before = _segments(node.child_by_field_name("path"))
        return [*before, _text(node.child_by_field_name("name"))]
    if node.type == "generic_type":
        return _segments(node.child_by_field_name("type"))
    return [_text(node)]


def _absolute(segments: list[str], module: Path) -> Path | None:
    """Makes a path absolute in its crate; None for one of another crate or of a local name."""
    if not segments or segments[0] not in _INSIDE:
        return None
    base = module
    for at, segment in enumerate(segments):
        if segment == "crate":
            base = module[:1]
        elif segment == "super":
            base = base[:-1]
        elif segment != "self":
            return (*base, *segments[at:])
    return base


def _use(node: Node, module: Path, found: RustFile) -> None:
    is_public = _is_visible(node)
    argument = node.child_by_field_name("argument")
    for segments, name in _leaves(argument, []):
        if not segments:
            continue
        # `pub use child::Name` of a module's own child needs no `self`.
        path = _absolute(segments, module)
        if path is None and is_public:
            path = (*module, *segments)
        if path is None:
            found.outer.add(tuple(segments))
            continue
        if name == "*":
            if is_public:
                found.globs.append(path)
            found.paths.add((*path, "*"))
        elif is_public:
            found.exports[name] = path
        else:
            found.paths.add(path)


def _leaves(node: Node | None, before: list[str]) -> Iterator[tuple[list[str], str]]:
    """Yields path and name of each thing that a `use` takes."""
    if node is None:
        return
    if node.type == "use_list":
        for child in node.named_children:
            yield from _leaves(child, before)
    elif node.type == "scoped_use_list":
        inner = [*before, *_segments(node.child_by_field_name("path"))]
        yield from _leaves(node.child_by_field_name("list"), inner)
    elif node.type == "use_as_clause":
        path = [*before, *_segments(node.child_by_field_name("path"))]
        yield path, _text(node.child_by_field_name("alias"))
    elif node.type == "use_wildcard":
        yield [*before, *_segments(node.named_children[0] if node.named_children else None)], "*"
    elif node.type == "self":
        yield before, before[-1] if before else ""
    elif node.type in ("identifier", "scoped_identifier", "crate", "super"):
        path = [*before, *_segments(node)]
        yield path, path[-1]


def shapes(files: list[RustFile]) -> dict[tuple[str, str], dict[str, int]]:
    """Returns the types with inherent methods: (crate, type) to methods per file."""
    types: dict[tuple[str, str], dict[str, int]] = {}
    for each in files:
        for name, methods in each.methods.items():
            if methods:
                per_file = types.setdefault((each.module[0], name), {})
                per_file[each.path] = per_file.get(each.path, 0) + len(methods)
    return types


def uses(files: list[RustFile]) -> dict[str, set[str]]:
    """Returns which file uses which, by path, within each crate."""
    modules = {each.module: each for each in files}
    makers: dict[tuple[str, str], set[str]] = {}
    for each in files:
        for name in each.defines:
            makers.setdefault((each.module[0], name), set()).add(each.path)
    edges: dict[str, set[str]] = {each.path: set() for each in files}
    for each in files:
        targets = {_file_of(path, modules) for path in each.paths}
        for name in each.calls - _COMMON:
            owners = makers.get((each.module[0], name), set())
            if len(owners) == 1:
                targets |= owners
        edges[each.path] = {
            target
            for target in targets
            if target is not None and target != each.path and not is_one_module(each.path, target)
        }
    return edges


def _file_of(path: Path, modules: dict[Path, RustFile]) -> str | None:
    """Returns the file that declares what a path names."""
    for _hop in range(_HOPS_MAX):
        at = next((n for n in range(len(path), 0, -1) if path[:n] in modules), 0)
        if at == 0:
            return None
        owner = modules[path[:at]]
        rest = path[at:]
        if not rest or rest[0] in owner.names or rest[0] == "*":
            return owner.path
        if rest[0] in owner.exports:
            path = (*owner.exports[rest[0]], *rest[1:])
            continue
        for module in owner.globs:
            target = modules.get(module)
            if target is not None and rest[0] in target.names | target.exports.keys():
                path = (*module, *rest)
                break
        else:
            return owner.path
    return None
