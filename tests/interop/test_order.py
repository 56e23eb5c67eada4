"""Strict order over the end of a broker: one queue, a producer that waits, an orderly consumer.

Each message is sent when the one before is acknowledged, so the numbers have the order of the
queue. The consumer may get a message again, since offsets are saved in steps; what it gets for the
first time comes in order, and nothing is left out.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import mqcore
from interop.cases import Case
from interop.driver import Driver, Item
from interop.patience import PATIENCE_S, eventually
from interop.servers import Servers, Software, serving
from interop.test_client_consumer import Received, push

pytestmark = pytest.mark.java

# Before, during and after the broker is away.
PART = 60
# Whose consumer; how the broker ends.
ENDS = [
    pytest.param(whose, how, id=f"{whose}-{ended}")
    for whose in ("5.3.3", "4.9.7", "ours")
    for how, ended in (("kill", "killed"), ("stop", "stopped"))
]

Numbers = Callable[[], list[int]]


@pytest.fixture
def alone(tmp_path: Path, sample_software: Software) -> Iterator[Servers]:
    """Returns servers that nobody else uses, with synchronous flush."""
    with serving(sample_software, tmp_path, {"flushDiskType": "SYNC_FLUSH"}) as servers:
        yield servers


@contextmanager
def consuming(case: Case, whose: str) -> Iterator[Numbers]:
    """Starts an orderly consumer; yields what returns the numbers in order of arrival."""
    if whose == "ours":
        received = Received()
        with push(case, received.add, orderly=True):
            yield lambda: [int(each.body_text().split("-")[1]) for each in list(received.messages)]
        return
    consumer = case.push(order=1)
    yield lambda: [number_of(item) for item in case.driver.call("got", consumer, count=0)]
    case.close(consumer)


def number_of(item: Item) -> int:
    return int(item["body"].split("-")[1])


def first_times(numbers: Iterable[int]) -> list[int]:
    """Returns the numbers in the order in which each came for the first time."""
    return list(dict.fromkeys(numbers))


class Counting:
    """Sends numbers, each when the one before is acknowledged, however long the broker is away."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._next = 0
        self.acknowledged: list[int] = []

    def send(self, count: int) -> None:
        """Sends so many more; a number that may have been stored is sent again."""
        with mqcore.Producer(self._case.namesrv, group=f"PG_{self._case.topic}") as producer:
            for number in range(self._next, self._next + count):
                message = mqcore.Message(self._case.topic, f"n-{number}")
                assert eventually(lambda: _sent(producer, message), bool)  # noqa: B023
                self.acknowledged.append(number)
        self._next += count


def _sent(producer: mqcore.Producer, message: mqcore.Message) -> bool:
    try:
        producer.send(message)
    except mqcore.MQError:
        return False
    return True


@pytest.mark.sampled(count=2)
@pytest.mark.parametrize(("whose", "how"), ENDS)
def test_order_outlives_the_broker(
    request: pytest.FixtureRequest, alone: Servers, whose: str, how: str
) -> None:
    name = {"4.9.7": "driver_49"}.get(whose, "driver_53")
    driver: Driver = request.getfixturevalue(name)
    case = Case(driver, alone, f"order_{whose}_{how}".replace(".", "_"))
    case.create(1)
    sender = Counting(case)
    with consuming(case, whose) as numbers:
        sender.send(PART)
        eventually(numbers, lambda seen: len(seen) >= PART // 2)
        # It ends under a producer that goes on, and while the consumer reads.
        sending = threading.Thread(target=sender.send, args=(PART,), name="sending")
        sending.start()
        getattr(alone.broker, how)()
        alone.broker.start()
        sending.join(PATIENCE_S)
        assert not sending.is_alive()
        sender.send(PART)
        wanted = list(range(3 * PART))
        assert sender.acknowledged == wanted
        seen = eventually(numbers, lambda seen: set(wanted) <= set(seen))
    assert first_times(seen) == wanted
    case.close()
