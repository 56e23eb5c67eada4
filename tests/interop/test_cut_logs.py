"""An official broker that cut its log is stopped, and ours takes its directory over.

It was master, had messages that no other broker had, came back as a slave of another master and cut
them: it moves ends in memory only, so that old bytes stay in its log, and old units in the files of
its queues.
"""

from functools import partial
from pathlib import Path

import pytest

from interop.elected import Broker, Group, group
from interop.patience import eventually
from interop.replicated import TOPIC, pulled
from interop.servers import OURS, official_software
from loops import run_on
from mqcore.remoting import Client, RequestCode, expect

# Nobody waits for a slave: what is sent while it is paused is the master's alone.
KEYS = {"allAckInSyncStateSet": "false", "inSyncReplicas": "1", "minInSyncReplicas": "1"}
COMMON, AFTER = 40, 5
# What is sent while the slave is paused: more than the sockets of both take for it.
ALONE, ALONE_BYTES = 320, 50_000
FILE_BYTES = 64 << 20


def sent_to(broker: Broker, name: bytes, queues: list[int], size: int) -> list[bytes]:
    """Returns the bodies of messages to these queues, which were acknowledged."""
    code = RequestCode.SEND_MESSAGE_V2

    async def work() -> list[bytes]:
        bodies = []
        async with Client() as client:
            for at, queue_id in enumerate(queues):
                body = b"%s-%06d-" % (name, at) + b"x" * (size + at * 37 % 1_000)
                ext = {"a": "pg", "b": TOPIC, "c": "TBW102", "d": "4", "e": str(queue_id)}
                ext |= {"f": "0", "g": "1700000000000", "h": "0", "j": "0", "k": "false"}
                ext |= {"m": "false", "i": f"UNIQ_KEY\x01{name.decode()}-{at}\x02"}
                answer = await client.call(broker.address, code, ext, body, timeout_s=6)
                expect(answer, broker.address)
                bodies.append(body)
        return bodies

    return run_on("asyncio", work())


def cut_and_stop(them: Group) -> tuple[Broker, Broker, list[bytes]]:
    """Has the first master cut its log and stops it; it, its successor, what it alone was sent."""
    master = them.master()
    them.wait_for_in_sync(2)
    (slave,) = (each for each in them.brokers if each is not master)
    assert them.send(master, COMMON) == COMMON
    them.wait_until_equal()
    slave.program.pause()
    alone = sent_to(master, b"alone", [at % 4 for at in range(ALONE)], ALONE_BYTES)
    master.program.kill()
    slave.program.resume()
    assert them.master(master) is slave
    # All in the first queue: the others keep what the cut left in them.
    them.sent += sent_to(slave, b"after", [0] * AFTER, 300)
    master.program.start()
    them.wait_for_in_sync(2)
    them.wait_until_equal()
    master.program.stop()
    return master, slave, alone


@pytest.mark.java
@pytest.mark.matrix
@pytest.mark.parametrize(
    ("version", "file_bytes"),
    [("5.3.3", FILE_BYTES), ("5.3.3", 1 << 20), ("5.5.0", FILE_BYTES)],
    ids=["one-file", "files-that-went", "newest"],
)
def test_a_store_that_was_cut_is_taken_over(version: str, file_bytes: int, tmp_path: Path) -> None:
    official = official_software(version)
    keys = {**KEYS, "mappedFileSizeCommitLog": str(file_bytes)}
    with group([official, official], tmp_path, keys, controller=official) as them:
        first, second, alone = cut_and_stop(them)
        first.program.become(OURS)
        first.program.start()
        printed = eventually(first.program.printed, lambda text: "another broker cut" in text)
        assert "another broker cut the log" in printed
        them.wait_for_in_sync(2)
        them.wait_until_equal()
        # It leads, and its queues go on behind what is in the log.
        second.program.kill()
        assert them.master(second) is first
        assert them.send(first, COMMON) == COMMON
        found = eventually(partial(pulled, first.address), set(them.sent).issubset)
        assert set(them.sent) - set(found) == set()
        # Some of it lay in the sockets, and came to the slave after all: the rest was cut.
        assert set(found) - set(them.sent) < set(alone)
        assert len(found) == len(set(found))
