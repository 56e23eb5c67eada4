"""Replication over TLS: who is refused and by which words, change-overs, renewed certificates."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.test_controlled import _high, members
from broker.test_hand_over import Senders, hand_over, until_followed, until_over
from broker.test_replication import (
    SLAVE,
    _acknowledged,
    end_of,
    equal,
    fill,
    ha_address,
    log_bytes,
    name_server,
)
from live_broker import Live, live
from loops import run_on, until
from mqcore.broker.app import Broker
from mqcore.config.checks import check_broker
from mqcore.config.settings import settings_of_pairs
from mqcore.errors import ConfigurationError, TlsError
from mqcore.remoting import Client, ResponseCode
from tls_papers import Papers

SAFE = {"mqcoreHaTls": "enforcing"}
# Requests too: nothing that a broker sends is plain.
ALL = SAFE | {"useTLS": "true", "tls.server.mode": "enforcing"}


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path / "papers")


@contextlib.asynccontextmanager
async def asked_over_tls(running: Live, papers: Papers) -> AsyncIterator[Live]:
    """A broker as a client asks it that speaks TLS."""
    async with Client(tls=papers.context()) as client:
        yield Live(running.broker, client, [])


def test_a_slave_has_the_log_and_the_tables_over_tls_alone(tmp_path: Path, papers: Papers) -> None:
    async def run() -> int:
        names_keys = papers.keys("names") | {"tls.server.mode": "enforcing"}
        async with (
            name_server(tmp_path, **names_keys) as names,
            live(tmp_path / "m", namesrvAddr=names, **papers.keys("m"), **ALL) as plain,
            asked_over_tls(plain, papers) as master,
        ):
            await master.create("T", 2)
            # Whole files first: a slave that holds nothing copies them.
            while end_of(master) < 3 << 20:
                await fill(master, "T", 200)
            await until(lambda: plain.broker.state.store.stats().flushed >= 2 << 20)
            slave_keys = papers.keys("s") | ALL | SLAVE
            async with live(tmp_path / "s", namesrvAddr=names, **slave_keys) as slave:
                await equal(master, slave)
                state = slave.broker.state
                assert state.store.stats().log_start == 0
                await until(lambda: state.topics.find("T") is not None)
                await fill(master, "T", 20)
                await equal(master, slave)
                await until(lambda: _acknowledged(master) == [end_of(master)])
            return end_of(master)

    end = run_on("asyncio", run())
    assert log_bytes(tmp_path / "s", end) == log_bytes(tmp_path / "m", end)


@pytest.mark.parametrize(
    ("of_master", "of_slave", "at_slave", "at_master"),
    [
        ("enforcing", "plain", "reset|closed", "speaks no TLS"),
        ("plain", "enforcing", "closed the connection instead of answering in TLS", ""),
        ("expired", "enforcing", "it has expired", "our certificate has expired"),
        ("other host", "enforcing", "does not name the host", "refuses us"),
        ("enforcing", "expired", "our certificate has expired", "it has expired"),
        ("enforcing", "stranger", "no authority", "no authority"),
    ],
)
def test_who_is_not_trusted_is_refused_in_words_and_acknowledges_nothing(
    of_master: str,
    of_slave: str,
    at_slave: str,
    at_master: str,
    tmp_path: Path,
    papers: Papers,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def keys(how: str) -> dict[str, str]:
        hosts = ("10.1.2.3",) if how == "other host" else ()
        made = Papers(tmp_path / "others") if how == "stranger" else papers
        found = made.keys(how.replace(" ", "-"), *hosts, is_expired=how == "expired")
        return found if how == "plain" else found | SAFE

    async def run() -> None:
        sync = {"brokerRole": "SYNC_MASTER", "haListenPort": "0"}
        async with live(tmp_path / "m", **keys(of_master), **sync) as master:
            at = ha_address(master)
            async with live(tmp_path / "s", haMasterAddress=at, **keys(of_slave), **SLAVE) as slave:
                await until(lambda: bool(re.search(at_slave, slave.broker.state.replicas.ended)))
                await until(lambda: at_master in caplog.text)
                await master.create("T")
                answer = await master.send("T", b"nobody has it")
                assert answer.code == ResponseCode.SLAVE_NOT_AVAILABLE
                assert end_of(slave) == 0
                assert _acknowledged(master) in ([], [0])

    run_on("asyncio", run())


def test_a_change_over_needs_no_gap(tmp_path: Path, papers: Papers) -> None:
    """Plain, permissive on one side after the other, enforcing on one side after the other."""
    steps = [
        ("disabled", "disabled"),
        ("permissive", "disabled"),
        ("permissive", "permissive"),
        ("permissive", "enforcing"),
        ("enforcing", "enforcing"),
        ("enforcing", "permissive"),
        ("disabled", "permissive"),
    ]

    async def run() -> int:
        end = 0
        async with name_server(tmp_path) as names:
            for of_master, of_slave in steps:
                m = papers.keys("m") | {"mqcoreHaTls": of_master, "namesrvAddr": names}
                s = papers.keys("s") | {"mqcoreHaTls": of_slave, "namesrvAddr": names} | SLAVE
                async with live(tmp_path / "m", **m) as master, live(tmp_path / "s", **s) as slave:
                    await master.create("T", 2)
                    await fill(master, "T", 20)
                    await equal(master, slave)
                    end = end_of(master)
        return end

    end = run_on("asyncio", run())
    assert log_bytes(tmp_path / "s", end) == log_bytes(tmp_path / "m", end)


def spoil(path: str) -> None:
    """Puts other bytes in place of a certificate."""
    Path(path).write_text("nothing")


def test_a_renewed_certificate_is_used_and_a_bad_file_changes_nothing(
    tmp_path: Path, papers: Papers, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        expired = papers.keys("m", is_expired=True)
        async with live(tmp_path / "m", **expired, **SAFE) as master:
            at, s = ha_address(master), papers.keys("s") | SAFE | SLAVE
            async with live(tmp_path / "s", haMasterAddress=at, **s) as slave:
                await until(lambda: "expired" in slave.broker.state.replicas.ended)
                papers.issued("m")
                await master.create("T", 2)
                await fill(master, "T", 5)
                await equal(master, slave)
            spoil(expired["tls.server.certPath"])
            await fill(master, "T", 5)
            async with live(tmp_path / "s", haMasterAddress=at, **s) as slave:
                await equal(master, slave)
                assert "what they were before is used on" in caplog.text

    run_on("asyncio", run())


def test_a_failover_and_a_hand_over_go_over_tls_alone(tmp_path: Path, papers: Papers) -> None:
    async def run() -> None:
        async with members(tmp_path, papers) as them:
            for number in (1, 2):
                await them.begin(number, **papers.keys(f"b{number}"), **ALL)
                await (them.until_slave(2) if number == 2 else them.until_master(1))
            await them.send(1, 30)
            await them.until_in_sync(1, 2)
            await until_followed(them, 1, 1)
            async with Senders(them.live(1).address, papers.context()) as senders:
                await senders.more(20)
                answer = await hand_over(them, 1)
                assert answer.code == ResponseCode.SUCCESS, answer.remark
                report = await until_over(them, 1)
                assert report["phase"] == "done", report
                await senders.more(20)
            refused = [each for _, each in senders.answers if each.code != ResponseCode.SUCCESS]
            assert refused == []
            assert them.brokers[1].broker.passing_on.passed > 0
            await them.until_slave(1)
            await them.until_in_sync(1, 2)
            await them.kill(2)
            await them.until_master(1)
            await them.send(1, 5)
            # Queues follow the log.
            await until(lambda: _high(them, 1) == 35 + len(senders.answers))

    run_on("asyncio", run())


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, "needs tls.server.certPath"),
        ({"tls.server.certPath": "@cert"}, "needs tls.server.trustCertPath"),
        (
            {
                "tls.server.certPath": "@cert",
                "tls.server.trustCertPath": "@cert",
                "tls.server.keyPassword": "x",
            },
            "a key with a password",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(
    keys: dict[str, str], words: str, papers: Papers
) -> None:
    cert = str(papers.issued("one"))
    named = {key: value.replace("@cert", cert) for key, value in keys.items()}
    with pytest.raises(ConfigurationError, match=words):
        check_broker(settings_of_pairs(named | SAFE))


def test_files_that_are_no_certificates_refuse_the_start(tmp_path: Path, papers: Papers) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("nothing")
    keys = papers.keys("one") | {"tls.server.trustCertPath": str(bad)} | SAFE
    settings = settings_of_pairs(keys | {"storePathRootDir": str(tmp_path / "store")})

    async def run() -> None:
        broker = Broker(settings)
        with pytest.raises(TlsError, match="port for slaves"):
            await broker.start()

    asyncio.run(run())
