"""Servers answer what is recorded, byte for byte, and every code that they serve is recorded.

Where an answer changes on purpose: `python -m recorded.record` (`record.py`), and read the
difference before it is committed.
"""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from mqcore.periodic import PeriodicTask
from recorded import frames
from recorded.conversation import BINARY, Conversation, Request
from recorded.conversations import CONVERSATIONS
from recorded.frames import Header
from recorded.masks import MASKS
from recorded.playing import GOLDEN, AllPlayed, play
from recorded.served import served
from recorded.transcript import difference, escaped, frame_lines

NAMES: Final = [f"{each.name}.{kind}" for each in CONVERSATIONS for kind in each.kinds]
# A binary header has 16 bits for the code.
BINARY_CODE_MAX: Final = 32_767
# Requests that can be refused in no way: they have no fields, and nothing forbids them.
NEVER_REFUSED: Final[dict[str, frozenset[int]]] = {
    "broker": frozenset(
        {21, 26, 28, 43, 45, 46, 201, 305, 317, 328, 354, 355, 402, 905, 906, 907, 908, 1008}
        | {2002, 2003, 200_056}
    ),
    "namesrv": frozenset({106, 304, 319}),
}


@pytest.fixture(scope="session")
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AllPlayed:
    """The conversations that the selected tests look at, played once."""
    given = [getattr(item, "callspec", None) for item in request.session.items]
    params = [each.params for each in given if each is not None]
    names = {str(each["name"]).rpartition(".")[0] for each in params if "name" in each}
    needs_all = any("server" in each for each in params)
    known = {each.name for each in CONVERSATIONS}
    wanted = [] if needs_all else sorted(names & known)
    return play(tmp_path_factory.mktemp("recorded"), wanted)


@pytest.mark.parametrize("name", NAMES)
def test_a_conversation_is_as_it_was_recorded(played: AllPlayed, name: str) -> None:
    now, path = played.transcripts[name], GOLDEN / f"{name}.txt"
    assert not now.faults, now.faults
    assert path.exists(), f"{path} is not recorded yet: see recorded/record.py"
    found = difference(path.read_text(encoding="ascii"), now.text)
    if found is not None:
        pytest.fail(f"{name}: {found}", pytrace=False)


def examples(server: str) -> set[tuple[int, str, str]]:
    """Returns what is recorded of a server: codes, what they are examples of, kinds of headers."""
    return {
        (step.code, step.kind, kind)
        for each in CONVERSATIONS
        if each.server == server
        for step in each.steps
        if isinstance(step, Request)
        for kind in each.kinds
    }


@pytest.mark.parametrize("server", ["broker", "namesrv"])
def test_every_code_that_is_served_is_recorded(played: AllPlayed, server: str) -> None:
    recorded, missing = examples(server), []
    for code in played.codes[server]:
        headers = ["json", BINARY] if code <= BINARY_CODE_MAX else ["json"]
        for example in ("good", "refused", "malformed"):
            if example == "refused" and code in NEVER_REFUSED[server]:
                continue
            missing += [
                f"{code}: no {example} request with {kind} headers"
                for kind in headers
                if (code, example, kind) not in recorded
            ]
    assert missing == []


@pytest.mark.parametrize("server", ["broker", "namesrv"])
def test_a_good_request_is_for_a_code_that_is_served(played: AllPlayed, server: str) -> None:
    good = {code for code, example, _kind in examples(server) if example == "good"}
    assert good <= set(played.codes[server])
    assert len(good) > 20
    assert NEVER_REFUSED[server] <= good


def test_golden_files_and_masks_are_in_use() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(NAMES)
    texts = "".join(path.read_text(encoding="ascii") for path in GOLDEN.iterdir())
    assert [mask.name for mask in MASKS if f"-- masked {mask.name}" not in texts] == []


@pytest.mark.parametrize("kind", [frames.JSON, frames.ROCKETMQ])
def test_a_frame_is_read_as_it_was_written(kind: int) -> None:
    header = Header(code=17, opaque=5, ext={"a": "\u4e16", "b": ""}, flag=2, remark="r")
    data = bytearray(frames.write(kind, header, b"body").encode() * 2 + b"\x00")
    first, second = frames.split(data)
    assert (first, bytes(data)) == (second, b"\x00")
    assert (frames.read_header(first), first.body) == (header, b"body")


def test_a_difference_of_one_byte_is_shown_with_its_request() -> None:
    def text(body: bytes) -> str:
        frame = frames.write(frames.JSON, Header(code=30, opaque=1), body)
        lines = ["# x", "== 1 good 30", "A> 1 2", " h asked", *frame_lines("A<", frame, [])]
        return "\n".join(lines)

    assert difference(text(b"same"), text(b"same")) is None
    shown = difference(text(b"\x00\n"), text(b"\x01\n"))
    assert shown is not None
    assert " h asked" in shown
    assert "-  b \\x00\\n" in shown
    assert "+  b \\x01\\n" in shown
    assert difference(text(b""), f"{text(b'')}\n== 2 more") is not None


def test_a_broker_does_nothing_of_its_own_accord(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    began = PeriodicTask.start

    def noted(task: PeriodicTask) -> None:
        begun.append(task._name)
        began(task)

    async def work() -> None:
        server = await served(Conversation("restarted", []))
        await server.stop()

    monkeypatch.chdir(tmp_path)
    # The machine's clock does: no conversation is played.
    monkeypatch.setattr("recorded.served.set_wall_clock_ms", lambda _now_ms: None)
    monkeypatch.setattr(PeriodicTask, "start", noted)
    asyncio.run(work())
    timetables = {"deliver delayed", "deliver timed", "check transactions"}
    assert not timetables & set(begun), begun


def test_no_two_bodies_are_written_alike() -> None:
    texts = [b"", b"\n", b"\\n", b"\\x0a", b"\x0a\x0a", b"\\", b"\\\\", b"\x00", b"\\x00", b" "]
    assert len({tuple(escaped(each)) for each in texts}) == len(texts)


def test_golden_files_show_both_sides() -> None:
    for name in NAMES:
        lines = (GOLDEN / f"{name}.txt").read_text(encoding="ascii").splitlines()
        assert any(line[1:2] == ">" for line in lines), name
        assert any(line[1:2] == "<" for line in lines), name
