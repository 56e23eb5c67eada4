"""The golden stores are all there, unchanged, and what is written about them is true."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import golden_stores
from golden_stores import GOLDEN_DIR, GOLDEN_STORES, GoldenStore

# Written here and about the files, not part of the treaty.
UNLISTED = {"SHA256SUMS", "ORIGIN.md"}


def test_every_golden_file_is_listed_and_unchanged() -> None:
    listed = golden_stores.listed_sums()
    present = {str(p.relative_to(GOLDEN_DIR)) for p in GOLDEN_DIR.rglob("*") if p.is_file()}
    assert present - UNLISTED == set(listed)
    changed = [name for name in listed if golden_stores.actual_sum(name) != listed[name]]
    assert changed == []


def test_a_missing_golden_file_fails_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(golden_stores, "GOLDEN_DIR", tmp_path)
    with pytest.raises(golden_stores.GoldenFileMissingError, match=r"tiny\.tar\.xz"):
        golden_stores.TINY.unpack(tmp_path)


@pytest.mark.parametrize("store", GOLDEN_STORES, ids=lambda store: store.name)
def test_an_archive_holds_what_its_list_names(
    store: GoldenStore, unpacked: Callable[[GoldenStore], Path]
) -> None:
    root = unpacked(store)
    sizes = {str(p.relative_to(root)): p.stat().st_size for p in root.rglob("*") if p.is_file()}
    assert sizes == store.files()


@pytest.mark.parametrize("store", GOLDEN_STORES, ids=lambda store: store.name)
def test_a_manifest_agrees_with_the_log_it_walked(
    store: GoldenStore, unpacked: Callable[[GoldenStore], Path]
) -> None:
    log = {int(p.name): p.read_bytes() for p in (unpacked(store) / "commitlog").iterdir()}
    segment_bytes = len(log[0])
    manifest = store.manifest()
    assert sum("blank" in record for record in manifest) == store.blanks
    assert sum("blank" not in record for record in manifest) == store.records
    expected = 0
    for record in manifest:
        physical_offset = record["physical_offset"]
        assert physical_offset == expected
        start = physical_offset - physical_offset % segment_bytes
        (stored_size,) = struct.unpack_from(">i", log[start], physical_offset - start)
        assert stored_size == record["store_size"]
        expected += stored_size
    assert expected == store.max_physical_offset
