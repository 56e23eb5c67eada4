"""Expressions and maps of properties that the official filter was asked about.

    python -m interop.filter_cases > ../golden/vectors/filters.json     # in tests/

The file is read by `rust/fast_path/tests/fast_path/sql_vectors.rs`; `test_filters.py` asks again
whether the official filter still answers so. Expressions are those below, and `RANDOM_CASES` more
that a seeded generator puts together from the grammar's words, most of them legal and some not.
"""

import base64
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from interop.official import official_release

# CONTAINS, STARTSWITH and ENDSWITH came with 5.x.
VERSION = "5.3.3"
RANDOM_CASES = 500
_SEED = 20_251_122
_DEPTH_MAX = 4

# One property, `a`, with many values; then `a` and `b` together; then names of all kinds.
MAPS: list[dict[str, str]] = [
    {},
    *(
        {"a": value}
        for value in [
            *("0", "1", "2", "5", "-5", "+5", "007", "10", "2147483647", "2147483648"),
            *("-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808"),
            *("1.0", "1.5", "-1.5", "1e3", "1E-3", ".5", "5.", "1f", "2.0d", "1L", "0.0", "-0.0"),
            *("NaN", "-NaN", "Infinity", "-Infinity", "nan", "inf", "1e400", "0x1p3", "0x1.8p0"),
            *("0x10", " 5", "5 ", "\t5\n", "1_0", "--5", "5-", "e5", "1e", ".", "-"),
            *("true", "TRUE", "false", "yes", "null", "x", "X", "abc", "xabcx", "abcabc"),
            *("it's", "''", "'", "ä", "日本", "\U0001f600", "\uff11\uff12", "\u0665", "a b"),
        ]
    ),
    {"a": "1", "b": "2"},
    {"a": "2", "b": "1"},
    {"a": "1", "b": "x"},
    {"a": "x", "b": "x"},
    {"a": "5.0", "b": "5"},
    {"b": "1"},
    {"A": "1", "_x$9": "7", "$": "d", "LIKE": "k", "TAGS": "t", "between_": "1"},
]

