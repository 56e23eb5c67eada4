"""The options that the long-running programs share, on commands made for it."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from mqcore import Store
from mqcore.cli.logs import JsonLines, Lines
from mqcore.cli.main import commands
from mqcore.cli.program import ProgramOptions, log_configuration, program_options
from mqcore.config import BrokerSettings, NamesrvSettings, Program
from mqcore.config.existing import EMBEDDED
from mqcore.errors import ConfigurationError
from small_store import SMALL

Run = Callable[..., tuple[Result, ProgramOptions | None]]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)


def options_of(program: Program, *arguments: str | Path) -> ProgramOptions:
    """Returns the options that a command line gives."""
    seen: list[ProgramOptions] = []

    @click.command()
    @program_options(program)
    @click.option("--more", is_flag=True)
    def command(options: ProgramOptions, more: bool) -> None:
        assert more is False
        seen.append(options)

    result = CliRunner().invoke(command, [str(each) for each in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return seen[0]


def broker(tmp_path: Path, *arguments: str | Path) -> BrokerSettings:
    return options_of(Program.BROKER, "--data", tmp_path / "store", *arguments).broker()


def test_flags_are_above_the_environment_and_that_above_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(
        "listenPort=1\nbrokerName=file\nbrokerClusterName=file\ndefaultTopicQueueNums=5\n"
    )
    monkeypatch.setenv("MQCORE_BROKER_BROKER_NAME", "variable")
    monkeypatch.setenv("MQCORE_BROKER_LISTEN_PORT", "2")
    settings = broker(
        tmp_path, "-c", file, "--port", "3", "-n", "a:1;b:2", "--set", "brokerClusterName=set"
    )
    assert settings.listener.port == 3
    assert settings.name == "variable"
    assert settings.cluster == "set"
    assert settings.default_topic_queues == 5
    assert settings.name_servers == ("a:1", "b:2")
    sources = {name: each.source for name, each in settings.configuration.settings.items()}
    assert sources["listenPort"] == "--port"
    assert sources["brokerName"] == "environment"
    assert sources["brokerClusterName"] == "--set"
    assert sources["defaultTopicQueueNums"] == "broker.conf"
    assert sources["brokerId"] == "default"


def test_a_name_server_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQCORE_BROKER_LISTEN_PORT", "2")
    monkeypatch.setenv("MQCORE_NAMESRV_KV_CONFIG_PATH", str(tmp_path / "kv.json"))
    settings: NamesrvSettings = options_of(Program.NAMESRV, "--host", "::1").namesrv()
    assert settings.listener.port == 9876
    assert settings.listener.host == "::1"
    assert settings.kv_config_path == tmp_path / "kv.json"


def test_a_metrics_port_opens_metrics(tmp_path: Path) -> None:
    settings = broker(tmp_path, "--metrics-port", "0")
    assert (settings.has_metrics, settings.metrics_port) == (True, 0)
    assert not broker(tmp_path).has_metrics


def test_printed_settings_have_value_default_and_source(tmp_path: Path) -> None:
    options = options_of(
        Program.BROKER, "-p", "--data", tmp_path, "--port", "7", "--set", "maxDelayTime=3"
    )
    runner = CliRunner()

    @click.command()
    def command() -> None:
        options.broker()

    result = runner.invoke(command)
    rows = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()}
    assert rows["listenPort"] == ["7", "10911", "--port"]
    assert rows["brokerId"] == ["0", "0", "default"]
    assert rows["maxDelayTime"] == ["3", "40", "--set"]
    assert "warning: --set: maxDelayTime=3 has no effect" in result.stderr


def test_sizes_of_files_that_exist_win_and_are_reported(tmp_path: Path) -> None:
    with Store(tmp_path / "store", config=SMALL) as store:
        store.append("topic", b"x", keys=["k"])
        store.wait_dispatched(store.stats().appended)
    settings = broker(
        tmp_path, "--set", "mappedFileSizeCommitLog=2097152", "--set", "maxMessageSize=65536"
    )
    sizes = {
        key: str(SMALL[key])
        for key in (
            "mappedFileSizeCommitLog",
            "mappedFileSizeConsumeQueue",
            "maxHashSlotNum",
            "maxIndexNum",
        )
    }
    assert {key: settings.engine[key] for key in sizes} == sizes
    assert any(
        "mappedFileSizeCommitLog=2097152 is not used" in each
        for each in settings.configuration.warnings
    )
    assert settings.configuration.settings["mappedFileSizeCommitLog"].source == "files of the store"


def test_files_that_do_not_hold_the_longest_message_name_the_setting(tmp_path: Path) -> None:
    with Store(tmp_path / "store", config=SMALL) as store:
        store.append("topic", b"x")
    with pytest.raises(ConfigurationError, match="set maxMessageSize=983032, or less"):
        broker(tmp_path)
    engine = broker(tmp_path, "--set", "maxMessageSize=983032").engine
    # The store takes it as it is named.
    with Store(tmp_path / "store", config=engine) as store:
        store.append("topic", bytes(983_032))
    with pytest.raises(ConfigurationError, match="983033 does not go"):
        broker(tmp_path, "--set", "maxMessageSize=983033")


@pytest.mark.parametrize(("slots", "entries"), [(77, 300), (1_000, 150), (50_000, 200_000)])
def test_index_files_of_any_size_are_found(tmp_path: Path, slots: int, entries: int) -> None:
    sizes = {"maxHashSlotNum": slots, "maxIndexNum": entries}
    with Store(tmp_path / "store", config=SMALL | sizes) as store:
        store.append("topic", b"x", keys=["k", "l"])
        store.wait_dispatched(store.stats().appended)
    found = broker(tmp_path, "--set", "maxMessageSize=65536").engine
    assert {key: int(found[key]) for key in sizes} == sizes
    (warning,) = broker(
        tmp_path, "--set", "maxMessageSize=65536", "--set", "maxIndexNum=9"
    ).configuration.warnings
    assert f"maxIndexNum=9 is not used: the files of the store have {entries}" in warning


def test_an_embedded_broker_takes_small_files_by_default(tmp_path: Path) -> None:
    options = options_of(Program.BROKER, "--data", tmp_path)
    settings = options.broker(EMBEDDED)
    assert settings.engine == dict(EMBEDDED)
    with Store(tmp_path / "old", config=SMALL) as store:
        store.append("topic", b"x")
    arguments = ("--data", tmp_path / "old", "--set", "maxMessageSize=65536")
    old = options_of(Program.BROKER, *arguments).broker(EMBEDDED)
    assert old.engine["mappedFileSizeCommitLog"] == str(SMALL["mappedFileSizeCommitLog"])
    assert old.configuration.warnings == ()
    given = options_of(
        Program.BROKER, "--data", tmp_path, "--set", "mappedFileSizeCommitLog=8388608"
    )
    assert given.broker(EMBEDDED).engine["mappedFileSizeCommitLog"] == "8388608"


def test_an_index_of_known_capacity_wins(tmp_path: Path) -> None:
    index = tmp_path / "store" / "index" / "20240101000000000"
    index.parent.mkdir(parents=True)
    with index.open("wb") as file:
        file.truncate(40 + 4 * 500_000 + 20 * 2_000_000)
    settings = broker(tmp_path)
    assert settings.engine == {"maxHashSlotNum": "500000", "maxIndexNum": "2000000"}


@pytest.mark.parametrize(
    ("assignments", "sums"),
    [
        (["transientStorePoolEnable=true", "memoryBudget=2g"], "5 buffers 5120 MiB"),
        (["warmMapedFileEnable=true", "memoryBudget=1g"], "2 log files 2048 MiB"),
        (["lockMappedFile=true", "memoryBudget=1g"], "locked log files 2048 MiB"),
        (["memoryBudget=10m"], "the process itself 100 MiB"),
    ],
)
def test_memory_beyond_the_budget_is_refused_with_the_sums(
    tmp_path: Path, assignments: list[str], sums: str
) -> None:
    arguments = [part for each in assignments for part in ("--set", each)]
    with pytest.raises(ConfigurationError, match=sums) as caught:
        broker(tmp_path, *arguments)
    assert "memoryBudget is" in caught.value.message


def test_warm_up_and_lock_take_the_same_pages(tmp_path: Path) -> None:
    both = ("--set", "warmMapedFileEnable=true", "--set", "lockMappedFile=true")
    broker(tmp_path, *both, "--set", "memoryBudget=2200m")


@pytest.mark.parametrize(
    ("assignment", "fault"),
    [
        ("brokerId=1", "brokerId=1: another id than 0"),
        ("storePathCommitLog=/a,/b", "several directories"),
        ("namesrvAddr=nowhere", "namesrvAddr=nowhere: HOST:PORT expected"),
        ("tls.server.mode=enforcing", "tls.server.mode=enforcing needs"),
        ("tls.server.certPath=/no/such.pem", "tls.server.certPath=/no/such.pem: no such file"),
        ("tls.server.need.client.auth=require", "needs tls.server.trustCertPath"),
    ],
)
def test_settings_that_cannot_work_together_are_refused(
    tmp_path: Path, assignment: str, fault: str
) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        broker(tmp_path, "--set", assignment)


_OPEN = ("--set", "mqcoreOpenNetwork=true")


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.5", "::", "example.org"])
@pytest.mark.parametrize("program", [Program.BROKER, Program.NAMESRV, Program.CONTROLLER])
def test_beyond_this_machine_something_keeps_strangers_out(
    tmp_path: Path, program: Program, host: str
) -> None:
    def started(*pairs: str) -> None:
        words = [word for pair in pairs for word in ("--set", pair)]
        where = ("--data", tmp_path / "s") if program is Program.BROKER else ()
        settings = options_of(program, "--host", host, *where, *words)
        match program:
            case Program.BROKER:
                settings.broker()
            case Program.NAMESRV:
                settings.namesrv()
            case _:
                settings.controller()

    key = "authenticationEnabled" if program is Program.BROKER else "mqcoreNamesrvAuth"
    ways_out = f"(?s){key}.*tls.server.mode=enforcing.*127.0.0.1.*mqcoreOpenNetwork=true"
    with pytest.raises(ConfigurationError, match=ways_out):
        started()
    with pytest.raises(ConfigurationError, match="mqcoreOpenNetwork"):
        started(f"{key}=true", "mqcoreAuthDryRun=true")
    started("mqcoreOpenNetwork=true")
    started(f"{key}=true")


def test_an_address_that_nobody_can_dial_is_reported(tmp_path: Path) -> None:
    [warning] = broker(tmp_path, "--set", "brokerIP1=10.0.0.5").configuration.warnings
    assert "bindAddress=0.0.0.0" in warning
    [warning] = broker(
        tmp_path, "--host", "0.0.0.0", *_OPEN, "--set", "brokerIP1=127.0.0.1"
    ).configuration.warnings
    assert "set brokerIP1" in warning


def test_the_port_file_is_written_and_removed(tmp_path: Path) -> None:
    options = options_of(Program.NAMESRV, "--port-file", tmp_path / "ports.json")
    options.write_ports({"namesrv": 9876})
    assert json.loads((tmp_path / "ports.json").read_text()) == {"namesrv": 9876}
    assert [each.name for each in tmp_path.iterdir()] == ["ports.json"]
    options.forget_ports()
    options.forget_ports()
    assert list(tmp_path.iterdir()) == []


def test_the_log_of_a_start_holds_settings_once_and_no_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "mqcore.config")
    settings = broker(
        tmp_path, "--set", "tls.server.keyPassword=rosebud", "--port", "7", "--set", "brokerId=0"
    )
    log_configuration(settings.configuration)
    lines = [record.getMessage() for record in caplog.records]
    assert "listenPort=7 (--port)" in lines
    assert "tls.server.keyPassword=****** (--set)" in lines
    # What is as by default is for whoever looks closer: --print-config, or the level DEBUG.
    shown = [record.getMessage() for record in caplog.records if record.levelno > logging.DEBUG]
    assert [line.partition("=")[0] for line in shown] == [
        "listenPort",
        "storePathRootDir",
        "tls.server.keyPassword",
    ]
    assert sum("brokerPermission=6" in line for line in lines) == 1
    assert sum("brokerId=0" in line for line in lines) == 1
    assert "rosebud" not in caplog.text


def test_log_lines_carry_fields_and_traces() -> None:
    record = logging.makeLogRecord(
        {
            "name": "mqcore.x",
            "levelname": "INFO",
            "msg": "%d done",
            "args": (3,),
            "created": 0.5,
            "took_ms": 12,
        }
    )
    assert Lines().format(record) == "1970-01-01T00:00:00.500Z INFO mqcore.x: 3 done took_ms=12"
    tree = json.loads(JsonLines().format(record))
    assert tree == {
        "time": "1970-01-01T00:00:00.500Z",
        "level": "INFO",
        "logger": "mqcore.x",
        "message": "3 done",
        "took_ms": 12,
    }
    record.exc_info = (ValueError, ValueError("what"), None)
    assert "ValueError: what" in Lines().format(record)
    assert "ValueError: what" in json.loads(JsonLines().format(record))["trace"]


def test_a_broker_runs_with_and_without_its_verb(tmp_path: Path) -> None:
    line = ["--data", str(tmp_path / "store"), "--set", "brokerName=b", "-p"]
    shown = [
        CliRunner().invoke(commands, ["broker", *verb, *line]).stdout for verb in ([], ["run"])
    ]
    assert shown[0] == shown[1]
    assert "brokerName" in shown[0]


def test_options_of_a_broker_go_behind_its_verb() -> None:
    result = CliRunner().invoke(commands, ["broker", "--port", "0", "run", "-p"])
    assert (result.exit_code, "mqcore broker run ..." in result.output) == (2, True)
