"""Reads the ranges of one task: pulls over one connection, answers into Arrow batches.

Bodies are decoded by `RecordColumns` from the bytes of the answers; a thread receives while the
task's own decodes and ships. What is gone, short or torn is judged here, message for message. After
`PullAPIWrapper.pullKernelImpl` and `DefaultMQPushConsumerImpl.pullMessage`.
"""

import logging
import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from mqcore.client.pulling import pull_fields
from mqcore.errors import RemotingError, ResponseError
from mqcore.model.parts import Part
from mqcore.model.subscriptions import ALL, SubscriptionData
from mqcore.native.columns import RecordColumns
from mqcore.remoting import RequestCode, ResponseCode
from mqcore.spark.arrow import to_arrow
from mqcore.spark.schema import Projection
from mqcore.spark.topic_source.cluster import Cluster
from mqcore.spark.topic_source.data_loss import Loss, LossRule
from mqcore.spark.topic_source.long_answers import BufferPool, LongAnswer, LongAnswers
from mqcore.spark.topic_source.planning import QueueRange
from mqcore.spark.topic_source.pull_window import Ask, PullWindow

if TYPE_CHECKING:
    from mqcore.client.blocking.sockets import BlockingLink

__all__ = ["Wanted", "read_ranges"]

_log = logging.getLogger(__name__)

