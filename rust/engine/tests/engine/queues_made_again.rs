//! Units of queues that a start behind a kill takes back and makes again: what the checkpoint covers of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mqcore_engine::clock::ManualClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::disk::{Disk, DiskFile, Open};
use mqcore_engine::store::{OpenHow, Store};
use mqcore_record::{Host, Message};

type TwinStore = Store<TwinDisk, ManualClock>;

const NOW_MS: i64 = 1_000_000_000;
/// Where the time of the queues is in the checkpoint.
const LOGICS_AT: u64 = 8;

fn open(disk: &TwinDisk) -> TwinStore {
    let pairs = [
        ("storePathRootDir", "/store"),
        ("mappedFileSizeCommitLog", "73728"),
        ("maxMessageSize", "4096"),
        ("mappedFileSizeConsumeQueue", "2000"),
    ];
    let config = StoreConfig::from_pairs(pairs).unwrap().0;
    let clock = ManualClock::at(NOW_MS);
    Store::open(disk.clone(), clock, config, OpenHow::RefuseDamage).unwrap()
}

/// Makes the log and its queues durable, and writes that down.
fn write_checkpoint(store: &TwinStore) {
    store.durability().flush().unwrap();
    while store.dispatching().step().unwrap() {}
    store.checkpoints().note_durable().unwrap();
    store.checkpoints().sync_queues(0).unwrap();
    store.checkpoints().write().unwrap();
}

/// The store time up to which the checkpoint on a disk covers units of queues.
fn covered_ms(disk: &TwinDisk) -> i64 {
    let file = disk.open("/store/checkpoint".as_ref(), Open::Read);
    let mut time = [0; 8];
    file.unwrap().read_at(&mut time, LOGICS_AT).unwrap();
    i64::from_be_bytes(time)
}

/// A start trusts units that the checkpoint covers. Those of the last files are taken back and written again before:
/// power loss in that time would leave zeros, and the log may have gone on so far that the next start looks
/// at none of them.
#[test]
fn they_are_covered_once_they_are_synced_again() {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10_911,
    };
    let disk = TwinDisk::new();
    let store = open(&disk);
    for _ in 0..40 {
        let message = Message::of("T", 0, &[7; 4_000], host);
        store.writer().append(&message).unwrap();
    }
    write_checkpoint(&store);
    let covered_before_ms = covered_ms(&disk);
    assert!(covered_before_ms >= NOW_MS - 1);
    drop(store);
    let store = open(&disk);
    assert_eq!(store.report().scanned_from, 0);
    store.checkpoints().write().unwrap();
    assert_eq!(covered_ms(&disk), NOW_MS - 1);
    write_checkpoint(&store);
    assert_eq!(covered_ms(&disk), covered_before_ms);
    assert_eq!(covered_before_ms, NOW_MS);
}
