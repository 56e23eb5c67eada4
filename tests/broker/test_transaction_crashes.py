"""Transactions as a state machine, with crashes at every step.

Whatever happens between a half message and its end, what is committed is delivered, what is rolled
back never is, and what nobody decides is asked about until it is in the topic of those given up,
and nowhere else.
"""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from broker.transactional import CHECK_MAX, COMMIT, GIVEN_UP, ROLLBACK, UNKNOWN, Bench, Half
from loops import run_on
from mqcore.native import CheckRules

STEPS = 80
# Single notes, and notes about many ends, which a crash takes with it.
RELEASES = ("V4_9_8", "V5_3_3")
# How often each step comes, beside the others.
WEIGHTS = {
    **{"begin": 20, "end": 14, "decide_late": 4, "check": 12, "answer": 12, "lose_questions": 3},
    **{"come_or_leave": 3, "restart": 3},
}
CRASHES = {"crash": 4, "crash_in_a_round": 3}


class Transactions:
    """One broker, one producer, and what the producer knows of its transactions."""

    def __init__(self, bench: Bench, dice: random.Random) -> None:
        """Begins with a broker that runs."""
        self.bench = bench
        self.dice = dice
        self.decided: dict[bytes, int] = {}
        self.open: dict[bytes, Half] = {}
        self.acknowledged: set[bytes] = set()
        self.has_crashed = False
        self.is_there = True

    async def begin(self) -> None:
        body = b"m%d" % len(self.decided)
        self.open[body] = await self.bench.half(body)
        self.decided[body] = self.dice.choice([COMMIT, COMMIT, ROLLBACK, UNKNOWN])

    async def end(self) -> None:
        if self.open:
            body = self.dice.choice(list(self.open))
            half = self.open.pop(body)
            # One end in four is lost on its way.
            if self.decided[body] != UNKNOWN and self.dice.random() < 0.75:
                await self.send_end(body, half, is_answer=False)

    async def decide_late(self) -> None:
        unknown = [body for body, known in self.decided.items() if known == UNKNOWN]
        if unknown:
            self.decided[self.dice.choice(unknown)] = self.dice.choice([COMMIT, ROLLBACK])

    async def send_end(self, body: bytes, half: Half, *, is_answer: bool) -> None:
        """Sends the broker the end; it may be one that it got before, and never another one."""
        flag = "true" if is_answer else "false"
        answer = await self.bench.end(half, self.decided[body], fromTransactionCheck=flag)
        assert answer.code == 0, answer.remark
        self.acknowledged.add(body)

    async def check(self) -> None:
        await self.bench.check()

    async def answer(self) -> None:
        asked, self.bench.asked[:] = list(self.bench.asked), []
        for half, body in asked:
            if self.decided[body] != UNKNOWN:
                await self.send_end(body, half, is_answer=True)

    async def lose_questions(self) -> None:
        self.bench.asked.clear()

    async def come_or_leave(self) -> None:
        await (self.bench.leave() if self.is_there else self.bench.come())
        self.is_there = not self.is_there

    async def restart(self) -> None:
        await self.bench.stop()
        await self.again()

    async def again(self) -> None:
        """Starts the broker. What was ended by an answer is not ended by an old end any more."""
        await self.bench.start()
        self.is_there = True
        self.open = {
            body: half for body, half in self.open.items() if body not in self.acknowledged
        }

    async def crash(self) -> None:
        self.has_crashed = True
        await self.bench.kill()
        await self.again()

    async def crash_in_a_round(self) -> None:
        """What was stored anew is there, that it was is written nowhere, and nobody was asked."""
        fast_path, now_ms = self.bench.broker.state.fast_path, self.bench.broker.state.now_ms()
        await self.bench.bodies()
        rules = CheckRules(now_ms + 10_000, 6_000, CHECK_MAX, 1 << 40, can_give_up=False, limit=2)
        half, notes = (
            fast_path.offsets.find("CID_RMQ_SYS_TRANS", topic, 0) or 0
            for topic in ("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC")
        )
        await asyncio.to_thread(fast_path.half_messages.check, 0, half, notes, rules)
        await self.crash()

    async def run(self, weights: dict[str, int]) -> None:
        for _step in range(STEPS):
            [step] = self.dice.choices(list(weights), list(weights.values()))
            await getattr(self, step)()

    async def finish(self) -> None:
        """Lets the producer answer until nothing is open, and looks where everything is."""
        if not self.is_there:
            await self.come_or_leave()
        for _round in range(CHECK_MAX + 2):
            await self.check()
            await self.answer()
        await self.check()
        assert await self.bench.is_all_checked()
        delivered = Counter(await self.bench.bodies())
        given_up = Counter(await self.bench.bodies(GIVEN_UP))
        for body, decision in self.decided.items():
            if decision == COMMIT:
                assert delivered[body] or given_up[body], body
                assert delivered[body] or body not in self.acknowledged, body
                # An end may come after its message was given up: it counts all the same.
                assert self.has_crashed or max(delivered[body], given_up[body]) == 1, body
                continue
            assert not delivered[body], body
            if decision == UNKNOWN:
                assert given_up[body], body
                assert self.has_crashed or given_up[body] == 1, body


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("may_crash", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_every_transaction_ends_as_it_was_decided(
    tmp_path: Path, seed: int, may_crash: bool, release: str
) -> None:
    async def run() -> None:
        bench = Bench(tmp_path, {"reportedVersion": release})
        await bench.start()
        try:
            await bench.create("T")
            machine = Transactions(bench, random.Random(seed))
            # Runs without a crash are checked harder: nothing may come twice there.
            await machine.run(WEIGHTS | CRASHES if may_crash else WEIGHTS)
            await machine.finish()
        finally:
            await bench.stop()

    run_on("uvloop", run())
