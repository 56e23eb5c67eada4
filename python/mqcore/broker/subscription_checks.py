"""Whether the members of a group subscribe to the same: if not, each loses messages.

A broker filters for a group as its newest member asked, so that a member that wants something else
never sees it: the official broker does not report it. Pure state; knows no group's name.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeAlias

from mqcore.model.subscriptions import ALL, SubscriptionData
from mqcore.model.topics import RETRY_PREFIX

# What one member subscribes to: topics with an expression's kind and text.
Subscribed: TypeAlias = frozenset[tuple[str, str, str]]


class SubscriptionCheck:
    """What each member of one group subscribes to."""

    def __init__(self) -> None:
        """Begins with nobody."""
        self._of_member: dict[Hashable, Subscribed] = {}
        # Equal subscriptions are kept once, with the number of members that have them.
        self._counts: dict[Subscribed, int] = {}
        self._kept: dict[Subscribed, Subscribed] = {}
        self._reported: frozenset[Subscribed] = frozenset()

    def note(self, member: Hashable, wanted: Iterable[SubscriptionData]) -> None:
        """Notes what a member wants; the group's retry topic is left out."""
        subscribed = frozenset(
            (each.topic, each.kind, _spelled(each))
            for each in wanted
            if not each.topic.startswith(RETRY_PREFIX)
        )
        if self._of_member.get(member) == subscribed:
            return
        self.forget(member)
        self._of_member[member] = self._kept.setdefault(subscribed, subscribed)
        self._counts[subscribed] = self._counts.get(subscribed, 0) + 1

    def forget(self, member: Hashable) -> None:
        """Forgets a member."""
        subscribed = self._of_member.pop(member, None)
        if subscribed is None:
            return
        self._counts[subscribed] -= 1
        if not self._counts[subscribed]:
            del self._counts[subscribed], self._kept[subscribed]

    @property
    def count(self) -> int:
        """How many different subscriptions there are; more than one is one too many."""
        return len(self._counts)

    def news(self) -> bool:
        """Returns whether members differ, in another way than at the last call."""
        now = frozenset(self._counts) if self.count > 1 else frozenset()
        is_news = bool(now) and now != self._reported
        self._reported = now
        return is_news

    def differences(self, names: Mapping[Hashable, str]) -> dict[str, dict[str, str]]:
        """Returns what members want where they differ.

        Args:
            names: The names of the members to show.

        Returns:
            For each name the topics that not all want alike, with what it wants of them; empty
            for a topic that it does not subscribe, and nothing at all where all want the same.
        """
        if self.count <= 1:
            return {}
        common = frozenset.intersection(*self._counts)
        topics = sorted({topic for each in self._counts for topic, _, _ in each - common})
        shown = {}
        for member, subscribed in self._of_member.items():
            if member in names:
                wanted = {topic: text for topic, _, text in subscribed}
                shown[names[member]] = {topic: wanted.get(topic, "") for topic in topics}
        return shown


def _spelled(wanted: SubscriptionData) -> str:
    """Returns an expression so that those that mean the same are the same."""
    if not wanted.is_tag or wanted.expression == ALL:
        return wanted.expression
    tags = sorted(tag for part in wanted.expression.split("||") if (tag := part.strip()))
    return " || ".join(tags) or ALL
