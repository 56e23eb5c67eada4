"""Where files are, as users write it: a path of this machine, or a URL with a scheme.

The one module that distinguishes the two. Opens nothing: `mqcore.spark.directories` does, for
stores and archives alike.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

__all__ = ["Location"]

_LOCAL: Final = "file"
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
# As Hadoop writes local paths.
_SHORT_LOCAL: Final = "file:/"


@dataclass(frozen=True, slots=True)
class Location:
    """A directory, file or pattern.

    Attributes:
        scheme: The scheme, such as `s3`; `file` for a path of this machine.
        path: What is behind it: of a local one the path, with no escapes.
    """

    scheme: str
    path: str

    @classmethod
    def of(cls, text: str | Path) -> Self:
        """Returns the location that a text means: without a scheme it is local."""
        written = str(text)
        found = _URL.fullmatch(written)
        if found is not None:
            return cls(found[1], found[2])
        if written.startswith(_SHORT_LOCAL):
            return cls(_LOCAL, written.removeprefix(_SHORT_LOCAL[:-1]))
        return cls(_LOCAL, written)

    @property
    def is_local(self) -> bool:
        """Whether it is a path of this machine, or one that all machines see."""
        return self.scheme == _LOCAL

    @property
    def url(self) -> str:
        """The location with its scheme, as Spark takes it: Hadoop's paths know no escapes."""
        return f"{self.scheme}://{self.path}"

    def absolute(self) -> Self:
        """Returns the same location whatever directory a process works in."""
        return self.at(str(Path(self.path).absolute())) if self.is_local else self

    def at(self, path: str) -> Self:
        """Returns another path of the same scheme."""
        return type(self)(self.scheme, path)
