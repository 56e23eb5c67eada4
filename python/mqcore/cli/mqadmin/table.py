"""The table of commands: every command of mqadmin by name, with arguments, function and requests.

`commands.txt` and `commands_49.txt` are the only declarations; a test compares names and arguments
with the official tools.
Imports nothing that prints or asks: help and completion are made from it alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Final

__all__ = ["Argument", "Row", "find", "rows"]

# Whether mqadmin of the newest release has the commands of a file.
_FILES: Final = {"commands.txt": True, "commands_49.txt": False}
_REFUSED: Final = "!"
_REQUIRED: Final = "*"
# Of each of these groups exactly one is given.
_ONE_OF: Final = ("(", "[")
_NO_VALUE: Final = "()"
_ABSENT: Final = "-"
# Names of older releases (`SubCommand.commandAlias`).
_ALIASES: Final = {
    "querymsgtracebyid": "queryMsgTraceById",
    "deleteaccessconfig": "deleteAclConfig",
    "getaccessconfigsubcommand": "getAclConfig",
}


@dataclass(frozen=True, slots=True)
class Argument:
    """One option of a command.

    Attributes:
        short: Its short name, of one letter or two; empty for none.
        long: Its long name.
        takes_value: Whether a value follows.
        is_required: Whether it must be given.
        one_of: The mark of a group of which exactly one must be given; empty for none.
        words: What it means, in the words of mqadmin.
    """

    short: str
    long: str
    takes_value: bool
    is_required: bool
    one_of: str
    words: str

    @property
    def name(self) -> str:
        """How functions ask for it: the short name, or the long one without one."""
        return self.short or self.long

    @property
    def shown(self) -> str:
        """How a user writes it."""
        return f"-{self.short}" if self.short else f"--{self.long}"


@dataclass(frozen=True, slots=True)
class Row:
    """One command.

    Attributes:
        name: Its official name.
        function: Module and function below this package; empty of one that is refused.
        reason: Why it is refused.
        codes: The requests that it sends, by their numbers.
        words: What it does, in the words of mqadmin.
        arguments: Its options, without those that all commands have.
        is_current: Whether mqadmin of the newest release has it.
    """

    name: str
    function: str
    reason: str
    codes: tuple[int, ...]
    words: str
    arguments: tuple[Argument, ...]
    is_current: bool


@cache
def rows() -> Mapping[str, Row]:
    """Returns every command by its name, in the order of mqadmin; old ones come last."""
    found = (row for file, is_current in _FILES.items() for row in _rows(file, is_current))
    return MappingProxyType({row.name: row for row in found})


def find(name: str) -> Row | None:
    """Returns the command of a name, whatever its case, as mqadmin takes it."""
    folded = name.lower()
    named = _ALIASES.get(folded, folded)
    return next((row for each, row in rows().items() if each.lower() == named.lower()), None)


def _rows(file: str, is_current: bool) -> Iterator[Row]:
    text = (resources.files(__package__) / file).read_text(encoding="utf-8")
    block: list[str] = []
    for line in [*(each for each in text.splitlines() if not each.startswith("#")), ""]:
        if not line.startswith(" ") and block:
            yield _row(block, is_current)
            block = []
        if line:
            block.append(line)


def _row(block: list[str], is_current: bool) -> Row:
    name, function, codes, words = (cell.strip() for cell in block[0].split("|"))
    is_refused = function.startswith(_REFUSED)
    return Row(
        name=name,
        function="" if is_refused else function,
        reason=function.removeprefix(_REFUSED) if is_refused else "",
        codes=tuple(int(code) for code in codes.split()),
        words=words,
        arguments=tuple(_argument(line) for line in block[1:]),
        is_current=is_current,
    )


def _argument(line: str) -> Argument:
    mark, short, long, words = line.strip().split(maxsplit=3)
    return Argument(
        short="" if short == _ABSENT else short,
        long=long.removesuffix(_NO_VALUE),
        takes_value=not long.endswith(_NO_VALUE),
        is_required=mark == _REQUIRED,
        one_of=mark if mark in _ONE_OF else "",
        words=words,
    )
