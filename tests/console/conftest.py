"""A console over a broker in this process, on its own loop, and visitors of each role."""

from collections.abc import Callable, Iterator

import pytest

from console_running import running, visitor
from console_visits import Visitor
from mqcore.console import Console
from mqcore.testing import Broker

# Both change what a broker of 4.9 does by default.
RECALLS = {"recallMessageEnable": True, "enablePropertyFilter": True}


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker(
        settings={"timerWheelEnable": True, "traceTopicEnable": True, **RECALLS}
    ) as started:
        yield started


@pytest.fixture(scope="session")
def console(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    with running(broker.namesrv, tmp_path_factory.mktemp("console")) as started:
        yield started


@pytest.fixture
def admin(console: Console) -> Visitor:
    return visitor(console)


@pytest.fixture
def visit(console: Console) -> Callable[[str], Visitor]:
    return lambda role: visitor(console, role)
