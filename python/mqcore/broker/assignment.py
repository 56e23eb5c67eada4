"""Which queues the broker gives to a member that does not compute them itself.

Pure functions of queues, members and a mode; knows no connection. After `QueryAssignmentProcessor`
of 5.x, which has these two strategies and answers nothing for another.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from mqcore.model.allocation import Averagely, AveragelyByCircle, Strategy
from mqcore.model.java_order import queue_key, text_key
from mqcore.model.queues import MessageQueue
from mqcore.model.request_modes import POP, RequestMode

STRATEGIES: Final[Mapping[str, Strategy]] = MappingProxyType(
    {each.name: each for each in (Averagely(), AveragelyByCircle())}
)
# Who pops from every queue names none: the broker chooses.
ANY_QUEUE: Final = -1


def assigned(
    wanted: RequestMode,
    strategy_name: str,
    client_id: str,
    queues: Iterable[MessageQueue],
    clients: Iterable[str],
) -> frozenset[MessageQueue] | None:
    """Returns the queues of a member.

    Args:
        wanted: How the group asks for the topic.
        strategy_name: The official name of a strategy.
        client_id: The member.
        queues: All queues of the topic, over all brokers.
        clients: All members.

    Returns:
        Its queues; an empty set where it is to give up those that it has; None where nothing is
        known and it is to keep them: no queue, no member, or a strategy that is not served.
    """
    strategy = STRATEGIES.get(strategy_name)
    every = sorted(set(queues), key=queue_key)
    members = sorted(set(clients), key=text_key)
    if strategy is None or not every or not members or not client_id.strip():
        return None
    if wanted.mode == POP:
        return frozenset(_popped(strategy, wanted.share_queues, client_id, every, members))
    return frozenset(_share(strategy, client_id, every, members))


def _popped(
    strategy: Strategy,
    share_queues: int,
    client_id: str,
    queues: list[MessageQueue],
    members: list[str],
) -> Iterable[MessageQueue]:
    """Returns what a member pops from: its own share, and those of the members behind it."""
    if share_queues <= 0 or share_queues >= len(members) - 1:
        return (MessageQueue(each.topic, each.broker_name, ANY_QUEUE) for each in queues)
    if client_id not in members:
        return ()
    at = members.index(client_id)
    if len(members) > len(queues):
        # Too few queues for a share each: nobody is left without.
        return (queues[at % len(queues)],)
    nearby = (members[(at + step) % len(members)] for step in range(share_queues + 1))
    return (queue for each in nearby for queue in _share(strategy, each, queues, members))


def _share(
    strategy: Strategy, client_id: str, queues: list[MessageQueue], members: list[str]
) -> Iterable[MessageQueue]:
    return strategy.allocate(client_id, queues, members) if client_id in members else ()
