"""Types by their sizes: methods, and files that they are spread over.

python tests/tidy/shape_table.py [COUNT]    # the largest, of Rust and of Python
"""

import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tidy import circles, project, python_shape, rust_shape

_COUNT = 20


@cache
def rust_files() -> list[rust_shape.RustFile]:
    """Returns what the files of the crates declare and use."""
    return [
        rust_shape.read(path, text)
        for path, text in project.texts(".rs")
        if path.startswith("rust/") and "/src/" in path and not rust_shape.is_test_file(path)
    ]


@cache
def python_files() -> list[python_shape.PythonFile]:
    """Returns what the modules of the package declare and import."""
    return [
        python_shape.read(path, text)
        for path, text in project.texts(".py")
        if path.startswith(python_shape.PACKAGE)
    ]


def rust_types() -> dict[tuple[str, str], dict[str, int]]:
    """Returns methods per file of each type."""
    return rust_shape.shapes(rust_files())


def python_types() -> dict[tuple[str, str], dict[str, int]]:
    """Returns methods per file of each class."""
    return python_shape.shapes(python_files())


def main(count: int) -> None:
    """Prints the largest types, then the circles."""
    for types in (rust_types(), python_types()):
        largest = sorted(types.items(), key=lambda row: (-sum(row[1].values()), row[0]))
        for (path, name), per_file in largest[:count]:
            print(f"{sum(per_file.values()):5} methods {len(per_file):3} files  {path} {name}")
    for edges in (rust_shape.uses(rust_files()), python_shape.uses(python_files())):
        for group in circles.circles(edges):
            print(f"circle of {len(group)}: {', '.join(group)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else _COUNT)
