"""What pages and changes are given, and what they return: values; no request and no HTML.

A page is a coroutine from `Asked` to `View`. A change has two: `plan` shows what would become of
it, `act` does it.
"""

import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

from mqcore.console.asking import Questions
from mqcore.console.audit import Audit
from mqcore.console.history import History
from mqcore.console.sending import Sending
from mqcore.console.users import Role
from mqcore.errors import MQError

__all__ = [
    "Asked",
    "Change",
    "Done",
    "InputError",
    "Page",
    "PageFunction",
    "Plan",
    "View",
    "command",
    "url",
]


class InputError(MQError):
    """A form or a URL cannot be used as it is; the text goes to who sent it."""

    def __init__(self, text: str) -> None:
        """Takes what is wrong."""
        super().__init__(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked for, and by which means it is answered.

    Attributes:
        parts: The named parts of the path.
        query: The query of the URL; of a name that occurs twice the last one.
        form: The form of a change.
        chosen: Of the form, all values of the name `chosen`.
        role: What the visitor may do.
        questions: The way to the cluster.
        history: Figures of the last hours.
        audit: The audit log.
        sending: The producer of the console.
        namesrv: Name servers as command lines have them.
        now_ms: The time, Unix ms.
    """

    parts: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)
    chosen: tuple[str, ...] = ()
    role: Role
    questions: Questions
    history: History
    audit: Audit
    sending: Sending
    namesrv: str
    now_ms: int

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Returns which of some words the URL has, the first where it has none of them."""
        found = self.query.get(name, "")
        return found if found in choices else choices[0]


@dataclass(frozen=True, slots=True)
class View:
    """A page before it is written.

    Attributes:
        template: The file that shows it.
        title: What it is called.
        data: What it shows; also the page's JSON.
        status: The HTTP status.
        download: The name of the file, where it is one and not a page.
    """

    template: str
    title: str
    data: Mapping[str, Any]
    status: int = 200
    download: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a change would do.

    Attributes:
        title: The change, as a heading.
        button: The text on the button.
        columns: Heads of the table of what changes.
        rows: What changes.
        command: The same as a command line.
        warning: What cannot be taken back; empty for nothing.
        confirm: What has to be typed before it is done; empty for nothing.
        back: Where to go instead.
    """

    title: str
    button: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    command: str
    back: str
    warning: str = ""
    confirm: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """What a change has done.

    Attributes:
        text: What the next page shows.
        url: The next page.
    """

    text: str
    url: str


class PageFunction(Protocol):
    """Makes a view."""

    def __call__(self, asked: Asked) -> Awaitable[View]:
        """Returns the view of what was asked for.

        Raises:
            MQError: The cluster does not answer, or there is no such thing.
        """


@dataclass(frozen=True, slots=True)
class Page:
    """A page in the table of routes.

    Attributes:
        path: Its path, with named parts.
        make: What makes its view.
        role: Who may see it.
    """

    path: str
    make: PageFunction
    role: Role = Role.READER


@dataclass(frozen=True, slots=True)
class Change:
    """A change in the table of routes.

    Attributes:
        path: Where its form goes.
        name: Its name in the audit log.
        role: Who may do it.
        plan: Returns what would be done; changes nothing.
        act: Does it.
    """

    path: str
    name: str
    role: Role
    plan: Callable[[Asked], Awaitable[Plan]]
    act: Callable[[Asked], Awaitable[Done]]


def url(*parts: str, **query: str | int | None) -> str:
    """Returns a path of the console; every part is quoted, what is None or empty is left out."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    pairs = [f"{k}={quote(str(v), safe='')}" for k, v in query.items() if v not in (None, "")]
    return f"{path}?{'&'.join(pairs)}" if pairs else path


def command(asked: Asked, words: Iterable[str | int], *, tool: str = "mqcore") -> str:
    """Returns a command line that does the same, for a shell."""
    return shlex.join([tool, *map(str, words), "-n", asked.namesrv])
