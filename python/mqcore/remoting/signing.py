"""The signature of access control: `AclClientRPCHook` as a pure function over a request.

All values of the header in the order of their names, then the body, keyed by the secret.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["SIGNING_FIELDS", "Credentials", "signed"]

_SIGNATURE = "Signature"
_ACCESS_KEY = "AccessKey"
_SECURITY_TOKEN = "SecurityToken"
# What a signature adds to a header: nothing of it goes on to somebody else.
SIGNING_FIELDS = frozenset({_ACCESS_KEY, _SIGNATURE, _SECURITY_TOKEN, "OnsChannel"})


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who we are to servers that ask.

    Attributes:
        access_key: The account.
        secret_key: Its secret; never sent, and not shown.
        security_token: A token of a temporary account.
    """

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


def signed(credentials: Credentials, ext: Mapping[str, str], body: bytes) -> dict[str, str]:
    """Returns a header's fields with the signature that makes them ours.

    Args:
        credentials: Who we are.
        ext: The fields, final but for the signature.
        body: The body.
    """
    fields = dict(ext)
    fields[_ACCESS_KEY] = credentials.access_key
    if credentials.security_token:
        fields[_SECURITY_TOKEN] = credentials.security_token
    fields.pop(_SIGNATURE, None)
    text = "".join(fields[name] for name in sorted(fields)).encode() + body
    digest = hmac.new(credentials.secret_key.encode(), text, hashlib.sha1).digest()
    fields[_SIGNATURE] = base64.b64encode(digest).decode()
    return fields
