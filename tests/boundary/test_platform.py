"""Machines that cannot run the extension are refused with a sentence."""

import pytest

from mqcore.native.platform import check, refusal


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("libc", ["glibc 2.28", "glibc 2.36", "glibc 3.0"])
def test_supported_machines_pass(machine: str, libc: str) -> None:
    assert refusal("linux", machine, libc) is None


@pytest.mark.parametrize(
    ("system", "machine", "libc", "named"),
    [
        ("darwin", "arm64", "", "darwin"),
        ("linux", "riscv64", "glibc 2.36", "riscv64"),
        ("linux", "x86_64", "", "another C library"),
        ("linux", "x86_64", "glibc 2.27", "glibc 2.27"),
    ],
)
def test_others_are_refused_with_the_reason(
    system: str, machine: str, libc: str, named: str
) -> None:
    why = refusal(system, machine, libc)
    assert why is not None
    assert named in why
    assert "Linux x86-64 and aarch64 with glibc 2.28" in why


def test_this_machine_passes() -> None:
    check()
