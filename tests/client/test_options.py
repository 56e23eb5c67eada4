"""Options as users write them: names, types, bounds and words, and what is made of them."""

import inspect
import pydoc
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import mqcore
from mqcore import aio
from mqcore.client import option_names, options
from mqcore.client.client_settings import ClientSettings
from mqcore.client.consumer_settings import PullConsumerSettings, PushConsumerSettings
from mqcore.client.joining import ConsumerJoin, ProducerJoin
from mqcore.client.option import declared, descriptions
from mqcore.client.option_sources import DERIVED
from mqcore.client.settings import ProducerSettings
from mqcore.errors import AddressError, MQError, UsageError
from mqcore.testing import Inbox

ROOT = Path(__file__).parents[2]
DECLARED = (
    ClientSettings,
    ProducerJoin,
    ProducerSettings,
    ConsumerJoin,
    PushConsumerSettings,
    PullConsumerSettings,
)
OF_CLASSES: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("Client", (ClientSettings,)),
    ("Producer", (ProducerJoin, ProducerSettings)),
    ("TransactionProducer", (ProducerJoin, ProducerSettings)),
    ("PushConsumer", (ConsumerJoin, PushConsumerSettings)),
    ("PullConsumer", (ConsumerJoin, PullConsumerSettings)),
)
SHOWN: tuple[tuple[Callable[..., Any], tuple[type, ...]], ...] = (
    *((getattr(mqcore, name), kinds) for name, kinds in OF_CLASSES),
    *((getattr(aio, name), kinds) for name, kinds in OF_CLASSES),
    (aio.Client.producer, (ProducerJoin, ProducerSettings)),
    (mqcore.Client.push_consumer, (ConsumerJoin, PushConsumerSettings)),
    (mqcore.Client.pull_consumer, (ConsumerJoin, PullConsumerSettings)),
    (mqcore.LogHandler, (ProducerJoin, ProducerSettings)),
    (Inbox, (ConsumerJoin, PushConsumerSettings)),
)
# Calls of either face, and the end of the error.
WRONG_NAMES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("Producer", {"retrys": 2}, "a producer has no option 'retrys': did you mean retries?"),
    ("Producer", {"gruop": "g"}, "a producer has no option 'gruop': did you mean group?"),
    ("Client", {"tsl": True}, "a client has no option 'tsl': did you mean tls?"),
    ("PushConsumer", {"orderley": True}, "did you mean orderly?"),
    ("PullConsumer", {"autocommit": False}, "did you mean auto_commit?"),
    ("Producer", {"orderly": True}, "has no option 'orderly': it is one of a push consumer"),
    ("Producer", {"topics": "t"}, "it is one of a push consumer and a pull consumer"),
    ("PullConsumer", {"concurrency": 3}, "it is one of a push consumer"),
    ("PullConsumer", {"xyzzy": 3}, "a pull consumer has no option 'xyzzy'"),
    ("Producer", {"bootstrap_servers": "h:1"}, "as the first argument, namesrv: '127.0.0.1:9876'"),
    ("PushConsumer", {"bootstrap.servers": "h:1"}, "the first argument, namesrv: '127.0.0.1:9876'"),
    ("Producer", {"group_id": "g"}, "a producer has no option 'group_id': use group="),
    ("Producer", {"acks": "all"}, "send_oneway waits for no answer"),
    ("Producer", {"linger_ms": 5}, "use linger_s=, in seconds, of a producer"),
    (
        "Producer",
        {"client_id": "c"},
        "use instance_name= of mqcore.Client; the rest of the id is made here",
    ),
    (
        "Producer",
        {"key": "k"},
        "an argument of mqcore.Message, sharding_key= (keys= choose no queue)",
    ),
    (
        "PullConsumer",
        {"auto_offset_reset": "latest"},
        "consume_from= of a consumer: 'earliest' or 'latest'",
    ),
    (
        "PullConsumer",
        {"max_poll_records": 5},
        "poll_count= of a pull consumer, or batch= of a push consumer",
    ),
    ("PullConsumer", {"enable_auto_commit": True}, "use auto_commit= of a pull consumer"),
    (
        "PullConsumer",
        {"handler": print},
        "PushConsumer calls a handler; a pull consumer is polled, or iterated over",
    ),
    (
        "Producer",
        {"check": print},
        "a producer has no option 'check': TransactionProducer has a check",
    ),
)
WRONG_VALUES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("Producer", {"retries": "2"}, "retries: an int is expected, not '2'"),
    ("Producer", {"retries": True}, "retries: an int is expected, not True"),
    ("Producer", {"retries": -1}, "retries: -1 is below 0"),
    ("Producer", {"retries": 1.5}, "retries: an int is expected, not 1.5"),
    ("Producer", {"timeout_s": "3"}, "timeout_s: a number is expected, not '3'"),
    ("Producer", {"timeout_s": 0}, "timeout_s: 0 is not above 0"),
    ("Producer", {"timeout_s": float("nan")}, "timeout_s: a number is expected, not nan"),
    ("Producer", {"trace": "yes"}, "trace: True or False is expected, not 'yes'"),
    ("Producer", {"group": 5}, "group: a str is expected, not 5"),
    ("Producer", {"compression": "zlibb"}, "not 'zlibb'; did you mean 'zlib'?"),
    ("Producer", {"compression_level": 12}, "compression_level: 12 is not within 0 to 9"),
    ("Producer", {"hooks": [print]}, "hooks: a sequence of SendHook is expected"),
    ("Producer", {"settings": 3}, "settings: a ProducerSettings or None is expected, not 3"),
    ("TransactionProducer", {"check": 3}, "check: a callable or None is expected, not 3"),
    ("Client", {"default_queues": 0}, "default_queues: 0 is below 1"),
    ("Client", {"credentials": ("a", "b")}, "a Credentials or None is expected, not tuple"),
    ("PushConsumer", {"batch": "3"}, "batch: an int or None is expected, not '3'"),
    ("PushConsumer", {"group": None}, "group: a str is expected, not None"),
    ("PushConsumer", {"topics": 5}, "topics: names are expected, not int"),
    ("PushConsumer", {"consume_from": "earliestt"}, "did you mean 'earliest'?"),
    ("PushConsumer", {"strategy": "stickie"}, "did you mean 'sticky'?"),
    ("PushConsumer", {"concurrency": 0}, "concurrency: 0 is not above 0"),
    ("PullConsumer", {"pull_count": 2000}, "pull_count: 2000 is not within 1 to 1024"),
    ("PullConsumer", {"offsets_directory": 3}, "a Path or a str is expected, not 3"),
)


