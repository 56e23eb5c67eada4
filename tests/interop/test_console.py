"""The console over official servers: every page, and changes that their brokers take."""

import re
from pathlib import Path

import pytest

from access_control import PLAIN_ADMIN
from console_running import running, visitor
from interop.patience import eventually
from interop.servers import BROKER_NAME, official_software, serving
from interop.test_access import ON, ROOT
from interop.test_plain_access import serving_files
from mqcore import Admin
from mqcore.admin import User
from mqcore.console.pages.brokers import TABS
from mqcore.console.routes import MENU
from mqcore.errors import ResponseError
from mqcore.remoting import Credentials

pytestmark = [pytest.mark.java, pytest.mark.slow]

_UNANSWERED = "without an answer"


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
        reason = "of a release before 5.3" if is_old else "its access control is not set up"
        assert reason in admin.page("/access").document.text
        assert admin.plan("/access", name="shop", kind="Normal").status == 400
        # A broker of 4.9 answers with an exception until it has counted for some seconds.
        page = eventually(lambda: admin.page("/").text, lambda text: _UNANSWERED not in text)
        assert _UNANSWERED not in page
        unanswered = {path for path in paths if _UNANSWERED in admin.page(path).text}
        # Those of 4.9 know no timers, and show no replication.
        allowed = {f"/brokers/{BROKER_NAME}/0?tab=store"} if is_old else set()
        assert unanswered <= allowed
        (row,) = admin.json("/messages?by=key&topic=made&key=k")["found"]
        assert admin.json(row["url"])["body"] == "x"
        assert admin.json("/groups/readers")["lag"] == 1
        admin.change("/groups/readers/delete", confirm="readers")
        admin.change("/topics/made/delete", confirm="made")
        assert "made" not in {each["name"] for each in admin.json("/topics")["list"]["rows"]}


def test_users_of_an_official_broker_are_shown_and_changed(tmp_path: Path) -> None:
    """With access control of 5.3: what is granted by the page counts there."""
    with (
        serving(official_software("5.3.3"), tmp_path / "servers", ON) as servers,
        running(
            servers.namesrv.address, tmp_path / "console", credentials=Credentials(*ROOT)
        ) as console,
    ):
        visit, namesrv, broker = visitor(console), servers.namesrv.address, servers.broker.address
        page = visit.change("/access", name="shop", kind="Normal")
        found = re.search(r"shown this once: (\S+)", page.document.text)
        assert found is not None
        own = Credentials("shop", found[1])
        with Admin(namesrv, credentials=own) as admin, pytest.raises(ResponseError) as refused:
            admin.access.users_at(broker)
        # The signature is good, the right is missing.
        assert "no matched policies" in refused.value.remark
        form = {"resource": "Cluster:*", "actions": "Get", "sources": "", "decision": "Allow"}
        visit.change("/access/shop/grant", **form)
        with Admin(namesrv, credentials=own) as admin:
            assert [each.name for each in admin.access.users_at(broker)] == [
                "inner",
                "root",
                "shop",
            ]
        rows = visit.json("/access")["list"]["rows"]
        assert [(row["name"], row["kind"]) for row in rows] == [
            ("inner", "Super"),
            ("root", "Super"),
            ("shop", "Normal"),
        ]
        shown = visit.page("/access/shop").text + visit.page("/access").text
        assert "without an answer" not in shown
        # An official broker answers passwords; no page has one.
        for secret in (found[1], ROOT[1], "inner12345678"):
            assert secret not in shown
        asked = visit.page("/access/shop?action=Get&resource=Topic:orders&source=10.1.1.1")
        assert "it decides, and does not report why" in asked.document.text
        assert "without an answer" not in asked.text
        visit.change("/access/shop/revoke", resource="Cluster:*", policy="Custom")
        assert visit.json("/access/shop")["entries"] == []
        visit.change("/access/shop/status", status="disable")
        with Admin(namesrv, credentials=Credentials(*ROOT)) as admin:
            user = admin.access.user_at(broker, "shop")
        assert user == User("shop", found[1], "Normal", "disable")
        visit.change("/access/shop/delete", confirm="shop")
        assert [row["name"] for row in visit.json("/access")["list"]["rows"]] == ["inner", "root"]


def test_accounts_of_4_9_are_named_and_what_cannot_be_done_is_refused(tmp_path: Path) -> None:
    with (
        serving_files(official_software("4.9.7"), tmp_path / "servers") as servers,
        running(servers.namesrv.address, tmp_path / "console", credentials=PLAIN_ADMIN) as console,
    ):
        visit = visitor(console)
        page = visit.page("/access").document
        assert f"{BROKER_NAME} 0: of a release before 5.3" in page.text
        assert "updateAclConfig" in page.text
        assert "without an answer" not in page.text
        # There is no form for what no broker takes; whoever sends it all the same is answered.
        assert [form.action for form in page.forms if form.action == "/access"] == []
        refused = visit.plan("/access", name="shop", kind="Normal")
        assert refused.status == 400
        assert f"{BROKER_NAME} 0: of a release before 5.3" in refused.text
        assert "there is no user" in visit.get("/access/shop").text
        wrong = Credentials(PLAIN_ADMIN.access_key, "another-secret")
        with running(servers.namesrv.address, tmp_path / "wrong", credentials=wrong) as console:
            unsigned = visitor(console).page("/access").text
        assert "without an answer" in unsigned
        assert "ignature" in unsigned
