"""Every page over a real broker: well made, with what is there; hostile names are text."""

import asyncio
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from console.test_changes import commands_on, is_command
from console_visits import Visitor
from mqcore import Message, Producer, PushConsumer, aio
from mqcore.admin import GroupConfig
from mqcore.console import Console
from mqcore.console.charts import spark, strip
from mqcore.console.pages.brokers import TABS
from mqcore.console.pages.own import COMMANDS
from mqcore.console.routes import MENU
from mqcore.testing import Broker

COUNT = 5
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module", autouse=True)
def filled(broker: Broker, console: Console) -> Iterator[list[Any]]:
    """Messages, a group that is behind, one that is online, a producer."""
    broker.create_topic("orders", queues=2)
    broker.create_topic("delayed", queues=1)

    async def groups() -> None:
        async with aio.Admin(broker.namesrv) as admin:
            await admin.groups.put(GroupConfig("readers"))
            await admin.groups.reset_to_time("readers", "orders", 0)

    with Producer(broker.namesrv, group="senders", trace=True) as producer:
        sent = [
            producer.send(
                Message(
                    "orders",
                    f'{{"number": {n}, "text": "{SCRIPT}"}}',
                    tags="new",
                    keys=[f"k{n}", SCRIPT],
                    properties={"hostile": SCRIPT},
                )
            )
            for n in range(COUNT)
        ]
        asyncio.run(groups())
        with PushConsumer(
            broker.namesrv, group="online", topics="orders", handler=lambda _message: None
        ):
            # What tests before have read is older.
            console.state.kept.forget()
            yield sent


def test_every_page_of_the_menu_is_well_made(admin: Visitor) -> None:
    for path, text in MENU:
        page = admin.page(path)
        assert page.document.headings, text
        assert "without an answer" not in page.document.text, (path, page.document.text)
        assert admin.json(path) is not None


def test_command_lines_on_pages_are_such(admin: Visitor, filled: list[Any]) -> None:
    pages = [path for path, _ in MENU] + [f"/brokers/broker-test/0?tab={tab}" for tab in TABS]
    pages += ["/topics/orders", "/topics/orders/live", "/groups/readers"]
    pages += [f"/trace?id={filled[0].message_id}"]
    seen = 0
    for path in pages:
        for text in commands_on(admin.page(path)):
            words = shlex.split(text)
            if words[0] in ("mqcore", "mqadmin"):
                assert is_command(words), (path, text)
                seen += 1
    assert seen >= len(pages) / 2
    named = [text for _, *texts in COMMANDS for text in texts]
    assert all(is_command(shlex.split(text)) for text in named if text.startswith("mqcore"))


def test_a_broker_is_shown_from_all_sides(admin: Visitor) -> None:
    for tab in TABS:
        page = admin.page(f"/brokers/broker-test/0?tab={tab}").document
        assert "without an answer" not in page.text
    settings = admin.json("/brokers/broker-test/0?tab=configuration&q=transactionTimeOut")
    (row,) = settings["settings"]
    assert row["name"] == "transactionTimeOut"
    assert row["is_hot"]
    assert settings["has_sources"]
    changed = admin.json("/brokers/broker-test/0?tab=configuration&only=changed")["settings"]
    assert {row["source"] for row in changed} >= {"given"}
    assert "default" not in {row["source"] for row in changed}
    assert "timerWheelEnable" in {row["name"] for row in changed}
    live = admin.json("/brokers/broker-test/0?tab=configuration&only=live")
    assert 0 < len(live["settings"]) < live["of"]
    assert admin.get("/brokers/nobody/0").status == 404


def test_what_a_broker_occupies_is_shown_by_its_holders(admin: Visitor) -> None:
    limits = admin.json("/brokers/broker-test/0?tab=limits")
    assert limits["quotas"] == []
    assert limits["limits"]["connections_per_address"] == 1000
    page = admin.page("/brokers/broker-test/0?tab=limits").document
    assert "mqcoreQuotas is empty" in page.text
    page = admin.page("/brokers/broker-test/0?tab=memory").document
    assert "Python objects" in page.text
    assert "mqcore broker memory" in page.text
    memory = admin.json("/brokers/broker-test/0?tab=memory")["memory"]
    assert memory["accounted"] + memory["rest"] >= memory["anonymous"] > 0
    assert {"connections", "topics"} & {row["owner"] for row in memory["owners"]}
    data = admin.json("/brokers/broker-test/0?tab=store")
    newest = data["map"]["logs"][0]
    assert newest["length"] > 0
    assert all(0 <= piece["x"] <= 1_000 for piece in newest["pieces"])
    assert sum(row["resident"] for row in data["map"]["logs"]) > 0
    assert {part["part"] for part in data["map"]["parts"]} >= {"config", "consumequeue"}


def test_a_strip_has_a_piece_for_each_change_of_shade() -> None:
    assert strip([]) == []
    assert strip([0, 0]) == []
    pieces = strip([100, 100, 0, 1])
    assert [(each.x, each.width, each.shade) for each in pieces] == [(0, 500, 8), (750, 250, 1)]


