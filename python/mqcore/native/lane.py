"""The lane: hot requests executed natively, between an event loop's sockets and the store.

A lane belongs to one loop; its methods are called from that loop's thread, but for `deliver_due`,
`check_halves` and those before `start`. What the policy does not allow comes up as `Handed`.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self, TypeAlias, cast

from mqcore.native._native import Command, LaneConnection, NativeLane
from mqcore.native.policies import BrokerPolicy
from mqcore.native.pops import OrderRow, Revived
from mqcore.native.store import Store
from mqcore.native.transactions import CheckedHalves, CheckQuestion, CheckRules, TransactionCount

__all__ = [
    "Delivered",
    "GroupPolicy",
    "Handed",
    "Lane",
    "LaneProtocol",
    "TopicPolicy",
]

_log = logging.getLogger("mqcore.lane")

# Times on the wire of asyncio are seconds.
_MS_PER_SECOND = 1_000
# Pairs of a snapshot that are taken under one lock: less than a millisecond.
_OFFSETS_AT_ONCE = 256

Need = Literal["code", "topic", "group", "check"]
HandedRow: TypeAlias = tuple[Command, Need, str]
# Offsets by queue of some pairs, and where to go on.
OffsetRows: TypeAlias = tuple[list[tuple[str, dict[int, int]]], int | None]
# When to drain again, tickets that are not the lane's, and requests for Python.
DrainedRow: TypeAlias = tuple[
    int | None, list[tuple[int, str]], list[tuple[LaneConnection, HandedRow]]
]


class TopicPolicy(NamedTuple):
    """One topic, as the lane needs it.

    Attributes:
        perm: Its permission: 4 read, 2 write, 1 inherit.
        read_queues: Queues that consumers read.
        write_queues: Queues that producers write.
        sys_flag: Its flags.
        is_ordered: Whether it is an order topic.
        has_multi_tags: Whether its filter type is MULTI_TAG.
        needs_check: Hand over every request for it first.
    """

    perm: int = 6
    read_queues: int = 8
    write_queues: int = 8
    sys_flag: int = 0
    is_ordered: bool = False
    has_multi_tags: bool = False
    needs_check: bool = False


class GroupPolicy(NamedTuple):
    """One subscription group, as the lane needs it.

    Attributes:
        is_consume_enabled: Whether its consumers may pull.
        is_broadcast_enabled: Whether they may consume by broadcast.
        retry_queues: Queues of its retry topic.
        max_retries: How often a message is tried again before it is a dead letter.
        broker_id: The broker it should pull from.
        slow_broker_id: The one it should pull from when it is far behind.
        needs_check: Hand over every pull of it first.
    """

    is_consume_enabled: bool = True
    is_broadcast_enabled: bool = True
    retry_queues: int = 1
    max_retries: int = 16
    broker_id: int = 0
    slow_broker_id: int = 1
    needs_check: bool = False


class Handed(NamedTuple):
    """A request for Python.

    Attributes:
        command: The request.
        need: Why: `code`, the lane does not execute it; `topic` and `group`, `name` is not known;
            `check`, the policy asks for a look. After all but the first call
            `LaneProtocol.execute`: what still does not stand then gets the official refusal.
        name: The topic or group.
    """

    command: Command
    need: Need
    name: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """What `deliver_due` did.

    Attributes:
        count: Messages delivered.
        next_offset: Where the level goes on.
        next_due_ms: When the next one is due, Unix ms, where it is known.
        end: End of the last one in the log: write `next_offset` down only when the log is flushed
            up to it. 0 without one.
        has_more: Whether more may be due now.
        skipped: Messages passed over: gone by retention, or with nowhere to go.
    """

    count: int
    next_offset: int
    next_due_ms: int | None
    end: int
    has_more: bool
    skipped: int


class Lane(NativeLane):
    """Executes hot requests of the connections of one loop.

    `set_bounds` says how many bytes of unfinished frames, of answers that wait and of sends that
    wait for a log file all connections may have, and for how many microseconds one of them is
    executed before others.

    `set_broker`, `set_topics`, `set_groups` replace a whole table, `set_topic`, `set_group` and
    `set_members` one row (None: it is not known any more, or nobody is online); requests for what
    is not known are handed over. `set_group_lock` says until when, Unix ms, somebody holds a queue
    for a group that consumes in order: what it gives up is a dead letter. `set_timers` lets sends
    ask how full a step of time is, `set_delay_levels` replaces the levels of delay,
    `set_filter_bits` those expressions (topic, text, bits) that set bits of messages, and gives
    since when they do. `remember` answers sends that come again within so many milliseconds with
    the place of the first, in so many bytes of memory; it gives start and end of the log that it
    has read, and how many records of that time it has, and how many count. `load_offsets`,
    `offset`, `offsets_of`, `commit_offset` (a lower one is taken too; False at a bound),
    `reset_offset` (the same, and the next pull or pop of the group begins there) and
    `remove_offsets` (of a group, a topic, or both together) work on the live consumer offsets;
    `group_gets` tells how many messages each group got of each topic since the start;
    `offset_changes` rises with each change. `write_op_messages` writes every transaction that is
    ended, and tells whether it could, and the end of the log; `load_transactions` takes how many
    half messages waited by topic, `transaction_changes` rises with each change of that.
    `store_pops` stores every open pop, and tells whether it could; `pop_records` counts what was
    stored of pops. `load_orders` takes what was popped in order, `order_changes` counts changes.

    Args:
        store: The store.
        broker: The broker's own state.
        reader_threads: Threads for records that are not in memory; 0 reads them in the loop.
    """

    _store: Store
    _loop: asyncio.AbstractEventLoop | None
    _timer: asyncio.TimerHandle | None

    def __new__(cls, store: Store, *, broker: BrokerPolicy, reader_threads: int = 2) -> Self:
        """Makes a lane over an open store."""
        lane = super().__new__(cls, store, broker, reader_threads=reader_threads)
        lane._store = store
        lane._loop = None
        lane._timer = None
        return lane

    def offsets(self) -> dict[str, dict[int, int]]:
        """Returns a snapshot of all consumer offsets, by the official keys `topic@group`.

        Taken part by part, so that in a thread of its own it keeps nobody waiting: each pair is as
        it was at some moment of the call.
        """
        found: dict[str, dict[int, int]] = {}
        at: int | None = 0
        while at is not None:
            rows, at = self.offset_rows(at, _OFFSETS_AT_ONCE)
            found.update(rows)
        return found

    def deliver_due(
        self, level: int, offset: int, *, limit: int = 1024, now_ms: int | None = None
    ) -> Delivered:
        """Delivers what is due of a level of delayed messages. May wait for the disk; any thread.

        Args:
            level: From 1.
            offset: Where the level goes on, from its queue.
            limit: Messages looked at, at the most.
            now_ms: Unix ms; the store's clock otherwise.

        Raises:
            StoreError: The first message could not be read or stored; nothing has happened.
        """
        return Delivered(*self.deliver(level, offset, limit=limit, now_ms=now_ms))

    def check_halves(
        self,
        queue_id: int,
        half_offset: int,
        note_offset: int,
        rules: CheckRules,
        *,
        until: int | None = None,
    ) -> CheckedHalves:
        """Goes on with a round over a half queue. May wait for the disk; any thread.

        Args:
            queue_id: The queue of the half topic.
            half_offset: Where it goes on.
            note_offset: Where the queue of notes goes on.
            rules: What the round goes by.
            until: That of the round's first call; None for the first call.

        Raises:
            StoreError: Something could not be read or stored; nothing has happened.
        """
        half, note, until, rows, copied, given_up, has_more, needs_topic, end = self.check(
            (queue_id, half_offset, note_offset), rules, until
        )
        return CheckedHalves(
            half_offset=half,
            note_offset=note,
            until=until,
            questions=[CheckQuestion(*row) for row in rows],
            copied=copied,
            given_up=given_up,
            has_more=has_more,
            needs_topic=needs_topic,
            end=end,
        )

    def revive(self, queue_id: int, done_offset: int, timers_ms: int) -> Revived:
        """Goes on with a round over a queue of check points. May wait for the disk; any thread.

        Args:
            queue_id: The queue of the topic of check points.
            done_offset: The last offset of it that is done; -1 for none.
            timers_ms: Up to which time the timers have brought everything, Unix ms.

        Raises:
            StoreError: Something could not be read or stored; nothing has happened.
        """
        return Revived(*self.revive_row(queue_id, done_offset, timers_ms))

    def orders(self) -> list[OrderRow]:
        """Returns what groups popped in order."""
        return [OrderRow(*row) for row in self.order_rows()]

    def transactions(self) -> list[TransactionCount]:
        """Returns the transactions of every topic that had some."""
        return [TransactionCount(*row) for row in self.transaction_rows()]

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watches the store for the connections of `loop`."""
        self._loop = loop
        # The store's own waiters (`Store.durable`) are answered from here too.
        self._store.watch_for(loop, self._woken)
        self._woken()

    def stop(self) -> None:
        """Answers what can be answered, and ends the watching."""
        self.drain()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._loop is not None:
            self._store.unwatch()
            self._loop = None

    def drain(self, now_ms: int | None = None) -> int | None:
        """Answers what can be answered now, and hands over requests that turned out to need it.

        Args:
            now_ms: The time from now on, for tests that turn the hands; the clock's otherwise.

        Returns:
            Milliseconds until the next call is due although nothing is announced.
        """
        next_ms, others, handed = self.drain_all(now_ms)
        if others:
            self._store.resolve(others)
        for connection, row in handed:
            cast(LaneProtocol, connection).hand_over([row])
        return next_ms

    def stats(self) -> dict[str, int]:
        """Returns what was done and what waits, by name."""
        return self.numbers()

    def _woken(self) -> None:
        next_ms = self.drain()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if next_ms is not None and self._loop is not None:
            self._timer = self._loop.call_later(next_ms / _MS_PER_SECOND, self._woken)