# Both sides of an operator.
_OPERANDS = [
    *("a", "b", "(a)", "+a", "-a", "-(a)", "c"),
    *("0", "1", "5", "-5", "+5", "- -5", "007", "5l", "2147483647", "2147483648", "-2147483648"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "0L"),
    *("1.5", "-1.5", ".5", "5.", "1e3", "5E-1", "0.0", "1e400", "4.9e-324", "1e-400", "1.0"),
    *("'1'", "'x'", "''", "'it''s'", "'true'", "'5'", "-'x'", "'ä'"),
    *("TRUE", "false", "NULL", "-TRUE", "(a = 1)", "-(a = 1)", "NOT a", "(a IS NULL)"),
]
_OPERATORS = ["=", "<>", ">", ">=", "<", "<="]
_TESTS = [
    "IS NULL",
    "IS NOT NULL",
    "BETWEEN 1 AND 5",
    "BETWEEN 5 AND 1",
    "BETWEEN 1.5 AND 5",
    "BETWEEN 5 AND -5",
    "BETWEEN -5 AND 5",
    "BETWEEN 1 AND 2147483648",
    "BETWEEN '1' AND '5'",
    "BETWEEN NULL AND 5",
    "BETWEEN b AND 5",
    "BETWEEN 1 AND b",
    "BETWEEN b AND c",
    "BETWEEN TRUE AND FALSE",
    "BETWEEN 1 AND (b = 2)",
    "NOT BETWEEN 1 AND 5",
    "NOT BETWEEN 5 AND 1",
    "NOT BETWEEN b AND 5",
    "NOT BETWEEN 'x' AND 5",
    "IN ('1')",
    "IN ('x','abc' , 'it''s')",
    "IN ('1','2','5','x','X','abc','ä','true')",
    "IN ('')",
    "IN ()",
    "IN (1)",
    "IN 'x'",
    "NOT IN ('1','x')",
    "NOT IN ('1','2','5','x','X','abc','ä','true')",
    "CONTAINS 'b'",
    "CONTAINS ''",
    "CONTAINS 'ä'",
    "CONTAINS ''''",
    "CONTAINS b",
    "CONTAINS 1",
    "NOT CONTAINS 'b'",
    "NOT CONTAINS ''",
    "STARTSWITH 'a'",
    "STARTSWITH ''",
    "NOT STARTSWITH 'a'",
    "startswith '日'",
    "ENDSWITH 'c'",
    "EndsWith 'x'",
    "NOT ENDSWITH 'c'",
    "NOT ENDSWITH ''",
]
_WHOLE = [
    *("", " ", "a", "(a)", "NOT a", "NOT NOT a", "TRUE", "FALSE", "NULL", "NOT NULL", "NOT TRUE"),
    *("5", "'x'", "-a", "+a", "a AND b", "a OR TRUE", "TRUE OR a", "NULL OR TRUE", "NULL AND TRUE"),
    *("NULL AND FALSE", "FALSE OR NULL", "TRUE AND 5", "5 OR TRUE", "TRUE AND a", "NOT 5"),
    # What throws ends all, on either side; a decided AND or OR looks no further.
    *("a > 1 OR TRUE", "TRUE OR a > 1", "a > 1 AND FALSE", "FALSE AND a > 1", "NOT (a > 1)"),
    *("(a > 1) IS NULL", "-(a > 1) IS NULL", "-(a = 'x') IS NULL", "(a = TRUE) = (b = TRUE)"),
    *("c > (a = 1)", "c > -(a > 1)", "a > b", "a < b", "a >= b", "a <= b", "a = b", "a <> b"),
    *("TRUE = a", "a = TRUE", "a <> TRUE", "TRUE = 1", "1 = TRUE", "TRUE = FALSE", "FALSE = FALSE"),
    *("NULL = a", "a = NULL", "NULL IS NULL", "1 IS NULL", "c = c", "c <> 1", "NOT (c = 1)"),
    *("a = 1 = TRUE", "a = 1 = 2", "a = 1 IS NULL", "a IS NULL IS NULL", "a IS NULL = TRUE"),
    *("a > 1 > 2", "a IN ('x') IN ('y')", "a CONTAINS 'x' CONTAINS 'y'", "a > 1 CONTAINS 'x'"),
    *("'abc' CONTAINS 'b'", "5 CONTAINS '5'", "NULL CONTAINS 'x'", "'5' = 5", "5 = '5'", "'x' = 5"),
    *("'a' = 'a'", "'a' = 'b'", "'1' = '1.0'", "5 = 5.0", "5.0 = 5", "2147483648 = 2147483648.0"),
    *("9007199254740993 = 9007199254740992.0", "1 > 2", "2 > 1", "1.5 >= 1", "2147483648 > 1"),
    # Precedence.
    *(
        "a = 1 OR b = 2 AND a = 2",
        "(a = 1 OR b = 2) AND a = 2",
        "NOT a = 1",
        "NOT (a = 1) AND b = 2",
    ),
    *(
        "a = 1 AND b = 2 OR a = 2",
        "a = 1 AND NOT b = 2",
        "a = b > 1",
        "a > 1 = b > 1",
        "NOT a IS NULL",
    ),
    *("a BETWEEN 1 AND 5 AND b = 2", "a BETWEEN 1 AND b AND b = 2", "a NOT IN ('1') OR b IN ('1')"),
    # What follows is not read, but for one token.
    *("a = 1 garbage", "a = 1 garbage '", "a = 1 #", "a = 1 'x", "a LIKE 'x'", "a = 1)", "a = 007"),
    *(
        "a = 1 b = 2",
        "a = 1;",
        "a + 1 > 2",
        "a = 1 + 1",
        "a == 1",
        "a != 1",
        "a = 1 /* x",
        "a = 0L",
    ),
    *(
        "a = 5ll",
        "a = 1.5.5",
        "a = 1..5",
        "a = 0x10",
        "a = 1e",
        "a = 'x''",
        "a = 'x'''",
        "a = ''''",
    ),
    # Comments, white space, case of words.
    *("a = 1 -- end", "a = 1 -- end\n", "a = -- c\n 1", "a = -- c\r1", "a = -- c\r\n1", "a = --1"),
    *(
        "/* c */ a = 1",
        "a /**/ = /***/ 1",
        "a = /* * / */ 1",
        "a = /*/ 1",
        "a = 1 /* -- */ OR b = 2",
    ),
    *("a\t=\n1\r\f", "a=1and b=2", "a = 1AND b = 2", "a=1or(b=2)", "A = 1", "not a is not null"),
    *("a\u00a0= 1", "a = '\n'", "ä = 1", "a = 'x' /* ä */", "a\u3000= 1", "\ufeffa = 1"),
    *("_x$9 = 7", "$ = 'd'", "LIKE = 'k'", "9a = 1", "TAGS = 't'", "between_ = 1", "BETWEEN = 1"),
    *(
        "In = 1",
        "IS NULL",
        "a IS",
        "a IS NOT",
        "a IS TRUE",
        "a NOT NULL",
        "a NOT b",
        "a NOT",
        "NOT",
    ),
    *("(a = 1", "a = 1))", "()", "(", ")", "a =", "= 1", "a > > 1", "a < > 1", "a > = 1", "a <>1"),
    *(
        "a IN ('x'",
        "a IN ('x',)",
        "a IN (,'x')",
        "a IN ('x' 'y')",
        "a BETWEEN 1",
        "a BETWEEN 1 AND",
    ),
    *(
        "a BETWEEN 1 OR 5",
        "(a, b)",
        "a,b",
        "a IN (b)",
        "('x') = 'x'",
        "((((a)))) IN ('x')",
        "- a IS NULL",
    ),
    *(
        "+ + a = 1",
        "+ - a IS NULL",
        "- + 5 = -5",
        "-(5) = -5",
        "-(-(5)) = 5",
        "+(a = 1)",
        "+TRUE",
        "+'x' = 'x'",
    ),
    "(" * 100 + "a = 1" + ")" * 100,
    " AND ".join(["a = 1"] * 300),
    " OR ".join(f"a = {number}" for number in range(300)),
]


