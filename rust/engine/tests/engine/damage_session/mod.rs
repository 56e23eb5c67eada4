//! What the mark of the last session shows of a damaged log: flips, lost files and other starts of
//! the machine, at every age, and keeping what is behind.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod keeping;
mod marks;

use std::path::Path;
use std::time::Duration;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::commit_log::{Scan, Stop, scan};
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::disk::{Disk, DiskFile, Open};
use mqcore_engine::error::{Error, Result};
use mqcore_engine::notice::Level;
use mqcore_engine::store::{Ask, GetStatus, OpenHow, Store};
use mqcore_record::{CrcCheck, Host, Message};
use serde_json::Value;

pub(crate) type TwinStore = Store<TwinDisk, ManualClock>;

pub(crate) const SEGMENT: u64 = 131_072;
pub(crate) const LOG: &str = "/store/commitlog/00000000000000000000";
pub(crate) const CRC: [(&str, &str); 2] = [
    ("enabledAppendPropCRC", "true"),
    ("forceVerifyPropCRC", "true"),
];

pub(crate) fn config(pairs: &[(&str, &str)]) -> StoreConfig {
    let mut all = vec![
        ("storePathRootDir", "/store"),
        ("mappedFileSizeCommitLog", "131072"),
        ("mappedFileSizeConsumeQueue", "2000"),
        ("maxMessageSize", "60000"),
        ("maxHashSlotNum", "10"),
        ("maxIndexNum", "400"),
    ];
    all.extend_from_slice(pairs);
    StoreConfig::from_pairs(all).unwrap().0
}

pub(crate) fn open_with(
    disk: &TwinDisk,
    how: OpenHow,
    pairs: &[(&str, &str)],
) -> Result<TwinStore> {
    let clock = ManualClock::at(2_000_000_000);
    Store::open(disk.clone(), clock, config(pairs), how)
}

pub(crate) fn refused(disk: &TwinDisk) -> (u64, u64, String) {
    let before = disk.content_hash();
    let error = open_with(disk, OpenHow::RefuseDamage, &[]).err();
    assert_eq!(
        disk.content_hash(),
        before,
        "a failing open changes nothing"
    );
    match error {
        Some(Error::Damaged {
            physical_offset,
            whole_records,
            ref why,
            ..
        }) => (physical_offset, whole_records, why.clone()),
        other => panic!("not refused: {other:?}"),
    }
}

pub(crate) fn append(
    store: &TwinStore,
    topic: &str,
    queue_id: i32,
    body: &[u8],
) -> Result<(u64, u64)> {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    let message = Message {
        born_timestamp_ms: 1,
        properties: b"KEYS\x01k\x02TAGS\x01t\x02",
        ..Message::of(topic, queue_id, body, host)
    };
    let done = store.writer().append(&message)?;
    Ok((done.physical_offset, done.queue_offset))
}

/// How a store was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// Killed before anything was flushed.
    Killed,
    /// Killed after the first half was flushed, and that written down.
    HalfNoted,
    /// Killed after all was flushed, and that written down.
    Noted,
    /// The same, and the queues were written.
    Dispatched,
    /// Stopped.
    Stopped,
}

pub(crate) fn body(number: usize, len: usize) -> Vec<u8> {
    let mut body = format!("{number}.").into_bytes();
    body.resize(len.max(body.len()), b'a' + (number % 26) as u8);
    body
}

/// `count` records in three queues, left so.
pub(crate) fn stored(
    left: Left,
    count: usize,
    len: usize,
    pairs: &[(&str, &str)],
) -> (TwinDisk, Vec<u64>) {
    let disk = TwinDisk::new();
    let clock = ManualClock::at(1_000_000_000);
    let how = OpenHow::RefuseDamage;
    let store = Store::open(disk.clone(), clock.clone(), config(pairs), how).unwrap();
    let mut offsets = Vec::new();
    for number in 0..count {
        if number == count / 2 && left == Left::HalfNoted {
            store.durability().flush().unwrap();
            store.checkpoints().note_durable().unwrap();
        }
        offsets.push(
            append(&store, "T", (number % 3) as i32, &body(number, len))
                .unwrap()
                .0,
        );
        clock.advance(Duration::from_millis(10));
    }
    match left {
        Left::Killed | Left::HalfNoted => store.abandon(),
        Left::Noted | Left::Dispatched => {
            store.durability().flush().unwrap();
            store.checkpoints().note_durable().unwrap();
            if left == Left::Dispatched {
                while store.dispatching().step().unwrap() {}
                store.checkpoints().sync_queues(0).unwrap();
            }
            store.abandon();
        }
        Left::Stopped => assert!(store.close().unwrap()),
    }
    (disk, offsets)
}

/// Bodies that a consumer of a queue gets, in their order.
pub(crate) fn consumed(store: &TwinStore, queue_id: i32) -> Vec<Vec<u8>> {
    while store.dispatching().step().unwrap() {}
    let mut bodies = Vec::new();
    loop {
        let ask = Ask {
            from: bodies.len() as u64,
            count_max: 32,
            bytes_max: 1 << 20,
            tags_codes: &[],
            is_bulk: false,
        };
        let got = store.reader().get(b"T", queue_id, ask).unwrap();
        if got.status != GetStatus::Found {
            return bodies;
        }
        for record in &got.records {
            let view = record.view(CrcCheck::Verify).unwrap();
            assert_eq!(view.queue_offset as usize, bodies.len());
            assert_eq!(view.topic, b"T");
            bodies.push(view.body.to_vec());
        }
    }
}

/// The log as an official broker reads it while it recovers: it asks for no place.
pub(crate) fn official_walk(store: &TwinStore) -> u64 {
    let chain = &store.files().chain;
    let walk = Scan {
        from: chain.start(),
        limit: store.files().readable(),
        crc: CrcCheck::Verify,
        is_recovery: false,
        torn_from: 0,
        has_property_crc: false,
        forgets: false,
    };
    let end = scan(chain, walk, |_, _| Ok(true)).unwrap();
    assert_eq!(end.stop, Stop::End);
    assert_eq!(end.end, store.files().readable());
    end.records
}

pub(crate) fn record_of(disk: &TwinDisk, name: &str) -> Value {
    let text = disk.read(Path::new("/store/truncated").join(name).as_path());
    serde_json::from_slice(&text.unwrap()).unwrap()
}

pub(crate) fn errors(store: &TwinStore) -> Vec<String> {
    let notices = store.notices().into_iter();
    notices
        .filter(|notice| notice.level == Level::Error)
        .map(|notice| notice.text)
        .collect()
}

/// An official broker starts on the directory: it writes its word into the lock file.
pub(crate) fn official_start(disk: &TwinDisk) {
    let lock = disk.open(Path::new("/store/lock"), Open::Create).unwrap();
    lock.write_at(b"lock", 0).unwrap();
}
