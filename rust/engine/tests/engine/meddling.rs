//! Another broker meddles with a store that is open: an official one that is refused finds the lock
//! held only after its recovery, which has by then removed files and rewritten others.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::disk::{Disk, DiskFile, Open};
use mqcore_engine::store::{OpenHow, Store};
use mqcore_record::{CrcCheck, Host, Message};

use crate::reading::bodies;

type TwinStore = Store<TwinDisk, ManualClock>;

const SEGMENT: u64 = 131_072;
/// Entries of an index file, one of which is never used.
const INDEX_ENTRIES: usize = 40;
const BODY_LEN: usize = 1_000;

/// A disk, and the clock of everyone who opens a store on it.
fn disk_and_clock() -> (TwinDisk, ManualClock) {
    (TwinDisk::new(), ManualClock::at(1_000_000_000))
}

fn open(disk: &TwinDisk, clock: &ManualClock) -> TwinStore {
    let (config, _) = StoreConfig::from_pairs([
        ("storePathRootDir", "/store"),
        ("mappedFileSizeCommitLog", "131072"),
        ("mappedFileSizeConsumeQueue", "2000"),
        ("maxMessageSize", "4096"),
        ("maxHashSlotNum", "10"),
        ("maxIndexNum", "40"),
    ])
    .unwrap();
    Store::open(disk.clone(), clock.clone(), config, OpenHow::RefuseDamage).unwrap()
}

/// Appends the records numbered so, one a second, each with its number as key; returns the end of
/// the last.
fn append(store: &TwinStore, clock: &ManualClock, numbers: std::ops::Range<usize>) -> u64 {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    let mut end = 0;
    for number in numbers {
        let properties = format!("KEYS\x01key-{number}\x02");
        let body = body(number);
        let message = Message {
            born_timestamp_ms: 1,
            properties: properties.as_bytes(),
            ..Message::of("T", 0, &body, host)
        };
        clock.advance(Duration::from_secs(1));
        end = store.writer().append(&message).unwrap().end();
    }
    end
}

fn body(number: usize) -> Vec<u8> {
    format!("{number:0>BODY_LEN$}").into_bytes()
}

/// Every one of the first `count` records is served by its queue, and by its key just once.
fn check(store: &TwinStore, count: usize) {
    while store.dispatching().step().unwrap() {}
    let served = bodies(store, "T", 0);
    assert_eq!(served, (0..count).map(body).collect::<Vec<_>>());
    for (number, body) in served.iter().enumerate() {
        let key = format!("key-{number}");
        let found = store
            .key_reader()
            .query(b"T", key.as_bytes(), 64, 0, i64::MAX)
            .unwrap();
        let bodies: Vec<&[u8]> = found
            .records
            .iter()
            .map(|record| record.view(CrcCheck::Skip).unwrap().body)
            .collect();
        assert_eq!(bodies, [body], "{key}");
    }
}

