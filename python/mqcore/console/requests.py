"""What is read out of a request, within bounds: form, path, sender; and files that are sent back.

Knows no page and no login.
"""

from typing import Final
from urllib.parse import parse_qsl, quote

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from mqcore.console.views import View

__all__ = ["download", "form_of", "here", "local", "peer_of"]

# A body of a message, and what is beside it.
_FORM_BYTES_MAX: Final = 1 << 20
# Dead letters that are chosen, and what is beside them.
_FORM_FIELDS_MAX: Final = 2_000


async def form_of(request: Request) -> list[tuple[str, str]]:
    """Returns the fields of a form, in their order.

    Raises:
        HTTPException: It is too large, or no form.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415, "a form is expected")
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > _FORM_BYTES_MAX:
                raise HTTPException(413, f"a form has at most {_FORM_BYTES_MAX} bytes")
    except ClientDisconnect as error:
        raise HTTPException(400, "the form did not come whole") from error
    try:
        return parse_qsl(
            body.decode("utf-8", "replace"),
            keep_blank_values=True,
            max_num_fields=_FORM_FIELDS_MAX,
        )
    except ValueError as error:
        raise HTTPException(413, f"a form has at most {_FORM_FIELDS_MAX} fields") from error


def here(request: Request) -> str:
    """Returns path and query of a request."""
    address = request.url
    return f"{address.path}?{address.query}" if address.query else address.path


def local(path: str) -> str:
    """Returns a path of this console: what leads elsewhere becomes the first page."""
    is_local = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_local and "\\" not in path else "/"


def peer_of(request: Request) -> str:
    """Returns the address that a request comes from; of a trusted proxy that of its client."""
    return request.client.host if request.client else ""


def download(view: View) -> Response:
    """Returns a file that a browser keeps, and never shows."""
    name = quote(view.download, safe="")
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{name}"}
    return Response(view.data["bytes"], media_type="application/octet-stream", headers=headers)
