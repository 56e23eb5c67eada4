"""Checks settings against each other, which no single key can show.

Refuses what cannot work and returns what somebody should know. Knows no program's inside.
"""

import ipaddress
from collections.abc import Mapping
from pathlib import Path

from mqcore.config.effective import DEFAULT, PROGRAM_DEFAULT, Configuration
from mqcore.config.existing import BEYOND_BODY_BYTES
from mqcore.config.settings import BrokerSettings, ControllerSettings, is_loopback
from mqcore.config.typed import AccessSettings, ListenerSettings
from mqcore.errors import ConfigurationError
from mqcore.native import quotas_fault

_LONGEST = "maxMessageSize"
_LOG_FILE = "mappedFileSizeCommitLog"
_COPIES = "inSyncReplicas"
_LEAST = "minInSyncReplicas"
_FOLLOWS = "enableAutoInSyncReplicas"
_TOTAL = "totalReplicas"
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
        ("tls.client.certPath", listener.tls_client_certificate),
        ("tls.client.keyPath", listener.tls_client_key),
        ("tls.client.trustCertPath", listener.tls_client_trusted),
    ):
        if path and not Path(path).is_file():
            faults.append(f"{name}={path}: no such file")
    if listener.tls_need_client_auth == "require" and not listener.tls_trusted:
        faults.append("checking the certificates of clients needs tls.server.trustCertPath")
    _raise(faults)
    if listener.tls_principal and listener.tls_need_client_auth == "none":
        return [
            "mqcoreTlsPrincipal has no effect: tls.server.need.client.auth=none asks no client for "
            "a certificate"
        ]
    return []


def check_reach(
    listener: ListenerSettings, access: AccessSettings, *, is_guarded: bool, guards: str
) -> None:
    """Refuses a program that whoever reaches its port would be in charge of.

    Args:
        listener: Where it listens.
        access: Its settings of access control.
        is_guarded: Whether requests must be signed.
        guards: The settings that make it so, for words.

    Raises:
        ConfigurationError: It listens beyond this machine, and nothing keeps strangers out.
    """
    host = listener.host
    is_ours_alone = is_loopback(host) or host.startswith("unix:")
    if is_ours_alone or is_guarded or access.allows_open or listener.tls_mode == "enforcing":
        return
    _raise(
        [
            f"bindAddress={host} is beyond this machine, and whoever reaches the port may read, "
            f"write and delete: switch on {guards}, or tls.server.mode=enforcing; listen on "
            "127.0.0.1; or set mqcoreOpenNetwork=true where the network keeps strangers out"
        ]
    )


def check_broker(settings: BrokerSettings) -> list[str]:
    """Returns warnings about a broker's settings.

    Raises:
        ConfigurationError: They cannot work together.
    """
    warnings = check_listener(settings.listener)
    listener = settings.listener
    if listener.tls_mode == "enforcing" and not (listener.uses_tls or listener.tls_enable):
        warnings.append(
            "tls.server.mode=enforcing is for connections that come in; those to name servers, "
            "controllers and other brokers are plain (RocketMQ makes them TLS in this mode): set "
            "useTLS=true"
        )
    faults = []
    log_dir = str(settings.configuration.value("storePathCommitLog"))
    if any(separator in log_dir for separator in _PATH_SEPARATORS):
        faults.append(f"storePathCommitLog={log_dir}: several directories of the log are not built")
    faults += _role_faults(settings)
    faults += _host_faults(settings.replication_member_hosts)
    faults += replication_tls_faults(settings)
    quota_fault = quotas_fault(settings.quotas)
    if quota_fault is not None:
        faults.append(f"mqcoreQuotas: {quota_fault}")
    for address in settings.name_servers:
        host, separator, port = address.rpartition(":")
        if not separator or not host or not port.isdigit():
            faults.append(f"namesrvAddr={address}: HOST:PORT expected, such as 127.0.0.1:9876")
    _raise(faults)
    warnings += _copies_warnings(settings)
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


def check_controller(settings: ControllerSettings) -> list[str]:
    """Returns warnings about a controller's settings.

    Raises:
        ConfigurationError: They cannot work together.
    """
    warnings = check_listener(settings.listener)
    bound = settings.listener.host
    entries = [entry.strip().partition("-") for entry in settings.peers.split(";")]
    own = next((address for peer, _, address in entries if peer == settings.self_id), "")
    host = own.rpartition(":")[0]
    if host and is_loopback(bound) and not is_loopback(host):
        warnings.append(
            f"brokers are sent to {own} (controllerDLegerPeers), but only {bound} is listened on: "
            "set bindAddress=0.0.0.0, or a network's address, to let others in"
        )
    if settings.allows_unclean:
        warnings.append(
            "enableElectUncleanMaster=true: a broker may become master that misses messages which "
            "were acknowledged"
        )
    return warnings


