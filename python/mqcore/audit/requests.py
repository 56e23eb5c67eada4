"""The requests by which tools read and check the audit of any server: AUDIT_READ, AUDIT_VERIFY.

Both read files in threads, one at a time and within bounds: whoever may ask for them does not slow
the server down. Knows no broker.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from mqcore.audit.lines import Ending, Wanted
from mqcore.audit.recording import AuditLooks, recorded
from mqcore.audit.trail import AuditTrail
from mqcore.errors import RefusedError
from mqcore.model.relaxed_json import compact
from mqcore.native import Command
from mqcore.remoting import Dispatcher, Handler, OwnRequestCode, Request, ResponseCode

__all__ = ["ROWS_MAX", "AuditRequests", "audit"]

# Lines of one answer at the most, and where none are asked for.
ROWS_MAX: Final = 500
_ROWS: Final = 100


def audit(dispatcher: Dispatcher, trail: AuditTrail, known: AuditLooks) -> None:
    """Has every change that a server's handlers make recorded, and lets tools read that.

    Args:
        dispatcher: The handlers.
        trail: Where lines go.
        known: What the server knows of what is changed.
    """
    for code in dispatcher.codes:
        handler = dispatcher.find(code)
        if handler is not None:
            dispatcher.on(code, recorded(code, handler, trail, known))
    for code, handler in AuditRequests(trail).handlers().items():
        dispatcher.on(code, handler)


class AuditRequests:
    """Serves the requests about the audit."""

    def __init__(self, trail: AuditTrail) -> None:
        """Takes the audit."""
        self._trail = trail
        self._reading = asyncio.Lock()

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {
            OwnRequestCode.AUDIT_READ: self.read,
            OwnRequestCode.AUDIT_VERIFY: self.verify,
        }

    async def read(self, request: Request) -> Command:
        """AUDIT_READ: lines, the newest first.

        Fields: `count` (1 to 500), `before` (only lines with smaller numbers), those of `Wanted`.
        Answer: `{"lines", "before", "looked", "file", "written", "failed"}`; `before` goes on with
        the next page, 0 for none.
        """
        count = request.integer("count", _ROWS, bits=32)
        if not 1 <= count <= ROWS_MAX:
            raise RefusedError(
                f"count {count}: 1 to {ROWS_MAX} lines can be asked for",
                code=ResponseCode.INVALID_PARAMETER,
            )
        before, wanted = request.integer("before", 0), wanted_of(request.ext)
        reader, figures = self._trail.reader, self._trail.figures
        body: dict[str, object] = {
            "lines": [],
            "before": 0,
            "looked": 0,
            "file": "",
            "written": 0 if figures is None else sum(figures.lines.values()),
            "failed": 0 if figures is None else figures.missed,
        }
        if reader is not None:
            async with self._reading:
                page = await asyncio.to_thread(reader.page, wanted, rows_max=count, before=before)
            body |= {
                "lines": list(page.rows),
                "before": page.before,
                "looked": page.looked,
                "file": str(reader.path),
            }
        return request.answer(body=compact(body))

    async def verify(self, request: Request) -> Command:
        """AUDIT_VERIFY: whether every line follows from the one before (`Checked`, as JSON).

        Fields: `number` and `hash`, a line that must be there as it was; or neither.
        """
        reader = self._trail.reader
        if reader is None:
            raise RefusedError(
                "there is no audit here: mqcoreAuditEnable=false", code=ResponseCode.SYSTEM_ERROR
            )
        number = request.integer("number", 0)
        expected = Ending(number, request.ext.get("hash", "")) if number else None
        async with self._reading:
            found = await asyncio.to_thread(reader.check, expected)
        return request.answer(body=compact(found.to_json() | {"file": str(reader.path)}))


def wanted_of(fields: Mapping[str, str]) -> Wanted:
    """Returns which lines the fields of a request ask for."""
    names = ("text", "user", "request", "resource", "outcome", "event", "since", "until")
    return Wanted(**{name: fields.get(name, "").strip() for name in names})
