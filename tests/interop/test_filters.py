"""The golden answers about SQL92 expressions are still those of the official filter."""

import json
from pathlib import Path

import pytest
from interop.filter_cases import MAPS, official_answers

VECTORS = Path(__file__).parents[1] / "golden" / "vectors" / "filters.json"
# Words that 4.9 does not know.
NEWER = ("CONTAINS", "STARTSWITH", "ENDSWITH")


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
def test_the_official_filter_answers_as_the_vectors_say(version: str) -> None:
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))
    assert vectors["maps"] == MAPS
    cases = vectors["cases"]
    if version.startswith("4"):
        cases = [case for case in cases if not any(word in case[0].upper() for word in NEWER)]
    said = official_answers([text for text, _answer in cases], version)
    assert dict(zip((text for text, _ in cases), said, strict=True)) == dict(cases)
