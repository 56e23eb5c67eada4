"""No test is lost: each listed one is in the sources, or its successor is named."""

from collections import Counter
from itertools import pairwise

from tidy import project
from tidy.list_tests import (
    CARGO,
    LISTED,
    SUCCESSORS,
    gone,
    name_of,
    names_in_sources,
    read_lines,
    rust_names,
    successors,
    unexplained,
)

GONE = "tests/a/test_b.py::test_gone"


def test_every_listed_test_is_there_or_names_its_successor() -> None:
    listed = read_lines(LISTED)
    assert len(listed) > 1_000
    present = names_in_sources(project.texts(".rs", ".py"))
    assert unexplained(listed, present, successors()) == []


def test_a_successor_is_named_of_listed_tests_alone() -> None:
    assert set(successors()) <= set(read_lines(LISTED))
    assert len(successors()) == len(read_lines(SUCCESSORS)), "one line each"


def test_a_test_that_is_gone_is_found_and_one_that_was_moved_is_not() -> None:
    listed = [
        GONE,
        "tests/a/test_b.py::test_moved",
        "crate src/lib.rs tests::twice",
        "c d e::twice",
    ]
    present = Counter({"test_moved": 1, "twice": 1})
    assert gone(listed, present) == ["crate src/lib.rs tests::twice", GONE]
    assert len(unexplained(listed[:1], present, {})) == 1
    assert len(unexplained(listed[:1], present, {GONE: "tests/c/test_d.py::test_none"})) == 1
    assert unexplained(listed[:1], present, {GONE: "tests/c/test_d.py::test_moved"}) == []
    assert unexplained(listed[:1], present, {GONE: "(the setting is no more)"}) == []


def test_tests_are_found_in_sources() -> None:
    rust = """
    #[test]
    #[ignore = "minutes: [long]"]
    fn appends() {}
    #[test]
    // Why it is like this.
    fn reads() {}
    fn helper() {}
    """
    python = (
        "def helper(): pass\nasync def test_one(): pass\nclass T:\n    def test_two(self): pass\n"
    )
    python += "TestTables = Tables.TestCase\n"
    found = names_in_sources([("a/b.rs", rust), ("tests/test_c.py", python), ("d.py", python)])
    assert found == Counter(["appends", "reads", "test_one", "test_two", "TestTables"])


def test_what_cargo_prints_is_read() -> None:
    lines = [
        "     Running unittests src/lib.rs (target/debug/deps/mqcore_engine-0a1b2c)",
        "commit_log::tests::appends: test",
        "1 test, 0 benchmarks",
        "     Running tests/crash/main.rs (target/debug/deps/crash-0a1b2c)",
        "cut::keeps: test",
        "   Doc-tests mqcore_engine",
        "rust/engine/src/lib.rs - open (line 12): test",
    ]
    found = list(rust_names(lines))
    assert found == [
        "mqcore_engine src/lib.rs commit_log::tests::appends",
        "crash tests/crash/main.rs cut::keeps",
    ]
    assert [name_of(test) for test in found] == ["appends", "keeps"]
    assert name_of("tests/a/test_b.py::TestTables::runTest") == "TestTables"


def test_packages_without_tests_have_none() -> None:
    left_out = {package for flag, package in pairwise(CARGO) if flag == "--exclude"}
    assert left_out == {"mqcore-bindings", "mqcore-benches"}
    folders = ("rust/bindings/", "benches/src/", "benches/benches/")
    sources = [(path, text) for path, text in project.texts(".rs") if path.startswith(folders)]
    assert len(sources) > 50
    assert names_in_sources(sources) == Counter()
