"""Rounds over check points while a member of the set is away: they wait and do not fail."""

import asyncio
import itertools
import time
from pathlib import Path

from broker.test_controlled import _high
from broker.test_hand_over import a_pair
from loops import run_on, until
from mqcore.remoting import RequestCode, expect

# Nobody leaves the set meanwhile, and what is acknowledged is with all of it.
ALL = {
    "allAckInSyncStateSet": "true",
    "haMaxTimeSlaveNotCatchup": "600000",
    "timerWheelEnable": "true",
}
# A round waits half a second for reports of slaves; it failed after five seconds.
ROUND_MAX_S = 4.0
INVISIBLE_MS = 1_000


def test_a_round_with_a_member_away_ends_soon_and_goes_on_later(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_pair(tmp_path, 2, **ALL) as them:
            await them.send(1, 3)
            await until(lambda: _high(them, 1) == 3)
            master = them.brokers[1].broker
            # By hand alone from here on.
            await master.pop_rounds.stop()
            broker = them.brokers.pop(2)
            await broker.abandon()
            pop = {"consumerGroup": "p", "topic": "T", "queueId": 0, "maxMsgNums": 3}
            pop |= {"initMode": 0, "pollTime": 0, "bornTime": 0, "invisibleTime": INVISIBLE_MS}
            expect(await them.live(1).call(RequestCode.POP_MESSAGE, pop), "member")
            epochs = master.state.replicas.epochs
            assert epochs is not None
            positions = epochs.positions()
            assert positions.confirmed < positions.end, "its check point is confirmed by nobody"
            began_s = time.monotonic()
            assert await master.pop_rounds.revive() == 0
            assert time.monotonic() - began_s < ROUND_MAX_S
            await them.begin(2, **ALL)
            await them.until_slave(2)

            # The time for which they are invisible passes.
            async with asyncio.timeout(60):
                for _ in itertools.count():
                    if await master.pop_rounds.revive():
                        break
                    await asyncio.sleep(0.1)

    run_on("asyncio", run())
