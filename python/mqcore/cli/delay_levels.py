"""What a broker makes of a delay level that it does not have: its last one, as officially."""

from typing import TYPE_CHECKING

from mqcore.errors import MQError, NoRouteError

if TYPE_CHECKING:
    from mqcore.admin import Admin

__all__ = ["level_note"]

_LEVELS = "messageDelayLevel"


async def level_note(admin: "Admin", topic: str, level: int) -> str:
    """Returns a sentence where brokers take a level as another one; empty where they do not.

    Args:
        admin: Asks the brokers of the topic.
        topic: Where messages are to go.
        level: The level that was asked for.
    """
    try:
        addresses = await _addresses(admin, topic)
        tables = [(await admin.brokers.config(address)).get(_LEVELS, "") for address in addresses]
    except MQError:
        # The send itself shows what is wrong; whoever may send may not read settings.
        return ""
    for levels in map(str.split, tables):
        if 0 < len(levels) < level:
            return (
                f"delay level {level} is taken as {len(levels)}, {levels[-1]}: the broker has "
                f"levels 1 to {len(levels)} ({_LEVELS})"
            )
    return ""


async def _addresses(admin: "Admin", topic: str) -> list[str]:
    """Returns the brokers that a message of a topic may go to."""
    try:
        route = await admin.topics.route(topic)
    except NoRouteError:
        # Its first message makes it, on any of them.
        return sorted((await admin.brokers.cluster()).masters().values())
    return sorted(filter(None, (broker.any_of(0) for broker in route.brokers)))