fn names(disk: &TwinDisk, dir: &str) -> Vec<String> {
    let entries = disk.list(Path::new(dir)).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

fn has_notice(store: &TwinStore, text: &str) -> bool {
    let notices = store.notices();
    notices.iter().any(|notice| notice.text.contains(text))
}

#[test]
fn a_ready_file_whose_name_was_removed_is_not_used() {
    let (disk, clock) = disk_and_clock();
    let store = open(&disk, &clock);
    append(&store, &clock, 0..1);
    assert!(store.preparation().step().unwrap() || store.files().preparer.is_ready(SEGMENT));
    let next = format!("/store/commitlog/{SEGMENT:020}");
    disk.unlink(Path::new(&next)).unwrap();
    // The second file begins, and nothing that goes there is lost.
    assert!(append(&store, &clock, 1..200) > SEGMENT);
    assert!(has_notice(&store, "its name was removed"));
    store.durability().flush().unwrap();
    assert!(disk.stat(Path::new(&next)).unwrap().is_some());
    store.abandon();
    check(&open(&disk, &clock), 200);
}

#[test]
fn a_name_that_was_given_to_another_file_is_not_used() {
    let (disk, clock) = disk_and_clock();
    let store = open(&disk, &clock);
    append(&store, &clock, 0..1);
    assert!(store.preparation().step().unwrap() || store.files().preparer.is_ready(SEGMENT));
    let next = format!("/store/commitlog/{SEGMENT:020}");
    disk.unlink(Path::new(&next)).unwrap();
    let other = disk.open(Path::new(&next), Open::CreateNew).unwrap();
    other.allocate(SEGMENT).unwrap();
    append(&store, &clock, 1..200);
    store.durability().flush().unwrap();
    store.abandon();
    check(&open(&disk, &clock), 200);
}

#[test]
fn closing_does_not_miss_a_ready_file_that_is_gone() {
    let (disk, clock) = disk_and_clock();
    let store = open(&disk, &clock);
    append(&store, &clock, 0..1);
    assert!(store.preparation().step().unwrap() || store.files().preparer.is_ready(SEGMENT));
    disk.unlink(Path::new(&format!("/store/commitlog/{SEGMENT:020}")))
        .unwrap();
    assert!(store.close().unwrap());
    assert_eq!(names(&disk, "/store/commitlog").len(), 1);
    check(&open(&disk, &clock), 1);
}

/// What a refused broker has done to the index when it ends: removed what is newer than the
/// checkpoint, and indexed what it found again in a file of its own.
fn meddle_with_index(disk: &TwinDisk) {
    for name in names(disk, "/store/index") {
        disk.unlink(&Path::new("/store/index").join(name)).unwrap();
    }
    let path = Path::new("/store/index/20990101000000000");
    let other = disk.open(path, Open::CreateNew).unwrap();
    other.allocate(40 + 4 * 10 + 20 * 40).unwrap();
}

#[test]
fn an_index_that_was_removed_is_made_again_after_a_stop() {
    let (disk, clock) = disk_and_clock();
    let store = open(&disk, &clock);
    append(&store, &clock, 0..INDEX_ENTRIES / 2);
    while store.dispatching().step().unwrap() {}
    meddle_with_index(&disk);
    // The removed file fills, is synced, and others follow it.
    append(&store, &clock, INDEX_ENTRIES / 2..4 * INDEX_ENTRIES);
    while store.dispatching().step().unwrap() {}
    store.durability().flush().unwrap();
    store.checkpoints().sync_queues(0).unwrap();
    store.checkpoints().write().unwrap();
    assert!(!store.close().unwrap(), "the next open has to recover");
    assert!(has_notice(&store, "makes the key index again"));
    check(&open(&disk, &clock), 4 * INDEX_ENTRIES);
}

#[test]
fn an_index_that_was_removed_is_made_again_after_a_kill() {
    let (disk, clock) = disk_and_clock();
    let store = open(&disk, &clock);
    append(&store, &clock, 0..INDEX_ENTRIES / 2);
    while store.dispatching().step().unwrap() {}
    meddle_with_index(&disk);
    append(&store, &clock, INDEX_ENTRIES / 2..4 * INDEX_ENTRIES);
    while store.dispatching().step().unwrap() {}
    store.durability().flush().unwrap();
    store.checkpoints().sync_queues(0).unwrap();
    store.checkpoints().write().unwrap();
    store.abandon();
    check(&open(&disk, &clock), 4 * INDEX_ENTRIES);
}

#[test]
fn a_checkpoint_and_marker_rewritten_by_another_lose_nothing() {
    for stops_cleanly in [true, false] {
        let (disk, clock) = disk_and_clock();
        let store = open(&disk, &clock);
        append(&store, &clock, 0..150);
        while store.dispatching().step().unwrap() {}
        store.durability().flush().unwrap();
        store.checkpoints().sync_queues(0).unwrap();
        store.checkpoints().write().unwrap();
        let checkpoint = disk
            .open(Path::new("/store/checkpoint"), Open::Write)
            .unwrap();
        checkpoint.write_at(&[0; 40], 0).unwrap();
        let abort = disk.open(Path::new("/store/abort"), Open::Write).unwrap();
        abort.set_len(0).unwrap();
        append(&store, &clock, 150..300);
        if stops_cleanly {
            assert!(store.close().unwrap());
        } else {
            store.durability().flush().unwrap();
            store.abandon();
        }
        let again = open(&disk, &clock);
        assert_eq!(again.report().was_clean, stops_cleanly);
        check(&again, 300);
    }
}
