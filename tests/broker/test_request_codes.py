"""The broker's handlers are those of the table of request codes, or it does not start."""

from pathlib import Path

import pytest

from live_broker import live
from loops import run_on
from mqcore import broker
from mqcore.broker.membership_changes import MembershipChanges
from mqcore.broker.processors import dispatcher_of, timers
from mqcore.broker.static_requests import StaticRequests
from mqcore.broker.topic_queues import TopicQueues
from mqcore.remoting import AnsweredBy, Handler, OwnRequestCode, RequestCode, answered_by


def test_the_handlers_are_those_of_the_table(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            state, persistence = client.broker.state, client.broker._opened_persistence()
            served = dispatcher_of(
                state,
                persistence,
                MembershipChanges(state),
                TopicQueues(state),
                StaticRequests(state),
            ).codes
            assert set(served) - set(OwnRequestCode) == answered_by(AnsweredBy.BROKER)

    run_on("uvloop", run())


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (RequestCode.PULL_MESSAGE, r"PULL_MESSAGE\(11\) is answered by NATIVE"),
        (RequestCode.HEART_BEAT, r"HEART_BEAT\(34\) has two handlers"),
        (12_345, "12345 is not in the table"),
    ],
)
def test_a_broker_with_a_wrong_handler_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, why: str
) -> None:
    right = timers.Timers.handlers

    def wrong(self: timers.Timers) -> dict[int, Handler]:
        return {**right(self), number: self.metrics}

    monkeypatch.setattr(timers.Timers, "handlers", wrong)
    with pytest.raises(RuntimeError, match=why):
        run_on("asyncio", started(tmp_path))


def test_a_broker_whose_extension_executes_something_else_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker.processors, "native_request_codes", dict)
    with pytest.raises(RuntimeError, match=r"SEND_MESSAGE\(10\) is in the table and not executed"):
        run_on("asyncio", started(tmp_path))


async def started(folder: Path) -> None:
    async with live(folder):
        pass
