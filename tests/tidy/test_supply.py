"""What is taken from others: named with a version and a hash, as is what the wheel is made of."""

import hashlib
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from tidy.project import ROOT, paths

_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?==([^\s;\\]+)", re.MULTILINE)
_HASH = "--hash=sha256:"
_FOLDER = ROOT / "requirements"


def _name(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def _pins(path: Path) -> dict[str, str]:
    """Returns versions by package."""
    return {_name(found[1]): found[2] for found in _PIN.finditer(path.read_text("utf-8"))}


def test_every_package_that_is_installed_has_a_version_and_hashes() -> None:
    files = sorted(_FOLDER.glob("*.txt"))
    assert len(files) >= 6
    for path in files:
        # Lines that go on are one; comments stand alone.
        lines = path.read_text("utf-8").replace("\\\n", " ").splitlines()
        entries = [line for line in lines if line and not line.lstrip().startswith("#")]
        assert entries, path.name
        bare = [line[:60] for line in entries if _HASH not in line or not _PIN.match(line)]
        assert bare == [], path.name


def test_what_we_chose_is_what_is_installed() -> None:
    """`make pins` has run since the choice was changed."""
    for chosen in sorted(_FOLDER.glob("*.in")):
        wanted, found = _pins(chosen), _pins(chosen.with_suffix(".txt"))
        assert wanted, chosen.name
        assert wanted.items() <= found.items(), f"{chosen.name}: make pins"


def test_packages_in_several_files_have_one_version() -> None:
    """They are installed into one environment."""
    seen: dict[str, str] = {}
    for path in sorted(_FOLDER.glob("*.in")):
        # It has an environment of its own.
        if path.stem == "advisories":
            continue
        for name, version in _pins(path.with_suffix(".txt")).items():
            assert seen.setdefault(name, version) == version, (path.name, name)


def test_packages_are_installed_by_their_hashes_alone() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in makefile.splitlines() if "pip install" in line]
    assert lines
    assert [line for line in lines if "--require-hashes" not in line] == []
    assert "cargo install" not in re.sub(r"cargo install \S+ --version", "", makefile)


def test_scripts_of_others_are_those_of_the_table() -> None:
    page = (ROOT / "docs" / "supply-chain.md").read_text("utf-8")
    rows = re.findall(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|$", page, re.MULTILINE)
    for path, digest in rows:
        assert hashlib.sha256((ROOT / path).read_bytes()).hexdigest() == digest, path
    ours = {"python/mqcore/console/static/console.js", "tests/console/contrast.js"}
    assert {path for path in paths() if path.endswith((".js", ".wasm"))} == ours | dict(rows).keys()


def _sbom() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "scripts" / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_bill_of_materials_has_what_is_linked_and_nothing_else() -> None:
    found: dict[str, Any] = _sbom().bill()
    assert found == _sbom().bill()
    names = {each["name"] for each in found["components"]}
    assert {"mqcore-engine", "pyo3", "rustls", "ring", "click"} <= names
    # What tests and benches are built of.
    assert not {"criterion", "proptest", "loom", "pytest"} & names
    references = [each["bom-ref"] for each in found["components"]]
    assert len(references) == len(set(references))
    known = {*references, found["metadata"]["component"]["bom-ref"]}
    edges = found["dependencies"]
    assert {each["ref"] for each in edges} <= known
    assert {other for each in edges for other in each["dependsOn"]} <= known
    foreign = [each for each in found["components"] if each["purl"].startswith("pkg:cargo/")]
    foreign = [each for each in foreign if not each["name"].startswith("mqcore-")]
    assert all(each["hashes"] and each["licenses"] for each in foreign)
