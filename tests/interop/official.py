"""The official Apache RocketMQ brokers as the reference for a store directory.

    official = official_release("5.3.3")               # jars by Maven, classes by javac; cached
    write_topics(store, {"flights": 4})                # without it a broker refuses to serve pulls
    with official.serve(store, config) as broker:      # free ports; returns when it serves
        broker.queues()                                # [(topic, queue_id), ...] on its disk
        broker.offsets("flights", 0)                   # (min, max)
        broker.pull("flights", 0)                      # every message, as manifest lines
        broker.pull_all()                              # Pulled(messages, refused) of all queues
        broker.query("flights", "N14228")              # by key, newest first
        broker.query_unique("flights", uniq_key)
        broker.search("flights", 0, time_ms)           # queue offset by store time
        broker.send("flights", 0, b"body", {"TAGS": "AA"})
        broker.status()["commitLogMaxOffset"]
        broker.kill()                                  # kill -9: at once; without it the end
                                                       # stops cleanly (3 s for 4.9, 8 s for 5.3)
    official.refusal(store)                            # why it does not start, for a held store
    with official.lock_held(store): ...                # the lock as the official broker takes it

Messages are dictionaries with the fields and values of the golden manifests, read by the official
decoder of the same version. A served store is changed (that is what a broker does): give it a
copy. What the broker itself appends after its start lies at or above the end of the log it found:
`below(messages, end)` leaves it out. No name server is needed: questions go to the broker. Sizes
of files belong to the caller: `config` must have `mappedFileSizeCommitLog` and its like as they
were when the store was written.

Knows nothing of mqcore; needs Java 17 and Maven, and raises an error where they are missing.
"""

import json
import signal
import subprocess
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from interop.install import CACHE, OfficialError, compiled, fetched, need_java
from interop.patience import eventually
from interop.processes import (
    STOP_TIMEOUT_S,
    StartError,
    ended,
    environment,
    free_port,
    pipe,
    wait_until_serving,
    write_log_settings,
)

# The releases that everything is asked of, and the newest one, of what it has otherwise.
VERSIONS = ("4.9.7", "5.3.3")
NEWEST = "5.5.0"

# Ports are free when probed and may be taken when used: so a start is tried again elsewhere.
START_ATTEMPTS = 4

# The official brokers reach into the JDK.
_OPENED = [
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
]
# A small heap, and a JVM that starts fast rather than runs fast.
_JVM = ["-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
# The age of a golden store and a nearly full disk must not make the official broker delete files.
_KEEP_FILES = [
    "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",
    "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.99",
]
_BROKER_CONFIG = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "brokerId": "0",
    "brokerIP1": "127.0.0.1",
    "fileReservedTime": "1000000",
    "diskMaxUsedSpaceRatio": "95",
    "flushDiskType": "ASYNC_FLUSH",
    "transactionCheckInterval": "36000000",
    # Few round trips: a queue in one answer where it fits.
    "maxTransferCountOnMessageInMemory": "1024",
    "maxTransferCountOnMessageInDisk": "1024",
    "maxTransferBytesOnMessageInMemory": "4194304",
    "maxTransferBytesOnMessageInDisk": "4194304",
    "maxMsgsNumBatch": "1024",
}
# 5.x only: keep delayed messages where they are; and one revive service, since each of the usual
# eight takes a second to stop.
_BROKER_CONFIG_5 = {"timerStopDequeue": "true", "reviveQueueNum": "1"}

Message = dict[str, Any]
Queue = tuple[str, int]


class RefusedError(OfficialError):
    """The broker answered with a response code other than success."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a broker served of all its queues.

    Attributes:
        messages: In order of queue, then queue offset.
        refused: Reason for each queue it did not serve.
    """

    messages: list[Message]
    refused: dict[Queue, str]


def below(messages: Iterable[Message], physical_offset: int) -> list[Message]:
    """Returns the messages that start below `physical_offset`."""
    return [message for message in messages if message["physical_offset"] < physical_offset]


def write_topics(store: Path, topics: Mapping[str, int]) -> None:
    """Writes `config/topics.json` as the official broker does, if it is not there.

    Args:
        store: Root directory of the store.
        topics: Number of queues, to read and to write, by topic.
    """
    path = store / "config" / "topics.json"
    if path.exists():
        return
    table = {
        topic: {
            "order": False,
            "perm": 6,
            "readQueueNums": queues,
            "topicFilterType": "SINGLE_TAG",
            "topicName": topic,
            "topicSysFlag": 0,
            "writeQueueNums": queues,
        }
        for topic, queues in topics.items()
    }
    content = {"dataVersion": {"counter": 1, "timestamp": 0}, "topicConfigTable": table}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent="\t"), encoding="utf-8")


