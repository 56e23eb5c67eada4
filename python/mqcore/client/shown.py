"""How producers, consumers and clients are shown by `repr`: one line, without secrets."""

from collections.abc import Iterable

from mqcore.client.instance import Instance

__all__ = ["shown"]


def shown(
    part: object,
    instance: Instance,
    *,
    group: str | None = None,
    topics: Iterable[str] = (),
    is_started: bool,
    is_closed: bool,
) -> str:
    """Returns what a part of the client is.

    Args:
        part: What is shown; only its class is.
        instance: Its client.
        group: Its group, where it has one.
        topics: What it consumes, as users call it.
        is_started: Whether it was started.
        is_closed: Whether it was closed.
    """
    words = [type(part).__name__, f"namesrv={';'.join(instance.name_servers.addresses)!r}"]
    if group is not None:
        words.append(f"group={group!r}")
    listed = sorted(topics)
    if listed:
        words.append(f"topics={listed!r}")
    words.append("closed" if is_closed else "started" if is_started else "not started")
    return f"<{' '.join(words)}>"
