"""The administrator in both faces: the same names, and the same results."""

import asyncio
import inspect
from collections.abc import Iterator

import pytest

import mqcore
import mqcore.admin
from loops import run_on
from mqcore import ConsumeFrom, Message, aio
from mqcore.admin import ClusterInfo, Entry, GroupConfig, Resource, TopicConfig, User
from mqcore.errors import (
    AddressError,
    ClosedError,
    MQError,
    NameServerError,
    NoRouteError,
    ResponseError,
    ResponseReason,
    UsageError,
    UsageReason,
)
from mqcore.testing import Broker, Inbox

FAMILIES = (
    *("topics", "groups", "brokers", "name_servers", "messages", "dead_letters", "traces"),
    "access",
)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def admin(broker: Broker) -> Iterator[mqcore.Admin]:
    with mqcore.Admin(broker.namesrv) as made:
        yield made


def methods(family: type) -> dict[str, object]:
    return {
        name: (inspect.signature(each), inspect.getdoc(each))
        for name, each in vars(family).items()
        if not name.startswith("_")
    }


def test_brokers_are_listed_masters_first() -> None:
    known = {"b": {0: "h:1", 1: "h:2"}, "a": {10: "h:3", 2: "h:4", 0: "h:5"}}
    found = ClusterInfo(brokers=known, clusters={}).masters_first()
    assert [(name, broker_id) for name, broker_id, _address in found] == [
        *(("a", 0), ("b", 0)),
        *(("a", 2), ("a", 10), ("b", 1)),
    ]
    assert [address for *_, address in found] == ["h:5", "h:1", "h:4", "h:3", "h:2"]


@pytest.mark.parametrize("family", FAMILIES)
def test_both_faces_have_the_same_methods(admin: mqcore.Admin, family: str) -> None:
    asynchronous = type(getattr(aio.Admin("127.0.0.1:1"), family))
    synchronous = type(getattr(admin, family))
    assert methods(synchronous)
    assert methods(synchronous) == methods(asynchronous)
    assert inspect.getdoc(synchronous) == inspect.getdoc(asynchronous)
    assert not any(
        inspect.iscoroutinefunction(getattr(synchronous, name)) for name in methods(synchronous)
    )


def test_both_faces_are_made_of_the_same() -> None:
    made = inspect.signature(mqcore.Admin)
    assert made.parameters == inspect.signature(aio.Admin).parameters
    assert aio.Admin is mqcore.admin.Admin


def test_a_topic_is_made_measured_and_deleted(admin: mqcore.Admin, broker: Broker) -> None:
    assert admin.topics.create("made", queues=2) == [broker.address]
    with mqcore.Producer(broker.namesrv, group="p") as producer:
        sent = producer.send(Message("made", b"x", keys="k"))
        producer.send(Message("made", b"y"))
    with Inbox(broker.namesrv, "made") as inbox:
        # What is behind the first message can be read: the first is in the index too.
        inbox.take(2)
    stats = admin.topics.stats("made")
    assert (len(stats.queues), sum(row.count for row in stats.queues)) == (2, 2)
    assert [each.body for each in admin.messages.by_key("made", "k")] == [b"x"]
    assert admin.messages.at(sent.queue, sent.queue_offset)[0].uniq_key == sent.message_id
    admin.topics.put(TopicConfig("made", read_queues=2, write_queues=1))
    (config,) = admin.topics.configs("made").values()
    assert config.write_queues == 1
    admin.topics.delete("made")
    with pytest.raises(NoRouteError):
        admin.topics.route("made")


def test_a_group_is_made_and_moved(admin: mqcore.Admin, broker: Broker) -> None:
    broker.create_topic("read", queues=1)
    with mqcore.Producer(broker.namesrv, group="p") as producer:
        queue = producer.send(Message("read", b"x")).queue
    assert admin.groups.create("billing", retries=3) == [broker.address]
    (config,) = admin.groups.configs()["billing"].values()
    assert config == GroupConfig("billing", retry_max_times=3)
    assert admin.groups.reset_to_time("billing", "read", mqcore.admin.LATEST_MS) == {queue: 1}
    assert admin.groups.reset_queue("billing", queue, 0) == 0
    assert admin.groups.progress("billing").lag == 1
    assert admin.groups.connections("billing") is None
    admin.groups.clone("billing", "copied")
    assert admin.groups.progress("copied").lag == 1
    admin.groups.delete("billing")
    assert "billing" not in admin.groups.configs()


def test_a_broker_is_asked_and_set(admin: mqcore.Admin, broker: Broker) -> None:
    (address,) = admin.brokers.cluster().masters().values()
    assert address == broker.address
    admin.brokers.change_config(address, {"transactionTimeOut": "12345"})
    assert admin.brokers.config(address)["transactionTimeOut"] == "12345"
    with pytest.raises(ResponseError) as refused:
        admin.brokers.change_config(address, {"storePathRootDir": "/elsewhere"})
    assert isinstance(refused.value.reason, ResponseReason)


def dead_letters(broker: Broker, group: str, topic: str, count: int) -> list[str]:
    """Sends messages that a group fails on; returns their ids when they are dead."""
    broker.ensure_topic(topic, queues=1)
    letters = f"%DLQ%{group}"
    broker.ensure_topic(letters, queues=1)
    with mqcore.Producer(broker.namesrv, group="p") as producer:
        sent = [producer.send(Message(topic, b"%d" % at)) for at in range(count)]
    with (
        mqcore.PushConsumer(
            broker.namesrv,
            group=group,
            topics=topic,
            handler=lambda _: mqcore.Reject(),
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ),
        Inbox(broker.namesrv, letters) as inbox,
    ):
        inbox.take(count)
    return [each.message_id for each in sent]


