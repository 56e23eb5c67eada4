"""Consumer groups as tools see them: created, changed, deleted, listed."""

import asyncio
from collections.abc import Mapping

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.processors.bodies import object_of, too_many_of
from mqcore.broker.state import BrokerState
from mqcore.errors import RefusedError
from mqcore.model.attributes import AttributeFaultError, altered
from mqcore.model.groups import GroupConfig
from mqcore.model.reading import as_list
from mqcore.model.relaxed_json import compact, compact_in_parts
from mqcore.model.topics import group_fault
from mqcore.native import Command
from mqcore.remoting import Handler, Request, RequestCode, ResponseCode, Slices


class GroupAdmin:
    """Serves the requests about groups."""

    def __init__(self, state: BrokerState, persistence: ConfigPersistence) -> None:
        """Takes what it works on."""
        self._state = state
        self._persistence = persistence

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.update,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self.update_list,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.all,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self.one,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete,
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: self.forbid,
        }

    async def update(self, request: Request) -> Command:
        """200: creates or replaces a group."""
        await self._put([GroupConfig.of_json(await object_of(request))])
        return request.answer()

    async def update_list(self, request: Request) -> Command:
        """225: the same for many groups: all of them or none."""
        found = as_list((await object_of(request)).get("groupConfigList"))
        too_many_of(found, "groups", "groupsMax", self._state.limits.groups)
        slices, groups = Slices(), []
        for item in found:
            groups.append(GroupConfig.of_json(item))
            await slices.turn()
        await self._put(groups)
        return request.answer()

    async def _put(self, groups: list[GroupConfig]) -> None:
        for group in groups:
            fault = group_fault(group.name)
            if fault is not None:
                raise RefusedError(fault, code=self._state.invalid_code)
        groups = [self._altered(group) for group in groups]
        self._state.groups.check(group.name for group in groups)
        now_ms = self._state.now_ms()
        for group in groups:
            self._state.groups.put(group, now_ms)
        names = [group.name for group in groups]
        await self._persistence.groups_changed(names, must_have=True)

    def _altered(self, group: GroupConfig) -> GroupConfig:
        """Returns a group with its attributes after the changes that it brings."""
        known = self._state.groups.groups.get(group.name)
        # Who gives back what was read brings no signs.
        changes = {
            name if name[:1] in ("+", "-") else f"+{name}": value
            for name, value in group.attributes.items()
        }
        try:
            current = None if known is None else known.attributes
            return group.with_attributes(altered(current, changes, of_group=True))
        except AttributeFaultError as error:
            raise RefusedError(str(error), code=ResponseCode.SYSTEM_ERROR) from error

    async def all(self, request: Request) -> Command:
        """201: every group."""
        table = self._state.groups.snapshot()
        body = await asyncio.to_thread(lambda: compact_in_parts(table()))
        return request.answer(body=body)

    def one(self, request: Request) -> Command:
        """352: one group."""
        name = request.field("group")
        group = self._state.groups.find(name)
        if group is None:
            raise RefusedError(
                f"No group in this broker. group: {name}",
                code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            )
        return request.answer(body=compact(group.to_json()))

    async def delete(self, request: Request) -> Command:
        """207: forgets a group, and its offsets where a flag of 4.9 or 5.x asks for that."""
        name = request.field("groupName")
        if request.flag("removeOffset") or request.flag("cleanOffset"):
            self._state.fast_path.offsets.remove(group=name)
        if self._state.groups.delete(name, self._state.now_ms()):
            await self._persistence.groups_changed([name], must_have=True)
        return request.answer()

    async def forbid(self, request: Request) -> Command:
        """353: whether a group may read a topic; changes it where that is asked for (5.x)."""
        name, topic = request.field("group"), request.field("topic")
        groups = self._state.groups
        if "readable" in request.ext:
            is_forbidden = not request.flag("readable")
            if not groups.forbid(name, topic, self._state.now_ms(), is_forbidden=is_forbidden):
                raise RefusedError("too much is forbidden already", code=ResponseCode.SYSTEM_ERROR)
            await self._persistence.groups_changed([name], must_have=True)
        row = {"group": name, "readable": not groups.is_forbidden(name, topic), "topic": topic}
        return request.answer(remark="", body=compact(row))
