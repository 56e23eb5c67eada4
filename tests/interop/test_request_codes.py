"""The official releases' own `RequestCode` shows whether our table of request codes is whole."""

import re
import subprocess

import pytest

from interop.official import Official
from mqcore.remoting import RequestCode

pytestmark = pytest.mark.java

_CLASSES = {
    "4": "org.apache.rocketmq.common.protocol.RequestCode",
    "5": "org.apache.rocketmq.remoting.protocol.RequestCode",
}
_CONSTANT = re.compile(r"static final (?:int|short) (\w+) = (\d+);")
_TIMEOUT_S = 60.0


def official_codes(official: Official) -> dict[str, int]:
    """Returns the numbers of a release by name."""
    name = _CLASSES[official.version[0]]
    done = subprocess.run(
        ["javap", "-constants", "-cp", official._class_path, name],
        capture_output=True,
        text=True,
        check=True,
        timeout=_TIMEOUT_S,
    )
    return {match[1]: int(match[2]) for match in _CONSTANT.finditer(done.stdout)}


def version_of(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def test_a_release_has_exactly_the_codes_that_the_table_gives_it(release: Official) -> None:
    number = version_of(release.version)
    wanted = {
        code.name: int(code)
        for code in RequestCode
        if version_of(code.row.since) <= number
        and (not code.row.until or number <= version_of(code.row.until))
    }
    assert official_codes(release) == wanted
