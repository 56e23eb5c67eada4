//! A wait for a sync ends at its deadline, whatever the sync cannot reach.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::error::Error;
use mqcore_engine::flush::Syncer;
use mqcore_engine::store::{OpenHow, Store};
use mqcore_record::{Host, Message};

/// How long a hang may last before the test fails; no result depends on it.
const HANG: Duration = Duration::from_secs(30);

type TwinStore = Store<TwinDisk, ManualClock>;

fn store() -> TwinStore {
    let clock = ManualClock::at(1_700_000_000_000);
    let disk = TwinDisk::with_clock(clock.clone());
    let pairs = [
        ("storePathRootDir", "/store"),
        ("mappedFileSizeCommitLog", "131072"),
        ("mappedFileSizeConsumeQueue", "2000"),
        ("maxMessageSize", "32768"),
        ("maxHashSlotNum", "10"),
        ("maxIndexNum", "40"),
    ];
    let config = StoreConfig::from_pairs(pairs).unwrap().0;
    Store::open(disk, clock, config, OpenHow::RefuseDamage).unwrap()
}

fn append(store: &TwinStore) -> u64 {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    let message = Message {
        born_timestamp_ms: 1,
        ..Message::of("T", 0, b"body", host)
    };
    store.writer().append(&message).unwrap().end()
}

/// The result of a wait for `target`, asked in a thread so that a hang fails instead of hanging.
fn waited(store: &TwinStore, target: u64) -> Error {
    let syncer = Syncer::new(Arc::clone(store.files()));
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(syncer.sync_to(target, Duration::from_millis(20))));
    receiver.recv_timeout(HANG).unwrap().unwrap_err()
}

#[test]
fn an_offset_that_nothing_was_appended_to_is_waited_for_until_the_deadline() {
    let store = store();
    let end = append(&store);
    assert!(matches!(waited(&store, end + 1), Error::Timeout { .. }));
    store.abandon();
}

#[test]
fn a_file_that_is_gone_is_waited_for_until_the_deadline() {
    let store = store();
    let end = append(&store);
    let files = store.files();
    // All files are taken out, as if somebody had removed them behind our back.
    let gone = files.chain.pop_from(0);
    assert!(!gone.is_empty());
    assert!(files.chain.find(0).is_none());
    assert!(matches!(waited(&store, end), Error::Timeout { .. }));
    store.abandon();
}
