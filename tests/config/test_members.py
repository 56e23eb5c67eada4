"""Settings of a broker under a controller: what is refused, and what is warned of."""

from pathlib import Path

import pytest

from mqcore.config import Program, broker_settings, resolved, settings_of_pairs
from mqcore.config.checks import check_broker
from mqcore.config.layers import file_layer
from mqcore.errors import ConfigurationError

DEPLOY = Path(__file__).parents[2] / "deploy"
MEMBER = {"enableControllerMode": "true", "controllerAddr": "127.0.0.1:9878"}
SAFE = {"allAckInSyncStateSet": "true", "minInSyncReplicas": "2"}


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ({"enableControllerMode": "true"}, "controllerAddr must name the controllers"),
        ({**MEMBER, "controllerAddr": "here"}, "controllerAddr=here: HOST:PORT expected"),
        ({**MEMBER, "mountedStoreDir": "/archive"}, "has no master"),
        ({**MEMBER, "bindAddress": "unix:/tmp/b"}, "by TCP only"),
        ({**MEMBER, "haListenEnable": "false"}, "haListenEnable=true"),
        ({"allAckInSyncStateSet": "true"}, "needs enableControllerMode=true"),
    ],
)
def test_what_cannot_work_is_refused(pairs: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        check_broker(settings_of_pairs(pairs))


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ({}, "set allAckInSyncStateSet=true and minInSyncReplicas=2"),
        ({"minInSyncReplicas": "2"}, "set allAckInSyncStateSet=true"),
        ({"allAckInSyncStateSet": "true"}, "minInSyncReplicas=2 refuses it then"),
        ({**SAFE, "brokerRole": "SLAVE"}, "brokerRole has no effect"),
        ({**SAFE, "brokerId": "3"}, "brokerId has no effect"),
    ],
)
def test_what_may_lose_or_has_no_effect_is_warned_of(pairs: dict[str, str], words: str) -> None:
    warnings = check_broker(settings_of_pairs({**MEMBER, **pairs}))
    assert [each for each in warnings if words in each]


def test_settings_that_lose_nothing_are_not_warned_of() -> None:
    plain = check_broker(settings_of_pairs({}))
    assert check_broker(settings_of_pairs({**MEMBER, **SAFE})) == plain


def test_the_example_for_three_machines_loses_nothing() -> None:
    path = DEPLOY / "3r-controller" / "broker.properties"
    layers = [file_layer(path, Program.BROKER)]
    settings = broker_settings(resolved(Program.BROKER, layers, is_strict=True))
    assert settings.configuration.warnings == ()
    assert check_broker(settings) == check_broker(settings_of_pairs({}))


def test_controllers_are_joined_by_semicolons() -> None:
    settings = settings_of_pairs({**MEMBER, "controllerAddr": "a:1; b:2"})
    assert settings.controllers == ("a:1", "b:2")
