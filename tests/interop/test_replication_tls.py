"""Processes that speak TLS alone, with one another and at the port for slaves.

An official slave cannot: it is refused in words, or served plain where the mode is permissive.
"""

from pathlib import Path

import pytest

from interop.elected import SAFE, prepared_group
from interop.patience import eventually
from interop.replicated import pair
from interop.servers import OURS, official_software
from tls_papers import Papers

COUNT = 100
SHIPPED = {"mqcoreHaTls": "enforcing"}
ASKED = {"useTLS": "true"}


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path / "papers")


def test_a_group_under_our_controller_fails_over(tmp_path: Path, papers: Papers) -> None:
    keys = {**SAFE, **SHIPPED, **ASKED, **papers.keys("brokers")}
    them = prepared_group([OURS, OURS, OURS], tmp_path, keys, controller=OURS)
    them.controller.settings |= papers.keys("controller") | ASKED
    them.namesrv.settings |= papers.keys("namesrv")
    try:
        them.controller.start()
        them.namesrv.start()
        for each in them.brokers:
            each.program.start()
        master = them.master()
        them.wait_for_in_sync(3)
        assert them.send(master, COUNT) == COUNT
        master.program.kill()
        them.send(them.master(master), COUNT)
        master.program.start()
        them.wait_for_in_sync(3)
        them.wait_until_equal()
    finally:
        them.ends()


@pytest.mark.parametrize("mode", ["enforcing", "permissive"])
def test_an_official_slave_is_refused_in_words_or_served_plain(
    mode: str, tmp_path: Path, papers: Papers
) -> None:
    official = official_software("5.3.3")
    keys = {"mqcoreHaTls": mode, **papers.keys("master")}
    with pair(OURS, official, tmp_path, keys) as them:
        if mode == "permissive":
            them.send(COUNT)
            them.wait_until_equal()
            return
        printed = eventually(them.master.broker.printed, lambda text: "speaks no TLS" in text)
        assert "it speaks no TLS, and mqcoreHaTls is enforcing" in printed, printed