def made(face: Any, name: str, given: dict[str, Any]) -> Any:
    required: dict[str, Any] = {"group": "g"} if name.endswith("Consumer") else {}
    if name == "PushConsumer":
        required["handler"] = print
    return getattr(face, name)(**required | given)


@pytest.mark.parametrize("path", DERIVED)
def test_what_is_made_of_the_declarations_is_current(path: str) -> None:
    remedy = f"{path} is not current: python -m mqcore.client.option_sources ."
    assert (ROOT / path).read_text(encoding="utf-8") == DERIVED[path](), remedy


@pytest.mark.parametrize("kind", DECLARED)
def test_every_option_is_described_and_has_a_reason_to_change_it(kind: type) -> None:
    described = descriptions(kind)
    for name, (_, option) in declared(kind).items():
        assert described.get(name), name
        assert option.change, name
        if name.endswith("_s"):
            assert option.unit == "s", name
        if "bytes" in name.split("_"):
            assert option.unit.split()[0] == "bytes", name


@pytest.mark.parametrize("kind", DECLARED)
def test_words_are_those_of_the_type(kind: type) -> None:
    hints = get_type_hints(kind)
    for name, (_, option) in declared(kind).items():
        words = {
            word
            for part in get_args(hints[name])
            for word in get_args(part)
            if isinstance(word, str)
        }
        assert words == set(option.words or ()), name


