"""A guarded name server: who registers, who is answered which route, and files that change."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from access_control import REFUSED, ROOT
from loops import run_on
from mqcore.access import AccessTables, Acl, User
from mqcore.access.model import SUPER
from mqcore.config import Layer, Program, namesrv_settings, resolved
from mqcore.errors import ConfigurationError
from mqcore.namesrv.server import NameServer
from mqcore.native import Command
from mqcore.remoting import (
    Client,
    Credentials,
    RequestCode,
    ResponseCode,
    TlsFiles,
    client_context,
    signed,
)
from mqcore.state_files import StateFile
from tls_papers import Papers

_APP = Credentials("app", "app-secret")


def tables() -> AccessTables:
    made = AccessTables().with_new(User("root", ROOT.secret_key, SUPER))
    made = made.with_new(User("app", "app-secret"))
    entries = [{"resource": "Topic:t", "actions": ["Pub"], "decision": "Allow"}]
    acl = {"policies": [{"policyType": "Custom", "entries": entries}]}
    return made.with_policies(Acl.of_json(acl, "app"))


def write(directory: Path, content: AccessTables) -> None:
    StateFile(directory / "users.json", is_private=True).save(content.users_text())
    StateFile(directory / "acls.json", is_private=True).save(content.acls_text())


@asynccontextmanager
async def serving(directory: Path, **keys: str) -> AsyncIterator[tuple[NameServer, str]]:
    values = {
        "listenPort": "0",
        "kvConfigPath": str(directory / "kvConfig.json"),
        "mqcoreNamesrvAuth": "true",
        **keys,
    }
    layers = [Layer("given", values)]
    server = NameServer(namesrv_settings(resolved(Program.NAMESRV, layers)))
    await server.start()
    try:
        yield server, f"127.0.0.1:{server.ports['namesrv']}"
    finally:
        await server.stop()


async def route(client: Client, address: str, who: Credentials | None, topic: str) -> Command:
    ext = {"topic": topic}
    if who is not None:
        ext = signed(who, ext, b"")
    return await client.call(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, ext)


def test_routes_are_answered_to_who_may_use_the_topic(tmp_path: Path) -> None:
    async def run() -> None:
        write(tmp_path, tables())
        async with serving(tmp_path) as (_server, address), Client() as client:
            assert (await route(client, address, None, "t")).code == REFUSED
            wrong = Credentials("app", "another")
            assert (await route(client, address, wrong, "t")).code == REFUSED
            # There is no such topic here: whose route is not given has the same answer.
            known = await route(client, address, _APP, "t")
            other = await route(client, address, _APP, "other")
            assert known.code == other.code == ResponseCode.TOPIC_NOT_EXIST
            kv = {"namespace": "n", "key": "k", "value": "v"}
            code = RequestCode.PUT_KV_CONFIG
            refused = await client.call(address, code, signed(_APP, kv, b""))
            assert refused.code == REFUSED
            assert (await client.call(address, code, signed(ROOT, kv, b""))).code == 0

    run_on("uvloop", run())


def test_a_certificate_names_the_user(tmp_path: Path) -> None:
    papers = Papers(tmp_path / "papers")
    keys = papers.keys("server") | {
        "tls.server.need.client.auth": "optional",
        "tls.server.authClient": "true",
        "mqcoreTlsPrincipal": r"SAN:^DNS:(.*)\.example$/$1/",
    }

    def shows(name: str) -> Client:
        path = papers.issued(name, f"{name}.example")
        return Client(tls=client_context(TlsFiles(certificate=path, trusted=papers.trusted)))

    async def run() -> None:
        write(tmp_path, tables())
        async with serving(tmp_path, **keys) as (_server, address), Client() as plain:
            kv = {"namespace": "n", "key": "k", "value": "v"}
            async with shows("root") as root, shows("app") as app, shows("nobody") as nobody:
                code = RequestCode.PUT_KV_CONFIG
                answers = [await client.call(address, code, kv) for client in (root, app, nobody)]
                assert [answer.code for answer in answers] == [0, REFUSED, REFUSED]
                routes = [await route(client, address, None, "t") for client in (app, nobody)]
                wanted = [ResponseCode.TOPIC_NOT_EXIST, REFUSED]
                assert [answer.code for answer in routes] == wanted
                # As if there were no such topic, as to who signs.
                other = await route(app, address, None, "other")
                assert other.code == ResponseCode.TOPIC_NOT_EXIST
            assert (await plain.call(address, RequestCode.PUT_KV_CONFIG, kv)).code == REFUSED

    run_on("uvloop", run())


def test_files_that_change_are_read_anew_and_bad_ones_leave_what_there_is(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        write(tmp_path, tables())
        async with serving(tmp_path) as (server, address), Client() as client:
            write(tmp_path, tables().without_user("app"))
            await server._gate.look()
            assert (await route(client, address, _APP, "t")).code == REFUSED
            for name in ("users.json", "users.json.bak"):
                (tmp_path / name).write_text("{", encoding="utf-8")
            await server._gate.look()
            assert (await route(client, address, ROOT, "t")).code == ResponseCode.TOPIC_NOT_EXIST

    run_on("uvloop", run())


def test_brokers_that_sign_nothing_come_in_by_their_address(tmp_path: Path) -> None:
    async def run() -> None:
        write(tmp_path, tables())
        keys = {"mqcoreNamesrvTrusted": "10.0.0.0/8, 127.0.0.1"}
        async with serving(tmp_path, **keys) as (_server, address), Client() as client:
            assert (await route(client, address, None, "t")).code == ResponseCode.TOPIC_NOT_EXIST
            # Who names a user is checked all the same.
            wrong = Credentials("app", "another")
            assert (await route(client, address, wrong, "t")).code == REFUSED

    run_on("uvloop", run())
    with pytest.raises(ConfigurationError, match="mqcoreNamesrvTrusted"):
        run_on("uvloop", _started(tmp_path))


def test_brokers_register_by_their_credentials_their_address_or_their_certificate(
    tmp_path: Path,
) -> None:
    papers = Papers(tmp_path / "papers")
    keys = papers.keys("server") | {
        "tls.server.need.client.auth": "optional",
        "tls.server.authClient": "true",
        "mqcoreTlsPrincipal": r"SAN:^DNS:(.*)\.example$/$1/",
    }
    fields = {
        "brokerName": "b",
        "brokerAddr": "10.0.0.1:10911",
        "clusterName": "c",
        "haServerAddr": "10.0.0.1:10912",
        "brokerId": "0",
    }
    # As a broker of 4.9 sends it: no topics, nothing compressed.
    body = b'{"filterServerList":[],"topicConfigSerializeWrapper":{"topicConfigTable":{}}}'
    code = RequestCode.REGISTER_BROKER

    async def registered(
        address: str, who: Credentials | None = None, tls: ssl.SSLContext | None = None
    ) -> int:
        async with Client(credentials=who, tls=tls) as client:
            return (await client.call(address, code, fields, body)).code

    async def run() -> None:
        cluster = [{"resource": "Cluster:*", "actions": ["Update"], "decision": "Allow"}]
        acl = {"policies": [{"policyType": "Custom", "entries": cluster}]}
        made = tables().with_new(User("brokers", "brokers-secret"))
        write(tmp_path, made.with_policies(Acl.of_json(acl, "brokers")))
        own = Credentials("brokers", "brokers-secret")
        context = client_context(
            TlsFiles(certificate=papers.issued("b", "brokers.example"), trusted=papers.trusted)
        )
        async with serving(tmp_path, **keys) as (server, address):
            assert await registered(address) == REFUSED
            assert await registered(address, _APP) == REFUSED
            assert not server.requests.table.live
            # Update of the cluster is enough, whoever shows it.
            assert await registered(address, own) == 0
            assert await registered(address, tls=context) == 0
        trusted = keys | {"mqcoreNamesrvTrusted": "127.0.0.0/8"}
        async with serving(tmp_path, **trusted) as (_server, address):
            assert await registered(address) == 0
            assert await registered(address, _APP) == REFUSED, "who signs is looked at"

    run_on("uvloop", run())


async def _started(directory: Path) -> None:
    async with serving(directory, mqcoreNamesrvTrusted="10.0.0.0/99"):
        pass
