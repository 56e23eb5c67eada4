"""The files of access control of 4.x below a home directory: found, read, watched, changed.

    files = PlainFiles(Path(home))
    files.load()                        # blocks: at the start
    if files.has_changed():             # every few seconds, in a thread
        files.reload()

`conf/acl`, with the folders in it, comes first, then `conf/plain_acl.yml`; of an account that is in
several files the first one counts. A file that cannot be read leaves what there was, and stops
nothing but the start. Knows no request; blocks on the disk.
"""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mqcore.access.plain_content import PlainAccount, PlainContent, PlainContentError
from mqcore.access.tables import USERS_MAX
from mqcore.clock import wall_ms
from mqcore.errors import ConfigurationError, StateFileError
from mqcore.native import Access, write_state

__all__ = ["PLAIN_LOOK_S", "PlainFiles", "plain_files"]

_log = logging.getLogger("mqcore.access")

# Between two looks at the files (`AclFileWatchService`).
PLAIN_LOOK_S: Final = 5.0
_DEFAULT_FILE: Final = Path("conf", "plain_acl.yml")
_DIRECTORY: Final = Path("conf", "acl")
# It is beside them, and has the keys of a tool.
_NOT_THIS: Final = Path("conf", "tools.yml")
_SUFFIXES: Final = (".yml", ".yaml")
# Files, and folders in folders: more is a mistake, such as a link that leads back.
_FILES_MAX: Final = 1_000
_DEPTH_MAX: Final = 8
# Twenty thousand accounts are some 5 MB.
_FILE_BYTES_MAX: Final = 16 << 20

