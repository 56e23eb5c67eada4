//! Log files over their life on the real disk: made ahead, populated, locked, read after removal,
//! given back.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use mqcore_engine::clock::SystemClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::store::{OpenHow, Store};
use mqcore_record::{CrcCheck, Host, Message};

type RealStore = Store<RealDisk, SystemClock>;

const SEGMENT: u64 = 131_072;

fn dir(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("mqcore-segments-{name}-{}", std::process::id()));
    let _absent = std::fs::remove_dir_all(&path);
    path
}

fn open(root: &Path, pairs: &[(&str, &str)]) -> RealStore {
    let mut all = vec![
        ("storePathRootDir", root.to_str().unwrap()),
        ("mappedFileSizeCommitLog", "131072"),
        ("maxMessageSize", "32768"),
        ("messageIndexEnable", "false"),
        ("hotWindowBytes", "262144"),
    ];
    all.extend_from_slice(pairs);
    let config = StoreConfig::from_pairs(all).unwrap().0;
    Store::open(RealDisk, SystemClock::new(), config, OpenHow::RefuseDamage).unwrap()
}

/// Appends one record that fills a quarter of a file; its place.
fn append(store: &RealStore, fill: u8) -> u64 {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    let body = [fill; 30_000];
    let message = Message {
        born_timestamp_ms: 1,
        ..Message::of("T", 0, &body, host)
    };
    store.writer().append(&message).unwrap().physical_offset
}

/// Mapped bytes of this process that belong to files below `root`.
fn mapped_bytes(root: &Path) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut sum = 0;
    for line in maps
        .lines()
        .filter(|line| line.contains(root.to_str().unwrap()))
    {
        let (from, to) = line
            .split_whitespace()
            .next()
            .unwrap()
            .split_once('-')
            .unwrap();
        sum += u64::from_str_radix(to, 16).unwrap() - u64::from_str_radix(from, 16).unwrap();
    }
    sum
}

fn open_files(root: &Path) -> usize {
    let is_ours = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|target| target.starts_with(root))
    };
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .flatten()
        .filter(is_ours)
        .count()
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 4096
}

fn round(store: &RealStore) {
    for _ in 0..4 {
        append(store, 1);
    }
    store.durability().flush().unwrap();
    while store.dispatching().step().unwrap() {}
    store.retention().remove_oldest(None, 100, None).unwrap();
    while store.preparation().step().unwrap() {}
}

