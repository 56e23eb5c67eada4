"""Makes what follows from the declared options: `python -m mqcore.client.option_sources ROOT`.

| file | what it holds |
|---|---|
| `python/mqcore/client/client_options.py`, `options.py` | the types of `**options`, for editors |
| `docs/client-options.md` | the page of all options |

They are checked in, and a test keeps them current.
"""

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from textwrap import dedent, wrap
from types import MappingProxyType
from typing import Any, Final

from mqcore.client.client import Client
from mqcore.client.client_settings import ClientSettings, Identity
from mqcore.client.consumer_settings import (
    ConsumerSettings,
    PullConsumerSettings,
    PushConsumerSettings,
)
from mqcore.client.joining import ConsumerJoin, Join, ProducerJoin
from mqcore.client.option import declared, default_text, descriptions, items_of
from mqcore.client.pull_consumer import PullConsumer
from mqcore.client.push_consumer import PushConsumer
from mqcore.client.settings import ProducerSettings
from mqcore.client.transaction_producer import TransactionProducer

__all__ = ["DERIVED", "client_options_source", "options_source", "page"]

_COLUMNS: Final = 100
# A class per dataclass: its name, its base, whose fields, what it is.
_CLIENT_TYPED: Final = (
    ("IdentityOptions", "TypedDict", Identity, "Who a client is."),
    ("ClientOptions", "IdentityOptions", ClientSettings, "The options of a `Client`."),
)
_PART_TYPED: Final = (
    ("_Joining", "IdentityOptions", Join, "Producers and consumers alike."),
    ("_ProducerJoining", "_Joining", ProducerJoin, "Producers, beside settings."),
    ("ProducerOptions", "_ProducerJoining", ProducerSettings, "The options of a producer."),
    ("_ConsumerJoining", "_Joining", ConsumerJoin, "Consumers, beside settings."),
    ("_Consuming", "_ConsumerJoining", ConsumerSettings, "Both kinds of consumer."),
    ("PushConsumerOptions", "_Consuming", PushConsumerSettings, "The options of a push consumer."),
    ("PullConsumerOptions", "_Consuming", PullConsumerSettings, "The options of a pull consumer."),
)
# A parameter of its own: the type of the handler follows from it.
_EXPLICIT: Final = frozenset({"batch"})
_HEAD: Final = '''\
"""The types of `**options` of {whose}, for type checkers and editors.

Made from the dataclasses that declare them by `python -m mqcore.client.option_sources`; a test
keeps it current. At run time the types of their values are not imported.
"""

from __future__ import annotations

'''
_CLIENT_HEAD: Final = """\
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from mqcore.client.tls_option import TlsOption
    from mqcore.remoting.limits import Limits
    from mqcore.remoting.signing import Credentials

__all__ = ["ClientOptions", "IdentityOptions"]
"""
_PART_HEAD: Final = """\
from typing import TYPE_CHECKING, Final

from mqcore.client.client_options import ClientOptions, IdentityOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path
    from typing import Literal

    from mqcore.client.consume_hooks import ConsumeHook
    from mqcore.client.faults import FaultStrategy
    from mqcore.client.hooks import SendHook
    from mqcore.client.instance import Instance
    from mqcore.client.member import RebalanceListener
    from mqcore.client.starting_offset import ConsumeFrom
    from mqcore.model.allocation import Strategy
    from mqcore.native import Compression

__all__ = ["KINDS", "ProducerOptions", "PullConsumerOptions", "PushConsumerOptions"]
"""
_TAIL: Final = """

_CONSUMER: Final = ("namesrv", "group", "topics", "settings")
# Whose options they are, as errors name it, with the names of all parameters.
KINDS: Final = {
    "a client": ("namesrv", *ClientOptions.__annotations__),
    "a producer": ("namesrv", "group", "settings", *ProducerOptions.__annotations__),
    "a push consumer": (
        *_CONSUMER,
        "handler",
        "batch",
        *PushConsumerOptions.__annotations__,
    ),
    "a pull consumer": (*_CONSUMER, *PullConsumerOptions.__annotations__),
}
"""
_PAGE_HEAD: Final = """\
# Options of the client

Every option of clients, producers and consumers, under the same name in `mqcore` and `mqcore.aio`.
They are keyword arguments of constructors and of the methods of a `Client`:

    mqcore.Producer("127.0.0.1:9876", group="shop", retries=5, compression="zstd")

Editors complete their names, `help(mqcore.Producer)` shows them, mypy and pyright check names and
values. What no checker saw fails in the constructor: a wrong name with the nearest right one, a
wrong value with what is expected. Where a value may be a word too, such as
`consume_from="earliest"`, the word is turned into the value. `settings=` takes a prepared
`ProducerSettings`, `PushConsumerSettings` or `PullConsumerSettings`, which options change.

Made from the declarations by `python -m mqcore.client.option_sources`.
"""
_TABLE_HEAD: Final = """\
| option | type | default | unit | what it is | when to change it |
|---|---|---|---|---|---|
"""
# Title, constructors with the parameters that are shown of each, dataclasses with own fields.
_SECTIONS: Final = (
    ("Clients", (Client, ("namesrv",)), (Identity, ClientSettings)),
    ("Producers and consumers", None, (Identity, Join)),
    (
        "Producers",
        (TransactionProducer, ("namesrv", "group", "check", "settings")),
        (ProducerJoin, ProducerSettings),
    ),
    (
        "Consumers",
        (PullConsumer, ("namesrv", "group", "topics", "settings")),
        (ConsumerJoin, ConsumerSettings),
    ),
    ("Push consumers", (PushConsumer, ("handler", "batch")), (PushConsumerSettings,)),
    ("Pull consumers", None, (PullConsumerSettings,)),
)
_INTRODUCTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Clients": "`Client`; its producers and consumers share its connections.",
        "Producers and consumers": "All four. Those that a `Client` makes have its identity.",
        "Producers": "`Producer` and, with `check`, `TransactionProducer`.",
        "Consumers": "`PushConsumer` and `PullConsumer`.",
        "Push consumers": "`PushConsumer` alone.",
        "Pull consumers": "`PullConsumer` alone.",
    }
)
_NONE: Final = "-"
# Unit, and when to change it, of the parameters that constructors write out.
_PARAMETERS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "namesrv": ("", "the name server is on another machine"),
        "group": ("", "always: it is what the cluster knows your program as"),
        "check": ("", "always, where transactions are sent"),
        "settings": ("", "several are to have the same settings"),
        "topics": ("", "always, but where queues are assigned or subscribed later"),
        "handler": ("", "always"),
        "batch": ("messages", "one call for many messages is cheaper, as rows of a table are"),
    }
)


