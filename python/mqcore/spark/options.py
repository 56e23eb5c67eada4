"""Option tables of both formats: names in any case, aliases, values, defaults, and good errors.

A table is data; who reads or writes topics has a table of its own beside this (`topic_source`,
`topic_sink`). Imports no Spark and knows no socket.
"""

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from mqcore.remoting.tls import TlsFiles
from mqcore.spark.errors import SparkError

__all__ = [
    "CONNECTION",
    "Option",
    "OptionError",
    "OptionTable",
    "choice",
    "contradiction",
    "duration_ms",
    "name_list",
    "number",
    "positive",
    "regex",
    "size_bytes",
    "text",
    "time_ms",
    "truth",
]

_SIZE_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE: Final = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
_TIME_UNITS_MS: Final = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|h|d|)", re.IGNORECASE)

# The fields of `TlsFiles` by the option that sets each.
_TLS_PARTS: Final = {
    "tls.ca": "trusted",
    "tls.cert": "certificate",
    "tls.key": "key",
    "tls.keyPassword": "key_password",
}

Parser = Callable[[str, str], Any]


class OptionError(SparkError):
    """An option is unknown, has a value that cannot be, is missing, or contradicts another.

    Attributes:
        option: Its name as we call it.
    """

    option: str


def wrong(option: str, value: str, wanted: str) -> OptionError:
    """Returns the error of a value: what it is, and what it could be."""
    return OptionError(f"the option {option} is {value!r}; it must be {wanted}", option=option)


def contradiction(option: str, why: str) -> OptionError:
    """Returns the error of options that cannot stand together."""
    return OptionError(why, option=option)


def text(option: str, value: str) -> str:
    """A text that is not empty."""
    if not value.strip():
        raise wrong(option, value, "a text that is not empty")
    return value.strip()


def file(option: str, value: str) -> Path:
    """The path of a file, on the driver and on every executor."""
    return Path(text(option, value))


def truth(option: str, value: str) -> bool:
    """True or false."""
    folded = value.strip().lower()
    if folded not in ("true", "false"):
        raise wrong(option, value, "true or false")
    return folded == "true"


def tls_choice(option: str, value: str) -> bool | TlsFiles:
    """True, false, or how TLS is spoken without a check of host names."""
    if value.strip().lower() == "unchecked":
        return TlsFiles(checks_host=False)
    try:
        return truth(option, value)
    except OptionError:
        raise wrong(option, value, "true, false or unchecked") from None


def _of_tls(values: dict[str, Any]) -> dict[str, Any]:
    """Returns values with those of TLS as one: how it is spoken.

    Raises:
        OptionError: They do not go together.
    """
    given = {
        option: values.pop(f"tls_{field}")
        for option, field in _TLS_PARTS.items()
        if f"tls_{field}" in values
    }
    if not given:
        return values
    if values.get("tls") is False:
        raise contradiction("tls", f"tls is false, and {', '.join(given)} needs it")
    if "tls.cert" not in given and given.keys() - {"tls.ca"}:
        raise contradiction(
            "tls.cert", f"{', '.join(given.keys() - {'tls.ca'})} goes with tls.cert"
        )
    base = values.get("tls")
    fields = {_TLS_PARTS[option]: value for option, value in given.items()}
    values["tls"] = replace(base if isinstance(base, TlsFiles) else TlsFiles(), **fields)
    return values


def number(option: str, value: str) -> int:
    """A number from 0 on."""
    if not value.strip().isdecimal():
        raise wrong(option, value, "a whole number from 0 on")
    return int(value)


def positive(option: str, value: str) -> int:
    """A number from 1 on."""
    if not value.strip().isdecimal() or not int(value):
        raise wrong(option, value, "a whole number from 1 on")
    return int(value)


def size_bytes(option: str, value: str) -> int:
    """A number of bytes, such as 1048576, 512k, 128m or 1g; above 0."""
    found = _SIZE.fullmatch(value.strip())
    if found is None or not int(found[1]):
        raise wrong(option, value, "a number of bytes above 0, such as 1048576, 512k, 128m or 1g")
    return int(found[1]) * _SIZE_UNITS[found[2].lower()]


def duration_ms(option: str, value: str) -> int:
    """A time span in milliseconds, or with a unit: 200, 500ms, 30s, 15m."""
    found = _DURATION.fullmatch(value.strip())
    if found is None:
        raise wrong(option, value, "milliseconds, or a time such as 500ms, 30s or 15m")
    return int(found[1]) * _TIME_UNITS_MS[found[2].lower()]


