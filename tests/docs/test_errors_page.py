"""`docs/errors.md` has every public exception, with its reasons, and no other."""

import enum
import re
from pathlib import Path

import pytest

import mqcore.errors
from mqcore.errors import ClosedError, MQError, ResponseError, ResponseReason, StoreReason
from mqcore.remoting import ResponseCode

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| `(\w+)` \| `(\w+)` \| ([^|]*)\|", re.MULTILINE)
_STORE_REASON = re.compile(r"^\| `(\w+)` \| [^`|\d][^|]* \| [^|]+ \|$", re.MULTILINE)
_CODES = re.compile(r"^\| `(\w+)` \| ([\d, ]+) \|$", re.MULTILINE)
# More than these nobody remembers.
PUBLIC_MAX = 25


def public() -> dict[str, type[MQError]]:
    """The exceptions that `mqcore.errors` gives to users."""
    found = {name: getattr(mqcore.errors, name) for name in mqcore.errors.__all__}
    return {name: each for name, each in found.items() if issubclass(each, MQError)}


def reasons_of(kind: type[MQError]) -> list[str]:
    """The reasons that a class may have, by its property, its fixed value, or its enumeration."""
    enumeration = next(
        (each.__annotations__["reason"] for each in kind.__mro__ if "reason" in annotated(each)),
        None,
    )
    if enumeration is None:
        is_computed = any(isinstance(vars(each).get("reason"), property) for each in kind.__mro__)
        return list(ResponseReason) if is_computed else []
    assert issubclass(enumeration, enum.StrEnum)
    if "reason" not in vars(kind) or (kind is not ClosedError and "reason" in annotated(kind)):
        return list(enumeration)
    # Fixed: its own, or one of each class below it.
    below = {str(getattr(each, "reason", "")) for each in descendants(kind)}
    below = below or {str(vars(kind)["reason"])}
    return [str(each) for each in enumeration if each in below]


def annotated(kind: type) -> dict[str, object]:
    found: dict[str, object] = vars(kind).get("__annotations__", {})
    return found


def descendants(kind: type[MQError]) -> list[type[MQError]]:
    return [each for child in kind.__subclasses__() for each in (child, *descendants(child))]


def test_the_page_has_every_public_exception_and_no_other() -> None:
    rows = _ROW.findall(PAGE)
    assert sorted(name for name, _, _ in rows) == sorted(public())
    assert len(rows) <= PUBLIC_MAX


@pytest.mark.parametrize(("name", "parent", "reasons"), _ROW.findall(PAGE))
def test_a_row_names_its_parent_and_all_reasons(name: str, parent: str, reasons: str) -> None:
    kind = public()[name]
    assert kind.__bases__[0].__name__ == parent
    assert re.findall(r"`(\w+)`", reasons) == reasons_of(kind)


def test_codes_have_the_reasons_of_the_page() -> None:
    shown = {
        int(code): reason for reason, codes in _CODES.findall(PAGE) for code in codes.split(", ")
    }
    failures = set(ResponseCode) - set(shown)
    for code in ResponseCode:
        error = ResponseError("refused", address="h:1", code=int(code), remark="")
        assert error.reason == shown.get(int(code), "failed")
    assert set(shown) <= set(ResponseCode)
    assert {ResponseCode.SYSTEM_ERROR, ResponseCode.TRANSACTION_FAILED} <= failures


def test_what_the_package_itself_gives_is_public() -> None:
    given = {getattr(mqcore, name) for name in mqcore.__all__ if name.endswith("Error")}
    assert given <= set(public().values())


def test_every_reason_of_the_store_has_a_row_that_names_what_to_do() -> None:
    assert _STORE_REASON.findall(PAGE) == list(StoreReason)
