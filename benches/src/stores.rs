//! Stores that are ready to be measured, and the messages that go into them: 1 KB of body, 100
//! bytes of properties.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mqcore_engine::clock::SystemClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::store::{Ask, GetStatus, OpenHow, Store};
use mqcore_record::{Host, Limits, Message, Prepared};

/// The store on the machine's disk and clock.
pub type RealStore = Store<RealDisk, SystemClock>;

/// Bytes of every body.
pub const BODY_LEN_BYTES: usize = 1024;
/// Bytes of every properties text.
pub const PROPERTIES_LEN_BYTES: usize = 100;
/// The topic of all messages.
pub const TOPIC: &str = "bench";

/// A body of bytes that do not repeat.
#[must_use]
pub fn body() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..BODY_LEN_BYTES)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

/// Properties of 100 bytes: a tag and a filler, with a key in front when asked for.
#[must_use]
pub fn properties(key: Option<u64>) -> Vec<u8> {
    let mut text = match key {
        Some(key) => format!("KEYS\u{1}{key:016}\u{2}"),
        None => String::new(),
    };
    text.push_str("TAGS\u{1}tag-a\u{2}pad\u{1}");
    while text.len() < PROPERTIES_LEN_BYTES - 1 {
        text.push('x');
    }
    text.push('\u{2}');
    text.into_bytes()
}

/// A message of `TOPIC`.
#[must_use]
pub fn message<'a>(queue_id: i32, body: &'a [u8], properties: &'a [u8]) -> Message<'a> {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    Message {
        born_timestamp_ms: 1_700_000_000_000,
        properties,
        ..Message::of(TOPIC, queue_id, body, host)
    }
}

/// Bytes of the record that such a message becomes.
#[must_use]
pub fn record_len() -> usize {
    let (body, properties) = (body(), properties(None));
    let limits = Limits {
        body_len_max: 1 << 22,
    };
    Prepared::new(&message(0, &body, &properties), &limits)
        .unwrap()
        .total_len()
}

/// Opens a store in `root` without starting its threads. `pairs` are official keys.
#[must_use]
pub fn open(root: &Path, pairs: &[(&str, &str)]) -> Arc<RealStore> {
    let mut config = StoreConfig::from_pairs(pairs.iter().copied()).unwrap().0;
    config.root = Some(root.to_owned());
    Arc::new(Store::open(RealDisk, SystemClock::new(), config, OpenHow::RefuseDamage).unwrap())
}

/// Opens and starts a store whose first log file is made and populated as a whole, once nothing is
/// dirty any more.
#[must_use]
pub fn ready(root: &Path, pairs: &[(&str, &str)]) -> Arc<RealStore> {
    let mut all = vec![("warmMapedFileEnable", "true")];
    all.extend_from_slice(pairs);
    let store = open(root, &all);
    store.start().unwrap();
    // The first append takes the first file; then that one and the next are warmed.
    let (body, properties) = (body(), properties(None));
    let first = store
        .writer()
        .append(&message(0, &body, &properties))
        .unwrap();
    let files = store.files();
    wait_until("the first log file is populated", || {
        let segment = files.chain.find(first.physical_offset).unwrap();
        let next = segment.end();
        let wanted = if store.config().warm_up_enabled {
            segment.end() - segment.base()
        } else {
            store.config().populate_window_bytes
        };
        let is_warm = segment.populated() >= wanted;
        let is_next_warm = files
            .preparer
            .peek()
            .is_some_and(|made| !store.config().warm_up_enabled || made.populated() >= wanted);
        files.preparer.is_ready(next) && is_warm && is_next_warm
    });
    wait_until("dispatch has caught up", || {
        store.files().positions.dispatched.position() >= first.end()
            || store.config().flush_disk_type == mqcore_engine::config::FlushDiskType::Sync
    });
    store
}

/// Opens a store without threads whose first log file is populated as a whole, and the next one with it.
#[must_use]
pub fn populated(root: &Path, pairs: &[(&str, &str)]) -> Arc<RealStore> {
    let mut all = vec![("warmMapedFileEnable", "true")];
    all.extend_from_slice(pairs);
    let store = open(root, &all);
    let (body, properties) = (body(), properties(None));
    // The first append takes the first file, which is then written ahead of what follows.
    let first = store
        .writer()
        .append(&message(0, &body, &properties))
        .unwrap();
    while store.preparation().step().unwrap() {}
    let segment = store.files().chain.find(first.physical_offset).unwrap();
    assert_eq!(segment.populated(), segment.end() - segment.base());
    dispatch_all(&store);
    store
}

/// Dispatches what was appended, and writes the queues.
pub fn dispatch_all(store: &RealStore) {
    while store.dispatching().step().unwrap() {}
    store.queues().write_pending().unwrap();
}

/// Waits, looking every millisecond, at most two minutes.
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "waited in vain until {what}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Appends `count` messages to queues `0..queues` in turn; with `keyed` each has a key.
pub fn fill(store: &RealStore, count: u64, queues: u64, keyed: bool) -> u64 {
    let body = body();
    let plain = properties(None);
    let mut end = 0;
    for n in 0..count {
        let with_key = if keyed {
            properties(Some(n))
        } else {
            Vec::new()
        };
        let text = if keyed { &with_key } else { &plain };
        let queue_id = i32::try_from(n % queues).unwrap_or(0);
        end = store
            .writer()
            .append(&message(queue_id, &body, text))
            .unwrap()
            .end();
    }
    end
}

/// Reads the first four queues from the start, and again from there where one has ended, until asked to
/// stop: a reader that has caught up would read what is in memory. Counts the records read.
pub fn read_from_start(store: &RealStore, stop: &AtomicBool, read: &AtomicU64) {
    let mut from = [0u64; 4];
    while !stop.load(Ordering::Relaxed) {
        for (queue_id, from) in from.iter_mut().enumerate() {
            let ask = Ask {
                from: *from,
                count_max: 32,
                bytes_max: 1 << 20,
                tags_codes: &[],
                is_bulk: false,
            };
            let queue_id = i32::try_from(queue_id).unwrap_or(0);
            let got = store.reader().get(TOPIC.as_bytes(), queue_id, ask).unwrap();
            if got.status == GetStatus::Found {
                read.fetch_add(got.records.len() as u64, Ordering::Relaxed);
            }
            *from = if got.status == GetStatus::Found {
                got.next_offset
            } else {
                0
            };
        }
    }
}
