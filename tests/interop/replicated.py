"""A master and a slave as processes, each ours or an official one, and what is asked of both.

    with pair(OURS, official_software("5.3.3"), tmp_path) as both:
        both.send(200)                  # acknowledged bodies are in both.sent
        both.slave.kill()
        both.slave.start()
        both.wait_until_equal()         # logs of equal ends; equal bytes, or an error

Knows requests and files; nothing of how either replicates.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from interop.patience import eventually
from interop.processes import free_port
from interop.servers import OURS, Program, Servers, Software, prepared
from loops import run_on
from mqcore.errors import MQError
from mqcore.model.relaxed_json import parse_object
from mqcore.native import Command, decode_records
from mqcore.remoting import Client, Credentials, RequestCode, ResponseCode, expect

TOPIC = "Copied"
# A log of several files after some thousand messages; an official slave of the same.
SMALL = {
    "mappedFileSizeCommitLog": str(1 << 20),
    "maxMessageSize": "65536",
    "reviveQueueNum": "1",
    "timerWheelEnable": "false",
    # An official slave reports for the first time when nothing was written for so long, not 5 s.
    "haSendHeartbeatInterval": "1000",
    # An official broker refuses a send that has waited for 200 ms: on a busy machine many do.
    "waitTimeMillsInSendQueue": "30000",
}
_TIMEOUT_S = 30.0


def ask(address: str, code: RequestCode) -> dict[str, object]:
    """Returns the object that a program answers with."""

    async def work() -> dict[str, object]:
        async with Client() as client:
            answer = await client.call(address, code, timeout_s=_TIMEOUT_S)
            return dict(parse_object(expect(answer, address).body))

    return run_on("asyncio", work())


def asked(
    address: str,
    code: RequestCode,
    ext: Mapping[str, str],
    body: bytes = b"",
    *,
    who: Credentials | None = None,
) -> Command:
    """Sends a request, signed or not; returns its answer."""

    async def work() -> Command:
        async with Client(credentials=who) as client:
            return await client.call(address, code, ext, body, timeout_s=_TIMEOUT_S)

    return run_on("asyncio", work())


async def send_one(client: Client, address: str, number: int, timeout_s: float) -> bytes:
    """Sends the message of a number, of a length of its own; returns its body when it is stored."""
    body = b"%07d" % number + b"x" * (number * 37 % 3_000)
    properties = f"KEYS\x01k{number}\x02UNIQ_KEY\x01u{number}\x02"
    ext = {"a": "pg", "b": TOPIC, "c": "TBW102", "d": "4", "e": str(number % 4)}
    ext |= {"f": "0", "g": "1700000000000", "h": "0", "i": properties, "j": "0"}
    ext |= {"k": "false", "m": "false"}
    code = RequestCode.SEND_MESSAGE_V2
    expect(await client.call(address, code, ext, body, timeout_s=timeout_s), address)
    return body


def send_delayed(address: str, body: bytes) -> None:
    """Sends a message of delay level 2."""
    ext = {"a": "pg", "b": TOPIC, "c": "TBW102", "d": "4", "e": "1", "f": "0", "h": "0"}
    ext |= {"g": "1700000000000", "i": "DELAY\x012\x02UNIQ_KEY\x01d\x02", "j": "0"}
    ext |= {"k": "false", "m": "false"}
    expect(asked(address, RequestCode.SEND_MESSAGE_V2, ext, body), address)


def pulled(address: str) -> list[bytes]:
    """Returns the bodies of the topic, as a consumer gets them from the begin on."""
    found = []
    for queue_id in range(4):
        next_offset: int | None = 0
        while next_offset is not None:
            ext = {
                "consumerGroup": "readers",
                "topic": TOPIC,
                "queueId": str(queue_id),
                "queueOffset": str(next_offset),
                "maxMsgNums": "32",
                "sysFlag": "4",
                "commitOffset": "0",
                "suspendTimeoutMillis": "0",
                "subscription": "*",
                "subVersion": "0",
                "expressionType": "TAG",
            }
            answer = asked(address, RequestCode.PULL_MESSAGE, ext)
            is_found = answer.code == ResponseCode.SUCCESS
            found += [each.body for each in decode_records(answer.body)] if is_found else []
            is_moved = answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_OFFSET_MOVED)
            next_offset = int(answer.ext["nextBeginOffset"]) if is_moved else None
    return found


def end_of(program: Program) -> int:
    """Returns the end of a broker's log; -1 while it does not answer."""
    try:
        table = ask(program.address, RequestCode.GET_BROKER_RUNTIME_INFO)["table"]
    except MQError:
        return -1
    assert isinstance(table, dict)
    return int(table["commitLogMaxOffset"])


def log_of(store: Path) -> dict[str, bytes]:
    """Returns the files of a log by their names."""
    return {path.name: path.read_bytes() for path in sorted((store / "commitlog").iterdir())}


