//! Tags in the key index, as RocketMQ 5.5 has them: where the settings want it, and where a directory
//! has them already, after clean stops, kills and repairs; and what a verification makes of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mqcore_engine::clock::SystemClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::inspect::Inspection;
use mqcore_engine::key_index::index_files;
use mqcore_engine::store::{OpenHow, Store, rebuild};
use mqcore_record::{Host, Message};

use crate::directory::Dir;

type RealStore = Store<RealDisk, SystemClock>;

const TAGS_WANTED: &[(&str, &str)] = &[("mqcoreIndexTags", "true")];
/// What the settings are where nobody sets anything.
const UNSAID: &[(&str, &str)] = &[];

impl Dir {
    fn config(&self, pairs: &[(&str, &str)]) -> StoreConfig {
        let mut all = vec![
            ("storePathRootDir", self.0.to_str().unwrap()),
            ("mappedFileSizeCommitLog", "1048576"),
            ("mappedFileSizeConsumeQueue", "20000"),
            ("maxMessageSize", "65536"),
            ("maxHashSlotNum", "50"),
            ("maxIndexNum", "200"),
        ];
        all.extend_from_slice(pairs);
        StoreConfig::from_pairs(all).unwrap().0
    }

    fn open(&self, pairs: &[(&str, &str)]) -> Arc<RealStore> {
        let how = OpenHow::RefuseDamage;
        let store = Store::open(RealDisk, SystemClock::new(), self.config(pairs), how);
        let store = Arc::new(store.unwrap());
        while store.dispatching().step().unwrap() {}
        store
    }

    fn problems(&self) -> Vec<String> {
        let sizes = [("maxHashSlotNum", "50"), ("maxIndexNum", "200")];
        let sizes = sizes.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let inspection = Inspection::open(RealDisk, &self.0, &sizes).unwrap();
        let findings = inspection.verify().unwrap();
        assert!(findings.index_entries > 0);
        let problems = findings.problems.into_iter();
        problems.map(|problem| problem.why).collect()
    }

    fn index_files(&self) -> Vec<PathBuf> {
        index_files(&RealDisk, &self.0.join("index")).unwrap()
    }
}

/// Appends messages with these properties and waits until they are indexed.
fn append(store: &RealStore, properties: &str, count: usize) {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    for _ in 0..count {
        let message = Message {
            born_timestamp_ms: 1,
            properties: properties.as_bytes(),
            ..Message::of("T", 0, b"body", host)
        };
        store.put(&message).unwrap();
    }
    let end = store.files().positions.appended.position();
    let dispatched = &store.files().positions.dispatched;
    while store.dispatching().step().unwrap() {}
    assert!(dispatched.wait(end, Duration::from_secs(20), || false));
}

fn count(store: &RealStore, key: &str) -> usize {
    let reader = store.key_reader();
    let found = reader.query(b"T", key.as_bytes(), 64, 0, i64::MAX);
    found.unwrap().records.len()
}

#[test]
fn tags_are_indexed_where_the_settings_want_it() {
    let dir = Dir::new("tags-wanted");
    let store = dir.open(TAGS_WANTED);
    append(&store, "KEYS\u{1}a b\u{2}TAGS\u{1}red\u{2}", 3);
    append(&store, "TAGS\u{1}\u{2}KEYS\u{1}c", 1);
    append(&store, "TAGS\u{1}blue", 2);
    let found = ["a", "b", "c", "T#red", "T#blue", "T#"].map(|key| count(&store, key));
    assert_eq!(found, [3, 3, 1, 3, 2, 0]);
    assert!(store.close().unwrap());
    drop(store);
    assert_eq!(dir.problems(), [""; 0]);
}

#[test]
fn a_directory_without_tags_goes_on_without() {
    let dir = Dir::new("tags-none");
    for _ in 0..2 {
        let store = dir.open(UNSAID);
        append(&store, "KEYS\u{1}a\u{2}TAGS\u{1}red", 2);
        assert_eq!(count(&store, "T#red"), 0);
        assert!(store.close().unwrap());
    }
    let store = dir.open(TAGS_WANTED);
    append(&store, "KEYS\u{1}a\u{2}TAGS\u{1}red", 2);
    assert_eq!([count(&store, "a"), count(&store, "T#red")], [6, 2]);
    assert!(store.close().unwrap());
    drop(store);
    assert_eq!(dir.problems(), [""; 0]);
}

