//! A store that grows by the bytes of another one: pieces of any length, files that begin in the middle of
//! the log, ends in the middle of a record, kills and clean stops there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use mqcore_engine::clock::SystemClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::error::Error;
use mqcore_engine::store::{Ask, OpenHow, Store, WholeRecords};
use mqcore_record::{Host, Message};

use crate::directory::Dir;

type RealStore = Store<RealDisk, SystemClock>;

const FILE_LEN_BYTES: u64 = 1 << 20;
const NOTHING: WholeRecords = WholeRecords {
    end: 0,
    store_ms: None,
};

fn open(root: &Path) -> Arc<RealStore> {
    let pairs = [
        ("storePathRootDir", root.to_str().unwrap()),
        ("mappedFileSizeCommitLog", "1048576"),
        ("mappedFileSizeConsumeQueue", "20000"),
        ("maxMessageSize", "65536"),
        ("maxHashSlotNum", "1000"),
        ("maxIndexNum", "40000"),
    ];
    let config = StoreConfig::from_pairs(pairs).unwrap().0;
    let how = OpenHow::RefuseDamage;
    Arc::new(Store::open(RealDisk, SystemClock::new(), config, how).unwrap())
}

fn open_slave(root: &Path) -> Arc<RealStore> {
    let store = open(root);
    store.replica().follow();
    store
}

fn put(store: &RealStore, number: usize) -> u64 {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    let body = vec![b'a' + (number % 26) as u8; 1 + number * 37 % 3_000];
    let message = Message {
        born_timestamp_ms: 1,
        ..Message::of("T", (number % 3) as i32, &body, host)
    };
    store.put(&message).unwrap().0.end()
}

/// A master whose log goes over more than two files.
fn master(root: &Path) -> Arc<RealStore> {
    let store = open(root);
    let mut number = 0;
    while put(&store, number) < 2 * FILE_LEN_BYTES + 50_000 {
        number += 1;
    }
    store
}

/// Where the last record of the master ends that is whole below `offset`.
fn whole(master: &RealStore, offset: u64) -> WholeRecords {
    let mut end = offset - offset % FILE_LEN_BYTES;
    while end < offset {
        let chunk = master.replica().range(end, 4).unwrap().unwrap();
        let len = i32::from_be_bytes(chunk.bytes.as_bytes().try_into().unwrap());
        if end + len as u64 > offset {
            break;
        }
        end += len as u64;
    }
    WholeRecords {
        end,
        store_ms: None,
    }
}

/// Copies from the end of the slave's log to `to`, in pieces of at most `len_max` bytes.
fn copy(master: &RealStore, slave: &RealStore, to: u64, len_max: usize) {
    loop {
        let at = slave.replica().appended();
        let wanted = len_max.min(usize::try_from(to.saturating_sub(at)).unwrap());
        let Some(chunk) = master.replica().range(at, wanted).unwrap() else {
            return;
        };
        let bytes = chunk.bytes.as_bytes();
        let (front, back) = bytes.split_at(bytes.len() / 3);
        let whole = whole(master, at + bytes.len() as u64);
        slave.replica().append(at, &[front, back], whole).unwrap();
    }
}

fn log_bytes(store: &RealStore, from: u64, to: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while from + (out.len() as u64) < to {
        let at = from + out.len() as u64;
        let len = usize::try_from(to - at).unwrap();
        let chunk = store.replica().range(at, len).unwrap().unwrap();
        out.extend_from_slice(chunk.bytes.as_bytes());
    }
    out
}

fn dispatch_all(store: &RealStore) {
    while store.dispatching().step().unwrap() {}
}

/// Queue offsets of a queue, each with its body.
fn read(store: &RealStore, queue_id: i32) -> Vec<(i64, Vec<u8>)> {
    dispatch_all(store);
    let Some(bounds) = store.topics().bounds(b"T", queue_id).unwrap() else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for offset in bounds.min..bounds.max {
        let ask = Ask {
            from: offset,
            count_max: 1,
            bytes_max: 1 << 20,
            tags_codes: &[],
            is_bulk: true,
        };
        let got = store.reader().get(b"T", queue_id, ask).unwrap();
        let record = got.records.first().unwrap();
        let view = record.view(mqcore_record::CrcCheck::Verify).unwrap();
        out.push((view.queue_offset, view.body.to_vec()));
    }
    out
}

#[test]
fn pieces_of_any_length_make_the_same_log_and_queues() {
    let (one, other) = (Dir::new("replica-one"), Dir::new("replica-other"));
    let master = master(&one.0);
    let slave = open_slave(&other.0);
    let end = master.replica().extent().end;
    copy(&master, &slave, 333_333, 1_000);
    assert!(
        read(&slave, 0).len() > 50,
        "whole records are there at once"
    );
    copy(&master, &slave, FILE_LEN_BYTES - 5, 32_768);
    dispatch_all(&slave);
    copy(&master, &slave, end, 77_777);
    assert_eq!(slave.replica().extent().end, end);
    assert_eq!(log_bytes(&slave, 0, end), log_bytes(&master, 0, end));
    for queue_id in 0..3 {
        assert_eq!(read(&slave, queue_id), read(&master, queue_id));
    }
    assert!(
        slave.close().unwrap(),
        "a slave's store is closed as clean as any"
    );
}

