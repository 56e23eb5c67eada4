"""The trace of a message as a timeline: sent, stored, each delivery, retries, the transaction."""

from typing import Any, Final

from mqcore.admin import MessageTrace
from mqcore.console.views import Asked, View
from mqcore.model.topics import TRACE_TOPIC

__all__ = ["timeline", "trace"]

_WIDTH: Final = 1_000


async def trace(asked: Asked) -> View:
    """Returns the trace of the message that a URL names by id or key."""
    query, asks = asked.query, asked.questions
    message_id, key = query.get("id", "").strip(), query.get("key", "").strip()
    topic = query.get("topic", "").strip() or TRACE_TOPIC
    traces: list[MessageTrace] | None = None
    if message_id or key:

        async def read() -> list[MessageTrace]:
            if key and not message_id:
                return await asks.admin.traces.by_key(key, trace_topic=topic)
            one = await asks.admin.traces.by_id(message_id, trace_topic=topic)
            return [] if one is None else [one]

        traces = await asks.ask("brokers", "trace", read, deadline_s=3.0)
    data: dict[str, Any] = {
        "id": message_id,
        "key": key,
        "trace_topic": topic,
        "traces": None
        if traces is None
        else [
            {
                "id": each.message_id,
                "topic": each.topic,
                "tags": each.tags,
                "keys": each.keys,
                "events": timeline(each),
            }
            for each in traces
        ],
    }
    return View("trace.html", "Trace", data)


def timeline(found: MessageTrace) -> list[dict[str, Any]]:
    """Returns what happened to a message, in the order of time.

    Each event has `at_ms`, `cost_ms` (None where it is a moment), `what`, `who`, `text`, `is_ok`,
    and `x` and `w`: where it lies in the whole span, in thousandths.
    """
    events: list[dict[str, Any]] = []
    for sent in found.sends:
        line = sent.line
        events.append(_event(line.time_ms, line.cost_ms, "sent", sent.host, "", line.is_ok))
    for end in found.ends:
        state = end.line.state
        events.append(_event(end.line.time_ms, None, "transaction", end.host, state, True))
    for recall in found.recalls:
        is_ok = recall.line.is_ok
        events.append(_event(recall.line.time_ms, None, "recalled", recall.host, "", is_ok))
    copies = [("stored", copy) for copy in found.copies]
    for group in found.groups:
        copies += [("stored again", copy) for copy in group.copies]
        for each in group.deliveries:
            times = "" if each.retry_times is None else f"try {each.retry_times + 1} "
            events.append(
                _event(
                    each.began_ms,
                    each.cost_ms,
                    f"delivered to {group.group}",
                    each.host,
                    f"{times}{each.result}",
                    each.is_ok,
                )
            )
    for what, copy in copies:
        where = f"{copy.topic} {copy.queue_id}:{copy.queue_offset}"
        events.append(_event(copy.stored_ms, None, what, copy.store_host, where, True))
    return _placed(sorted(events, key=lambda event: (event["at_ms"] is None, event["at_ms"] or 0)))


def _event(
    at_ms: int | None, cost_ms: int | None, what: str, who: str, text: str, is_ok: bool | None
) -> dict[str, Any]:
    return {
        "at_ms": at_ms,
        "cost_ms": cost_ms,
        "what": what,
        "who": who,
        "text": text,
        "is_ok": is_ok,
    }


def _placed(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    known = [event for event in events if event["at_ms"] is not None]
    begin = min((event["at_ms"] for event in known), default=0)
    end = max((event["at_ms"] + (event["cost_ms"] or 0) for event in known), default=0)
    span = max(1, end - begin)
    for event in events:
        at = (event["at_ms"] or begin) - begin
        event["x"] = at * _WIDTH // span
        event["w"] = max(6, (event["cost_ms"] or 0) * _WIDTH // span)
        event["x"] = min(event["x"], _WIDTH - event["w"])
        event["after_ms"] = None if event["at_ms"] is None else at
    return events
