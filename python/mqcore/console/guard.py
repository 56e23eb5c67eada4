"""Who may ask for what: headers of every response, where a request comes from, tokens.

Pure functions of headers and forms, and the wrapper that adds headers. Knows no page.
"""

import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Guarded", "is_foreign", "is_token"]

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
_NO_STORE: Final = (b"cache-control", b"no-store")
_STRICT: Final = (b"strict-transport-security", b"max-age=31536000")
_STATIC: Final = "/static/"


class Guarded:
    """An application whose every response has the headers that keep browsers from harm."""

    def __init__(self, app: ASGIApp, *, is_secure: bool) -> None:
        """Takes the application, and whether it is reached by TLS alone."""
        self._app = app
        self._extra = (_STRICT,) if is_secure else ()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", []))
                headers += [*_HEADERS, *self._extra]
                if not scope["path"].startswith(_STATIC):
                    headers.append(_NO_STORE)
                message["headers"] = headers
            await send(message)

        await self._app(scope, receive, sent)


def is_foreign(headers: Mapping[str, str]) -> bool:
    """Returns whether a change comes from a page of somebody else, as browsers report it."""
    site = headers.get("sec-fetch-site", "")
    if site not in ("", "same-origin", "none"):
        return True
    origin = headers.get("origin", "")
    if not origin or (origin == "null" and site):
        # A browser hides its own origin where a page asks for that; then the site decides.
        return False
    return urlsplit(origin).netloc.lower() != headers.get("host", "").lower()


def is_token(given: str, known: str) -> bool:
    """Returns whether a form has the token that its page was given."""
    return bool(known) and hmac.compare_digest(given.encode(), known.encode())
