"""Makes the rounds of a fault under load, and counts what came of it.

    figures = run(fault, tmp_path, rounds=3, seed=1)

In each round messages are acknowledged, harm is done and taken back, and messages are acknowledged
again. In the end everything that anybody saw is compared with what the stores hold. Knows what
works beside the harm; not what the harm is.
"""

import random
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from faults.alone import Alone, LacksError, alone
from faults.beside import beside
from faults.clients import Clients
from faults.copied import Elected, copied, elected
from faults.figures import Figures
from faults.group import TOPIC
from faults.history import History, Outcome, PowerLoss, Queue, Read, Replica, Send
from faults.list import Fault, Who
from faults.load import Load
from interop.install import JavaMissingError, need_java

# Messages that are acknowledged before and behind the harm of a round.
_CALM = 40
# Between two sends of one of eight producers.
_PAUSE_S = 0.01
_JAVA_LACKS = "Java 17 and Maven"
# Of broken rules those that are printed.
_SHOWN = 8


class Brokers(Protocol):
    """Who is harmed."""

    are_cut: bool
    losses: list[PowerLoss]
    reads: list[Read]

    @property
    def address(self) -> str:
        """Where a sender finds the master."""

    @property
    def namesrv(self) -> str:
        """The name servers."""

    def heal(self) -> None:
        """Takes all harm back."""

    def settle(self) -> None:
        """Returns when whoever follows has everything."""

    def stop(self) -> None:
        """Ends the brokers cleanly."""

    def replicas(self) -> list[Replica]:
        """Returns what the stores hold."""


def run(fault: Fault, root: Path, rounds: int, seed: int, again: str = "") -> Figures:
    """Makes the rounds of a fault.

    Args:
        fault: The fault.
        root: A directory of its own.
        rounds: How often.
        seed: What its choices are drawn from.
        again: What runs it again.

    Raises:
        AssertionError: A round did not come to its end.
    """
    figures = Figures(fault.name, fault.what, again=again)
    try:
        if fault.needs_java or fault.needs_client:
            need_java()
        with _started(fault, root) as it:
            _all_rounds(fault, it, figures, rounds, random.Random(f"{seed} {fault.name}"))
    except LacksError as lacks:
        figures.lacks = str(lacks)
    except JavaMissingError:
        figures.lacks = _JAVA_LACKS
    return figures


def _all_rounds(
    fault: Fault, it: Brokers, figures: Figures, rounds: int, dice: random.Random
) -> None:
    history = History(are_cut=it.are_cut)
    with ExitStack() as stack:
        others = []
        if isinstance(it, Alone):
            others = [stack.enter_context(beside(kind, it)) for kind in fault.beside]
        for number in range(rounds):
            print(f"{fault.name}, round {number}", flush=True)
            _one_round(fault, it, figures, history, number, dice)
        figures.rounds = rounds
        for other in others:
            other.rest()
    it.stop()
    history.reads += it.reads
    # What works beside counts its own messages.
    history.replicas = [
        replace(each, queues={at: there for at, there in each.queues.items() if at[0] == TOPIC})
        for each in it.replicas()
    ]
    if fault.loses_s:
        count = forgive(history, it.losses, fault.loses_s, keeps_reads=fault.keeps_reads)
        figures.note = f"{count} more were lost as the interval allows"
    for violation in history.violations()[:_SHOWN]:
        print(violation, flush=True)
    figures.count(history)
    for other in others:
        other.count(figures)


def _one_round(
    fault: Fault,
    it: Brokers,
    figures: Figures,
    history: History,
    number: int,
    dice: random.Random,
) -> None:
    find = it.trio.find_master if isinstance(it, Elected) else None
    with (
        Load(it.address, f"{number:02x}", find=find, pause_s=_PAUSE_S) as load,
        Clients(it.namesrv, f"c{number:02x}") as clients,
    ):
        load.wait_for(_CALM, Outcome.ACKNOWLEDGED)
        fault.harm(it, dice)
        it.heal()
        healed = time.monotonic()
        load.wait_for(_CALM, Outcome.ACKNOWLEDGED)
    it.settle()
    for sends in (load.sends, clients.sends):
        figures.time(sends, healed)
        history.sends += sends
    history.reads += clients.reads


@contextmanager
def _started(fault: Fault, root: Path) -> Iterator[Brokers]:
    if fault.who is Who.ALONE:
        with alone(root, fault.keys, fault.needs) as one:
            yield one
    elif fault.who is Who.PAIR:
        with copied(root) as pair:
            yield pair
    else:
        with elected(root, controllers=3 if fault.who is Who.THREE_OF_THREE else 1) as three:
            yield three


def forgive(
    history: History, losses: list[PowerLoss], within_s: float, *, keeps_reads: bool = False
) -> int:
    """Takes back the promise of what asynchronous flush may lose; returns how many are gone.

    A message may be gone that was acknowledged at the most `within_s` before a loss of power, and
    only where everything behind it in its queue that was acknowledged before the loss is gone too.

    Args:
        history: What was seen; sends and reads of such messages are changed.
        losses: When power was lost.
        within_s: What the flush interval allows, s.
        keeps_reads: Whether nothing of it was given to a consumer. Otherwise groups may be beyond
            the end of a queue: a consumer goes on behind what it has read.
    """
    (replica,) = history.replicas
    queues: dict[Queue, list[Send]] = defaultdict(list)
    for send in history.sends:
        if send.outcome is Outcome.ACKNOWLEDGED:
            queues[send.queue].append(send)
    gone: set[str] = set()
    for queue, sends in queues.items():
        there = replica.queues.get(queue, {})
        for loss in losses:
            since = loss.began - within_s
            near = [each for each in sends if since <= each.ended <= loss.ended]
            near.sort(key=lambda send: -(send.offset or 0))
            for send in near:
                if send.offset is None or there.get(send.offset) == send.message_id:
                    break
                gone.add(send.message_id)
    history.sends = [
        replace(each, outcome=Outcome.UNKNOWN, offset=None) if each.message_id in gone else each
        for each in history.sends
    ]
    if keeps_reads:
        return len(gone)
    history.replicas = [replace(replica, offsets={})]
    # What was read may have been sent by somebody to whom nobody answered in time.
    kept = {each.message_id for each in history.sends if each.outcome is Outcome.ACKNOWLEDGED}
    history.reads = [
        each
        for each in history.reads
        if each.message_id in kept
        or replica.queues.get(each.queue, {}).get(each.offset) == each.message_id
    ]
    return len(gone)
