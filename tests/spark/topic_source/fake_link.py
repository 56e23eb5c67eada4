"""A broker at the other end of a connection, in memory: pulls of one queue, and how they fail."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from mqcore.errors import ConnectionLostError
from mqcore.model.queues import MessageQueue
from mqcore.native import Command, FrameReader
from mqcore.remoting import ResponseCode
from mqcore.spark.topic_source.cluster import Access

_PREFIX_BYTES = 8


class FakeBroker:
    """Answers pulls of a queue whose records are given, as an official broker does.

    Attributes:
        low: Oldest offset.
        per_answer: Messages of an answer at the most.
        breaks: Connections that end after so many answers each, the first one first.
        codes: Codes of the next answers, before any other.
        asked: Offsets of pulls in order.
        renewed: How often its address was asked for anew.
    """

    def __init__(self, records: list[bytes], *, low: int = 0, per_answer: int = 32) -> None:
        self.records = records
        self.low = low
        self.per_answer = per_answer
        self.breaks: list[int] = []
        self.codes: list[int] = []
        self.asked: list[int] = []
        self.renewed = 0
        self.access = Access("127.0.0.1:9876", retries=2, backoff_s=0.0)
        self._opaques = count(1)

    # What a cluster offers.

    def request(self, code: int, ext: dict[str, str]) -> tuple[int, bytes]:
        opaque = next(self._opaques)
        return opaque, Command(code, ext=ext, opaque=opaque).encode()

    def address_of(self, _queue: MessageQueue, *, is_new: bool = False) -> str:
        self.renewed += is_new
        return "127.0.0.1:10911"

    def connect(self, _address: str) -> "FakeLink":
        return FakeLink(self, self.breaks.pop(0) if self.breaks else None)

    def pause(self) -> None:
        """Nobody waits."""

    # What a broker does.

    def answer(self, pull: Command) -> Command:
        offset, wanted = int(pull.ext["queueOffset"]), int(pull.ext["maxMsgNums"])
        self.asked.append(offset)
        if self.codes:
            return Command.response_to(pull, self.codes.pop(0), remark="as told")
        high = len(self.records)
        if offset == high:
            return self._without(pull, ResponseCode.PULL_NOT_FOUND, high)
        if offset > high:
            return self._without(pull, ResponseCode.PULL_OFFSET_MOVED, high)
        if offset < self.low:
            return self._without(pull, ResponseCode.PULL_OFFSET_MOVED, self.low)
        end = min(high, offset + min(wanted, self.per_answer))
        body = b"".join(self.records[offset:end])
        return Command.response_to(pull, 0, ext={"nextBeginOffset": str(end)}, body=body)

    def _without(self, pull: Command, code: int, next_offset: int) -> Command:
        return Command.response_to(pull, code, ext={"nextBeginOffset": str(next_offset)})


class FakeLink:
    """A connection to it."""

    def __init__(self, broker: FakeBroker, left: int | None) -> None:
        self.address = "127.0.0.1:10911"
        self._broker = broker
        self._left = left
        self._reader = FrameReader()
        self._bytes = bytearray()

    def send(self, frame: bytes, _timeout_s: float) -> None:
        for pull in self._reader.feed(frame):
            self._bytes += self._broker.answer(pull).encode()

    def receive_exactly(self, into: memoryview, _timeout_s: float) -> None:
        # The first word of an answer.
        if len(into) == _PREFIX_BYTES:
            if self._left == 0:
                raise ConnectionLostError("the connection ended", address=self.address)
            self._left = None if self._left is None else self._left - 1
        into[:] = self._bytes[: len(into)]
        del self._bytes[: len(into)]

    def close(self) -> None:
        self._bytes.clear()


def numbers(rows: Iterator[Any]) -> list[int]:
    """Returns the queue offsets of batches."""
    return [offset for batch in rows for offset in batch.column("queueOffset").to_pylist()]
