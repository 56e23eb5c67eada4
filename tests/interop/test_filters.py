"""The golden answers about SQL92 expressions are still those of the official filter."""

import json
import re
from pathlib import Path

import pytest

from interop.filter_cases import MAPS, official_answers, official_bits, official_faults
from mqcore.broker.bloom import BloomFilter
from mqcore.native import sql_fault

pytestmark = pytest.mark.java

VECTORS = Path(__file__).parents[1] / "golden" / "vectors" / "filters.json"
# Words that 4.9 does not know.
NEWER = ("CONTAINS", "STARTSWITH", "ENDSWITH")


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
def test_the_official_filter_answers_as_in_the_vectors(version: str) -> None:
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))
    assert vectors["maps"] == MAPS
    cases = vectors["cases"]
    if version.startswith("4"):
        cases = [case for case in cases if not any(word in case[0].upper() for word in NEWER)]
    answers = official_answers([text for text, _answer in cases], version)
    assert dict(zip((text for text, _ in cases), answers, strict=True)) == dict(cases)


def test_what_is_wrong_is_at_the_official_parser_s_position() -> None:
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))
    wrong = [text for text, answer in vectors["cases"] if answer == "!" and text]
    wrong += [
        "a = 1 AND\nb >> 2",
        "a\t=\t\t= 1",
        "a =\r\n= 1",
        "a =\r= 1",
        "a = 1 OR\n\n ) ",
        "a = '\U0001f600' = =",
    ]
    located = 0
    for text, error in zip(wrong, official_faults(wrong), strict=True):
        found = re.search(r"Encountered .*? at (line \d+, column \d+)\.", error)
        fault = sql_fault(text)
        assert fault is not None
        if found is not None and "Lexical" not in error:
            located += 1
            assert fault.endswith(found[1]), (text, error)
    assert located > 40


def test_our_bits_are_the_official_ones() -> None:
    texts = [
        "g#t",
        "",
        "CG_orders#orders",
        "a" * 15,
        "b" * 16,
        "c" * 17,
        "%RETRY%g#ä日本",
        "x" * 400,
    ]
    sizes = [(20, 32), (20, 64), (1, 1), (50, 1000), (10, 128), (33, 7)]
    asked = [(percent, count, text) for percent, count in sizes for text in texts]
    official = official_bits(asked)
    for (percent, count, text), bits in zip(asked, official, strict=True):
        ours = BloomFilter.of(percent, count).bits_of(text)
        assert [ours.count, *ours.positions] == bits, (percent, count, text)
