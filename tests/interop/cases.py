"""A case of official clients: names of its own, clients that are closed at its end.

    case = Case(driver, servers, "retry")
    case.create()                                   # the topic T_retry
    consumer = case.push(fail=1)
    case.send(case.producer(), count=5)             # SEND_OK, every one
    case.driver.got(consumer, 5)

Knows how to ask; what is right is the tests' business.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

import pytest

from interop.driver import Driver, Item
from interop.install import OfficialError
from interop.mqadmin import create_topic, until_routed
from interop.patience import eventually
from interop.servers import Servers


class Case:
    """One case: names that no other case uses, clients that are closed at its end."""

    def __init__(self, driver: Driver, servers: Servers, name: str) -> None:
        """Takes the JVM, the servers and a `name` that is free."""
        self.driver = driver
        self.namesrv = servers.namesrv.address
        self.topic = f"T_{name}"
        self.group = f"CG_{name}"
        self._name = name
        self._open: list[str] = []

    def create(self, queues: int = 4) -> None:
        """Creates the topic."""
        create_topic(self.driver, self.namesrv, self.topic, queues)

    def until_routed(self) -> None:
        """Waits until the name server has the topic."""
        until_routed(self.driver, self.namesrv, self.topic)

    def producer(self, **settings: object) -> str:
        """Starts a producer; returns its name."""
        return self._started("producer", group=f"PG_{self._name}", **settings)

    def push(self, **settings: object) -> str:
        """Starts a push consumer; returns its name."""
        return self._started("push", **{"group": self.group, "topic": self.topic, **settings})

    def lite(self, **settings: object) -> str:
        """Starts a lite pull consumer; returns its name."""
        return self._started("lite", **{"group": self.group, "topic": self.topic, **settings})

    def send(self, producer: str, **fields: object) -> list[Item]:
        """Sends; returns the results, every one of them SEND_OK."""
        sent = self.driver.call("send", producer, **{"topic": self.topic, "body": "m", **fields})
        assert {item["status"] for item in sent} <= {"SEND_OK"}, sent
        return sent

    def send_through(self, producer: str, count: int, **fields: object) -> list[Item]:
        """Sends as soon as a broker that was away takes messages again.

        The first message that is acknowledged is one of its own topic, not among those returned.
        """

        def probed() -> str:
            try:
                self.driver.call("send", producer, topic=f"{self.topic}_probe", body="probe")
            except OfficialError as error:
                return str(error)
            return ""

        refused = eventually(probed, lambda remark: not remark)
        assert not refused, refused
        return self.send(producer, count=count, **fields)

    def pull(self, **fields: object) -> list[Item]:
        """Returns every message of the topic, by a pull consumer."""
        asked = {"group": f"{self.group}_pull", "namesrv": self.namesrv, "topic": self.topic}
        return self.driver.call("pull", f"{self._name}-pull", **{**asked, **fields})

    def pulled(self, count: int, **fields: object) -> list[Item]:
        """Pulls until `count` messages are there; returns them."""
        return eventually(lambda: self.pull(**fields), lambda found: len(found) >= count)

    def allocated(self, consumer: str, count: int) -> set[int]:
        """Waits until a consumer has `count` queues of the topic; returns their ids."""
        got = self.driver.call("allocated", consumer, topic=self.topic, count=count)
        assert len(got) == count, got
        return {item["queue_id"] for item in got}

    def got(self, consumer: str, prefix: str) -> list[Item]:
        """Returns what a consumer got until now of the bodies that begin so."""
        items = self.driver.call("got", consumer, count=0)
        return [item for item in items if item["body"].startswith(prefix)]

    def close(self, *names: str) -> None:
        """Shuts clients down; without names all that are left."""
        self.driver.close(*(names or reversed(self._open)))

    def _started(self, kind: str, **settings: object) -> str:
        name = f"{self._name}-{kind}-{len(self._open)}"
        self._open.append(name)
        self.driver.call(kind, name, namesrv=self.namesrv, **settings)
        return name


def name_of(request: pytest.FixtureRequest, name: str, *more: str) -> str:
    """Returns a test's `name` as topics may be called, of its own in each try of the test.

    The messages of a try that failed are still in its topic.
    """
    tries = getattr(request.node, "execution_count", 1)
    words = [name.removeprefix("test_"), *more, *([f"try{tries}"] if tries > 1 else [])]
    return "".join(letter if letter.isalnum() else "_" for letter in "_".join(words))


def digests(items: Iterable[Item]) -> Counter[str]:
    """Returns how often each body is there."""
    return Counter(item["body_sha256"] for item in items)


def is_total(count: int) -> Callable[[list[list[Item]]], bool]:
    """Returns whether several consumers got so many deliveries together."""
    return lambda lists: sum(map(len, lists)) >= count


def bodies(items: Iterable[Item]) -> Counter[str]:
    """Returns how often each short body is there."""
    return Counter(item["body"] for item in items)


def by_queue(items: Iterable[Item]) -> dict[int, list[int]]:
    """Returns the queue offsets in order of arrival, by queue."""
    queues: dict[int, list[int]] = defaultdict(list)
    for item in items:
        queues[item["queue_id"]].append(item["queue_offset"])
    return dict(queues)
