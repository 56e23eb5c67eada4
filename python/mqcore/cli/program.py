"""What the commands that run a program share: options, settings, logs, port file.

    @click.command()
    @program_options(Program.BROKER)
    def broker(options: ProgramOptions) -> None:
        settings = options.broker()      # reads, checks; prints them with --print-config
        if options.prints:
            return
        options.start_logging(settings.configuration)
        ...
        options.write_ports({"broker": 10911})

Knows which settings there are, and nothing of what a program does with them.
"""

import contextlib
import functools
import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import click

from mqcore.cli.logs import LogFile, start_logging
from mqcore.config import (
    BrokerSettings,
    Configuration,
    ControllerSettings,
    Layer,
    NamesrvSettings,
    Program,
    broker_settings,
    controller_settings,
    environment_layers,
    file_layer,
    namesrv_settings,
    resolved,
)
from mqcore.config.budget import allowed_bytes, check_budget, derived_windows, memory_plan
from mqcore.config.checks import (
    check_broker,
    check_controller,
    check_listener,
    check_reach,
    check_sizes,
    longest_that_fits,
)
from mqcore.config.effective import DEFAULT, PROGRAM_DEFAULT
from mqcore.config.log_levels import apply_log_levels
from mqcore.config.tls_file import tls_file_layers
from mqcore.errors import ConfigurationError
from mqcore.native import existing_sizes