def client_options_source() -> str:
    """Returns `client_options.py`."""
    return _HEAD.format(whose="clients") + _CLIENT_HEAD + _typed(_CLIENT_TYPED)


def options_source() -> str:
    """Returns `options.py`."""
    head = _HEAD.format(whose="producers and consumers")
    return head + _PART_HEAD + _typed(_PART_TYPED) + _TAIL


def _typed(rows: tuple[tuple[str, str, type, str], ...]) -> str:
    parts: list[str] = []
    for name, base, kind, doc in rows:
        parts.append(f'\n\nclass {name}({base}, total=False):\n    """{doc}"""\n\n')
        described = descriptions(kind)
        for field_name, annotation in _own_fields(kind):
            if field_name in _EXPLICIT:
                continue
            each, _ = declared(kind)[field_name]
            text = f"{described[field_name]} Default: {default_text(each)}."
            parts.append(f"    {field_name}: {annotation}\n")
            parts += _docstring(text)
    return "".join(parts)


def page() -> str:
    """Returns the page of options, as Markdown."""
    parts = [_PAGE_HEAD]
    for title, constructor, kinds in _SECTIONS:
        parts.append(f"\n## {title}\n\n{_INTRODUCTIONS[title]}\n\n{_TABLE_HEAD}")
        if constructor is not None:
            parts += _parameters(*constructor)
        for kind in kinds:
            parts += _rows(kind)
    return "".join(parts)


def _parameters(kind: type, names: tuple[str, ...]) -> Iterator[str]:
    """Yields the rows of parameters that a constructor writes out."""
    init: Any = kind.__init__  # type: ignore[misc]
    described = items_of(init.__doc__ or "", "Args")
    parameters = inspect.signature(init).parameters
    annotations = _annotations_of_parameters(kind)
    for name in names:
        default = parameters[name].default
        shown = "(required)" if default is inspect.Parameter.empty else f"`{default!r}`"
        unit, change = _PARAMETERS.get(name, ("", ""))
        yield _row(name, annotations[name], shown, unit, described[name], change)


def _rows(kind: type) -> Iterator[str]:
    described = descriptions(kind)
    for name, annotation in _own_fields(kind):
        if name in _EXPLICIT:
            continue
        each, option = declared(kind)[name]
        shown = f"`{default_text(each)}`"
        yield _row(name, annotation, shown, option.unit, described[name], option.change)


def _row(*cells: str) -> str:
    name, kind, default, unit, meaning, change = cells
    written = kind.replace("'", '"')
    parts = (f"`{name}`", f"`{written}`", default, unit or _NONE, meaning, change or _NONE)
    return "| " + " | ".join(part.replace("|", "\\|") for part in parts) + " |\n"


@cache
def _own_fields(kind: type) -> tuple[tuple[str, str], ...]:
    """Returns the fields that a class itself declares, with their types as they are written."""
    (found,) = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(found, ast.ClassDef)
    return tuple(
        (each.target.id, ast.unparse(each.annotation).replace("'", '"'))
        for each in found.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    )


def _annotations_of_parameters(kind: type) -> dict[str, str]:
    (found,) = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(found, ast.ClassDef)
    *_, init = (
        each for each in found.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"
    )
    arguments = [*init.args.args, *init.args.kwonlyargs]
    return {each.arg: ast.unparse(each.annotation) for each in arguments if each.annotation}


def _docstring(text: str) -> list[str]:
    lines = wrap(text, _COLUMNS - 10)
    if len(lines) == 1:
        return [f'    """{lines[0]}"""\n']
    lines = wrap(text, _COLUMNS - 7)
    rest = "".join(f"    {line}\n" for line in wrap(" ".join(lines[1:]), _COLUMNS - 4))
    return [f'    """{lines[0]}\n', rest, '    """\n']


DERIVED: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {
        "python/mqcore/client/client_options.py": client_options_source,
        "python/mqcore/client/options.py": options_source,
        "docs/client-options.md": page,
    }
)


def main() -> None:
    """Writes every file below the directory that is the argument."""
    for path, source in DERIVED.items():
        (Path(sys.argv[1]) / path).write_text(source(), encoding="utf-8")


if __name__ == "__main__":
    main()
