"""Where a slave finds the log of a master that was just elected: by the master's settings."""

import pytest

from mqcore.broker.replication.following import ha_address_of


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("brokerIP2=10.0.0.7\nhaListenPort=10915\nlistenPort=10911\n", "10.0.0.7:10915"),
        ("haListenPort=10915\n", "10.0.0.5:10915"),
        ("haListenPort=0\nlistenPort=10911\n", "10.0.0.5:10912"),
        ("", "10.0.0.5:10912"),
        ("haListenPort=0\nlistenPort=0\n", ""),
        ("haListenPort=near\n", ""),
        ("=\nhaListenPort", "10.0.0.5:10912"),
    ],
)
def test_the_address_of_a_log_by_settings(config: str, expected: str) -> None:
    assert ha_address_of("10.0.0.5:10911", config.encode()) == expected


def test_an_address_without_a_port_names_none() -> None:
    assert ha_address_of("unix:/run/mqcore", b"haListenPort=0\n") == ""
