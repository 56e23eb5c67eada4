"""TLS and plain clients share a broker's port, on both event loops."""

import asyncio
from pathlib import Path

import pytest
import trustme

from live_broker import Live, live
from loops import FACTORIES, run_on
from mqcore.broker.observation import snapshot
from mqcore.metrics.families import Rows
from mqcore.remoting import Client, TlsFiles, client_context
from tls_papers import Papers

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


def test_a_renewal_that_fails_is_in_the_metrics(tmp_path: Path) -> None:
    keys = Papers(tmp_path / "papers").keys("b")
    path = Path(keys["tls.server.certPath"])
    whole, put = path.read_bytes(), path.write_bytes

    async def shown(broker: Live) -> dict[str, Rows]:
        rows = (await snapshot(broker.broker.state)).rows
        return {name: found for name, found in rows.items() if "tls_files" in name}

    async def work() -> None:
        async with live(tmp_path / "store", **keys) as broker:
            taken, refused = "mqcore_tls_files_taken_total", "mqcore_tls_files_refused"
            assert await shown(broker) == {taken: {("server",): 0}, refused: {("server",): 0}}
            put(b"")
            assert await shown(broker) == {taken: {("server",): 0}, refused: {("server",): 1}}
            put(whole)
            assert await shown(broker) == {taken: {("server",): 1}, refused: {("server",): 0}}

    run_on("asyncio", work())
