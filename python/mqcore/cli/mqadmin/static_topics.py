"""mqadmin's commands about static topics: made with more queues, and their queues moved.

The official commands cannot read their own option `-mf`; here it goes on with a plan of a file,
such as one that was interrupted (`*.after`).
"""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from mqcore.admin.results import queue_table
from mqcore.admin.static_plans import (
    Part,
    StaticPlan,
    checked_parts,
    first_logical_offset,
    leaders,
    plan_of_move,
    plan_of_queues,
    with_decided,
    with_other_brokers,
)
from mqcore.cli.mqadmin.call import Call
from mqcore.clock import wall_ms
from mqcore.errors import BadJsonError, MQError
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_dict, as_int
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.model.static_topics import MappingFaultError, MappingItem
from mqcore.remoting import RequestCode, ResponseCode

__all__ = ["move", "update"]

_TEMPLATE: Final = "TBW102"
_MASTER: Final = 0


async def update(call: Call) -> None:
    """Makes a static topic, or gives it more queues."""
    topic = call.text("t")
    masters = await _masters(call)
    if call.has("mf"):
        plan = _from_file(call)
    else:
        targets = await _targets(call, masters)
        parts = await _parts(call, topic, masters)
        _written(call, StaticPlan(topic, _epoch_of(parts), parts), "old", "before")
        total = call.whole("qn", least=1)
        plan = _planned(lambda: plan_of_queues(topic, total, targets, parts, wall_ms()))
        _written(call, plan, "new", "after")
    plan = with_other_brokers(plan, await _same_cluster(call, plan))
    _need_masters(plan, masters)
    for broker, part in plan.parts.items():
        await _put(call, masters[broker], part)
    call.out.give(plan.to_json())


async def move(call: Call) -> None:
    """Moves the queues of a static topic to some brokers, with everything that is in them."""
    topic = call.text("t")
    masters = await _masters(call)
    parts = await _parts(call, topic, masters)
    if call.has("mf"):
        plan = _from_file(call)
    else:
        targets = await _targets(call, masters)
        if not parts:
            raise MQError(f"topic {topic} is on no broker")
        _written(call, StaticPlan(topic, _epoch_of(parts), parts), "old", "before")
        plan = _planned(lambda: plan_of_move(topic, targets, parts, wall_ms()))
        _written(call, plan, "new", "after")
    plan = with_other_brokers(plan, await _same_cluster(call, plan))
    _need_masters(plan, masters)
    # What an interrupted move has decided already stays.
    plan = with_decided(plan, _decided(plan, parts))
    # 1: the new leaders can be written to; 2: the old ones no more.
    for broker in (*sorted(plan.into), *sorted(plan.out_of)):
        await _put(call, masters[broker], plan.parts[broker])
    # 3: so it is known where the old queues end; 4: and where the new ones begin.
    plan = with_decided(plan, await _ends(call, plan, masters))
    for broker in sorted(plan.into):
        await _put(call, masters[broker], plan.parts[broker])
    # 5: the brokers that have no part in it; officially without the old leaders, which are not
    # notified of 4.
    for broker in (*sorted(plan.out_of), *sorted(plan.parts.keys() - plan.into - plan.out_of)):
        await _put(call, masters[broker], plan.parts[broker])
    call.out.give(plan.to_json())


async def _masters(call: Call) -> dict[str, str]:
    brokers = (await call.servers.cluster()).brokers
    return {name: ids[_MASTER] for name, ids in brokers.items() if _MASTER in ids}


async def _targets(call: Call, masters: Mapping[str, str]) -> set[str]:
    """Returns the brokers that `-b` or `-c` names."""
    if call.has("b"):
        found = {name.strip() for name in call.text("b").split(",") if name.strip()}
    else:
        found = set()
        for cluster in call.text("c").split(","):
            found.update(await call.servers.names_of(cluster.strip()))
    if not found:
        raise MQError("Find none brokers, do nothing")
    missing = sorted(found - masters.keys())
    if missing:
        raise MQError(f"name servers know no master of {', '.join(missing)}")
    return found


async def _same_cluster(call: Call, plan: StaticPlan) -> set[str]:
    clusters = (await call.servers.cluster()).clusters.values()
    return {name for names in clusters if set(names) & plan.parts.keys() for name in names}


def _need_masters(plan: StaticPlan, masters: Mapping[str, str]) -> None:
    missing = sorted(plan.parts.keys() - masters.keys())
    if missing:
        raise MQError(f"Can't find addr for broker {', '.join(missing)}: nothing was changed")


