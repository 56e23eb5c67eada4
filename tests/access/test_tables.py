"""Users and policies: what may be changed in them, in the official words, and their files."""

import pytest

from mqcore.access import AccessTables, Acl, Resource, User
from mqcore.access.model import SUPER
from mqcore.errors import BadJsonError, RefusedError


def acl_of(user: str, *entries: dict[str, object], kind: str = "Custom") -> Acl:
    return Acl.of_json({"policies": [{"policyType": kind, "entries": list(entries)}]}, user)


def entry(resource: str, *actions: str, **more: object) -> dict[str, object]:
    return {"resource": resource, "actions": list(actions), "decision": "Allow", **more}


def with_users(*names: str) -> AccessTables:
    tables = AccessTables()
    for name in names:
        tables = tables.with_new(User(name, f"{name}-secret"))
    return tables


@pytest.mark.parametrize(
    ("user", "text"),
    [
        (User(" ", "s"), "username can not be blank"),
        (User("u", " "), "password can not be blank"),
        (User("there", "s"), "The user is existed"),
    ],
)
def test_a_user_that_cannot_be_is_refused_in_the_official_words(user: User, text: str) -> None:
    with pytest.raises(RefusedError, match=text) as refused:
        with_users("there").with_new(user)
    assert refused.value.code == 16


def test_a_change_leaves_what_it_does_not_name() -> None:
    tables = AccessTables().with_new(User("u", "first", SUPER))
    changed = tables.with_changed(User("u", "", "", "disable")).users["u"]
    assert changed == User("u", "first", SUPER, "disable")
    assert tables.with_changed(User("u", "second")).users["u"].secret == "second"
    with pytest.raises(RefusedError, match="The user is not exist"):
        tables.with_changed(User("v", "s"))


def test_who_deletes_a_user_deletes_its_policies() -> None:
    tables = with_users("u", "v").with_policies(acl_of("u", entry("Topic:t", "Pub")))
    left = tables.without_user("u")
    assert (list(left.users), dict(left.acls)) == (["v"], {})


def test_policies_are_merged_by_resource_and_an_entry_is_replaced_whole() -> None:
    first = acl_of("u", entry("Topic:t", "Pub", sourceIps=["10.0.0.1"]), entry("Group:g", "Sub"))
    tables = with_users("u").with_policies(first)
    tables = tables.with_policies(acl_of("u", entry("Topic:t", "Sub")))
    tables = tables.with_policies(acl_of("u", entry("Topic:*", "Get"), kind="Default"))
    assert tables.acls["u"].to_json() == {
        "subject": "User:u",
        "policies": [
            {
                "policyType": "Custom",
                "entries": [
                    {"resource": "Topic:t", "actions": ["Sub"], "decision": "Allow"},
                    {"resource": "Group:g", "actions": ["Sub"], "decision": "Allow"},
                ],
            },
            {
                "policyType": "Default",
                "entries": [{"resource": "Topic:*", "actions": ["Get"], "decision": "Allow"}],
            },
        ],
    }
    topic = Resource.of_text("Topic:t")
    left = tables.without_policies("u", "", topic)
    assert [str(e.resource) for e in left.acls["u"].policies[0].entries] == ["Group:g"]
    assert "u" not in tables.without_policies("u", "", None).acls


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({}, "The resource is null."),
        (entry("Nothing:t", "Pub"), "The resource is null."),
        (entry("Topic:t"), "The actions is empty."),
        (entry("Topic:t", "Write"), "The actions is empty."),
        (entry("Topic:t", "Any"), "The actions can not be Any."),
        (entry("Topic:t", "Pub", sourceIps=[" "]), "The source ip is empty."),
        (entry("Topic:t", "Pub", sourceIps=["10.0.0.256"]), "The source ip is invalid."),
        (entry("Topic:t", "Pub", decision="Maybe"), "The decision is null or illegal."),
    ],
)
def test_an_entry_that_cannot_be_is_refused_in_the_official_words(
    row: dict[str, object], text: str
) -> None:
    with pytest.raises(RefusedError, match=text):
        with_users("u").with_policies(acl_of("u", row))


def test_policies_of_nobody_are_refused() -> None:
    with pytest.raises(RefusedError, match=r"The subject of User:u is not exist\."):
        AccessTables().with_policies(acl_of("u", entry("Topic:t", "Pub")))
    with pytest.raises(RefusedError, match=r"The policies is empty\."):
        with_users("u").with_policies(Acl("u", ()))
    with pytest.raises(RefusedError, match=r"The acl is not exist\."):
        with_users("u").without_policies("u", "", None)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("*", "*"),
        ("topic:t", "Topic:t"),
        ("Group:g*", "Group:g*"),
        ("Group:g*x*", "Group:g*"),
        ("Cluster:*", "Cluster:*"),
        ("Any:x", "*"),
        ("Topic:a:b", "Topic:a:b"),
    ],
)
def test_resources_are_read_as_officially(text: str, shown: str) -> None:
    assert str(Resource.of_text(text)) == shown


def test_tables_come_back_from_their_files() -> None:
    tables = with_users("u", "v").with_policies(
        acl_of("u", entry("Topic:t*", "Pub", sourceIps=["10.0.0.0/8", "::1"]))
    )
    again = AccessTables().with_users_text(tables.users_text()).with_acls_text(tables.acls_text())
    assert (dict(again.users), dict(again.acls)) == (dict(tables.users), dict(tables.acls))


@pytest.mark.parametrize("text", [b"{}", b"[]", b'{"users":[{}]}', b'{"users":[{"username":"u"}]}'])
def test_a_file_of_users_that_cannot_be_read_is_an_error(text: bytes) -> None:
    with pytest.raises(BadJsonError):
        AccessTables().with_users_text(text)


def test_secrets_are_in_no_text_of_the_objects() -> None:
    tables = with_users("u")
    assert "u-secret" not in repr(tables)
    assert "u-secret" not in repr(tables.users["u"])
    assert "password" not in tables.users["u"].to_json(with_secret=False)


def test_filters_are_parts_of_names() -> None:
    tables = with_users("alpha", "beta").with_policies(
        acl_of("alpha", entry("Topic:orders", "Pub"), entry("Topic:other", "Sub"))
    )
    assert [x.name for x in tables.users_like("et")] == ["beta"]
    found = tables.acls_like("alp", "orders")
    assert [[str(e.resource) for e in x.policies[0].entries] for x in found] == [["Topic:orders"]]
    assert tables.acls_like("beta", "") == []
