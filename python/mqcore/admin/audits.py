"""The audits of servers of mqcore: who changed what, who was refused, whether lines are missing."""

from dataclasses import asdict, dataclass
from typing import Any, Self

from mqcore.admin.arguments import LONG_MAX, whole
from mqcore.admin.transport import Transport
from mqcore.audit import ROWS_MAX, Wanted
from mqcore.model.reading import as_dict, as_int, as_list, as_text
from mqcore.model.relaxed_json import parse_object
from mqcore.remoting import OwnRequestCode

__all__ = ["AuditCheck", "AuditPage", "Audits"]


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Lines of an audit, the newest first.

    Attributes:
        lines: What the lines have.
        before: What to ask with for the next page; 0 where there is none.
        file: The file at the server; empty where it has no audit.
        failed: How many lines the server could not write since its start.
    """

    lines: tuple[dict[str, Any], ...]
    before: int
    file: str
    failed: int

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns what a JSON object describes."""
        found = as_dict(value)
        return cls(
            tuple(as_dict(each) for each in as_list(found.get("lines"))),
            as_int(found.get("before")),
            as_text(found.get("file")),
            as_int(found.get("failed")),
        )


@dataclass(frozen=True, slots=True)
class AuditCheck:
    """Whether lines of an audit were taken out or changed.

    Attributes:
        is_whole: Whether none was, between the first and the last that are there.
        lines: How many there are.
        first: The number of the first.
        last: The number of the last.
        hash: Its hash: who keeps both elsewhere sees later whether the end was cut off.
        faults: What is wrong, in words.
        torn: Lines that a crash has cut short.
        missed: Lines that could not be written.
        file: The file at the server.
    """

    is_whole: bool
    lines: int
    first: int
    last: int
    hash: str
    faults: tuple[str, ...]
    torn: int
    missed: int
    file: str

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns what a JSON object describes."""
        found = as_dict(value)
        return cls(
            is_whole=found.get("isWhole") is True,
            lines=as_int(found.get("lines")),
            first=as_int(found.get("first")),
            last=as_int(found.get("last")),
            hash=as_text(found.get("hash")),
            faults=tuple(as_text(each) for each in as_list(found.get("faults"))),
            torn=as_int(found.get("torn")),
            missed=as_int(found.get("missed")),
            file=as_text(found.get("file")),
        )


class Audits:
    """The audits of servers. An address is `host:port` of a broker, name server or controller."""

    def __init__(self, transport: Transport) -> None:
        """Takes the way to the servers."""
        self._transport = transport

    async def brokers(self) -> list[str]:
        """Returns the addresses of all brokers, masters first: each has an audit of its own.

        Raises:
            NameServerError: No name server answers.
        """
        rows = (await self._transport.cluster()).masters_first()
        return [address for _name, _id, address in rows]

    async def read(
        self, address: str, *, count: int = 100, before: int = 0, wanted: Wanted | None = None
    ) -> AuditPage:
        """Returns lines of a server's audit, the newest first; a Super user asks.

        Args:
            address: The server.
            count: How many lines at the most, up to 500.
            before: Only lines before this one; 0 for all.
            wanted: Which lines; None for every one.

        Raises:
            ResponseError: It refused, or is official.
            UsageError: A number is out of bounds.
        """
        whole("count", count, 1, ROWS_MAX)
        whole("before", before, 0, LONG_MAX)
        asked = {} if wanted is None else {k: v for k, v in asdict(wanted).items() if v}
        ext = {"count": str(count), "before": str(before), **asked}
        answer = await self._transport.ask(address, OwnRequestCode.AUDIT_READ, ext)
        return AuditPage.of_json(parse_object(answer.body))

    async def check(self, address: str, *, number: int = 0, line_hash: str = "") -> AuditCheck:
        """Returns whether lines were taken out of a server's audit, or changed.

        Args:
            address: The server.
            number: A line that must be there; 0 for none.
            line_hash: The hash that it had.

        Raises:
            ResponseError: It refused, has no audit, or is official.
            UsageError: The number is out of bounds.
        """
        whole("number", number, 0, LONG_MAX)
        ext = {"number": str(number), "hash": line_hash} if number else {}
        answer = await self._transport.ask(address, OwnRequestCode.AUDIT_VERIFY, ext)
        return AuditCheck.of_json(parse_object(answer.body))
