"""Types stay small, and files use one another in one direction: read from the syntax trees.

`python tests/tidy/shape_table.py` prints the sizes of all types.
"""

import pytest

from tidy import circles, python_shape, rust_shape, shape_table

METHODS_MAX = 40
FILES_MAX = 3
# Where the time is read and files are touched: all others are given a clock and a disk.
CLOCK_CALLS = frozenset({("Instant", "now"), ("SystemTime", "now")})
# The clock itself, and waits of threads for one another, which last as long on any clock.
CLOCK_FILES = frozenset(
    f"rust/engine/src/{name}.rs"
    for name in (
        "clock",
        "flush/sync",
        "lock/mod",
        "lock/times",
        "segment/prepare",
        "store/flush_rounds",
        "watermark",
    )
)
# `making` asks the kernel how much memory there is.
DISK_FILES = ("rust/engine/src/disk/", "rust/engine/src/mmap/", "rust/engine/src/store/making.rs")


def _machine_faults(files: list[rust_shape.RustFile]) -> list[str]:
    """Files that read the time or touch the disk by themselves."""
    faults = []
    for each in files:
        if each.path not in CLOCK_FILES and any(p[-2:] in CLOCK_CALLS for p in each.outer):
            faults.append(f"{each.path} reads the time")
        if not each.path.startswith(DISK_FILES) and any(p[:2] == ("std", "fs") for p in each.outer):
            faults.append(f"{each.path} touches files")
    return faults


def _size_faults(types: dict[tuple[str, str], dict[str, int]]) -> list[str]:
    """Types above the bounds: too many methods, or methods in too many files."""
    return [
        f"{key}: {sum(per_file.values())} methods in {len(per_file)} files"
        for key, per_file in sorted(types.items())
        if sum(per_file.values()) > METHODS_MAX or len(per_file) > FILES_MAX
    ]


def test_types_of_rust_are_small() -> None:
    assert _size_faults(shape_table.rust_types()) == []


def test_classes_of_python_are_small() -> None:
    assert _size_faults(shape_table.python_types()) == []


def test_files_of_rust_use_one_another_in_one_direction() -> None:
    assert circles.circles(rust_shape.uses(shape_table.rust_files())) == []


def test_modules_of_python_use_one_another_in_one_direction() -> None:
    assert circles.circles(python_shape.uses(shape_table.python_files())) == []


def test_time_and_files_are_touched_in_their_named_files() -> None:
    assert _machine_faults(shape_table.rust_files()) == []


@pytest.mark.parametrize(
    ("planted", "count"),
    [
        ("fn f() { std::time::Instant::now(); }", 1),
        ("use std::time::SystemTime; fn f() { SystemTime::now(); }", 1),
        ("use std::fs::File;", 1),
        ("fn f() { std::fs::read(p); Instant::now(); }", 2),
        ("use std::time::Duration; // Instant::now()", 0),
        ("#[cfg(test)] mod tests { use std::fs; }", 0),
    ],
)
def test_time_and_files_elsewhere_are_found(planted: str, count: int) -> None:
    for path, expected in (("rust/engine/src/store/a.rs", count), ("rust/engine/src/disk/a.rs", 0)):
        faults = _machine_faults([rust_shape.read(path, planted)])
        assert len([fault for fault in faults if "files" in fault or expected]) == expected


PLANTED = {
    "rust/a/src/lib.rs": "//! A.\nmod one;\nmod two;\npub use two::Two;\n",
    "rust/a/src/one.rs": """
        use crate::Two;
        pub struct One<T>(T);
        impl<T> One<T> {
            pub fn first_of(&self) {}
            #[cfg(test)]
            fn only_tested(&self) {}
        }
        #[cfg(test)]
        mod tests { impl super::One<u8> { fn in_a_test(&self) {} } }
    """,
    "rust/a/src/two.rs": """
        pub struct Two;
        impl Two { fn of(it: &impl Fn()) { it.first_of::<u8>(); } }
        impl Clone for Two { fn clone(&self) -> Self { Two } }
        impl crate::one::One<u16> { fn second(&self) {} }
    """,
}


def test_methods_are_counted_over_files_and_tests_are_not() -> None:
    files = [rust_shape.read(path, text) for path, text in PLANTED.items()]
    assert rust_shape.shapes(files) == {
        ("a", "One"): {"rust/a/src/one.rs": 1, "rust/a/src/two.rs": 1},
        ("a", "Two"): {"rust/a/src/two.rs": 1},
    }


@pytest.mark.parametrize(
    ("change", "is_circle"),
    [
        (("", ""), True),
        (("it.first_of::<u8>();", "it.first_of();"), True),
        (("impl crate::one::One<u16> { fn second(&self) {} }", ""), True),
        (("use crate::Two;", ""), False),
        (("use crate::Two;", "fn f() { super::two::g() }"), True),
        (("use crate::Two;", "fn f() { crate::Two::of() }"), True),
        (("use crate::Two;", "// use crate::Two;"), False),
    ],
)
def test_a_circle_is_found_through_paths_exports_and_calls(
    change: tuple[str, str], is_circle: bool
) -> None:
    files = [rust_shape.read(p, t.replace(*change) if change[0] else t) for p, t in PLANTED.items()]
    circle = [["rust/a/src/one.rs", "rust/a/src/two.rs"]]
    assert circles.circles(rust_shape.uses(files)) == (circle if is_circle else [])


def test_a_class_counts_with_what_it_inherits_of_the_package() -> None:
    texts = {
        "python/mqcore/a/__init__.py": "from mqcore.a.part import Part\n",
        "python/mqcore/a/part.py": "class Part:\n    def one(self): ...\n    def two(self): ...\n",
        "python/mqcore/b.py": (
            "from mqcore.a import Part\nclass Whole(Part, dict):\n    async def three(self): ...\n"
        ),
    }
    files = [python_shape.read(path, text) for path, text in texts.items()]
    assert python_shape.shapes(files)["mqcore.b", "Whole"] == {
        "python/mqcore/b.py": 1,
        "python/mqcore/a/part.py": 2,
    }
    assert circles.circles(python_shape.uses(files)) == []
    texts["python/mqcore/a/part.py"] += "def f():\n    from mqcore.b import Whole\n"
    files = [python_shape.read(path, text) for path, text in texts.items()]
    assert circles.circles(python_shape.uses(files)) == [
        ["python/mqcore/a/part.py", "python/mqcore/b.py"]
    ]


def test_sizes_above_the_rule_are_faults() -> None:
    assert _size_faults({("a", "T"): {"a.rs": METHODS_MAX + 1}})
    assert _size_faults({("a", "T"): dict.fromkeys("abcd", 1)})
    assert not _size_faults({("a", "T"): dict.fromkeys("abc", 13)})


def test_overloads_of_a_method_are_types_and_no_methods() -> None:
    text = """
class One:
    @overload
    def send(self, message: bytes) -> None: ...
    @overload
    def send(self, message: str) -> None: ...
    def send(self, message: bytes | str) -> None: ...
    async def close(self) -> None: ...
"""
    assert python_shape.read("python/mqcore/one.py", text).classes == {"One": ["send", "close"]}
