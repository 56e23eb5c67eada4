//! The store on the real disk, as its owner uses it: append, read back, stop, reopen, be killed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mqcore_engine::clock::SystemClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::error::Error;
use mqcore_engine::status::PutStatus;
use mqcore_engine::store::{OpenHow, Store};
use mqcore_record::{Host, Message};

use crate::directory::Dir;
use crate::reading::bodies;

type RealStore = Store<RealDisk, SystemClock>;

fn config(root: &Path, pairs: &[(&str, &str)]) -> StoreConfig {
    let mut all = vec![
        ("storePathRootDir", root.to_str().unwrap()),
        ("mappedFileSizeCommitLog", "1048576"),
        ("mappedFileSizeConsumeQueue", "20000"),
        ("maxMessageSize", "65536"),
        ("maxHashSlotNum", "1000"),
        ("maxIndexNum", "4000"),
    ];
    all.extend_from_slice(pairs);
    StoreConfig::from_pairs(all).unwrap().0
}

fn open(root: &Path, pairs: &[(&str, &str)]) -> Arc<RealStore> {
    let how = OpenHow::RefuseDamage;
    Arc::new(Store::open(RealDisk, SystemClock::new(), config(root, pairs), how).unwrap())
}

fn message<'a>(topic: &'a str, queue_id: i32, body: &'a [u8], properties: &'a [u8]) -> Message<'a> {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    Message {
        born_timestamp_ms: 1,
        properties,
        ..Message::of(topic, queue_id, body, host)
    }
}

fn wait_dispatched(store: &RealStore, end: u64) {
    let mark = &store.files().positions.dispatched;
    assert!(
        mark.wait(end, Duration::from_secs(20), || false),
        "{:?}",
        store.stats()
    );
}

fn fill(store: &RealStore, count: usize) -> u64 {
    let mut end = 0;
    for n in 0..count {
        let body = format!("{n:0>1000}");
        let properties = format!("KEYS\x01key-{n}\x02TAGS\x01tag{}\x02", n % 3);
        let message = message("T", (n % 4) as i32, body.as_bytes(), properties.as_bytes());
        let (appended, status) = store.put(&message).unwrap();
        assert_eq!(status, PutStatus::PutOk);
        assert_eq!(appended.queue_offset, (n / 4) as u64);
        end = appended.end();
    }
    end
}

fn check_filled(store: &RealStore, count: usize) {
    for queue_id in 0..4 {
        let got = bodies(store, "T", queue_id);
        let expected: Vec<Vec<u8>> = (0..count)
            .filter(|n| n % 4 == queue_id as usize)
            .map(|n| format!("{n:0>1000}").into_bytes())
            .collect();
        assert_eq!(got.len(), expected.len());
        assert!(got == expected);
    }
}

const MODES: [&[(&str, &str)]; 4] = [
    &[("flushDiskType", "ASYNC_FLUSH")],
    &[("flushDiskType", "SYNC_FLUSH")],
    &[
        ("transientStorePoolEnable", "true"),
        ("transientStorePoolSize", "2"),
    ],
    &[
        ("transientStorePoolEnable", "true"),
        ("transientStorePoolSize", "2"),
        ("flushDiskType", "SYNC_FLUSH"),
    ],
];

#[test]
fn what_was_put_is_read_back_after_a_clean_stop_and_after_none() {
    for (mode, pairs) in MODES.iter().enumerate() {
        let dir = Dir::new(&format!("modes-{mode}"));
        let store = open(&dir.0, pairs);
        store.start().unwrap();
        let end = fill(&store, 3000);
        wait_dispatched(&store, end);
        check_filled(&store, 3000);
        assert!(store.close().unwrap(), "{:?}", store.notices());
        drop(store);

        let store = open(&dir.0, pairs);
        assert!(
            store.report().was_clean && store.report().used_manifest,
            "{:?}",
            store.report()
        );
        store.start().unwrap();
        check_filled(&store, 3000);
        let found = store
            .key_reader()
            .query(b"T", b"key-1234", 64, 0, i64::MAX)
            .unwrap();
        assert_eq!(found.records.len(), 1);
        let next = store.put(&message("T", 1, b"one more", b"")).unwrap().0;
        assert_eq!(next.queue_offset, 750);
        store.abandon();
        drop(store);

        let store = open(&dir.0, pairs);
        assert!(!store.report().was_clean);
        assert_eq!(bodies(&store, "T", 1).last().unwrap(), b"one more");
        store.start().unwrap();
        assert_eq!(
            store
                .put(&message("T", 1, b"and more", b""))
                .unwrap()
                .0
                .queue_offset,
            751
        );
        assert!(store.close().unwrap());
    }
}

#[test]
fn tickets_are_answered_through_the_wake_descriptor() {
    for pairs in MODES {
        let dir = Dir::new("tickets");
        let store = open(&dir.0, pairs);
        store.start().unwrap();
        let mut wanted = Vec::new();
        for n in 0..500u32 {
            let body = n.to_be_bytes();
            let appended = store.writer().append(&message("T", 0, &body, b"")).unwrap();
            wanted.push(store.durability().park(appended.end(), false).unwrap());
        }
        let mut answers = Vec::new();
        let started = std::time::Instant::now();
        while answers.len() < wanted.len() {
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "{} answered",
                answers.len()
            );
            store.durability().drain(&mut answers);
            std::thread::yield_now();
        }
        assert!(
            answers
                .iter()
                .all(|(_, status)| *status == PutStatus::PutOk)
        );
        assert!(answers.iter().map(|(ticket, _)| *ticket).eq(wanted));
        assert!(store.close().unwrap());
    }
}

