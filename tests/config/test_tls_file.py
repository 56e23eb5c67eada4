"""`tls.config.file`: what it sets wins, what it is not for is named."""

from pathlib import Path

import pytest

from mqcore.config import Layer, Program, resolved
from mqcore.config.settings import broker_settings
from mqcore.config.tls_file import tls_file_layers
from mqcore.errors import ConfigFileError, ConfigurationError

_FILE = """
# As RocketMQ's own documents have it.
tls.test.mode.enable=false
tls.server.need.client.auth=require
tls.server.keyPath=/opt/k.pem
tls.server.certPath=/opt/c.pem
tls.server.trustCertPath=/opt/ca.pem
tls.server.mode=disabled
tls.enable=true
listenPort=1
tls.server.keypath=/typed/wrong
"""


def _layers(path: Path, **more: str) -> list[Layer]:
    pairs = {"tls.config.file": str(path), "tls.server.certPath": "/flag.pem", **more}
    return [Layer("broker.conf", {"tls.config.file": "/else"}), Layer("--set", pairs)]


@pytest.mark.parametrize("program", list(Program))
def test_the_file_wins_but_for_mode_and_enable(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "tls.properties"
    path.write_text(_FILE)
    layers = _layers(path)
    found = resolved(program, [*layers, *tls_file_layers(layers, program)])
    value = found.value
    assert value("tls.server.certPath") == Path("/opt/c.pem")
    assert value("tls.server.need.client.auth") == "require"
    assert found.settings["tls.server.keyPath"].source == str(path)
    assert value("tls.server.mode") == "permissive"
    assert value("tls.enable") is False
    assert value("listenPort") != 1
    named = [each for each in found.warnings if each.startswith(str(path))]
    assert len(named) == 4
    assert sum("belongs into the settings of" in each for each in named) == 3
    unknown = "tls.server.keypath is not taken from this file: unknown key"
    assert sum(unknown in each for each in named) == 1


def test_an_unknown_key_is_an_error_where_settings_are_strict(tmp_path: Path) -> None:
    path = tmp_path / "tls.properties"
    path.write_text("tls.server.mod=enforcing\n")
    layers = [Layer("given", {"tls.config.file": str(path)})]
    with pytest.raises(ConfigurationError, match=r"tls\.server\.mod is not taken"):
        resolved(
            Program.BROKER,
            [*layers, *tls_file_layers(layers, Program.BROKER)],
            is_strict=True,
        )


def test_a_file_that_is_not_there_is_named_and_sets_nothing(tmp_path: Path) -> None:
    layers = _layers(tmp_path / "none")
    (layer,) = tls_file_layers(layers, Program.BROKER)
    assert layer.pairs == {}
    found = resolved(Program.BROKER, [*layers, layer])
    assert any("there is no such file" in each for each in found.warnings)
    # The usual place without a file is nothing to speak of; an empty name is none.
    assert tls_file_layers([], Program.BROKER) == []
    assert tls_file_layers([Layer("given", {"tls.config.file": ""})], Program.BROKER) == []


def test_a_file_that_cannot_be_read_refuses_the_start(tmp_path: Path) -> None:
    path = tmp_path / "tls.properties"
    path.write_bytes(b"tls.server.certPath=\\u12\n")
    with pytest.raises(ConfigFileError):
        tls_file_layers(_layers(path), Program.BROKER)


def test_a_password_in_the_file_is_masked(tmp_path: Path) -> None:
    path = tmp_path / "tls.properties"
    path.write_text("tls.server.keyPassword=hidden\n")
    layers = _layers(path)
    settings = broker_settings(
        resolved(Program.BROKER, [*layers, *tls_file_layers(layers, Program.BROKER)])
    )
    assert settings.listener.tls_key_password == "hidden"
    assert "hidden" not in repr(settings)
    assert "hidden" not in str(settings.configuration.rows())