# Who pulls where no group is named: every broker knows the tools' group.
TOOLS_GROUP: Final = "TOOLS_CONSUMER"
# Pulls of one connection under way: with short answers the way there and back is hidden.
_DEPTH: Final = 8
# Received answers that wait for the task: beyond them the connection is not read.
_AHEAD: Final = 2
# How often the receiving thread looks whether the task still wants anything.
_LOOK_S: Final = 0.2
_PASSING: Final = frozenset(
    {
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        # A broker that was just restarted, or a route that is changing.
        ResponseCode.TOPIC_NOT_EXIST,
    }
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a task wants of its ranges, beside where they are.

    Attributes:
        group: Who pulls.
        tags: A tag expression; `*` for everything.
        sql: An SQL92 expression, None for none.
        start_ms: Only messages stored then or later.
        end_ms: Only messages stored before.
        fetch_bytes: Bytes of one answer at the most.
        fetch_timeout_s: Deadline of one answer.
        pull_rows: Messages of one answer at the most.
        batch_rows: Rows of an Arrow batch at the most.
    """

    group: str = TOOLS_GROUP
    tags: str = ALL
    sql: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    fetch_bytes: int = 4 << 20
    fetch_timeout_s: float = 30.0
    pull_rows: int = 8192
    batch_rows: int = 4096

    @property
    def is_filtered(self) -> bool:
        """Whether the broker leaves messages out."""
        return self.sql is not None or self.tags != ALL

    def part_of(self, projection: Projection) -> Part:
        """Returns what of its messages a broker is asked for; filters look at records."""
        is_chosen = self.is_filtered or self.start_ms is not None or self.end_ms is not None
        part = projection.part
        return Part.BODILESS if part is Part.OFFSETS and is_chosen else part

    def subscription(self, topic: str) -> SubscriptionData:
        """Returns what is wanted of a topic, as requests carry it."""
        if self.sql is not None:
            return SubscriptionData(topic=topic, expression=self.sql, kind="SQL92")
        return SubscriptionData.of_expression(topic, self.tags)


class _Answer(NamedTuple):
    """Records of a range, from `offset` to before `next_offset`; the buffer is to be given back."""

    offset: int
    next_offset: int
    body: memoryview
    buffer: bytearray


def read_ranges(
    cluster: Cluster,
    ranges: Sequence[QueueRange],
    wanted: Wanted,
    projection: Projection,
    loss: LossRule,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the ranges, by queue and offset.

    Args:
        cluster: Who has them.
        ranges: Parts of queues.
        wanted: What of them.
        projection: The columns.
        loss: What happens where something is gone.

    Raises:
        DataLossError: Something is gone, and that is fatal.
        RemotingError: A broker did not answer, after all tries.
        NoRecordError: A broker sent what is no record.
    """
    buffers = BufferPool()
    for each in ranges:
        columns = RecordColumns(
            projection.columns,
            tags=sorted(wanted.subscription(each.queue.topic).tags) or None,
            start_ms=wanted.start_ms,
            end_ms=wanted.end_ms,
            start_queue_offset=each.start,
            end_queue_offset=each.end,
            broker_name=each.queue.broker_name,
            batch_rows=wanted.batch_rows,
        )
        seen = 0
        puller = _Puller(cluster, each, wanted, loss, buffers, part=wanted.part_of(projection))
        with _Ahead(puller) as answers:
            for answer in answers:
                batches = columns.feed(answer.body)
                # The columns have what they need of it.
                answer.body.release()
                buffers.give(answer.buffer)
                for batch in batches:
                    yield projection.check(to_arrow(batch, projection.arrow))
                count = columns.tally.records - seen
                seen += count
                missing = min(answer.next_offset, each.end) - answer.offset - count
                if missing > 0 and not wanted.is_filtered:
                    loss.report(Loss.hole(each.queue, answer.offset, answer.next_offset, missing))
        for batch in columns.flush():
            yield projection.check(to_arrow(batch, projection.arrow))


class _Puller:
    """Pulls one range, in order, over one connection at a time."""

    def __init__(
        self,
        cluster: Cluster,
        wanted_range: QueueRange,
        wanted: Wanted,
        loss: LossRule,
        buffers: BufferPool,
        *,
        part: Part,
    ) -> None:
        self._cluster = cluster
        self._part = part
        self._range = wanted_range
        self._wanted = wanted
        self._loss = loss
        self._window = PullWindow(
            wanted_range.start,
            wanted_range.end,
            count_max=wanted.pull_rows,
            depth=1 if wanted.is_filtered else _DEPTH,
        )
        self._buffers = buffers
        self._link: BlockingLink | None = None
        self._answers: LongAnswers | None = None
        # Failures since the last answer.
        self._tries = 0
        self._sent: dict[int, Ask] = {}
        self._arrived: dict[Ask, LongAnswer] = {}
        self._subscription = wanted.subscription(wanted_range.queue.topic)

    def answers(self) -> Iterator[_Answer]:
        """Yields answers with records, tries again what failed."""
        try:
            while not self._window.is_done:
                try:
                    answer = self._next()
                    found = self._checked(answer)
                except RemotingError as error:
                    if isinstance(error, ResponseError) and error.code not in _PASSING:
                        raise
                    if self._tries >= self._cluster.access.retries:
                        raise self._given_up(error) from error
                    self._tries += 1
                    _log.info("pulling again: %s", error)
                    self.close()
                    self._cluster.pause()
                    continue
                self._tries = 0
                if found is not None:
                    yield found
        finally:
            self.close()

    def close(self) -> None:
        """Closes the connection; what was under way on it is asked for again."""
        link, self._link, self._answers = self._link, None, None
        if link is not None:
            link.close()
        self._sent.clear()
        self._arrived.clear()
        self._window.drop()

    def _next(self) -> LongAnswer:
        """Returns the answer to the first pull that is not answered yet."""
        timeout_s = self._wanted.fetch_timeout_s
        if self._link is None:
            address = self._cluster.address_of(self._range.queue, is_new=self._tries > 0)
            self._link = self._cluster.connect(address)
            self._answers = LongAnswers(self._link, self._buffers)
        for ask in self._window.next_asks():
            opaque, frame = self._cluster.request(RequestCode.PULL_MESSAGE, self._fields(ask))
            self._sent[opaque] = ask
            self._link.send(frame, timeout_s)
        head = self._window.head
        assert head is not None
        assert self._answers is not None
        while head not in self._arrived:
            answer = self._answers.next(timeout_s)
            # An answer to a pull that was dropped is nobody's.
            asked = self._sent.pop(answer.command.opaque, None)
            if answer.command.is_response and asked is not None:
                self._arrived[asked] = answer
            else:
                self._buffers.give(answer.buffer)
        return self._arrived.pop(head)

    def _fields(self, ask: Ask) -> dict[str, str]:
        return pull_fields(
            self._wanted.group,
            self._range.queue,
            ask.offset,
            self._subscription,
            count_max=ask.count,
            suspend_ms=0,
            sends_subscription=True,
            bytes_max=self._wanted.fetch_bytes,
            part=self._part,
        )

    def _checked(self, found: LongAnswer) -> _Answer | None:
        """Returns the records of an answer; moves on where it has none.

        Raises:
            ResponseError: The broker refuses.
            DataLossError: It has not what is wanted.
        """
        window, each, answer = self._window, self._range.queue, found.command
        position = window.position
        address = self._link.address if self._link is not None else ""
        if answer.code == ResponseCode.PULL_NOT_FOUND:
            self._loss.report(Loss.truncated(each, window.end, position))
            self._go_to(window.end)
            return None
        if answer.code not in (
            ResponseCode.SUCCESS,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            ResponseCode.PULL_OFFSET_MOVED,
        ):
            raise ResponseError(
                f"{address} refuses to give topic {each.topic}, queue {each.queue_id} from offset "
                f"{position} on: {answer.code} {answer.remark or ''}",
                address=address,
                code=answer.code,
                remark=answer.remark or "",
            )
        next_offset = int(answer.ext.get("nextBeginOffset", "-1"))
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            self._moved(next_offset)
            return None
        if next_offset <= position:
            raise RemotingError(
                f"{address} answered a pull of offset {position} with the next offset "
                f"{next_offset}",
                address=address,
            )
        if not window.answered(next_offset):
            self._sent.clear()
            self._arrived.clear()
        return _Answer(position, next_offset, found.body, found.buffer)

    def _moved(self, next_offset: int) -> None:
        """The broker has nothing at the position: it goes on in front of it, or ends before."""
        window, each = self._window, self._range.queue
        if next_offset > window.position:
            low = min(next_offset, window.end)
            self._loss.report(Loss.expired(each, window.position, low))
            self._go_to(low)
        else:
            self._loss.report(Loss.truncated(each, window.position, max(0, next_offset)))
            self._go_to(window.end)

    def _go_to(self, offset: int) -> None:
        self._sent.clear()
        self._arrived.clear()
        self._window.move(offset)

    def _given_up(self, error: RemotingError) -> RemotingError:
        each = self._range.queue
        return RemotingError(
            f"topic {each.topic}, broker {each.broker_name}, queue {each.queue_id}: nothing from "
            f"offset {self._window.position} on after {self._tries + 1} tries: {error}",
            address=error.address,
        )


class _Ahead:
    """Runs a puller in a thread, a few answers ahead of who takes them."""

    def __init__(self, puller: _Puller) -> None:
        self._puller = puller
        self._found: queue.Queue[_Answer | BaseException | None] = queue.Queue(_AHEAD)
        self._is_unwanted = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mqcore-pull", daemon=True)

    def __enter__(self) -> Iterator[_Answer]:
        self._thread.start()
        return self._answers()

    def __exit__(self, *_error: object) -> None:
        self._is_unwanted.set()
        # It ends at the next look; a pull under way has its own deadline.
        self._thread.join(_LOOK_S)

    def _answers(self) -> Iterator[_Answer]:
        while True:
            found = self._found.get()
            if found is None:
                return
            if isinstance(found, BaseException):
                raise found
            yield found

    def _run(self) -> None:
        try:
            for answer in self._puller.answers():
                if not self._put(answer):
                    return
            self._put(None)
        except BaseException as error:
            self._put(error)

    def _put(self, found: _Answer | BaseException | None) -> bool:
        while not self._is_unwanted.is_set():
            try:
                self._found.put(found, timeout=_LOOK_S)
            except queue.Full:
                continue
            return True
        return False