#[test]
fn a_fresh_log_begins_at_a_file_in_the_middle() {
    let (one, other) = (Dir::new("replica-middle"), Dir::new("replica-begun"));
    let master = master(&one.0);
    let end = master.replica().extent().end;
    for has_threads in [false, true] {
        let _absent = std::fs::remove_dir_all(&other.0);
        let slave = open_slave(&other.0);
        if has_threads {
            slave.start().unwrap();
        }
        assert!(slave.replica().begin_at(FILE_LEN_BYTES + 1).is_err());
        slave.replica().begin_at(FILE_LEN_BYTES).unwrap();
        assert!(slave.replica().begin_at(0).is_err());
        slave.abandon();
        drop(slave);
        let slave = open_slave(&other.0);
        assert_eq!(slave.replica().appended(), FILE_LEN_BYTES);
        copy(&master, &slave, end, 30_000);
        assert_eq!(
            log_bytes(&slave, FILE_LEN_BYTES, end),
            log_bytes(&master, FILE_LEN_BYTES, end)
        );
        let kept = read(&slave, 1);
        assert!(kept.first().unwrap().0 > 0);
        assert!(read(&master, 1).ends_with(&kept));
    }
}

#[test]
fn a_log_that_was_opened_and_never_written_may_still_begin_in_the_middle() {
    let dir = Dir::new("replica-late");
    let slave = open_slave(&dir.0);
    slave.start().unwrap();
    slave.replica().append(0, &[], NOTHING).unwrap();
    slave.abandon();
    drop(slave);
    let slave = open_slave(&dir.0);
    slave.start().unwrap();
    slave.replica().begin_at(5 * FILE_LEN_BYTES).unwrap();
    slave.abandon();
    drop(slave);
    assert_eq!(open_slave(&dir.0).replica().appended(), 5 * FILE_LEN_BYTES);
}

#[test]
fn after_an_end_in_the_middle_of_a_record_the_log_goes_on_behind_the_last_whole_one() {
    let (one, other) = (Dir::new("replica-whole"), Dir::new("replica-cut"));
    let master = master(&one.0);
    let end = master.replica().extent().end;
    // Places in records of all kinds: heads and bodies, the blank end and its head among them.
    let mut offsets: Vec<u64> = (1..=20).map(|n| n * 104_729 % end).collect();
    offsets.extend((1..=9).map(|n| FILE_LEN_BYTES - n * n));
    offsets.extend([
        FILE_LEN_BYTES,
        FILE_LEN_BYTES + 1,
        FILE_LEN_BYTES + 90,
        end - 1,
    ]);
    offsets.sort_unstable();
    for (number, offset) in offsets.into_iter().enumerate() {
        let slave = open_slave(&other.0);
        let begun = slave.replica().appended();
        copy(&master, &slave, offset, 9_999);
        dispatch_all(&slave);
        if number % 3 == 0 {
            // What is on the disk ends in the middle of a record, and is noted as durable up to there.
            slave.durability().flush().unwrap();
            slave.checkpoints().note_durable().unwrap();
        }
        if number % 2 == 0 {
            slave.close().unwrap();
        } else {
            slave.abandon();
        }
        drop(slave);
        let slave = open_slave(&other.0);
        let kept = slave.replica().appended();
        assert!(
            kept >= begun.min(offset) && offset.saturating_sub(kept) < 4_000,
            "{kept} of {offset}"
        );
        // Where only zeros were missing it is whole without them.
        assert_eq!(log_bytes(&slave, 0, kept), log_bytes(&master, 0, kept));
        slave.abandon();
    }
    let slave = open_slave(&other.0);
    copy(&master, &slave, end, 32_768);
    assert_eq!(log_bytes(&slave, 0, end), log_bytes(&master, 0, end));
    for queue_id in 0..3 {
        assert_eq!(read(&slave, queue_id), read(&master, queue_id));
    }
}

#[test]
fn bytes_of_another_offset_and_appends_of_its_own_are_refused() {
    let (one, other) = (Dir::new("replica-from"), Dir::new("replica-refusing"));
    let master = master(&one.0);
    let slave = open_slave(&other.0);
    copy(&master, &slave, 5_000, 5_000);
    let refused = slave.replica().append(4_999, &[b"x"], NOTHING).unwrap_err();
    assert!(matches!(refused, Error::NotWritable { .. }), "{refused}");
    copy(&master, &slave, FILE_LEN_BYTES - 10, 50_000);
    let refused = slave
        .replica()
        .append(FILE_LEN_BYTES - 10, &[&[0; 11]], NOTHING)
        .unwrap_err();
    assert!(
        refused.to_string().contains("differ in length"),
        "{refused}"
    );
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 1,
    };
    let own = Message {
        topic: "T",
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: 1,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: b"own",
        properties: b"",
        version: None,
    };
    let refused = slave.put(&own).unwrap_err();
    assert!(
        refused.to_string().contains("brokerRole=SLAVE"),
        "{refused}"
    );
}
