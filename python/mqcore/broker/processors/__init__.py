"""The answers to what is not hot, one family of requests per file."""

from collections.abc import Iterable, Mapping

from mqcore.audit import AuditRequests, recorded
from mqcore.broker.access_changes import AccessChanges
from mqcore.broker.access_pairs import StoredPairs
from mqcore.broker.admin_pace import paced
from mqcore.broker.audit_looks import audit_looks
from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.membership_changes import MembershipChanges
from mqcore.broker.passing_on import PassingOn
from mqcore.broker.processors.access_admin import AccessAdmin
from mqcore.broker.processors.assignments import Assignments
from mqcore.broker.processors.authorized import authorized
from mqcore.broker.processors.clients import Clients
from mqcore.broker.processors.cold_data import ColdData
from mqcore.broker.processors.forwards import Forwards
from mqcore.broker.processors.given_up import GivenUp
from mqcore.broker.processors.group_admin import GroupAdmin
from mqcore.broker.processors.guard import guarded
from mqcore.broker.processors.inside import Inside
from mqcore.broker.processors.limits import LimitsReport
from mqcore.broker.processors.maintenance import Maintenance
from mqcore.broker.processors.messages import Messages
from mqcore.broker.processors.mounted import refused_when_mounted
from mqcore.broker.processors.offset_admin import OffsetAdmin
from mqcore.broker.processors.plain_access import PlainAccess
from mqcore.broker.processors.progress import Progress
from mqcore.broker.processors.replication import Replication, refused_by_slave
from mqcore.broker.processors.replies import Replies
from mqcore.broker.processors.rocksdb import RocksDb
from mqcore.broker.processors.slow import SlowRequests
from mqcore.broker.processors.snapshots import Snapshots
from mqcore.broker.processors.static_admin import StaticAdmin
from mqcore.broker.processors.succession import Succession
from mqcore.broker.processors.timers import Timers
from mqcore.broker.processors.topic_admin import TopicAdmin
from mqcore.broker.state import BrokerState
from mqcore.broker.static_requests import StaticRequests
from mqcore.broker.topic_queues import TopicQueues
from mqcore.native import native_request_codes
from mqcore.remoting import AnsweredBy, Dispatcher, Handler, check_handlers, check_native, code_name
from mqcore.remoting.audited_requests import AUDITED

__all__ = ["dispatcher_of", "serve_succession"]


def dispatcher_of(
    state: BrokerState,
    persistence: ConfigPersistence,
    membership: MembershipChanges,
    queues: TopicQueues,
    static: StaticRequests,
) -> Dispatcher:
    """Returns the table of everything that Python answers.

    Args:
        state: The broker's tables.
        persistence: What writes them.
        membership: What passes on who is online.
        queues: The queues of topics over all brokers.
        static: What serves requests for static topics.

    Raises:
        RuntimeError: What is served differs from the table of request codes.
    """
    replication = Replication(state)
    access = AccessAdmin(state, AccessChanges(state, persistence))
    stored = StoredPairs(state)
    families = (
        access,
        Assignments(state, persistence, queues),
        Clients(state, persistence, membership),
        ColdData(state),
        Forwards(state),
        GivenUp(state),
        GroupAdmin(state, persistence),
        Maintenance(state, persistence),
        Messages(state, static),
        OffsetAdmin(state),
        PlainAccess(state),
        Progress(state),
        RocksDb(persistence),
        StaticAdmin(state, persistence),
        Timers(state, persistence),
        TopicAdmin(state, persistence),
        Replies(state),
        replication,
    )
    handlers = _handlers_of(family.handlers() for family in families)
    looks = audit_looks(state)

    def audited(code: int, handler: Handler) -> Handler:
        return guarded(recorded(code, handler, state.trail, looks), state)

    served = {
        code: audited(
            code,
            _paced(
                code,
                authorized(code, _refused_by_role(code, handler, state), state, stored),
                state,
            ),
        )
        for code, handler in handlers.items()
    }
    reports = (Inside(state), LimitsReport(state), SlowRequests(state))
    for each in (access, replication, Snapshots(state, persistence), *reports):
        for code, handler in each.own_handlers().items():
            served[code] = audited(code, handler)
    for code, handler in AuditRequests(state.trail).handlers().items():
        served[code] = guarded(handler, state)
    return Dispatcher(served)


def serve_succession(
    dispatcher: Dispatcher,
    state: BrokerState,
    persistence: ConfigPersistence,
    passing_on: PassingOn,
) -> None:
    """Lets a broker's table serve who is master next, and pass on what is for another master."""
    looks = audit_looks(state)
    for code, handler in Succession(state, persistence).handlers().items():
        dispatcher.on(code, guarded(recorded(code, handler, state.trail, looks), state))
    passing_on.join(dispatcher)


def _handlers_of(families: Iterable[Mapping[int, Handler]]) -> dict[int, Handler]:
    """Returns who answers what officials ask for, checked against the table of request codes."""
    handlers: dict[int, Handler] = {}
    for family in families:
        for code, handler in family.items():
            if handlers.setdefault(code, handler) is not handler:
                raise RuntimeError(f"{code_name(code)} has two handlers")
    check_native(native_request_codes())
    check_handlers(AnsweredBy.BROKER, handlers)
    return handlers


def _paced(code: int, handler: Handler, state: BrokerState) -> Handler:
    if code not in AUDITED:
        return handler
    return paced(handler, state.admin_pace, lambda: state.settings.admin_changes_per_second)


def _refused_by_role(code: int, handler: Handler, state: BrokerState) -> Handler:
    return refused_by_slave(code, refused_when_mounted(code, handler, state), state)