def _role_faults(settings: BrokerSettings) -> list[str]:
    """Returns what is wrong with the role of a broker."""
    if settings.is_controlled:
        return _member_faults(settings)
    faults, broker_id = [], settings.broker_id
    if settings.is_slave and broker_id == 0:
        faults.append(
            "brokerRole=SLAVE: set brokerId to another number than 0, which is a master's"
        )
    if settings.is_slave and settings.mounted_dir:
        faults.append("brokerRole=SLAVE: a mounted store (mountedStoreDir) does not grow")
    if not settings.is_slave and broker_id != 0:
        faults.append(
            f"brokerId={broker_id}: another id than 0 is that of a slave, with brokerRole=SLAVE"
        )
    faults += _copies_faults(settings)
    faults += _acting_faults(settings)
    address = settings.replication_master
    host, separator, port = address.rpartition(":")
    if address and not (separator and host and port.isdigit()):
        faults.append(f"haMasterAddress={address}: HOST:PORT expected, such as 127.0.0.1:10912")
    return faults


def _acting_faults(settings: BrokerSettings) -> list[str]:
    """Returns what is wrong with a group in which a slave acts for its master."""
    if not settings.has_acting_master:
        return []
    faults = []
    if settings.listener.host.startswith("unix:"):
        faults.append("enableSlaveActingMaster=true: name servers know brokers by TCP only")
    if str(settings.configuration.value("lockInStrictMode")).lower() == "true":
        faults.append(
            "enableSlaveActingMaster=true: lockInStrictMode=true is not built, a lock of a queue "
            "is this broker's own; set it to false"
        )
    return faults


def replication_tls_faults(settings: BrokerSettings) -> list[str]:
    """Returns what TLS of the port for slaves lacks."""
    listener, mode = settings.listener, settings.replication_tls
    if mode == "disabled":
        return []
    faults = []
    if not listener.tls_certificate:
        faults.append(f"mqcoreHaTls={mode} needs tls.server.certPath and tls.server.keyPath")
    if not (listener.tls_trusted or listener.tls_client_trusted):
        faults.append(
            f"mqcoreHaTls={mode} needs tls.server.trustCertPath, or tls.client.trustCertPath: the "
            "authorities of the other broker's certificate"
        )
    if listener.tls_key_password or listener.tls_client_key_password:
        faults.append(
            f"mqcoreHaTls={mode}: a key with a password (tls.server.keyPassword, "
            "tls.client.keyPassword) cannot be used there; keep it in a file that only the broker "
            "may read, without one"
        )
    return faults


def _host_faults(entries: tuple[str, ...]) -> list[str]:
    """Returns which entries of haMemberHosts are none."""
    faults = []
    for entry in entries:
        if "/" not in entry:
            continue
        try:
            ipaddress.ip_network(entry, strict=False)
        except ValueError:
            faults.append(f"haMemberHosts={entry}: a network expected, such as 10.0.0.0/8")
    return faults


def _member_faults(settings: BrokerSettings) -> list[str]:
    """Returns what is wrong with a broker under a controller, which decides about its role."""
    faults = []
    if settings.has_acting_master:
        faults.append(
            "enableControllerMode=true: a controller elects a master where one is gone; set "
            "enableSlaveActingMaster=false"
        )
    if not settings.controllers:
        faults.append("enableControllerMode=true: controllerAddr must name the controllers")
    for address in settings.controllers:
        host, separator, port = address.rpartition(":")
        if not separator or not host or not port.isdigit():
            faults.append(f"controllerAddr={address}: HOST:PORT expected, such as 127.0.0.1:9878")
    if settings.mounted_dir:
        faults.append("enableControllerMode=true: a mounted store (mountedStoreDir) has no master")
    if settings.listener.host.startswith("unix:"):
        faults.append(
            "enableControllerMode=true: controllers and members reach a broker by TCP only"
        )
    if not settings.listens_for_slaves:
        faults.append(
            "enableControllerMode=true: an elected master must be copied (haListenEnable=true)"
        )
    return faults


