"""A file of access control of 4.x: `conf/plain_acl.yml`, and those below `conf/acl`.

    globalWhiteRemoteAddresses: [10.10.103.*]
    accounts:
    - accessKey: producer1
      secretKey: 12345678
      whiteRemoteAddress:
      admin: false
      defaultTopicPerm: DENY
      defaultGroupPerm: SUB
      topicPerms: [orders=PUB|SUB]
      groupPerms: [mail=SUB]
    dataVersion: [{counter: 5, timestamp: 1684290520350}]

Read as `PlainPermissionManager` of 4.9.8 reads it, and changed as that changes it. Every scalar is
its text: a secret of digits is not a number. Knows no path, no decision, and shows no secret.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mqcore.model.reading import as_dict, as_list

__all__ = ["PERMISSIONS", "PlainAccount", "PlainContent", "PlainContentError", "check_permissions"]

_DENY: Final = 0
_PUB: Final = 1
_SUB: Final = 2
# What an account may, as the engine takes it; whatever else is written is DENY.
PERMISSIONS: Final[Mapping[str, int]] = {
    "DENY": _DENY,
    "PUB": _PUB,
    "SUB": _SUB,
    "PUB|SUB": _PUB | _SUB,
    "SUB|PUB": _PUB | _SUB,
}
# Longer ones only (`AclConstants`).
_KEY_CHARS_MIN: Final = 6
_KEY_CHARS_MAX: Final = 127
_SECRET_CHARS_MAX: Final = 1_024
_TRUE: Final = frozenset({"true", "yes", "on"})
# What a scalar without a value is, in YAML.
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})

_WHITE: Final = "globalWhiteRemoteAddresses"
_ACCOUNTS: Final = "accounts"
_VERSION: Final = "dataVersion"
_COUNTER: Final = "counter"
_TIMESTAMP: Final = "timestamp"
_ACCESS_KEY: Final = "accessKey"
_SECRET_KEY: Final = "secretKey"
_ADMIN: Final = "admin"
_LISTS: Final = ("topicPerms", "groupPerms")
_INSTALL: Final = "PyYAML is not installed: pip install 'mqcore[acl]'"


class PlainContentError(ValueError):
    """A file of access control of 4.x cannot be read; the text has no secret of it."""


@dataclass(frozen=True, slots=True)
class PlainAccount:
    """One account.

    Attributes:
        name: Its access key.
        secret: Its secret key.
        white: A pattern of addresses from which it needs no signature; empty for none.
        is_admin: Whether it may administrate.
        default_topic: What it may with topics that are not listed: 1 Pub, 2 Sub, 3 both, 0 neither.
        default_group: The same as a group; None for either: nothing is written.
        topics: What it may with topics, in the order of the file.
        groups: What it may as groups.
    """

    name: str
    secret: str = field(repr=False)
    white: str = ""
    is_admin: bool = False
    default_topic: int | None = None
    default_group: int | None = None
    topics: tuple[tuple[str, int], ...] = ()
    groups: tuple[tuple[str, int], ...] = ()

    @property
    def is_full_admin(self) -> bool:
        """Whether it may do everything: an administrator without permissions of its own."""
        return self.is_admin and not self.topics and not self.groups

    def row(self) -> tuple[Any, ...]:
        """Returns it as the engine takes it."""
        default = (self.default_topic or _DENY, self.default_group or _DENY)
        rows = self.name, self.secret, self.white, self.is_admin, default
        return (*rows, self.topics, self.groups)


@dataclass(frozen=True, slots=True)
class PlainContent:
    """What one file has.

    Attributes:
        white: Patterns of addresses from which nobody needs a signature.
        accounts: The accounts, in the order of the file.
        counter: How often tools have changed it.
        timestamp_ms: When they did last, Unix ms.
        raw: All of it, as it was read.
    """

    white: tuple[str, ...] = ()
    accounts: tuple[PlainAccount, ...] = ()
    counter: int = 0
    timestamp_ms: int = 0
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of_text(cls, text: bytes) -> "PlainContent":
        """Reads a file; an empty one has nothing.

        Raises:
            PlainContentError: It cannot be read.
        """
        raw = _parsed(text)
        if not raw:
            return cls()
        version = as_dict(next(iter(as_list(raw.get(_VERSION))), {}))
        return cls(
            tuple(_texts(raw.get(_WHITE), _WHITE)),
            tuple(_account(as_dict(each)) for each in as_list(raw.get(_ACCOUNTS))),
            _whole(version.get(_COUNTER)),
            _whole(version.get(_TIMESTAMP)),
            raw,
        )

    @property
    def version(self) -> dict[str, int]:
        """Its version, as `DataVersion` writes it."""
        return {_COUNTER: self.counter, _TIMESTAMP: self.timestamp_ms}

    def with_account(self, changes: Mapping[str, Any], now_ms: int) -> bytes:
        """Returns the text with an account made or changed (`createAclAccessConfigMap`).

        Args:
            changes: Its members by the names of the file; those that are left out stay.
            now_ms: The time, for the version.
        """
        rows = [dict(as_dict(each)) for each in as_list(self.raw.get(_ACCOUNTS))]
        name = changes[_ACCESS_KEY]
        old = next((row for row in rows if row.get(_ACCESS_KEY) == name), {})
        left = [row for row in rows if row.get(_ACCESS_KEY) != name]
        return self._text({_ACCOUNTS: [*left, {**old, **changes}]}, now_ms)

    def without_account(self, name: str, now_ms: int) -> bytes:
        """Returns the text without an account."""
        rows = [as_dict(each) for each in as_list(self.raw.get(_ACCOUNTS))]
        left = [row for row in rows if row.get(_ACCESS_KEY) != name]
        return self._text({_ACCOUNTS: left}, now_ms)

    def with_white(self, addresses: Sequence[str], now_ms: int) -> bytes:
        """Returns the text with other addresses from which nobody needs a signature."""
        return self._text({_WHITE: list(addresses)}, now_ms)

    def _text(self, changes: Mapping[str, Any], now_ms: int) -> bytes:
        version = [{_COUNTER: self.counter + 1, _TIMESTAMP: now_ms}]
        whole = {**self.raw, **changes, _VERSION: version}
        whole[_ACCOUNTS] = [_written(as_dict(each)) for each in as_list(whole.get(_ACCOUNTS))]
        text: str = _yaml().safe_dump(
            whole, default_flow_style=False, sort_keys=False, allow_unicode=True
        )
        return text.encode()


def check_permissions(rows: Sequence[str]) -> str:
    """Returns what is wrong with permissions of a tool, in 4.9's words; empty for nothing."""
    for row in rows:
        parts = [part for part in row.split("=") if part]
        if len(parts) != 2:
            return (
                f"Parse Resource format error for {row}.\n"
                "The expected resource format is 'Res=Perm'. For example: topicA=SUB"
            )
        if parts[1].strip() not in PERMISSIONS:
            return (
                f"Parse resource permission error for {row}.\n"
                "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."
            )
    return ""


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise PlainContentError(_INSTALL) from error
    return yaml


