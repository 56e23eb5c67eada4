"""Whether the members of a group want the same: where they do not, each loses messages.

A broker filters for a group as its newest member asked, so that a member that wants something else
never sees it: the official broker says nothing of it. Pure state; knows no group's name.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeAlias

from mqcore.model.subscriptions import ALL, SubscriptionData
from mqcore.model.topics import RETRY_PREFIX

# What one member wants: topics with an expression's kind and text.
Wish: TypeAlias = frozenset[tuple[str, str, str]]


class Wishes:
    """What each member of one group wants."""

    def __init__(self) -> None:
        """Begins with nobody."""
        self._of_member: dict[Hashable, Wish] = {}
        # Equal wishes are kept once, with the number of members that have them.
        self._counts: dict[Wish, int] = {}
        self._kept: dict[Wish, Wish] = {}
        self._told: frozenset[Wish] = frozenset()

    def note(self, member: Hashable, wanted: Iterable[SubscriptionData]) -> None:
        """Notes what a member wants; the group's retry topic is left out."""
        wish = frozenset(
            (each.topic, each.kind, _spelled(each))
            for each in wanted
            if not each.topic.startswith(RETRY_PREFIX)
        )
        if self._of_member.get(member) == wish:
            return
        self.forget(member)
        self._of_member[member] = self._kept.setdefault(wish, wish)
        self._counts[wish] = self._counts.get(wish, 0) + 1

    def forget(self, member: Hashable) -> None:
        """Forgets a member."""
        wish = self._of_member.pop(member, None)
        if wish is None:
            return
        self._counts[wish] -= 1
        if not self._counts[wish]:
            del self._counts[wish], self._kept[wish]

    @property
    def count(self) -> int:
        """How many different wishes there are; more than one is one too many."""
        return len(self._counts)

    def news(self) -> bool:
        """Returns whether members differ, in another way than at the last call."""
        now = frozenset(self._counts) if self.count > 1 else frozenset()
        is_news = bool(now) and now != self._told
        self._told = now
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
        topics = sorted({topic for wish in self._counts for topic, _, _ in wish - common})
        shown = {}
        for member, wish in self._of_member.items():
            if member in names:
                wanted = {topic: text for topic, _, text in wish}
                shown[names[member]] = {topic: wanted.get(topic, "") for topic in topics}
        return shown


def _spelled(wanted: SubscriptionData) -> str:
    """Returns an expression so that those that mean the same are the same."""
    if not wanted.is_tag or wanted.expression == ALL:
        return wanted.expression
    tags = sorted(tag for part in wanted.expression.split("||") if (tag := part.strip()))
    return " || ".join(tags) or ALL
