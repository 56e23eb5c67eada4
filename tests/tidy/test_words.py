"""Names and prose keep to the field's own words.

cd tests && python -m tidy.test_words FOLDER    # the faults of a folder, with what to use
"""

import sys

import pytest

from tidy import project, word_rules

# Lists of names as they were, the rule itself, and what others wrote.
APART = ("tests/listed.txt", "tests/successors.txt", "tests/tidy/word_rules.py", "Cargo.lock")
KINDS = (".py", ".pyi", ".rs", ".md", ".toml", ".yml", "Makefile")
# Folders that are counted one by one.
_DEPTH = {"rust": 2, "python": 3, "tests": 2, "benches": 1, "docs": 1, "scripts": 1}


def folder_of(path: str) -> str:
    """Returns the folder under which a file is counted."""
    parts = path.split("/")
    depth = _DEPTH.get(parts[0], 1)
    return "/".join(parts[:depth]) if len(parts) > depth else "/".join(parts[:-1]) or "."


def found() -> dict[str, list[str]]:
    """Returns the faults of every folder."""
    faults: dict[str, list[str]] = {}
    for path, text in project.texts(*KINDS):
        if path not in APART:
            faults.setdefault(folder_of(path), []).extend(word_rules.faults(path, text))
    return faults


def test_names_and_prose_keep_to_the_words_of_the_field() -> None:
    faults = found()
    assert sum(map(len, faults.values())) == 0, faults


@pytest.mark.parametrize(
    ("path", "planted", "count"),
    [
        ("a.py", "def told() -> None: ...", 1),
        ("a.py", "x = 'told'  # not told", 1),
        ("a.py", '"""What it says.\n\nHouse.\n"""', 2),
        ("a.py", "x = machine_room", 0),
        ("a.rs", "fn f(place: u64) { g(place) }", 2),
        ("a.rs", "// The house.\nfn f() {}", 1),
        ("a.rs", 'fn f() { println!("{told}", told = 1) }', 1),
        ("a.md", "Who tells whom.", 1),
        ("a.md", "Machine rooms, in place.", 0),
        ("a.md", "`mqcore_deduplication_told_apart_total`", 0),
        ("a.md", "told_apart", 1),
    ],
)
def test_a_banned_word_is_found(path: str, planted: str, count: int) -> None:
    assert len(word_rules.faults(path, planted)) == count


def main() -> None:
    """Prints the faults of folders."""
    for folder, faults in sorted(found().items()):
        if any(folder.startswith(each) for each in sys.argv[1:]):
            print("\n".join(faults))


if __name__ == "__main__":
    main()
