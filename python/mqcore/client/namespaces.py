"""Namespaces: a name in front of topics and groups, as `NamespaceUtil` puts it there. Pure."""

from mqcore.errors import UsageError, UsageReason
from mqcore.model.topics import (
    AUTO_CREATE_TOPIC,
    DLQ_PREFIX,
    RETRY_PREFIX,
    SYSTEM_PREFIX,
    UNSENDABLE_TOPICS,
    group_fault,
)

__all__ = ["check_group", "check_namespace", "with_namespace", "without_namespace"]

_SEPARATOR = "%"
_SYSTEM_NAMES = UNSENDABLE_TOPICS | {AUTO_CREATE_TOPIC, "RMQ_SYS_TRACE_TOPIC"}


def check_namespace(namespace: str | None) -> str:
    """Returns a namespace that can be put before names; empty for none.

    Raises:
        UsageError: It cannot.
    """
    if not namespace:
        return ""
    fault = group_fault(namespace)
    if fault is not None or _SEPARATOR in namespace:
        raise UsageError(f"namespace {namespace!r}: {fault or 'a % separates it from names'}")
    return namespace


def check_group(group: str) -> str:
    """Returns the name of a group, its namespace included, that brokers take.

    Raises:
        UsageError: It is illegal.
    """
    fault = group_fault(group)
    if fault is not None:
        raise UsageError(f"group {group!r}: {fault}", group=group, reason=UsageReason.GROUP)
    return group


def with_namespace(namespace: str, name: str) -> str:
    """Returns a topic or group as brokers know it; system names and those that have it stay."""
    if not namespace or name in _SYSTEM_NAMES or name.startswith(SYSTEM_PREFIX):
        return name
    prefix, rest = _split(name)
    lead = namespace + _SEPARATOR
    return name if rest.startswith(lead) else f"{prefix}{lead}{rest}"


def without_namespace(namespace: str, name: str) -> str:
    """Returns a topic or group as the user knows it."""
    if not namespace:
        return name
    prefix, rest = _split(name)
    return prefix + rest.removeprefix(namespace + _SEPARATOR)


def _split(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name
