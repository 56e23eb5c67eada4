"""Every crate of the build has an allowed licence (deny.toml) and comes from the one registry."""

import json
import subprocess
import tomllib
from functools import cache
from typing import Any

import pytest

from tidy.licences import is_allowed
from tidy.project import ROOT

ALLOWED = frozenset({"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"})


@cache
def packages() -> list[dict[str, Any]]:
    """Returns every package of the lock file as cargo describes it."""
    done = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)["packages"]
    return found


def licences(target: str) -> dict[str, str]:
    """Returns the licence of every crate that a target is built of, by name and version."""
    words = ["cargo", "tree", "--locked", "--workspace", "--edges=normal,build,dev"]
    words += [f"--target={target}", "--prefix=none", "--no-dedupe", "--format={p}|{l}"]
    done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    rows = [line.rpartition("|") for line in done.stdout.splitlines() if line]
    return {name: licence for name, _bar, licence in rows}


def test_every_crate_has_an_allowed_licence() -> None:
    rules = tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))
    allowed = frozenset(rules["licenses"]["allow"])
    for target in rules["graph"]["targets"]:
        found = licences(target)
        assert len(found) > 10
        refused = {
            name: licence for name, licence in found.items() if not is_allowed(licence, allowed)
        }
        assert refused == {}, target


def test_every_crate_is_ours_or_from_the_registry_of_crates() -> None:
    foreign = [
        package["id"]
        for package in packages()
        if package["source"] not in (None, "registry+https://github.com/rust-lang/crates.io-index")
    ]
    assert foreign == []


@pytest.mark.parametrize(
    "fine",
    [
        "MIT",
        "MIT OR GPL-3.0-only",
        "MIT/GPL-3.0-only",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception",
    ],
)
def test_an_allowed_licence_is_let_in(fine: str) -> None:
    assert is_allowed(fine, ALLOWED)


@pytest.mark.parametrize(
    "planted", ["", "GPL-3.0-only", "MIT AND GPL-3.0-only", "(MIT OR Apache-2.0) AND NCSA"]
)
def test_a_licence_not_allowed_is_found(planted: str) -> None:
    assert not is_allowed(planted, ALLOWED)
