"""TLS and plain clients share a broker's port, on both event loops."""

import asyncio
from pathlib import Path

import pytest
import trustme

from live_broker import Live, live
from loops import FACTORIES, run_on
from mqcore.remoting import Client, TlsFiles, client_context

COUNT = 40
BODY = b"x" * 60_000


@pytest.mark.parametrize("loop", sorted(FACTORIES))
def test_what_one_sends_over_tls_the_other_pulls_plain(loop: str, tmp_path: Path) -> None:
    authority = trustme.CA()
    papers, trusted = tmp_path / "server.pem", tmp_path / "ca.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(papers))
    authority.cert_pem.write_to_path(str(trusted))

    async def work() -> None:
        context = client_context(TlsFiles(trusted=trusted))
        async with (
            live(tmp_path / "store", **{"tls.server.certPath": str(papers)}) as plain,
            Client(tls=context) as client,
        ):
            safe = Live(plain.broker, client, [])
            await safe.create("T")
            for _ in range(COUNT):
                assert (await safe.send("T", BODY)).code == 0
            await safe.settled()
            # Replies that do not fit into one buffer, many at once, on both connections.
            pulled = await asyncio.gather(
                *(safe.pull("T", offset) for offset in range(COUNT)),
                *(plain.pull("T", offset) for offset in range(COUNT)),
            )
            assert [answer.code for answer in pulled] == [0] * (2 * COUNT)
            assert all(BODY in answer.body for answer in pulled)
            held = asyncio.create_task(safe.pull("T", COUNT, wait_ms=15_000))
            assert (await plain.send("T", b"wakes it")).code == 0
            assert b"wakes it" in (await held).body

    run_on(loop, work())
