"""Checks settings against each other, which no single key can show.

Refuses what cannot work and returns what somebody should know. Knows no program's inside.
"""

from pathlib import Path

from mqcore.config.effective import DEFAULT, PROGRAM_DEFAULT, Configuration
from mqcore.config.settings import BrokerSettings, is_loopback
from mqcore.config.typed import ListenerSettings
from mqcore.errors import ConfigurationError

# How RocketMQ joins several directories of the log.
_PATH_SEPARATORS = (",", ":")


def check_listener(listener: ListenerSettings) -> list[str]:
    """Returns warnings about where a program listens.

    Raises:
        ConfigurationError: TLS cannot work as it is set.
    """
    faults = []
    certificate, key = listener.tls_certificate, listener.tls_key
    if listener.tls_mode == "enforcing" and not certificate:
        faults.append("tls.server.mode=enforcing needs tls.server.certPath and tls.server.keyPath")
    for name, path in (
        ("tls.server.certPath", certificate),
        ("tls.server.keyPath", key),
        ("tls.server.trustCertPath", listener.tls_trusted),
    ):
        if path and not Path(path).is_file():
            faults.append(f"{name}={path}: no such file")
    if listener.tls_need_client_auth == "require" and not listener.tls_trusted:
        faults.append("checking the certificates of clients needs tls.server.trustCertPath")
    _raise(faults)
    return []


def check_broker(settings: BrokerSettings) -> list[str]:
    """Returns warnings about a broker's settings.

    Raises:
        ConfigurationError: They cannot work together.
    """
    warnings = check_listener(settings.listener)
    faults = []
    log_dir = str(settings.configuration.value("storePathCommitLog"))
    if any(separator in log_dir for separator in _PATH_SEPARATORS):
        faults.append(f"storePathCommitLog={log_dir}: several directories of the log are not built")
    if settings.broker_id != 0:
        faults.append(
            f"brokerId={settings.broker_id}: another id than 0 is that of a slave, and replication "
            "is not built yet"
        )
    for address in settings.name_servers:
        host, separator, port = address.rpartition(":")
        if not separator or not host or not port.isdigit():
            faults.append(f"namesrvAddr={address}: HOST:PORT expected, such as 127.0.0.1:9876")
    _raise(faults)
    bound, advertised = settings.listener.host, settings.advertised_host
    if is_loopback(bound) and not is_loopback(advertised):
        warnings.append(
            f"clients are sent to {advertised} (brokerIP1), but only {bound} is listened on: set "
            "bindAddress=0.0.0.0, or a network's address, to let others in"
        )
    if not is_loopback(bound) and is_loopback(advertised):
        warnings.append(
            f"{bound} is listened on, but clients are sent to {advertised}: set brokerIP1 to the "
            "address that they reach this machine at"
        )
    return warnings


def check_sizes(configuration: Configuration, existing: dict[str, str]) -> list[str]:
    """Returns warnings where the sizes of files that exist win over what somebody set."""
    found = [(configuration.settings[name], size) for name, size in existing.items()]
    return [
        f"{setting.source}: {setting.key.name}={setting.shown} is not used: the files of the store "
        f"have {size}"
        for setting, size in found
        if setting.source not in (DEFAULT, PROGRAM_DEFAULT) and setting.shown != size
    ]


def _raise(faults: list[str]) -> None:
    if faults:
        raise ConfigurationError("; ".join(faults), faults=tuple(faults))
