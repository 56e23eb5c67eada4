"""Changes over a real broker: what is planned, what is done, which command does the same."""

import html
import json
import shlex
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from console_running import running
from console_running import visitor as logged_in
from console_visits import Answer, Visitor
from interop.patience import eventually
from mqcore import Message, Producer, PushConsumer, Reject
from mqcore.cli.main import commands
from mqcore.console import Console
from mqcore.testing import Broker, Inbox


def commands_on(answer: Answer) -> list[str]:
    """Returns the texts of a page that can be copied."""
    parts = answer.text.split('<pre class="command"')[1:]
    return [html.unescape(part.split(">", 1)[1].split("</pre>", 1)[0]) for part in parts]


def command_of(answer: Answer) -> list[str]:
    """Returns the words of the command line on the page of a plan."""
    return shlex.split(commands_on(answer)[0])


def is_command(words: list[str]) -> bool:
    """Returns whether words are a command line that `mqcore` takes, without running it."""
    program, *rest = words
    assert program in ("mqcore", "mqadmin")
    if program == "mqadmin":
        return len(rest) >= 3
    command: click.Command = commands
    context: click.Context | None = None
    name = program
    while isinstance(command, click.Group):
        context = command.make_context(name, list(rest), parent=context)
        name, rest = (left := [*context._protected_args, *context.args])[0], left[1:]
        found = command.get_command(context, name)
        assert found is not None, name
        command = found
    command.make_context(name, list(rest), parent=context)
    return True


def planned(visitor: Visitor, path: str, **fields: str) -> Answer:
    """Returns the page of a plan; its command line is one."""
    answer = visitor.plan(path, **fields)
    assert answer.status == 200, answer.document.text
    assert "Nothing has been changed yet" in answer.document.text
    assert is_command(command_of(answer))
    return answer


def test_a_topic_is_planned_created_changed_and_deleted(admin: Visitor) -> None:
    form = {
        "name": "made",
        "queues": "3",
        "type": "fifo",
        "perm": "rw",
        "cluster": "",
        "attributes": "",
    }
    answer = planned(admin, "/topics", **form)
    assert "made" not in admin.json("/topics?q=made")["list"]["rows"]
    assert command_of(answer)[:4] == ["mqcore", "topic", "create", "made"]
    assert "made was created" in admin.change("/topics", **form).document.text
    data = admin.json("/topics/made?tab=settings")
    assert (data["type"], data["configs"][0]["write"], data["configs"][0]["order"]) == (
        "fifo",
        3,
        True,
    )
    assert admin.plan("/topics", **form).status == 400
    change = {"queues": "5", "perm": "r", "order": "yes", "attributes": ""}
    planned(admin, "/topics/made/change", **change)
    admin.change("/topics/made/change", **change)
    (config,) = admin.json("/topics/made?tab=settings")["configs"]
    assert (config["write"], config["perm"]) == (5, "R--")
    planned(admin, "/topics/made/delete")
    wrong = admin.ask(
        "POST", "/topics/made/delete", {"csrf": admin.token(), "step": "act", "confirm": "mad"}
    )
    assert "another name" in wrong.document.text
    assert admin.json("/topics/made")["name"] == "made"
    assert "deleted" in admin.change("/topics/made/delete", confirm="made").document.text
    assert admin.get("/topics/made").status == 404


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "<script>"},
        {"name": ""},
        {"name": "fine", "queues": "0"},
        {"name": "fine", "queues": "x"},
        {"name": "fine", "perm": "all"},
        {"name": "fine", "attributes": "no"},
        {"name": "fine", "type": "strange"},
    ],
)
def test_a_topic_that_cannot_be_is_refused(admin: Visitor, wrong: dict[str, str]) -> None:
    answer = admin.plan("/topics", **wrong)
    assert answer.status == 400
    assert answer.document.text


