"""Who is alive: a table of heartbeats, with the time passed in.

It is this controller's memory and never written: a controller that starts knows of nobody. For the
time of one heartbeat time-out it then takes nobody for dead that it has not heard of: brokers need
that long to find it (`DefaultBrokerHeartbeatManager` elects at once). Knows no connection: a
channel is only a name for where a heartbeat came from.

Two more differences: the channel of a broker that reconnected is remembered, so that its end is
noticed; and such a broker is known by what it reports now, where the official table keeps the
largest epoch and offset that it ever reported.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from mqcore.native import CandidateRow

__all__ = ["BrokerKey", "Claim", "Heartbeat", "Holding", "Liveness"]

# As official brokers are given where they set nothing (DEFAULT_BROKER_CHANNEL_EXPIRED_TIME).
TIMEOUT_DEFAULT_MS = 10_000
# A broker that asks for more would be taken for alive for as long.
TIMEOUT_MAX_MS = 600_000
# Brokers at the most: as many names as a controller keeps, with some brokers each.
BROKERS_MAX = 50_000


@dataclass(frozen=True, slots=True)
class BrokerKey:
    """A broker.

    Attributes:
        cluster: Its cluster.
        name: Its broker name.
        broker_id: The id that a controller gave it.
    """

    cluster: str
    name: str
    broker_id: int


# A process that has just registered may not have sent a heartbeat yet; so long it counts as alive.
# As long nobody is taken for gone whom a controller that has just begun has not heard.
ENTERED_MS: Final = 1_200
# A heartbeat that comes so long after another process has claimed the id was sent after that: what
# waited in a socket is read at once.
SURE_MS: Final = 1_000
# Who has proved that it goes on where the last process was waits for this part of the time-out: in
# it two heartbeats are due, or more.
PROVEN_PART: Final = 4


class Holding(Enum):
    """Whether the process lives that has an id, while another one claims it."""

    FREE = "nobody holds it"
    PERHAPS = "not known yet"
    HELD = "it lives"


@dataclass(frozen=True, slots=True)
class Claim:
    """A process that wants an id which another one had last.

    Attributes:
        check_code: Names it.
        is_proven: Whether it has the files that the other one had when it registered.
    """

    check_code: str
    is_proven: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """What a broker reports of itself.

    Attributes:
        timeout_ms: It is taken for dead when nothing came for so long.
        epoch: The last epoch in its log, -1 for none.
        max_offset: Where its log ends, -1 where it did not report it.
        priority: Of equal candidates the smaller number wins.
    """

    timeout_ms: int = TIMEOUT_DEFAULT_MS
    epoch: int = -1
    max_offset: int = -1
    priority: int = (1 << 31) - 1


@dataclass(slots=True)
class _Live:
    heard_ms: int
    timeout_ms: int
    channel: Hashable
    epoch: int
    max_offset: int
    priority: int

    def is_late(self, now_ms: int) -> bool:
        return now_ms - self.heard_ms > self.timeout_ms


class Liveness:
    """The brokers that were heard of lately."""

    def __init__(self, now_ms: int) -> None:
        """Knows of nobody."""
        self._brokers: dict[BrokerKey, _Live] = {}
        self._began_ms = now_ms
        # Known to be dead, while those that are not known may be alive.
        self._gone: set[BrokerKey] = set()
        # Who registered when, until it is heard; and who claims an id since when.
        self._entered: dict[BrokerKey, int] = {}
        self._claims: dict[BrokerKey, tuple[str, int]] = {}

    def lead(self, now_ms: int) -> None:
        """Begins to count: before, another controller heard what this one may have missed."""
        self._began_ms = now_ms

    def __len__(self) -> int:
        """Returns how many are known."""
        return len(self._brokers)

    def heard(self, key: BrokerKey, beat: Heartbeat, channel: Hashable, now_ms: int) -> bool:
        """Takes a heartbeat; returns whether the broker was not known before.

        Args:
            key: Whose.
            beat: What it reports.
            channel: Where it came from.
            now_ms: The time.
        """
        timeout_ms = min(max(beat.timeout_ms, 1), TIMEOUT_MAX_MS)
        self._gone.discard(key)
        self._entered.pop(key, None)
        live = self._brokers.get(key)
        if live is None:
            if len(self._brokers) >= BROKERS_MAX:
                return False
            self._brokers[key] = _Live(
                now_ms, timeout_ms, channel, beat.epoch, beat.max_offset, beat.priority
            )
            return True
        is_anew = live.channel != channel
        live.heard_ms, live.timeout_ms, live.channel = now_ms, timeout_ms, channel
        live.priority = beat.priority
        if is_anew or (beat.epoch, beat.max_offset) > (live.epoch, live.max_offset):
            live.epoch, live.max_offset = beat.epoch, beat.max_offset
        return False

    def registered(self, key: BrokerKey, now_ms: int) -> None:
        """Notes that another process has an id now: what was heard of the one before is over."""
        self._claims.pop(key, None)
        self._brokers.pop(key, None)
        self._gone.discard(key)
        if len(self._entered) >= BROKERS_MAX:
            self._entered.clear()
        self._entered[key] = now_ms

    def holding(self, key: BrokerKey, claim: Claim, now_ms: int) -> Holding:
        """Returns whether the process lives that has an id which another one claims.

        It does where a heartbeat comes after the claim. It does not where its connection has ended,
        where it is late, or where it is silent for a part of that time and the claim is proven.
        """
        known, since_ms = self._claims.get(key, ("", 0))
        if known != claim.check_code:
            since_ms = now_ms
            if len(self._claims) >= BROKERS_MAX:
                self._claims.clear()
            self._claims[key] = (claim.check_code, since_ms)
        live = self._brokers.get(key)
        if live is None or live.is_late(now_ms):
            entered_ms = self._entered.get(key, now_ms - ENTERED_MS)
            is_new = key not in self._gone and now_ms - self._began_ms <= TIMEOUT_DEFAULT_MS
            may_come = is_new and live is None and now_ms - since_ms < ENTERED_MS
            is_entered = now_ms - entered_ms < ENTERED_MS
            return Holding.PERHAPS if may_come or is_entered else Holding.FREE
        if live.heard_ms - since_ms >= SURE_MS:
            return Holding.HELD
        silent_ms = now_ms - max(since_ms, live.heard_ms)
        is_silent = claim.is_proven and silent_ms >= live.timeout_ms // PROVEN_PART
        return Holding.FREE if is_silent else Holding.PERHAPS

    def closed(self, channel: Hashable) -> list[BrokerKey]:
        """Forgets the brokers of a channel that has ended, and returns them."""
        gone = [key for key, live in self._brokers.items() if live.channel == channel]
        self._forget(gone)
        return gone

    def expired(self, now_ms: int) -> list[tuple[BrokerKey, Hashable]]:
        """Forgets the brokers not heard of for too long; returns them with their channels."""
        late = [(key, live.channel) for key, live in self._brokers.items() if live.is_late(now_ms)]
        self._forget(key for key, _ in late)
        if now_ms - self._began_ms > TIMEOUT_DEFAULT_MS:
            self._gone.clear()
        return late

    def _forget(self, keys: Iterable[BrokerKey]) -> None:
        for key in keys:
            del self._brokers[key]
            self._gone.add(key)

    def is_alive(self, key: BrokerKey, now_ms: int) -> bool:
        """Returns whether a broker was heard of lately."""
        live = self._brokers.get(key)
        return live is not None and not live.is_late(now_ms)

    def living(self, now_ms: int) -> Counter[tuple[str, ...]]:
        """Returns how many brokers are alive, by cluster and name."""
        return Counter(
            (key.cluster, key.name)
            for key, live in self._brokers.items()
            if not live.is_late(now_ms)
        )

    def may_be_alive(self, key: BrokerKey, now_ms: int) -> bool:
        """Returns whether a broker is alive, or has not had the time to report."""
        if key in self._brokers:
            return self.is_alive(key, now_ms)
        return key not in self._gone and now_ms - self._began_ms <= TIMEOUT_DEFAULT_MS

    def candidates(self, keys: Iterable[BrokerKey], now_ms: int) -> list[CandidateRow]:
        """Returns those of some brokers that are alive, as an election takes them."""
        found = []
        for key in keys:
            live = self._brokers.get(key)
            if live is not None and not live.is_late(now_ms):
                row = CandidateRow(key.broker_id, live.epoch, live.max_offset, live.priority)
                found.append(row)
        return found
