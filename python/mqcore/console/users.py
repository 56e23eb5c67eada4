"""Who may log in: a file of names, roles and salted hashes, and how often a login may fail.

The file is JSON with mode 0600. Knows no request and no session.
"""

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

from mqcore.errors import ConfigurationError, UsageError

__all__ = ["FIRST_USER", "Role", "Throttle", "User", "Users"]

FIRST_USER: Final = "admin"
# 16 MiB and some 50 ms a login: what a guesser pays for each try.
_COST, _BLOCKS, _LANES = 1 << 14, 8, 1
_SALT_BYTES: Final = 16
_MEMORY_BYTES_MAX: Final = 64 << 20
_PASSWORD_CHARS_MAX: Final = 1_024
_NAME: Final = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
# 120 random bits.
_RANDOM_BYTES: Final = 15


class Role(IntEnum):
    """What somebody may do; each may do what those below it may."""

    READER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def text(self) -> str:
        """Its name in files and on pages."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may log in.

    Attributes:
        name: The name.
        role: What they may do.
        hashed: The hash of the password, with all that is needed to compare.
    """

    name: str
    role: Role
    hashed: str


class Users:
    """The users in a file."""

    def __init__(self, path: Path) -> None:
        """Takes where they are kept."""
        self._path = path

    def all(self) -> dict[str, User]:
        """Returns the users by name; none where there is no file.

        Raises:
            ConfigurationError: The file cannot be read, or others may read it.
        """
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        if self._path.stat().st_mode & 0o077:
            raise _fault(f"{self._path}: others may read it: chmod 600 {self._path}")
        try:
            rows: dict[str, Any] = json.loads(text)["users"]
            return {
                name: User(name, Role[str(row["role"]).upper()], str(row["password"]))
                for name, row in rows.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _fault(f"{self._path}: no file of users: {error!r}") from error

    def put(self, name: str, role: Role, password: str) -> None:
        """Adds a user, or replaces one.

        Raises:
            UsageError: The name or the password cannot be used.
        """
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"user {name[:64]!r}: letters, digits and _.@- are allowed, 64 of them"
            )
        if not 8 <= len(password) <= _PASSWORD_CHARS_MAX:
            raise UsageError(f"a password has 8 to {_PASSWORD_CHARS_MAX} characters")
        users = self.all()
        users[name] = User(name, role, hashed(password))
        self._write(users)

    def remove(self, name: str) -> bool:
        """Removes a user; returns whether there was one."""
        users = self.all()
        if users.pop(name, None) is None:
            return False
        self._write(users)
        return True

    def begin(self) -> str | None:
        """Makes the first user where there is none; returns the password, which nobody has seen."""
        if self.all():
            return None
        password = secrets.token_urlsafe(_RANDOM_BYTES)
        self.put(FIRST_USER, Role.ADMIN, password)
        return password

    def checked(self, name: str, password: str) -> User | None:
        """Returns the user whose password it is, None for nobody. Takes as long either way."""
        user = self.all().get(name)
        is_right = matches(password[:_PASSWORD_CHARS_MAX], user.hashed if user else _NOBODY)
        return user if user is not None and is_right else None

    def _write(self, users: dict[str, User]) -> None:
        rows = {
            each.name: {"role": each.role.text, "password": each.hashed} for each in users.values()
        }
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        beside.unlink(missing_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"users": rows}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)


def _fault(text: str) -> ConfigurationError:
    return ConfigurationError(text, faults=(text,))


def hashed(password: str) -> str:
    """Returns the salted hash of a password, with its parameters."""
    salt = secrets.token_bytes(_SALT_BYTES)
    made = _scrypt(password, salt, _COST, _BLOCKS, _LANES)
    parts = (base64.b64encode(each).decode() for each in (salt, made))
    return "$".join(("scrypt", str(_COST), str(_BLOCKS), str(_LANES), *parts))


def matches(password: str, known: str) -> bool:
    """Returns whether a password has a hash; false for a hash that cannot be read."""
    try:
        _, cost, blocks, lanes, salt, made = known.split("$")
        found = _scrypt(password, base64.b64decode(salt), int(cost), int(blocks), int(lanes))
        return hmac.compare_digest(found, base64.b64decode(made))
    except ValueError:
        return False


def _scrypt(password: str, salt: bytes, cost: int, blocks: int, lanes: int) -> bytes:
    text = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(text, salt=salt, n=cost, r=blocks, p=lanes, maxmem=_MEMORY_BYTES_MAX)


# What an unknown name is compared with.
_NOBODY: Final = hashed(secrets.token_urlsafe(_RANDOM_BYTES))


class Throttle:
    """How long a name or an address has to wait after logins that failed.

    It waits, and is never locked out: a lock is what an attacker would use against others.
    """

    FREE: Final = 5
    WAIT_MAX_S: Final = 60.0
    # Names and addresses kept; the oldest are forgotten.
    KEPT_MAX: Final = 10_000

    def __init__(self, now: Callable[[], float]) -> None:
        """Takes a clock, seconds."""
        self._now = now
        # Failures, and when the next try is taken.
        self._failed: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def wait_s(self, *keys: str) -> float:
        """Returns for how long none of the keys may try; 0 for now."""
        return max(0.0, *(self._failed.get(key, (0, 0.0))[1] - self._now() for key in keys))

    def failed(self, *keys: str) -> None:
        """Notes a login that failed."""
        for key in keys:
            count = self._failed.pop(key, (0, 0.0))[0] + 1
            beyond = count - self.FREE
            wait = min(self.WAIT_MAX_S, float(1 << min(beyond, 10))) if beyond >= 0 else 0.0
            self._failed[key] = (count, self._now() + wait)
            if len(self._failed) > self.KEPT_MAX:
                self._failed.popitem(last=False)

    def passed(self, *keys: str) -> None:
        """Notes a login that was right."""
        for key in keys:
            self._failed.pop(key, None)
