"""The book builds without a warning, its links lead somewhere, and reading it needs no network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mqcore
import mqcore.admin
import mqcore.aio
import mqcore.spark
import mqcore.testing

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
CHECK = ROOT / "scripts" / "book" / "check_site.py"
# On a page of their own, the exceptions; and a text.
NO_ENTRIES = {"__version__", "errors", "MQError", "RecordError", "SendError", "StoreError"}
# A module: the fixtures of pytest.
MODULES = {"plugin"}


def run(*line: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in the tree; returns how it ended."""
    return subprocess.run(
        [sys.executable, *line],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The book, without the documentation of the crates: that takes minutes."""
    made = tmp_path_factory.mktemp("book")
    built = run("-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(made))
    assert built.returncode == 0, built.stdout
    return made


@pytest.mark.slow
def test_links_lead_somewhere_and_nothing_is_fetched(site: Path) -> None:
    checked = run(str(CHECK), str(site), "--without", "rustdoc")
    assert checked.returncode == 0, checked.stdout


@pytest.mark.slow
def test_pages_that_are_made_are_not_empty(site: Path) -> None:
    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert "mqcore store verify" in commands
    assert "--namesrv ADDR" in commands
    assert "UNSET" not in commands
    assert "ConnectionLostError" in (site / "reference" / "errors.html").read_text(encoding="utf-8")
    assert (site / "source" / "rust" / "record" / "src" / "layout.rs.html").is_file()


def test_the_tables_of_formats_are_those_of_the_modules() -> None:
    checked = run(str(ROOT / "scripts" / "book" / "formats.py"), "--check")
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("page", "module", "names"),
    [
        ("mqcore.md", "mqcore", mqcore.__all__),
        ("aio.md", "mqcore.aio", mqcore.aio.__all__),
        ("admin.md", "mqcore.admin", mqcore.admin.__all__),
        ("testing.md", "mqcore.testing", mqcore.testing.__all__),
        ("spark.md", "mqcore.spark", mqcore.spark.__all__),
    ],
)
def test_the_reference_has_every_public_name(page: str, module: str, names: list[str]) -> None:
    text = (REFERENCE / page).read_text(encoding="utf-8")
    entries = re.findall(rf"^::: {re.escape(module)}\.(\w+)$", text, re.MULTILINE)
    assert sorted(set(entries) - MODULES) == sorted(set(names) - NO_ENTRIES)


@pytest.mark.parametrize(
    "planted",
    [
        '<a href="absent.html">x</a>',
        '<a href="#absent">x</a>',
        '<a href="../index.html">x</a>',
        '<img src="https://example.org/x.png">',
        '<script src="//example.org/x.js"></script>',
    ],
)
def test_a_planted_fault_is_found(planted: str, tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    page.write_text('<p id="here"><a href="#here">x</a> <a href="https://example.org">x</a></p>')
    assert run(str(CHECK), str(tmp_path)).returncode == 0
    page.write_text(planted)
    assert run(str(CHECK), str(tmp_path)).returncode == 1