#[test]
fn a_thousand_files_made_and_removed_leave_nothing_behind() {
    let root = dir("rounds");
    let store = open(&root, &[]);
    for _ in 0..20 {
        round(&store);
    }
    let (mapped, files, resident) = (mapped_bytes(&root), open_files(&root), resident_bytes());
    for _ in 0..1_000 {
        round(&store);
    }
    assert_eq!(mapped_bytes(&root), mapped);
    assert_eq!(open_files(&root), files);
    assert!(
        resident_bytes() < resident + 8 * 1024 * 1024,
        "{} -> {}",
        resident,
        resident_bytes()
    );
    assert!(store.files().positions.appended.position() > 1_000 * SEGMENT);
    assert_eq!(
        std::fs::read_dir(root.join("commitlog")).unwrap().count(),
        2,
        "one and the next"
    );
    drop(store);
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_slice_stays_good_when_its_file_is_removed_and_its_bytes_go_when_the_slice_does() {
    let root = dir("slice");
    let store = open(&root, &[]);
    let offset = append(&store, 7);
    let held = store.reader().record_at(offset).unwrap();
    assert!(
        !held.is_copy(),
        "the newest records are read where they lie"
    );
    for _ in 0..8 {
        append(&store, 1);
    }
    store.durability().flush().unwrap();
    while store.dispatching().step().unwrap() {}
    assert!(
        store
            .retention()
            .remove_oldest(None, 100, None)
            .unwrap()
            .log_files
            > 0
    );
    while store.preparation().step().unwrap() {}
    assert!(store.reader().record_at(offset).is_err());
    assert_eq!(held.view(CrcCheck::Verify).unwrap().body, [7; 30_000]);
    let before = mapped_bytes(&root);
    drop(held);
    assert_eq!(mapped_bytes(&root), before - SEGMENT);
    drop(store);
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_removed_file_that_a_snapshot_has_linked_keeps_its_bytes() {
    // Longer than what is given back in one step.
    const LONG: u64 = 68 << 20;
    let root = dir("linked");
    let text = LONG.to_string();
    let store = open(&root, &[("mappedFileSizeCommitLog", text.as_str())]);
    while append(&store, 3) < LONG {}
    store.durability().flush().unwrap();
    while store.dispatching().step().unwrap() {}
    let first = root.join("commitlog").join(format!("{:020}", 0));
    let link = root.join("of-a-snapshot");
    std::fs::hard_link(&first, &link).unwrap();
    let before = std::fs::read(&link).unwrap();
    let removed = store.retention().remove_oldest(None, 1, None).unwrap();
    assert_eq!(removed.log_files, 1);
    while store.preparation().step().unwrap() {}
    assert!(!first.exists());
    store.close().unwrap();
    assert!(std::fs::read(&link).unwrap() == before);
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn below_the_hot_window_records_are_read_through_the_file() {
    let root = dir("cold");
    let store = open(&root, &[]);
    let offsets: Vec<u64> = (0..40).map(|n| append(&store, n)).collect();
    while store.preparation().step().unwrap() {}
    for (n, offset) in offsets.iter().enumerate() {
        let record = store.reader().record_at(*offset).unwrap();
        assert_eq!(
            record.view(CrcCheck::Verify).unwrap().body,
            [n as u8; 30_000]
        );
    }
    assert!(store.reader().record_at(offsets[0]).unwrap().is_copy());
    assert!(!store.reader().record_at(offsets[39]).unwrap().is_copy());
    assert!(
        mapped_bytes(&root) <= 5 * SEGMENT,
        "{}",
        mapped_bytes(&root)
    );
    drop(store);
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn files_are_locked_while_they_are_written_and_within_the_bound() {
    let root = dir("locked");
    let store = open(
        &root,
        &[("lockMappedFile", "true"), ("lockedBytesMax", "262144")],
    );
    for _ in 0..12 {
        append(&store, 1);
        while store.preparation().step().unwrap() {}
        let locked = store.stats().locked_bytes;
        assert!(locked <= 262_144);
    }
    let notices = store.notices();
    let refused = notices
        .iter()
        .any(|notice| notice.text.contains("ulimit -l"));
    // Either the limit of this machine allows it, or the warning names the limit.
    assert!(
        refused || store.stats().locked_bytes == SEGMENT,
        "{:?}",
        store.stats()
    );
    drop(store);
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn the_window_of_populated_pages_runs_ahead_of_the_append() {
    let root = dir("window");
    let store = open(&root, &[("populateWindowBytes", "65536")]);
    append(&store, 1);
    while store.preparation().step().unwrap() {}
    let stats = store.stats();
    let segment = &stats.segments[0];
    assert!(
        segment.populated_bytes >= stats.appended + 65_536 - 4096,
        "{segment:?}"
    );
    assert!(segment.populated_bytes < SEGMENT, "{segment:?}");
    let root_of_warm = dir("warm");
    let store = open(
        &root_of_warm,
        &[
            ("warmMapedFileEnable", "true"),
            ("populateWindowBytes", "4096"),
        ],
    );
    append(&store, 1);
    while store.preparation().step().unwrap() {}
    assert_eq!(store.stats().segments[0].populated_bytes, SEGMENT);
    drop(store);
    std::fs::remove_dir_all(&root).unwrap();
    std::fs::remove_dir_all(&root_of_warm).unwrap();
}
