"""Brokers killed while reactors append to one topic: nothing acknowledged is lost, no hole is left.

`MQCORE_REACTOR_KILLS` sets the kills per case (`make crash`), `MQCORE_KILL_SEED` their instants.
"""

import os
import random
import socket
import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import mqcore
from interop.patience import PATIENCE_S
from interop.servers import OURS, Servers, serving
from mqcore.native import Command, FrameReader
from mqcore.remoting import RequestCode

KILLS = int(os.environ.get("MQCORE_REACTOR_KILLS", "3"))
SEED = int(os.environ.get("MQCORE_KILL_SEED", "1"))
CONNECTIONS = 9
QUEUES = 4
# Sends of one connection that wait for their answer.
WINDOW = 8
# Acknowledgements between a start and the kill.
ACKNOWLEDGED_MIN, ACKNOWLEDGED_MAX = 100, 4_000
TOPIC = "T"

# Where an acknowledged message lies: queue and queue offset.
Slot = tuple[int, int]


class Acknowledged:
    """What brokers acknowledged, of all lives; safe between threads."""

    def __init__(self) -> None:
        self.bodies: dict[Slot, bytes] = {}
        self._changed = threading.Condition()

    def note(self, slot: Slot, body: bytes) -> None:
        with self._changed:
            assert slot not in self.bodies, f"{slot} was given twice"
            self.bodies[slot] = body
            self._changed.notify_all()

    def wait_for_more(self, count: int) -> None:
        with self._changed:
            wanted = len(self.bodies) + count
            assert self._changed.wait_for(lambda: len(self.bodies) >= wanted, PATIENCE_S)


def send_until_it_ends(address: str, name: str, acknowledged: Acknowledged) -> None:
    """Sends by one connection until that breaks."""
    host, _, port = address.rpartition(":")
    splitter: Any = FrameReader()
    sent: dict[int, tuple[int, bytes]] = {}
    lengths = random.Random(name)
    opaque = 0
    with suppress(OSError), socket.create_connection((host, int(port))) as own:
        while True:
            while len(sent) < WINDOW:
                opaque += 1
                queue_id = opaque % QUEUES
                body = f"{name}-{opaque}".encode().ljust(lengths.randrange(1, 3_000), b".")
                ext = {
                    **{"a": "p", "b": TOPIC, "c": "TBW102", "d": "4", "e": str(queue_id)},
                    **{"f": "0", "g": "1", "h": "0", "i": "", "j": "0", "k": "false", "m": "false"},
                }
                sent[opaque] = queue_id, body
                code = RequestCode.SEND_MESSAGE_V2
                own.sendall(Command(code=code, opaque=opaque, ext=ext, body=body).encode())
            piece = own.recv(65_536)
            if not piece:
                return
            for answer in splitter.feed(piece):
                queue_id, body = sent.pop(answer.opaque)
                if answer.code == 0:
                    slot = queue_id, int(answer.ext["queueOffset"])
                    acknowledged.note(slot, body)


def one_life(servers: Servers, life: int, instants: random.Random, seen: Acknowledged) -> None:
    """Loads a broker by several connections and kills it in the middle."""
    address = servers.broker.address
    senders = [
        threading.Thread(target=send_until_it_ends, args=(address, f"{life}-{number}", seen))
        for number in range(CONNECTIONS)
    ]
    for sender in senders:
        sender.start()
    try:
        seen.wait_for_more(instants.randrange(ACKNOWLEDGED_MIN, ACKNOWLEDGED_MAX))
    finally:
        servers.broker.kill()
        for sender in senders:
            sender.join(PATIENCE_S)
    assert not any(sender.is_alive() for sender in senders)


def stored(store: Path) -> dict[Slot, bytes]:
    """Returns what the queues of the topic hold."""
    found: dict[Slot, bytes] = {}
    with mqcore.Store(store) as opened:
        for batch in opened.scan():
            for message in batch:
                if message.topic == TOPIC:
                    found[message.queue_id, message.queue_offset] = bytes(message.body)
    return found


# A life takes seconds where others use the machine, too.
@pytest.mark.timeout(120 + 20 * KILLS)
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("reactors", ["1", "3"])
def test_what_was_acknowledged_survives_kills(reactors: str, flush: str, tmp_path: Path) -> None:
    config = {"mqcoreReactors": reactors, "flushDiskType": flush, "defaultTopicQueueNums": "4"}
    instants = random.Random(f"{SEED} {reactors} {flush}")
    seen = Acknowledged()
    with serving(OURS, tmp_path, config) as servers:
        for life in range(KILLS):
            one_life(servers, life, instants, seen)
            servers.broker.start()
        servers.broker.stop()
        assert mqcore.Inspection(servers.store).verify().problems == []
        found = stored(servers.store)
    lost = {slot: body for slot, body in seen.bodies.items() if found.get(slot) != body}
    assert lost == {}
    offsets: dict[int, list[int]] = defaultdict(list)
    for queue_id, offset in found:
        offsets[queue_id].append(offset)
    assert set(offsets) == set(range(QUEUES))
    for queue_id, each in offsets.items():
        assert sorted(each) == list(range(len(each))), f"queue {queue_id} has a hole"
