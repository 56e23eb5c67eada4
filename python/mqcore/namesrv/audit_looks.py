"""What audited requests are about, as a name server has it: keys and values, settings.

Waits for nothing, changes nothing.
"""

from collections.abc import Sequence

from mqcore.access import ServerGate
from mqcore.audit import AuditLooks, settings_named, settings_now
from mqcore.namesrv.requests import Requests
from mqcore.remoting import Request, RequestCode

__all__ = ["namesrv_looks"]


def namesrv_looks(requests: Requests, gate: ServerGate) -> AuditLooks:
    """Returns what a name server knows of audited requests."""

    def value(request: Request, _about: Sequence[str]) -> str | None:
        return requests.kv.value(request.ext.get("namespace", ""), request.ext.get("key", ""))

    code = RequestCode
    return AuditLooks(
        {
            code.PUT_KV_CONFIG: value,
            code.DELETE_KV_CONFIG: value,
            code.UPDATE_NAMESRV_CONFIG: lambda _request, about: settings_now(
                requests.settings.configuration, about
            ),
        },
        {code.UPDATE_NAMESRV_CONFIG: settings_named},
        gate.signer,
    )
