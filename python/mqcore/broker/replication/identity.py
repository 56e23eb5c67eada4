"""The id of a broker at its controller, and the files that it is kept in.

`brokerIdentity` holds `CLUSTER#NAME#ID`, one line; while an id is applied for,
`brokerIdentity-temp` holds `CLUSTER#NAME#ID#CHECKCODE` (`BrokerMetadata`, `TempBrokerMetadata` of
RocketMQ). `brokerIdentity-processes` is of mqcore alone: the check codes of the last processes on
the directory, a line each. All are written beside, synced and renamed. Knows no request.
"""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from mqcore.errors import ConfigurationError
from mqcore.native import write_state

__all__ = ["Candidate", "Identity", "IdentityFiles"]

_SEPARATOR: Final = "#"
# Behind the name of the first file.
_CANDIDATE: Final = "-temp"
_PROCESSES: Final = "-processes"
# One of them is what the controller has, unless so many were started that never reached it.
_PROCESSES_MAX: Final = 8
# A name of 255 bytes each, an id and an address are shorter.
_LINE_MAX_BYTES: Final = 4_096


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a broker is.

    Attributes:
        cluster: The cluster.
        name: The broker's name, which all of its replicas have.
        broker_id: Its id at the controller, from 1 on.
    """

    cluster: str
    name: str
    broker_id: int

    def text(self) -> str:
        """Returns the content of the file."""
        return _SEPARATOR.join((self.cluster, self.name, str(self.broker_id)))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Returns what a file holds.

        Raises:
            ValueError: It cannot be read.
        """
        cluster, name, broker_id = text.strip().split(_SEPARATOR)
        return cls(cluster, name, _id(broker_id))


@dataclass(frozen=True, slots=True)
class Candidate:
    """Who a broker wants to be.

    Attributes:
        identity: With the id that is applied for.
        check_code: Names the application, so that it can be made again: `ADDRESS;MS`.
    """

    identity: Identity
    check_code: str

    def text(self) -> str:
        """Returns the content of the file."""
        return f"{self.identity.text()}{_SEPARATOR}{self.check_code}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Returns what a file holds.

        Raises:
            ValueError: It cannot be read.
        """
        identity, separator, check_code = text.strip().rpartition(_SEPARATOR)
        if not separator or not check_code:
            raise ValueError("no check code")
        return cls(Identity.parse(identity), check_code)


class IdentityFiles:
    """The files of one broker. Every method may wait for the disk."""

    def __init__(self, path: Path, *, cluster: str, name: str) -> None:
        """Takes where they are, and what they have to name.

        Args:
            path: `storePathBrokerIdentity`.
            cluster: The cluster of the settings.
            name: The broker's name of the settings.
        """
        self._path = path
        self._beside = path.with_name(path.name + _CANDIDATE)
        self._processes = path.with_name(path.name + _PROCESSES)
        self._cluster, self._name = cluster, name

    @property
    def path(self) -> Path:
        """The file of the id."""
        return self._path

    def identity(self) -> Identity | None:
        """Returns the id that the broker has, None where it never got one.

        Raises:
            ConfigurationError: The file cannot be read, or names another cluster or broker.
        """
        text = _read(self._path)
        if not text:
            return None
        try:
            found = Identity.parse(text)
        except ValueError as error:
            raise _refused(f"{self._path}: CLUSTER#BROKER#ID expected") from error
        self._check(self._path, found)
        return found

    def candidate(self) -> Candidate | None:
        """Returns what was being applied for; a file that was torn is as none.

        Raises:
            ConfigurationError: The file cannot be read, or names another cluster or broker.
        """
        text = _read(self._beside)
        try:
            found = Candidate.parse(text)
        except ValueError:
            # The application is made anew: nothing was given to us yet.
            return None
        self._check(self._beside, found.identity)
        return found

    def keep_candidate(self, candidate: Candidate) -> None:
        """Writes what is going to be applied for.

        Raises:
            StoreError: It cannot be written.
        """
        self._beside.parent.mkdir(parents=True, exist_ok=True)
        write_state(self._beside, candidate.text().encode())

    def keep(self, identity: Identity) -> None:
        """Writes the id, then removes the application.

        Raises:
            StoreError: It cannot be written.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_state(self._path, identity.text().encode())
        self.forget_candidate()

    def forget(self) -> None:
        """Removes the id: the broker is to get another one."""
        _remove(self._path)

    def forget_candidate(self) -> None:
        """Removes the application."""
        _remove(self._beside)

    def processes(self) -> tuple[str, ...]:
        """Returns the check codes of the last processes, the newest last; none of a file like none.

        Raises:
            ConfigurationError: The file cannot be read.
        """
        return tuple(line for line in _read(self._processes).splitlines() if ";" in line)

    def keep_process(self, check_code: str) -> None:
        """Writes that another process is going to register, behind those before.

        Raises:
            StoreError: It cannot be written.
        """
        lines = (*self.processes(), check_code)[-_PROCESSES_MAX:]
        self._processes.parent.mkdir(parents=True, exist_ok=True)
        write_state(self._processes, "\n".join(lines).encode())

    def _check(self, path: Path, found: Identity) -> None:
        for what, kept, wanted in (
            ("cluster", found.cluster, self._cluster),
            ("broker", found.name, self._name),
        ):
            if kept != wanted:
                raise _refused(
                    f"{path} is of {what} {kept}, and the settings name {what} {wanted}: the log "
                    "belongs to the other one; set the name back, or start with an empty directory"
                )


def _remove(path: Path) -> None:
    """Removes a file with its backup."""
    for each in (path, path.with_name(path.name + ".bak")):
        with contextlib.suppress(FileNotFoundError):
            each.unlink()


def _read(path: Path) -> str:
    """Returns the text of a file; empty where there is none.

    Raises:
        ConfigurationError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_LINE_MAX_BYTES + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _refused(f"{path}: {error.strerror or error}") from error
    if len(content) > _LINE_MAX_BYTES:
        raise _refused(f"{path}: longer than {_LINE_MAX_BYTES} bytes, and no identity")
    return content.decode("utf-8", "replace")


def _refused(fault: str) -> ConfigurationError:
    return ConfigurationError(fault, faults=(fault,))


def _id(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError("an id is a number")
    return int(text)
