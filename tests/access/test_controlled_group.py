"""A guarded name server, controller and group as processes: who is served, and a failover."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from access_control import ON, REFUSED, ROOT
from guarded_cluster import APP, INNER, tables_of, write_access
from interop.controlled import NAME, Group, group
from interop.patience import eventually
from interop.replicated import asked
from interop.servers import CLUSTER, OURS
from live_broker import field_texts, send_fields
from mqcore.access import User
from mqcore.model.relaxed_json import compact
from mqcore.native import Command
from mqcore.remoting import Credentials, RequestCode, expect
from request_fields import topic_fields

pytestmark = pytest.mark.slow

_READER = Credentials("app", "app-secret")
_NOBODY = Credentials("nobody", "nobody-secret")


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Group]:
    access = tmp_path / "access"
    tables = tables_of((f"Cluster:{CLUSTER}", "Get"))
    write_access(access, tables.with_new(User("nobody", _NOBODY.secret_key)))
    guard = {
        "mqcoreNamesrvAuth": "true",
        "authConfigPath": str(access),
        "clusterName": CLUSTER,
        "innerClientAuthenticationCredentials": INNER["innerClientAuthenticationCredentials"],
    }
    # Those of the official brokers' tests, which ours do not take.
    keys = ON | INNER | {"brokerId": "0", "brokerRole": "ASYNC_MASTER"}
    with group(OURS, OURS, tmp_path, guard=guard, keys=keys, who=ROOT) as found:
        yield found


def sent(brokers: Group, number: int, topic: str) -> Command:
    """Returns the answer to a send of the application's user."""
    address = brokers.brokers[number].address
    fields = field_texts(send_fields(topic))
    return asked(address, RequestCode.SEND_MESSAGE_V2, fields, b"x", who=APP)


def test_what_is_revoked_is_refused_by_the_slave_that_the_controller_promotes(
    brokers: Group,
) -> None:
    brokers.start(1)
    brokers.until_in_sync({1})
    brokers.start(2)
    brokers.until_in_sync({1, 2})
    who_may = {
        RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: (True, True, False, False),
        RequestCode.CONTROLLER_ELECT_MASTER: (True, False, False, False),
        RequestCode.CLEAN_BROKER_DATA: (True, False, False, False),
    }
    names = {"clusterName": CLUSTER, "brokerName": NAME, "brokerId": "1", "designateElect": "false"}
    for code, expected in who_may.items():
        body = compact([NAME]) if code == RequestCode.CONTROLLER_GET_SYNC_STATE_DATA else b""
        fields = names if code == RequestCode.CONTROLLER_ELECT_MASTER else {"brokerName": "other"}
        found = tuple(
            asked(brokers.address, code, fields, body, who=who).code != REFUSED
            for who in (ROOT, _READER, _NOBODY, None)
        )
        assert found == expected, code.name

    def root(code: RequestCode, ext: dict[str, object], body: object = None) -> None:
        text = b"" if body is None else compact(body)
        master = brokers.brokers[1].address
        expect(asked(master, code, field_texts(ext), text, who=ROOT), master)

    root(RequestCode.AUTH_CREATE_USER, {"username": "app"}, {"password": APP.secret_key})
    for topic in ("kept", "revoked"):
        root(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(topic))
    entries = [
        {"resource": f"Topic:{topic}", "actions": ["Pub"], "decision": "Allow"}
        for topic in ("kept", "revoked")
    ]
    acl = {"subject": "User:app", "policies": [{"policyType": "Custom", "entries": entries}]}
    root(RequestCode.AUTH_CREATE_ACL, {"subject": "User:app"}, acl)
    assert {sent(brokers, 1, topic).code for topic in ("kept", "revoked")} == {0}
    resource: dict[str, object] = {"subject": "User:app", "resource": "Topic:revoked"}
    root(RequestCode.AUTH_DELETE_ACL, resource)
    assert sent(brokers, 1, "revoked").code == REFUSED
    brokers.kill(1)
    brokers.until_master(2)
    kept = eventually(lambda: sent(brokers, 2, "kept"), lambda answer: answer.code == 0)
    assert kept.code == 0, kept
    assert sent(brokers, 2, "revoked").code == REFUSED
