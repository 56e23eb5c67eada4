"""Reads licence expressions (SPDX) against a list of allowed licences."""

import re
from collections.abc import Iterator

_TOKEN = re.compile(r"[()]|[^\s()]+")


def is_allowed(expression: str, allowed: frozenset[str]) -> bool:
    """Returns whether a crate under `expression` may be used.

    Args:
        expression: SPDX expression; the old `A/B` means `A OR B`.
        allowed: Licences, each with its exception where it has one (`X WITH Y`).
    """
    tokens = iter([*_TOKEN.findall(expression.replace("/", " OR ")), ")"])
    return _any_of(tokens, allowed)


def _any_of(tokens: Iterator[str], allowed: frozenset[str]) -> bool:
    """Reads up to the closing parenthesis: alternatives, each a list of conditions."""
    alternatives: list[bool] = []
    conditions: list[bool] = []
    words: list[str] = []
    for token in tokens:
        if token == "(":
            conditions.append(_any_of(tokens, allowed))
            continue
        if token not in ("AND", "OR", ")"):
            words.append(token)
            continue
        if words:
            conditions.append(" ".join(words) in allowed)
            words = []
        if token != "AND":
            alternatives.append(bool(conditions) and all(conditions))
            conditions = []
        if token == ")":
            break
    return any(alternatives)
