"""The table of consumer groups and its file, `subscriptionGroup.json`.

Pure state: no file, no socket, no clock. Each change makes a new `version`.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from mqcore.broker.kept_texts import KeptTexts
from mqcore.broker.limits import UNLIMITED, refused
from mqcore.errors import BadJsonError
from mqcore.model.groups import BUILTIN_GROUPS, SYSTEM_GROUP_PREFIX, GroupConfig
from mqcore.model.reading import as_dict, as_int
from mqcore.model.relaxed_json import parse_object, pretty
from mqcore.model.topics import PERM_READ, group_fault
from mqcore.model.versions import DataVersion

# What is forbidden is a sum of bits per group and topic, of which reading is this one.
_READ: Final = PERM_READ
# Groups and topics that are forbidden at the most: each may be named by anybody who reaches us.
FORBIDDEN_MAX: Final = 100_000


class GroupTable:
    """Every consumer group that is configured.

    Args:
        auto_create: `autoCreateSubscriptionGroup`; it may change at any time.
        now_ms: Time of the start, for the data version.
        groups_max: `groupsMax`; it may change at any time.
    """

    def __init__(
        self, *, auto_create: bool, now_ms: int, groups_max: int = UNLIMITED.groups
    ) -> None:
        """Begins with the groups that always exist."""
        self.auto_create = auto_create
        self.groups_max = groups_max
        self._texts = KeptTexts[GroupConfig](depth=1)
        self._version = DataVersion(counter=0, timestamp_ms=now_ms)
        self._groups = {name: GroupConfig(name=name) for name in BUILTIN_GROUPS}
        # What a group may not do with a topic, as bits; other bits than reading are kept.
        self._forbidden: dict[str, dict[str, int]] = {}

    @property
    def version(self) -> DataVersion:
        """Changes with every change of the table."""
        return self._version

    @property
    def groups(self) -> Mapping[str, GroupConfig]:
        """All groups by name, to be read."""
        return MappingProxyType(self._groups)

    def find(self, name: str) -> GroupConfig | None:
        """Returns a group that is there already."""
        return self._groups.get(name)

    def find_or_create(self, name: str, now_ms: int) -> GroupConfig | None:
        """Returns a group, which is created where that is allowed; None where it is not.

        Raises:
            RefusedError: There are as many groups as there may be.
        """
        known = self._groups.get(name)
        if known is not None:
            return known
        if not (self.auto_create or name.startswith(SYSTEM_GROUP_PREFIX)):
            return None
        if group_fault(name) is not None:
            return None
        self.check([name])
        made = GroupConfig(name=name)
        self.put(made, now_ms)
        return made

    def check(self, names: Iterable[str]) -> None:
        """Checks that groups may come: all of them together.

        Raises:
            RefusedError: They would be too many.
        """
        new = [name for name in dict.fromkeys(names) if name not in self._groups]
        if new and len(self._groups) + len(new) > self.groups_max:
            raise refused(f"the new group {new[0]}", "groupsMax", self.groups_max)

    def put(self, group: GroupConfig, now_ms: int) -> None:
        """Creates or replaces a group; `check` decides before whether it may come."""
        self._groups[group.name] = group
        self._version = self._version.next(now_ms)

    def delete(self, name: str, now_ms: int) -> bool:
        """Forgets a group; returns whether there was one."""
        if self._groups.pop(name, None) is None:
            return False
        self._forbidden.pop(name, None)
        self._version = self._version.next(now_ms)
        return True

    def is_forbidden(self, name: str, topic: str) -> bool:
        """Returns whether a group may not read a topic."""
        return bool(self._forbidden.get(name, {}).get(topic, 0) & _READ)

    def forbids(self, name: str) -> bool:
        """Returns whether there is any topic that a group may not read."""
        return any(bits & _READ for bits in self._forbidden.get(name, {}).values())

    def forbid(self, name: str, topic: str, now_ms: int, *, is_forbidden: bool) -> bool:
        """Forbids a group to read a topic, or allows it again; returns whether there was space.

        The official broker allows every topic of a group again where one of them is.
        """
        topics = self._forbidden.get(name, {})
        known = topics.get(topic, 0)
        count = sum(map(len, self._forbidden.values()))
        if is_forbidden and topic not in topics and count >= FORBIDDEN_MAX:
            return False
        bits = known | _READ if is_forbidden else known & ~_READ
        kept = {each: old for each, old in topics.items() if each != topic}
        if bits:
            kept[topic] = bits
        # A new map each time: the text of the file is made of the old one beside the loop.
        self._forbidden = {each: old for each, old in self._forbidden.items() if each != name}
        if kept:
            self._forbidden[name] = kept
        self._version = self._version.next(now_ms)
        return True

    def load(self, text: bytes) -> None:
        """Takes the groups of a `subscriptionGroup.json` over those that are there.

        Raises:
            BadJsonError: It cannot be read; nothing was taken.
        """
        found = parse_object(text)
        if not isinstance(found.get("subscriptionGroupTable", {}), dict):
            raise BadJsonError("its subscriptionGroupTable is no object")
        groups = as_dict(found.get("subscriptionGroupTable"))
        loaded = (GroupConfig.of_json(value, name) for name, value in groups.items())
        self._groups |= {group.name: group for group in loaded if group.name}
        forbidden = as_dict(found.get("forbiddenTable")).items()
        self._forbidden = {
            name: {topic: as_int(bits) for topic, bits in as_dict(topics).items()}
            for name, topics in forbidden
        }
        if "dataVersion" in found:
            self._version = DataVersion.of_json(found["dataVersion"])

    def follow(self, text: bytes) -> tuple[str, ...]:
        """Takes the table of a master in place of this one; groups that always exist stay.

        Returns:
            The groups that changed, came or went; empty where the version is the same.

        Raises:
            BadJsonError: It cannot be read, or has no group; nothing was taken.
        """
        found = parse_object(text)
        version = DataVersion.of_json(found.get("dataVersion"))
        if version == self._version:
            return ()
        table = as_dict(found.get("subscriptionGroupTable"))
        loaded = [GroupConfig.of_json(value, name) for name, value in table.items()]
        groups = {group.name: group for group in loaded if group.name}
        if not groups:
            raise BadJsonError("the master names no group")
        old = self._groups
        builtin = {name: GroupConfig(name=name) for name in BUILTIN_GROUPS}
        self._groups = builtin | groups
        forbidden = as_dict(found.get("forbiddenTable")).items()
        self._forbidden = {
            name: {topic: as_int(bits) for topic, bits in as_dict(topics).items()}
            for name, topics in forbidden
        }
        self._version = version
        names = old.keys() | self._groups.keys()
        return tuple(sorted(names))

    def text(self) -> Callable[[], bytes]:
        """Returns what makes the content of `subscriptionGroup.json` of now, in any thread."""
        # The groups themselves never change; a changed one is another.
        version, groups, forbidden = self._version, dict(self._groups), dict(self._forbidden)
        return lambda: pretty(
            {
                "dataVersion": version.to_json(),
                "forbiddenTable": forbidden,
                "subscriptionGroupTable": self._texts.of(groups),
            }
        )

    def snapshot(self) -> Callable[[], dict[str, object]]:
        """Returns what makes the table as `SubscriptionGroupWrapper` has it, in any thread."""
        frozen = self._version, dict(self._groups), dict(self._forbidden)
        return lambda: _table_json(*frozen)

    def to_json(self) -> dict[str, object]:
        """Returns the table as `SubscriptionGroupWrapper` has it."""
        return _table_json(self._version, self._groups, self._forbidden)


def _table_json(
    version: DataVersion, groups: Mapping[str, GroupConfig], forbidden: Mapping[str, Any]
) -> dict[str, object]:
    return {
        "dataVersion": version.to_json(),
        "forbiddenTable": dict(forbidden),
        "subscriptionGroupTable": {name: group.to_json() for name, group in groups.items()},
    }
