"""Topics, groups, subscriptions and heartbeats as JSON, as leniently as clients write them."""

from mqcore.model.groups import GroupConfig
from mqcore.model.heartbeats import HeartbeatData
from mqcore.model.subscriptions import SubscriptionData, java_hash
from mqcore.model.topics import TopicConfig, group_fault, perm_text, topic_fault
from mqcore.model.versions import DataVersion, version_name


def test_tags_hash_as_in_java() -> None:
    assert java_hash("TagA") == 2598919
    assert java_hash("A") == 65
    assert java_hash("") == 0
    # Over UTF-16 units, and wrapping into the negative.
    assert java_hash("\U0001f600") == 1772899
    assert java_hash("polygenelubricants") == -(2**31)


def test_an_expression_gives_tags_and_their_hashes() -> None:
    wanted = SubscriptionData.of_expression("T", " TagA || A ||")
    assert wanted.tags == {"TagA", "A"}
    assert wanted.codes == {2598919, 65}
    assert SubscriptionData.of_expression("T", "*").tags == frozenset()


def test_a_heartbeat_of_c_plus_plus_is_read() -> None:
    beat = HeartbeatData.parse(
        b'{"clientID":"c","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,'
        b'"groupName":"g","messageModel":1,"subscriptionDataSet":[{"codeSet":["65"],'
        b'"subString":"A","subVersion":"17","tagsSet":["A"],"topic":"T"}]}]}\n'
    )
    (group,) = beat.consumers
    assert (group.consume_type, group.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert group.from_where == "CONSUME_FROM_LAST_OFFSET"
    (wanted,) = group.subscriptions
    assert (wanted.version, wanted.codes, wanted.kind) == (17, frozenset({65}), "TAG")
    assert beat.producer_groups == ()


def test_a_heartbeat_survives_its_encoding() -> None:
    text = (
        b'{"clientID":"c","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",'
        b'"consumeType":"CONSUME_ACTIVELY","groupName":"g","messageModel":"BROADCASTING",'
        b'"subscriptionDataSet":[],"unitMode":false}],"producerDataSet":[{"groupName":"p"}]}'
    )
    beat = HeartbeatData.parse(text)
    assert beat.encode() == text
    assert HeartbeatData.parse(beat.encode()) == beat


def test_what_is_missing_has_its_default() -> None:
    assert TopicConfig.of_json({"topicName": "T"}) == TopicConfig(name="T")
    assert GroupConfig.of_json({"groupName": "g"}) == GroupConfig(name="g")
    assert DataVersion.of_json({"counter": "3"}) == DataVersion(3, 0, 0)


def test_members_of_later_releases_stay() -> None:
    group = GroupConfig.of_json({"groupName": "g", "consumeTimeoutMinute": 3, "fromLater": [1]})
    assert group.to_json()["consumeTimeoutMinute"] == 3
    assert group.to_json()["fromLater"] == [1]
    assert GroupConfig.of_json(group.to_json()) == group


def test_illegal_names_are_found() -> None:
    assert topic_fault("%RETRY%g|a_b-1") is None
    for bad in ("", "  ", "../x", "a b", "ä", "a" * 128, "a\n"):
        assert topic_fault(bad) is not None, bad
    assert group_fault("g" * 255) is None
    assert group_fault("g" * 256) is not None


def test_versions_have_their_names() -> None:
    assert version_name(409) == "V4_9_8"
    assert version_name(393) == "V4_9_0"
    assert version_name(479) == "V5_3_3"
    assert version_name(453) == "V5_2_0"
    assert version_name(408) == "V4_9_8_SNAPSHOT"
    assert version_name(612) == "HIGHER_VERSION"


def test_permissions_as_text() -> None:
    assert [perm_text(perm) for perm in (7, 6, 4, 0)] == ["RWX", "RW-", "R--", "---"]