def test_a_message_is_sent_found_and_copied(admin: Visitor, broker: Broker) -> None:
    broker.create_topic("sent", queues=1)
    form = {
        "body": "line 1\r\nline 2 ü",
        "tags": "t",
        "keys": "a b",
        "properties": "p=1",
        "delay": "0",
    }
    answer = planned(admin, "/topics/sent/produce", **form)
    assert command_of(answer)[:4] == ["mqcore", "produce", "sent", "-m"]
    page = admin.change("/topics/sent/produce", **form)
    assert "sent as" in page.document.text
    (found,) = broker.messages("sent")
    assert (found.body, found.tags, found.properties["p"]) == (
        "line 1\nline 2 ü".encode(),
        "t",
        "1",
    )
    (row,) = admin.json("/messages?by=offset&topic=sent&queue=broker-test:0&offset=0")["found"]
    planned(admin, f"/messages/{row['offset_id']}/copy", topic="sent")
    admin.change(f"/messages/{row['offset_id']}/copy", topic="sent")
    first, second = broker.messages("sent")
    assert (second.body, second.tags, second.properties["p"]) == (first.body, "t", "1")
    assert admin.plan("/topics/sent/produce", **{**form, "properties": "nonsense"}).status == 400
    assert admin.plan("/topics/sent/produce", **{**form, "delay": "99"}).status == 400


def test_a_group_is_created_moved_cloned_frozen_and_deleted(admin: Visitor, broker: Broker) -> None:
    broker.create_topic("moved", queues=1)
    with Producer(broker.namesrv, group="p") as producer:
        for number in range(10):
            producer.send(Message("moved", str(number)))
    planned(admin, "/groups", name="movers", retries="3")
    admin.change("/groups", name="movers", retries="3")
    reset = "/groups/movers/reset"
    answer = planned(admin, reset, topic="moved", to="end", time="")
    assert "10 messages are skipped" in answer.document.text
    assert broker.offsets("movers", "moved") == {}
    admin.change(reset, topic="moved", to="end")
    assert broker.offsets("movers", "moved") == {0: 10}
    planned(admin, reset, topic="moved", to="by", steps="-4")
    admin.change(reset, topic="moved", to="by", steps="-4")
    assert broker.offsets("movers", "moved") == {0: 6}
    planned(admin, reset, topic="moved", to="offset", queue="broker-test:0", offset="2")
    admin.change(reset, topic="moved", to="offset", queue="broker-test:0", offset="2")
    assert broker.offsets("movers", "moved") == {0: 2}
    planned(admin, reset, topic="moved", to="time", time="2020-01-01T00:00")
    admin.change(reset, topic="moved", to="time", time="2020-01-01T00:00")
    assert broker.offsets("movers", "moved") == {0: 0}
    data = admin.json("/groups/movers")
    assert (data["lag"], data["online"]) == (10, None)
    assert data["oldest_ms"] is not None
    planned(admin, "/groups/movers/clone", target="cloned")
    admin.change("/groups/movers/clone", target="cloned")
    assert broker.offsets("cloned", "moved") == {0: 0}
    form = {"retries": "5", "consume": "no", "broadcast": "yes"}
    planned(admin, "/groups/movers/change", **form)
    admin.change("/groups/movers/change", **form)
    (config,) = admin.json("/groups/movers?tab=settings")["configs"]
    assert (config["retryMaxTimes"], config["consumeEnable"]) == (5, False)
    planned(admin, "/groups/movers/delete")
    admin.change("/groups/movers/delete", confirm="movers")
    assert admin.get("/groups/movers").status == 404
    for wrong in (
        {"to": "nowhere"},
        {"to": "by", "steps": "x"},
        {"to": "offset"},
        {"to": "time", "time": "x"},
    ):
        assert admin.plan("/groups/cloned/reset", topic="moved", **wrong).status == 400


