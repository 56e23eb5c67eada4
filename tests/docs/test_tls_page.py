"""The commands of the page about TLS make certificates that servers and clients can use."""

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from live_broker import live
from mqcore.remoting import Client, RequestCode, TlsFiles, client_context

_PAGE = Path(__file__).parents[2] / "docs" / "tls.md"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="apt install openssl")
def test_a_broker_with_the_authority_of_the_page_knows_its_clients(tmp_path: Path) -> None:
    page = _PAGE.read_text()
    commands, keys, rules = re.findall(r"```\n(.*?)```", page, re.DOTALL)
    subprocess.run(["bash", "-euc", commands], cwd=tmp_path, check=True, capture_output=True)
    settings = dict(
        line.split("=", 1) for line in keys.replace("/etc/mqcore", str(tmp_path)).split()
    )
    # A properties file has each backslash twice.
    settings["mqcoreTlsPrincipal"] = rules.partition("=")[2].strip().replace("\\\\", "\\")

    async def run() -> None:
        files = TlsFiles(
            certificate=tmp_path / "orders.pem",
            key=tmp_path / "orders.key",
            trusted=tmp_path / "ca.pem",
        )
        async with (
            live(tmp_path / "store", **settings) as plain,
            Client(tls=client_context(files)) as client,
        ):
            address = f"127.0.0.1:{plain.broker.ports['broker']}"
            answer = await client.call(address, RequestCode.GET_BROKER_RUNTIME_INFO, timeout_s=30)
            assert answer.code == 0
            server = plain.broker._server
            assert server is not None
            names = {link.certificate_name for link in server.hub.links if link.is_tls}
            assert names == {"orders"}

    asyncio.run(run())
