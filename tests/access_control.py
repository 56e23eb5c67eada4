"""A broker with access control, users who sign, and what the tests of both ask.

Knows the requests, not how a broker decides.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from live_broker import Live, field_texts, live
from mqcore.model.relaxed_json import compact, parse
from mqcore.native import Command
from mqcore.remoting import Credentials, RequestCode, expect, signed
from request_fields import topic_fields

ROOT = Credentials("root", "root-secret")
ON = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"root","password":"root-secret"}',
    # Tests send wrong signatures by the hundred: `tests/access/test_limits.py` is about these.
    "mqcoreFailedSignaturesPerMinute": "0",
}
REFUSED = 16
# Who is in `plain_accounts`: the secrets look like numbers, as in the official distribution.
PLAIN_PRODUCER = Credentials("producer1", "12345678")
PLAIN_ADMIN = Credentials("rocketmq2", "admin-secret")


def plain_accounts(topic: str) -> str:
    """Returns a `plain_acl.yml` of 4.x much as the official distribution has it.

    Args:
        topic: What the producer may write and read.
    """
    producer, admin = PLAIN_PRODUCER, PLAIN_ADMIN
    return f"""
globalWhiteRemoteAddresses:
- 10.10.103.*
accounts:
- accessKey: {producer.access_key}
  secretKey: {producer.secret_key}
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - {topic}=PUB|SUB
  - denied=DENY
- accessKey: {admin.access_key}
  secretKey: {admin.secret_key}
  whiteRemoteAddress: 192.168.1.*
  admin: true
"""


@dataclass(slots=True)
class Guarded:
    """A running broker, asked in somebody's name.

    Attributes:
        live: The broker and its client.
    """

    live: Live

    async def ask(
        self,
        who: Credentials | None,
        code: int,
        ext: Mapping[str, object] | None = None,
        body: bytes = b"",
    ) -> Command:
        """Sends a request that somebody has signed, or nobody; returns its answer."""
        fields = field_texts(ext)
        if who is not None:
            fields = signed(who, fields, body)
        return await self.live.call(code, fields, body)

    async def done(
        self,
        code: int,
        ext: Mapping[str, object] | None = None,
        body: bytes = b"",
        *,
        who: Credentials | None = ROOT,
    ) -> Any:
        """Sends a request that succeeds; returns what is in its body, None for none."""
        answer = expect(await self.ask(who, code, ext, body), "the broker")
        return parse(answer.body) if answer.body else None

    async def user(self, name: str, **fields: str) -> Credentials:
        """Makes a user; returns its credentials."""
        secret = fields.pop("password", f"{name}-secret")
        body = compact({"username": name, "password": secret, **fields})
        await self.done(RequestCode.AUTH_CREATE_USER, {"username": name}, body)
        return Credentials(name, secret)

    async def grant(
        self, user: str, *entries: tuple[str, str], decision: str = "Allow", **more: Any
    ) -> None:
        """Gives a user entries: resource, and actions by comma."""
        rows = [
            {"resource": resource, "actions": actions.split(","), "decision": decision, **more}
            for resource, actions in entries
        ]
        acl = {"subject": f"User:{user}", "policies": [{"policyType": "Custom", "entries": rows}]}
        ext = {"subject": f"User:{user}"}
        await self.done(RequestCode.AUTH_CREATE_ACL, ext, compact(acl))


@asynccontextmanager
async def guarded(store_dir: Path, **keys: str) -> AsyncIterator[Guarded]:
    """Runs a broker with access control on a directory; `root` is its Super user."""
    async with live(store_dir, **ON | keys) as running:
        yield Guarded(running)


async def with_topic(broker: Guarded, topic: str = "t") -> None:
    """Makes a topic of one queue."""
    await broker.done(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(topic))