def test_dead_letters_are_listed_exported_and_sent_again(admin: Visitor, broker: Broker) -> None:
    broker.create_topic("failing", queues=1)
    admin.change("/groups", name="failers", retries="0")

    with (
        Producer(broker.namesrv, group="p") as producer,
        PushConsumer(
            broker.namesrv, group="failers", topics="failing", handler=lambda _message: Reject()
        ),
        Inbox(broker.namesrv, "failing") as inbox,
    ):
        sent = [producer.send(Message("failing", f"=cmd {n}", keys=[f"f{n}"])) for n in range(2)]
        inbox.take(2)
        deadline = time.monotonic() + 30
        rows: list[dict[str, object]] = []
        while len(rows) < 2 and time.monotonic() < deadline:
            rows = admin.json("/dead-letters/failers")["letters"]
        assert {row["id"] for row in rows} == {each.message_id for each in sent}
        assert {row["origin_topic"] for row in rows} == {"failing"}
        counts: dict[str, int] = {}
        # The list of topics is kept for two seconds.
        while counts.get("failers") != 2 and time.monotonic() < deadline:
            counts = {row["group"]: row["count"] for row in admin.json("/dead-letters")["groups"]}
        assert counts["failers"] == 2
        admin.page("/dead-letters/failers")
        admin.page("/dead-letters")
        exported = admin.get("/dead-letters/failers/export?format=ndjson").text.splitlines()
        assert {json.loads(line)["body"] for line in exported} == {"=cmd 0", "=cmd 1"}
        table = admin.get("/dead-letters/failers/export?format=csv")
        assert "'=cmd 0" in table.text
        assert table.headers["content-disposition"].startswith("attachment")
        chosen = str(sent[0].message_id)
        answer = planned(admin, "/dead-letters/failers/resend", chosen=chosen)
        assert command_of(answer)[:6] == ["mqcore", "dlq", "resend", "failers", "--id", chosen]
        page = admin.change("/dead-letters/failers/resend", chosen=chosen)
        assert "1 of 1 dead letters were sent again" in page.document.text
        assert [each.keys for each in inbox.take(1)] == [("f0",)]


def test_a_member_consumes_a_message_again(admin: Visitor, broker: Broker) -> None:
    broker.create_topic("again", queues=1)
    seen: list[bytes] = []
    with (
        Producer(broker.namesrv, group="p") as producer,
        PushConsumer(
            broker.namesrv, group="agains", topics="again", handler=lambda m: seen.append(m.body)
        ),
    ):
        producer.send(Message("again", "x", keys="again-1"))
        deadline = time.monotonic() + 30
        while not seen and time.monotonic() < deadline:
            (member,) = admin.json("/groups/agains?tab=members")["members"]
        (row,) = admin.json("/messages?by=key&topic=again&key=again-1")["found"]
        form = {"group": "agains", "client": member["client_id"]}
        planned(admin, f"/messages/{row['offset_id']}/consume", **form)
        page = admin.change(f"/messages/{row['offset_id']}/consume", **form)
        assert "CR_SUCCESS" in page.document.text
        assert seen == [b"x", b"x"]


def test_a_setting_and_a_value_are_changed(admin: Visitor) -> None:
    path = "/brokers/broker-test/0/config"
    planned(admin, path, key="transactionTimeOut", value="12345")
    admin.change(path, key="transactionTimeOut", value="12345")
    tab = "/brokers/broker-test/0?tab=configuration&q=transactionTimeOut"
    assert admin.json(tab)["settings"][0]["value"] == "12345"
    assert admin.plan(path, key="no-such-key", value="1").status == 400
    refused = admin.plan(path, key="storePathRootDir", value="/elsewhere")
    form = next(each for each in refused.document.forms if each.fields.get("step") == "act")
    assert admin.ask("POST", path, form.fields).status == 400
    kv = {"namespace": "n", "key": "k", "value": "v"}
    planned(admin, "/namesrv/kv", **kv)
    admin.change("/namesrv/kv", **kv)
    assert admin.json("/namesrv?namespace=n")["kv"][0]["value"] == "v"
    admin.change("/namesrv/kv/delete", namespace="n", key="k", confirm="k")
    assert admin.json("/namesrv?namespace=n")["kv"] == []
    for step in ("wipe", "refuse", "back"):
        planned(admin, "/brokers/broker-test/0/drain", to=step)
    assert admin.plan("/brokers/broker-test/0/drain", to="away").status == 400
    planned(admin, "/brokers/broker-test/0/expire")


