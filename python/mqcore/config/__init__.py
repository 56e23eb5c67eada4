"""Configuration: `broker.conf` and its like, checked, with every value's default and source.

    layers = [file_layer(Path("broker.conf"), Program.BROKER)]
    settings = broker_settings(resolved(Program.BROKER, layers))
    mqcore.Store(settings.store_dir, config=settings.engine)

Programs take typed settings; only the tables know official defaults.
"""

from mqcore.config.effective import Configuration, Setting, resolved
from mqcore.config.keys import Fate, Key, Program, keys_of
from mqcore.config.layers import Layer, environment_layers, file_layer
from mqcore.config.properties import parse_properties, read_properties
from mqcore.config.settings import (
    BrokerSettings,
    ControllerSettings,
    NamesrvSettings,
    PushSettings,
    beside_namesrv,
    broker_settings,
    controller_settings,
    is_loopback,
    namesrv_settings,
    reachable_host,
    settings_of_pairs,
)
from mqcore.config.typed import AccessSettings, ListenerSettings

__all__ = [
    "AccessSettings",
    "BrokerSettings",
    "Configuration",
    "ControllerSettings",
    "Fate",
    "Key",
    "Layer",
    "ListenerSettings",
    "NamesrvSettings",
    "Program",
    "PushSettings",
    "Setting",
    "beside_namesrv",
    "broker_settings",
    "controller_settings",
    "environment_layers",
    "file_layer",
    "is_loopback",
    "keys_of",
    "namesrv_settings",
    "parse_properties",
    "reachable_host",
    "read_properties",
    "resolved",
    "settings_of_pairs",
]
