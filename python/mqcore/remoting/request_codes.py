"""The table of all request codes: one row each, declared here and nowhere else.

A row states the number, the family, who answers the request, and since which release it exists.
Which requests a broker over a mounted store refuses, which codes the dispatchers and the fast path
may serve (`request_checks`), and `docs/request-codes.md` (`request_code_page`) come from it. To add
a request: its row, then its handler. Knows no handler and no header.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Flag, IntEnum, StrEnum, auto
from types import MappingProxyType
from typing import Final

from mqcore.remoting.audited_requests import AUDITED, undecided
from mqcore.remoting.permissions import OWN_PERMISSIONS, PERMISSIONS

__all__ = [
    "CODES",
    "RULES",
    "AnsweredBy",
    "Family",
    "OwnRequestCode",
    "RequestCode",
    "Row",
    "answered_by",
    "code_name",
    "family",
]


class AnsweredBy(Flag):
    """Who answers a request; a few are answered by the broker, which asks a client for it."""

    # The broker's fast path in Rust.
    NATIVE = auto()
    # The broker's handlers in Python.
    BROKER = auto()
    NAMESRV = auto()
    CONTROLLER = auto()
    # Requests that a broker sends to its clients.
    CLIENT = auto()


class Family(StrEnum):
    """What requests are about; the order is that of the page."""

    SEND = "Sending"
    RETRY = "Messages sent back"
    REPLY = "Replies to messages"
    PULL = "Pulling"
    POP = "Popping"
    TRANSACTION = "Transactions"
    TIMER = "Timed messages"
    OFFSETS = "Offsets and progress"
    QUERY = "Queries of messages"
    MEMBERS = "Clients of groups"
    ASSIGNMENT = "Assignment of queues by the broker"
    TOPICS = "Topics"
    GROUPS = "Subscription groups"
    BROKER = "Broker"
    ROUTES = "Name server"
    KV = "KV configuration of the name server"
    REPLICATION = "Replication"
    CONTROLLER = "Controller"
    CONTAINER = "Broker containers"
    COLD_DATA = "Reading of cold data"
    LITE = "Lite topics"
    ROCKSDB = "RocksDB"
    FILTER_SERVER = "Filter servers"
    ACCESS = "Access control"


@dataclass(frozen=True, slots=True)
class Row:
    """What is declared of one request.

    Attributes:
        number: Its code on the wire.
        family: What it is about.
        answered_by: Who answers it; nobody where a `reason` is given.
        since: The first official release whose `RequestCode.java` has it.
        until: The last one, where a later release has it no more.
        on_mounted: Whether a broker over a mounted (read-only) store serves it.
        permission: What a user must be allowed, from `permissions`; empty where no server answers.
        is_audited: Whether it becomes a line of the audit, from `audited_requests`.
        reason: Why nobody answers it.
    """

    number: int
    family: Family
    answered_by: AnsweredBy
    since: str
    until: str = ""
    on_mounted: bool = True
    permission: str = ""
    is_audited: bool = False
    reason: str = ""


def _unanswered(number: int, family: Family, since: str, reason: str, *, until: str = "") -> Row:
    return Row(number, family, AnsweredBy(0), since, until, on_mounted=False, reason=reason)


_NATIVE: Final = AnsweredBy.NATIVE
_BROKER: Final = AnsweredBy.BROKER
_NAMESRV: Final = AnsweredBy.NAMESRV
_CONTROLLER: Final = AnsweredBy.CONTROLLER
_CLIENT: Final = AnsweredBy.CLIENT

_UNUSED: Final = "only a number: no official release from 4.9 on sends or answers it"
_CLIENT_CONFIG: Final = "only the name server of 5.0 answered it; 5.3 neither sends nor answers it"
_ALL_SECRETS: Final = "it gave every secret to whoever asked (CVE-2024-23321); 4.9.8 has removed it"
_FILTER_SERVER: Final = (
    "filter servers were removed from RocketMQ; expressions of SQL92 replace them"
)
_LITE: Final = "lite topics of 5.5 are not implemented"
_TIMER_ENGINE: Final = (
    "only the timer wheel is built: messages that wait in RocksDB would not be delivered"
)
_CONTAINER: Final = "a process holds one broker; broker containers are not implemented"
_BETWEEN_CONTROLLERS: Final = (
    "an entry of the official controllers' Raft log, never sent to a broker"
)


class RequestCode(IntEnum):
    """What a request asks for, by its official name; `row` has the rest of its declaration."""

    row: Row

    def __new__(cls, row: Row) -> "RequestCode":
        """Makes the member a number that knows its row."""
        code = int.__new__(cls, row.number)
        code._value_ = row.number
        permission = PERMISSIONS.get(row.number, "")
        code.row = replace(row, permission=permission, is_audited=row.number in AUDITED)
        return code

    SEND_MESSAGE = Row(10, Family.SEND, _NATIVE, "4.0.0", on_mounted=False)
    PULL_MESSAGE = Row(11, Family.PULL, _NATIVE, "4.0.0")
    QUERY_MESSAGE = Row(12, Family.QUERY, _BROKER, "4.0.0")
    QUERY_BROKER_OFFSET = _unanswered(13, Family.OFFSETS, "4.0.0", _UNUSED)
    QUERY_CONSUMER_OFFSET = Row(14, Family.OFFSETS, _NATIVE, "4.0.0")
    UPDATE_CONSUMER_OFFSET = Row(15, Family.OFFSETS, _NATIVE, "4.0.0")
    UPDATE_AND_CREATE_TOPIC = Row(17, Family.TOPICS, _BROKER, "4.0.0", on_mounted=False)
    UPDATE_AND_CREATE_TOPIC_LIST = Row(18, Family.TOPICS, _BROKER, "5.3.0", on_mounted=False)
    GET_ALL_TOPIC_CONFIG = Row(21, Family.TOPICS, _BROKER, "4.0.0")
    GET_TOPIC_CONFIG_LIST = _unanswered(22, Family.TOPICS, "4.0.0", _UNUSED)
    GET_TOPIC_NAME_LIST = _unanswered(23, Family.TOPICS, "4.0.0", _UNUSED)
    UPDATE_BROKER_CONFIG = Row(25, Family.BROKER, _BROKER, "4.0.0", on_mounted=False)
    GET_BROKER_CONFIG = Row(26, Family.BROKER, _BROKER, "4.0.0")
    TRIGGER_DELETE_FILES = _unanswered(27, Family.BROKER, "4.0.0", _UNUSED)
    GET_BROKER_RUNTIME_INFO = Row(28, Family.BROKER, _BROKER, "4.0.0")
    SEARCH_OFFSET_BY_TIMESTAMP = Row(29, Family.OFFSETS, _NATIVE, "4.0.0")
    GET_MAX_OFFSET = Row(30, Family.OFFSETS, _NATIVE, "4.0.0")
    GET_MIN_OFFSET = Row(31, Family.OFFSETS, _NATIVE, "4.0.0")
    GET_EARLIEST_MSG_STORETIME = Row(32, Family.QUERY, _BROKER, "4.0.0")
    VIEW_MESSAGE_BY_ID = Row(33, Family.QUERY, _BROKER, "4.0.0")
    HEART_BEAT = Row(34, Family.MEMBERS, _BROKER, "4.0.0")
    UNREGISTER_CLIENT = Row(35, Family.MEMBERS, _BROKER, "4.0.0")
    CONSUMER_SEND_MSG_BACK = Row(36, Family.RETRY, _NATIVE, "4.0.0", on_mounted=False)
    END_TRANSACTION = Row(37, Family.TRANSACTION, _NATIVE, "4.0.0", on_mounted=False)
    GET_CONSUMER_LIST_BY_GROUP = Row(38, Family.MEMBERS, _BROKER, "4.0.0")
    CHECK_TRANSACTION_STATE = Row(39, Family.TRANSACTION, _CLIENT, "4.0.0")
    NOTIFY_CONSUMER_IDS_CHANGED = Row(40, Family.MEMBERS, _CLIENT, "4.0.0")
    LOCK_BATCH_MQ = Row(41, Family.MEMBERS, _BROKER, "4.0.0")
    UNLOCK_BATCH_MQ = Row(42, Family.MEMBERS, _BROKER, "4.0.0")
    GET_ALL_CONSUMER_OFFSET = Row(43, Family.OFFSETS, _BROKER, "4.0.0")
    GET_ALL_DELAY_OFFSET = Row(45, Family.OFFSETS, _BROKER, "4.0.0")
    CHECK_CLIENT_CONFIG = Row(46, Family.MEMBERS, _BROKER, "4.1.0")
    GET_CLIENT_CONFIG = _unanswered(47, Family.MEMBERS, "5.0.0", _CLIENT_CONFIG)
    UPDATE_AND_CREATE_ACL_CONFIG = Row(50, Family.ACCESS, _BROKER, "4.5.2", until="5.3.2")
    DELETE_ACL_CONFIG = Row(51, Family.ACCESS, _BROKER, "4.5.2", until="5.3.2")
    GET_BROKER_CLUSTER_ACL_INFO = Row(52, Family.ACCESS, _BROKER, "4.5.2", until="5.3.2")
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG = Row(53, Family.ACCESS, _BROKER, "4.5.2", until="5.3.2")
    GET_BROKER_CLUSTER_ACL_CONFIG = _unanswered(
        54, Family.ACCESS, "4.6.0", _ALL_SECRETS, until="5.3.2"
    )
    GET_TIMER_CHECK_POINT = Row(60, Family.TIMER, _BROKER, "5.0.0")
    GET_TIMER_METRICS = Row(61, Family.TIMER, _BROKER, "5.0.0")
    PUT_KV_CONFIG = Row(100, Family.KV, _NAMESRV, "4.0.0")
    GET_KV_CONFIG = Row(101, Family.KV, _NAMESRV, "4.0.0")
    DELETE_KV_CONFIG = Row(102, Family.KV, _NAMESRV, "4.0.0")
    REGISTER_BROKER = Row(103, Family.ROUTES, _NAMESRV, "4.0.0")
    UNREGISTER_BROKER = Row(104, Family.ROUTES, _NAMESRV, "4.0.0")
    GET_ROUTEINFO_BY_TOPIC = Row(105, Family.ROUTES, _NAMESRV, "4.0.0")
    GET_BROKER_CLUSTER_INFO = Row(106, Family.ROUTES, _NAMESRV, "4.0.0")
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = Row(200, Family.GROUPS, _BROKER, "4.0.0")
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = Row(201, Family.GROUPS, _BROKER, "4.0.0")
    GET_TOPIC_STATS_INFO = Row(202, Family.TOPICS, _BROKER, "4.0.0")
    GET_CONSUMER_CONNECTION_LIST = Row(203, Family.MEMBERS, _BROKER, "4.0.0")
    GET_PRODUCER_CONNECTION_LIST = Row(204, Family.MEMBERS, _BROKER, "4.0.0")
    WIPE_WRITE_PERM_OF_BROKER = Row(205, Family.ROUTES, _NAMESRV, "4.0.0")
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = Row(206, Family.ROUTES, _NAMESRV, "4.0.0")
    DELETE_SUBSCRIPTIONGROUP = Row(207, Family.GROUPS, _BROKER, "4.0.0")
    GET_CONSUME_STATS = Row(208, Family.OFFSETS, _BROKER, "4.0.0")
    SUSPEND_CONSUMER = _unanswered(209, Family.MEMBERS, "4.0.0", _UNUSED)
    RESUME_CONSUMER = _unanswered(210, Family.MEMBERS, "4.0.0", _UNUSED)
    RESET_CONSUMER_OFFSET_IN_CONSUMER = _unanswered(211, Family.OFFSETS, "4.0.0", _UNUSED)
    RESET_CONSUMER_OFFSET_IN_BROKER = _unanswered(212, Family.OFFSETS, "4.0.0", _UNUSED)
    ADJUST_CONSUMER_THREAD_POOL = _unanswered(213, Family.MEMBERS, "4.0.0", _UNUSED)
    WHO_CONSUME_THE_MESSAGE = _unanswered(214, Family.TOPICS, "4.0.0", _UNUSED)
    DELETE_TOPIC_IN_BROKER = Row(215, Family.TOPICS, _BROKER, "4.0.0", on_mounted=False)
    DELETE_TOPIC_IN_NAMESRV = Row(216, Family.ROUTES, _NAMESRV, "4.0.0")
    REGISTER_TOPIC_IN_NAMESRV = Row(217, Family.ROUTES, _NAMESRV, "5.0.0")
    GET_KVLIST_BY_NAMESPACE = Row(219, Family.KV, _NAMESRV, "4.0.0")
    RESET_CONSUMER_CLIENT_OFFSET = Row(220, Family.OFFSETS, _CLIENT, "4.0.0")
    GET_CONSUMER_STATUS_FROM_CLIENT = Row(221, Family.OFFSETS, _CLIENT, "4.0.0")
    INVOKE_BROKER_TO_RESET_OFFSET = Row(222, Family.OFFSETS, _BROKER, "4.0.0")
    INVOKE_BROKER_TO_GET_CONSUMER_STATUS = Row(223, Family.OFFSETS, _BROKER, "4.0.0")
    GET_TOPICS_BY_CLUSTER = Row(224, Family.ROUTES, _NAMESRV, "4.0.0")
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST = Row(225, Family.GROUPS, _BROKER, "5.3.1")
    QUERY_TOPIC_CONSUME_BY_WHO = Row(300, Family.TOPICS, _BROKER, "4.0.0")
    REGISTER_FILTER_SERVER = _unanswered(301, Family.FILTER_SERVER, "4.0.0", _FILTER_SERVER)
    REGISTER_MESSAGE_FILTER_CLASS = _unanswered(302, Family.FILTER_SERVER, "4.0.0", _FILTER_SERVER)
    QUERY_CONSUME_TIME_SPAN = Row(303, Family.OFFSETS, _BROKER, "4.0.0")
    GET_SYSTEM_TOPIC_LIST_FROM_NS = Row(304, Family.ROUTES, _NAMESRV, "4.0.0")
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER = Row(305, Family.TOPICS, _BROKER, "4.0.0")
    CLEAN_EXPIRED_CONSUMEQUEUE = Row(306, Family.BROKER, _BROKER, "4.0.0", on_mounted=False)
    GET_CONSUMER_RUNNING_INFO = Row(307, Family.MEMBERS, _BROKER | _CLIENT, "4.0.0")
    QUERY_CORRECTION_OFFSET = Row(308, Family.OFFSETS, _BROKER, "4.0.0")
    CONSUME_MESSAGE_DIRECTLY = Row(309, Family.MEMBERS, _BROKER | _CLIENT, "4.0.0")
    SEND_MESSAGE_V2 = Row(310, Family.SEND, _NATIVE, "4.0.0", on_mounted=False)
    GET_UNIT_TOPIC_LIST = Row(311, Family.ROUTES, _NAMESRV, "4.0.0")
    GET_HAS_UNIT_SUB_TOPIC_LIST = Row(312, Family.ROUTES, _NAMESRV, "4.0.0")
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = Row(313, Family.ROUTES, _NAMESRV, "4.0.0")
    CLONE_GROUP_OFFSET = Row(314, Family.OFFSETS, _BROKER, "4.0.0")
    VIEW_BROKER_STATS_DATA = Row(315, Family.BROKER, _BROKER, "4.0.0")
    CLEAN_UNUSED_TOPIC = Row(316, Family.BROKER, _BROKER, "4.0.0", on_mounted=False)
    GET_BROKER_CONSUME_STATS = Row(317, Family.OFFSETS, _BROKER, "4.0.0")
    UPDATE_NAMESRV_CONFIG = Row(318, Family.ROUTES, _NAMESRV, "4.0.0")
    GET_NAMESRV_CONFIG = Row(319, Family.ROUTES, _NAMESRV, "4.0.0")
    SEND_BATCH_MESSAGE = Row(320, Family.SEND, _NATIVE, "4.1.0", on_mounted=False)
    QUERY_CONSUME_QUEUE = Row(321, Family.QUERY, _BROKER, "4.1.0")
    QUERY_DATA_VERSION = Row(322, Family.ROUTES, _NAMESRV, "4.3.0")
    RESUME_CHECK_HALF_MESSAGE = Row(323, Family.TRANSACTION, _BROKER, "4.5.2", on_mounted=False)
    SEND_REPLY_MESSAGE = Row(324, Family.REPLY, _BROKER, "4.6.0")
    SEND_REPLY_MESSAGE_V2 = Row(325, Family.REPLY, _BROKER, "4.6.0")
    PUSH_REPLY_MESSAGE_TO_CLIENT = Row(326, Family.REPLY, _CLIENT, "4.6.0")
    ADD_WRITE_PERM_OF_BROKER = Row(327, Family.ROUTES, _NAMESRV, "4.9.2")
    GET_ALL_PRODUCER_INFO = Row(328, Family.MEMBERS, _BROKER, "4.9.4")
    DELETE_EXPIRED_COMMITLOG = Row(329, Family.BROKER, _BROKER, "4.9.4", on_mounted=False)
    QUERY_TOPICS_BY_CONSUMER = Row(343, Family.TOPICS, _BROKER, "5.0.0")
    QUERY_SUBSCRIPTION_BY_CONSUMER = Row(345, Family.TOPICS, _BROKER, "5.0.0")
    GET_TOPIC_CONFIG = Row(351, Family.TOPICS, _BROKER, "5.0.0")
    GET_SUBSCRIPTIONGROUP_CONFIG = Row(352, Family.GROUPS, _BROKER, "5.0.0")
    UPDATE_AND_GET_GROUP_FORBIDDEN = Row(353, Family.GROUPS, _BROKER, "5.0.0")
    CHECK_ROCKSDB_CQ_WRITE_PROGRESS = Row(354, Family.ROCKSDB, _BROKER, "5.3.1")
    EXPORT_ROCKSDB_CONFIG_TO_JSON = Row(355, Family.ROCKSDB, _BROKER, "5.3.2")
    LITE_PULL_MESSAGE = Row(361, Family.PULL, _NATIVE, "5.0.0")
    RECALL_MESSAGE = Row(370, Family.TIMER, _NATIVE, "5.3.2", on_mounted=False)
    QUERY_ASSIGNMENT = Row(400, Family.ASSIGNMENT, _BROKER, "5.0.0")
    SET_MESSAGE_REQUEST_MODE = Row(401, Family.ASSIGNMENT, _BROKER, "5.0.0")
    GET_ALL_MESSAGE_REQUEST_MODE = Row(402, Family.ASSIGNMENT, _BROKER, "5.0.0")
    UPDATE_AND_CREATE_STATIC_TOPIC = Row(513, Family.TOPICS, _BROKER, "5.0.0", on_mounted=False)
    GET_BROKER_MEMBER_GROUP = Row(901, Family.ROUTES, _NAMESRV, "5.0.0")
    ADD_BROKER = _unanswered(902, Family.CONTAINER, "5.0.0", _CONTAINER)
    REMOVE_BROKER = _unanswered(903, Family.CONTAINER, "5.0.0", _CONTAINER)
    BROKER_HEARTBEAT = Row(904, Family.ROUTES, _NAMESRV | _CONTROLLER, "5.0.0")
    NOTIFY_MIN_BROKER_ID_CHANGE = Row(905, Family.ROUTES, _BROKER, "5.0.0")
    EXCHANGE_BROKER_HA_INFO = Row(906, Family.REPLICATION, _BROKER, "5.0.0")
    GET_BROKER_HA_STATUS = Row(907, Family.REPLICATION, _BROKER, "5.0.0")
    RESET_MASTER_FLUSH_OFFSET = Row(908, Family.REPLICATION, _BROKER, "5.0.0")
    CONTROLLER_ALTER_SYNC_STATE_SET = Row(1001, Family.CONTROLLER, _CONTROLLER, "5.0.0")
    CONTROLLER_ELECT_MASTER = Row(1002, Family.CONTROLLER, _CONTROLLER, "5.0.0")
    CONTROLLER_REGISTER_BROKER = Row(1003, Family.CONTROLLER, _CONTROLLER, "5.0.0")
    CONTROLLER_GET_REPLICA_INFO = Row(1004, Family.CONTROLLER, _CONTROLLER, "5.0.0")
    CONTROLLER_GET_METADATA_INFO = Row(1005, Family.CONTROLLER, _CONTROLLER, "5.0.0")
    CONTROLLER_GET_SYNC_STATE_DATA = Row(1006, Family.CONTROLLER, _CONTROLLER, "5.0.0")
    GET_BROKER_EPOCH_CACHE = Row(1007, Family.REPLICATION, _BROKER, "5.0.0", on_mounted=False)
    NOTIFY_BROKER_ROLE_CHANGED = Row(1008, Family.REPLICATION, _BROKER, "5.0.0", on_mounted=False)
    UPDATE_CONTROLLER_CONFIG = Row(1009, Family.CONTROLLER, _CONTROLLER, "5.0.0")
    GET_CONTROLLER_CONFIG = Row(1010, Family.CONTROLLER, _CONTROLLER, "5.0.0")
    CLEAN_BROKER_DATA = Row(1011, Family.CONTROLLER, _CONTROLLER, "5.0.0")
    CONTROLLER_GET_NEXT_BROKER_ID = Row(1012, Family.CONTROLLER, _CONTROLLER, "5.1.1")
    CONTROLLER_APPLY_BROKER_ID = Row(1013, Family.CONTROLLER, _CONTROLLER, "5.1.1")
    BROKER_CLOSE_CHANNEL_REQUEST = _unanswered(
        1014, Family.CONTROLLER, "5.2.0", _BETWEEN_CONTROLLERS
    )
    CHECK_NOT_ACTIVE_BROKER_REQUEST = _unanswered(
        1015, Family.CONTROLLER, "5.2.0", _BETWEEN_CONTROLLERS
    )
    GET_BROKER_LIVE_INFO_REQUEST = _unanswered(
        1016, Family.CONTROLLER, "5.2.0", _BETWEEN_CONTROLLERS
    )
    GET_SYNC_STATE_DATA_REQUEST = _unanswered(1017, Family.CONTROLLER, "5.2.0", _UNUSED)
    RAFT_BROKER_HEART_BEAT_EVENT_REQUEST = _unanswered(
        1018, Family.CONTROLLER, "5.2.0", _BETWEEN_CONTROLLERS
    )
    UPDATE_COLD_DATA_FLOW_CTR_CONFIG = Row(2001, Family.COLD_DATA, _BROKER, "5.1.2")
    REMOVE_COLD_DATA_FLOW_CTR_CONFIG = Row(2002, Family.COLD_DATA, _BROKER, "5.1.2")
    GET_COLD_DATA_FLOW_CTR_INFO = Row(2003, Family.COLD_DATA, _BROKER, "5.1.2")
    SET_COMMITLOG_READ_MODE = Row(2004, Family.COLD_DATA, _BROKER, "5.1.2", on_mounted=False)
    AUTH_CREATE_USER = Row(3001, Family.ACCESS, _BROKER, "5.3.0")
    AUTH_UPDATE_USER = Row(3002, Family.ACCESS, _BROKER, "5.3.0")
    AUTH_DELETE_USER = Row(3003, Family.ACCESS, _BROKER, "5.3.0")
    AUTH_GET_USER = Row(3004, Family.ACCESS, _BROKER, "5.3.0")
    AUTH_LIST_USER = Row(3005, Family.ACCESS, _BROKER, "5.3.0")
    AUTH_CREATE_ACL = Row(3006, Family.ACCESS, _BROKER, "5.3.0")
    AUTH_UPDATE_ACL = Row(3007, Family.ACCESS, _BROKER, "5.3.0")
    AUTH_DELETE_ACL = Row(3008, Family.ACCESS, _BROKER, "5.3.0")
    AUTH_GET_ACL = Row(3009, Family.ACCESS, _BROKER, "5.3.0")
    AUTH_LIST_ACL = Row(3010, Family.ACCESS, _BROKER, "5.3.0")
    SWITCH_TIMER_ENGINE = _unanswered(5001, Family.TIMER, "5.5.0", _TIMER_ENGINE)
    POP_MESSAGE = Row(200050, Family.POP, _NATIVE, "5.0.0", on_mounted=False)
    ACK_MESSAGE = Row(200051, Family.POP, _NATIVE, "5.0.0")
    PEEK_MESSAGE = Row(200052, Family.POP, _NATIVE, "5.0.0")
    CHANGE_MESSAGE_INVISIBLETIME = Row(200053, Family.POP, _NATIVE, "5.0.0", on_mounted=False)
    NOTIFICATION = Row(200054, Family.POP, _NATIVE, "5.0.0")
    POLLING_INFO = Row(200055, Family.POP, _NATIVE, "5.0.0")
    POP_ROLLBACK = Row(200056, Family.POP, _BROKER, "5.3.2")
    POP_LITE_MESSAGE = _unanswered(200070, Family.LITE, "5.5.0", _LITE)
    LITE_SUBSCRIPTION_CTL = _unanswered(200071, Family.LITE, "5.5.0", _LITE)
    ACK_LITE_MESSAGE = _unanswered(200072, Family.LITE, "5.5.0", _LITE)
    NOTIFY_UNSUBSCRIBE_LITE = _unanswered(200073, Family.LITE, "5.5.0", _LITE)
    GET_BROKER_LITE_INFO = _unanswered(200074, Family.LITE, "5.5.0", _LITE)
    GET_PARENT_TOPIC_INFO = _unanswered(200075, Family.LITE, "5.5.0", _LITE)
    GET_LITE_TOPIC_INFO = _unanswered(200076, Family.LITE, "5.5.0", _LITE)
    GET_LITE_CLIENT_INFO = _unanswered(200077, Family.LITE, "5.5.0", _LITE)
    GET_LITE_GROUP_INFO = _unanswered(200078, Family.LITE, "5.5.0", _LITE)
    TRIGGER_LITE_DISPATCH = _unanswered(200079, Family.LITE, "5.5.0", _LITE)
    BATCH_ACK_MESSAGE = Row(200151, Family.POP, _NATIVE, "5.1.3")


class OwnRequestCode(IntEnum):
    """Requests between programs of mqcore alone, far above all official numbers."""

    # A message of the consensus of controllers; its body, and that of its answer, are theirs alone.
    CONTROLLER_MESSAGE = 1_480_001
    # A slave names the connection by which it is notified of tables (slave to master).
    FOLLOW_TABLES = 1_480_002
    # Tables have changed, and a slave is to take them before it answers (master to slave).
    TAKE_TABLES = 1_480_003
    # A master hands its role over, or how far that is (tool to broker).
    HAND_OVER = 1_480_004
    # What process and store of a broker occupy, and what holds it (tool to broker).
    MEMORY = 1_480_010
    # A broker's settings with where each value comes from (tool to broker).
    SETTINGS = 1_480_011
    # A slave asks its master whether whole files of its log may be copied at its port for slaves.
    REFILL_OFFER = 1_480_005
    # A master wants its controller to refuse whatever sets it has asked for until now.
    FENCE_SET = 1_480_007
    # Requests of this connection are those of clients, whom they name (former master to master).
    PASS_ON = 1_480_008
    # The slowest requests of the last minutes with their stages (tool to broker).
    SLOW_REQUESTS = 1_480_020
    # A snapshot of the store is taken: tables are written, or the log is flushed (tool to broker).
    SNAPSHOT = 1_480_030
    # Users and policies with all secrets (slave to master).
    ACCESS_TABLES = 1_480_006
    # Quotas with whom they hold back, connections by address, wrong signatures (tool to broker).
    LIMITS = 1_480_051
    # Why a user may, or may not, do something: the deciding entry (tool to broker).
    ACCESS_EXPLAINED = 1_480_040
    # What was refused, or would have been in a dry run (tool to broker).
    ACCESS_REFUSALS = 1_480_041
    # Lines of the audit, the newest first (tool to any server).
    AUDIT_READ = 1_480_050
    # Whether lines of the audit were taken out or changed (tool to any server).
    AUDIT_VERIFY = 1_480_053

    @property
    def permission(self) -> str:
        """What a user must be allowed."""
        return OWN_PERMISSIONS[self]

    @property
    def is_audited(self) -> bool:
        """Whether it becomes a line of the audit."""
        return self in AUDITED


_OWN_CODES: Final[Mapping[int, OwnRequestCode]] = MappingProxyType(
    {int(code): code for code in OwnRequestCode}
)
# By number.
CODES: Final[Mapping[int, RequestCode]] = MappingProxyType(
    {int(code): code for code in RequestCode}
)


def _rules() -> Mapping[int, str]:
    """Returns the rule of every code that a server answers.

    Raises:
        RuntimeError: One has none, or there is one of a code that nobody answers; or nobody has
            decided whether one is audited.
    """
    servers = AnsweredBy.NATIVE | AnsweredBy.BROKER | AnsweredBy.NAMESRV | AnsweredBy.CONTROLLER
    answered = {int(code) for code in RequestCode if code.row.answered_by & servers}
    own = {int(code) for code in OwnRequestCode}
    differing = answered.symmetric_difference(PERMISSIONS) | own.symmetric_difference(
        OWN_PERMISSIONS
    )
    if differing:
        named = ", ".join(code_name(code) for code in sorted(differing))
        raise RuntimeError(f"permissions differ from the table of request codes: {named}")
    rules = {**PERMISSIONS, **OWN_PERMISSIONS}
    open_codes = undecided(rules, {*CODES, *own})
    if open_codes:
        named = ", ".join(code_name(code) for code in open_codes)
        raise RuntimeError(f"whether these are audited is not decided, or is twice: {named}")
    return MappingProxyType(rules)


def answered_by(who: AnsweredBy) -> frozenset[RequestCode]:
    """Returns the codes that somebody answers, alone or besides others."""
    return frozenset(code for code in RequestCode if who in code.row.answered_by)


def family(wanted: Family) -> frozenset[RequestCode]:
    """Returns the codes of a family, answered or not."""
    return frozenset(code for code in RequestCode if code.row.family is wanted)


def code_name(number: int) -> str:
    """Returns a request code with its official name, or ours, where it has one."""
    code = CODES.get(number) or _OWN_CODES.get(number)
    return str(number) if code is None else f"{code.name}({number})"


# What a user must be allowed for each code that a server answers, those of mqcore alone too.
RULES: Final[Mapping[int, str]] = _rules()
