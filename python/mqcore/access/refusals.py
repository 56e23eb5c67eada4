"""What was refused: counted by what it was about, and logged as lines of JSON for the audit.

The engine keeps refusals in a ring; `look` takes them, now and then. The first of a kind (user,
address, resource, request) is logged at once and becomes a line of the audit, the rest as a count
per minute.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mqcore.audit import LOGGER
from mqcore.clock import wall_ms
from mqcore.native import Access, AccessRefusal
from mqcore.remoting import code_name

__all__ = ["RefusalLog"]

_log = logging.getLogger(LOGGER)

# Kinds that are counted at the most: a table of some 4 MB. What comes beyond is counted as one.
_KINDS_MAX: Final = 10_000
_AGAIN_MS: Final = 60_000
_Key = tuple[int, str, str, str, tuple[str, ...], str, bool]


@dataclass(slots=True)
class _Counted:
    last_ms: int
    count: int
    logged: int
    logged_ms: int
    remark: str


class RefusalLog:
    """The refusals of one server.

    Attributes:
        left_out: How many came when there were too many already.
        total: How many there were, those of dry runs among them.
    """

    def __init__(
        self,
        engine: Access,
        server: str,
        *,
        note: Callable[[Mapping[str, Any]], None] | None = None,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        """Takes whose refusals they are.

        Args:
            engine: What refuses.
            server: The name of the server, for the lines.
            note: Takes what becomes a line of the audit; None without one.
            now_ms: The wall clock.
        """
        self.left_out = 0
        self.total = 0
        self._engine = engine
        self._server = server
        self._to_audit = note
        self._now_ms = now_ms
        self._kinds: dict[_Key, _Counted] = {}

    def look(self) -> None:
        """Takes what was refused since the last look; logs what is new, and counts of a minute."""
        taken = self._engine.take_refusals()
        self.left_out += taken.left_out
        now_ms = self._now_ms()
        for each in taken.refusals:
            self._note(each, now_ms)
        for key, counted in self._kinds.items():
            more = counted.count - counted.logged
            if more and now_ms - counted.logged_ms >= _AGAIN_MS:
                self._write(key, counted, more, now_ms)

    def _note(self, refusal: AccessRefusal, now_ms: int) -> None:
        self.total += 1
        key: _Key = (
            refusal.code,
            refusal.user,
            refusal.source,
            refusal.resource,
            tuple(refusal.actions),
            refusal.reason,
            refusal.is_dry_run,
        )
        counted = self._kinds.get(key)
        if counted is not None:
            counted.count += 1
            counted.last_ms = refusal.time_ms
            return
        if len(self._kinds) >= _KINDS_MAX:
            self.left_out += 1
            return
        counted = _Counted(refusal.time_ms, 1, 0, now_ms, refusal.remark)
        self._kinds[key] = counted
        self._write(key, counted, 1, now_ms)

    def _write(self, key: _Key, counted: _Counted, count: int, now_ms: int) -> None:
        counted.logged, counted.logged_ms = counted.count, now_ms
        row = {"event": "refused", "server": self._server, **_row(key, counted), "count": count}
        _log.warning("%s", json.dumps(row, ensure_ascii=False))
        if self._to_audit is not None:
            self._to_audit(_audited(key, counted, count))

    def to_json(self) -> dict[str, Any]:
        """Returns every kind with its count: `{"refusals": [...], "leftOut", "total"}`."""
        self.look()
        rows = [_row(key, each) | {"count": each.count} for key, each in self._kinds.items()]
        return {"refusals": rows, "leftOut": self.left_out, "total": self.total}


def _audited(key: _Key, counted: _Counted, count: int) -> dict[str, Any]:
    """Returns the line of a refusal, with the members that those of changes have."""
    code, user, source, resource, actions, reason, is_dry_run = key
    return {
        "event": "refused",
        "code": code,
        "request": code_name(code),
        "user": user,
        "address": source,
        "resource": [resource] if resource else [],
        "actions": list(actions),
        "outcome": "would be refused" if is_dry_run else "refused",
        "reason": reason,
        "remark": counted.remark,
        "count": count,
    }


def _row(key: _Key, counted: _Counted) -> dict[str, Any]:
    code, user, source, resource, actions, reason, is_dry_run = key
    return {
        "time": counted.last_ms,
        "code": code,
        "request": code_name(code),
        "user": user,
        "source": source,
        "resource": resource,
        "actions": list(actions),
        "reason": reason,
        "remark": counted.remark,
        "dryRun": is_dry_run,
    }