@cache
def official_release(version: str) -> "Official":
    """Returns a release that is ready to run; fetches and compiles what is missing.

    Raises:
        JavaMissingError: Java 17, javac or Maven is not there.
        OfficialError: Maven or javac failed.
    """
    need_java()
    home = CACHE / version
    jars = fetched(version, home)
    classes = compiled(home, jars)
    return Official(version, f"{classes}:{jars}/*")


class Official:
    """One official release: its brokers, and one process that asks them."""

    def __init__(self, version: str, class_path: str) -> None:
        """Takes what `official_release` prepared."""
        self.version = version
        self._class_path = class_path
        self._client: subprocess.Popen[str] | None = None

    @contextmanager
    def serve(self, store: Path, config: Mapping[str, str] | None = None) -> Iterator["Broker"]:
        """Starts a broker on `store` and stops it cleanly at the end, if it is still there.

        Args:
            store: Root directory of the store; it is changed.
            config: Settings over the official broker's own.

        Raises:
            StartError: The broker ended instead of serving.
        """
        with TemporaryDirectory(prefix="mqcore-official-") as scratch:
            broker = self._started(store, config or {}, Path(scratch))
            try:
                yield broker
            finally:
                broker.stop()

    def refusal(self, store: Path, config: Mapping[str, str] | None = None) -> str:
        """Starts a broker that must not come up and returns what it printed.

        The official broker takes the lock last: before it finds it held, it has loaded and
        recovered the store. Where `abort` is present it has by then removed log files beyond the
        end (those made ahead of need) and index files newer than the checkpoint, and written
        checkpoint and config.

        Raises:
            OfficialError: It serves the store.
        """
        try:
            with self.serve(store, config) as broker:
                broker.kill()
        except StartError as error:
            return error.output
        raise OfficialError(f"the official broker {self.version} serves {store}")

    @contextmanager
    def lock_held(self, store: Path) -> Iterator[None]:
        """Holds the store's lock in a process of its own, taken as the official broker takes it.

        Raises:
            OfficialError: Another process holds it.
        """
        command = self.java("mqcore.interop.Lock", store, Path(store))
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as holder:
            try:
                printed = pipe(holder.stdout).readline().strip()
                if printed != "locked":
                    raise OfficialError(
                        f"the lock of {store} is held by another process: {printed}"
                    )
                yield
            finally:
                pipe(holder.stdin).close()
                holder.wait(STOP_TIMEOUT_S)

    def ask(self, *question: object) -> list[Message]:
        """Puts one question (see Ask.java) and returns the items of the answer.

        Raises:
            RefusedError: The broker refused it.
            OfficialError: The asking process ended.
        """
        client = self._client
        if client is None or client.poll() is not None:
            client = self._client = self._start_client()
        pipe(client.stdin).write("\t".join(str(field) for field in question) + "\n")
        pipe(client.stdin).flush()
        items: list[Message] = []
        for line in pipe(client.stdout):
            item: Message = json.loads(line)
            if "refused" in item:
                raise RefusedError(f"{question}: {item['refused']}")
            if item.get("done") is True:
                return items
            items.append(item)
        raise OfficialError(f"the asking process ended at {question}")

    def close(self) -> None:
        """Ends the asking process, if there is one."""
        client, self._client = self._client, None
        if client is not None:
            pipe(client.stdin).close()
            client.wait(STOP_TIMEOUT_S)
            pipe(client.stdout).close()

    def _start_client(self) -> subprocess.Popen[str]:
        scratch = CACHE / self.version / "ask"
        scratch.mkdir(exist_ok=True)
        return subprocess.Popen(
            self.java("mqcore.interop.Ask", scratch),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )

    def java(
        self, main: str, home: Path, *arguments: object, properties: Mapping[str, str] | None = None
    ) -> list[str]:
        """Returns the command line of a class of this release, or of ours beside it."""
        # user.home is where the official classes put their logs.
        options = [*_OPENED, *_JVM, *_KEEP_FILES, f"-Duser.home={home}", "-Dfile.encoding=UTF-8"]
        options += [f"-D{key}={value}" for key, value in (properties or {}).items()]
        given = [str(argument) for argument in arguments]
        return ["java", *options, "-cp", self._class_path, main, *given]

    def _started(self, store: Path, config: Mapping[str, str], scratch: Path) -> "Broker":
        write_log_settings(scratch)
        for attempt in range(START_ATTEMPTS):
            port = free_port()
            settings = {
                **_BROKER_CONFIG,
                **(_BROKER_CONFIG_5 if self.version.startswith("5") else {}),
                "listenPort": str(port),
                "haListenPort": str(port + 1),
                "storePathRootDir": str(store),
                "storePathCommitLog": str(store / "commitlog"),
                **config,
            }
            conf = scratch / "broker.conf"
            conf.write_text("".join(f"{k}={v}\n" for k, v in settings.items()), encoding="utf-8")
            main = "org.apache.rocketmq.broker.BrokerStartup"
            process = subprocess.Popen(
                self.java(main, scratch, "-c", conf),
                env={**environment(), "ROCKETMQ_HOME": str(scratch)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
            try:
                wait_until_serving(process, f"the official broker {self.version}", scratch)
            except StartError as error:
                is_port_taken = "Address already in use" in error.output
                if not is_port_taken or attempt + 1 == START_ATTEMPTS:
                    raise
            else:
                return Broker(self, store, port, process)
        raise OfficialError("unreachable: the last attempt returns or raises")


class Broker:
    """A running official broker; made by `Official.serve`."""

    def __init__(
        self, official: Official, store: Path, port: int, process: subprocess.Popen[str]
    ) -> None:
        """Takes over the `process` that serves `store` on `port`."""
        self.official = official
        self.store = store
        self.address = f"127.0.0.1:{port}"
        self._process = process

    def queues(self) -> list[Queue]:
        """Returns every topic and queue id that has a consume queue on disk."""
        found = {
            (queue.parent.name, int(queue.name))
            for folder in ("consumequeue", "batchconsumequeue")
            for queue in (self.store / folder).glob("*/*")
        }
        return sorted(found)

    def offsets(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Returns the least and the next queue offset of a queue."""
        (answer,) = self._ask("offsets", topic, queue_id)
        return answer["min_offset"], answer["max_offset"]

    def pull(self, topic: str, queue_id: int) -> list[Message]:
        """Returns every message of a queue, from its least offset on.

        Raises:
            RefusedError: The broker does not serve it (a topic that topics.json does not know).
        """
        return self._ask("pull", topic, queue_id, self.offsets(topic, queue_id)[0])

    def pull_all(self) -> Pulled:
        """Pulls every queue on disk."""
        pulled = Pulled([], {})
        for topic, queue_id in self.queues():
            try:
                pulled.messages.extend(self.pull(topic, queue_id))
            except RefusedError as error:
                pulled.refused[(topic, queue_id)] = str(error)
        return pulled

    def query(
        self, topic: str, key: str, begin_ms: int = 0, end_ms: int = (1 << 63) - 1
    ) -> list[Message]:
        """Returns at most 64 messages with `key`, stored in the given time, as the index gives."""
        return self._ask("query", topic, key, begin_ms, end_ms)

    def query_unique(self, topic: str, unique_key: str) -> list[Message]:
        """Returns the messages whose UNIQ_KEY is `unique_key`."""
        return self._ask("unique", topic, unique_key)

    def search(self, topic: str, queue_id: int, time_ms: int) -> int:
        """Returns the queue offset the broker finds for a store time."""
        (answer,) = self._ask("search", topic, queue_id, time_ms)
        offset: int = answer["offset"]
        return offset

    def status(self) -> dict[str, str]:
        """Returns the broker's runtime figures (`commitLogMaxOffset` and its like, as text)."""
        # Its statistics are refused until it has taken the first sample, a second after the start.
        answer = eventually(self._status, lambda answer: "table" in answer)
        if "table" not in answer:
            raise RefusedError(str(answer["refused"]))
        table: dict[str, str] = answer["table"]
        return table

    def _status(self) -> Message:
        try:
            (answer,) = self._ask("status")
        except RefusedError as error:
            return {"refused": str(error)}
        return answer

    def send(
        self, topic: str, queue_id: int, body: bytes, properties: Mapping[str, str]
    ) -> Message:
        """Sends a message; returns `queue_offset` and `msg_id` (the offset id) of its SEND_OK.

        Raises:
            RefusedError: The broker did not answer SEND_OK, or is gone.
        """
        text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
        fields = [b64encode(bytes_).decode() for bytes_ in (text.encode(), body)]
        (answer,) = self._ask("send", topic, queue_id, *fields)
        return answer

    def stop(self) -> None:
        """Stops the broker cleanly and waits for its end; nothing to do when it has ended."""
        ended(self._process, signal.SIGTERM)

    def kill(self) -> None:
        """Ends the broker with kill -9 and waits for its end."""
        ended(self._process, signal.SIGKILL)

    def _ask(self, *question: object) -> list[Message]:
        return self.official.ask(self.address, *question)
