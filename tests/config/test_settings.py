"""Typed settings come from official keys; what is left empty is found out."""

import dataclasses
import socket
from pathlib import Path

import pytest

from mqcore import Store
from mqcore.config import (
    Layer,
    Program,
    broker_settings,
    is_loopback,
    namesrv_settings,
    reachable_host,
    resolved,
    settings_of_pairs,
)


def test_defaults_are_safe_and_official() -> None:
    settings = broker_settings()
    assert settings.listener.host == "127.0.0.1"
    assert settings.advertised_host == "127.0.0.1"
    assert settings.listener.port == 10911
    assert settings.name == socket.gethostname()
    assert settings.cluster == "DefaultCluster"
    assert settings.store_dir == Path.home() / "store"
    assert settings.engine == {}
    assert not settings.has_metrics
    assert namesrv_settings().listener.port == 9876


def test_values_have_the_types_of_their_fields() -> None:
    broker = broker_settings()
    for settings in (broker, broker.listener, broker.access, namesrv_settings()):
        hints = {each.name: each.type for each in dataclasses.fields(settings)}
        for name in hints:
            value = getattr(settings, name)
            if name not in ("listener", "access", "engine", "configuration"):
                assert isinstance(value, bool | int | str | Path | tuple), name
                if name.endswith(("_ms", "_s", "_bytes", "_max", "port")):
                    assert type(value) is int, name


def test_given_keys_arrive(tmp_path: Path) -> None:
    settings = settings_of_pairs(
        {
            "storePathRootDir": str(tmp_path / "s"),
            "brokerName": "b",
            "brokerIP1": "10.0.0.5",
            "namesrvAddr": "a:1; b:2;",
            "flushDiskType": "SYNC_FLUSH",
            "mappedFileSizeCommitLog": str(8 << 20),
        }
    )
    assert settings.store_dir == tmp_path / "s"
    assert settings.name_servers == ("a:1", "b:2")
    assert (settings.advertised_host, settings.replication_host) == ("10.0.0.5", "10.0.0.5")
    with Store(settings.store_dir, config=settings.engine) as store:
        assert store.unknown_settings == []
        assert store.append("t", b"x").status == "PUT_OK"


def test_a_key_password_is_not_in_the_texts() -> None:
    settings = settings_of_pairs({"tls.server.keyPassword": "rosebud"})
    assert settings.listener.tls_key_password == "rosebud"
    assert "rosebud" not in repr(settings)


def test_the_metrics_port_is_opened_by_the_official_keys() -> None:
    settings = settings_of_pairs({"metricsExporterType": "PROM", "metricsPromExporterPort": "0"})
    assert settings.has_metrics
    assert settings.metrics_port == 0


@pytest.mark.parametrize(
    ("host", "loops"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("mq", False),
    ],
)
def test_loopback(host: str, loops: bool) -> None:
    assert is_loopback(host) is loops


def test_a_wildcard_is_reached_at_an_address_and_others_at_themselves() -> None:
    assert reachable_host("10.1.2.3") == "10.1.2.3"
    assert reachable_host("mq.example") == "mq.example"
    found = reachable_host("0.0.0.0")
    assert found != "0.0.0.0"
    assert socket.inet_aton(found)


def test_a_name_server_reads_its_own_file() -> None:
    layer = Layer("n.conf", {"listenPort": "0", "kvConfigPath": "k.json", "bindAddress": "::1"})
    settings = namesrv_settings(resolved(Program.NAMESRV, [layer]))
    assert (settings.listener.port, settings.listener.host) == (0, "::1")
    assert settings.kv_config_path == Path("k.json")