def _copies_faults(settings: BrokerSettings) -> list[str]:
    """Returns what is wrong with how many copies sends wait for."""
    faults = []
    if settings.replication_waits_for_set:
        faults.append(
            "allAckInSyncStateSet=true needs enableControllerMode=true: nobody else keeps that set"
        )
    copies, least = settings.replication_copies, settings.replication_in_sync_min
    if least > copies:
        faults.append(
            f"minInSyncReplicas={least}: more than inSyncReplicas={copies}, which sends wait for"
        )
    total = settings.replication_total
    if copies > total and not settings.configuration.settings[_TOTAL].is_default:
        faults.append(f"inSyncReplicas={copies}: more than there are, {_TOTAL}={total}")
    if not settings.is_sync_master:
        return faults
    is_local = settings.listener.host.startswith("unix:") and not settings.replication_port
    if not settings.listens_for_slaves or is_local:
        faults.append(
            "brokerRole=SYNC_MASTER: sends would wait for slaves, and no port is listened on for "
            "them (haListenEnable, haListenPort)"
        )
    if settings.mounted_dir:
        faults.append("brokerRole=SYNC_MASTER: a mounted store (mountedStoreDir) takes no sends")
    return faults


def _copies_warnings(settings: BrokerSettings) -> list[str]:
    """Returns settings for copies that nobody waits for, or that mean more than they seem to."""
    known = settings.configuration.settings
    if settings.is_controlled:
        return _member_warnings(settings)
    if settings.is_slave and settings.has_acting_master and not settings.reads_from_replicas:
        return ["enableSlaveActingMaster: a slave that acts is read with slaveReadEnable=true only"]
    if settings.is_sync_master:
        if known[_COPIES].is_default or settings.replication_copies > 1:
            return []
        return [
            f"{_COPIES}=1 counts as 2 with brokerRole=SYNC_MASTER: RocketMQ 5 waits for nobody "
            "then, as brokerRole=ASYNC_MASTER does here"
        ]
    return [
        f"{name} has no effect with brokerRole={settings.role}: sends wait for slaves with "
        "brokerRole=SYNC_MASTER"
        for name in (_COPIES, _LEAST, _FOLLOWS)
        if not known[name].is_default and known[name].shown != known[name].key.default
    ]


def _member_warnings(settings: BrokerSettings) -> list[str]:
    """Returns under which settings of a member the failure of one machine loses messages."""
    known = settings.configuration.settings
    warnings = [
        f"{name} has no effect with enableControllerMode: the controller decides"
        for name in ("brokerRole", "brokerId", "haMasterAddress")
        if not known[name].is_default
    ]
    if settings.replication_waits_for_set:
        if settings.replication_in_sync_min < 2:
            warnings.append(
                f"{_LEAST}=1: with no other replica in sync a send is acknowledged with one copy; "
                f"{_LEAST}=2 refuses it then"
            )
    elif settings.replication_copies < 2:
        warnings.append(
            "a send is acknowledged with one copy, and lost where another replica becomes master: "
            f"set allAckInSyncStateSet=true and {_LEAST}=2"
        )
    return warnings


def check_sizes(configuration: Configuration, existing: dict[str, str]) -> list[str]:
    """Returns warnings where the sizes of files that exist win over what somebody set.

    Raises:
        ConfigurationError: The longest message does not go into a file of the log that exists.
    """
    _check_longest(configuration, existing)
    found = [(configuration.settings[name], size) for name, size in existing.items()]
    return [
        f"{setting.source}: {setting.key.name}={setting.shown} is not used: the files of the store "
        f"have {size}"
        for setting, size in found
        if setting.source not in (DEFAULT, PROGRAM_DEFAULT) and setting.shown != size
    ]


def longest_that_fits(configuration: Configuration, existing: Mapping[str, str]) -> dict[str, str]:
    """Returns the setting under which every message goes into a file of the log that exists.

    Empty where that is so already. For a store that is read alone: what is in it fits.
    """
    longest = int(existing.get(_LONGEST, str(configuration.value(_LONGEST))))
    file_bytes = int(existing.get(_LOG_FILE, 0))
    if file_bytes == 0 or file_bytes >= longest + BEYOND_BODY_BYTES:
        return {}
    return {_LONGEST: str(max(1, file_bytes - BEYOND_BODY_BYTES))}


def _check_longest(configuration: Configuration, existing: Mapping[str, str]) -> None:
    fitting = longest_that_fits(configuration, existing)
    if not fitting:
        return
    files = f"files of the log that exist have {existing[_LOG_FILE]} bytes"
    if int(existing[_LOG_FILE]) <= BEYOND_BODY_BYTES:
        _raise([f"{files}, in which no message can be: a file was cut off"])
    longest = configuration.value(_LONGEST)
    _raise(
        [
            f"{files}, and a message of {_LONGEST}={longest} does not go into one: set "
            f"{_LONGEST}={fitting[_LONGEST]}, or less"
        ]
    )


def _raise(faults: list[str]) -> None:
    if faults:
        raise ConfigurationError("; ".join(faults), faults=tuple(faults))
