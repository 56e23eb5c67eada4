"""The rules of every text: length, left-over markers, machine names, files named."""

import re
from collections.abc import Callable

from tidy.project import line_at

FILE_LINES_MAX = 500
# Nine of ten files of a language are shorter.
FILE_LINES_P90_MAX = 400

# A marker is allowed with what is missing and why, in words: at least this many.
REASON_WORDS_MIN = 4
_MARKER = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b([^\n]*)")
_MACHINE_PATH = re.compile(r"(?<![\w.)}\]$-])/(?:work|farm|root|tmp/brief|home/\w+)/")
_REGISTRY_HOST = re.compile(
    r"\b(?:(?:static|index)\.crates\.io|pypi\.org|pythonhosted\.org|repo\d?\.maven|npmjs\.)"
)
_CODE_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
# A path as a document writes it: no spaces, no placeholders (TOPIC, *, <name>, {a,b}).
_PLAIN_PATH = re.compile(r"\.?[\w-][\w./-]*")
_PLACEHOLDER = re.compile(r"(?:^|/)[A-Z]{3,}(?:/|$)")


def length_faults(path: str, text: str) -> list[str]:
    """A file of code has at most FILE_LINES_MAX lines."""
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    return [f"{path}: {lines} lines"] if lines > FILE_LINES_MAX else []


def p90_lines(lengths: list[int]) -> int:
    """Returns the length below which nine of ten files are, or which they have."""
    ordered = sorted(lengths)
    return ordered[(len(ordered) * 9 - 1) // 10]


def marker_faults(path: str, text: str) -> list[str]:
    """A marker of unfinished work names what is missing and why."""
    return [
        f"{path}:{line_at(text, match.start())}: a marker without a reason"
        for match in _MARKER.finditer(text)
        if len(re.findall(r"\w+", match[1])) < REASON_WORDS_MIN
    ]


def machine_faults(path: str, text: str) -> list[str]:
    """No text names a path of one machine or the host of a package registry."""
    return [
        f"{path}:{line_at(text, match.start())}: {match[0]} belongs to a machine"
        for pattern in (_MACHINE_PATH, _REGISTRY_HOST)
        for match in pattern.finditer(text)
    ]


def document_faults(
    path: str, text: str, tops: frozenset[str], exists: Callable[[str], bool]
) -> list[str]:
    """A document names only files that exist.

    Args:
        path: The document, relative to the root.
        text: Its text; fenced blocks are examples and not read.
        tops: Names at the root of the project: what begins with another is not a path of ours.
        exists: Returns whether a path relative to the root exists.
    """
    prose = _FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    faults = []
    for match in _CODE_SPAN.finditer(prose):
        name = match[1].rstrip("/")
        if not _PLAIN_PATH.fullmatch(name) or _PLACEHOLDER.search(name):
            continue
        is_path = "/" in match[1] and name.split("/", 1)[0] in tops
        is_document = re.fullmatch(r"[\w-]+\.(?:md|toml|txt)", name) is not None
        if (is_path or is_document) and not exists(name):
            faults.append(f"{path}:{line_at(text, match.start())}: {name} does not exist")
    folder = path.rpartition("/")[0]
    for match in _LINK.finditer(prose):
        if "://" not in match[1] and not exists(f"{folder}/{match[1]}".lstrip("/")):
            faults.append(f"{path}:{line_at(text, match.start())}: {match[1]} does not exist")
    return faults
