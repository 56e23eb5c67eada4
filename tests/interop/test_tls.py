"""TLS with official clients and servers: who is served, by mode and by what is shown.

Certificates are real ones: the official test mode, in which everybody trusts everybody, is off.
"""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

import mqcore
from interop.driver import Driver, driving
from interop.install import OfficialError, go_client
from interop.patience import eventually
from interop.processes import environment
from interop.servers import OURS, Servers, Software, official_software, prepared
from loops import run_on
from mqcore import aio
from mqcore.errors import MQError
from mqcore.remoting import TlsFiles
from tls_papers import Papers

pytestmark = pytest.mark.java

MODES = ("disabled", "permissive", "enforcing")
DEMANDS = ("none", "optional", "require")
SPOKEN = ("plain", "tls", "tls with a certificate")
CLIENTS = ("4.9.7", "5.3.3", "go", "ours")
# What every run has; the rest is for --matrix.
SAMPLE = {("5.3.3", "permissive", "require"), ("ours", "enforcing", "require")}
TOPIC = "T_tls"
# A client of Java that is refused tries the name server again until then.
REFUSED_MS = 6_000
GO_TIMEOUT_S = 60


def is_served(mode: str, demand: str, spoken: str) -> bool:
    """Whether a client is to be served."""
    if spoken == "plain":
        return mode != "enforcing"
    return mode != "disabled" and (demand != "require" or spoken == SPOKEN[2])


class Given:
    """The files of servers and clients."""

    def __init__(self, folder: Path) -> None:
        papers = Papers(folder / "papers")
        self.trusted = papers.trusted
        self.paths: dict[str, tuple[Path, Path]] = {}
        for name in ("server", "client"):
            pair = papers.pair()
            paths = folder / f"{name}.crt", folder / f"{name}.key"
            paths[0].write_bytes(pair.certificate)
            paths[1].write_bytes(pair.key)
            self.paths[name] = paths
        self.of_java = folder / "tls.properties"

    def of_server(self, mode: str, demand: str) -> dict[str, str]:
        """Returns the settings of a server of ours."""
        certificate, key = self.paths["server"]
        return {
            "tls.server.mode": mode,
            "tls.server.need.client.auth": demand,
            "tls.server.certPath": str(certificate),
            "tls.server.keyPath": str(key),
            "tls.server.trustCertPath": str(self.trusted),
            "useTLS": "false" if mode == "disabled" else "true",
        }

    def official(self) -> dict[str, str]:
        """Returns the same for an official server, and who it is as a client."""
        certificate, key = self.paths["server"]
        return {
            "tls.test.mode.enable": "false",
            "tls.server.need.client.auth": "require",
            "tls.server.authClient": "true",
            "tls.server.certPath": str(certificate),
            "tls.server.keyPath": str(key),
            "tls.server.trustCertPath": str(self.trusted),
            **self._of_client(is_shown=True),
        }

    def write_for_java(self, *, is_shown: bool) -> None:
        """Writes what the next client of a JVM reads."""
        pairs = {"tls.test.mode.enable": "false", **self._of_client(is_shown=is_shown)}
        self.of_java.write_text("".join(f"{key}={value}\n" for key, value in pairs.items()))

    def of_ours(self, spoken: str) -> TlsFiles | None:
        """Returns how our client speaks."""
        if spoken == "plain":
            return None
        certificate, key = self.paths["client"] if spoken == SPOKEN[2] else (None, None)
        return TlsFiles(trusted=self.trusted, certificate=certificate, key=key)

    def _of_client(self, *, is_shown: bool) -> dict[str, str]:
        # Empty, not left out: a JVM keeps what a file before this one has set.
        certificate, key = self.paths["client"] if is_shown else ("", "")
        return {
            "tls.client.authServer": "true",
            "tls.client.trustCertPath": str(self.trusted),
            "tls.client.certPath": str(certificate),
            "tls.client.keyPath": str(key),
        }


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Given:
    return Given(tmp_path_factory.mktemp("given"))


@pytest.fixture(scope="module")
def jvms(given: Given) -> Iterator[Mapping[str, Driver]]:
    """Returns JVMs whose clients speak TLS, by release, each begun when it is asked for."""
    with ExitStack() as open_ones:

        class _Begun(dict[str, Driver]):
            def __missing__(self, version: str) -> Driver:
                given.write_for_java(is_shown=False)
                properties = {"tls.enable": "true", "tls.config.file": str(given.of_java)}
                self[version] = open_ones.enter_context(driving(version, properties))
                return self[version]

        yield _Begun()


def _cases() -> Iterator[object]:
    for client in CLIENTS:
        for mode in MODES:
            for demand in DEMANDS:
                marks = () if (client, mode, demand) in SAMPLE else pytest.mark.matrix
                yield pytest.param(client, mode, demand, marks=marks)