class LaneProtocol(LaneConnection, asyncio.BufferedProtocol):
    """A connection of the lane; derive from it and override `handed` and `refused`.

    `get_buffer`, `buffer_updated`, `pause_writing` and `resume_writing` are native. While the
    transport has nothing queued, replies go to the socket without it, so that nothing else may
    write to the transport: use `write` (whole frames, behind what was sent before) or `respond`.
    `execute` does what was decided on and answers here; what still does not stand gets the
    official refusal; False when the lane does not execute requests of that code. `traffic` is
    how many bytes were received and sent.
    """

    _lane_transport: asyncio.Transport | None

    def __init__(self, lane: Lane) -> None:
        """Makes a connection that waits for its transport."""
        self._lane_transport = None
        self.bind(lane)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the transport."""
        plain = cast(asyncio.Transport, transport)
        self._lane_transport = plain
        sock = plain.get_extra_info("socket")
        is_tls = plain.get_extra_info("sslcontext") is not None
        if not is_tls:
            # Pause and resume are exact then: full at the first byte queued, resumed when all are
            # out. Under TLS, where nothing goes past the transport, 0 would mean always full.
            plain.set_write_buffer_limits(high=0)
        peer, born_host = _peer_of(plain.get_extra_info("peername"))
        self.attach(
            plain.write,
            descriptor=-1 if is_tls or sock is None else sock.fileno(),
            peer=peer,
            born_host=born_host,
        )

    def connection_lost(self, error: Exception | None) -> None:
        """Forgets everything that waits for this connection."""
        del error
        self.detach()
        self._lane_transport = None

    def handed(self, requests: list[Handed]) -> None:
        """Takes requests that the lane does not execute by itself, in their order. Override."""
        raise NotImplementedError(f"nobody takes {requests}")

    def refused(self, reason: str) -> None:
        """Hears why the connection is closed: bad bytes, or it does not read. Override."""
        _log.warning("connection closed: %s", reason)

    def respond(self, response: Command) -> None:
        """Sends a reply, behind what was sent before."""
        self.write(response.encode())

    def frame_age_s(self, now_s: float) -> float:
        """Returns for how long a frame has been incomplete; 0 without one."""
        del now_s
        return self.half_frame_ms() / _MS_PER_SECOND

    # What the native half calls.

    def hand_over(self, rows: list[HandedRow]) -> None:
        """Takes requests as the native half has them."""
        self.handed([Handed(*row) for row in rows])

    def give_up(self, reason: str) -> None:
        """Closes the connection."""
        self.refused(reason)
        if self._lane_transport is not None:
            self._lane_transport.abort()

    def unfinished(self, kept_bytes: int, frame: int, has_asked: bool) -> None:
        """Hears how much of an unfinished frame is held now, and of the first whole one. Override.

        Args:
            kept_bytes: How much, 0 where it is not worth counting.
            frame: Another number for another frame.
            has_asked: Whether a whole frame of the connection has come.
        """

    def wait_turn(self) -> None:
        """Goes on with the requests that are left when others have had their turn. Override."""
        asyncio.get_running_loop().call_soon(self.take_turn)

    def stop_reading(self) -> None:
        """Stops taking bytes: the peer does not read its replies."""
        transport = self._lane_transport
        if transport is not None and not transport.is_closing():
            transport.pause_reading()

    def go_on_reading(self) -> None:
        """Takes bytes again."""
        transport = self._lane_transport
        if transport is not None and not transport.is_closing():
            transport.resume_reading()


def _peer_of(name: object) -> tuple[str, str | None]:
    """Returns the other side as remarks spell it, and as messages keep it."""
    if isinstance(name, tuple) and len(name) >= 2:
        host = str(name[0]).partition("%")[0]
        text = f"[{host}]:{name[1]}" if ":" in host else f"{host}:{name[1]}"
        return text, text
    return f"unix:{name or ''}", None