def _parsed(text: bytes) -> dict[str, Any]:
    yaml = _yaml()
    try:
        # Every scalar is its text, tags make no objects.
        found = yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # A line of the file may have a secret: its place alone is named.
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise PlainContentError(f"it is no YAML{where}") from error
    if found in (None, ""):
        return {}
    if not isinstance(found, dict):
        raise PlainContentError("it is no table of keys")
    return found


def _texts(value: Any, name: str) -> list[str]:
    if value is None or (isinstance(value, str) and value in _NULLS):
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise PlainContentError(f"{name} is no list of texts")
    return value


def _scalar(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name, "")
    if not isinstance(value, str):
        raise PlainContentError(f"{name} is no text")
    return "" if value in _NULLS else value


def _whole(value: Any) -> int:
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 20 else 0


def _account(row: Mapping[str, Any]) -> PlainAccount:
    name, secret = _scalar(row, _ACCESS_KEY), _scalar(row, _SECRET_KEY)
    # The secret is not shown.
    if not _KEY_CHARS_MIN < len(name) <= _KEY_CHARS_MAX or not name.isprintable():
        raise PlainContentError(
            f"The accessKey={name[:_KEY_CHARS_MAX]} cannot be null and length should longer than 6"
        )
    if not _KEY_CHARS_MIN < len(secret) <= _SECRET_CHARS_MAX:
        raise PlainContentError(
            f"The secretKey of accessKey={name} cannot be null and length should longer than 6"
        )
    topics, groups = (_permissions(row, each) for each in _LISTS)
    return PlainAccount(
        name,
        secret,
        _scalar(row, "whiteRemoteAddress"),
        _scalar(row, _ADMIN).lower() in _TRUE,
        _permission(_scalar(row, "defaultTopicPerm")),
        _permission(_scalar(row, "defaultGroupPerm")),
        topics,
        groups,
    )


def _permission(text: str) -> int | None:
    return PERMISSIONS.get(text.strip(), _DENY) if text.strip() else None


def _permissions(row: Mapping[str, Any], name: str) -> tuple[tuple[str, int], ...]:
    found = []
    for text in _texts(row.get(name), name):
        parts = [part for part in text.split("=") if part]
        if len(parts) != 2:
            kind = name.removesuffix("Perms")
            raise PlainContentError(f"Parse resource permission failed for {kind}:{text}")
        found.append((parts[0].strip(), PERMISSIONS.get(parts[1].strip(), _DENY)))
    return tuple(found)


def _written(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an account as it is written: a switch is one, and nothing is no text."""
    made: dict[str, Any] = dict(row)
    if isinstance(made.get(_ADMIN), str):
        made[_ADMIN] = made[_ADMIN].lower() in _TRUE
    return {key: None if value in ("", "~") else value for key, value in made.items()}
