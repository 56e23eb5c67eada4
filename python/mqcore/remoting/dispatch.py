"""From a request's code to the function that serves it, and from what that does to an answer.

Knows no socket: a request comes with the connection it came by, and an answer is a command.

    dispatcher = Dispatcher()
    dispatcher.on(RequestCode.GET_KV_CONFIG, kv.answer)      # def answer(request) -> Command | None
    dispatcher.on(RequestCode.HEART_BEAT, members.heartbeat) # or async def, for what must wait

A handler answers with `request.answer(...)`, refuses by raising `RefusedError(remark, code=...)`,
and returns None where the answer comes by another way. What else it raises becomes SYSTEM_ERROR.
A oneway request is served the same and never answered.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from mqcore.errors import RefusedError
from mqcore.native import Command
from mqcore.remoting.body_limits import body_bytes_max
from mqcore.remoting.link import Link
from mqcore.remoting.request_codes import code_name
from mqcore.remoting.request_queue import Answer
from mqcore.remoting.response_codes import ResponseCode

__all__ = ["VERSION", "Answer", "Dispatcher", "Handler", "Request", "failure"]

_log = logging.getLogger(__name__)

# The version we report where nothing else is set: V4_9_8. A value up to 412 reads as a 4.9 server.
VERSION = 409
# A remark goes into a header, and headers are not for novels.
_REMARK_CHARS_MAX = 1024


@dataclass(frozen=True, slots=True)
class Request:
    """A request and the connection it came by.

    Attributes:
        command: What was asked.
        link: Where it came from, and where answers and requests of ours may go.
    """

    command: Command
    link: Link

    @property
    def code(self) -> int:
        """What is asked for."""
        return self.command.code

    @property
    def ext(self) -> Mapping[str, str]:
        """The header's fields; every value is text."""
        return self.command.ext

    @property
    def body(self) -> bytes:
        """The body, as it came."""
        return self.command.body

    @property
    def user(self) -> str:
        """Whose signature it has; empty while access control is off, and where nobody must sign."""
        return self.command.user

    def field(self, name: str) -> str:
        """Returns a field that must be there.

        Raises:
            RefusedError: It is missing.
        """
        value = self.command.ext.get(name)
        if value is None:
            raise RefusedError(f"the custom field <{name}> is null", code=ResponseCode.SYSTEM_ERROR)
        return value

    def integer(self, name: str, default: int | None = None, *, bits: int = 64) -> int:
        """Returns a field that is a whole number.

        Args:
            name: The field.
            default: What a missing field means; without it a missing field is refused.
            bits: How wide it may be, its sign included.

        Raises:
            RefusedError: It is missing without a default, or no such number.
        """
        if default is not None and name not in self.command.ext:
            return default
        text = self.field(name)
        try:
            # The length first: the conversion of a very long text is slow, or refused.
            value = int(text) if len(text) <= 20 else None
        except ValueError:
            value = None
        bound = 1 << (bits - 1)
        if value is None or not -bound <= value < bound:
            raise RefusedError(
                f"the custom field <{name}> is no number: {text[:40]!r}",
                code=ResponseCode.SYSTEM_ERROR,
            )
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Returns a field that is `true` or anything else, as Java reads it."""
        value = self.command.ext.get(name)
        return default if value is None else value.strip().lower() == "true"

    def answer(
        self,
        code: int = ResponseCode.SUCCESS,
        remark: str | None = None,
        *,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Command:
        """Returns the answer to this request, in its own serialization."""
        return Command.response_to(
            self.command,
            int(code),
            remark=remark,
            ext=dict(ext) if ext else None,
            body=body,
            version=self.link.hub.version,
        )


Handler: TypeAlias = Callable[[Request], Answer | Awaitable[Answer]]


class Dispatcher:
    """The table of handlers; of a code set twice the last one counts.

    Attributes:
        check: Looks at every request before its handler, and refuses by raising, or later by what
            it returns; None without one.
    """

    def __init__(self, handlers: Mapping[int, Handler] | None = None) -> None:
        """Takes the first handlers."""
        self._handlers: dict[int, Handler] = dict(handlers or {})
        self.check: Callable[[Request], Awaitable[Answer] | None] | None = None

    def on(self, code: int, handler: Handler) -> None:
        """Sets the handler of a code."""
        self._handlers[int(code)] = handler

    def find(self, code: int) -> Handler | None:
        """Returns the handler of a code, if it has one."""
        return self._handlers.get(int(code))

    @property
    def codes(self) -> list[int]:
        """The codes that have a handler."""
        return sorted(self._handlers)

    def knows(self, code: int) -> bool:
        """Returns whether a code has a handler."""
        return code in self._handlers

    def start(self, request: Request) -> Answer | Awaitable[Answer]:
        """Calls the handler; returns its answer, or what to await for it.

        Raises:
            RefusedError: Its body is too long, the code has no handler, or the check or the
                handler refuses.
        """
        _check_body(request)
        if self.check is not None:
            later = self.check(request)
            if later is not None:
                return later
        handler = self._handlers.get(request.code)
        if handler is None:
            # The leading blank is the official one.
            raise RefusedError(
                f" request type {request.code} not supported",
                code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            )
        return handler(request)


def _check_body(request: Request) -> None:
    """Refuses a body that is longer than any client has reason to send, before it is read."""
    limit = body_bytes_max(request.code)
    length = len(request.body)
    if limit is not None and length > limit:
        raise RefusedError(
            f"a body of {length} bytes: {code_name(request.code)} takes {limit} at the most",
            code=ResponseCode.SYSTEM_ERROR,
        )


def failure(request: Request, error: Exception) -> Command:
    """Returns the answer that reports an error; logs what is not a refusal."""
    if isinstance(error, RefusedError):
        return request.answer(error.code, error.message[:_REMARK_CHARS_MAX])
    _log.error(
        "request %s from %s failed", code_name(request.code), request.link.peer, exc_info=error
    )
    remark = f"{type(error).__name__}: {error}"
    return request.answer(ResponseCode.SYSTEM_ERROR, remark[:_REMARK_CHARS_MAX])
