"""A name server and a broker that both ask who it is, on a loop of their own, for blocking clients.

Both read the same users and policies. Knows no request.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from access_control import ON, ROOT
from interop.patience import eventually
from live_broker import SMALL
from mqcore import Admin
from mqcore.access import AccessTables, Acl, User
from mqcore.access.model import SUPER
from mqcore.broker.app import Broker
from mqcore.config import Layer, Program, namesrv_settings, resolved, settings_of_pairs
from mqcore.errors import NoRouteError
from mqcore.namesrv import NameServer
from mqcore.remoting import Credentials
from mqcore.state_files import StateFile
from mqcore.testing.loop_thread import LoopThread

__all__ = ["APP", "INNER", "GuardedCluster", "guarded_cluster", "write_access"]

APP = Credentials("app", "app-secret")
INNER = {
    "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"inner-secret"}',
}


@dataclass(frozen=True, slots=True)
class GuardedCluster:
    """A running cluster.

    Attributes:
        namesrv: The name server's address.
        broker: The broker's.
        server: The broker.
    """

    namesrv: str
    broker: str
    server: Broker

    def make_topic(self, topic: str, *, queues: int) -> None:
        """Makes a topic, as root, and returns when the name server has its route."""
        with Admin(self.namesrv, credentials=ROOT) as admin:
            admin.topics.create(topic, queues=queues)
            assert eventually(partial(_is_routed, admin, topic), bool)


def _is_routed(admin: Admin, topic: str) -> bool:
    try:
        return bool(admin.topics.route(topic).brokers)
    except NoRouteError:
        return False


def tables_of(*entries: tuple[str, str]) -> AccessTables:
    """Returns users: root and inner, who are Super, and app, who has entries."""
    made = AccessTables().with_new(User(ROOT.access_key, ROOT.secret_key, SUPER))
    made = made.with_new(User("inner", "inner-secret", SUPER))
    made = made.with_new(User(APP.access_key, APP.secret_key))
    rows = [
        {"resource": resource, "actions": actions.split(","), "decision": "Allow"}
        for resource, actions in entries
    ]
    if not rows:
        return made
    acl = {"policies": [{"policyType": "Custom", "entries": rows}]}
    return made.with_policies(Acl.of_json(acl, APP.access_key))


def write_access(directory: Path, content: AccessTables) -> None:
    """Writes the files of users and policies."""
    directory.mkdir(parents=True, exist_ok=True)
    StateFile(directory / "users.json", is_private=True).save(content.users_text())
    StateFile(directory / "acls.json", is_private=True).save(content.acls_text())


@contextmanager
def guarded_cluster(
    directory: Path, *entries: tuple[str, str], **keys: str
) -> Iterator[GuardedCluster]:
    """Runs a cluster.

    Args:
        directory: Where its files are.
        entries: What `APP` may: resource, and actions by comma.
        keys: More settings of the broker.
    """
    access = directory / "access"
    write_access(access, tables_of(*entries))
    thread = LoopThread("guarded")
    names = {
        "listenPort": "0",
        "kvConfigPath": str(directory / "kv.json"),
        "mqcoreNamesrvAuth": "true",
        "authConfigPath": str(access),
        "clusterName": "c",
    }
    namesrv = NameServer(namesrv_settings(resolved(Program.NAMESRV, [Layer("test", names)])))
    thread.run(namesrv.start())
    address = f"127.0.0.1:{namesrv.ports['namesrv']}"
    try:
        values = SMALL | ON | INNER | keys
        values |= {
            "namesrvAddr": address,
            "authConfigPath": str(access),
            "storePathRootDir": str(directory / "store"),
        }
        broker = Broker(settings_of_pairs(values))
        thread.run(broker.start())
        try:
            assert thread.run(broker.until_registered(address, timeout_s=20.0))
            yield GuardedCluster(address, f"127.0.0.1:{broker.ports['broker']}", broker)
        finally:
            thread.run(broker.stop())
    finally:
        thread.run(namesrv.stop())
        thread.close()
