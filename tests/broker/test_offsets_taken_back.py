"""Offsets of groups at a master that hands its role over: what may be cut off its log goes back."""

from pathlib import Path

import pytest

from broker.test_controlled import _high
from broker.test_hand_over import a_pair, hand_over, until_over
from loops import run_on, until
from mqcore.broker.consumer_offset_file import ConsumerOffsetFile
from mqcore.remoting import RequestCode, expect


def _pop(group: str) -> dict[str, object]:
    """Returns the header of a pop that answers at once."""
    queue = {"topic": "T", "queueId": -1, "maxMsgNums": 32, "initMode": 0}
    return {**queue, "consumerGroup": group, "invisibleTime": 60_000, "pollTime": 0, "bornTime": 0}


def test_offsets_that_rest_on_what_may_be_cut_go_back_to_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unsettled(_state: object, _end: int) -> bool:
        return False

    async def run() -> None:
        async with a_pair(tmp_path, timerWheelEnable="true") as them:
            await them.send(1, 3)
            await until(lambda: _high(them, 1) == 3)
            live, persistence = them.live(1), them.brokers[1].broker.hand_over_parts.persistence
            expect(await live.call(RequestCode.POP_MESSAGE, _pop("p")), "member")
            offsets = them.brokers[1].state.fast_path.offsets
            await until(lambda: offsets.find("p", "T", 0) == 3)
            # The slave has the check point: what rests on it stays.
            await persistence.offsets.take_back()
            assert offsets.find("p", "T", 0) == 3
            await them.send(1, 2, 3)
            await until(lambda: _high(them, 1) == 5)
            expect(await live.call(RequestCode.POP_MESSAGE, _pop("p")), "member")
            await until(lambda: offsets.find("p", "T", 0) == 5)
            monkeypatch.setattr("mqcore.broker.consumer_offset_file.is_settled", unsettled)
            await persistence.offsets.take_back()
            assert offsets.find("p", "T", 0) == 3

    run_on("asyncio", run())


def test_who_hands_its_role_over_takes_offsets_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[ConsumerOffsetFile] = []
    take_back = ConsumerOffsetFile.take_back

    async def noted(file: ConsumerOffsetFile) -> None:
        taken.append(file)
        await take_back(file)

    monkeypatch.setattr(ConsumerOffsetFile, "take_back", noted)

    async def run() -> None:
        async with a_pair(tmp_path) as them:
            await them.send(1, 3)
            commit = {"consumerGroup": "g", "topic": "T", "queueId": 0, "commitOffset": 2}
            expect(await them.live(1).call(RequestCode.UPDATE_CONSUMER_OFFSET, commit), "member")
            expect(await hand_over(them, 1), "member")
            assert (await until_over(them, 1))["phase"] == "done"
            await them.until_slave(1)
            assert taken == [them.brokers[1].broker.hand_over_parts.persistence.offsets]
            # All is confirmed: nothing goes back.
            assert them.brokers[1].state.fast_path.offsets.find("g", "T", 0) == 2

    run_on("asyncio", run())