_Command = Callable[..., Any]
_log = logging.getLogger("mqcore.config")
_WINDOWS_SOURCE = "memory allowed"
# From which level on programs log, and the key of a broker for another.
_LEVEL = "info"
_LOG_LEVEL = "mqcoreLogLevel"
_LOG_LEVELS = "mqcoreLogLevels"
# Where a value comes from that nobody set.
_DEFAULT_SOURCES = (DEFAULT, PROGRAM_DEFAULT, _WINDOWS_SOURCE)
# Each flag with the key that it sets, for either program.
_FLAG_KEYS = {
    "--host": "bindAddress",
    "--port": "listenPort",
    "--data": "storePathRootDir",
    "--namesrv": "namesrvAddr",
    "--mount": "mountedStoreDir",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOptions:
    """What was given on the command line.

    Attributes:
        config_file: The file of `-c`.
        flags: Flags that set a key, with their texts.
        metrics_port: The port of /metrics and /healthz, None for that of the settings.
        assignments: `--set KEY=VALUE`.
        prints: Whether to print the settings and end.
        is_strict: Whether an unknown key is an error.
        ignored: Keys of `--ignore`.
        log_format: `text` or `json`.
        log_level: A level's name; None: as the broker is set, or `info`.
        port_file: Where chosen ports are written to.
    """

    config_file: Path | None = None
    flags: Mapping[str, str] = field(default_factory=dict)
    metrics_port: int | None = None
    assignments: tuple[str, ...] = ()
    prints: bool = False
    is_strict: bool = False
    ignored: tuple[str, ...] = ()
    log_format: str = "text"
    log_level: str | None = None
    port_file: Path | None = None

    @property
    def changeable_file(self) -> Path | None:
        """The properties file that changes by tools are kept in: that of `-c`, unless TOML."""
        path = self.config_file
        return None if path is None or path.suffix == ".toml" else path

    def broker(self, defaults: Mapping[str, str] | None = None) -> BrokerSettings:
        """Returns the settings of a broker; the sizes of files that exist win over all.

        Args:
            defaults: Weaker than everything given, stronger than the official defaults.

        Raises:
            ConfigurationError: They cannot work.
            ConfigFileError: The file cannot be read.
        """
        layers = self._layers(Program.BROKER, defaults)
        configuration = self._resolved(Program.BROKER, layers)
        log_dir = configuration.value("storePathCommitLog")
        mounted = configuration.value("mountedStoreDir")
        root = Path(str(mounted or configuration.value("storePathRootDir")))
        _require_directory(root)
        found = existing_sizes(
            root,
            Path(str(log_dir)) if log_dir else None,
            index_capacity=(
                int(str(configuration.value("maxHashSlotNum"))),
                int(str(configuration.value("maxIndexNum"))),
            ),
        )
        if mounted:
            found |= longest_that_fits(configuration, found)
        warnings = check_sizes(configuration, found)
        allowed = allowed_bytes(configuration)
        windows = Layer(_WINDOWS_SOURCE, derived_windows(configuration, allowed))
        configuration = self._resolved(
            Program.BROKER, [windows, *layers, Layer("files of the store", found)]
        )
        warnings += check_budget(configuration, allowed)
        settings = broker_settings(configuration)
        warnings += check_broker(settings)
        access = settings.access
        is_guarded = (access.authenticates or access.authorizes) and not access.is_dry_run
        guards = "authenticationEnabled and authorizationEnabled"
        check_reach(settings.listener, access, is_guarded=is_guarded, guards=guards)
        configuration = replace(configuration, warnings=(*configuration.warnings, *warnings))
        self._print(configuration)
        return replace(settings, configuration=configuration)

    def namesrv(self, defaults: Mapping[str, str] | None = None) -> NamesrvSettings:
        """Returns the settings of a name server.

        Raises:
            ConfigurationError: They cannot work.
            ConfigFileError: The file cannot be read.
        """
        layers = self._layers(Program.NAMESRV, defaults)
        configuration = self._resolved(Program.NAMESRV, layers)
        settings = namesrv_settings(configuration)
        check_listener(settings.listener)
        _check_reach_of_guarded(settings)
        self._print(configuration)
        return settings

    def controller(self) -> ControllerSettings:
        """Returns the settings of a controller.

        Raises:
            ConfigurationError: They cannot work.
            ConfigFileError: The file cannot be read.
        """
        layers = self._layers(Program.CONTROLLER, None)
        configuration = self._resolved(Program.CONTROLLER, layers)
        settings = controller_settings(configuration)
        warnings = check_controller(settings)
        _check_reach_of_guarded(settings)
        configuration = replace(configuration, warnings=(*configuration.warnings, *warnings))
        self._print(configuration)
        return replace(settings, configuration=configuration)

    def start_logging(self, *configurations: Configuration) -> None:
        """Sets up logging and logs configurations once: what was set, and warnings."""
        set_levels = (
            str(each.value(_LOG_LEVEL)) for each in configurations if _LOG_LEVEL in each.settings
        )
        level = self.log_level or next(set_levels, _LEVEL)
        # A console has no settings of its own, and prints.
        file = _log_file(configurations[0]) if configurations else None
        start_logging(level, self.log_format, file)
        levels = next((each for each in configurations if _LOG_LEVELS in each.settings), None)
        if levels is not None:
            _apply_levels(str(levels.value(_LOG_LEVELS)))
        for configuration in configurations:
            log_configuration(configuration)

    def write_ports(self, ports: Mapping[str, int]) -> None:
        """Writes the ports that are listened on to the port file, whole or not at all."""
        if self.port_file is not None:
            beside = self.port_file.with_name(f".{self.port_file.name}.{os.getpid()}")
            beside.write_text(json.dumps(dict(ports)) + "\n", encoding="utf-8")
            beside.replace(self.port_file)

    def forget_ports(self) -> None:
        """Removes the port file at a clean end."""
        if self.port_file is not None:
            with contextlib.suppress(FileNotFoundError):
                self.port_file.unlink()

    def _layers(self, program: Program, defaults: Mapping[str, str] | None) -> list[Layer]:
        below, above = environment_layers(os.environ, program)
        layers = [Layer(PROGRAM_DEFAULT, defaults or {}), below]
        if self.config_file is not None:
            layers.append(file_layer(self.config_file, program))
        layers += [above, Layer("--set", _assigned(self.assignments))]
        layers += [Layer(flag, {_FLAG_KEYS[flag]: text}) for flag, text in self.flags.items()]
        if self.metrics_port is not None and program is Program.BROKER:
            pairs = {
                "metricsExporterType": "PROM",
                "metricsPromExporterPort": str(self.metrics_port),
            }
            layers.append(Layer("--metrics-port", pairs))
        return [*layers, *tls_file_layers(layers, program)]

    def _resolved(self, program: Program, layers: list[Layer]) -> Configuration:
        return resolved(program, layers, is_strict=self.is_strict, ignored=self.ignored)

    def _print(self, configuration: Configuration) -> None:
        if self.prints:
            click.echo(settings_table(configuration))
            click.echo(str(memory_plan(configuration)))
            for warning in configuration.warnings:
                click.echo(f"warning: {warning}", err=True)


def _log_file(configuration: Configuration) -> LogFile | None:
    """Returns the file that is logged to; None for standard error."""
    value = configuration.value
    path = str(value("mqcoreLogFile"))
    if not path:
        return None
    return LogFile(
        path=Path(path).expanduser(),
        len_bytes_max=int(str(value("mqcoreLogFileBytes"))),
        hours=int(str(value("mqcoreLogFileHours"))),
        kept=int(str(value("mqcoreLogFilesKept"))),
        compresses=value("mqcoreLogFileCompress") is True,
    )


def _apply_levels(text: str) -> None:
    """Sets the levels of single loggers.

    Raises:
        ConfigurationError: The setting is none.
    """
    try:
        apply_log_levels("", text)
    except ValueError as error:
        fault = f"{_LOG_LEVELS}: {error}"
        raise ConfigurationError(fault, faults=(fault,)) from error


def _require_directory(path: Path) -> None:
    """Refuses a path that is a file, or lies below one.

    Raises:
        ConfigurationError: It is no directory, and cannot become one.
    """
    for each in (path, *path.parents):
        if each.is_dir():
            return
        if each.exists():
            fault = f"{each} is a file: the directory of the store is wanted (--data)"
            raise ConfigurationError(fault, faults=(fault,))


def log_configuration(configuration: Configuration) -> None:
    """Logs what was set to something else than the default, one line each, and every warning.

    The others are logged at DEBUG; `--print-config` has all of them.
    """
    others = []
    for name, value, default, source in configuration.rows():
        if source in _DEFAULT_SOURCES or value == default:
            others.append(f"{name}={value}")
        else:
            _log.info("%s=%s (%s)", name, value, source)
    _log.debug("%s, by default: %s", configuration.program.value, " ".join(others))
    for warning in configuration.warnings:
        _log.warning("%s", warning)


def settings_table(configuration: Configuration) -> str:
    """Returns every effective value with its default and its source, in columns."""
    found = [tuple(cell or "(empty)" for cell in row) for row in configuration.rows()]
    rows = [("key", "value", "default", "source"), *found]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    )


