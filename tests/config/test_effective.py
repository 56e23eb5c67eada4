"""Settings are laid over each other, checked, and shown with their sources."""

from pathlib import Path

import pytest

from mqcore.config import (
    Configuration,
    Layer,
    Program,
    environment_layers,
    file_layer,
    resolved,
)
from mqcore.config.values import parsed, size_bytes
from mqcore.errors import ConfigFileError, ConfigurationError


def broker(
    pairs: dict[str, str], *, is_strict: bool = False, ignored: tuple[str, ...] = ()
) -> Configuration:
    return resolved(Program.BROKER, [Layer("a.conf", pairs)], is_strict=is_strict, ignored=ignored)


def refusal(pairs: dict[str, str], *, is_strict: bool = False) -> str:
    with pytest.raises(ConfigurationError) as caught:
        broker(pairs, is_strict=is_strict)
    assert caught.value.message == "; ".join(caught.value.faults)
    return caught.value.message


def test_later_layers_win_and_are_named() -> None:
    weak, strong = (
        Layer("weak", {"listenPort": "1", "brokerName": "a"}),
        Layer("strong", {"listenPort": "2"}),
    )
    found = resolved(Program.BROKER, [weak, strong])
    assert (found.value("listenPort"), found.settings["listenPort"].source) == (2, "strong")
    assert (found.value("brokerName"), found.settings["brokerName"].source) == ("a", "weak")
    assert found.settings["brokerId"].source == "default"


def test_everything_wrong_is_reported_at_once() -> None:
    message = refusal({"listenPort": "70000", "brokerRole": "MASTER", "maxMessageSize": "4m"})
    wrong = ("listenPort=70000", "brokerRole=MASTER", "maxMessageSize=4m")
    assert all(part in message for part in wrong)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("duplicationEnable", "true"),
        ("storeType", "defaultRocksDB"),
        ("configManagerVersion", "v2"),
        ("popConsumerKVServiceEnable", "true"),
        ("combineCQPreferCQType", "defaultRocksDB"),
        ("combineAssignOffsetCQType", "defaultRocksDB"),
        ("combineCQUseRocksdbForLmq", "true"),
        ("indexRocksDBEnable", "true"),
        ("timerRocksDBEnable", "true"),
        ("timerWheelSnapshotFlush", "true"),
        ("transRocksDBEnable", "true"),
        ("useSingleRocksDBForAllConfigs", "true"),
        ("enableDLegerCommitLog", "TRUE"),
    ],
)
def test_a_promise_that_is_not_kept_refuses_and_yields_to_being_ignored(
    key: str, value: str
) -> None:
    assert f"--ignore {key}" in refusal({key: value})
    [warning] = broker({key: value}, ignored=(key,)).warnings
    assert key in warning
    assert "ignored as requested" in warning


def test_the_file_of_the_official_distribution_is_read_without_a_word(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(
        b"# Licensed to ...\r\nbrokerClusterName = DefaultCluster\r\nbrokerName = broker-a\r\n"
        b"brokerId = 0\r\ndeleteWhen = 04\r\nfileReservedTime = 48\r\n"
        b"brokerRole = ASYNC_MASTER\r\nflushDiskType = ASYNC_FLUSH\r\n"
    )
    found = resolved(Program.BROKER, [file_layer(path, Program.BROKER)], is_strict=True)
    assert found.warnings == ()
    assert found.engine_settings() == {
        "deleteWhen": "04",
        "fileReservedTime": "48",
        "flushDiskType": "ASYNC_FLUSH",
    }


def test_a_promise_at_its_default_gives_no_warning() -> None:
    pairs = {"brokerRole": "ASYNC_MASTER", "enableDLegerCommitLog": "false", "storeType": "default"}
    assert broker(pairs).warnings == ()


def test_ignoring_what_is_no_key_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="did you mean brokerRole"):
        broker({}, ignored=("brokerRoll",))


def test_an_unknown_key_is_reported_with_the_nearest_and_refused_when_strict() -> None:
    [warning] = broker({"flushDiskTyp": "SYNC_FLUSH"}).warnings
    assert "did you mean flushDiskType?" in warning
    refused = refusal({"flushDiskTyp": "x"}, is_strict=True)
    assert "flushDiskTyp: unknown key; did you mean flushDiskType?" in refused


def test_a_key_of_the_name_server_is_reported_as_such() -> None:
    [warning] = broker({"kvConfigPath": "x"}).warnings
    assert "a key of the namesrv" in warning


def test_a_key_without_effect_is_reported_with_the_reason() -> None:
    [warning] = broker({"sendMessageThreadPoolNums": "16"}).warnings
    assert "sendMessageThreadPoolNums=16 has no effect: there are no thread pools" in warning


def test_old_spellings_are_known() -> None:
    found = broker({"mapedFileSizeCommitLog": "1048576"})
    assert found.value("mappedFileSizeCommitLog") == 1_048_576
    assert found.engine_settings() == {"mappedFileSizeCommitLog": "1048576"}


