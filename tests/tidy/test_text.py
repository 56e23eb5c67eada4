"""Every text keeps its bounds, and documents name only what is there."""

import pytest

from tidy import project, text_rules

CODE = (".rs", ".py", ".pyi", ".java")
# The stub of the extension declares one module, and a module has one stub.
STUB = "python/mqcore/native/_native.pyi"
# Read by machines and written by them: addresses belong in it.
GENERATED = frozenset({"Cargo.lock", "LICENSE"})
PROSE = (".rs", ".py", ".pyi", ".java", ".md", ".toml", ".xml", ".sh", ".txt", "Makefile", "run")
# Written in pieces, so that this file does not break the rule it tests.
MARKER = "TO" + "DO"


def test_files_are_short() -> None:
    code = [(p, t) for p, t in project.texts(*CODE) if p != STUB]
    assert [f for p, t in code for f in text_rules.length_faults(p, t)] == []


@pytest.mark.parametrize(("folder", "ending"), [("rust/", ".rs"), ("python/", ".py")])
def test_most_files_are_much_shorter(folder: str, ending: str) -> None:
    lengths = [text.count("\n") for path, text in project.texts(ending) if path.startswith(folder)]
    assert lengths
    assert text_rules.p90_lines(lengths) < text_rules.FILE_LINES_P90_MAX


def test_markers_of_unfinished_work_have_a_reason() -> None:
    assert [f for p, t in project.texts(*PROSE) for f in text_rules.marker_faults(p, t)] == []


def test_no_text_belongs_to_one_machine() -> None:
    texts = [(p, t) for p, t in project.texts(*PROSE) if p not in GENERATED]
    assert texts
    assert [f for p, t in texts for f in text_rules.machine_faults(p, t)] == []


def test_documents_name_only_files_that_exist() -> None:
    tops = frozenset(path.split("/", 1)[0] for path in project.paths())
    documents = [(p, t) for p, t in project.texts(".md") if "/" not in p or p.startswith("docs/")]
    assert {"README.md", "ARCHITECTURE.md", "CHANGELOG.md"} <= {p for p, _ in documents}
    faults = [
        fault
        for path, text in documents
        for fault in text_rules.document_faults(
            path, text, tops, lambda name: (project.ROOT / name).exists()
        )
    ]
    assert faults == []


def test_a_long_file_is_found() -> None:
    assert text_rules.length_faults("a.rs", "x\n" * 501) == ["a.rs: 501 lines"]
    assert text_rules.length_faults("a.rs", "x\n" * 500) == []


def test_the_length_of_nine_of_ten_files() -> None:
    assert text_rules.p90_lines(list(range(1, 11))) == 9
    assert text_rules.p90_lines([400, 1, 1, 1, 1, 1, 1, 1, 1, 1]) == 1
    assert text_rules.p90_lines([7]) == 7


@pytest.mark.parametrize("planted", [MARKER, f"// {MARKER}: later", "# FIX" + "ME", "X" * 3])
def test_a_marker_without_a_reason_is_found(planted: str) -> None:
    assert text_rules.marker_faults("a.py", planted)


def test_a_marker_with_a_reason_and_a_name_like_one_are_fine() -> None:
    assert not text_rules.marker_faults("a.py", f"# {MARKER}: needs a kernel newer than 6.1")
    assert not text_rules.marker_faults("a.py", "SCHEDULE_TOPIC_XXXX")


@pytest.mark.parametrize(
    "planted", ["cd /" + "work/x", "path='/" + "root/.cache'", "https://" + "pypi" + ".org/simple"]
)
def test_what_belongs_to_a_machine_is_found(planted: str) -> None:
    assert text_rules.machine_faults("a.py", planted)


def test_a_folder_of_ours_with_such_a_name_is_fine() -> None:
    assert not text_rules.machine_faults("a.py", "store/root/x and {dir}/work/x")


@pytest.mark.parametrize(
    "planted", ["see `rust/nothing.rs`", "`NOTHING.md`", "[more](docs/nothing.md#part)"]
)
def test_a_document_that_names_nothing_is_found(planted: str) -> None:
    tops = frozenset({"rust", "docs"})
    assert text_rules.document_faults("README.md", planted, tops, lambda _: False)


@pytest.mark.parametrize(
    "fine", ["`config/topics.json`", "`rust/TOPIC/x`", "`make test`", "```\n`rust/no.rs`\n```"]
)
def test_what_is_no_path_of_ours_is_not_looked_for(fine: str) -> None:
    tops = frozenset({"rust", "docs"})
    assert not text_rules.document_faults("README.md", fine, tops, lambda _: False)
