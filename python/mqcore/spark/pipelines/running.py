"""Runs a pipeline by its name, with settings that are texts: what `mqcore spark run` does.

Names, types, defaults and words of the settings are those of the pipeline's function: there is no
second table of them.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from mqcore.spark.pipelines.errors import PipelineError, PipelineSettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

__all__ = ["PIPELINES", "Outcome", "Setting", "bound", "pipeline", "run", "settings_of", "summary"]

PIPELINES = ("archive", "compact", "enrich", "replay", "report", "verify")
_TRUE = frozenset({"true", "yes", "1", "on"})
_FALSE = frozenset({"false", "no", "0", "off"})
_SIZE = re.compile(r"(\d+)\s*([kmg]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_MS_PER_S = 1_000
# How an error of ours ends the trace that Spark reports of a task.
_OURS = re.compile(r"^(?:mqcore\.[\w.]+Error): (.+)$", re.MULTILINE)


class Outcome(Protocol):
    """What a pipeline returns."""

    @property
    def exit_code(self) -> int:
        """0 done; 1 a finding."""

    def lines(self) -> list[str]:
        """Returns it for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of a pipeline.

    Attributes:
        name: As the function has it.
        kind: What its text is: `text`, `number`, `yes or no`, ...
        default: As a text; None where it must be given.
        note: What it does.
    """

    name: str
    kind: str
    default: str | None
    note: str


def pipeline(name: str) -> Callable[..., Outcome]:
    """Returns the function of a pipeline.

    Raises:
        PipelineSettingError: There is none of this name.
    """
    if name not in PIPELINES:
        near = difflib.get_close_matches(name, PIPELINES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(PIPELINES)}"
        raise PipelineSettingError(f"there is no pipeline {name!r}; {hint}", setting="name")
    found: Callable[..., Outcome] = getattr(
        importlib.import_module(f"mqcore.spark.pipelines.{name}"), name
    )
    return found


def summary(name: str) -> str:
    """Returns what a pipeline does, in one sentence."""
    return (inspect.getdoc(pipeline(name)) or "").split("\n", 1)[0]


def settings_of(name: str) -> list[Setting]:
    """Returns the settings of a pipeline, those that must be given first."""
    function = pipeline(name)
    notes = _notes(inspect.getdoc(function) or "")
    found = []
    for parameter in _parameters(function):
        given = parameter.default
        default = None if given is inspect.Parameter.empty else _default_text(given)
        kind, _ = _KINDS[_kind_of(parameter)]
        found.append(
            Setting(
                name=parameter.name, kind=kind, default=default, note=notes.get(parameter.name, "")
            )
        )
    return sorted(found, key=lambda setting: setting.default is not None)


def bound(name: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Returns the arguments of a pipeline.

    Args:
        name: Of the pipeline.
        texts: Values by name; `splitBytes`, `split-bytes` and `split_bytes` are one name.

    Raises:
        PipelineSettingError: A name is unknown (the nearest is suggested), a value cannot be, or
            one is missing.
    """
    parameters = {_folded(one.name): one for one in _parameters(pipeline(name))}
    arguments: dict[str, Any] = {}
    for given, text in texts.items():
        parameter = parameters.get(_folded(given))
        if parameter is None:
            near = difflib.get_close_matches(_folded(given), parameters, n=1)
            names = ", ".join(one.name for one in parameters.values())
            hint = f"did you mean {parameters[near[0]].name}?" if near else f"there are {names}"
            raise PipelineSettingError(f"{name} has no setting {given}; {hint}", setting=given)
        kind, parse = _KINDS[_kind_of(parameter)]
        try:
            arguments[parameter.name] = parse(text)
        except ValueError:
            raise PipelineSettingError(
                f"{parameter.name} is {text!r}; {kind} is expected", setting=parameter.name
            ) from None
    missing = [
        one.name
        for one in parameters.values()
        if one.default is inspect.Parameter.empty and one.name not in arguments
    ]
    if missing:
        raise PipelineSettingError(
            f"{name} needs {', '.join(missing)}: give --conf {missing[0]}=...", setting=missing[0]
        )
    return arguments


def run(spark: SparkSession, name: str, arguments: Mapping[str, Any]) -> Outcome:
    """Runs a pipeline.

    Args:
        spark: The session.
        name: Of the pipeline.
        arguments: From `bound`.

    Raises:
        PipelineError: A task failed; the text is the task's own, without Spark's trace.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return pipeline(name)(spark, **arguments)
    except (PySparkException, Py4JError) as error:
        raise PipelineError(f"{name}: {_plain(str(error))}") from error


def _plain(text: str) -> str:
    """Returns the sentence in what Spark reports of a failed task."""
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "Spark failed and said nothing"


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Returns all parameters but the session."""
    return list(inspect.signature(function).parameters.values())[1:]


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _kind_of(parameter: inspect.Parameter) -> str:
    """Returns the annotation as `_KINDS` has it."""
    kind = str(parameter.annotation).removesuffix(" | None").removesuffix(" | DataFrame")
    return "size" if kind == "int" and parameter.name.endswith("_bytes") else kind


def _default_text(value: object) -> str:
    if value is None or value == ():
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _notes(doc: str) -> dict[str, str]:
    """Returns the words of a docstring's arguments by name."""
    _, _, rest = doc.partition("\nArgs:\n")
    notes: dict[str, str] = {}
    name = ""
    for line in rest.split("\n\n", 1)[0].splitlines():
        begin = re.match(r" {4}(\w+): (.+)", line)
        if begin:
            name, notes[begin[1]] = begin[1], begin[2]
        elif name:
            notes[name] += f" {line.strip()}"
    return notes


def _yes_or_no(text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError
    return word in _TRUE


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _pairs(text: str) -> dict[str, str]:
    found = {}
    for part in _list(text):
        name, separator, value = part.partition("=")
        if not separator or not name or not value:
            raise ValueError
        found[name.strip()] = value.strip()
    return found


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None or not int(found[1]):
        raise ValueError
    return int(found[1]) * _UNITS[found[2].lower()]


def _time(text: str) -> datetime:
    if text.isdigit():
        return datetime.fromtimestamp(int(text) / _MS_PER_S, UTC)
    # A time without a zone would be another one on every machine.
    at = datetime.fromisoformat(text)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


_KINDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "str": ("a text", str),
    "int": ("a whole number", int),
    "float": ("a number", float),
    "bool": ("true or false", _yes_or_no),
    "size": ("a size such as 256m", _size),
    "Sequence[str]": ("a list with commas", _list),
    "Mapping[str, str]": ("pairs such as a=b,c=d", _pairs),
    "datetime": ("a time such as 2026-11-22T10:00 (UTC), or Unix ms", _time),
}
