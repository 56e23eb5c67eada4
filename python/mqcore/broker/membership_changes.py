"""What follows from a change of who is online: the fast path learns it, members are notified.

Works in slices of time: a thousand clients may come or go at once. Knows no file. Belongs to the
event loop.
"""

import asyncio
from collections.abc import Iterable, Iterator

from mqcore.broker import policy
from mqcore.broker.state import BrokerState
from mqcore.broker.statistics import CHANNELS
from mqcore.remoting import Link, LinkEvents, RequestCode, Slices

# Changes of membership are notified together this late: a thousand clients that join at once would
# otherwise cause half a million messages. Rebalancing takes far longer.
NOTIFY_DELAY_S = 0.05


class MembershipChanges:
    """The changes of membership of one broker that were not passed on yet."""

    def __init__(self, state: BrokerState) -> None:
        """Begins with none."""
        self._state = state
        # Groups whose members are to be notified.
        self._changed: set[str] = set()
        # Groups of which the fast path does not know the newest yet.
        self._stale: dict[str, None] = {}

    def subscriptions_changed(self, groups: Iterable[str]) -> None:
        """Follows a change of who is online, or of what a group wants.

        For a slice of time at once; what is left follows in the next turns of the loop.
        """
        was_due = bool(self._stale)
        self._stale.update(dict.fromkeys(groups))
        if not was_due:
            self._fill_stale()

    def _fill_stale(self) -> None:
        state, slices = self._state, Slices()
        while self._stale:
            name = next(iter(self._stale))
            del self._stale[name]
            if name not in state.members.consumers:
                state.filters.unregister(name, state.now_ms())
            policy.fill_subscriptions(state, (name,))
            if self._stale and slices.is_over:
                asyncio.get_running_loop().call_soon(self._fill_stale)
                return

    async def subscriptions_filled(self) -> None:
        """Returns when the fast path knows every change that was noted."""
        while self._stale:  # noqa: ASYNC110 - each turn of the loop does a slice of it
            await asyncio.sleep(0)

    def members_changed(self, groups: Iterable[str]) -> None:
        """Notifies the members of groups soon that their membership changed."""
        was_due = bool(self._changed)
        self._changed.update(groups)
        if self._changed and not was_due:
            asyncio.get_running_loop().call_later(NOTIFY_DELAY_S, self._notify_members)

    def _notify_members(self) -> None:
        changed, self._changed = self._changed, set()
        if self._state.settings.notifies_members:
            self._notify_some(self._to_notify(changed))

    def _to_notify(self, changed: Iterable[str]) -> Iterator[tuple[str, Link]]:
        """Yields each member that is to be notified of a group; what changes meanwhile counts."""
        state = self._state
        for name in changed:
            config, group = state.groups.find(name), state.members.consumers.get(name)
            if group is None or (config is not None and not config.notifies_changes):
                continue
            for link in list(group.clients):
                if isinstance(link, Link):
                    yield name, link

    def _notify_some(self, members: Iterator[tuple[str, Link]]) -> None:
        """Notifies members for a slice, and goes on in the next turn."""
        slices = Slices()
        for name, link in members:
            link.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": name})
            if slices.is_over:
                asyncio.get_running_loop().call_soon(self._notify_some, members)
                return


class Departures(LinkEvents):
    """Takes a closed connection out of every group, and notifies those that stay; counts them."""

    def __init__(self, state: BrokerState, membership: MembershipChanges) -> None:
        """Takes where members are, and what is notified of those that leave."""
        self._state = state
        self._membership = membership

    def connected(self, link: Link) -> None:  # noqa: ARG002 - any counts
        """Counts a connection."""
        self._state.tallies.add(CHANNELS, "CONNECT")

    def idle(self, link: Link) -> None:  # noqa: ARG002 - any counts
        """Counts one that moved nothing for too long."""
        self._state.tallies.add(CHANNELS, "IDLE")

    def failed(self, link: Link, error: Exception) -> None:  # noqa: ARG002 - any counts
        """Counts one that broke."""
        self._state.tallies.add(CHANNELS, "EXCEPTION")

    def closed(self, link: Link) -> None:
        """Takes a connection out of every group that it is a member of."""
        self._state.tallies.add(CHANNELS, "CLOSE")
        self._go_on(self._state.members.closing(link))

    def _go_on(self, steps: Iterator[str]) -> None:
        """Takes it out of group after group for a slice, and goes on in the next turn."""
        slices, left = Slices(), []
        for name in steps:
            if name:
                left.append(name)
            if slices.is_over:
                asyncio.get_running_loop().call_soon(self._go_on, steps)
                break
        self._membership.subscriptions_changed(left)
        self._membership.members_changed(left)
