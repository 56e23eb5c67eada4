"""Attributes of topics by the official rules."""

import pytest

from mqcore.model.attributes import AttributeFaultError, altered, has_batch_queues, parse_changes


def changed(current: dict[str, str] | None, text: str) -> dict[str, str]:
    return altered(current, parse_changes(text))


def test_a_new_topic_gets_attributes_and_an_old_one_changes_them() -> None:
    new = changed(None, "+queue.type=BatchCQ,+message.type=FIFO")
    assert new == {"queue.type": "BatchCQ", "message.type": "FIFO"}
    assert has_batch_queues(new)
    assert changed(new, "") == new
    assert changed(new, "+message.type=DELAY,+reserve.time=5") == {
        "queue.type": "BatchCQ",
        "message.type": "DELAY",
        "reserve.time": "5",
    }
    assert changed(new, "-message.type") == {"queue.type": "BatchCQ"}
    assert not has_batch_queues(changed(None, "+queue.type=SimpleCQ"))


@pytest.mark.parametrize(
    ("current", "text", "fault"),
    [
        (None, "-message.type", "only add attribute is supported while creating topic"),
        (None, "+colour=red", "unsupported key: colour"),
        (None, "+queue.type=batchcq", "value is not in set"),
        (None, "+message.type=LITE", "value is not in set"),
        (None, "+reserve.time=-2", "value is not in range(-1, 9223372036854775807)"),
        (None, "+reserve.time=soon", 'For input string: "soon"'),
        (None, "queue.type=BatchCQ", "add/alter attribute format is wrong: queue.type"),
        (None, "queue.type", "delete attribute format is wrong: queue.type"),
        (None, "+queue.type=", "without a value"),
        (None, "+message.type=FIFO,+message.type=DELAY", "key duplication: +message.type"),
        ({}, "+queue.type=BatchCQ", "attempt to update an unchangeable attribute. key: queue.type"),
        ({"queue.type": "BatchCQ"}, "-queue.type", "attempt to update an unchangeable attribute"),
        ({}, "-message.type", "attempt to delete a nonexistent key: message.type"),
        ({"message.type": "FIFO"}, "+message.type=DELAY,-message.type", "alter duplication key"),
        ({}, "+a+b=c", "kv string format wrong."),
    ],
)
def test_what_may_not_be_is_refused_in_the_official_words(
    current: dict[str, str] | None, text: str, fault: str
) -> None:
    with pytest.raises(AttributeFaultError) as refused:
        changed(current, text)
    assert fault in str(refused.value)
