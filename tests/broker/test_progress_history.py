"""What a broker has written down of its progress, after its log was cut and goes on otherwise."""

from dataclasses import dataclass
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from broker.test_controlled import _high, members
from loops import run_on, until
from mqcore.broker.progress_history import KEY, STATES_MAX, ProgressHistory
from mqcore.model.reading import as_int
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.native import Store
from mqcore.remoting import expect

_OWN, _GROUP = "CID_RMQ_SYS_TRANS", "g"


@dataclass
class _Log:
    """A log with the epoch of each byte."""

    epochs: list[int]

    def epoch_before(self, offset: int) -> int:
        """Returns the epoch of the byte before an offset."""
        return self.epochs[offset - 1] if offset else -1

    def has(self, epoch: int, offset: int) -> bool:
        """Returns whether a log with that end is this one's beginning."""
        return offset <= len(self.epochs) and self.epoch_before(offset) == epoch


def _of_text(text: bytes) -> ProgressHistory[int]:
    history = ProgressHistory[int]()
    history.load(parse_object(text), as_int)
    return history


def test_a_file_goes_back_to_the_newest_state_that_the_log_has() -> None:
    history, log = ProgressHistory[int](), _Log([1] * 30)
    assert history.to_json() == {}
    for end, state in ((10, 1), (20, 2), (30, 3)):
        history.add(log, end, state)
    read = _of_text(compact(history.to_json()))
    assert read.go_back(log) is None
    assert read.newest == ((1, 30), 3)
    # Shorter, and grown again by another master.
    assert read.go_back(_Log([1] * 25 + [2] * 10)) == (1, 30)
    assert read.newest == ((1, 20), 2)
    assert read.go_back(_Log([1] * 9)) == (1, 20)
    assert read.newest is None


def test_a_file_of_another_broker_counts_as_it_is() -> None:
    for text in (b"{}", b'{"mqcoreHistory":7}', b'{"offsetTable":{1:2}}'):
        history = _of_text(text)
        assert history.go_back(_Log([])) is None
        assert history.newest is None
    # What cannot be read of a row rests on nothing that a log could lack.
    odd = _of_text(b'{"mqcoreHistory":[{"epoch":4294967296,"end":-1},{"epoch":"x"},9]}')
    assert odd.newest == ((-1, 0), 0)
    assert odd.go_back(_Log([])) is None


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60))
def test_a_file_has_few_states_the_first_of_them_and_the_last(steps: list[int]) -> None:
    history, end, log = ProgressHistory[int](), 0, _Log([1] * 5_000)
    ends = []
    for step in steps:
        end += step
        history.add(log, end, end)
        ends.append(end)
    rows = parse_object(compact(history.to_json()))[KEY]
    kept = [row["end"] for row in rows]
    assert len(kept) <= STATES_MAX
    assert kept == sorted(set(kept))
    assert (kept[0], kept[-1]) == (ends[0], ends[-1])


def test_what_was_delivered_and_cut_off_the_log_is_delivered_again(tmp_path: Path) -> None:
    """Also where the log has grown beyond the place since: an offset alone does not show it."""

    async def run() -> None:
        async with members(tmp_path) as them:
            await them.begin(1)
            await them.until_master(1)
            await them.live(1).create("T")
            state = them.brokers[1].state
            offsets = state.fast_path.offsets
            offsets.commit(_OWN, "T", 0, 0)
            expect(await them.live(1).send("T", b"later", DELAY="1"), "member")
            before = state.store.stats().appended
            await until(lambda: _high(them, 1) == 1)
            offsets.commit(_OWN, "T", 0, 1)
            offsets.commit(_GROUP, "T", 0, 1)
            await them.brokers.pop(1).stop()
            them.controller.die(1)
            config = tmp_path / "store1" / "config"
            delays = parse_object((config / "delayOffset.json").read_bytes())
            assert delays["offsetTable"] == {"1": 1}
            assert delays[KEY][-1]["end"] > before
            own = parse_object((config / "consumerOffset.json").read_bytes())[KEY]
            assert own[-1]["state"][f"T@{_OWN}"] == {"0": 1}
            settings = state.settings
            store = Store(settings.store_dir, config=settings.engine, is_member=True, cut_at=before)
            store.close()
            await them.begin(1)
            await them.until_master(1)
            await until(lambda: _high(them, 1) == 1)
            found = them.brokers[1].state.fast_path.offsets
            # What consumers committed is theirs, up to the end of the queue.
            assert found.find(_OWN, "T", 0) in {None, 0}
            await until(lambda: them.brokers[1].state.delays.offset(1) == 1)

    run_on("asyncio", run())
