"""Slow requests of one broker: the slowest of the last minutes with where their time went."""

from typing import Any, Final

from mqcore.admin import RequestStage, SlowRequest
from mqcore.console.asking import BrokerAt
from mqcore.console.views import Asked

__all__ = ["slow_tab"]

_SHOWN_MAX: Final = 50
_ASKED_MAX: Final = 500
_KINDS: Final = ("send", "pull", "other")
# Every stage has a colour of its own; the order is that in which a request passes them.
STAGES: Final = ("waited", "appended", "flushed", "replicated", "read", "executed", "answered")
# For how long a pull was held is no part of the time that it took.
_HELD: Final = "held"
_WIDTH: Final = 1_000


async def slow_tab(asked: Asked, at: BrokerAt) -> dict[str, Any]:
    """Returns the slowest requests of a broker, and how long each stage takes."""
    kind = asked.query.get("kind", "")
    asks = asked.questions
    slow = await asks.ask_if_known(
        at.address,
        "slow requests",
        lambda: asks.admin.brokers.slow_requests(at.address, limit=_ASKED_MAX),
    )
    if slow is None:
        return {"slow": None}
    top = max((each.total_us for each in slow.requests), default=0)
    shown = [each for each in slow.requests if not kind or each.kind == kind]
    return {
        "slow": {
            "is_timed": slow.is_timed,
            "kind": kind if kind in _KINDS else "",
            "kinds": _KINDS,
            "total": len(shown),
            "requests": [_row(each, top) for each in shown[:_SHOWN_MAX]],
            "stages": [_stage(each) for each in slow.stages if each.count],
            "legend": [{"name": name, "colour": at} for at, name in enumerate(STAGES)],
        }
    }


def _row(request: SlowRequest, top_us: int) -> dict[str, Any]:
    """Returns a request with its stages as pieces of a bar; the longest is as wide as it."""
    pieces, x = [], 0.0
    for name, took_us in request.stages.items():
        if name == _HELD:
            continue
        width = took_us * _WIDTH / top_us if top_us else 0.0
        pieces.append(
            {"name": name, "us": took_us, "x": round(x, 1), "width": round(width, 1)}
            | {"colour": _colour(name)}
        )
        x += width
    return {
        "at_ms": request.at_ms,
        "request": request.request,
        "response": request.response,
        "kind": request.kind,
        "total_us": request.total_us,
        "held_us": request.stages.get(_HELD),
        "pieces": pieces,
        "peer": request.peer,
        "topic": request.topic,
        "group": request.group,
        "queue": request.queue_id,
        "offset": request.queue_offset,
        "messages": request.messages,
        "bytes": request.bytes,
    }


def _colour(name: str) -> int:
    return STAGES.index(name) if name in STAGES else len(STAGES)


def _stage(stage: RequestStage) -> dict[str, Any]:
    return {
        "kind": stage.kind,
        "stage": stage.stage,
        "colour": _colour(stage.stage),
        "count": stage.count,
        "mean_us": stage.sum_us / stage.count,
        "p50_us": stage.p50_us,
        "p99_us": stage.p99_us,
        "p999_us": stage.p999_us,
        "max_us": stage.max_us,
    }
