"""A short storm of bad bytes at every port of running programs (`make fuzz` is an hour)."""

import struct
from pathlib import Path

import pytest

from fuzz.seeds import frames_of, raw_pieces
from fuzz.storm import PORTS, Plan, running, storm
from recorded import frames


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_bad_bytes_at_every_port_harm_nobody(tmp_path: Path) -> None:
    with running(tmp_path) as programs:
        result = storm(programs, Plan(seconds=10, seed=2), tmp_path)
    assert result.faults == []
    assert set(result.reports) == {port.name for port in PORTS}
    # Each port was really talked to: bad bytes came in, and answers to good requests out.
    for port in PORTS:
        report = result.reports[port.name]
        assert report["inputs"] > 0, report
        assert port.is_raw or sum(report["codes"].values()) > 20, report


@pytest.mark.parametrize("server", ["broker", "namesrv", "controller"])
def test_seeds_are_whole_frames_of_every_kind(server: str) -> None:
    found = frames_of(server)
    split = frames.split(bytearray(b"".join(found)))
    assert len(split) == len(found)
    codes = set()
    for frame in split:
        try:
            codes.add(frames.read_header(frame).code)
        except (
            KeyError,
            TypeError,
            ValueError,
            struct.error,
        ):  # Some are kept because their header is wrong.
            continue
    assert len(codes) > {"broker": 90, "namesrv": 20, "controller": 12}[server]


def test_every_other_protocol_has_seeds() -> None:
    assert all(raw_pieces(port.seeds) for port in PORTS if port.is_raw)
