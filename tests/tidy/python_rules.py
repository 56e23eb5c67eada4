"""The rules of the Python side that ruff, mypy and import-linter do not have."""

import ast
import re

from tidy.rust_rules import is_vague

FUNCTION_LINES_MAX = 70
SPARK_FOLDER = "python/mqcore/spark/"
SPARK_PACKAGES = frozenset({"pyarrow", "pyspark"})
# Names that a protocol of the standard library prescribes: asyncio.BufferedProtocol.
PRESCRIBED_NAMES = frozenset({"get_buffer", "get_command"})


def header_faults(path: str, text: str) -> list[str]:
    """A module opens with a docstring of at least one whole sentence."""
    doc = ast.get_docstring(ast.parse(text)) or ""
    if re.match(r"\S+ .*?[.:](\s|$)", doc, re.DOTALL):
        return []
    return [f"{path}: opens without a sentence that describes what it is for"]


def function_faults(path: str, text: str) -> list[str]:
    """A function has at most FUNCTION_LINES_MAX lines and is not named `get_...`."""
    faults = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            faults.append(f"{path}:{node.lineno}: {node.name} has {lines} lines")
        if node.name.startswith("get_") and node.name not in PRESCRIBED_NAMES:
            faults.append(f"{path}:{node.lineno}: the name {node.name} has no meaning")
    return faults


def class_faults(path: str, text: str) -> list[str]:
    """Classes have names that describe what they are."""
    return [
        f"{path}:{node.lineno}: the name {node.name} has no meaning"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef) and is_vague(node.name)
    ]


def spark_faults(path: str, text: str) -> list[str]:
    """Of the package only `mqcore.spark` imports PySpark and PyArrow, which few users have."""
    in_package = path.startswith("python/mqcore/")
    if not in_package or path.startswith(SPARK_FOLDER):
        return []
    faults = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        faults += [
            f"{path}:{node.lineno}: imports {name} outside of {SPARK_FOLDER}"
            for name in names
            if name.split(".")[0] in SPARK_PACKAGES
        ]
    return faults
