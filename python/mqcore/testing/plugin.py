"""Fixtures for pytest: a broker, a producer, inboxes. pytest finds them where mqcore is installed.

Every run of pytest imports this file: it imports nothing but pytest before a fixture is used. Each
process of pytest-xdist has its own broker, on its own ports and directory.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mqcore import Producer
    from mqcore.testing import Broker, MakeInbox

_GROUP = "mqcore-tests"


@pytest.fixture(scope="session")
def mqcore_session_broker() -> Iterator["Broker"]:
    """A broker for the whole run: for tests that share it, each with topics of its own."""
    from mqcore.testing import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def mqcore_session_producer(mqcore_session_broker: "Broker") -> Iterator["Producer"]:
    """A producer for the whole run, at the broker for the whole run."""
    from mqcore import Producer

    with Producer(mqcore_session_broker.namesrv, group=_GROUP) as producer:
        yield producer


@pytest.fixture
def mqcore_broker() -> Iterator["Broker"]:
    """A broker for one test: it may be restarted, killed, cut off."""
    from mqcore.testing import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def mqcore_producer(mqcore_broker: "Broker") -> Iterator["Producer"]:
    """A producer at the test's broker."""
    from mqcore import Producer

    with Producer(mqcore_broker.namesrv, group=_GROUP) as producer:
        yield producer


@pytest.fixture
def mqcore_consumer(mqcore_broker: "Broker") -> Iterator["MakeInbox"]:
    """Makes inboxes at the test's broker, and topics that are not there: `mqcore_consumer("t")`."""
    from contextlib import ExitStack

    from mqcore.testing import Inbox

    with ExitStack() as opened:

        def consume(topic: str, **settings: Any) -> Inbox:
            mqcore_broker.ensure_topic(topic)
            return opened.enter_context(Inbox(mqcore_broker.namesrv, topic, **settings))

        yield consume