def test_a_line_goes_by_the_times_of_its_points() -> None:
    assert spark([]).line == ""
    assert spark([(5, 1.0)]).line == ""
    line = spark([(0, 0.0), (1_000, 4.0), (4_000, 2.0)])
    assert (line.top, line.span_ms) == (4.0, 4_000)
    assert line.line == "0.0,42.0 60.0,2.0 240.0,22.0"


def test_a_topic_is_shown_from_all_sides(admin: Visitor) -> None:
    for tab in ("queues", "groups", "settings", "produce"):
        assert "without an answer" not in admin.page(f"/topics/orders?tab={tab}").document.text
    data = admin.json("/topics/orders")
    assert (data["messages"], len(data["queues"]), data["type"]) == (COUNT, 2, "normal")
    assert {row["group"] for row in admin.json("/topics/orders?tab=groups")["groups"]} >= {
        "readers"
    }
    assert "orders" in {row["name"] for row in admin.json("/topics?q=ORD")["list"]["rows"]}
    assert admin.json("/topics?q=nothing-like-it")["list"]["rows"] == []
    assert "No topic matches" in admin.page("/topics?q=nothing-like-it").document.text


def test_a_group_is_shown_from_all_sides(admin: Visitor) -> None:
    for tab in ("progress", "members", "settings", "reset"):
        assert "without an answer" not in admin.page(f"/groups/readers?tab={tab}").document.text
    rows = {row["group"]: row for row in admin.json("/groups")["list"]["rows"]}
    assert rows["readers"]["lag"] == COUNT
    assert rows["readers"]["members"] == 0
    assert rows["online"]["members"] == 1
    (member,) = admin.json("/groups/online?tab=members")["members"]
    page = admin.page(f"/groups/online/member?client={member['client_id']}&stacks=1")
    assert "did not report" not in page.document.text
    assert {row["client_id"] for row in admin.json("/clients?kind=consumers")["list"]["rows"]} == {
        member["client_id"]
    }


def test_messages_are_found_by_everything(admin: Visitor, filled: list[Any]) -> None:
    first = filled[0]
    queue = f"{first.queue.broker_name}:{first.queue.queue_id}"
    ways = (
        f"by=id&topic=orders&id={first.message_id}",
        "by=key&topic=orders&key=k0",
        f"by=offset&topic=orders&queue={queue}&offset={first.queue_offset}",
        "by=time&topic=orders&time=2020-01-01T00:00",
    )
    for way in ways:
        found = admin.json(f"/messages?{way}")["found"]
        assert first.message_id in {row["id"] for row in found}, way
        admin.page(f"/messages?{way}")
    (row,) = admin.json(f"/messages?{ways[1]}")["found"]
    for form in ("auto", "text", "json", "hex"):
        admin.page(
            f"{row['url']}&form={form}" if "?" in row["url"] else f"{row['url']}?form={form}"
        )
    data = admin.json(row["url"])
    assert data["form"] == "json"
    assert {each["group"]: each["is_past"] for each in data["consumers"]}["readers"] is False
    body = admin.get(f"/messages/{data['offset_id']}/body")
    assert body.headers["content-disposition"].startswith("attachment")
    assert body.body.startswith(b'{"number": 0')


def test_no_address_of_a_form_is_dialled(admin: Visitor) -> None:
    strange = "0A00000100002A9F0000000000000000"
    answer = admin.get(f"/messages/{strange}")
    assert answer.status == 404
    assert "no broker of this cluster" in answer.text


def test_a_hostile_name_is_text_on_every_page(admin: Visitor, filled: list[Any]) -> None:
    pages = [path for path, _ in MENU]
    (row,) = admin.json("/messages?by=key&topic=orders&key=k1")["found"]
    pages += [
        "/messages?by=key&topic=orders&key=k1",
        row["url"],
        f"/trace?id={filled[1].message_id}",
        "/topics?q=%3Cscript%3Ealert(1)%3C/script%3E",
        "/groups?q=%3Cscript%3Ealert(1)%3C/script%3E",
        "/audit?q=%3Cscript%3Ealert(1)%3C/script%3E",
    ]
    for path in pages:
        page = admin.page(path)
        assert "<script>alert" not in page.text, path
    assert SCRIPT in admin.page(row["url"]).document.text
    for path in ("/topics", "/groups"):
        answer = admin.get(f"{path}/%3Cscript%3Ealert(1)%3C%2Fscript%3E")
        assert answer.status == 404
        assert "<script>alert" not in answer.text
        assert SCRIPT in answer.document.text


def test_looking_changes_no_figure(admin: Visitor, broker: Broker) -> None:
    before = broker.offsets("readers", "orders")
    for path in ("/messages?by=time&topic=orders&time=2020-01-01T00:00", "/groups/readers"):
        admin.page(path)
    assert broker.offsets("readers", "orders") == before
    groups = {row["group"] for row in admin.json("/groups")["list"]["rows"]}
    assert "TOOLS_CONSUMER" not in groups
