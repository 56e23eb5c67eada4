"""What becomes a line: a handler that changes something, between what there was and what there is.

    handler = recorded(code, handler, trail, AuditLooks(looks={code: look}))

A look returns what a request is about as it is now (a value of JSON, secrets as `Secret`); it is
taken before the handler and behind it. Reads no body: `resources` names what is in there. Knows no
server.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from mqcore.audit.lines import masked, without_secrets
from mqcore.audit.trail import AuditTrail
from mqcore.errors import MQError, RefusedError
from mqcore.model.languages import language_name
from mqcore.model.versions import version_name
from mqcore.remoting import Answer, Handler, Request, RequestCode, ResponseCode, code_name
from mqcore.remoting.audited_requests import AUDITED

__all__ = ["AuditLooks", "Look", "Resources", "recorded"]

# What a request is about, as it is now, by the resources that it names; None for nothing.
Look: TypeAlias = Callable[[Request, Sequence[str]], Any]
# The resources that the body of a request names.
Resources: TypeAlias = Callable[[Request], list[str]]

_FIELD: Final = re.compile(r"\{(\w+)\}")
# Resources of one line: a list of topics has thousands.
_RESOURCES_MAX: Final = 100
# A longer body is read beside the loop: a megabyte takes some 30 ms.
_BODY_BYTES_AT_ONCE: Final = 64 << 10
_DONE, _REFUSED, _FAILED = "done", "refused", "failed"


@dataclass(frozen=True, slots=True)
class AuditLooks:
    """What a server knows of what its requests are about.

    Attributes:
        looks: What a request is about as it is now, by its code.
        resources: What the body of a request names, by its code; called in threads too.
        signer: Returns whose signature a request has that nobody checks; None for nobody's.
    """

    looks: Mapping[int, Look] = field(default_factory=dict)
    resources: Mapping[int, Resources] = field(default_factory=dict)
    signer: Callable[[Request], str] | None = None


def recorded(code: int, handler: Handler, trail: AuditTrail, known: AuditLooks) -> Handler:
    """Returns a handler whose changes have lines; the handler itself for a code without any.

    Args:
        code: The request.
        handler: What serves it.
        trail: Where lines go.
        known: What the server knows of it.
    """
    if code not in AUDITED:
        return handler
    look = known.looks.get(code)

    async def change(request: Request) -> Answer:
        row = await _row(request, known)
        about: list[str] = row["resource"]
        await trail.begin({"event": "asked", **row})
        before = None if look is None else _looked(look, request, about)

        def line(outcome: str, answer_code: int, remark: str | None) -> dict[str, Any]:
            after = None if look is None else _looked(look, request, about)
            was, now = masked(before, after)
            return {
                "event": "change",
                **row,
                "before": was,
                "after": now,
                "outcome": outcome,
                "answer": answer_code,
                "remark": remark or "",
            }

        try:
            outcome = handler(request)
            answer = await outcome if isinstance(outcome, Awaitable) else outcome
        except RefusedError as error:
            await trail.write(line(_REFUSED, int(error.code), error.message))
            raise
        except MQError as error:
            await trail.write(line(_FAILED, ResponseCode.SYSTEM_ERROR, error.message))
            raise
        except asyncio.CancelledError:
            # What was asked for may have been done, or be half done.
            trail.note(line(_FAILED, ResponseCode.SYSTEM_ERROR, "it was given up"))
            raise
        except Exception as error:
            remark = f"{type(error).__name__}: {error}"
            await trail.write(line(_FAILED, ResponseCode.SYSTEM_ERROR, remark))
            raise
        if answer is None:
            await trail.write(line(_DONE, ResponseCode.SUCCESS, None))
        else:
            is_done = answer.code == ResponseCode.SUCCESS
            row_of = line(_DONE if is_done else _REFUSED, answer.code, answer.remark)
            await trail.write(row_of)
        return answer

    def serve(request: Request) -> Answer | Awaitable[Answer]:
        if not trail.is_on or not _changes(request):
            return handler(request)
        return change(request)

    return serve


def _changes(request: Request) -> bool:
    """Returns whether a request changes something: one looks unless a field has what to change."""
    is_look = request.code == RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN
    return not is_look or "readable" in request.ext


def _looked(look: Look, request: Request, about: Sequence[str]) -> Any:
    """Returns what a look sees; a request that makes no sense to it is refused by its handler."""
    try:
        return look(request, about)
    except (MQError, ValueError):
        return None


async def _row(request: Request, known: AuditLooks) -> dict[str, Any]:
    command, link = request.command, request.link
    user = request.user or (known.signer(request) if known.signer is not None else "")
    filled = (_filled(each, command.ext) for each in AUDITED[request.code])
    about = [text for text in filled if text]
    resources = known.resources.get(request.code)
    if resources is not None:
        is_long = len(command.body) > _BODY_BYTES_AT_ONCE
        about += await asyncio.to_thread(resources, request) if is_long else resources(request)
    return {
        "code": request.code,
        "request": code_name(request.code),
        "user": user,
        "certificate": link.certificate_name,
        "address": link.peer,
        "client": f"{language_name(command.language)} {version_name(command.version)}",
        "resource": about[:_RESOURCES_MAX],
        "asked": without_secrets(command.ext),
        "bodyBytes": len(command.body),
        "opaque": command.opaque,
    }


def _filled(template: str, ext: Mapping[str, str]) -> str:
    """Returns what a template names; empty where a field is not there."""
    names = _FIELD.findall(template)
    if any(not ext.get(name) for name in names):
        return ""
    return _FIELD.sub(lambda found: ext[found[1]], template)