#[test]
fn a_second_opener_is_refused_and_changes_nothing() {
    let dir = Dir::new("second");
    let store = open(&dir.0, &[]);
    let how = OpenHow::RefuseDamage;
    let second = Store::open(RealDisk, SystemClock::new(), config(&dir.0, &[]), how);
    assert!(matches!(second.err(), Some(Error::Locked { .. })));
    store.start().unwrap();
    assert!(store.close().unwrap());
    open(&dir.0, &[]).abandon();
}

#[test]
fn a_batch_is_whole_or_not_there() {
    let dir = Dir::new("batch");
    let store = open(&dir.0, &[]);
    let body = vec![7u8; 60_000];
    let batch: Vec<Message<'_>> = (0..10).map(|_| message("B", 0, &body, b"")).collect();
    for round in 0..5u64 {
        let done = store.writer().append_batch(&batch).unwrap();
        assert_eq!(done.len(), 10);
        let file = |at: u64| at / 1_048_576;
        assert_eq!(file(done[0].physical_offset), file(done[9].physical_offset));
        assert!(
            done.iter()
                .enumerate()
                .all(|(n, d)| d.queue_offset == round * 10 + n as u64)
        );
    }
    let long: Vec<Message<'_>> = (0..20).map(|_| message("B", 0, &body, b"")).collect();
    assert!(matches!(
        store.writer().append_batch(&long),
        Err(Error::Limit { .. })
    ));
    assert_eq!(store.writer().append(&batch[0]).unwrap().queue_offset, 50);
}

#[test]
fn a_long_backlog_is_dispatched_by_several_threads_in_the_order_of_each_queue() {
    let dir = Dir::new("backlog");
    let store = open(
        &dir.0,
        &[
            ("mappedFileSizeCommitLog", "33554432"),
            ("maxIndexNum", "100000"),
        ],
    );
    let count = 60_000usize;
    for n in 0..count {
        let body = format!("{n:0>1000}");
        let keys = format!("KEYS\x01key-{n}\x02");
        let message = message("T", (n % 50) as i32, body.as_bytes(), keys.as_bytes());
        store.writer().append(&message).unwrap();
    }
    while store.dispatching().step().unwrap() {}
    for queue_id in [0usize, 7, 49] {
        let got = bodies(&store, "T", queue_id as i32);
        assert_eq!(got.len(), count / 50);
        for (at, body) in got.iter().enumerate() {
            assert_eq!(*body, format!("{:0>1000}", at * 50 + queue_id).into_bytes());
        }
    }
    for n in [0, 1, count / 2, count - 1] {
        let key = format!("key-{n}");
        let found = store
            .key_reader()
            .query(b"T", key.as_bytes(), 64, 0, i64::MAX)
            .unwrap();
        assert_eq!(found.records.len(), 1, "{key}");
    }
    assert_eq!(store.stats().records_dispatched, count as u64);
    assert!(store.close().unwrap());
}

#[test]
fn a_deleted_topic_stays_deleted_and_removed_queues_are_made_again() {
    let dir = Dir::new("deleted");
    let store = open(&dir.0, &[]);
    store
        .writer()
        .append(&message("Kept", 0, b"1", b""))
        .unwrap();
    store
        .writer()
        .append(&message("Gone", 0, b"2", b""))
        .unwrap();
    while store.dispatching().step().unwrap() {}
    store.topics().delete_topic(b"Gone").unwrap();
    assert!(store.close().unwrap());
    drop(store);
    let store = open(&dir.0, &[]);
    assert!(store.report().used_manifest);
    assert_eq!(store.topics().bounds(b"Gone", 0).unwrap(), None);
    assert_eq!(bodies(&store, "Kept", 0).len(), 1);
    assert!(store.close().unwrap());
    drop(store);
    // An operator's way to have queues and index made again: to remove them.
    std::fs::remove_dir_all(dir.0.join("consumequeue")).unwrap();
    let store = open(&dir.0, &[]);
    assert!(!store.report().used_manifest);
    assert_eq!(bodies(&store, "Kept", 0).len(), 1);
    assert!(store.close().unwrap());
}

#[test]
fn readers_that_want_what_is_flushed_alone_get_it_behind_the_sync() {
    let dir = Dir::new("flushed-only");
    let pairs = [
        ("flushDiskType", "ASYNC_FLUSH"),
        ("consumeFlushedOnly", "true"),
        ("flushIntervalCommitLog", "3600000"),
    ];
    let store = open(&dir.0, &pairs);
    store.start().unwrap();
    let end = fill(&store, 8);
    let dispatched = &store.files().positions.dispatched;
    assert!(!dispatched.wait(1, Duration::from_millis(300), || false));
    assert!(bodies(&store, "T", 0).is_empty());
    store.durability().flush().unwrap();
    wait_dispatched(&store, end);
    check_filled(&store, 8);
    store.close().unwrap();
}
