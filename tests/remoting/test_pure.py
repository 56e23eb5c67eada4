"""Addresses, verdicts, idle connections and throttled lines: no socket is needed for them."""

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcore.errors import AddressError
from mqcore.remoting import (
    AdvertisedWatch,
    ServerTls,
    TcpAddress,
    TlsMode,
    UnixAddress,
    parse_address,
)
from mqcore.remoting.idle import IdleTable
from mqcore.remoting.throttle import Throttle
from mqcore.remoting.tls import FirstByte, first_byte_decision


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:9876", TcpAddress("127.0.0.1", 9876)),
        (" broker-a.example:0 ", TcpAddress("broker-a.example", 0)),
        ("[::1]:10911", TcpAddress("::1", 10911)),
        ("unix:/run/mq.sock", UnixAddress("/run/mq.sock")),
    ],
)
def test_addresses_are_read_and_written(text: str, found: TcpAddress | UnixAddress) -> None:
    assert parse_address(text) == found
    assert str(found) == text.strip()


@pytest.mark.parametrize(
    "text", ["", "host", ":1", "host:", "host:65536", "host:-1", "host:1x", "a b:1", "unix:", "h:²"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(AddressError):
        parse_address(text)


def test_a_url_is_no_address() -> None:
    with pytest.raises(AddressError, match="without http:// or a path"):
        parse_address("http://127.0.0.1:9876")


def test_a_port_that_is_too_high_is_named() -> None:
    with pytest.raises(AddressError, match="'host:65536': a port is at most 65535"):
        parse_address("host:65536")


def test_a_dial_to_another_address_is_reported_once() -> None:
    watch = AdvertisedWatch(TcpAddress("10.0.0.5", 10911))
    assert watch.dialled("10.0.0.5") is None
    assert watch.dialled("") is None
    warning = watch.dialled("172.17.0.2")
    assert warning is not None
    assert "172.17.0.2" in warning
    assert "10.0.0.5:10911" in warning
    assert watch.dialled("172.17.0.2") is None


@pytest.mark.parametrize(
    ("mode", "has_context", "first", "found"),
    [
        (TlsMode.PERMISSIVE, True, 0x16, FirstByte.TLS),
        (TlsMode.PERMISSIVE, True, 0x00, FirstByte.PLAIN),
        (TlsMode.PERMISSIVE, False, 0x16, FirstByte.NO_CERTIFICATE),
        (TlsMode.PERMISSIVE, False, 0x00, FirstByte.PLAIN),
        (TlsMode.ENFORCING, True, 0x16, FirstByte.TLS),
        (TlsMode.ENFORCING, True, 0x00, FirstByte.PLAIN_REFUSED),
        (TlsMode.ENFORCING, False, 0x16, FirstByte.NO_CERTIFICATE),
        (TlsMode.DISABLED, True, 0x16, FirstByte.TLS_DISABLED),
        (TlsMode.DISABLED, True, 0x00, FirstByte.PLAIN),
    ],
)
def test_the_first_byte_decides(
    mode: TlsMode, has_context: bool, first: int, found: FirstByte
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if has_context else None
    assert first_byte_decision(first, ServerTls(mode, context)) is found


def test_idle_is_who_moved_nothing_for_the_whole_time() -> None:
    table: IdleTable[str] = IdleTable(10.0)
    assert table.look(0.0, [("a", 0), ("b", 0)]) == []
    assert table.look(9.0, [("a", 0), ("b", 5)]) == []
    assert table.look(10.0, [("a", 0), ("b", 5)]) == ["a"]
    assert table.look(19.0, [("b", 5)]) == ["b"]
    # One that was gone begins anew.
    assert table.look(20.0, [("a", 0)]) == []


@given(
    st.lists(
        st.tuples(
            st.floats(0, 20), st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), max_size=3)
        ),
        max_size=30,
    )
)
def test_idle_agrees_with_a_naive_history(steps: list[tuple[float, dict[str, int]]]) -> None:
    table: IdleTable[str] = IdleTable(15.0)
    history: list[tuple[float, dict[str, int]]] = []
    now = 0.0
    for pause, traffic in steps:
        now += pause
        history.append((now, traffic))
        naive = set()
        for key, moved in traffic.items():
            since = now
            for then, before in reversed(history):
                if before.get(key) != moved:
                    break
                since = then
            if now - since >= 15.0:
                naive.add(key)
        assert set(table.look(now, traffic.items())) == naive


def test_a_throttle_counts_what_it_leaves_out() -> None:
    throttle = Throttle(2, 10.0)
    assert [throttle.allows(now) for now in (0.0, 1.0, 2.0, 9.9)] == [True, True, False, False]
    assert throttle.allows(10.0)
    assert throttle.left_out() == 2
    assert throttle.left_out() == 0
