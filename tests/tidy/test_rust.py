"""The Rust side keeps its layers, headers, names and named files for `unsafe`."""

import pytest

from tidy import project, rust_rules

ENGINE = "rust/engine/src/"


def test_every_rust_file_opens_with_a_header() -> None:
    faults = [f for p, t in project.texts(".rs") for f in rust_rules.header_faults(p, t)]
    assert faults == []


def test_unsafe_is_in_its_named_files() -> None:
    faults = [f for p, t in project.texts(".rs") for f in rust_rules.unsafe_faults(p, t)]
    assert faults == []


def test_names_describe_what_they_are() -> None:
    faults = [f for p, t in project.texts(".rs") for f in rust_rules.name_faults(p, t)]
    assert faults == []


def test_crates_use_only_lower_crates() -> None:
    members = [(p, t) for p, t in project.texts(".rs", "/Cargo.toml")]
    assert any(p.startswith("rust/record/") for p, _ in members)
    assert [f for p, t in members for f in rust_rules.crate_faults(p, t)] == []


def test_a_missing_header_is_found() -> None:
    assert rust_rules.header_faults("a.rs", "use std::io;\n")
    assert rust_rules.header_faults("a.rs", "//!\nuse std::io;\n")
    assert not rust_rules.header_faults("a.rs", "//! The disk.\n")


def test_unsafe_is_found_in_code_and_not_in_words() -> None:
    planted = 'fn f() { // unsafe\n let s = "unsafe"; unsafe { g() } }'
    assert rust_rules.unsafe_faults("rust/record/src/a.rs", planted) == [
        "rust/record/src/a.rs:2: unsafe outside its named files"
    ]
    assert not rust_rules.unsafe_faults(ENGINE + "mmap/mod.rs", planted)
    assert not rust_rules.unsafe_faults("a.rs", "#![deny(unsafe_code)]")
    assert not rust_rules.unsafe_faults("a.rs", 'let s = r#"say "unsafe""#;')


@pytest.mark.parametrize(
    "planted",
    [
        "struct QueueManager;",
        "pub enum StoreImpl { A }",
        "trait DiskHelper {}",
        "struct FileUtils;",
        "struct FlushServiceThread;",
        "type BaseRecord = u8;",
        "pub fn get_offset(&self) -> u64 {",
    ],
)
def test_a_name_without_meaning_is_found(planted: str) -> None:
    assert len(rust_rules.name_faults("a.rs", planted)) == 1


@pytest.mark.parametrize(
    "fine", ["struct Implied;", "struct Baseline;", "fn get(&self)", "// struct QueueManager;"]
)
def test_a_name_that_only_looks_alike_is_fine(fine: str) -> None:
    assert rust_rules.name_faults("a.rs", fine) == []


def test_a_crate_that_looks_up_is_found() -> None:
    assert rust_rules.crate_faults("rust/record/src/a.rs", "use mqcore_engine::Store;")
    assert rust_rules.crate_faults("rust/record/Cargo.toml", "mqcore-engine.workspace = true")
    assert rust_rules.crate_faults("rust/attic/src/a.rs", "")
    assert not rust_rules.crate_faults("rust/engine/src/a.rs", "use mqcore_record::Record;")
    assert not rust_rules.crate_faults("rust/engine/tests/a.rs", "use mqcore_engine::Store;")


@pytest.mark.parametrize(
    ("path", "planted"),
    [
        ("flush/a.rs", "use crate::commit_log::Log;"),
        ("disk/real.rs", "use crate::segment::Chain;"),
        ("mmap.rs", "fn f() { crate::watermark::Watermark::new() }"),
        ("mmap.rs", "use super::watermark::Watermark;"),
        ("disk/real.rs", "use super::super::segment::Chain;"),
        ("segment/a.rs", "use crate::{error::Error, disk::{Disk, File}, checkpoint::Point};"),
        ("segment/a.rs", "use crate::StoreError;"),
        ("attic.rs", ""),
        ("watermark.rs", "use crate::disk::twin::Twin;"),
        ("flush/a.rs", "#[cfg(test)]\nmod tests { use crate::commit_log::Log; }"),
    ],
)
def test_a_module_that_uses_an_upper_or_sibling_module_is_found(path: str, planted: str) -> None:
    assert len(rust_rules.module_faults(ENGINE + path, planted)) == 1


@pytest.mark.parametrize(
    ("path", "fine"),
    [
        ("lib.rs", "pub use crate::store::Store;"),
        ("store/open.rs", "use crate::{commit_log::{Log, read}, flush, error::Error};"),
        ("commit_log/read.rs", "use super::Log; use crate::commit_log::mark;"),
        ("commit_log/read.rs", "// use crate::store::Store;"),
        ("watermark.rs", "#[cfg(test)]\nmod tests { use crate::disk::twin::Twin; use super::*; }"),
        ("tests/mod.rs", "use crate::{store::Store, units::Unit};"),
        ("disk/mod.rs", "pub(crate) mod real; pub(in crate::disk) fn f() {}"),
    ],
)
def test_a_module_that_uses_lower_modules_is_fine(path: str, fine: str) -> None:
    assert rust_rules.module_faults(ENGINE + path, fine) == []
