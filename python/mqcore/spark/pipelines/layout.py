"""Where the files of an archive stand: `topic=T/dt=YYYY-MM-DD/STEM-0000.parquet`. Pure.

Names are derived from what a file holds and from nothing else, so that a task that runs twice
writes the same names. Directory names are escaped as Hive and Spark escape them
(`ExternalCatalogUtils.escapePathName`), so that every reader of partitioned Parquet gets the topic
back. Everything that is not data lies below a name with `_`, which such readers skip.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

from mqcore.spark.pipelines.spans import Span, digest_of

__all__ = [
    "COMMITS",
    "COMMIT_DIGITS",
    "commit_path",
    "date_text",
    "escaped",
    "part_path",
    "stem_of",
    "unescaped",
]

COMMITS = "_mqcore/commits"
# File names are sorted as text; so many digits hold every offset.
COMMIT_DIGITS = 20
_OFFSET_DIGITS = 20
_PART_DIGITS = 4
# Hive's list, and what a shell or a URI would take for something else.
_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^<> |~`&$!;,()]""")
_FILE_SAFE = re.compile(r"[^A-Za-z0-9._-]")
# A file name has at most 255 bytes; a stem leaves space for offsets, digest and number.
_NAME_LETTERS_MAX = 120
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def escaped(value: str) -> str:
    """Returns a value as it is written in the name of a partition's directory."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", value)


def unescaped(name: str) -> str:
    """Returns the value of a partition's directory."""
    return unquote(name)


def date_text(day: int) -> str:
    """Returns a day as YYYY-MM-DD.

    Args:
        day: Days since 1970-01-01, in UTC.
    """
    return f"{_EPOCH + timedelta(days=day):%Y-%m-%d}"


def stem_of(spans: Sequence[Span]) -> str:
    """Returns how the files of some spans begin: no other spans have the same stem.

    Args:
        spans: What one task reads, in its order; at least one.
    """
    first = spans[0]
    name = _FILE_SAFE.sub("_", first.source)[:_NAME_LETTERS_MAX]
    offsets = f"{first.begin:0{_OFFSET_DIGITS}d}-{first.end:0{_OFFSET_DIGITS}d}"
    # The digest distinguishes sources whose names are cut or cleaned to the same text.
    return f"{name}-{offsets}-{digest_of(spans)}"


def part_path(topic: str, date: str, stem: str, number: int) -> str:
    """Returns the path of a data file below the archive.

    Args:
        topic: Its topic.
        date: Its day, YYYY-MM-DD.
        stem: From `stem_of`.
        number: Counts the files of a task in one directory, from 0.
    """
    return f"topic={escaped(topic)}/dt={date}/{stem}-{number:0{_PART_DIGITS}d}.parquet"


def commit_path(number: int) -> str:
    """Returns the path of a commit below the archive.

    Args:
        number: From 1.
    """
    return f"{COMMITS}/{number:0{COMMIT_DIGITS}d}.json"
