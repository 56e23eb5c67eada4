"""Connections by address: what counts as one, and how many there are."""

import asyncio

import pytest

from loops import until
from mqcore.remoting import Addresses, ServerTls, TlsMode
from mqcore.remoting.sweep import Sweep
from remoting.conftest import Run
from remoting.peers import assert_alive, peer_of, served


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("", ""),
    ],
)
def test_an_address_counts_as_its_network(host: str, key: str) -> None:
    assert Addresses.key_of(host) == key


def test_counts_rise_and_fall_and_leave_nothing() -> None:
    addresses = Addresses()
    for key in ("a", "b", "b", ""):
        addresses.add(key)
    assert addresses.most(5) == [("b", 2), ("a", 1)]
    for key in ("a", "b", "b", "b", "nobody"):
        addresses.remove(key)
    assert addresses.most(5) == []
    assert addresses.of("b") == 0


def test_one_connection_too_many_of_an_address_is_closed_and_others_stay(run: Run) -> None:
    async def work() -> None:
        async with served() as it, peer_of(it.address) as first, peer_of(it.address) as second:
            hub = it.server.hub
            hub.per_address = lambda: 2
            await assert_alive(first)
            await assert_alive(second)
            async with peer_of(it.address) as third:
                assert await third.hear() is None
            assert hub.refusals["per_address"] == 1
            assert hub.addresses.most(2) == [("127.0.0.1", 2)]
            await first.close()
            await until(lambda: hub.addresses.of("127.0.0.1") == 1)
            # One that sends nothing counts as well.
            async with peer_of(it.address), peer_of(it.address) as fourth:
                assert await fourth.hear() is None
            await until(lambda: hub.addresses.of("127.0.0.1") == 1)
            hub.per_address = lambda: 0
            async with peer_of(it.address) as fifth, peer_of(it.address) as sixth:
                await assert_alive(fifth)
                await assert_alive(sixth)
        assert it.server.hub.addresses.most(1) == []

    run(work())


def test_what_is_no_connection_in_the_end_does_not_count(run: Run) -> None:
    async def work() -> None:
        async with served(tls=ServerTls(TlsMode.DISABLED)) as it:
            hub = it.server.hub
            async with peer_of(it.address) as peer:
                # The first byte of TLS, where there is none.
                peer.send(b"\x16")
                assert await peer.hear() is None
            assert hub.refusals["tls"] == 1
            assert hub.addresses.most(1) == []

    run(work())


def test_a_connection_without_a_good_request_is_closed_after_its_time(run: Run) -> None:
    async def work() -> None:
        async with served() as it, peer_of(it.address) as silent, peer_of(it.address) as good:
            hub = it.server.hub
            await assert_alive(silent)
            await assert_alive(good)
            for link in hub.links:
                link.has_asked = False
            next(reversed(hub.links)).has_asked = True
            hub.first_request_s = lambda: 5.0
            now_s = asyncio.get_running_loop().time()
            sweep = Sweep(hub)
            sweep.look(now_s + 4.0)
            assert len(hub.links) == 2
            sweep.look(now_s + 6.0)
            assert await silent.hear() is None
            await assert_alive(good)
            assert hub.refusals["no_good_request"] == 1

    run(work())
