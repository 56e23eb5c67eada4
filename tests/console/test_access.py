"""The page of access: users, grants, tests of a decision, what differs; and audits of servers."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from access_control import ON, ROOT
from console_running import running, visitor
from console_visits import Answer, Visitor
from mqcore import Admin
from mqcore.admin import Entry, Resource, User
from mqcore.cli.main import commands
from mqcore.console import Console
from mqcore.errors import ResponseError
from mqcore.remoting import Credentials
from mqcore.testing import Broker

_SHOWN = re.compile(r"shown this once: (\S+)")


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[Broker, Broker]]:
    """Two brokers of one cluster, each with users of its own."""
    with (
        Broker(ON) as first,
        Broker({**ON, "brokerName": "broker-two"}, namesrv=first.namesrv) as second,
    ):
        yield first, second


@pytest.fixture(scope="module")
def guarded_console(
    brokers: tuple[Broker, Broker], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Console]:
    data = tmp_path_factory.mktemp("console")
    with running(brokers[0].namesrv, data, credentials=ROOT) as started:
        yield started


@pytest.fixture
def root(guarded_console: Console) -> Visitor:
    return visitor(guarded_console)


def command_of(answer: Answer) -> list[str]:
    text = answer.document.text.split("The same as a command", 1)[1]
    return shlex.split(text.split("Leave it")[0].rsplit(" -n ", 1)[0])


def password_on(page: Answer) -> str:
    found = _SHOWN.search(page.document.text)
    assert found is not None, page.document.text
    return found[1]


def test_a_user_is_made_and_its_password_shown_once(
    root: Visitor, brokers: tuple[Broker, Broker], guarded_console: Console
) -> None:
    planned = root.plan("/access", name="shop", kind="Normal")
    assert planned.status == 200, planned.document.text
    assert command_of(planned)[:2] == ["mqadmin", "createUser"]
    assert "broker-two 0" in planned.document.text
    assert "shop" not in [row["name"] for row in root.json("/access")["list"]["rows"]]
    page = root.change("/access", name="shop", kind="Normal")
    password = password_on(page)
    assert password not in root.page("/access/shop").document.text
    for broker in brokers:
        # Refused for want of rights: the signature is good.
        with (
            Admin(broker.namesrv, credentials=Credentials("shop", password)) as admin,
            pytest.raises(ResponseError, match="no matched policies"),
        ):
            admin.access.users_at(broker.address)
    again = root.change("/access/shop/password")
    assert password_on(again) != password
    with (
        Admin(brokers[0].namesrv, credentials=Credentials("shop", password)) as admin,
        pytest.raises(ResponseError, match="check signature failed"),
    ):
        admin.access.users_at(brokers[0].address)
    audit = guarded_console.state.audit.whole().decode()
    assert "user create" in audit
    assert password not in audit
    assert password_on(again) not in audit
    assert root.plan("/access", name="shop").status == 400


def test_rights_are_granted_tested_and_taken(
    root: Visitor, brokers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    root.change("/access", name="app", kind="Normal")
    form = {"resource": "Topic:orders*, Group:g", "actions": "Pub,Sub", "sources": "10.0.0.0/8"}
    planned = root.plan("/access/app/grant", **form)
    assert "Allow Pub,Sub from 10.0.0.0/8" in planned.document.text
    words = command_of(planned)
    assert words[:7] == ["mqcore", "acl", "grant", "app", "Pub,Sub", "Topic:orders*", "Group:g"]
    assert root.json("/access/app")["entries"] == []
    root.change("/access/app/grant", **form)
    entries = root.json("/access/app")["entries"]
    assert [(e["resource"], e["actions"], e["is_same"]) for e in entries] == [
        ("Group:g", ["Pub", "Sub"], True),
        ("Topic:orders*", ["Pub", "Sub"], True),
    ]
    asked = "/access/app?action=Pub&resource=Topic:orders-new&source="
    allowed = root.json(f"{asked}10.1.1.1")["decisions"]
    assert [row["is_allowed"] for row in allowed] == [True, True]
    refused = root.json(f"{asked}11.1.1.1")["decisions"]
    assert [row["is_allowed"] for row in refused] == [False, False]
    assert "allowed" in root.page(f"{asked}10.1.1.1").document.text
    root.change("/access/app/grant", resource="Topic:orders-old", actions="Pub", decision="Deny")
    assert not root.json(asked.replace("new", "old") + "10.1.1.1")["decisions"][0]["is_allowed"]
    root.change("/access/app/revoke", resource="Topic:orders*", policy="Custom")
    assert not root.json(f"{asked}10.1.1.1")["decisions"][0]["is_allowed"]
    # The command line does the same.
    tools = tmp_path / "tools.yml"
    tools.write_text("accessKey: root\nsecretKey: root-secret\n")
    environment = {"MQCORE_NAMESRV": brokers[0].namesrv, "MQCORE_TOOLS_FILE": str(tools)}
    done = CliRunner().invoke(commands, words[1:], env=environment)
    assert done.exit_code == 0, done.output
    assert root.json(f"{asked}10.1.1.1")["decisions"][0]["is_allowed"]


def test_a_user_is_disabled_and_deleted(root: Visitor) -> None:
    root.change("/access", name="gone", kind="Normal")
    root.change("/access/gone/status", status="disable")
    assert root.json("/access/gone")["status"] == "disable"
    assert "disabled" in root.page("/access?q=gone").document.text
    root.change("/access/gone/status", status="enable")
    wrong = root.plan("/access/gone/delete", step="act", confirm="other")
    assert "another name" in wrong.document.text
    root.change("/access/gone/delete", confirm="gone")
    assert root.get("/access/gone").status == 404


def test_what_differs_between_brokers_is_shown(
    root: Visitor, brokers: tuple[Broker, Broker]
) -> None:
    with Admin(brokers[0].namesrv, credentials=ROOT) as admin:
        first, second = (each.address for each in brokers)
        admin.access.create_user(User("half", "a-secret"), brokers=[first])
        admin.access.create_user(User("both", "a-secret"), brokers=[first, second])
        admin.access.grant("both", Entry(Resource("Topic", "t"), ("Pub",)), brokers=[first])
    data = root.json("/access?only=differing")
    assert {"half", "both"} <= {row["name"] for row in data["list"]["rows"]}
    assert "not there" in root.page("/access/half").document.text
    (entry,) = root.json("/access/both")["entries"]
    assert not entry["is_same"]
    assert sorted(text for _broker, text in entry["at"]) == ["Allow Pub from anywhere", "not there"]
    root.change("/access/both/revoke", resource="Topic:t", policy="Custom")
    assert root.json("/access/both")["entries"] == []


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/access", {"name": ""}),
        ("/access", {"name": "x" * 128}),
        ("/access", {"name": "a\nb"}),
        ("/access", {"name": "fine", "kind": "King"}),
        ("/access", {"name": "fine", "cluster": "nowhere"}),
        ("/access/root/grant", {"resource": "Topic:t", "actions": ""}),
        ("/access/root/grant", {"resource": "Topic:t", "actions": "Fly"}),
        ("/access/root/grant", {"resource": "nonsense", "actions": "Pub"}),
        ("/access/root/grant", {"resource": "", "actions": "Pub"}),
        ("/access/root/grant", {"resource": "Topic:t", "actions": "Pub", "sources": "here"}),
        ("/access/root/revoke", {"resource": "Topic:t"}),
        ("/access/root/status", {"status": "asleep"}),
        ("/access/nobody/delete", {}),
        ("/access/nobody/password", {}),
    ],
)
def test_what_cannot_be_is_refused_in_words(root: Visitor, path: str, form: dict[str, str]) -> None:
    answer = root.plan(path, **form)
    assert answer.status == 400
    assert "That did not work" in answer.document.text


def test_audits_of_servers_are_shown_filtered_and_checked(
    root: Visitor, brokers: tuple[Broker, Broker]
) -> None:
    first = brokers[0]
    with Admin(first.namesrv, credentials=ROOT) as admin:
        for number in range(60):
            admin.access.create_user(User(f"many-{number}", "a-secret"), brokers=[first.address])
        for queues in (4, 8):
            admin.topics.create("changed", queues=queues)
    path = f"/audit?of={first.address}"
    page = root.page(path)
    assert "User:many-59" in page.document.text
    data = root.json(path)
    older = root.json(f"{path}&before={data['before']}")
    assert older["lines"][0]["n"] == data["lines"][-1]["n"] - 1
    found = root.json(f"{path}&resource=User:many-7&user=root")["lines"]
    assert [row["request"] for row in found] == ["AUTH_CREATE_USER(3001)"]
    assert root.json(f"{path}&user=nobody")["lines"] == []
    assert "follow from one another" in root.page(f"{path}&check=yes").document.text
    changed = root.json(f"{path}&resource=Topic:changed")["lines"][0]["changes"]
    counts = ("changed.readQueueNums", "changed.writeQueueNums")
    assert sorted(map(tuple, changed)) == [(name, "4", "8") for name in counts]
    assert "changed.readQueueNums 4 → 8" in page.document.text
    root.page(f"/audit?of={first.namesrv}")
    assert root.get("/audit?of=10.0.0.1:10911").status == 404
    assert "a-secret" not in page.text


def test_who_may_not_is_answered_by_the_broker(
    brokers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    with running(brokers[0].namesrv, tmp_path) as console:
        unsigned = visitor(console)
        page = unsigned.page("/access")
        assert "username cannot be null" in page.document.text
        assert unsigned.plan("/access", name="u").status == 400
        lines = unsigned.page(f"/audit?of={brokers[0].address}")
        assert "username cannot be null" in lines.document.text
