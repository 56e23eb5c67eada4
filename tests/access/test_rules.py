"""The rule of every request code: there is one, it can be read, and `body` has who looks."""

from mqcore.access import BODY_PAIRS, topic_pair
from mqcore.model.relaxed_json import compact
from mqcore.native import Access
from mqcore.remoting import RULES, RequestCode
from mqcore.remoting.permissions import BODY

# What 5.3.3 checks of a request with exactly these fields; 105 at its proxy.
_ANY_ONE = {"any", "super", "open"}


def test_every_rule_can_be_read_by_the_engine() -> None:
    assert Access(dict(RULES)).version == 0


def test_rules_that_ask_nobody_are_the_ones_with_a_reason() -> None:
    assert {code for code, rule in RULES.items() if rule == "open"} == set()
    assert {code for code, rule in RULES.items() if rule == "any"} == {46, 106}


def test_bodies_are_looked_at_where_the_rule_has_it() -> None:
    asked = {code for code, rule in RULES.items() if rule.split(", ")[-1] == BODY}
    assert BODY_PAIRS.keys() <= asked


def test_a_heartbeat_needs_its_groups_and_what_they_subscribe() -> None:
    body = compact(
        {
            "clientID": "c",
            "producerDataSet": [{"groupName": "pg"}],
            "consumerDataSet": [
                {
                    "groupName": "g",
                    "subscriptionDataSet": [{"topic": "t"}, {"topic": "%RETRY%g"}],
                }
            ],
        }
    )
    assert BODY_PAIRS[RequestCode.HEART_BEAT]({}, body) == [("Group:g", 2), ("Topic:t", 2)]


def test_a_body_that_cannot_be_read_has_no_pair() -> None:
    for code, extract in BODY_PAIRS.items():
        for body in (b"", b"[", b"[]", b"1", b'{"consumerDataSet":[1,{}]}'):
            found = extract({}, body)
            # Of what names nothing the name is empty: nobody has rights there.
            assert all(resource.endswith(":") for resource, _ in found), (code, body, found)


def test_topics_of_groups_count_as_the_group() -> None:
    assert topic_pair("%RETRY%g", "Pub") == ("Group:g", 2)
    assert topic_pair("%DLQ%g", "Get") == ("Group:g", 32)
    assert topic_pair("t", "Pub") == ("Topic:t", 1)
