"""Users and policies of a group: slaves have a change before it is acknowledged."""

from pathlib import Path

from access_control import ON, REFUSED, Guarded, guarded
from broker.test_replication import SLAVE, name_server
from live_broker import live, send_fields
from loops import run_on, until
from mqcore.model.relaxed_json import compact
from mqcore.remoting import RequestCode

INNER = {
    "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"inner-secret"}',
}
MASTER = {"brokerRole": "SYNC_MASTER", **INNER}
OURS = {**ON, **SLAVE, **INNER}
_SEND = RequestCode.SEND_MESSAGE_V2


async def follows(master: Guarded, slave: Guarded) -> None:
    """Returns when a slave has the tables of its master."""
    await until(lambda: bool(master.live.broker._opened_persistence().followers._known))
    await until(lambda: slave.live.broker.state.replicas.gives_access)


def test_what_is_revoked_is_still_refused_by_the_slave_that_becomes_master(tmp_path: Path) -> None:
    async def run() -> None:
        async with name_server(tmp_path) as names:
            keys = {"namesrvAddr": names}
            async with (
                guarded(tmp_path / "m", **MASTER, **keys) as master,
                live(tmp_path / "s", **OURS, **keys) as running,
            ):
                slave = Guarded(running)
                await follows(master, slave)
                app = await master.user("app")
                await master.grant("app", ("Topic:t", "Pub"), ("Topic:u", "Pub"))
                assert slave.live.broker.state.access.tables == (
                    master.live.broker.state.access.tables
                )
                resource = {"subject": "User:app", "resource": "Topic:t"}
                await master.done(RequestCode.AUTH_DELETE_ACL, resource)
                # At once: the slave has taken it before it was acknowledged.
                entries = slave.live.broker.state.access.tables.policy_rows()
                assert [row[2] for row in entries] == ["Topic:u"]
            async with guarded(tmp_path / "s", **INNER) as promoted:
                sent = await promoted.ask(app, _SEND, send_fields("t"), b"x")
                assert sent.code == REFUSED
                assert (await promoted.ask(app, _SEND, send_fields("u"), b"x")).code != REFUSED

    run_on("uvloop", run())


def test_a_slave_lets_its_master_make_a_change_and_takes_one_that_is_made_for_done(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with name_server(tmp_path) as names:
            keys = {"namesrvAddr": names}
            async with (
                guarded(tmp_path / "m", **MASTER, **keys) as master,
                live(tmp_path / "s", **OURS, **keys) as running,
            ):
                slave = Guarded(running)
                await follows(master, slave)
                # As `mqadmin createUser -c` asks all brokers, in whatever order.
                for first, second in ((slave, master), (master, slave)):
                    name = f"by-{'slave' if first is slave else 'master'}"
                    ext, body = {"username": name}, compact({"password": "p"})
                    await first.done(RequestCode.AUTH_CREATE_USER, ext, body)
                    await second.done(RequestCode.AUTH_CREATE_USER, ext, body)
                    again = await second.ask(None, RequestCode.AUTH_CREATE_USER, ext, body)
                    assert again.code == REFUSED
                    await first.grant(name, ("Topic:t", "Pub"))
                    await second.grant(name, ("Topic:t", "Pub"))
                    subject = {"subject": f"User:{name}"}
                    await master.done(RequestCode.AUTH_DELETE_ACL, subject)
                    await slave.done(RequestCode.AUTH_DELETE_ACL, subject)
                    for each in (first, second):
                        await each.done(RequestCode.AUTH_DELETE_USER, ext)
                assert set(master.live.broker.state.access.tables.users) == {"root", "inner"}
                assert slave.live.broker.state.access.tables == (
                    master.live.broker.state.access.tables
                )

    run_on("uvloop", run())


def test_a_slave_without_credentials_takes_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with name_server(tmp_path) as names:
            keys = {"namesrvAddr": names}
            async with (
                guarded(tmp_path / "m", brokerRole="ASYNC_MASTER", **INNER, **keys) as master,
                live(tmp_path / "s", **ON, **SLAVE, **keys) as slave,
            ):
                await master.user("app")
                await until(lambda: bool(slave.broker.state.replicas.master_address))
                assert "app" not in slave.broker.state.access.tables.users
                assert not slave.broker.state.replicas.gives_access

    run_on("uvloop", run())
