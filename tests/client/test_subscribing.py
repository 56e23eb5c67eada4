"""What text is taken as tags, and what is refused because it reads like SQL."""

from typing import Any

import pytest

import mqcore
from mqcore import Sql, Tags
from mqcore.aio import PushConsumer
from mqcore.client.subscribing import Subscriptions
from mqcore.errors import UsageError


@pytest.mark.parametrize(
    "text",
    [
        "a > 100 AND b = 'x'",
        "n>5",
        "a = 1",
        "region <> 2",
        'kind IN ("a")',
        "n between 3 and 5",
        "a is not null",
        "x Or y",
        "a || b AND c",
    ],
)
def test_sql_that_is_given_as_tags_is_refused(text: str) -> None:
    wanted = Subscriptions(lambda name: name, retry_topic=None)
    with pytest.raises(UsageError) as caught:
        wanted.add("T", text)
    assert f"SQL? Use mqcore.Sql({text!r})" in str(caught.value)
    assert wanted.topics == frozenset()
    # Whoever means it gets it.
    data = wanted.add("T", Tags(text))
    assert (data.expression, data.is_tag) == (text, True)
    assert not wanted.add("T", Sql(text)).is_tag


@pytest.mark.parametrize(
    "text", ["a", "a || b", "*", "AND", "in", "new-york", "a.b|c", "ORDER || x"]
)
def test_what_reads_like_tags_is_tags(text: str) -> None:
    wanted = Subscriptions(lambda name: name, retry_topic=None)
    assert wanted.add("T", text) == Subscriptions(lambda name: name, retry_topic=None).add(
        "T", Tags(text)
    )


@pytest.mark.parametrize("make", [PushConsumer, mqcore.PushConsumer])
def test_the_constructor_refuses_sql_as_tags(make: Any) -> None:
    with pytest.raises(UsageError, match=r"SQL\? Use mqcore\.Sql"):
        make("127.0.0.1:1", group="g", handler=print, topics={"t": "a > 100 AND b = 'x'"})


def test_tags_that_are_no_text_are_refused() -> None:
    wanted = Subscriptions(lambda name: name, retry_topic=None)
    with pytest.raises(UsageError, match="tags as str"):
        wanted.add("T", Tags(5))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"'a \|\| b' for several"):
        wanted.add("T", ["a", "b"])  # type: ignore[arg-type]
