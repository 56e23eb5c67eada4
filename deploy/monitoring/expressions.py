"""Expressions of Prometheus over the families of a broker: a name that no family has is an error.

In a text `{name}` is a family, `{name;a="b"}` the same with matchers, `{name:bucket}` the buckets
of a histogram. Knows no board and no alert.
"""

import re

from mqcore.broker.metric_families import COMMON, FAMILIES, Kind

_NAME = re.compile(r"\{([a-z_0-9]+)(?::(bucket|sum|count))?(?:;([^}]*))?\}")
_LABEL = re.compile(r"([a-z_]+)(?:=~|!~|!=|=)")
# What is there of a target, whatever it shows.
_OF_PROMETHEUS = ("up",)


def expression(text: str, matchers: str = "") -> str:
    """Returns an expression with every family by its name and selector.

    Args:
        text: The expression.
        matchers: What every family is selected by besides.

    Raises:
        ValueError: It names a family or a label that there is not.
    """

    def one(found: re.Match[str]) -> str:
        name, part, own = found[1], found[2], found[3] or ""
        if name in _OF_PROMETHEUS:
            return f"{name}{{{own}}}"
        family = FAMILIES.get(name)
        if family is None:
            raise ValueError(f"no family is named {name}: {text}")
        if bool(part) != (family.kind is Kind.HISTOGRAM):
            raise ValueError(f"{name} is a {family.kind}: {text}")
        known = {*COMMON, *family.labels, "le", "job"}
        unknown = set(_LABEL.findall(own)) - known
        if unknown:
            raise ValueError(f"{name} has no label {', '.join(sorted(unknown))}: {text}")
        selector = ",".join(each for each in (matchers, own) if each)
        suffix = f"_{part}" if part else ""
        return f"{name}{suffix}{{{selector}}}" if selector else f"{name}{suffix}"

    return _NAME.sub(one, text)
