"""The table of keys agrees with the engine, with the settings, and with itself."""

import pytest

from mqcore import native
from mqcore.config import Fate, Program, keys_of
from mqcore.config.keys import SPELLINGS, nearest, table_keys
from mqcore.config.settings import (
    BrokerSettings,
    ControllerSettings,
    NamesrvSettings,
    key_fields,
)
from mqcore.config.typed import AccessSettings, ListenerSettings
from mqcore.config.values import parsed

TABLES = ("broker", "store", "own", "server", "auth", "access", "namesrv", "controller")


def test_no_key_is_twice_in_one_program() -> None:
    for tables in (
        ("broker", "store", "own", "server", "auth", "access"),
        ("namesrv", "server", "auth", "access"),
        ("controller", "server", "auth", "access"),
    ):
        names = [key.name for table in tables for key in table_keys(table)]
        assert len(names) == len(set(names))


def test_every_key_of_the_engine_is_its_and_has_its_default() -> None:
    keys = keys_of(Program.BROKER)
    for name, default in native.settings().items():
        key = keys[name]
        if key.fate is Fate.ENGINE:
            assert key.default == default, name
    engine = set(native.settings())
    assert {key.name for key in keys.values() if key.fate is Fate.ENGINE} <= engine


def test_defaults_that_have_an_effect_are_values_of_their_kind() -> None:
    for table in TABLES:
        for key in table_keys(table):
            if key.fate is not Fate.INERT:
                parsed(key.kind, key.default)


def test_an_honoured_key_has_a_setting_and_a_setting_an_honoured_key() -> None:
    shared = set(key_fields(ListenerSettings).values())
    shared |= set(key_fields(AccessSettings).values())
    for program, kind, fate in (
        (Program.BROKER, BrokerSettings, Fate.BROKER),
        (Program.NAMESRV, NamesrvSettings, Fate.NAMESRV),
        (Program.CONTROLLER, ControllerSettings, Fate.CONTROLLER),
    ):
        keys = keys_of(program)
        fields = set(key_fields(kind).values()) | shared
        assert all(keys[name].fate.is_honoured for name in fields)
        wanted = {key.name for key in keys.values() if key.fate in (fate, Fate.SERVER)}
        # The budget is checked, and files opened, before there are settings.
        early = {"memoryAllowed", "memoryBudget", "tls.config.file"}
        early |= {name for name in wanted if name.startswith("mqcoreLogFile")}
        assert wanted - fields <= early


def test_other_spellings_lead_to_keys() -> None:
    keys = keys_of(Program.BROKER)
    assert all(new in keys and old not in keys for old, new in SPELLINGS.items())


def test_every_key_has_a_reason() -> None:
    for table in TABLES:
        assert all(len(key.words.split()) >= 1 for key in table_keys(table))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("flushDisktype", "flushDiskType"),
        ("flush_disk_type", "flushDiskType"),
        ("autoCreateTopic", "autoCreateTopicEnable"),
        ("brokerIp1", "brokerIP1"),
        ("quite.another.thing", None),
    ],
)
def test_the_nearest_key_is_found(written: str, meant: str | None) -> None:
    assert nearest(written, Program.BROKER) == meant
