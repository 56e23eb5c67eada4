"""How the options of the client are declared: fields of frozen dataclasses, checked by their types.

    timeout_s: float = option(3.0, unit="s", above=0, change="brokers are far away")

An option's description is its line under `Attributes` in the docstring of its class. What follows
from the declarations (`options.py`, the page of options) is made by `option_sources`.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, get_type_hints

from mqcore.client.option_names import meant_by
from mqcore.client.option_values import fault_of, nearest
from mqcore.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "Option",
    "check",
    "check_explicit",
    "declared",
    "default_text",
    "descriptions",
    "items_of",
    "made",
    "made_of",
    "option",
    "shows_options",
    "unknown_option",
]

_T = TypeVar("_T")
_InitT = TypeVar("_InitT", bound=Callable[..., Any])
_KEY: Final = "option"
_ITEM: Final = re.compile(r"^ {8}(\w+): (.*(?:\n {9,}.*)*)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What is declared of an option beside its name, type and default.

    Attributes:
        unit: The unit of its value; empty for none.
        low: The least value.
        above: What a value must be greater than.
        high: The greatest value.
        words: Texts that may be written instead of values.
        change: When a user changes it.
        is_checked: Whether values are compared with the type.
        shown: The default as pages show it, where its own text is of no use.
    """

    unit: str = ""
    low: float | None = None
    above: float | None = None
    high: float | None = None
    words: Mapping[str, object] | None = None
    change: str = ""
    is_checked: bool = True
    shown: str = ""


def option(default: _T, **described: Any) -> _T:
    """Declares an option with a default that never changes.

    Args:
        default: Its default.
        described: The attributes of `Option`.
    """
    found: Any = field(default=default, metadata={_KEY: Option(**described)})
    return cast(_T, found)


def made(factory: Callable[[], _T], **described: Any) -> _T:
    """Declares an option whose default is made anew each time.

    Args:
        factory: Makes it.
        described: The attributes of `Option`.
    """
    found: Any = field(default_factory=factory, metadata={_KEY: Option(**described)})
    return cast(_T, found)


def declared(kind: type) -> dict[str, "tuple[Field[Any], Option]"]:
    """Returns the options that a dataclass declares, by name."""
    return {each.name: (each, each.metadata[_KEY]) for each in fields(kind)}


def descriptions(kind: type) -> dict[str, str]:
    """Returns what the docstrings of a class and its bases describe of attributes, on one line."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        found.update(items_of(base.__doc__ or "", "Attributes"))
    return found


def items_of(docstring: str, section: str) -> dict[str, str]:
    """Returns the items of a section of a docstring, by name, each on one line.

    Args:
        docstring: As it is written in a class or a method.
        section: Its title: `Attributes` or `Args`.
    """
    lines = inspect.cleandoc(docstring).partition(f"\n{section}:\n")[2].partition("\n\n")[0]
    indented = "\n".join(f"    {line}" for line in lines.splitlines())
    return {name: " ".join(text.split()) for name, text in _ITEM.findall(indented)}


# Checking.


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def check(settings: "DataclassInstance") -> None:
    """Checks every option of a frozen dataclass, and puts values for words.

    Raises:
        UsageError: A value has the wrong type, or is out of its bounds.
    """
    kind = type(settings)
    hints = _hints(kind)
    for name, (_, described) in declared(kind).items():
        value = getattr(settings, name)
        if described.words and isinstance(value, str) and value in described.words:
            object.__setattr__(settings, name, described.words[value])
            continue
        if described.is_checked:
            fault = fault_of(value, hints[name]) or _out_of_bounds(value, described)
            if fault is not None:
                raise UsageError(f"{name}: {fault}")


def _out_of_bounds(value: object, described: Option) -> str | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    low, high = described.low, described.high
    if low is not None and high is not None:
        return None if low <= value <= high else f"{value!r} is not within {low:g} to {high:g}"
    if low is not None and not value >= low:
        return f"{value!r} is below {low:g}"
    if described.above is not None and not value > described.above:
        return f"{value!r} is not above {described.above:g}"
    return None


def check_explicit(**values: tuple[object, Any]) -> None:
    """Checks parameters that are no options.

    Args:
        values: Each with its type, by name.

    Raises:
        UsageError: One has the wrong type.
    """
    for name, (value, kind) in values.items():
        fault = fault_of(value, kind)
        if fault is not None:
            raise UsageError(f"{name}: {fault}")


def made_of(options: Mapping[str, Any], who: str, kind: type[_T]) -> _T:
    """Returns the options of a class that has but one kind.

    Raises:
        UsageError: There is no such option, or a value cannot work.
    """
    names = declared(kind)
    for name in options:
        if name not in names:
            raise unknown_option(name, who, names)
    return kind(**options)


def unknown_option(name: str, who: str, names: Iterable[str], hint: str = "") -> UsageError:
    """Returns the error of an option that is none, with the one that was probably meant.

    That is what a name of other clients is here, or the nearest name.

    Args:
        name: What was given.
        who: Whose option it would be.
        names: The options that it has.
        hint: The end of the text where none is like it.
    """
    if (instead := meant_by(name)) is not None:
        return UsageError(f"{who} has no option {name!r}: {instead}")
    meant = nearest(name, names)
    return UsageError(
        f"{who} has no option {name!r}{f': did you mean {meant}?' if meant else hint}"
    )


# Showing.


@dataclass(frozen=True, slots=True)
class _Shown:
    """A default in a signature, by its text."""

    text: str

    def __repr__(self) -> str:
        return self.text


def default_text(each: "Field[Any]") -> str:
    """Returns the default of an option as pages show it."""
    described: Option = each.metadata[_KEY]
    if described.shown:
        return described.shown
    assert each.default is not MISSING, each.name
    return repr(each.default)


def shows_options(*kinds: type) -> Callable[[_InitT], _InitT]:
    """Decorates a constructor that takes `**options`: `help()` and `inspect` show each of them.

    Args:
        kinds: The dataclasses that declare the options.
    """

    def decorate(init: _InitT) -> _InitT:
        signature = inspect.signature(init)
        explicit = [
            each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD
        ]
        taken = {each.name for each in explicit}
        found = {
            name: inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_Shown(default_text(each)),
                annotation=each.type,
            )
            for kind in kinds
            for name, (each, _) in declared(kind).items()
            if name not in taken
        }
        described = {name: text for kind in kinds for name, text in descriptions(kind).items()}
        shown: Any = init
        shown.__signature__ = signature.replace(parameters=[*explicit, *found.values()])
        if init.__doc__:
            lines = "".join(f"\n    {name}: {described[name]}" for name in found)
            shown.__doc__ = f"{inspect.cleandoc(init.__doc__)}\n\nOptions:{lines}\n"
        return init

    return decorate
