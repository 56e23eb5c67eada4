"""Writes the bill of materials of the wheel: CycloneDX 1.5, the same bytes for the same tree.

    python scripts/sbom.py target/dist/mqcore.cdx.json

What is linked into the extension (crates, from Cargo.lock by `cargo metadata`), and what installing
the wheel asks for (packages, from pyproject.toml: a range, no version). Tools that build and test
are in no wheel, and not in here. Asks no network.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# The crate whose library the wheel has.
_EXTENSION = "mqcore-bindings"
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def bill(root: Path = ROOT) -> dict[str, Any]:
    """Returns the bill of materials of a tree."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    targets = tomllib.loads((root / "deny.toml").read_text(encoding="utf-8"))["graph"]["targets"]
    reference = f"pkg:pypi/{project['name']}@{project['version']}"
    crates: dict[str, dict[str, Any]] = {}
    needs: dict[str, set[str]] = {}
    for target in targets:
        metadata = _metadata(root, target)
        _gather(metadata, _checksums(root), crates, needs)
    packages = [_package(text) for text in project["dependencies"]]
    direct = [each["bom-ref"] for each in packages] + [_reference(_EXTENSION, crates)]
    edges = {reference: sorted(direct), **{name: sorted(those) for name, those in needs.items()}}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": reference,
                "name": project["name"],
                "version": project["version"],
                "purl": reference,
                "licenses": [{"expression": project["license"]}],
            },
        },
        "components": [crates[name] for name in sorted(crates)] + packages,
        "dependencies": [{"ref": name, "dependsOn": edges[name]} for name in sorted(edges)],
    }


def _metadata(root: Path, target: str) -> dict[str, Any]:
    words = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={target}"]
    done = subprocess.run(words, cwd=root, check=True, capture_output=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _checksums(root: Path) -> dict[tuple[str, str], str]:
    lock = tomllib.loads((root / "Cargo.lock").read_text(encoding="utf-8"))
    return {
        (each["name"], each["version"]): each["checksum"]
        for each in lock["package"]
        if "checksum" in each
    }


def _gather(
    metadata: dict[str, Any],
    checksums: dict[tuple[str, str], str],
    crates: dict[str, dict[str, Any]],
    needs: dict[str, set[str]],
) -> None:
    """Adds what the extension links on one target."""
    packages = {each["id"]: each for each in metadata["packages"]}
    nodes = {each["id"]: each for each in metadata["resolve"]["nodes"]}
    waiting = [name for name, each in packages.items() if each["name"] == _EXTENSION]
    seen = set(waiting)
    while waiting:
        identity = waiting.pop()
        package = packages[identity]
        reference = _purl(package)
        crates[reference] = _crate(package, checksums)
        linked = list(_linked(nodes[identity]))
        needs.setdefault(reference, set()).update(_purl(packages[each]) for each in linked)
        waiting += [each for each in linked if each not in seen]
        seen.update(linked)


def _linked(node: dict[str, Any]) -> Iterator[str]:
    """Yields what is linked, without what only builds or tests."""
    for each in node["deps"]:
        if any(kind["kind"] is None for kind in each["dep_kinds"]):
            yield each["pkg"]


def _purl(package: dict[str, Any]) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def _reference(name: str, crates: dict[str, dict[str, Any]]) -> str:
    (found,) = (key for key, each in crates.items() if each["name"] == name)
    return found


def _crate(package: dict[str, Any], checksums: dict[tuple[str, str], str]) -> dict[str, Any]:
    reference = _purl(package)
    found = {
        "type": "library",
        "bom-ref": reference,
        "name": package["name"],
        "version": package["version"],
        "purl": reference,
        "scope": "required",
    }
    if package["license"]:
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = checksums.get((package["name"], package["version"]))
    if checksum is not None:
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return found


def _package(requirement: str) -> dict[str, Any]:
    found = _NAME.match(requirement)
    assert found is not None, requirement
    reference = f"pkg:pypi/{found[0]}"
    return {
        "type": "library",
        "bom-ref": reference,
        "name": found[0],
        "purl": reference,
        "scope": "required",
        "properties": [{"name": "mqcore:requires", "value": requirement}],
    }


def main() -> None:
    """Writes it."""
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(bill(), indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
