"""Fixtures for pytest: a broker, a producer, inboxes. pytest finds them where mqcore is installed.

Every run of pytest imports this file: it imports nothing but pytest before a fixture is used. Each
process of pytest-xdist has its own broker, on its own ports and directory. Async tests are run by
pytest-asyncio or, where that is not installed, by the plugin of anyio on asyncio.
"""

from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mqcore import Producer, aio
    from mqcore.testing import AsyncBroker, Broker, MakeAsyncInbox, MakeInbox

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


@pytest.fixture
def mqcore_aio_broker(mqcore_broker: "Broker") -> "AsyncBroker":
    """The broker of the test, with methods that are awaited."""
    return mqcore_broker.awaited


async def mqcore_aio_producer(mqcore_broker: "Broker") -> AsyncIterator["aio.Producer"]:
    """A producer of `mqcore.aio` at the test's broker, on the loop of the test."""
    from mqcore import aio

    async with aio.Producer(mqcore_broker.namesrv, group=_GROUP) as producer:
        yield producer


@pytest.fixture
def mqcore_aio_consumer(mqcore_broker: "Broker") -> Iterator["MakeAsyncInbox"]:
    """Makes inboxes whose methods are awaited, as the call itself is, and missing topics."""
    from contextlib import ExitStack

    from mqcore.testing import AsyncInbox, Inbox

    with ExitStack() as opened:

        async def consume(topic: str, **arguments: Any) -> AsyncInbox:
            await mqcore_broker.awaited.ensure_topic(topic)
            inbox = Inbox(mqcore_broker.namesrv, topic, **arguments)
            opened.callback(inbox.close)
            return await AsyncInbox(inbox).start()

        yield consume


def pytest_configure(config: pytest.Config) -> None:
    """Declares the fixtures that run on the loop of the test, for whoever runs async tests."""
    declare: Any = pytest.fixture
    if config.pluginmanager.hasplugin("asyncio"):
        import pytest_asyncio

        declare = pytest_asyncio.fixture
    fixtures = ModuleType("mqcore.testing.async_fixtures")
    vars(fixtures)["mqcore_aio_producer"] = declare(name="mqcore_aio_producer")(mqcore_aio_producer)
    config.pluginmanager.register(fixtures)