_Stamps = Mapping[Path, tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class _Read:
    """What all files have.

    Attributes:
        contents: By file, in their order.
        accounts: The accounts that count, and the files that they are in.
        white: Addresses from which nobody needs a signature.
    """

    contents: Mapping[Path, PlainContent]
    accounts: Mapping[str, tuple[PlainAccount, Path]]
    white: tuple[str, ...]

    def rows(self) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Returns it as the engine takes it."""
        return self.white, [account.row() for account, _path in self.accounts.values()]


class PlainFiles:
    """The files of one broker."""

    def __init__(self, home: Path, *, now_ms: Callable[[], int] = wall_ms) -> None:
        """Takes where they are; touches nothing.

        Args:
            home: The directory that `conf` is in.
            now_ms: The wall clock, for versions.
        """
        self._home = home
        self._now_ms = now_ms
        self._read = _Read({}, {}, ())
        self._stamps: _Stamps = {}

    @property
    def default_path(self) -> Path:
        """The file that new accounts go to."""
        return self._home / _DEFAULT_FILE

    @property
    def accounts(self) -> dict[str, PlainAccount]:
        """The accounts by access key."""
        return {name: account for name, (account, _path) in self._read.accounts.items()}

    @property
    def versions(self) -> dict[str, dict[str, int]]:
        """The version of each file that has something, by path."""
        return {str(path): content.version for path, content in self._read.contents.items()}

    @property
    def version(self) -> dict[str, int]:
        """The version of the file that new accounts go to."""
        return self._read.contents.get(self.default_path, PlainContent()).version

    def rows(self) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Returns what the engine takes: addresses, accounts."""
        return self._read.rows()

    def load(self) -> None:
        """Reads all files.

        Raises:
            StateFileError: One cannot be read, or they are too many; what was there stays.
        """
        stamps = self._look()
        read = _joined({path: _content(path) for path in stamps})
        _check(read)
        self._stamps, self._read = stamps, read
        self._warn()

    def reload(self) -> bool:
        """Reads all files anew; returns whether that changed anything.

        Raises:
            StateFileError: One cannot be read; what was there stays, until it changes again.
        """
        before = self._read
        # What is bad is not looked at again before it has changed.
        self._stamps = self._look()
        self.load()
        return self._read != before

    def has_changed(self) -> bool:
        """Returns whether a file came, went, or was written."""
        return self._look() != self._stamps

    # Changes.

    def with_account(self, changes: Mapping[str, Any]) -> tuple[Path, bytes]:
        """Returns the file that an account is in, or goes to, and its content with a change."""
        name = changes["accessKey"]
        path = self._path_of(name) or self.default_path
        return path, self._content(path).with_account(changes, self._now_ms())

    def without_account(self, name: str) -> tuple[Path, bytes] | None:
        """Returns the file that an account is in and its content without; None for no account."""
        path = self._path_of(name)
        if path is None:
            return None
        return path, self._content(path).without_account(name, self._now_ms())

    def with_white(self, addresses: list[str], path: str) -> tuple[Path, bytes] | None:
        """Returns a file and its content with other addresses; None for none of our files.

        Args:
            addresses: From where nobody needs a signature.
            path: The file; empty for the one that new accounts go to.
        """
        found = Path(path) if path else self.default_path
        if path and found not in self._look():
            return None
        return found, self._content(found).with_white(addresses, self._now_ms())

    def write(self, path: Path, text: bytes) -> None:
        """Writes a file whole, for its owner alone, and reads all of them.

        Raises:
            StateFileError: It would not be readable; nothing was written.
            StoreError: It cannot be written; nothing has changed.
        """
        contents = dict(self._read.contents)
        try:
            contents[path] = PlainContent.of_text(text)
        except PlainContentError as error:
            raise _bad(path, str(error)) from error
        _check(_joined(contents))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_state(path, text, is_private=True)
        self.load()

    def _path_of(self, name: str) -> Path | None:
        found = self._read.accounts.get(name)
        return None if found is None else found[1]

    def _content(self, path: Path) -> PlainContent:
        # As it is now: somebody may have changed it since.
        return _content(path) if path.is_file() else PlainContent()

    def _look(self) -> dict[Path, tuple[int, int, int]]:
        found: dict[Path, tuple[int, int, int]] = {}
        self._look_into(self._home / _DIRECTORY, found, 0)
        for path in (self.default_path,):
            stamp = _stamp(path)
            if stamp is not None:
                found.setdefault(path, stamp)
        return found

    def _look_into(
        self, directory: Path, found: dict[Path, tuple[int, int, int]], depth: int
    ) -> None:
        try:
            paths = sorted(directory.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise _bad(directory, error.strerror or str(error)) from error
        if depth > _DEPTH_MAX:
            raise _bad(directory, f"folders are nested deeper than {_DEPTH_MAX}")
        for path in paths:
            if path == self._home / _NOT_THIS:
                continue
            if path.suffix in _SUFFIXES:
                stamp = _stamp(path)
                if stamp is not None:
                    found[path] = stamp
            elif path.is_dir():
                self._look_into(path, found, depth + 1)
            if len(found) > _FILES_MAX:
                raise _bad(self._home / _DIRECTORY, f"there are more than {_FILES_MAX} files")

    def _warn(self) -> None:
        for path, content in self._read.contents.items():
            if content.white:
                _log.warning(
                    "%s: whoever comes from %s is let in without a signature, and may do "
                    "everything",
                    path,
                    ", ".join(content.white),
                )
            for account in content.accounts:
                counts = self._read.accounts[account.name][1] == path
                if not counts:
                    _log.warning(
                        "the accessKey %s is in several files: %s is not used", account.name, path
                    )
                elif account.white.strip():
                    _log.warning(
                        "%s: account %s is let in without a signature from %s",
                        path,
                        account.name,
                        account.white,
                    )
        if not self._read.accounts and not self._read.white:
            _log.warning("there is no account in %s: nobody is let in", self.default_path)


def plain_files(home: Path | str, now_ms: Callable[[], int] = wall_ms) -> PlainFiles:
    """Returns the files below the home directory that a setting names.

    Raises:
        ConfigurationError: It names none.
    """
    text = os.path.expandvars(home)
    if not text.strip() or "$" in text:
        raise ConfigurationError(
            "rocketmqHome names no directory: set it, or the variable ROCKETMQ_HOME, to that which "
            "conf/plain_acl.yml is in",
            faults=("rocketmqHome",),
        )
    return PlainFiles(Path(text), now_ms=now_ms)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino)


def _content(path: Path) -> PlainContent:
    try:
        if path.stat().st_size > _FILE_BYTES_MAX:
            raise _bad(path, f"it has more than {_FILE_BYTES_MAX} bytes")
        return PlainContent.of_text(path.read_bytes())
    except OSError as error:
        raise _bad(path, error.strerror or str(error)) from error
    except PlainContentError as error:
        raise _bad(path, str(error)) from error


def _joined(contents: Mapping[Path, PlainContent]) -> _Read:
    kept = {path: content for path, content in contents.items() if content.raw}
    accounts: dict[str, tuple[PlainAccount, Path]] = {}
    for path, content in kept.items():
        for account in content.accounts:
            accounts.setdefault(account.name, (account, path))
    white = tuple(each for content in kept.values() for each in content.white)
    return _Read(kept, accounts, white)


def _check(read: _Read) -> None:
    """Returns where the engine takes it."""
    if len(read.accounts) > USERS_MAX:
        raise StateFileError(
            f"there are {len(read.accounts)} accounts, at most {USERS_MAX}", path="", why=""
        )
    try:
        Access({}).replace([], [], {}, read.rows())
    except ValueError as error:
        paths = ", ".join(map(str, read.contents))
        raise _bad(Path(paths), str(error)) from error


def _bad(path: Path, why: str) -> StateFileError:
    return StateFileError(f"{path}: {why}", path=str(path), why=why)