def time_ms(option: str, value: str) -> int:
    """A moment: milliseconds since 1970, or ISO 8601; without a zone it is UTC everywhere."""
    folded = value.strip()
    if folded.isdecimal():
        return int(folded)
    try:
        moment = datetime.fromisoformat(folded)
    except ValueError:
        wanted = "milliseconds since 1970, or a time such as 2026-01-31T12:00:00+01:00"
        raise wrong(option, value, wanted) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def name_list(option: str, value: str) -> tuple[str, ...]:
    """Names with commas between; in the order given, each once."""
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
    if not all(names):
        raise wrong(option, value, "names with commas between")
    return names


def regex(option: str, value: str) -> str:
    """A regular expression."""
    try:
        re.compile(value)
    except re.error as error:
        raise wrong(option, value, f"a regular expression ({error})") from None
    return text(option, value)


def json_object(option: str, value: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        found = json.loads(value)
    except ValueError as error:
        raise wrong(option, value, f"a JSON object ({error})") from None
    if not isinstance(found, dict):
        raise wrong(option, value, "a JSON object")
    return found


def choice(*choices: str) -> Parser:
    """One of some words, in any case."""

    def parse(option: str, value: str) -> str:
        folded = value.strip().lower()
        if folded in choices:
            return folded
        near = difflib.get_close_matches(folded, choices, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise wrong(option, value, f"one of {', '.join(choices)}{hint}")

    return parse


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        name: As users write it.
        attribute: Where its value goes.
        parse: Makes the value of the option's name and its text.
        aliases: Other names that users know it by.
        note: What it does, for the documentation.
    """

    name: str
    attribute: str
    parse: Parser
    aliases: tuple[str, ...] = ()
    note: str = ""


# Reaching a cluster: the same for everybody who does.
CONNECTION: Final = (
    Option(
        "namesrv",
        "namesrv",
        text,
        ("nameServer", "nameserver.address", "bootstrap.servers", "kafka.bootstrap.servers"),
        "name servers: host:port, several with ; between",
    ),
    Option("accessKey", "access_key", text, (), "the account, where brokers ask for one"),
    Option("secretKey", "secret_key", text, (), "its secret"),
    Option("securityToken", "security_token", text, (), "the token of a temporary account"),
    Option(
        "tls",
        "tls",
        tls_choice,
        ("useTLS",),
        "speak TLS; unchecked: with certificates that do not name the host, too",
    ),
    Option(
        "tls.ca", "tls_trusted", file, (), "authorities to trust, PEM; the machine's by default"
    ),
    Option("tls.cert", "tls_certificate", file, (), "the certificate that is shown, PEM"),
    Option("tls.key", "tls_key", file, (), "its key, PEM; in the same file by default"),
    Option("tls.keyPassword", "tls_key_password", text, (), "the password of that key"),
    Option("requestTimeoutMs", "request_timeout_ms", duration_ms, (), "deadline of a question"),
)


class OptionTable:
    """The options of one side of a format.

    Attributes:
        options: All of them.
    """

    def __init__(self, title: str, *parts: tuple[Option, ...]) -> None:
        """Makes the table; names and aliases must differ.

        Args:
            title: What is configured, for errors: `reading topics`.
            parts: Its options.
        """
        self._title = title
        self.options = tuple(option for part in parts for option in part)
        self._by_name: dict[str, Option] = {}
        for option in self.options:
            for name in (option.name, *option.aliases):
                if name.lower() in self._by_name:
                    raise ValueError(f"two options are called {name}")
                self._by_name[name.lower()] = option

    def parse(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Returns values by attribute, of the options that are given.

        Args:
            given: What the user gave, by name in any case.

        Raises:
            OptionError: A name is unknown (the nearest is named), a value is impossible, or two
                names of one option have different values.
        """
        values: dict[str, Any] = {}
        for given_name, value in given.items():
            option = self._by_name.get(given_name.lower())
            if option is None:
                raise self._unknown(given_name)
            parsed = option.parse(option.name, value)
            if values.setdefault(option.attribute, parsed) != parsed:
                raise contradiction(
                    option.name,
                    f"the option {option.name} is given by two of its names, with different values",
                )
        return _of_tls(values)

    def _unknown(self, name: str) -> OptionError:
        near = difflib.get_close_matches(name.lower(), self._by_name, n=1)
        known = ", ".join(sorted(option.name for option in self.options))
        hint = f"did you mean {self._by_name[near[0]].name}?" if near else f"there are {known}"
        return OptionError(f"{self._title} has no option {name}; {hint}", option=name)
