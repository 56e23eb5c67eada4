"""What a message can do: wait, be booked or not, be chosen, come again, be traced.

Works on the broker that the flights went through, as any program would: through the client.
"""

import queue
import subprocess
import sys
import time
from collections.abc import Callable

from demo_spark import number
from rich.console import Console

import mqcore

# Settings of the broker of the demonstration: expressions, and a look at open transactions often.
SETTINGS = {
    "enablePropertyFilter": "true",
    "timerPrecisionMs": "100",
    "transactionCheckInterval": "500",
    "transactionTimeOut": "1000",
    "traceTopicEnable": "true",
}
LATE = "dep_delay > 60 AND origin = 'JFK'"
_BOARDING_S = 2.0
# Everything here comes within a second or two; what takes longer has failed.
_PATIENCE_S = 30.0

console = Console(soft_wrap=True, highlight=False)

Flights = list[dict[str, str]]


def show(namesrv: str, flights: Flights, middle: float) -> None:
    """Runs all of it; ends the demonstration where something is not as it should be.

    Args:
        namesrv: The name server.
        flights: The flights of the CSV.
        middle: A moment while they were published, in Unix seconds.
    """
    call_to_board(namesrv)
    book(namesrv)
    choose(namesrv, flights)
    rewind(namesrv, middle)
    trace(namesrv)


def _expect(is_true: bool, what: str) -> None:
    if not is_true:
        sys.exit(f"not as expected: {what}")


def _come(
    consumer: mqcore.PullConsumer,
    is_enough: Callable[[list[mqcore.ReceivedMessage]], bool],
) -> list[mqcore.ReceivedMessage]:
    """Polls until it is enough, or nothing came for too long."""
    found: list[mqcore.ReceivedMessage] = []
    while not is_enough(found):
        batch = consumer.poll(timeout_s=_PATIENCE_S)
        if not batch:
            break
        found += batch
    return found


def _reader(namesrv: str, group: str, topics: object) -> mqcore.PullConsumer:
    return mqcore.PullConsumer(
        namesrv,
        group=group,
        topics=topics,  # type: ignore[arg-type]
        consume_from=mqcore.ConsumeFrom.FIRST_OFFSET,
    )


def call_to_board(namesrv: str) -> None:
    """A message that waits for its time."""
    with mqcore.Producer(namesrv, group="gate") as producer:
        sent_s = time.time()
        producer.send(mqcore.Message("boarding", "UA1545 boards now", delay=_BOARDING_S))
    with _reader(namesrv, "passengers", "boarding") as consumer:
        (call,) = _come(consumer, bool)
    waited_s = time.time() - sent_s
    _expect(waited_s >= _BOARDING_S, f"the call came after {waited_s:.2f} s")
    console.print(f"delayed: {call.body.decode()!r}, asked for in 2 s, came after {waited_s:.2f} s")


def book(namesrv: str) -> None:
    """Transactions: one committed, one rolled back, one left open until the broker asks."""
    asked: list[str] = []

    def check(message: mqcore.ReceivedMessage) -> bool:
        asked.append(message.body.decode())
        return True

    with mqcore.TransactionProducer(namesrv, group="bookings", check=check) as producer:
        for seat, decision in (("12A", True), ("12B", False), ("12C", None)):
            message = mqcore.Message("seats", seat)
            producer.send_in_transaction(message, lambda _message, decided: decided, decision)
        with _reader(namesrv, "cabin", "seats") as consumer:
            found = _come(consumer, lambda messages: len(messages) >= 2)
    seats = sorted(message.body.decode() for message in found)
    _expect(seats == ["12A", "12C"] and asked == ["12C"], f"{seats} booked, {asked} asked about")
    console.print(
        "transactions: 12A committed, 12B rolled back, 12C undecided until the broker asked: "
        f"{' and '.join(seats)} are booked"
    )


def choose(namesrv: str, flights: Flights) -> None:
    """An expression that the broker tests; its count is that of the CSV."""
    expected = sum(
        number(flight["dep_delay"]) > 60 and flight["origin"] == "JFK" for flight in flights
    )
    seen: set[bytes] = set()
    began = time.perf_counter()
    with _reader(namesrv, "late-from-jfk", {"flights": mqcore.Sql(LATE)}) as consumer:
        while len(seen) < expected:
            batch = consumer.poll(timeout_s=_PATIENCE_S)
            if not batch:
                break
            # Some came twice: they were sent again after the broker was killed.
            seen.update(message.body for message in batch)
        consumer.commit()
    seconds = time.perf_counter() - began
    _expect(len(seen) == expected, f"{len(seen)} flights, {expected} in the CSV")
    console.print(
        f"SQL filter: {LATE}: {len(seen)} of {len(flights)} flights in {seconds:.2f} s, as many "
        "as in the CSV"
    )


def rewind(namesrv: str, middle: float) -> None:
    """A group goes back to a moment and reads on from there."""
    count = 0
    earliest = float("inf")
    with _reader(namesrv, "late-from-jfk", {"flights": mqcore.Sql(LATE)}) as consumer:
        while not consumer.queues:
            consumer.poll(timeout_s=0.1)
        for each in consumer.queues:
            consumer.seek_time(each, middle)
        while batch := consumer.poll(timeout_s=1.0):
            count += len(batch)
            earliest = min(earliest, *(message.store_timestamp_ms for message in batch))
    _expect(count > 0 and earliest >= int(middle * 1_000), f"{count} from {earliest} ms on")
    clock = time.strftime("%H:%M:%S", time.localtime(middle))
    console.print(f"rewind: the group went back to {clock} and read {count} late flights again")


def trace(namesrv: str) -> None:
    """One flight on its way: sent, stored, consumed."""
    with mqcore.Producer(namesrv, group="tower", trace=True) as producer:
        sent = producer.send(mqcore.Message("tracked", "UA1545", keys=["UA1545"]))
    handled: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    with mqcore.PushConsumer(
        namesrv,
        group="radar",
        topics="tracked",
        handler=lambda message: handled.put(message.body),
        consume_from=mqcore.ConsumeFrom.FIRST_OFFSET,
        trace=True,
    ):
        _expect(handled.get(timeout=_PATIENCE_S) == b"UA1545", "another flight was consumed")
    command = [sys.executable, "-m", "mqcore.cli.main", "msg", "trace", sent.message_id]
    console.print(f"trace: mqcore msg trace {sent.message_id}")
    _expect(
        subprocess.run([*command, "--namesrv", namesrv]).returncode == 0, "the trace was not found"
    )
