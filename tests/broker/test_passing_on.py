"""What a former master passes on: whose it is, and what a lost answer leaves."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.test_controlled import Members
from broker.test_hand_over import a_pair, bodies, hand_over, until_over
from loops import run_on, until
from mqcore.errors import ConnectionLostError
from mqcore.native import Command
from mqcore.remoting import Client, Connection, RequestCode, ResponseCode, expect


async def born_hosts(them: Members, number: int) -> dict[bytes, str]:
    """Returns where the messages of the topic were born, by body, as a member has them."""
    store = them.brokers[number].state.store
    bounds = store.bounds("T", 0)
    high = 0 if bounds is None else bounds.max_offset
    found = (each for at in range(high) for each in store.get("T", 0, at, 1).messages)
    return {each.body: each.born_host for each in found}


async def sent_from(them: Members, host: str, body: bytes, key: str) -> Command:
    """Sends a message to the first member from an address of this machine."""
    address, _, port = them.live(1).address.rpartition(":")
    async with Client() as client:
        loop = asyncio.get_running_loop()
        transport, connection = await loop.create_connection(
            lambda: Connection(client.hub), address, int(port), local_addr=(host, 0)
        )
        ext = {"a": "pg", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0"}
        ext |= {"g": "1700000000000", "h": "0", "j": "0", "k": "false", "m": "false"}
        ext["i"] = f"UNIQ_KEY\x01{key}\x02"
        code = RequestCode.SEND_MESSAGE_V2
        answer = await connection.link.call(code, ext, body, timeout_s=20)
        transport.close()
        return answer


def test_what_is_passed_on_is_born_where_its_client_is(tmp_path: Path) -> None:
    async def run() -> dict[bytes, str]:
        async with a_pair(tmp_path) as them:
            await them.send(1, 1)
            expect(await hand_over(them, 1), "member")
            await until_over(them, 1)
            # The former master's own connections come from 127.0.0.1.
            expect(await sent_from(them, "127.0.0.9", b"passed on", "k1"), "member")
            # Who is no member names nobody: it is known by its own address.
            async with Client() as client:
                address = them.live(2).address
                ext = {"a": "pg", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0"}
                ext |= {"g": "1700000000000", "h": "0", "j": "0", "k": "false", "m": "false"}
                ext |= {"i": "UNIQ_KEY\x01k2\x02", "mqcoreBornHost": "10.9.8.7:65"}
                code = RequestCode.SEND_MESSAGE_V2
                expect(await client.call(address, code, ext, b"forged"), "member")
            await until(lambda: len(bodies(them, 2)) == 3)
            return await born_hosts(them, 2)

    found = run_on("asyncio", run())
    assert found[b"passed on"].startswith("127.0.0.9:")
    assert found[b"forged"].startswith("127.0.0.1:")


@pytest.mark.parametrize(("minutes", "copies"), [("0", 2), ("10", 1)])
def test_a_send_whose_answer_from_the_new_master_is_lost_may_be_there_twice(
    minutes: str, copies: int, tmp_path: Path
) -> None:
    async def run() -> tuple[Command, list[bytes], int]:
        async with a_pair(tmp_path, deduplicationWindowMinutes=minutes) as them:
            await them.send(1, 1)
            expect(await hand_over(them, 1), "member")
            await until_over(them, 1)
            passing = them.brokers[1].broker.passing_on
            expect(await sent_from(them, "127.0.0.1", b"before", "k0"), "member")
            link = passing._client.open_link(them.live(2).address)
            assert link is not None
            call = link.call

            async def stored_and_lost(*args: Any, **kwargs: Any) -> Command:
                await call(*args, **kwargs)
                raise ConnectionLostError("the connection ended", address="")

            link.call = stored_and_lost  # type: ignore[method-assign]
            refused = await sent_from(them, "127.0.0.1", b"twice?", "k1")
            link.call = call  # type: ignore[method-assign]
            # As clients do: again, with the unique key of the first try.
            expect(await sent_from(them, "127.0.0.1", b"twice?", "k1"), "member")
            await until(lambda: len(bodies(them, 2)) == 2 + copies)
            return refused, bodies(them, 2), passing.unknown

    refused, stored, unknown = run_on("asyncio", run())
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert stored.count(b"twice?") == copies
    assert unknown == 1
