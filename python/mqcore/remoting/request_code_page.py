"""Writes the page of request codes: `python -m mqcore.remoting.request_code_page > FILE`.

The page in `docs` is made by it, and a test keeps it current. Knows no handler.
"""

from mqcore.remoting.request_codes import (
    AnsweredBy,
    Family,
    OwnRequestCode,
    RequestCode,
    family,
)

__all__ = ["page"]

_HEAD = """\
# Request codes

Made from the table of request codes by `python -m mqcore.remoting.request_code_page`; a test keeps
it current.

Numbers and names are those of `RequestCode.java`; every number of its releases from 4.0.0 to 5.3.3
has a row here. *since* is the first official release that has the number.

Who answers:

{answerers}

*mounted*: whether a broker that serves another store for reading alone (`mountedStoreDir`) executes
the request; otherwise it is refused with NO_PERMISSION, or with the code that the request has for
what is switched off.

*permission*: what a user must be allowed where [access control](access-control.md) is on. `T`, `G`
and `C` are topic, group and cluster; in brackets is the field of the header that names it, `|`
joins fields of which the first counts that is there, and `?` leaves the pair out without the field.
`/` joins actions of which one is enough; all pairs of a row must pass. *any*: any user with a good
signature; *super*: Super users alone; *body*: topics and groups that are in the body, or in the
message that is asked for.

*audited*: whether the request becomes a line of the [audit](audit.md).

A code without an answer, known or not, gets REQUEST_CODE_NOT_SUPPORTED (3).

"""
_ANSWERERS = {
    AnsweredBy.NATIVE: ("broker (native)", "the broker's fast path, in Rust"),
    AnsweredBy.BROKER: ("broker", "the broker's handlers, in Python"),
    AnsweredBy.NAMESRV: ("name server", "the name server"),
    AnsweredBy.CONTROLLER: ("controller", "the controller"),
    AnsweredBy.CLIENT: ("client", "clients of a group: the broker sends it to them"),
}


def page() -> str:
    """Returns the page, as Markdown."""
    answerers = "\n".join(f"- *{name}*: {meaning}." for name, meaning in _ANSWERERS.values())
    parts = [_HEAD.format(answerers=answerers)]
    for kind in Family:
        parts += _answered(kind, sorted(code for code in family(kind) if code.row.answered_by))
    parts.append("## Not answered\n\n| code | name | since | why |\n|---|---|---|---|\n")
    parts += [
        f"| {int(code)} | `{code.name}` | {_releases(code)} | {code.row.reason} |\n"
        for code in sorted(RequestCode)
        if not code.row.answered_by
    ]
    head = "| code | name | permission | audited |\n|---|---|---|---|\n"
    parts.append(f"\n## Between programs of mqcore\n\n{head}")
    parts += [
        f"| {int(code)} | `{code.name}` | {_shown(code.permission)} | {_yes(code.is_audited)} |\n"
        for code in sorted(OwnRequestCode)
    ]
    return "".join(parts)


def _answered(kind: Family, codes: list[RequestCode]) -> list[str]:
    if not codes:
        return []
    head = (
        "| code | name | answered by | since | mounted | permission | audited |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    rows = [
        f"| {int(code)} | `{code.name}` | {_who(code)} | {_releases(code)} | {_mounted(code)} "
        f"| {_shown(code.row.permission)} | {_yes(code.row.is_audited)} |\n"
        for code in codes
    ]
    return [f"## {kind}\n\n{head}", *rows, "\n"]


def _yes(value: bool) -> str:
    return "yes" if value else ""


def _shown(permission: str) -> str:
    return permission.replace("|", "\\|")


def _who(code: RequestCode) -> str:
    return ", ".join(_ANSWERERS[who][0] for who in code.row.answered_by)


def _releases(code: RequestCode) -> str:
    row = code.row
    return f"{row.since} (until {row.until})" if row.until else row.since


def _mounted(code: RequestCode) -> str:
    """Returns whether a mounted store's broker executes a request that brokers answer."""
    if not code.row.answered_by & (AnsweredBy.NATIVE | AnsweredBy.BROKER):
        return ""
    return "yes" if code.row.on_mounted else "no"


if __name__ == "__main__":
    print(page(), end="")
