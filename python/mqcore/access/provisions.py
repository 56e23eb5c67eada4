"""What settings have of access control: users made at the start, own credentials, provider names.

Refuses what would not be what it is called. Knows no table in force.
"""

import logging
from collections.abc import Iterable
from typing import Any, Final

from mqcore.access.model import (
    ACTION_BITS,
    ALLOW,
    CUSTOM,
    DEFAULT,
    DENY,
    NORMAL,
    SUPER,
    Acl,
    Entry,
    Policy,
    Resource,
    User,
)
from mqcore.access.plain_content import PlainAccount
from mqcore.access.tables import AccessTables
from mqcore.config import AccessSettings
from mqcore.errors import BadJsonError, ConfigurationError, RefusedError
from mqcore.model.reading import as_text
from mqcore.model.relaxed_json import parse_object
from mqcore.remoting import Credentials

__all__ = ["check_access", "credentials_of", "first_users", "migrated"]

_log = logging.getLogger("mqcore.access")

_AUTH: Final = "org.apache.rocketmq.auth"
# The classes of 5.3 that do what is done here.
_PROVIDERS: Final = {
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": (
        f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": (
        f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider"
    ),
}


def check_access(settings: AccessSettings) -> list[str]:
    """Returns warnings about access control.

    Raises:
        ConfigurationError: A setting promises what is not there, or cannot be read.
    """
    given = {
        "authenticationProvider": settings.authentication_provider,
        "authenticationMetadataProvider": settings.users_provider,
        "authorizationProvider": settings.authorization_provider,
        "authorizationMetadataProvider": settings.policies_provider,
    }
    faults = tuple(
        f"{name}={text}: only {_PROVIDERS[name]} is built in"
        for name, text in given.items()
        if text and text != _PROVIDERS[name]
    )
    if faults:
        raise ConfigurationError("; ".join(faults), faults=faults)
    first_users(settings)
    return _warnings(settings)


def _warnings(settings: AccessSettings) -> list[str]:
    found = [
        f"{name}={text} is not used: every request is checked"
        for name, text in (
            ("authenticationStrategy", settings.authentication_strategy),
            ("authorizationStrategy", settings.authorization_strategy),
        )
        if text
    ]
    is_on = settings.authenticates or settings.authorizes or settings.guards_routes
    if is_on and settings.is_like_official:
        found.append(
            "mqcoreAuthLikeOfficial=true: any user may change settings, topics and groups, and "
            "read every topic by LITE_PULL_MESSAGE"
        )
    if settings.is_dry_run and is_on:
        found.append("mqcoreAuthDryRun=true: users without rights are not refused")
    return found


def first_users(settings: AccessSettings) -> list[User]:
    """Returns the Super users that settings name.

    Raises:
        ConfigurationError: One cannot be read.
    """
    found = []
    if settings.first_user:
        given = _object("initAuthenticationUser", settings.first_user)
        name, secret = as_text(given.get("username")), as_text(given.get("password"))
        found.append(_made("initAuthenticationUser", name, secret))
    own = credentials_of(settings)
    if own is not None:
        made = _made("innerClientAuthenticationCredentials", own.access_key, own.secret_key)
        found.append(made)
    return found


def migrated(tables: AccessTables, accounts: Iterable[PlainAccount]) -> AccessTables:
    """Returns tables with accounts of 4.x made users, those that are not there (`AuthMigrator`).

    An administrator becomes a Super user; what it may with topics and groups becomes Custom
    entries, what it may with others Default ones. Addresses without a signature are not taken over.
    """
    for account in accounts:
        if account.name in tables.users:
            continue
        kind = SUPER if account.is_admin else NORMAL
        tables = tables.with_new(User(account.name, account.secret, kind))
        own = [
            *(_entry(Resource("Topic", name), perm) for name, perm in account.topics),
            *(_entry(Resource("Group", name), perm) for name, perm in account.groups),
        ]
        others = [
            _entry(Resource(kind, None), perm)
            for kind, perm in (("Topic", account.default_topic), ("Group", account.default_group))
            if perm is not None
        ]
        policies = [
            Policy(kind, tuple(entries))
            for kind, entries in ((CUSTOM, own), (DEFAULT, others))
            if entries
        ]
        if policies:
            # Merged: of a resource that is there twice the last counts.
            tables = tables.with_policies(Acl(account.name, ()).merged(policies))
        _log.info("account %s of 4.x became a user", account.name)
    return tables


def _entry(resource: Resource, permission: int) -> Entry:
    names = tuple(name for name, bit in ACTION_BITS.items() if bit & permission)
    return Entry(resource, names or ("All",), decision=ALLOW if names else DENY)


def credentials_of(settings: AccessSettings) -> Credentials | None:
    """Returns what requests of the server itself are signed with; None for unsigned ones.

    Raises:
        ConfigurationError: They cannot be read.
    """
    key = "innerClientAuthenticationCredentials"
    if not settings.own_credentials:
        return None
    given = _object(key, settings.own_credentials)
    name, secret = as_text(given.get("accessKey")), as_text(given.get("secretKey"))
    _made(key, name, secret)
    return Credentials(name, secret, as_text(given.get("securityToken")) or None)


def _object(key: str, text: str) -> dict[str, Any]:
    try:
        return parse_object(text)
    except BadJsonError as error:
        # The value is a secret: it is not shown.
        raise ConfigurationError(f"{key} is no JSON object", faults=(key,)) from error


def _made(key: str, name: str, secret: str) -> User:
    try:
        return User(name, secret, SUPER).made()
    except RefusedError as error:
        raise ConfigurationError(f"{key}: {error.message}", faults=(key,)) from error
