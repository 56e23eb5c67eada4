"""The names of the face: all there, and imported when they are first used."""

import subprocess
import sys

import pytest

import mqcore


@pytest.mark.parametrize("name", [*mqcore.__all__, "aio"])
def test_every_name_is_there(name: str) -> None:
    assert getattr(mqcore, name) is not None
    assert name in dir(mqcore)


def test_what_is_not_there_is_reported() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = mqcore.Nonsense  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("Broker", "mqcore.testing.Broker"),
        ("Consumer", "mqcore.PullConsumer"),
        ("Inbox", "testing"),
    ],
)
def test_what_is_elsewhere_is_named(name: str, instead: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}': use .*{instead}"):
        getattr(mqcore, name)


def test_importing_the_package_loads_neither_store_nor_event_loop() -> None:
    code = (
        "import sys, mqcore; "
        "print([name for name in ('asyncio', 'mqcore.native', 'ssl') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
