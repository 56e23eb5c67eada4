"""The pages `/healthz` and `/readyz`: JSON with a reason per check, status 503 where one fails.

Live: the event loop turns, and nothing has failed that only a new start mends. Ready: clients get
what they ask for. An orchestrator starts anew what is not live, and leads no clients to what is not
ready.
Knows no program: it is given the checks.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from mqcore.errors import AddressError, AddressReason
from mqcore.remoting.observatory import Observatory, Page, Source

__all__ = ["Checks", "health_address", "health_pages", "serving_health"]

# Returns by the name of each check what is wrong; empty where it is well.
Checks = Callable[[], Awaitable[Mapping[str, str]]]
_OK: Final = 200
_UNAVAILABLE: Final = 503
_JSON: Final = "application/json"
_PORT_MAX: Final = 65_535


def health_pages(live: Checks, ready: Checks) -> dict[str, Source]:
    """Returns the two pages by their path."""

    async def healthz() -> Page:
        return _page(await live())

    async def readyz() -> Page:
        return _page({**await live(), **await ready()})

    return {"/healthz": healthz, "/readyz": readyz}


def _page(found: Mapping[str, str]) -> Page:
    is_well = not any(found.values())
    tree = {
        "status": "ok" if is_well else "unavailable",
        "checks": {name: why or "ok" for name, why in found.items()},
    }
    status = _OK if is_well else _UNAVAILABLE
    return Page(status, json.dumps(tree, ensure_ascii=False).encode() + b"\n", _JSON)


def health_address(text: str) -> tuple[str, int]:
    """Returns host and port of `HOST:PORT`.

    Raises:
        AddressError: It is none.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or int(port) > _PORT_MAX:
        raise AddressError(
            f"mqcoreHealthAddress={text}: HOST:PORT expected",
            address=text,
            reason=AddressReason.CANNOT_LISTEN,
        )
    return host.strip("[]"), int(port)


async def serving_health(
    address: str, live: Checks, ready: Checks, more: Mapping[str, Source] | None = None
) -> tuple[Observatory, int]:
    """Serves the two pages at `HOST:PORT`; returns what stops it, and the port that was chosen.

    Args:
        address: Where.
        live: What `/healthz` shows.
        ready: What `/readyz` shows besides.
        more: More pages, by their path.

    Raises:
        AddressError: It cannot be listened on.
    """
    host, port = health_address(address)
    observatory = Observatory({**health_pages(live, ready), **(more or {})})
    return observatory, await observatory.start(host, port)
