"""2M-2S: a master of two is killed under official and our clients; its slave acts until it is back.

Sends go to the other broker name, consumers go on with both, in order too, and a group that begins
meanwhile is served by the slave. What the slave took of offsets the master has when it returns.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import mqcore
from interop.driver import Driver
from interop.patience import eventually
from interop.replicated import TOPIC, end_of
from interop.servers import OURS, official_software
from interop.test_failover_clients import Flood, acknowledged, java_flood
from interop.two_pairs import NAMES, TwoPairs, broker_name, offsets_at, two_pairs
from mqcore import Inspection

pytestmark = [pytest.mark.java, pytest.mark.slow]

_COUNT = 200
_PAUSE_S = 0.005
_POLL_MS = 1_000
# So much more the master that is back has stored when producers send to it again.
_GROWN_BYTES = 20_000
# Which client consumes, and whether in order.
_KINDS = [("java", False), ("java", True), ("ours", False), ("ours", True)]


@dataclass(frozen=True, slots=True)
class Got:
    """One delivery.

    Attributes:
        body: Its body.
        queue: The broker's address and the queue.
        offset: Its place there.
    """

    body: str
    queue: tuple[str, int]
    offset: int


Deliveries = Callable[[], list[Got]]


@contextmanager
def our_flood(namesrv: str) -> Iterator[Flood]:
    """A producer of ours that sends in the background."""
    sent: list[str] = []
    is_over = threading.Event()

    def send() -> None:
        with mqcore.Producer(namesrv, group="PG_ours") as producer:
            number = 0
            while not is_over.wait(_PAUSE_S):
                number += 1
                try:
                    producer.send(mqcore.Message(TOPIC, f"ours-{number}"))
                except mqcore.MQError:
                    continue
                sent.append(f"ours-{number}")

    thread = threading.Thread(target=send, name="flood")

    def end() -> list[str]:
        is_over.set()
        thread.join()
        return sent

    thread.start()
    try:
        yield Flood(lambda: len(sent), end)
    finally:
        end()


@contextmanager
def our_consumer(namesrv: str, group: str, *, orderly: bool) -> Iterator[Deliveries]:
    """A push consumer of ours."""
    found: list[Got] = []

    def take(message: mqcore.ReceivedMessage) -> None:
        queue = message.store_host, message.queue.queue_id
        found.append(Got(message.body_text(), queue, message.queue_offset))

    with mqcore.PushConsumer(
        namesrv, group=group, topics=TOPIC, handler=take, consume_from="earliest", orderly=orderly
    ):
        yield lambda: list(found)


@contextmanager
def java_consumer(
    driver: Driver, namesrv: str, group: str, *, orderly: bool
) -> Iterator[Deliveries]:
    """A push consumer of the official client."""
    options = {"order": "1"} if orderly else {}
    driver.call(
        "push", group, group=group, namesrv=namesrv, topic=TOPIC, poll_ms=_POLL_MS, **options
    )

    def found() -> list[Got]:
        items = driver.call("got", group, count=0)
        # The id of a message begins with who stored it.
        hosts = [each["offset_msg_id"][:16] for each in items]
        return [
            Got(each["body"], (host, each["queue_id"]), each["queue_offset"])
            for host, each in zip(hosts, items, strict=True)
        ]

    try:
        yield found
    finally:
        driver.close(group)


def consumers(
    stack: ExitStack, driver: Driver, cluster: TwoPairs, when: str
) -> dict[str, Deliveries]:
    """Starts one of each kind, each a group of its own; returns what they got, by group."""
    namesrv = cluster.namesrv.address
    found = {}
    for whose, orderly in _KINDS:
        group = f"CG_{when}_{whose}_{'ordered' if orderly else 'free'}"
        made = (
            java_consumer(driver, namesrv, group, orderly=orderly)
            if whose == "java"
            else our_consumer(namesrv, group, orderly=orderly)
        )
        found[group] = stack.enter_context(made)
    return found


def wait_until_got(all_: dict[str, Deliveries], bodies: Iterable[str], what: str) -> None:
    """Returns when every group was given all of some messages."""
    wanted = set(bodies)
    for group, got in all_.items():

        def missing(got: Deliveries = got) -> set[str]:
            return wanted - {each.body for each in got()}

        lost = eventually(missing, lambda left: not left)
        assert not lost, f"{what}: {len(lost)} of {len(wanted)} did not come to {group}"


def held(store: Path) -> set[str]:
    """Returns the bodies of the topic in a store that is at work."""
    batches = Inspection(store).scan(topics=[TOPIC])
    return {message.body.decode() for batch in batches for message in batch}


def check_order(group: str, deliveries: list[Got]) -> None:
    """Checks that the messages of each queue came first in their order, and none was left out."""
    queues: dict[tuple[str, int], list[int]] = defaultdict(list)
    for each in deliveries:
        queues[each.queue].append(each.offset)
    assert len(queues) >= len(NAMES)
    for queue, offsets in queues.items():
        first = list(dict.fromkeys(offsets))
        assert first == list(range(len(first))), f"{group}: {queue} came as {first}"


@pytest.mark.parametrize(
    ("master", "slave"),
    [
        pytest.param("ours", "ours", id="ours-ours"),
        pytest.param("ours", "5.3.3", id="ours-5.3.3", marks=pytest.mark.matrix),
        pytest.param("5.3.3", "ours", id="5.3.3-ours", marks=pytest.mark.matrix),
    ],
)
def test_clients_go_on_with_both_names_while_a_slave_acts(
    driver_53: Driver, tmp_path: Path, master: str, slave: str
) -> None:
    official = official_software("5.3.3")
    masters, slaves = (OURS if each == "ours" else official for each in (master, slave))
    with two_pairs(masters, slaves, tmp_path, official) as cluster, ExitStack() as stack:
        namesrv, dead = cluster.namesrv.address, cluster.first
        groups = consumers(stack, driver_53, cluster, "early")
        options = {"poll_ms": _POLL_MS, "timeout_ms": 3_000}
        floods = [
            stack.enter_context(java_flood(driver_53, namesrv, TOPIC, **options)),
            stack.enter_context(our_flood(namesrv)),
        ]
        for flood in floods:
            acknowledged(flood, _COUNT)
        dead.master.broker.kill()
        cluster.wait_until_acting(dead)
        for flood in floods:
            acknowledged(flood, _COUNT)
        copied = held(dead.slave_store)
        assert copied
        wait_until_got(groups, copied, "of the dead master")
        # Who begins now is served by the slave: its log, its offsets, its locks.
        late = consumers(stack, driver_53, cluster, "late")
        wait_until_got(late, copied, "of the dead master")
        groups |= late
        before = {group: committed(cluster, group, len(copied)) for group in groups}
        dead.master.broker.start()
        cluster.wait_until_whole()
        back = {group: offsets_at(dead.master.broker, group) for group in groups}
        for group, queues in before.items():
            behind = {at: queues[at] - back[group].get(at, 0) for at in queues}
            assert max(behind.values()) <= 0, f"{group} is behind by {behind}"
        end = end_of(dead.master.broker)
        wanted = end + _GROWN_BYTES
        assert eventually(lambda: end_of(dead.master.broker), lambda at: at > wanted) > wanted
        for flood in floods:
            acknowledged(flood, _COUNT)
        bodies = [body for flood in floods for body in flood.end()]
        wait_until_got(groups, bodies, "acknowledged")
        for group, got in groups.items():
            times = Counter(each.body for each in got())
            print(f"{group}: {len(times)} messages, {sum(times.values()) - len(times)} again")
            assert sum(times.values()) < 2 * len(times), "nobody falls back to the begin"
            if group.endswith("ordered"):
                check_order(group, got())
        for each in cluster.pairs:
            each.wait_until_equal()


def committed(cluster: TwoPairs, group: str, count: int) -> dict[int, int]:
    """Returns the offsets of a group at the slave that acts, when it has committed so many."""
    slave = cluster.first.slave

    def total(offsets: dict[int, int]) -> int:
        return sum(offsets.values())

    found = eventually(lambda: offsets_at(slave, group), lambda offsets: total(offsets) >= count)
    assert total(found) >= count, f"{group} of {broker_name(cluster.first)} committed {found}"
    return found
