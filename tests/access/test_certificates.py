"""Who shows a certificate needs no signature: the user is whom the certificate names."""

import ssl
from pathlib import Path

from access_control import ON, REFUSED, guarded, with_topic
from live_broker import live, send_fields
from loops import run_on
from mqcore.remoting import Client, RequestCode, TlsFiles, client_context
from tls_papers import Papers

_SEND = RequestCode.SEND_MESSAGE_V2
_RULES = r"SAN:^DNS:(.*)\.example$/$1/"


def test_a_certificate_names_the_user(tmp_path: Path) -> None:
    papers = Papers(tmp_path / "papers")

    def shows(name: str) -> ssl.SSLContext:
        path = papers.issued(name, f"{name}.example")
        return client_context(TlsFiles(certificate=path, trusted=papers.trusted))

    keys = papers.keys("broker") | {
        "tls.server.need.client.auth": "optional",
        "tls.server.authClient": "true",
        "mqcoreTlsPrincipal": _RULES,
    }

    async def send(address: str, tls: ssl.SSLContext | None) -> tuple[int, str | None]:
        async with Client(tls=tls) as client:
            fields = {name: str(value).lower() for name, value in send_fields("t").items()}
            answer = await client.call(address, _SEND, fields, b"x")
            return answer.code, answer.remark

    async def run() -> None:
        async with guarded(tmp_path / "store", **keys) as broker:
            address = broker.live.address
            await with_topic(broker)
            await broker.user("app")
            await broker.grant("app", ("Topic:t", "Pub"))
            assert await send(address, shows("app")) == (0, None)
            code, remark = await send(address, shows("other"))
            assert (code, remark) == (REFUSED, "check signature failed.")
            for tls in (papers.context(), None):
                code, remark = await send(address, tls)
                assert (code, remark) == (REFUSED, "username cannot be null.")
            await broker.done(RequestCode.AUTH_DELETE_ACL, {"subject": "User:app"})
            code, _ = await send(address, shows("app"))
            assert code == REFUSED

    run_on("uvloop", run())


def test_without_rules_certificates_name_nobody(tmp_path: Path) -> None:
    papers = Papers(tmp_path / "papers")
    keys = papers.keys("broker") | {
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
    }

    async def run() -> None:
        async with live(tmp_path / "store", **ON | keys) as broker:
            path = papers.issued("root", "root")
            tls = client_context(TlsFiles(certificate=path, trusted=papers.trusted))
            async with Client(tls=tls) as client:
                answer = await client.call(broker.address, RequestCode.GET_BROKER_CONFIG)
                assert (answer.code, answer.remark) == (REFUSED, "username cannot be null.")

    run_on("uvloop", run())
