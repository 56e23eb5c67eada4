"""Everything that the broker's request handlers share: settings, tables, store, fast path, time.

Belongs to the event loop. Holds no socket: writing and sending is done by others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mqcore.access import AccessControl, RefusalLog, credentials_of, plain_files
from mqcore.audit import AuditTrail
from mqcore.broker.admin_pace import AdminPace
from mqcore.broker.bloom import BloomFilter
from mqcore.broker.delays import DelayTable, parse_levels
from mqcore.broker.filters import FilterTable
from mqcore.broker.groups import GroupTable
from mqcore.broker.limits import BrokerLimits
from mqcore.broker.members import Members
from mqcore.broker.order_locks import OrderLocks
from mqcore.broker.replicas import Elections, Replicas
from mqcore.broker.request_durations import RequestDurations
from mqcore.broker.request_modes import RequestModeTable
from mqcore.broker.role import Role
from mqcore.broker.static_topics import StaticTopicTable
from mqcore.broker.statistics import Statistics, Tallies
from mqcore.broker.topics import TopicRules, TopicTable
from mqcore.config import BrokerSettings
from mqcore.model.topics import PERM_READ_WRITE, TopicConfig
from mqcore.model.versions import DataVersion, version_ordinal
from mqcore.native import Command, FastPath, Store, Timers, sql_fault
from mqcore.remoting import (
    Addresses,
    Credentials,
    Hub,
    Link,
    ResponseCode,
    ServerTls,
    TlsContext,
    Users,
    outgoing_tls_of,
)

# First release that answers INVALID_PARAMETER where older ones answer SYSTEM_ERROR: V5_3_2.
_INVALID_CODE_FROM = 477


@dataclass(slots=True)
class BrokerState:
    """One broker.

    Attributes:
        settings: Its settings; replaced as a whole when a tool changes one.
        role: What it is to its group; replaced as a whole when it changes.
        address: The address in routes and message ids.
        store: The store.
        fast_path: What executes hot requests; it owns the live consumer offsets.
        now_ms: The wall clock.
        boot_ms: When the broker started.
        topics: The topics.
        static_topics: The mappings of those whose queues have numbers of their own.
        groups: The consumer groups.
        members: Who is online.
        filters: The expressions that groups have registered.
        locks: Who may read which ordered queue.
        access: Who may do what.
        access_log: What was refused for that, counted and logged.
        trail: The audit: lines of changes and refusals.
        credentials: What requests to other servers are signed with; None for unsigned ones.
        modes: Which groups ask by pop.
        delays: How far delayed messages were delivered.
        statistics: Counters over windows.
        tallies: What Python counts for them.
        conflicts: How often members of a group came to differ in what they want.
        refusals: How many requests Python refused, by the name of the code.
        link_refusals: How many connections were refused or closed, by reason.
        addresses: How many connections each address has.
        users: What the connections of each user hold, and how many there are.
        admin_pace: How many changes a user may make a second.
        name_servers: The addresses of name servers: of the settings, or as they were looked up.
        replicas: Who copies the log, or whose log is copied.
        passes_on: Whether requests for the master go to another broker, which is that or soon is.
        outgoing_tls: What protects connections to name servers, controllers and other brokers; None
            for plain ones.
        serving_tls: How TLS is treated on the addresses that it listens on.
        elections: Who hears of the controller's notices; None without a controller.
        timers: Messages with a time of their own; None before the first of them.
        timers_ahead_ms: How far the clock of the timers is ahead: tests let time pass by it.
        checks: How many half messages were asked about, could not be because no producer of their
            group is connected, and were given up: by those words.
        revived: How many popped messages came again because nobody acknowledged them.
        durations: How long the requests took that Python answers.
        bits_filled: Which expressions set bits of messages now, as their table counts changes.
        check: Looks at a request of the fast path before it is executed, and may answer it; for
            tests.
        config_path: The properties file that changes by tools are kept in, None without one.
        settings_version: Changes with the settings.
        offsets_version: Changes with the consumer offsets that are written.
    """

    settings: BrokerSettings
    role: Role
    address: str
    store: Store
    fast_path: FastPath
    now_ms: Callable[[], int]
    boot_ms: int
    topics: TopicTable
    static_topics: StaticTopicTable
    groups: GroupTable
    members: Members
    filters: FilterTable
    locks: OrderLocks
    modes: RequestModeTable
    access: AccessControl
    access_log: RefusalLog
    trail: AuditTrail
    credentials: Credentials | None
    delays: DelayTable
    statistics: Statistics
    settings_version: DataVersion
    offsets_version: DataVersion
    conflicts: int = 0
    refusals: dict[str, int] = field(default_factory=dict)
    link_refusals: Mapping[str, int] = field(default_factory=dict)
    addresses: Addresses = field(default_factory=Addresses)
    users: Users[Link] = field(default_factory=lambda: Users(_nobody, _nobody))
    admin_pace: AdminPace = field(default_factory=AdminPace)
    checks: dict[str, int] = field(default_factory=lambda: {"asked": 0, "nobody": 0, "given_up": 0})
    revived: int = 0
    tallies: Tallies = field(default_factory=Tallies)
    durations: RequestDurations = field(default_factory=RequestDurations)
    bits_filled: int = -1
    config_path: Path | None = None
    name_servers: tuple[str, ...] = ()
    replicas: Replicas = field(default_factory=Replicas)
    elections: Elections | None = None
    passes_on: bool = False
    outgoing_tls: TlsContext | None = None
    serving_tls: Sequence[ServerTls] = ()
    timers: Timers | None = None
    timers_ahead_ms: int = 0
    check: Callable[[Command], Command | None] | None = None

    @classmethod
    def of(
        cls,
        settings: BrokerSettings,
        address: str,
        store: Store,
        fast_path: FastPath,
        now_ms: Callable[[], int],
    ) -> "BrokerState":
        """Returns the state of a broker that starts now, with nothing loaded yet.

        Raises:
            TlsError: Certificates of outgoing connections cannot be used.
            ConfigurationError: Credentials of the broker itself cannot be read, or files of access
                control of 4.x are asked for and no directory is set.
        """
        boot_ms = now_ms()
        fresh = DataVersion(counter=0, timestamp_ms=boot_ms)
        levels_ms = parse_levels(settings.delay_levels)
        directory = Path(settings.store_dir) / "config"
        has_plain, migrates = settings.has_plain_accounts, settings.access.migrates
        plain = plain_files(settings.home, now_ms) if has_plain or migrates else None
        access = AccessControl(
            settings.access,
            cluster=settings.cluster,
            directory=directory,
            plain=plain if has_plain else None,
            migrates=plain if migrates else None,
        )
        trail = AuditTrail.of(
            settings.access, directory=Path(settings.store_dir), server=settings.name
        )
        fast_path.set_access(access.engine)
        return cls(
            settings=settings,
            role=Role.of_settings(settings),
            address=address,
            outgoing_tls=outgoing_tls_of(settings.listener),
            store=store,
            fast_path=fast_path,
            now_ms=now_ms,
            boot_ms=boot_ms,
            topics=TopicTable(
                topic_rules(settings), boot_ms, len(levels_ms), limits=BrokerLimits.of(settings)
            ),
            static_topics=StaticTopicTable(boot_ms),
            groups=GroupTable(
                auto_create=settings.creates_groups,
                now_ms=boot_ms,
                groups_max=settings.groups_max,
            ),
            members=Members(BrokerLimits.of(settings)),
            filters=FilterTable(
                BloomFilter.of(settings.filter_bloom_error_percent, settings.filter_bloom_expected),
                sql_fault,
                settings.filter_kept_ms,
            ),
            locks=OrderLocks(),
            modes=RequestModeTable(),
            access=access,
            access_log=RefusalLog(access.engine, settings.name, note=trail.note),
            trail=trail,
            credentials=credentials_of(settings.access),
            delays=DelayTable(levels_ms, boot_ms),
            statistics=Statistics(),
            settings_version=fresh,
            offsets_version=fresh,
            name_servers=settings.name_servers,
        )

    @property
    def limits(self) -> BrokerLimits:
        """How many topics, groups and queues there may be, and what one client may bring."""
        return self.topics.limits

    @property
    def makes_bits(self) -> bool:
        """Whether messages get bits of the expressions that they pass, and pulls go by them.

        Never in a mounted store: its bits were made by another broker, whose groups are not ours.
        """
        settings = self.settings
        extends = settings.extends_queues and not settings.mounted_dir
        return extends and settings.makes_filter_bits

    @property
    def version(self) -> int:
        """The version that we report, as an ordinal."""
        return version_ordinal(self.settings.reported_version)

    @property
    def invalid_code(self) -> ResponseCode:
        """The code for a bad argument in the release that we report."""
        if self.version >= _INVALID_CODE_FROM:
            return ResponseCode.INVALID_PARAMETER
        return ResponseCode.SYSTEM_ERROR

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Returns first and next queue offset of a queue; zeros for one without a message."""
        bounds = self.store.bounds(topic, queue_id)
        return (0, 0) if bounds is None else (bounds.min_offset, bounds.max_offset)

    def stored_ms(self, topic: str, queue_id: int, offset: int) -> int:
        """Returns when the message at a queue offset was stored, -1 for none. Reads the disk."""
        if offset < 0:
            return -1
        found = self.store.get(topic, queue_id, offset, 1).messages
        if not found or found[0].queue_offset != offset:
            return -1
        return found[0].store_timestamp_ms

    def read_queues(self, topic: str) -> range:
        """Returns the numbers of the queues that consumers read."""
        found = self.topics.find(topic)
        return range(found.read_queues if found is not None else 0)

    def follow(self, hub: Hub) -> None:
        """Gives the connections their bounds, and takes what is counted of them."""
        hub.bound_by(lambda: self.settings.listener)
        hub.first_request_s = self.access.first_request_s
        self.link_refusals, self.addresses = hub.refusals, hub.addresses
        self.users = hub.users

    def change_settings(self, settings: BrokerSettings) -> None:
        """Replaces the settings."""
        if settings.delay_levels != self.settings.delay_levels:
            self.fast_path.set_delay_levels(settings.delay_levels)
            self.delays.change(parse_levels(settings.delay_levels), self.now_ms())
        if settings.access != self.settings.access:
            self.access.apply(settings.access)
        self.settings = settings
        self.settings_version = self.settings_version.next(self.now_ms())
        self.topics.rules = topic_rules(settings)
        limits = BrokerLimits.of(settings)
        self.topics.limits = self.members.limits = limits
        self.groups.groups_max = limits.groups
        self.groups.auto_create = settings.creates_groups


def _nobody(_link: Link) -> None:
    """Pauses no connection: there are none before the broker listens."""


def topic_rules(settings: BrokerSettings) -> TopicRules:
    """Returns the settings that decide about topics."""
    return TopicRules(
        cluster=settings.cluster,
        broker_name=settings.name,
        auto_create=settings.creates_topics,
        default_queues=settings.default_topic_queues,
        cluster_topic=settings.has_cluster_topic,
        broker_topic=settings.has_broker_topic,
        trace_topic=settings.trace_topic if settings.has_trace_topic else None,
        has_timers=settings.has_timers,
        revive_queues=max(1, settings.pop_revive_queues),
        has_acting_master=settings.has_acting_master,
    )


def masked(topic: TopicConfig, broker_perm: int) -> TopicConfig:
    """Returns a topic as routes see it: what the broker does not allow, no topic does."""
    if broker_perm & PERM_READ_WRITE == PERM_READ_WRITE:
        return topic
    return replace(topic, perm=topic.perm & broker_perm)
