"""Lines of an audit: each follows from the one before, secrets are in none, checks find faults."""

import json

from mqcore.audit import Ending, Secret, Wanted
from mqcore.audit.lines import (
    LINE_BYTES_MAX,
    checked,
    hash_of,
    line_of,
    masked,
    parsed,
    without_secrets,
)

_ROW = {"time": "2026-05-01T10:00:00.000Z", "event": "change", "request": "X(1)", "code": 1}


def chain(count: int) -> list[bytes]:
    lines: list[bytes] = []
    for number in range(1, count + 1):
        previous = hash_of(lines[-1]) if lines else ""
        lines.append(line_of(number, previous, _ROW | {"user": f"u{number}"}))
    return lines


def numbered(lines: list[bytes]) -> list[tuple[str, bytes]]:
    return [(f"f:{number}", line) for number, line in enumerate(lines, 1)]


def test_a_chain_is_whole() -> None:
    lines = chain(5)
    found = checked(numbered(lines))
    assert found.is_whole
    assert (found.lines, found.first, found.ending) == (5, 1, Ending(5, hash_of(lines[-1])))


def test_every_line_that_is_taken_out_or_changed_is_found() -> None:
    lines = chain(6)
    for at in range(5):
        without = lines[:at] + lines[at + 1 :]
        # Without the first lines it looks as if an older file had gone.
        assert checked(numbered(without)).is_whole == (at == 0)
        row = parsed(lines[at]) or {}
        other = json.dumps(row | {"user": "somebody else"}, separators=(",", ":")).encode()
        assert not checked(numbered([*lines[:at], other, *lines[at + 1 :]])).is_whole
        swapped = [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]
        assert not checked(numbered(swapped)).is_whole


def test_a_cut_end_shows_to_who_kept_it() -> None:
    lines = chain(6)
    kept = Ending(6, hash_of(lines[-1]))
    assert checked(numbered(lines), kept).has_expected is True
    assert checked(numbered(lines[:-1])).is_whole
    assert not checked(numbered(lines[:-1]), kept).is_whole
    rewritten = [*lines[:-1], line_of(6, hash_of(lines[-2]), _ROW)]
    assert not checked(numbered(rewritten), kept).is_whole
    # What went with an older file is not missed.
    assert checked(numbered(lines[3:]), Ending(2, "x")).has_expected is None


def test_what_is_no_line_is_a_fault_unless_the_next_one_notes_it() -> None:
    lines = chain(3)
    torn = lines[2][:40]
    noted = line_of(3, hash_of(torn), _ROW | {"event": "torn"})
    found = checked(numbered([*lines[:2], torn, noted]))
    assert found.is_whole
    assert found.torn == 1
    other = line_of(3, hash_of(torn), _ROW)
    assert not checked(numbered([*lines[:2], torn, other])).is_whole
    assert not checked(numbered([*lines[:2], torn])).is_whole
    assert not checked(numbered([*lines[:2], b"", lines[2]])).is_whole


def test_secrets_are_in_no_line_and_another_one_is_marked() -> None:
    before = {"name": "u", "password": Secret("old-canary")}
    after = {"name": "u", "password": Secret("new-canary")}
    shown = masked(before, after)
    assert shown == (
        {"name": "u", "password": "***"},
        {"name": "u", "password": "*** (another)"},
    )
    assert masked(before, before)[1]["password"] == "***"
    assert masked(None, after)[1]["password"] == "***"
    assert masked(before, None) == ({"name": "u", "password": "***"}, None)
    assert masked([before], [after])[1] == [{"name": "u", "password": "***"}]


def test_fields_that_sign_are_left_out_and_names_of_secrets_masked() -> None:
    ext = {
        "AccessKey": "a",
        "Signature": "s",
        "SecurityToken": "t",
        "password": "p",
        "topic": "x" * 5_000,
    }
    found = without_secrets(ext)
    assert found.keys() == {"SecurityToken", "password", "topic"}
    assert found["SecurityToken"] == found["password"] == "***"
    assert len(found["topic"]) < 4_200


def test_a_line_has_an_end_whatever_is_in_it() -> None:
    row = _ROW | {"user": 'ü\n\u2028"', "before": {"x": "y" * (2 * LINE_BYTES_MAX)}}
    line = line_of(1, "", row)
    assert b"\n" not in line
    assert len(line) < LINE_BYTES_MAX
    found = parsed(line) or {}
    assert found["user"] == row["user"]
    assert "too long" in found["before"]
    assert parsed(b"[" * 100_000) is None


def test_lines_are_found_by_all_that_is_asked_for() -> None:
    row = _ROW | {
        "user": "ann",
        "certificate": "broker",
        "code": 17,
        "request": "UPDATE_AND_CREATE_TOPIC(17)",
        "resource": ["Topic:orders"],
        "outcome": "done",
        "remark": "Übung",
    }
    line = line_of(7, "", row)
    for fields in (
        {"text": "übung"},
        {"user": "ann"},
        {"user": "broker"},
        {"request": "17"},
        {"request": "update_and_create_topic"},
        {"resource": "orders"},
        {"outcome": "done"},
        {"event": "change"},
        {"since": "2026-05-01", "until": "2026-05-02"},
    ):
        assert Wanted(**fields).has(line, row), fields
    for fields in (
        {"text": "absent"},
        {"user": "bob"},
        {"request": "1"},
        {"resource": "bills"},
        {"outcome": "refused"},
        {"event": "refused"},
        {"since": "2026-05-02"},
        {"until": "2026-05-01"},
    ):
        assert not Wanted(**fields).has(line, row), fields