def test_a_boolean_is_read_as_java_does_and_reported() -> None:
    found = broker(
        {"autoCreateTopicEnable": "yes", "traceOn": " False", "longPollingEnable": "TRUE"}
    )
    assert found.value("autoCreateTopicEnable") is False
    assert found.value("traceOn") is False
    assert found.value("longPollingEnable") is True
    [warning] = found.warnings
    assert "autoCreateTopicEnable=yes" in warning
    assert "autoCreateTopicEnable=yes" in refusal({"autoCreateTopicEnable": "yes"}, is_strict=True)


def test_only_the_stores_own_given_settings_go_to_the_store() -> None:
    found = broker({"flushDiskType": "sync_flush", "brokerName": "b", "messageIndexEnable": "no"})
    assert found.engine_settings() == {"flushDiskType": "SYNC_FLUSH", "messageIndexEnable": "false"}


def test_secrets_are_never_shown() -> None:
    found = broker({"tls.server.keyPassword": "rosebud", "initAuthenticationUser": "rosebud"})
    assert "rosebud" not in str(found.rows()) + str(found.warnings)
    assert found.value("tls.server.keyPassword") == "rosebud"
    assert ("tls.server.keyPassword", "******", "", "a.conf") in found.rows()


@pytest.mark.parametrize("text", ["", "1_000", "0x10", "٣", "1.0", " ", "2147483648", "9" * 5000])
def test_what_is_no_int_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        parsed("int", text)


def test_whole_numbers_are_javas() -> None:
    assert parsed("int", " +7 ") == 7
    assert parsed("int", "-2147483648") == -(1 << 31)
    assert parsed("long", "9223372036854775807") == (1 << 63) - 1


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("64m", 64 << 20),
        ("2 GiB", 2 << 30),
        ("1kb", 1024),
        ("7B", 7),
        ("1T", 1 << 40),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "m", "-1", "1.5g", "99999999999t", "1 mile"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        size_bytes(text)


def test_the_environment_sets_keys_in_either_spelling() -> None:
    variables = {
        "MQCORE_BROKER_FLUSH_DISK_TYPE": "SYNC_FLUSH",
        "MQCORE_BROKER_listenPort": "7",
        "MQCORE_BROKER_TLS_SERVER_MODE": "disabled",
        "MQCORE_NAMESRV_LISTEN_PORT": "8",
        "MQCORE_BROKER_NOSUCH": "1",
        "NAMESRV_ADDR": "a:1;b:2",
        "HOME": "elsewhere",
    }
    below, above = environment_layers(variables, Program.BROKER)
    found = resolved(Program.BROKER, [below, above])
    assert found.value("flushDiskType") == "SYNC_FLUSH"
    assert found.value("listenPort") == 7
    assert found.value("tls.server.mode") == "disabled"
    assert found.value("namesrvAddr") == ("a:1", "b:2")
    assert len(found.warnings) == 1
    assert "NOSUCH" in found.warnings[0]
    over = resolved(Program.BROKER, [below, Layer("file", {"namesrvAddr": "c:3"}), above])
    assert over.value("namesrvAddr") == ("c:3",)


def test_toml_has_the_same_keys(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_text(
        'brokerName = "b"\nlistenPort = 7\ntraceOn = false\nnamesrvAddr = ["a:1", "b:2"]\n'
        '[tls.server]\nmode = "disabled"\n[broker]\nbrokerId = 0\n[namesrv]\nlistenPort = 9\n'
    )
    found = resolved(Program.BROKER, [file_layer(path, Program.BROKER)])
    assert found.value("brokerName") == "b"
    assert found.value("listenPort") == 7
    assert found.value("traceOn") is False
    assert found.value("namesrvAddr") == ("a:1", "b:2")
    assert found.value("tls.server.mode") == "disabled"
    assert found.warnings == ()
    # Keys above the sections are the given program's, those of a section its own.
    names = file_layer(path, Program.NAMESRV).pairs
    assert names["listenPort"] == "9"


@pytest.mark.parametrize("text", ["a = ", "a = 1979-05-27", "a = [1]", "broker = 1", "\ud800"])
def test_bad_toml_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "b.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ConfigFileError, match=r"b\.toml"):
        file_layer(path, Program.BROKER)


@pytest.mark.parametrize(
    ("version", "interval_ms", "has_buffer"),
    [
        ("V4_9_8", 60_000, True),
        ("V4_9_9", 60_000, True),
        ("411", 60_000, True),
        ("V5_0_0", 30_000, False),
        ("v5_3_3", 30_000, False),
        ("479", 30_000, False),
    ],
)
def test_defaults_follow_the_reported_version(
    version: str, interval_ms: int, *, has_buffer: bool
) -> None:
    found = broker({"reportedVersion": version})
    assert found.value("transactionCheckInterval") == interval_ms
    assert found.value("enablePopBufferMerge") is has_buffer
    assert found.settings["transactionCheckInterval"].source == "default"
    shown = {name: default for name, _value, default, _source in found.rows()}
    assert shown["transactionCheckInterval"] == str(interval_ms)


def test_what_is_set_does_not_follow_the_version() -> None:
    found = broker({"reportedVersion": "V5_3_3", "enablePopBufferMerge": "true"})
    assert found.value("enablePopBufferMerge") is True
    assert found.settings["enablePopBufferMerge"].key.default == "false"
