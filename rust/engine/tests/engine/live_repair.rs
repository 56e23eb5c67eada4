//! A record that rots in a store that is open: replaced by that of another replica, in a file that nobody
//! maps, and by nothing else.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mqcore_engine::clock::SystemClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::store::{OpenHow, Store, TheirRecord, bad_record_at, replace_record};
use mqcore_record::{Host, Message};

use crate::directory::Dir;

type RealStore = Store<RealDisk, SystemClock>;

const FILE_LEN_BYTES: u64 = 1 << 20;

fn open(root: &Path) -> Arc<RealStore> {
    let pairs = [
        ("storePathRootDir", root.to_str().unwrap()),
        ("mappedFileSizeCommitLog", "1048576"),
        ("mappedFileSizeConsumeQueue", "20000"),
        ("maxMessageSize", "65536"),
        ("maxHashSlotNum", "1000"),
        ("maxIndexNum", "40000"),
        ("hotWindowBytes", "1048576"),
        ("populateWindowBytes", "1048576"),
    ];
    let config = StoreConfig::from_pairs(pairs).unwrap().0;
    let how = OpenHow::RefuseDamage;
    Arc::new(Store::open(RealDisk, SystemClock::new(), config, how).unwrap())
}

/// Fills more than three files; the ends of all records.
fn filled(store: &RealStore) -> Vec<u64> {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    let mut ends = Vec::new();
    while ends.last().is_none_or(|end| *end < 7 * FILE_LEN_BYTES / 2) {
        let body = vec![b'a'; 1_000 + ends.len() % 300];
        let message = Message {
            born_timestamp_ms: 1,
            ..Message::of("T", 0, &body, host)
        };
        ends.push(store.put(&message).unwrap().0.end());
        while store.preparation().step().unwrap() {}
    }
    while store.dispatching().step().unwrap() {}
    store.durability().flush().unwrap();
    while store.preparation().step().unwrap() {}
    ends
}

/// One file of the log.
struct LogFile(PathBuf, u64);

impl LogFile {
    fn of(root: &Path, at: u64) -> Self {
        let base = at - at % FILE_LEN_BYTES;
        Self(root.join("commitlog").join(format!("{base:020}")), base)
    }

    fn read(&self, from: u64, to: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(to - from).unwrap()];
        let file = File::open(&self.0).unwrap();
        file.read_exact_at(&mut bytes, from - self.1).unwrap();
        bytes
    }

    /// Changes a byte.
    fn spoil(&self, at: u64) {
        let byte = [self.read(at, at + 1)[0] ^ 4];
        let file = File::options().write(true).open(&self.0).unwrap();
        file.write_all_at(&byte, at - self.1).unwrap();
    }
}

fn their(physical_offset: u64, bytes: &[u8]) -> TheirRecord<'_> {
    TheirRecord {
        physical_offset,
        bytes,
    }
}

#[test]
fn a_record_that_rots_is_replaced_while_the_store_is_open() {
    let dir = Dir::new("live-repair");
    let store = open(&dir.0);
    let ends = filled(&store);
    let (before, at, next, behind) = (ends[18], ends[19], ends[20], ends[21]);
    let file = LogFile::of(&dir.0, at);
    let whole = file.read(0, FILE_LEN_BYTES);
    let [first, good, last] =
        [(before, at), (at, next), (next, behind)].map(|(from, to)| file.read(from, to));
    assert_eq!(bad_record_at(&store, at).unwrap(), None);
    file.spoil(at + 200);
    while store.scrub().step().unwrap() {}
    let (found, _count) = store.damaged().records();
    assert_eq!(found[0].physical_offset, at);
    let bad = bad_record_at(&store, at).unwrap().unwrap();
    assert_eq!((bad.before, bad.next_whole), (Some(before), next));
    let around = [their(before, &first), their(next, &last)];
    let refused = |theirs: &[u8], around: &[TheirRecord<'_>]| {
        let why = replace_record(&store, their(at, theirs), around);
        why.unwrap_err().to_string()
    };
    let rotten = file.read(at, next);
    assert!(refused(&rotten, &around).contains("theirs is no record"));
    assert!(refused(&first, &around).contains("no record of this place"));
    assert!(refused(&good, &around[..1]).contains("is missing"));
    let others = [their(before, &first), their(next, &first)];
    assert!(refused(&good, &others).contains("differ"));
    assert_eq!(file.read(at, next), rotten, "nothing was written");
    let kept = replace_record(&store, their(at, &good), &around).unwrap();
    assert!(file.read(0, FILE_LEN_BYTES) == whole);
    assert_eq!(std::fs::read(kept).unwrap(), rotten);
    assert!(store.damaged().records().0.is_empty());
    assert!(refused(&good, &around).contains("no bad record"));
    store.close().unwrap();
}

#[test]
fn a_file_that_is_mapped_is_not_written() {
    let dir = Dir::new("live-repair-mapped");
    let store = open(&dir.0);
    let ends = filled(&store);
    let count = ends.len();
    let (before, at, next) = (ends[count - 30], ends[count - 29], ends[count - 28]);
    let behind = ends[count - 27];
    let file = LogFile::of(&dir.0, at);
    let [first, good, last] =
        [(before, at), (at, next), (next, behind)].map(|(from, to)| file.read(from, to));
    file.spoil(at + 200);
    let rotten = file.read(at, next);
    let around = [their(before, &first), their(next, &last)];
    let why = replace_record(&store, their(at, &good), &around);
    assert!(why.unwrap_err().to_string().contains("mapped"));
    assert_eq!(file.read(at, next), rotten);
    assert!(!dir.0.join("truncated").exists());
    store.close().unwrap();
}