def expressions() -> list[str]:
    """Returns every expression, each once, in a stable order."""
    made = [
        f"{left} {word} {right}"
        for left in _OPERANDS[:7]
        for word in _OPERATORS
        for right in _OPERANDS
    ]
    made += [f"{left} {word} a" for left in _OPERANDS[7:] for word in _OPERATORS]
    made += [
        f"{left} {test}"
        for left in (*_OPERANDS[:7], "'abc'", "5", "TRUE", "(a = 1)")
        for test in _TESTS
    ]
    return list(dict.fromkeys([*_WHOLE, *made, *_random_expressions()]))


def _random_expressions() -> Iterator[str]:
    dice = random.Random(_SEED)
    for _ in range(RANDOM_CASES):
        yield _any(dice, 0)


def _any(dice: random.Random, depth: int) -> str:
    pick = dice.random()
    if depth >= _DEPTH_MAX or pick < 0.35:
        left = dice.choice(_OPERANDS[:4] if pick < 0.3 else _OPERANDS)
        if dice.random() < 0.5:
            return f"{left} {dice.choice(_TESTS)}"
        right = dice.choice(["1", "5", "-5", "1.5", "'x'", "'1'", "b"] if pick < 0.3 else _OPERANDS)
        return f"{left} {dice.choice(_OPERATORS)} {right}"
    if pick < 0.5:
        return f"NOT ({_any(dice, depth + 1)})"
    joined = f" {dice.choice(['AND', 'OR', 'and', 'Or'])} "
    parts = [_any(dice, depth + 1) for _ in range(dice.choice([2, 2, 3]))]
    return joined.join(f"({part})" if dice.random() < 0.5 else part for part in parts)


def official_answers(texts: Iterable[str], version: str = VERSION) -> list[str]:
    """Returns the official filter's answers to expressions: a letter per map, or `!`.

    Raises:
        OfficialError: The release cannot be made ready.
    """
    lines = [
        "\t".join(["M", *(_coded(each) for pair in map_.items() for each in pair)]) for map_ in MAPS
    ]
    lines += [f"E\t{_coded(text)}" for text in texts]
    return _asked(lines, version)


def official_faults(texts: Iterable[str], version: str = VERSION) -> list[str]:
    """Returns the official filter's errors of expressions that it does not compile.

    Raises:
        OfficialError: The release cannot be made ready.
    """
    return _asked((f"P\t{_coded(text)}" for text in texts), version)


def official_bits(sizes: Iterable[tuple[int, int, str]], version: str = VERSION) -> list[list[int]]:
    """Returns the bits of texts in the official Bloom filter.

    Args:
        sizes: Its percentage of false hits, how many texts are expected, and a text.
        version: The release.

    Returns:
        For each how many bits there are, then the positions of the text's.

    Raises:
        OfficialError: The release cannot be made ready.
    """
    rows = (map(_coded, map(str, size)) for size in sizes)
    bits = _asked(("\t".join(["B", *row]) for row in rows), version)
    return [[int(number) for number in line.split()] for line in bits]


def _asked(lines: Iterable[str], version: str) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="mqcore-filters-") as home:
        done = subprocess.run(
            official_release(version).java("mqcore.interop.Filters", Path(home)),
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=True,
        )
    return done.stdout.splitlines()


def _coded(text: str) -> str:
    return base64.b64encode(text.encode("utf-8")).decode("ascii")


def vectors() -> str:
    """Returns the content of the golden file."""
    texts = expressions()
    cases = [json.dumps(case) for case in zip(texts, official_answers(texts), strict=True)]
    maps = [json.dumps(each) for each in MAPS]
    origin = f"rocketmq-filter {VERSION}, asked by tests/interop/filter_cases.py"
    return (
        f'{{"origin": {json.dumps(origin)},\n"maps": [\n'
        + ",\n".join(maps)
        + '\n],\n"cases": [\n'
        + ",\n".join(cases)
        + "\n]}\n"
    )


if __name__ == "__main__":
    sys.stdout.write(vectors())
