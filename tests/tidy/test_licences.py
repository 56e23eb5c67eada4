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


def rules() -> dict[str, Any]:
    """Returns what `deny.toml` allows."""
    return tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))


@cache
def packages() -> list[dict[str, Any]]:
    """Returns every package that a target of `deny.toml` is built of, as cargo describes it."""
    targets = [f"--filter-platform={target}" for target in rules()["graph"]["targets"]]
    assert targets
    done = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked", *targets],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)["packages"]
    return found


def test_every_crate_has_an_allowed_licence() -> None:
    allowed = frozenset(rules()["licenses"]["allow"])
    assert len(packages()) > 10
    refused = [
        f"{package['name']} {package['version']}: {package['license']}"
        for package in packages()
        if not is_allowed(package["license"] or "", allowed)
    ]
    assert refused == []


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
