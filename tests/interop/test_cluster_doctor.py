"""`mqcore doctor --cluster` over an official broker: what its defaults acknowledge."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from interop.registered import wait_until
from interop.replicated import pair
from interop.servers import BROKER_NAME, OURS, official_software
from mqcore.cli.main import commands

pytestmark = [pytest.mark.java, pytest.mark.slow]


def test_a_synchronous_master_of_5_with_its_defaults_waits_for_nobody(tmp_path: Path) -> None:
    keys = {"brokerRole": "SYNC_MASTER", "brokerIP2": "127.0.0.1"}
    with pair(official_software("5.3.3"), OURS, tmp_path, keys) as both:
        names = both.master.namesrv.address
        wait_until(names, lambda found: len(found.get(BROKER_NAME, {})) == 2)
        both.send(1)
        both.wait_until_equal()
        both.wait_until_known()
        line = ["doctor", "--cluster", "-n", names, "--json"]
        result = CliRunner().invoke(commands, line)
    found = {each["name"]: each for each in json.loads(result.stdout)}
    assert result.exit_code == 1
    waits = found[f"{BROKER_NAME}: acknowledgements"]
    assert "waits for nobody" in waits["value"]
    assert "inSyncReplicas=2" in waits["advice"]
    assert found[f"{BROKER_NAME}: loss of power"]["advice"]
    assert "eight bytes of anybody" in found[f"{BROKER_NAME} 0: port for slaves"]["why"]
    assert found[f"{BROKER_NAME} 0: clock"]["value"] == "as here"
    assert not found[f"{BROKER_NAME} 1: lag"]["advice"]
    assert f"{BROKER_NAME} 1: topics" not in found
