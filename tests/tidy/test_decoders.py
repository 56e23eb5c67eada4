"""Every decoder has a fuzz target, and the rule finds one that has none."""

from pathlib import Path

from tidy import decoders

_ROOT = Path(__file__).resolve().parents[2]
_TABLE = _ROOT / "tests" / "fuzz" / "decoders.txt"


def _found() -> list[str]:
    found = []
    for crate in decoders.CRATES:
        for path in sorted((_ROOT / "rust" / crate / "src").rglob("*.rs")):
            if "tests" not in path.parts[-2:]:
                name = path.relative_to(_ROOT).as_posix()
                found += decoders.decoders(name, path.read_text(encoding="utf-8"))
    return found


def _targets() -> set[str]:
    found: set[str] = set()
    for path in sorted(_ROOT.glob("rust/*/tests/fuzz/*.rs")):
        text = path.read_text(encoding="utf-8")
        found |= decoders.targets(path.parts[-4], text)
    return found


def test_every_decoder_has_a_target_that_is_there() -> None:
    known = decoders.rows(_TABLE.read_text(encoding="utf-8"))
    assert decoders.faults(_found(), known, _targets()) == []
    assert len(known) > 50


def test_a_decoder_without_a_row_a_row_without_a_decoder_and_a_lost_target_are_found() -> None:
    planted = "    pub(crate) fn decode_more(\n        bytes: &'a [u8],\n    ) -> X {\n"
    hidden = "fn decode(bytes: &[u8]) {}\n#[cfg(test)]\nmod tests {\n pub fn parse(text: &str) {}\n"
    found = decoders.decoders("a.rs", planted) + decoders.decoders("b.rs", hidden)
    assert found == ["a.rs decode_more"]
    known = decoders.rows("# about\nc.rs parse | wire:stream\n")
    assert decoders.faults(found, known, set()) == [
        "a.rs decode_more: a decoder without a fuzz target",
        "c.rs parse: there is no such decoder",
        "c.rs parse: there is no target wire:stream",
    ]
    assert decoders.targets("wire", 'target("stream", s, r), Target { name: "x" }') == {
        "wire:stream",
        "wire:x",
    }