@dataclass
class Pair:
    """A master and its slave.

    Attributes:
        master: The master, with its name server.
        slave: The slave.
        slave_store: The slave's store.
        sent: Bodies of messages that the master acknowledged.
    """

    master: Servers
    slave: Program
    slave_store: Path
    sent: list[bytes] = field(default_factory=list)

    def send(self, count: int) -> None:
        """Sends messages of many lengths to the master, a few at once."""

        async def one(client: Client, number: int) -> None:
            address = self.master.broker.address
            self.sent.append(await send_one(client, address, number, _TIMEOUT_S))

        async def work() -> None:
            begin = len(self.sent)
            async with Client() as client:
                for first in range(begin, begin + count, 8):
                    last = min(first + 8, begin + count)
                    await asyncio.gather(*(one(client, each) for each in range(first, last)))

        run_on("asyncio", work())

    def wait_until_equal(self) -> int:
        """Returns the end of both logs, when the slave has everything.

        The bytes below it are compared, in the files that both have.
        """

        def ends() -> tuple[int, int]:
            return end_of(self.master.broker), end_of(self.slave)

        master, slave = eventually(ends, lambda both: both[0] == both[1] > 0)
        assert slave == master, "the slave has not come to the end of its master"
        theirs, ours = log_of(self.master.store), log_of(self.slave_store)
        for name in theirs.keys() & ours.keys():
            below = max(0, master - int(name))
            assert ours[name][:below] == theirs[name][:below], name
        return master

    def wait_until_known(self) -> None:
        """Returns when the slave knows the topic: an official one asks once a minute."""

        def known() -> object:
            return ask(self.slave.address, RequestCode.GET_ALL_TOPIC_CONFIG)["topicConfigTable"]

        table = eventually(known, lambda topics: isinstance(topics, dict) and TOPIC in topics)
        assert isinstance(table, dict)
        assert TOPIC in table, "the slave does not know the topic"

    def commit(self, group: str, offset: int) -> None:
        """Commits an offset of a group in queue 0 at the master."""
        address = self.master.broker.address
        config = b'{"groupName":"%s","retryQueueNums":1}' % group.encode()
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        expect(asked(address, code, {}, config), address)
        ext = {"consumerGroup": group, "topic": TOPIC, "queueId": "0", "commitOffset": str(offset)}
        expect(asked(address, RequestCode.UPDATE_CONSUMER_OFFSET, ext), address)

    def inherit(self, software: Software) -> None:
        """Ends the master for good, and makes a master of the slave, which is not running."""
        self.master.broker.kill()
        self.slave.become(software)
        self.slave.settings |= {"brokerRole": "ASYNC_MASTER", "brokerId": "0"}
        self.slave.start()


@contextmanager
def pair(
    master: Software,
    slave: Software,
    root: Path,
    keys: Mapping[str, str] | None = None,
    *,
    namesrv: Software = OURS,
    namesrv_keys: Mapping[str, str] | None = None,
    before: Callable[[Pair], None] = lambda _: None,
    names_master: bool = False,
) -> Iterator[Pair]:
    """Starts a master with a name server, of ours unless it is named, and a slave; ends them.

    Args:
        master: Whose master.
        slave: Whose slave.
        root: A directory of their own.
        keys: Settings of both over the usual ones.
        namesrv: Whose name server.
        namesrv_keys: Its settings.
        before: What is done before the slave starts: an official one of 5.3 takes tables a minute
            after its start, and then once a minute.
        names_master: Whether a slave of ours is given the address of the log (`haMasterAddress`)
            and need not wait until a name server knows the master: an official one of 5.3 registers
            10 s after its start. An official slave of 5.3 follows nobody where that is set: it
            takes the address before there is somebody who connects.
    """
    servers = prepared(master, root / "master", {**SMALL, **(keys or {})})
    servers.namesrv.become(namesrv)
    servers.namesrv.settings |= namesrv_keys or {}
    both = followed(servers, slave, root / "slave")
    if names_master and slave is OURS:
        log_port = servers.broker.settings["haListenPort"]
        both.slave.settings["haMasterAddress"] = f"127.0.0.1:{log_port}"
    try:
        servers.namesrv.start()
        servers.broker.start()
        before(both)
        both.slave.start()
        yield both
    finally:
        both.slave.kill()
        servers.end()


def followed(servers: Servers, slave: Software, home: Path) -> Pair:
    """Returns a master with a slave that has its settings and was not started yet."""
    store, port = home / "store", free_port()
    settings = {
        **servers.broker.settings,
        "brokerRole": "SLAVE",
        "brokerId": "1",
        "slaveReadEnable": "true",
        "haListenPort": str(port + 1),
        "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
    }
    return Pair(servers, Program(slave, "broker", home, port, settings), store)
