"""Client ids and unique ids, as Java forms them; the signature of access control."""

import os
import threading
from datetime import datetime

import pytest

from mqcore import Credentials
from mqcore.client.identity import UniqueIds, client_id, unique_ids
from mqcore.remoting.signing import signed


def test_a_unique_id_has_the_fields_of_the_official_one() -> None:
    ids = UniqueIds("10.0.0.1", 0x1_2345, 0xCAFEBABE)
    now = datetime(2024, 3, 15, 12, 0, 0, 7000)
    begin = datetime(2024, 3, 1)
    now_ms = int(now.timestamp() * 1000)
    first, second = ids.next(now_ms), ids.next(now_ms)
    assert len(first) == 32
    assert first[:8] == "0A000001"
    assert first[8:12] == "2345"
    assert first[12:20] == "CAFEBABE"
    assert int(first[20:28], 16) == now_ms - int(begin.timestamp() * 1000)
    assert (first[28:], second[28:]) == ("0000", "0001")
    assert first == first.upper()


def test_the_month_begins_anew() -> None:
    ids = UniqueIds("10.0.0.1", 1, 1)
    last = int(datetime(2024, 12, 31, 23, 59, 59).timestamp() * 1000)
    assert int(ids.next(last)[20:28], 16) > 30 * 86_400_000
    assert int(ids.next(last + 1000)[20:28], 16) == 0
    # A clock that is set back counts from its own month.
    assert int(ids.next(last)[20:28], 16) > 30 * 86_400_000


def test_an_address_of_the_sixth_version_is_longer() -> None:
    assert len(UniqueIds("2001:db8::1", 1, 1).next(1_700_000_000_000)) == 56


def test_the_counter_wraps_at_two_bytes() -> None:
    ids = UniqueIds("10.0.0.1", 1, 1)
    made = {ids.next(1_700_000_000_000)[28:] for _ in range(1 << 16)}
    assert len(made) == 1 << 16
    assert ids.next(1_700_000_000_000).endswith("0000")


def test_threads_never_share_an_id() -> None:
    ids = UniqueIds("10.0.0.1", 1, 1)
    made: list[list[str]] = [[] for _ in range(4)]

    def make(into: list[str]) -> None:
        into.extend(ids.next(1_700_000_000_000 + at % 3) for at in range(5000))

    threads = [threading.Thread(target=make, args=(into,)) for into in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one for into in made for one in into}) == 20_000


def test_a_process_has_one_source_and_its_fork_another() -> None:
    assert unique_ids() is unique_ids()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, unique_ids().prefix.encode())
        os._exit(0)
    os.waitpid(child, 0)
    prefix = os.read(read, 100).decode()
    os.close(read)
    os.close(write)
    assert len(prefix) == len(unique_ids().prefix)
    assert prefix != unique_ids().prefix


def test_a_client_id_is_unlike_any_other_unless_it_is_named() -> None:
    assert client_id("10.0.0.1", instance_name="one") == "10.0.0.1@one"
    assert client_id("10.0.0.1", instance_name="one", unit_name="u") == "10.0.0.1@one@u"
    first = client_id("10.0.0.1")
    assert first.startswith(f"10.0.0.1@{os.getpid()}#")
    assert first != client_id("10.0.0.1", instance_name="DEFAULT")


@pytest.mark.parametrize("stale", [{}, {"Signature": "old"}])
def test_the_signature_is_the_official_one(stale: dict[str, str]) -> None:
    # Made with AclClientRPCHook of the official client.
    fields = signed(Credentials("AK", "SK12345678"), {"topic": "T"} | stale, b"BODY")
    assert fields == {"topic": "T", "AccessKey": "AK", "Signature": "2SgNRi9e7hKCz2jKZf6iN5j8TTw="}


def test_a_token_is_signed_and_secrets_are_not_shown() -> None:
    credentials = Credentials("AK", "SK", "TOKEN")
    fields = signed(credentials, {"topic": "T"}, b"")
    assert fields["SecurityToken"] == "TOKEN"
    assert fields["Signature"] != signed(Credentials("AK", "SK"), {"topic": "T"}, b"")["Signature"]
    assert "SK" not in repr(credentials)
    assert "TOKEN" not in repr(credentials)
