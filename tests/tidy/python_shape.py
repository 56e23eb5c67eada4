"""The shape of the Python side: methods and files of each class, and which module imports which.

A class counts with the methods that it inherits from classes of the package: an object cut into
several classes is one object. A package's `__init__` and its modules are one.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from tidy.circles import is_one_module

PACKAGE = "python/mqcore/"


@dataclass(slots=True)
class PythonFile:
    """What one module declares and imports.

    Attributes:
        path: The file, relative to the root.
        module: Its dotted name.
        classes: Methods of each class.
        bases: Dotted or local names of the bases of each class.
        imports: What each local name is, as a dotted path.
        used: Dotted paths that it imports.
    """

    path: str
    module: str
    classes: dict[str, list[str]] = field(default_factory=dict)
    bases: dict[str, list[str]] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)


def module_of(path: str) -> str:
    """Returns the dotted name of a module of the package."""
    parts = path.removeprefix("python/").removesuffix(".py").split("/")
    return ".".join(part for part in parts if part != "__init__")


def _is_overload(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Returns whether a definition is only a type of the method that follows."""
    return any(ast.unparse(each) == "overload" for each in node.decorator_list)


def read(path: str, text: str) -> PythonFile:
    """Reads one module."""
    found = PythonFile(path, module_of(path))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            functions = (ast.FunctionDef, ast.AsyncFunctionDef)
            found.classes[node.name] = [
                n.name for n in node.body if isinstance(n, functions) and not _is_overload(n)
            ]
            found.bases[node.name] = [ast.unparse(base).split("[")[0] for base in node.bases]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.imports[alias.asname or alias.name] = whole
                found.used.add(whole)
        elif isinstance(node, ast.Import):
            found.used.update(alias.name for alias in node.names)
    return found


def shapes(files: list[PythonFile]) -> dict[tuple[str, str], dict[str, int]]:
    """Returns the classes with methods: (module, class) to methods per file, inherited ones too."""
    classes = {f"{each.module}.{name}": (each, name) for each in files for name in each.classes}
    exports = _exports(files)

    def parents(each: PythonFile, name: str) -> Iterator[tuple[PythonFile, str]]:
        for base in each.bases[name]:
            whole = each.imports.get(base, f"{each.module}.{base}")
            found = classes.get(exports.get(whole, whole))
            if found is not None:
                yield found
                yield from parents(*found)

    types = {}
    for each in files:
        for name, methods in each.classes.items():
            per_file = {each.path: len(methods)}
            for owner, parent in dict.fromkeys((f.path, n) for f, n in parents(each, name)):
                held = next(f for f in files if f.path == owner)
                per_file[owner] = per_file.get(owner, 0) + len(held.classes[parent])
            types[each.module, name] = {path: count for path, count in per_file.items() if count}
    return types


def _exports(files: list[PythonFile]) -> dict[str, str]:
    """Returns what a name that a package hands on is, by its dotted path there."""
    return {
        f"{each.module}.{name}": whole
        for each in files
        if each.path.endswith("__init__.py")
        for name, whole in each.imports.items()
    }


def uses(files: list[PythonFile]) -> dict[str, set[str]]:
    """Returns which file imports which, by path; what a package hands on counts for its maker."""
    modules = {each.module: each.path for each in files}
    exports = _exports(files)
    edges: dict[str, set[str]] = {}
    for each in files:
        targets = set()
        for whole in each.used:
            target = _file_of(exports.get(whole, whole), modules)
            if target is not None and target != each.path and not is_one_module(each.path, target):
                targets.add(target)
        edges[each.path] = targets
    return edges


def _file_of(whole: str, modules: dict[str, str]) -> str | None:
    return modules.get(whole) or modules.get(whole.rpartition(".")[0])
