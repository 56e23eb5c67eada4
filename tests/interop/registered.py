"""What a name server knows of brokers, asked until it is what is expected.

A broker of 5.3 prints that it serves before it has registered. Knows no program's files.
"""

import asyncio
from collections.abc import Callable

from loops import run_on
from mqcore.model.relaxed_json import parse_object
from mqcore.remoting import Client, RequestCode

# Between two questions: a starting JVM needs the processor more than they do.
_PAUSE_S = 0.05


async def _ask(client: Client, address: str) -> dict[str, dict[str, str]]:
    answer = await client.call(address, RequestCode.GET_BROKER_CLUSTER_INFO, timeout_s=30)
    # Official name servers write the ids as bare numbers.
    table = parse_object(answer.body)["brokerAddrTable"]
    return {name: row["brokerAddrs"] for name, row in table.items()}


def brokers(address: str) -> dict[str, dict[str, str]]:
    """Returns the addresses of every broker that a name server knows now, by name and id."""

    async def work() -> dict[str, dict[str, str]]:
        async with Client() as client:
            return await _ask(client, address)

    return run_on("asyncio", work())


def wait_until(
    address: str, is_so: Callable[[dict[str, dict[str, str]]], bool], patience_s: float = 240.0
) -> None:
    """Returns when what a name server knows of brokers is as `is_so` wants it.

    Raises:
        TimeoutError: It is not within `patience_s`.
    """

    async def work() -> None:
        async with Client() as client:
            while not is_so(await _ask(client, address)):  # noqa: ASYNC110 - another process's
                await asyncio.sleep(_PAUSE_S)

    run_on("asyncio", work(), deadline_s=patience_s)


def wait_for(address: str, expected: dict[str, dict[str, str]]) -> None:
    """Returns when a name server knows exactly these brokers."""
    wait_until(address, lambda found: found == expected)