def test_users_are_made_given_rights_and_deleted(admin: mqcore.Admin, broker: Broker) -> None:
    at, access = broker.address, admin.access
    assert access.create_user(User("shop", "shop-secret")) == [at]
    with pytest.raises(ResponseError, match="The user is existed"):
        access.create_user(User("shop", "shop-secret"), brokers=[at])
    access.create_user(User("root", "root-secret", "Super"))
    assert access.change_user(User("shop", "", status="disable"), cluster=None) == [at]
    found = access.user_at(at, "shop")
    assert found is not None
    assert (found.kind, found.status) == ("Normal", "disable")
    assert "shop-secret" not in repr(found)
    assert access.user_at(at, "nobody") is None
    assert [user.name for user in access.users_at(at)] == ["root", "shop"]
    assert [user.name for user in access.users_at(at, "sho")] == ["shop"]
    orders, groups = Resource("Topic", "orders", is_prefix=True), Resource("Group", None)
    assert access.policies_at(at, "shop") is None
    access.grant("shop", Entry(orders, ("Pub", "Sub"), ("10.0.0.0/8",)))
    access.grant("shop", Entry(groups, ("Sub",), decision="Deny"), is_default=True)
    policies = access.policies_at(at, "shop")
    assert policies is not None
    entries = {each.kind: each.entries for each in policies.policies}
    assert entries["Custom"] == (Entry(orders, ("Pub", "Sub"), ("10.0.0.0/8",)),)
    assert entries["Default"][0].decision == "Deny"
    listed = access.all_policies_at(at, resource_part="orders")
    assert [str(e.resource) for acl in listed for p in acl.policies for e in p.entries] == [
        "Topic:orders*"
    ]
    access.revoke("shop", groups, is_default=True)
    access.revoke("shop", orders)
    assert access.policies_at(at, "shop") is None
    with pytest.raises(ResponseError, match="The acl is not exist"):
        access.revoke("shop")
    assert access.delete_user("shop") == access.delete_user("shop") == [at]
    access.delete_user("root")
    for wrong in (
        lambda: access.create_user("shop"),  # type: ignore[arg-type]
        lambda: access.user_at(at, " "),
        lambda: access.grant("shop"),
        lambda: access.grant("shop", "Topic:t"),  # type: ignore[arg-type]
        lambda: access.users_at(at, 7),  # type: ignore[arg-type]
    ):
        with pytest.raises(UsageError):
            wrong()


def test_dead_letters_are_listed_and_sent_again(admin: mqcore.Admin, broker: Broker) -> None:
    group = "picky"
    admin.groups.create(group)
    assert admin.dead_letters.of_group(group) == []
    with pytest.raises(MQError, match="there is no group nobody"):
        admin.dead_letters.of_group("nobody")
    dead = dead_letters(broker, group, "orders", 3)
    found = admin.dead_letters.of_group(group)
    assert sorted(each.message_id for each in found) == sorted(dead)
    assert {each.origin_topic for each in found} == {"orders"}
    (planned,) = admin.dead_letters.resend_all(group, ids=[dead[1]], dry_run=True)
    assert (planned.letter.message_id, planned.resent, planned.error) == (dead[1], None, None)
    assert len(broker.messages("orders")) == 3
    (sent,) = admin.dead_letters.resend_all(group, ids=[dead[1]])
    assert sent.resent is not None
    assert (sent.resent.queue.topic, sent.resent.offset) == ("orders", 3)
    assert admin.dead_letters.resend(group, found[0]).offset == 4
    assert len(admin.dead_letters.resend_all(group, limit=2)) == 2
    assert len(broker.messages("orders")) == 7


def test_what_cannot_be_sent_again_does_not_stop_the_others(
    admin: mqcore.Admin, broker: Broker
) -> None:
    group = "odd"
    (dead,) = dead_letters(broker, group, "back", 1)
    with mqcore.Producer(broker.namesrv, group="p") as producer:
        producer.send(Message(f"%DLQ%{group}", b"from nowhere"))
    results = admin.dead_letters.resend_all(group)
    errors = {each.letter.message_id: each.error for each in results}
    assert errors.pop(dead) is None
    (error,) = errors.values()
    assert error is not None
    assert "not known" in error.message
    assert len(broker.messages("back")) == 2


@pytest.mark.parametrize("variable", ["MQCORE_NAMESRV", "NAMESRV_ADDR"])
def test_the_name_server_may_come_from_the_environment(
    broker: Broker, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MQCORE_NAMESRV", "NAMESRV_ADDR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, broker.namesrv)
    with mqcore.Admin() as admin:
        assert broker.address in admin.brokers.cluster().masters().values()

    async def work() -> dict[str, str]:
        async with aio.Admin() as admin:
            return (await admin.brokers.cluster()).masters()

    assert broker.address in asyncio.run(work()).values()
    # An argument wins.
    with mqcore.Admin("127.0.0.1:1") as elsewhere, pytest.raises(NameServerError):
        elsewhere.brokers.cluster()


def test_wrong_use_is_refused(broker: Broker) -> None:
    with pytest.raises(AddressError):
        mqcore.Admin("nowhere")
    admin = mqcore.Admin(broker.namesrv)
    assert admin.topics.names()
    admin.close()
    admin.close()
    with pytest.raises(ClosedError):
        admin.topics.names()
    with pytest.raises(ClosedError):
        admin.brokers.runtime(broker.address)


def test_a_running_loop_is_never_stopped(broker: Broker) -> None:
    async def work() -> None:
        with pytest.raises(UsageError, match=r"mqcore\.aio") as refused:
            mqcore.Admin(broker.namesrv)
        assert refused.value.reason is UsageReason.RUNNING_LOOP

    run_on("asyncio", work())