def test_what_was_done_is_audited(admin: Visitor, visit: Callable[[str], Visitor]) -> None:
    admin.change("/groups", name="audited", retries="1")
    row = admin.json("/audit?q=audited")["list"]["rows"][0]
    assert (row["user"], row["what"], row["outcome"]) == ("admin", "group create", "done")
    assert "csrf" not in row["fields"]
    assert visit("reader").get("/audit").status == 403
    assert "Audit" not in visit("reader").page("/").document.text


def test_the_audit_is_filtered_checked_and_downloaded(console: Console, admin: Visitor) -> None:
    admin.change("/groups", name="watched-over", retries="1")
    assert admin.plan("/groups", name="watched-over", retries="1").status == 400
    rows = admin.json("/audit?q=watched-over&user=admin")["list"]["rows"]
    assert [row["outcome"] for row in rows] == ["done"]
    assert admin.json("/audit?q=watched-over&user=reader")["list"]["rows"] == []
    assert admin.json("/audit?q=watched-over&only=failed")["list"]["rows"] == []
    assert "follow from one another" in admin.page("/audit?check=yes").document.text
    whole = admin.get("/audit/file")
    assert whole.headers["content-disposition"].startswith("attachment")
    assert b"watched-over" in whole.body
    path = console.state.audit.path
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:1], *lines[2:]]))
    try:
        assert "Line 2 does not follow" in admin.page("/audit?check=yes").document.text
    finally:
        path.write_bytes(b"".join(lines))


def test_a_timed_message_is_taken_back(admin: Visitor, broker: Broker) -> None:
    broker.create_topic("timed", queues=1)
    with Producer(broker.namesrv, group="p") as producer:
        sent = [
            producer.send(Message("timed", f"{n}", deliver_at=time.time() + 3_600))
            for n in range(2)
        ]

    def coming() -> dict[str, str]:
        (row,) = admin.json("/later")["brokers"]
        return {each["id"]: each["handle"] for each in row["coming"] if each["topic"] == "timed"}

    assert len(eventually(coming, lambda found: len(found) == 2)) == 2
    handles = coming()
    assert [handles[each.message_id] for each in sent] == [each.recall_handle for each in sent]
    admin.page("/later")
    for each in sent:
        planned(admin, "/later/recall", handle=handles[each.message_id])
    page = admin.change("/later/recall", handle=handles[sent[0].message_id])
    assert "was taken back" in page.document.text
    left = [sent[1].message_id]
    assert list(eventually(coming, lambda found: list(found) == left)) == left
    assert admin.plan("/later/recall", handle="nonsense").status == 400


def test_a_half_message_that_was_given_up_is_asked_about_again(
    admin: Visitor, broker: Broker
) -> None:
    broker.create_topic("plain", queues=1)
    with Producer(broker.namesrv, group="p") as producer:
        sent = producer.send(Message("plain", "x"))
    (row,) = admin.json(f"/messages?by=id&topic=plain&id={sent.message_id}")["found"]
    refused = admin.plan("/later/resume", id=row["offset_id"])
    assert refused.status == 400
    assert "it was not given up" in refused.document.text


def test_a_broker_is_drained_step_by_step_and_taken_back(admin: Visitor, tmp_path: Path) -> None:
    with Broker() as own, running(own.namesrv, tmp_path) as console:
        visitor = logged_in(console)
        own.create_topic("left", queues=1)
        with Producer(own.namesrv, group="p") as producer:
            producer.send(Message("left", "x"))
        path, tab = "/brokers/broker-test/0/drain", "/brokers/broker-test/0?tab=drain"
        data = visitor.json(tab)["drain"]
        assert data["step"] == "use"
        assert dict(data["unread"]) == {"left": 1}
        visitor.page(tab)
        page = visitor.change(path, to="wipe", confirm="broker-test")
        assert "producers leave broker-test" in page.document.text
        assert visitor.json(tab)["drain"]["step"] == "wiped"
        visitor.change(path, to="refuse", confirm="broker-test")
        data = visitor.json(tab)["drain"]
        assert (data["takes_sends"], data["step"]) == (False, "empty")
        visitor.change(path, to="back")
        assert visitor.json(tab)["drain"]["takes_sends"]
    assert admin.json("/brokers/broker-test/0?tab=drain")["drain"]["takes_sends"]
