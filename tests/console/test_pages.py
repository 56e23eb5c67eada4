"""Every page over a real broker: well made, with what is there; hostile names are text."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from console_visits import Visitor
from mqcore import Message, Producer, PushConsumer, aio
from mqcore.admin import GroupConfig
from mqcore.console import Console
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


def test_a_broker_is_shown_from_all_sides(admin: Visitor) -> None:
    for tab in ("figures", "configuration", "store", "clients"):
        page = admin.page(f"/brokers/broker-test/0?tab={tab}").document
        assert "without an answer" not in page.text
    settings = admin.json("/brokers/broker-test/0?tab=configuration&q=transactionTimeOut")
    (row,) = settings["settings"]
    assert row["name"] == "transactionTimeOut"
    assert row["is_hot"]
    assert admin.get("/brokers/nobody/0").status == 404


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
