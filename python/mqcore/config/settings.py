"""What the programs are built with: typed settings, made from a configuration.

Frozen: who changes a setting makes a new one with `dataclasses.replace`. The fields that come from
keys are made from the tables (`typed`); they hold the defaults, this file none.
"""

import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_type_hints

from mqcore.config.effective import Configuration, resolved
from mqcore.config.keys import Program, keys_of
from mqcore.config.layers import Layer
from mqcore.config.typed import (
    AccessSettings,
    BrokerFields,
    ControllerFields,
    ListenerSettings,
    NamesrvFields,
)
from mqcore.errors import ConfigurationError

# An address of documentation: nothing is sent there, the system only returns which way it would go.
_FAR_AWAY = ("192.0.2.1", 9)
# Values of `brokerRole`.
_SLAVE = "SLAVE"
_SYNC_MASTER = "SYNC_MASTER"
# Values of `metricsExporterType`.
_PULLED = "PROM"
_PUSHED_BY_GRPC, _PUSHED_AS_LINES = "OTLP_GRPC", "LOG"
_PUSHED = (_PUSHED_BY_GRPC, _PUSHED_AS_LINES)
# A controller has a sample per broker name: as many as it keeps names.
_CONTROLLER_SERIES_MAX = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSettings:
    """How figures are pushed: `metricsExporterType` and its kin.

    Attributes:
        has_lines: Whether they are written as lines of JSON, and not sent by gRPC.
        target: Whom to send to; without it nothing is sent, as officially.
        headers: Of a request: `name:value` joined by commas.
        timeout_ms: How long a request may take.
        interval_ms: The pause between two times.
        in_delta: Whether counters are reported by what came since the last time.
        lines_file: The file of lines; empty: the program's log.
        series_max: Series of a family at the most.
    """

    has_lines: bool
    target: str
    headers: str
    timeout_ms: int
    interval_ms: int
    in_delta: bool
    lines_file: str
    series_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings(BrokerFields):
    """A broker: the fields of its keys, and what else it is built with.

    Attributes:
        listener: Where it listens.
        access: Who may do what.
        engine: The store's own settings that somebody set, for `mqcore.Store(config=...)`.
        configuration: All settings with their sources: what an administrator is shown.
    """

    listener: ListenerSettings
    access: AccessSettings
    engine: Mapping[str, str]
    configuration: Configuration = field(repr=False, compare=False)

    @property
    def is_slave(self) -> bool:
        """Whether the broker copies the log of a master."""
        return self.role == _SLAVE

    @property
    def is_sync_master(self) -> bool:
        """Whether sends wait for slaves."""
        return self.role == _SYNC_MASTER

    @property
    def has_metrics(self) -> bool:
        """Whether /metrics and /healthz are served."""
        return self.metrics_kind == _PULLED

    @property
    def pushes_metrics(self) -> bool:
        """Whether figures are pushed."""
        return self.metrics_kind in _PUSHED

    @property
    def pushing(self) -> PushSettings:
        """How they are."""
        return push_settings(self, self.metrics_series_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesrvSettings(NamesrvFields):
    """A name server: the fields of its keys, and what else it is built with.

    Attributes:
        listener: Where it listens.
        access: Who may do what.
        configuration: All settings with their sources: what an administrator is shown.
    """

    listener: ListenerSettings
    access: AccessSettings
    configuration: Configuration = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings(ControllerFields):
    """A controller: the fields of its keys, and what else it is built with.

    Attributes:
        listener: Where it listens, unless `peers` has another port.
        access: Who may do what.
        configuration: All settings with their sources: what an administrator is shown.
    """

    listener: ListenerSettings
    access: AccessSettings
    configuration: Configuration = field(repr=False, compare=False)

    @property
    def has_metrics(self) -> bool:
        """Whether /metrics is served."""
        return self.metrics_kind == _PULLED

    @property
    def pushes_metrics(self) -> bool:
        """Whether figures are pushed."""
        return self.metrics_kind in _PUSHED

    @property
    def pushing(self) -> PushSettings:
        """How they are."""
        return push_settings(self, _CONTROLLER_SERIES_MAX)


def broker_settings(configuration: Configuration | None = None) -> BrokerSettings:
    """Returns the settings of a broker; without a configuration all defaults.

    An empty broker name becomes the host's name, and an empty `brokerIP1` the address that others
    reach this machine at (the loopback address when only that is listened on).
    """
    configuration = configuration or resolved(Program.BROKER, ())
    values = _values(BrokerSettings, configuration)
    listener = listener_settings(configuration)
    host = values["advertised_host"] or reachable_host(listener.host)
    return BrokerSettings(
        **values
        | {
            "listener": listener,
            "access": access_settings(configuration),
            "engine": configuration.engine_settings(),
            "configuration": configuration,
            "advertised_host": host,
            "replication_host": values["replication_host"] or host,
            "name": values["name"] or socket.gethostname(),
        }
    )


def namesrv_settings(configuration: Configuration | None = None) -> NamesrvSettings:
    """Returns the settings of a name server; without a configuration all defaults."""
    configuration = configuration or resolved(Program.NAMESRV, ())
    return NamesrvSettings(
        **_values(NamesrvSettings, configuration)
        | {
            "listener": listener_settings(configuration),
            "access": access_settings(configuration),
            "configuration": configuration,
        }
    )


def controller_settings(configuration: Configuration | None = None) -> ControllerSettings:
    """Returns the settings of a controller; without a configuration all defaults.

    Args:
        configuration: That of a controller, or of the name server that it is in.
    """
    configuration = configuration or resolved(Program.CONTROLLER, ())
    return ControllerSettings(
        **_values(ControllerSettings, configuration)
        | {
            "listener": listener_settings(configuration),
            "access": access_settings(configuration),
            "configuration": configuration,
        }
    )


def push_settings(settings: BrokerFields | ControllerFields, series_max: int) -> PushSettings:
    """Returns how a program pushes its figures."""
    has_lines = settings.metrics_kind == _PUSHED_AS_LINES
    intervals_ms = settings.metrics_push_interval_ms, settings.metrics_lines_interval_ms
    return PushSettings(
        has_lines=has_lines,
        target=settings.metrics_push_target.strip(),
        headers=settings.metrics_push_headers,
        timeout_ms=settings.metrics_push_timeout_ms,
        interval_ms=intervals_ms[has_lines],
        in_delta=settings.metrics_in_delta,
        lines_file=settings.metrics_lines_file,
        series_max=series_max,
    )


def beside_namesrv(namesrv: NamesrvSettings) -> ControllerSettings:
    """Returns the settings of the controller in a name server: those that were set there.

    Without `controllerDLegerPeers` it listens on its usual port, where the name server listens on
    the one of `listenPort`.
    """
    settings = controller_settings(namesrv.configuration)
    usual = keys_of(Program.CONTROLLER)["listenPort"].default
    return replace(settings, listener=replace(settings.listener, port=int(usual)))


def settings_of_pairs(pairs: Mapping[str, str]) -> BrokerSettings:
    """Returns the settings of a broker from official keys alone, for programs that embed one.

    Raises:
        ConfigurationError: A value cannot work.
    """
    return broker_settings(resolved(Program.BROKER, [Layer("given", pairs)]))


def listener_settings(configuration: Configuration) -> ListenerSettings:
    """Returns where a program listens."""
    return ListenerSettings(**_values(ListenerSettings, configuration))


def access_settings(configuration: Configuration) -> AccessSettings:
    """Returns who may do what."""
    return AccessSettings(**_values(AccessSettings, configuration))


def key_fields(kind: type[Any]) -> dict[str, str]:
    """Returns the fields of a class of settings, each with the official key it comes from."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: hint.__metadata__[0] for name, hint in hints.items() if hasattr(hint, "__metadata__")
    }


def _values(kind: type[Any], configuration: Configuration) -> dict[str, Any]:
    values = {name: configuration.value(key) for name, key in key_fields(kind).items()}
    faults = tuple(
        f"{key} must not be empty"
        for name, key in key_fields(kind).items()
        if get_type_hints(kind)[name] is Path and not values[name]
    )
    if faults:
        raise ConfigurationError("; ".join(faults), faults=faults)
    return values


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a listener on a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def reachable_host(bound: str) -> str:
    """Returns the address that others dial for a listener bound to a host.

    Args:
        bound: The address listened on; a wildcard means the address of the way out of here.
    """
    try:
        is_wildcard = ipaddress.ip_address(bound).is_unspecified
    except ValueError:
        is_wildcard = not bound
    if not is_wildcard:
        return bound
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_FAR_AWAY)
        except OSError:
            # No way out: nobody but this machine can dial it.
            return "127.0.0.1"
        host: str = probe.getsockname()[0]
        return host