def _with_java(driver: Driver, namesrv: str, name: str) -> bool:
    limits = {"timeout_ms": REFUSED_MS, "retries": 0}
    try:
        driver.call("producer", name, group="PG_tls", namesrv=namesrv, **limits)
        sent = driver.call("send", name, topic=TOPIC, body=name)
    except OfficialError:
        return False
    finally:
        driver.close(name)
    return [each["status"] for each in sent] == ["SEND_OK"]


def _with_go(namesrv: str, home: Path) -> bool:
    running = subprocess.Popen(
        [go_client(), namesrv, TOPIC, "PG_tls", "go", "flood"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=home,
        env={**environment(), "HOME": str(home), "user.home": str(home)},
    )
    assert running.stdout is not None
    with running:
        try:
            return running.stdout.readline().startswith("sent")
        finally:
            running.kill()


def _with_ours(namesrv: str, tls: TlsFiles | None) -> bool:
    async def with_aio() -> bool:
        try:
            async with aio.Producer(namesrv, group="PG_tls", tls=tls) as producer:
                return (await producer.send(mqcore.Message(TOPIC, b"a"))).is_ok
        except MQError:
            return False

    found = run_on("asyncio", with_aio())
    try:
        with mqcore.Producer(namesrv, group="PG_tls", tls=tls) as producer:
            assert producer.send(mqcore.Message(TOPIC, b"b")).is_ok is found
    except MQError:
        assert not found
    return found


def _prepared(software: Software, root: Path, keys: Mapping[str, str]) -> Servers:
    servers = prepared(software, root, keys)
    servers.namesrv.settings |= keys
    return servers


def _create_topic(servers: Servers, tls: TlsFiles | None) -> None:
    """Returns when the topic can be sent to: the broker has registered by then."""

    def tried() -> bool:
        try:
            with mqcore.Admin(servers.namesrv.address, tls=tls) as admin:
                admin.topics.create(TOPIC, queues=1)
                return admin.topics.route(TOPIC) is not None
        except MQError:
            return False

    assert eventually(tried, bool), servers.broker.printed()


@pytest.mark.parametrize(("client", "mode", "demand"), list(_cases()))
def test_who_is_served(
    client: str,
    mode: str,
    demand: str,
    given: Given,
    jvms: Mapping[str, Driver],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    servers = _prepared(OURS, tmp_path, given.of_server(mode, demand))
    namesrv = servers.namesrv.address
    # The official Go client (2.1.2) speaks no TLS.
    kinds = SPOKEN[:1] if client == "go" else SPOKEN
    found = {}
    try:
        servers.namesrv.start()
        servers.broker.start()
        _create_topic(servers, given.of_ours("plain" if mode == "disabled" else SPOKEN[2]))
        for spoken in kinds:
            if client == "go":
                found[spoken] = _with_go(namesrv, tmp_path)
            elif client == "ours":
                found[spoken] = _with_ours(namesrv, given.of_ours(spoken))
            else:
                plain = "driver_49" if client == "4.9.7" else "driver_53"
                given.write_for_java(is_shown=spoken == SPOKEN[2])
                driver = request.getfixturevalue(plain) if spoken == "plain" else jvms[client]
                name = f"{mode}-{demand}-{spoken}".replace(" ", "-")
                found[spoken] = _with_java(driver, namesrv, name)
    finally:
        servers.end()
    assert found == {spoken: is_served(mode, demand, spoken) for spoken in kinds}


@pytest.mark.parametrize(
    ("of_namesrv", "of_broker"),
    [
        pytest.param("5.3.3", "ours"),
        pytest.param("ours", "5.3.3", marks=pytest.mark.matrix),
        pytest.param("4.9.7", "ours", marks=pytest.mark.matrix),
        pytest.param("ours", "4.9.7", marks=pytest.mark.matrix),
    ],
)
def test_brokers_and_name_servers_of_both_kinds_over_tls_alone(
    of_namesrv: str, of_broker: str, given: Given, tmp_path: Path
) -> None:
    """Both demand the other's certificate; nothing plain is answered."""
    given.of_java.write_text("".join(f"{k}={v}\n" for k, v in given.official().items()))
    properties = {
        "tls.server.mode": "enforcing",
        "tls.enable": "true",
        "tls.config.file": str(given.of_java),
    }

    def software(name: str) -> Software:
        return OURS if name == "ours" else official_software(name, properties)

    servers = _prepared(OURS, tmp_path, given.of_server("enforcing", "require"))
    servers.namesrv.become(software(of_namesrv))
    servers.broker.become(software(of_broker))
    try:
        servers.namesrv.start()
        servers.broker.start()
        tls = given.of_ours(SPOKEN[2])
        _create_topic(servers, tls)
        assert _with_ours(servers.namesrv.address, tls)
        assert not _with_ours(servers.namesrv.address, given.of_ours("plain"))
        assert not _with_ours(servers.namesrv.address, given.of_ours("tls"))
    finally:
        servers.end()