#[test]
fn a_directory_with_tags_goes_on_with_them() {
    let dir = Dir::new("tags-go-on");
    let store = dir.open(TAGS_WANTED);
    append(&store, "KEYS\u{1}a\u{2}TAGS\u{1}red", 5);
    // Without tags: they show nothing.
    append(&store, "KEYS\u{1}a", 5);
    assert!(store.close().unwrap());
    drop(store);
    let store = dir.open(UNSAID);
    append(&store, "KEYS\u{1}a\u{2}TAGS\u{1}red", 5);
    assert_eq!([count(&store, "a"), count(&store, "T#red")], [15, 10]);
    // Its index file is not full: the next start removes it and makes it again.
    store.abandon();
    drop(store);
    let store = dir.open(UNSAID);
    assert!(!store.report().was_clean);
    assert_eq!([count(&store, "a"), count(&store, "T#red")], [15, 10]);
    assert!(store.close().unwrap());
    drop(store);
    assert_eq!(dir.problems(), [""; 0]);
}

#[test]
fn a_repair_makes_an_index_of_the_same_form() {
    for (pairs, tagged) in [(TAGS_WANTED, 5), (UNSAID, 0)] {
        let dir = Dir::new("tags-repair");
        let store = dir.open(pairs);
        append(&store, "KEYS\u{1}a\u{2}TAGS\u{1}red", 5);
        assert!(store.close().unwrap());
        drop(store);
        let rebuilt = rebuild(&RealDisk, &SystemClock::new(), dir.config(UNSAID)).unwrap();
        assert_eq!(rebuilt.index_entries, 5 + tagged as u64);
        let store = dir.open(UNSAID);
        assert_eq!([count(&store, "a"), count(&store, "T#red")], [5, tagged]);
    }
}

#[test]
fn a_kill_between_the_keys_of_a_record_and_its_tags_hides_nothing() {
    let dir = Dir::new("tags-between");
    let store = dir.open(TAGS_WANTED);
    append(&store, "KEYS\u{1}a\u{2}TAGS\u{1}red", 5);
    store.abandon();
    drop(store);
    let path = dir.index_files().pop().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    // As before the last entry was put: the count that the header ends with.
    let next = u32::from_be_bytes(bytes[36..40].try_into().unwrap());
    assert_eq!(next, 11);
    bytes[36..40].copy_from_slice(&(next - 1).to_be_bytes());
    std::fs::write(&path, bytes).unwrap();
    let store = dir.open(UNSAID);
    assert_eq!([count(&store, "a"), count(&store, "T#red")], [5, 5]);
}

#[test]
fn an_index_that_cannot_be_read_stops_no_start() {
    let dir = Dir::new("tags-damaged");
    let store = dir.open(TAGS_WANTED);
    append(&store, "KEYS\u{1}a\u{2}TAGS\u{1}red", 5);
    store.abandon();
    drop(store);
    let path = dir.index_files().pop().unwrap();
    let len = std::fs::metadata(&path).unwrap().len();
    std::fs::write(&path, vec![0xff; len as usize]).unwrap();
    let store = dir.open(UNSAID);
    // Nothing shows the form any more.
    assert_eq!([count(&store, "a"), count(&store, "T#red")], [5, 0]);
}

#[test]
fn a_verification_finds_wrong_entries_among_those_of_tags() {
    let dir = Dir::new("tags-verify");
    let store = dir.open(TAGS_WANTED);
    append(&store, "TAGS\u{1}red", 5);
    assert!(store.close().unwrap());
    drop(store);
    assert_eq!(dir.problems(), [""; 0]);
    let path = dir.index_files().pop().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    // Header, slots, and of entry 3 the last byte of its hash.
    bytes[40 + 50 * 4 + 3 * 20 + 3] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let problems = dir.problems();
    let of_entry = |why: &&String| why.starts_with("entry 3: no key of");
    assert_eq!(problems.iter().filter(of_entry).count(), 1, "{problems:?}");
}