def _assigned(assignments: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for assignment in assignments:
        key, separator, value = assignment.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{assignment!r}: KEY=VALUE expected", param_hint="--set")
        pairs[key.strip()] = value.strip()
    return pairs


_MOUNT = click.option(
    "--mount",
    "flag_mount",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="Serve the store DIR for reading alone; --data keeps the consumers' offsets.",
)


def program_options(program: Program) -> Callable[[_Command], _Command]:
    """Adds the options of a program to a command, which takes them as `options`.

    A broker also gets `-n`, `--data`, `--mount` and `--metrics-port`.
    """

    def decorate(command: _Command) -> _Command:
        @functools.wraps(command)
        def gathered(**parameters: Any) -> Any:
            return command(options=_gathered(parameters), **parameters)

        wrapped: _Command = gathered
        for option in reversed(_options(program)):
            wrapped = option(wrapped)
        return wrapped

    return decorate


def _gathered(parameters: dict[str, Any]) -> ProgramOptions:
    """Takes the common options out of `parameters`."""
    flags = {}
    for flag in _FLAG_KEYS:
        value = parameters.pop(f"flag_{flag.removeprefix('--')}", None)
        if value is not None:
            flags[flag] = str(value)
    names = (each.name for each in fields(ProgramOptions) if each.name != "flags")
    return ProgramOptions(
        flags=flags, **{name: parameters.pop(name) for name in names if name in parameters}
    )


def _options(program: Program) -> list[Callable[[_Command], _Command]]:
    a_file = click.Path(exists=True, dir_okay=False, path_type=Path)
    a_port = click.IntRange(0, 65_535)
    common: list[Callable[[_Command], _Command]] = [
        click.option(
            "-c", "--config", "config_file", type=a_file, help="A properties file or TOML."
        ),
        click.option("--host", "flag_host", help="Address to listen on; by default 127.0.0.1."),
        click.option(
            "--port", "flag_port", type=a_port, help="Port to listen on; 0: any free one."
        ),
        click.option(
            "--port-file",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Where the ports chosen are written to, as JSON.",
        ),
        click.option(
            "--set",
            "assignments",
            metavar="KEY=VALUE",
            multiple=True,
            help="One setting by its official key.",
        ),
        click.option(
            "-p",
            "--print-config",
            "prints",
            is_flag=True,
            help="Print every setting with default and source, and end.",
        ),
        click.option(
            "--strict-config", "is_strict", is_flag=True, help="An unknown key is an error."
        ),
        click.option(
            "--ignore",
            "ignored",
            metavar="KEY",
            multiple=True,
            help="Start although KEY promises what is not there.",
        ),
        click.option(
            "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True
        ),
        click.option(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            help="From which level on it logs; info without it, or mqcoreLogLevel of a broker.",
        ),
    ]
    if program is not Program.BROKER:
        return common
    return [
        common[0],
        click.option(
            "-n",
            "--namesrv",
            "flag_namesrv",
            metavar="ADDR",
            help="Name servers, HOST:PORT joined by ;.",
        ),
        click.option("--data", "flag_data", metavar="DIR", help="Directory of the store."),
        _MOUNT,
        click.option(
            "--metrics-port", type=a_port, help="Serve /metrics and /healthz; 0: any free port."
        ),
        *common[1:],
    ]


def _check_reach_of_guarded(settings: NamesrvSettings | ControllerSettings) -> None:
    """Refuses a name server or controller that strangers would be in charge of."""
    access = settings.access
    is_guarded = access.guards_routes and not access.is_dry_run
    check_reach(settings.listener, access, is_guarded=is_guarded, guards="mqcoreNamesrvAuth")
