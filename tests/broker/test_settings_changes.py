"""Settings that tools change: few may change, and the file keeps what it had."""

import pytest

from live_broker import SMALL
from mqcore.broker.settings_changes import SOURCE_NEXT, changed
from mqcore.config import BrokerSettings, settings_of_pairs
from mqcore.config.properties import file_with
from mqcore.errors import RefusedError
from mqcore.remoting import ResponseCode


def settings() -> BrokerSettings:
    return settings_of_pairs(SMALL)


def test_a_change_takes_effect_and_shows_its_source() -> None:
    changes = changed(settings(), {"brokerPermission": "4"})
    fresh = changes.settings
    assert fresh.permission == 4
    assert (changes.made, changes.remark) == ({"brokerPermission": "4"}, None)
    assert fresh.configuration.settings["brokerPermission"].source == "changed by a tool"
    assert fresh.name == "b"
    assert fresh.listener == settings().listener


@pytest.mark.parametrize(
    "key", ["storePathRootDir", "listenPort", "brokerName", "rocketmqHome", "configBlackList"]
)
def test_paths_addresses_and_names_do_not_change(key: str) -> None:
    with pytest.raises(RefusedError) as caught:
        changed(settings(), {"brokerPermission": "4", key: "1"})
    assert caught.value.code == ResponseCode.NO_PERMISSION


def test_keys_that_nobody_knows_are_named_and_nothing_changes() -> None:
    with pytest.raises(RefusedError) as caught:
        changed(settings(), {"brokerPermision": "4", "brokerPermission": "4", "xyzzy": "1"})
    assert caught.value.code == ResponseCode.SYSTEM_ERROR
    assert "brokerPermision (did you mean brokerPermission?), xyzzy" in caught.value.message
    many = {f"unknownKey{at}": "1" for at in range(1_000)}
    with pytest.raises(RefusedError, match="and 990 more"):
        changed(settings(), many)


def test_a_setting_of_the_next_start_is_kept_and_changes_nothing_now() -> None:
    changes = changed(settings(), {"flushDiskType": "SYNC_FLUSH", "fileReservedTime": "5"})
    assert changes.remark == "from the next start on: flushDiskType"
    assert changes.made == {"flushDiskType": "SYNC_FLUSH", "fileReservedTime": "5"}
    assert changes.is_of_store
    assert changes.settings.engine["fileReservedTime"] == "5"
    assert "flushDiskType" not in changes.settings.engine
    shown = changes.settings.configuration.settings["flushDiskType"]
    assert (shown.shown, shown.source) == ("SYNC_FLUSH", SOURCE_NEXT)


def test_without_a_file_nothing_is_kept_for_the_next_start() -> None:
    with pytest.raises(RefusedError, match="flushDiskType takes effect at the next start"):
        changed(settings(), {"flushDiskType": "SYNC_FLUSH"}, has_file=False)
    with pytest.raises(RefusedError) as caught:
        changed(settings(), {"storePathRootDir": "/x"}, has_file=False)
    assert "flushDiskType" not in caught.value.message


def test_a_setting_without_effect_is_refused_with_the_reason() -> None:
    with pytest.raises(RefusedError, match="waitTimeMillsInPullQueue has no effect here"):
        changed(settings(), {"waitTimeMillsInPullQueue": "500"})


def test_a_bad_value_is_refused() -> None:
    with pytest.raises(RefusedError) as caught:
        changed(settings(), {"brokerPermission": "often"})
    assert "brokerPermission" in caught.value.message


def test_the_file_keeps_its_comments_and_order() -> None:
    text = "# mine\nbrokerName=b\nbrokerPermission = 6\n\nlistenPort:1\n"
    assert file_with(text, {"brokerPermission": "4", "traceOn": "false"}) == (
        "# mine\nbrokerName=b\nbrokerPermission=4\n\nlistenPort:1\ntraceOn=false\n"
    )
