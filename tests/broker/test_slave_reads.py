"""Pulls that a slave answers otherwise than a master: with its master, and after the end of it."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from broker.test_replication import equal, name_server
from live_broker import Live, live
from loops import run_on, until
from mqcore.remoting import RequestCode, ResponseCode

SLAVE = {"brokerRole": "SLAVE", "brokerId": "1", "slaveReadEnable": "true"}
COUNT = 40
BEYOND = 5


async def pulled(broker: Live, offset: int, *, wait_ms: int = 0) -> tuple[int, int, int]:
    """Returns the code of a pull, where to go on, and the broker to ask next."""
    answer = await broker.pull("T", offset, wait_ms=wait_ms)
    next_offset, broker_id = (
        int(answer.ext[name]) for name in ("nextBeginOffset", "suggestWhichBrokerId")
    )
    return answer.code, next_offset, broker_id


@pytest.mark.parametrize("checks", ["false", "true"])
@pytest.mark.parametrize("version", ["V4_9_7", "V5_3_0"])
def test_pulls_by_role(version: str, checks: str, tmp_path: Path) -> None:
    keys = {"reportedVersion": version}

    async def run() -> None:
        async with AsyncExitStack() as stack:
            names = await stack.enter_async_context(name_server(tmp_path))
            master_stack = await stack.enter_async_context(AsyncExitStack())
            master = await master_stack.enter_async_context(
                live(tmp_path / "m", namesrvAddr=names, **keys)
            )
            slave = await stack.enter_async_context(
                live(tmp_path / "s", namesrvAddr=names, offsetCheckInSlave=checks, **SLAVE, **keys)
            )
            await master.create("T", 1)
            await master.call(
                RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
                body=b'{"groupName":"g","retryQueueNums":1,"brokerId":3}',
            )
            for _ in range(COUNT):
                assert (await master.send("T", b"x")).code == ResponseCode.SUCCESS
            await equal(master, slave)
            state = slave.broker.state
            await until(lambda: state.topics.find("T") is not None)
            await until(lambda: state.groups.find("g") is not None)
            await until(lambda: state.replicas.has_master)
            await slave.settled()

            is_5 = version == "V5_3_0"
            moved = (ResponseCode.PULL_OFFSET_MOVED, COUNT)
            retry, nothing = ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_NOT_FOUND
            usual = 0 if is_5 else 3
            assert await pulled(slave, 0) == (ResponseCode.SUCCESS, 32, usual)
            end = (retry, COUNT, 0) if is_5 else (nothing, COUNT, 3)
            assert await pulled(slave, COUNT) == end
            beyond = COUNT + BEYOND
            if checks == "true":
                wanted = (retry, COUNT, 0) if is_5 else (*moved, 3)
            else:
                wanted = (retry, beyond, 3)
            assert await pulled(slave, beyond) == wanted

            await master_stack.aclose()
            await until(lambda: not state.replicas.has_master)
            # Nobody is sent to a master that is gone, and what only it has is waited for.
            assert await pulled(slave, 0) == (ResponseCode.SUCCESS, 32, 3)
            assert await pulled(slave, COUNT) == (nothing, COUNT, 3)
            wanted = (*moved, 3) if checks == "true" else (nothing, beyond, 3)
            assert await pulled(slave, beyond, wait_ms=300) == wanted

    run_on("asyncio", run())