async def _parts(call: Call, topic: str, masters: Mapping[str, str]) -> dict[str, Part]:
    """Returns the topic as all brokers have it (351)."""
    parts = {}
    for broker, address in sorted(masters.items()):
        answer = await call.servers.ask(
            address,
            RequestCode.GET_TOPIC_CONFIG,
            {"topic": topic, "lo": True},
            fine=(ResponseCode.TOPIC_NOT_EXIST,),
        )
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            continue
        found = parse_object(answer.body)
        if not found.get("mappingDetail"):
            raise MQError(
                f"topic {topic} is no static topic: broker {broker} has it with queues of its own"
            )
        parts[broker] = Part.of_json(found)
    try:
        checked_parts(topic, parts)
    except MappingFaultError as error:
        raise MQError(
            f"{error}: a change of {topic} was not finished; repeat it with -mf and the file that "
            "it has written"
        ) from error
    return parts


def _epoch_of(parts: Mapping[str, Part]) -> int:
    return max((part.mapping.epoch for part in parts.values()), default=wall_ms())


def _planned(make: Callable[[], StaticPlan]) -> StaticPlan:
    try:
        return make()
    except MappingFaultError as error:
        raise MQError(str(error)) from error


def _from_file(call: Call) -> StaticPlan:
    path = Path(call.text("mf"))
    try:
        plan = StaticPlan.of_json(parse_object(path.read_bytes()))
    except (OSError, BadJsonError) as error:
        raise call.usage(f"-mf {path}: {error}") from error

    def checked() -> StaticPlan:
        checked_parts(call.text("t"), plan.parts)
        leaders(plan.parts)
        return plan

    return _planned(checked)


def _written(call: Call, plan: StaticPlan, which: str, suffix: str) -> None:
    """Writes a plan into a file as mqadmin does, so that it can be looked at, and repeated."""
    path = Path(tempfile.gettempdir()) / f"{plan.topic}-{plan.epoch}.{suffix}"
    path.write_bytes(compact(plan.to_json()))
    call.out.line(f"The {which} mapping data is written to file {path}")


async def _put(call: Call, address: str, part: Part) -> None:
    """Sets the topic on one broker (513)."""
    config = part.config
    ext = {
        "topic": config.name,
        "defaultTopic": _TEMPLATE,
        "readQueueNums": config.read_queues,
        "writeQueueNums": config.write_queues,
        "perm": config.perm,
        "topicFilterType": config.filter_type,
        "topicSysFlag": config.sys_flag,
        "order": config.order,
        "force": call.is_true("fr"),
    }
    mapping = part.to_json()["mappingDetail"]
    code = RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC
    await call.servers.ask(address, code, ext, compact(mapping))


def _moved(plan: StaticPlan) -> dict[int, tuple[MappingItem, ...]]:
    """Returns the queues whose beginning at their new broker is not decided."""
    return {
        queue: items
        for broker in plan.out_of
        for queue, items in plan.parts[broker].mapping.queues.items()
        if len(items) > 1 and not items[-1].is_decided
    }


def _decided(plan: StaticPlan, parts: Mapping[str, Part]) -> dict[int, int]:
    """Returns what brokers know already of the beginnings that a plan leaves open."""
    found = {}
    for queue, items in _moved(plan).items():
        known = parts.get(items[-1].broker)
        here = () if known is None else known.mapping.queues.get(queue, ())
        if here and here[-1].gen == items[-1].gen and here[-1].is_decided:
            found[queue] = here[-1].logic_offset
    return found


async def _ends(call: Call, plan: StaticPlan, masters: Mapping[str, str]) -> dict[int, int]:
    """Returns where the moved queues go on, by where they end at their old brokers (202)."""
    found, tables = {}, {}
    for queue, items in _moved(plan).items():
        old = items[-2]
        if old.broker not in tables:
            code, ext = RequestCode.GET_TOPIC_STATS_INFO, {"topic": plan.topic}
            stats = await call.servers.json(masters[old.broker], code, ext)
            tables[old.broker] = queue_table(stats.get("offsetTable"))
        row = as_dict(tables[old.broker].get(MessageQueue(plan.topic, old.broker, old.queue_id)))
        if not row:
            raise MQError(f"Cannot get the max offset for old leader {old}")
        found[queue] = first_logical_offset(old, as_int(row.get("maxOffset")))
    return found
