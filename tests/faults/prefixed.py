"""Programs of a software behind a prefix of their command lines: a namespace, a clock.

    prefixed(OURS, "env", "LD_PRELOAD=clock.so")

What begins them ends by becoming the program (`exec`), so that signals reach it. Knows no program.
"""

from dataclasses import dataclass
from pathlib import Path

from interop.servers import Software


@dataclass(frozen=True, slots=True)
class _Prefixed:
    inner: Software
    prefix: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def ready(self) -> str:
        return self.inner.ready

    @property
    def stops_at_once(self) -> bool:
        return self.inner.stops_at_once

    def namesrv(self, conf: Path, home: Path) -> list[str]:
        return [*self.prefix, *self.inner.namesrv(conf, home)]

    def broker(self, conf: Path, home: Path) -> list[str]:
        return [*self.prefix, *self.inner.broker(conf, home)]

    def controller(self, conf: Path, home: Path) -> list[str]:
        return [*self.prefix, *self.inner.controller(conf, home)]


def prefixed(software: Software, *prefix: str) -> Software:
    """Returns the same programs behind a prefix."""
    return _Prefixed(software, prefix)


def within_namespaces(software: Software, holder: int) -> Software:
    """Returns the same programs in the user and mount namespaces of another process."""
    enter = ("nsenter", "--target", str(holder), "--user", "--mount")
    return prefixed(software, *enter, "--preserve-credentials", "--")
