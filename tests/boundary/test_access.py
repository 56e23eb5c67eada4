"""Access control through the extension: rules and tables in, refusals and explanations out."""

import base64
import hashlib
import hmac
import time
from pathlib import Path

import pytest

from fast_path_server import Client, pull, send, serving
from loops import FACTORIES, run_on, until
from mqcore.errors import RefusedError
from mqcore.native import Access, Command

SECRET = "12345678"
RULES = {
    310: "T(b) Pub",
    11: "T(topic) Sub, G(consumerGroup) Sub",
    34: "body",
    17: "T(topic) Create",
}
ON = {"authenticate": "true", "authorize": "true", "cluster": "c1"}
USERS = [("app", SECRET, "Normal", "enable"), ("root", SECRET, "Super", "enable")]
POLICIES: list[tuple[str, str, str, tuple[str, ...], tuple[str, ...], str]] = [
    ("User:app", "Custom", "Topic:t", ("Pub", "Sub"), (), "Allow"),
    ("User:app", "Custom", "Group:g", ("Sub",), ("127.0.0.0/8",), "Allow"),
    ("User:app", "Default", "Topic:*", ("All",), (), "Deny"),
]
SUB = 2


def signed(user: str, command: Command) -> Command:
    """Returns the request with a signature."""
    command.ext = {**command.ext, "AccessKey": user}
    text = "".join(command.ext[name] for name in sorted(command.ext)).encode() + command.body
    digest = hmac.new(SECRET.encode(), text, hashlib.sha1).digest()
    command.ext["Signature"] = base64.b64encode(digest).decode()
    return command


def access() -> Access:
    """Returns access control that is on."""
    made = Access(RULES)
    assert (made.is_on, made.version) == (False, 0)
    assert made.replace(USERS, POLICIES, ON) == 1
    return made


def test_a_request_is_checked_as_the_fast_path_does() -> None:
    made = access()
    request = signed("app", send(1, b"body"))
    assert made.check(request, "127.0.0.1:5", is_tls=False) == "app"
    assert made.check(signed("root", Command(17)), "127.0.0.1", is_tls=False) == "root"
    assert (
        made.check(Command(310, ext={"b": "t"}), "1.2.3.4", is_tls=True, principal="app") == "app"
    )
    request.body = b"Body"
    with pytest.raises(RefusedError, match=r"^check signature failed\.$") as caught:
        made.check(request, "127.0.0.1:5", is_tls=False)
    assert caught.value.code == 16
    refused = made.take_refusals()
    assert (len(refused.refusals), refused.left_out) == (1, 0)
    refusal = refused.refusals[0]
    assert (refusal.code, refusal.user, refusal.source) == (310, "app", "127.0.0.1")
    assert (refusal.reason, refusal.remark) == ("bad signature", "check signature failed.")
    assert abs(refusal.time_ms - time.time_ns() // 1_000_000) < 60_000
    assert made.take_refusals().refusals == []


def test_pairs_of_a_body_are_decided_and_explained() -> None:
    made = access()
    made.decide("app", "127.0.0.1", [("Topic:t", SUB), ("Topic:%RETRY%g", SUB)], code=34)
    with pytest.raises(RefusedError, match=r"access Group:g from 10\.0\.0\.1, no matched policies"):
        made.decide("app", "10.0.0.1", [("Topic:t", SUB), ("Group:g", SUB)], code=34)
    refusal = made.take_refusals().refusals[0]
    assert (refusal.code, refusal.resource, refusal.actions) == (34, "Group:g", ["Sub"])
    explained = made.explain("app", "127.0.0.1", "Topic:t", SUB)
    assert explained.is_allowed
    entries = [(entry.policy, entry.resource, entry.decision) for entry in explained.matched]
    assert entries == [("Custom", "Topic:t", "Allow"), ("Default", "Topic:*", "Deny")]
    assert explained.matched[1].actions == ["All"]
    assert not made.explain("app", "127.0.0.1", "Topic:u", SUB).is_allowed
    with pytest.raises(ValueError, match="no resource"):
        made.explain("app", "127.0.0.1", "t", SUB)


def test_what_cannot_be_taken_is_named_and_no_secret_is_shown() -> None:
    with pytest.raises(ValueError, match=r"rule of request 9, \"T\(a\)\", at character 0"):
        Access({9: "T(a)"})
    made = access()
    with pytest.raises(ValueError, match="neither Super nor Normal") as caught:
        made.replace([("app", SECRET, "Admin", "enable")], [], ON)
    assert SECRET not in str(caught.value)
    with pytest.raises(ValueError, match="no such setting"):
        made.replace(USERS, POLICIES, {"other": "1"})
    assert made.version == 1
    assert SECRET not in repr(made)


@pytest.mark.parametrize("kind", sorted(FACTORIES))
def test_connections_are_guarded_and_a_right_that_is_taken_ends_a_held_pull(
    kind: str, tmp_path: Path
) -> None:
    async def ask(client: Client, command: Command) -> tuple[int, str | None]:
        answer = await client.ask(command)
        return answer.code, answer.remark

    async def talk() -> None:
        async with serving(tmp_path) as running, running.client() as client:
            made = access()
            running.fast_path.set_access(made)
            assert await ask(client, send(1, b"x")) == (16, "username cannot be null.")
            client.send(signed("app", Command(34, opaque=3, body=b"{}")))
            client.send(signed("app", pull(4, 0, suspend_ms=20_000)))
            begun = time.monotonic()
            await until(lambda: running.fast_path.stats()["held"] == 1)
            [handed] = running.served[0].requests
            assert (handed.command.code, handed.command.user) == (34, "app")
            made.replace(USERS, POLICIES[:1], ON)
            [answer] = await client.receive()
            assert (answer.opaque, answer.code) == (4, 19)
            assert time.monotonic() - begun < 15, "long before its time is over"
            assert (await client.ask(signed("app", pull(5, 0, suspend_ms=20_000)))).code == 16

    run_on(kind, talk())
