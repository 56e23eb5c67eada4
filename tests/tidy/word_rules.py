"""The rule of words: names and prose speak the terms of RocketMQ and Kafka, without metaphors.

Names are the identifiers of code, split at underscores and capitals; prose is comments, docstrings
and documents. Texts in quotes are neither: remarks and names that the protocol fixes are in them.
`docs/maintainers/glossary.md` has what is used instead. Pure functions of text.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from typing import Final

import tree_sitter_rust
from tree_sitter import Language, Node, Parser

_RUST: Final = Language(tree_sitter_rust.language())

# Words that no name has, and what is used instead.
IN_NAMES: Final = {
    "asker": "request context",
    "bell": "signal",
    "bells": "signals",
    "birth": "registration time",
    "desk": "connections",
    "door": "transport",
    "doubt": "duplicate candidate, uncertain",
    "doubts": "duplicate candidates",
    "floors": "layers",
    "house": "project",
    "judge": "message filter, reference",
    "judged": "checked",
    "keeper": "config persistence",
    "lane": "fast path",
    "place": "physical offset, queue offset, position, slot, index, path",
    "places": "physical offsets, queue offsets, positions, slots, indexes, paths",
    "room": "space, capacity, module",
    "rooms": "modules",
    "said": "response, output",
    "say": "print, write",
    "says": "contains, gives",
    "stands": "is, holds",
    "tell": "report, notify, print",
    "tells": "reports, returns",
    "told": "reported, fields, output",
    "verdict": "decision, result",
    "wave": "batch",
    "wish": "subscription",
    "wishes": "subscriptions",
}
# Words that no prose has.
IN_PROSE: Final = {
    word: IN_NAMES[word]
    for word in (
        *("asker", "bell", "bells", "desk", "doubt", "doubts", "floors", "house", "keeper", "lane"),
        *("room", "rooms", "said", "say", "says", "stands", "tell", "tells", "told", "verdict"),
        *("wish", "wishes"),
    )
}
# What is the term of others: the allocation by machine rooms of RocketMQ, idioms of the languages;
# and the name of a metric, which dashboards read.
_TERMS: Final = re.compile(
    r"machine[_ -]?rooms?|in[_ -]place|placeholder|place_?of_?birth|that is to say"
    r"|mqcore_deduplication_told_apart_total",
    re.IGNORECASE,
)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_NAME_NODES: Final = frozenset({"identifier", "type_identifier", "field_identifier"})
_COMMENT_NODES: Final = frozenset({"line_comment", "block_comment"})
_DOCUMENTS: Final = (".md", ".toml", ".yml", ".txt", "Makefile")

# Kind of text, line, text.
Piece = tuple[str, int, str]


def faults(path: str, text: str) -> list[str]:
    """Returns the banned words of a file, one line each."""
    return [
        f"{path}:{line}: {word} in {kind} ({instead})"
        for kind, line, piece in pieces(path, text)
        for word, instead in _found(kind, piece)
    ]


def pieces(path: str, text: str) -> Iterator[Piece]:
    """Yields names and prose of a file with their lines; nothing for kinds that are not read."""
    if path.endswith((".py", ".pyi")):
        yield from _python(text)
    elif path.endswith(".rs"):
        yield from _rust(text)
    elif path.endswith(_DOCUMENTS):
        for number, line in enumerate(text.splitlines(), 1):
            yield "prose", number, line


def _found(kind: str, piece: str) -> Iterator[tuple[str, str]]:
    plain = _TERMS.sub(" ", piece)
    if kind == "name":
        words, banned = _PART.findall(plain), IN_NAMES
    else:
        words, banned = re.findall(r"[A-Za-z]+", plain), IN_PROSE
    for word in words:
        if word.lower() in banned:
            yield word.lower(), banned[word.lower()]


def _python(text: str) -> Iterator[Piece]:
    is_first = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        if token.type == tokenize.NAME:
            yield "name", line, token.string
        elif token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and is_first and token.string.startswith(('"""', 'r"""'))
        ):
            for at, each in enumerate(token.string.splitlines()):
                yield "prose", line + at, each
        if token.type not in {tokenize.NL, tokenize.COMMENT}:
            is_first = token.type in {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


@cache
def _parser() -> Parser:
    return Parser(_RUST)


def _rust(text: str) -> Iterator[Piece]:
    waiting: list[Node] = [_parser().parse(text.encode()).root_node]
    while waiting:
        node = waiting.pop()
        content = (node.text or b"").decode() if not node.children else ""
        line = node.start_point[0] + 1
        if node.type in _NAME_NODES:
            yield "name", line, content
        elif node.type in _COMMENT_NODES:
            for at, each in enumerate((node.text or b"").decode().splitlines()):
                yield "prose", line + at, each
            continue
        waiting.extend(node.children)
