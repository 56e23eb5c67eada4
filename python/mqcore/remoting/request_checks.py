"""Compares what is served with the table of request codes; a program that differs does not start.

Knows no handler, only the numbers that have one.
"""

from collections.abc import Collection, Mapping

from mqcore.remoting.request_codes import CODES, AnsweredBy, RequestCode, answered_by, code_name

__all__ = ["check_handlers", "check_native"]


def check_handlers(who: AnsweredBy, numbers: Collection[int]) -> None:
    """Checks that there are handlers for exactly the codes that the table gives somebody.

    Args:
        who: Whose handlers they are: one program.
        numbers: The codes that have a handler.

    Raises:
        RuntimeError: A handler serves a code that is not in the table or that somebody else
            answers, or a code of the table has no handler. Names all of them.
    """
    faults = [
        f"{code_name(number)} {_owner(number)}"
        for number in sorted(numbers)
        if not _is_answered_by(who, number)
    ]
    missing = sorted(answered_by(who).difference(numbers))
    faults += [f"{code_name(number)} has no handler" for number in missing]
    _raise(f"handlers of {who.name} differ from the table of request codes", faults)


def check_native(executed: Mapping[str, int]) -> None:
    """Checks that the fast path executes exactly the codes that the table has as native.

    Args:
        executed: Codes that the extension executes, by official name.

    Raises:
        RuntimeError: A code is missing on one side, or has another name there. Names all of them.
    """
    wanted = {code.name: int(code) for code in answered_by(AnsweredBy.NATIVE)}
    faults = [
        f"{name}({number}) is executed and not in the table"
        for name, number in sorted(executed.items())
        if wanted.get(name) != number
    ]
    faults += [
        f"{name}({number}) is in the table and not executed"
        for name, number in sorted(wanted.items())
        if executed.get(name) != number
    ]
    _raise("the extension differs from the table of request codes", faults)


def _is_answered_by(who: AnsweredBy, number: int) -> bool:
    code = CODES.get(number)
    return code is not None and who in code.row.answered_by


def _owner(number: int) -> str:
    """Returns why a handler of a code is one too many."""
    code: RequestCode | None = CODES.get(number)
    if code is None:
        return "is not in the table"
    return f"is answered by {code.row.answered_by.name or 'nobody'}"


def _raise(what: str, faults: list[str]) -> None:
    if faults:
        raise RuntimeError(f"{what}: {'; '.join(faults)}")