def test_the_page_has_a_row_of_every_parameter() -> None:
    page = (ROOT / "docs" / "client-options.md").read_text(encoding="utf-8")
    for names in options.KINDS.values():
        for name in names:
            assert f"| `{name}` |" in page, name


@pytest.mark.parametrize(("call", "kinds"), SHOWN)
def test_help_shows_every_option(call: Callable[..., Any], kinds: tuple[type, ...]) -> None:
    parameters = inspect.signature(call).parameters
    text = pydoc.plain(pydoc.render_doc(call))
    for kind in kinds:
        for name in declared(kind):
            assert name in parameters
            assert f"{name}: " in text
    assert "**" not in text.split("\n\n")[0]
    assert not any(each.kind is each.VAR_KEYWORD for each in parameters.values())


@pytest.mark.parametrize("face", [mqcore, aio])
@pytest.mark.parametrize(("name", "given", "expected"), WRONG_NAMES)
def test_a_wrong_name_gets_the_nearest_right_one(
    face: Any, name: str, given: dict[str, Any], expected: str
) -> None:
    with pytest.raises(UsageError) as caught:
        made(face, name, given)
    assert str(caught.value).endswith(expected)


def test_what_replaces_options_of_other_clients_is_there() -> None:
    there = {name for names in options.KINDS.values() for name in names}
    for call in (mqcore.Message, mqcore.Producer.send, mqcore.TransactionProducer):
        there.update(inspect.signature(call).parameters)
    for name, instead in option_names.MEANT.items():
        for shown in re.findall(r"\b(\w+)=", instead):
            assert shown in there, (name, shown)
        for shown in re.findall(r"mqcore\.(\w+)", instead):
            assert hasattr(mqcore, shown), (name, shown)


@pytest.mark.parametrize("face", [mqcore, aio])
@pytest.mark.parametrize(("name", "given", "expected"), WRONG_VALUES)
def test_a_wrong_value_fails_in_the_constructor(
    face: Any, name: str, given: dict[str, Any], expected: str
) -> None:
    with pytest.raises(UsageError) as caught:
        made(face, name, given)
    assert expected in str(caught.value)


@pytest.mark.parametrize("name", ["Client", "Producer", "PushConsumer", "PullConsumer"])
def test_a_number_is_no_address(name: str) -> None:
    with pytest.raises(AddressError, match="9876 is no address such as"):
        made(aio, name, {"namesrv": 9876})


def test_words_become_values() -> None:
    push = made(aio, "PushConsumer", {"consume_from": "earliest", "strategy": "sticky"}).settings
    assert push.consume_from is mqcore.ConsumeFrom.FIRST_OFFSET
    assert push.start is mqcore.ConsumeFrom.FIRST_OFFSET
    assert isinstance(push.division, mqcore.Sticky)
    pull = mqcore.PullConsumerSettings(consume_from="timestamp", strategy="consistent_hash")
    assert pull.start is mqcore.ConsumeFrom.TIMESTAMP
    assert isinstance(pull.division, mqcore.ConsistentHash)
    sent = mqcore.ProducerSettings(compression="zstd", compression_level=20)
    assert sent.algorithm is mqcore.Compression.ZSTD
    assert mqcore.PushConsumerSettings().start is mqcore.ConsumeFrom.LAST_OFFSET


def test_options_change_prepared_settings() -> None:
    settings = mqcore.PushConsumerSettings(batch=5, concurrency=2)
    found = made(aio, "PushConsumer", {"settings": settings, "concurrency": 3}).settings
    assert (found.batch, found.concurrency) == (5, 3)


def test_an_inbox_refuses_what_a_consumer_refuses() -> None:
    with pytest.raises(MQError, match="did you mean orderly"), Inbox("a:1", "t", orderley=True):  # type: ignore[call-arg]
        pass
