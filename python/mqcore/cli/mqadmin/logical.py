"""Figures of the logical queues of static topics, made of those of their physical ones.

After `MQAdminUtils.convertPhysicalTopicStats`.
"""

from collections.abc import Mapping
from typing import Any

from mqcore.admin.static_plans import Part
from mqcore.cli.mqadmin.call import Call
from mqcore.model.queues import MessageQueue
from mqcore.model.reading import as_dict, as_int
from mqcore.model.relaxed_json import parse_object
from mqcore.model.static_topics import item_of, logical_broker
from mqcore.remoting import RequestCode, ResponseCode

__all__ = ["logical_rows", "parts_of"]

_INT64_MAX = 2**63 - 1
# Brokers of 4.9 do not know the question; a topic that is not there has no mapping.
_NONE = (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)


async def parts_of(call: Call, topic: str, addresses: Mapping[str, str]) -> dict[str, Part]:
    """Returns a static topic as some brokers have it (351); none of other topics."""
    parts = {}
    for broker, address in sorted(addresses.items()):
        code, ext = RequestCode.GET_TOPIC_CONFIG, {"topic": topic, "lo": True}
        answer = await call.servers.ask(address, code, ext, fine=_NONE)
        found = parse_object(answer.body) if answer.code == ResponseCode.SUCCESS else {}
        if found.get("mappingDetail"):
            parts[broker] = Part.of_json(found)
    return parts


async def logical_rows(
    call: Call, topic: str, rows: Mapping[MessageQueue, Any]
) -> dict[MessageQueue, dict[str, int]]:
    """Returns the bounds of the logical queues of a topic; none of one that is not static.

    Args:
        call: The way to the servers.
        topic: The topic.
        rows: The bounds of its physical queues.
    """
    if not (await call.servers.route(topic)).get("topicQueueMappingByBroker"):
        return {}
    parts = await parts_of(call, topic, await call.servers.brokers_of(topic))
    found = {}
    for part in sorted(parts.values(), key=lambda each: each.mapping.epoch):
        for queue, items in part.mapping.queues.items():
            first, last = item_of(items, 0), item_of(items, _INT64_MAX)
            if part.mapping.leads(queue) is None or first is None or last is None:
                continue
            ends = [
                as_dict(rows.get(MessageQueue(topic, each.broker, each.queue_id)))
                for each in (first, last)
            ]
            if not all(ends):
                continue
            name = logical_broker(part.mapping.scope)
            found[MessageQueue(topic, name, queue)] = {
                "minOffset": first.logical(as_int(ends[0].get("minOffset"))),
                "maxOffset": last.logical(as_int(ends[1].get("maxOffset"))),
                "lastUpdateTimestamp": as_int(ends[1].get("lastUpdateTimestamp")),
            }
    return found
