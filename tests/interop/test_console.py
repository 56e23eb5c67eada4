"""The console over official servers: every page, and changes that their brokers take."""

from pathlib import Path

import pytest

from console_running import running, visitor
from interop.servers import BROKER_NAME, official_software, serving
from mqcore.console.pages.brokers import TABS
from mqcore.console.routes import MENU

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
def test_official_servers_are_shown_and_changed(tmp_path: Path, version: str) -> None:
    with (
        serving(official_software(version), tmp_path / "servers") as servers,
        running(servers.namesrv.address, tmp_path / "console") as console,
    ):
        admin, is_old = visitor(console), version.startswith("4")
        form = {"name": "made", "queues": "2", "perm": "rw"}
        assert "made was created" in admin.change("/topics", **form).document.text
        message = {"body": "x", "tags": "t", "keys": "k", "properties": "p=1", "delay": "0"}
        assert "sent as" in admin.change("/topics/made/produce", **message).document.text
        admin.change("/groups", name="readers", retries="3")
        admin.change("/groups/readers/reset", topic="made", to="start")
        paths = [path for path, _ in MENU]
        paths += [f"/brokers/{BROKER_NAME}/0?tab={tab}" for tab in TABS]
        paths += [f"/topics/made?tab={tab}" for tab in ("queues", "groups", "settings", "produce")]
        paths += [f"/groups/readers?tab={tab}" for tab in ("progress", "members", "settings")]
        unanswered = {path for path in paths if "without an answer" in admin.page(path).text}
        # Those of 4.9 know no timers, and show no replication.
        allowed = {f"/brokers/{BROKER_NAME}/0?tab=store"} if is_old else set()
        assert unanswered <= allowed
        (row,) = admin.json("/messages?by=key&topic=made&key=k")["found"]
        assert admin.json(row["url"])["body"] == "x"
        assert admin.json("/groups/readers")["lag"] == 1
        admin.change("/groups/readers/delete", confirm="readers")
        admin.change("/topics/made/delete", confirm="made")
        assert "made" not in {each["name"] for each in admin.json("/topics")["list"]["rows"]}
