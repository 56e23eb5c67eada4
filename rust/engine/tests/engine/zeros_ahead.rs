//! Zeros that are written ahead of the append: where they are, where there are none, and that none
//! erases a record, on the real disk and on its twin; and that their pages are looked after again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mqcore_engine::clock::{ManualClock, SystemClock};
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::twin::{CallKind, Fault, Times, TwinDisk};
use mqcore_engine::disk::{Disk, RealDisk};
use mqcore_engine::segment::Refresh;
use mqcore_engine::store::{OpenHow, Store};
use mqcore_record::{Host, Message};

type TwinStore = Store<TwinDisk, ManualClock>;

const EIO: i32 = 5;
const SEGMENT: u64 = 4 << 20;
const BODY_LEN: usize = 30_000;

fn config(root: &Path, pairs: &[(&str, &str)]) -> StoreConfig {
    let mut all = vec![
        ("storePathRootDir", root.to_str().unwrap()),
        ("mappedFileSizeCommitLog", "4194304"),
        ("maxMessageSize", "32768"),
        ("messageIndexEnable", "false"),
        ("populateWindowBytes", "524288"),
    ];
    all.extend_from_slice(pairs);
    StoreConfig::from_pairs(all).unwrap().0
}

fn append<D: Disk>(
    store: &Store<D, impl mqcore_engine::clock::Clock>,
    fill: u8,
) -> std::ops::Range<u64> {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    let body = [fill; BODY_LEN];
    let message = Message {
        born_timestamp_ms: 1,
        ..Message::of("T", 0, &body, host)
    };
    let at = store.writer().append(&message).unwrap();
    at.physical_offset..at.end()
}

/// Never 0, and not the same in records that are near each other.
fn fill_of(number: u64) -> u8 {
    (number % 251) as u8 + 1
}

/// Whether all bytes of the body are there, through the file.
fn is_whole<D: Disk>(
    store: &Store<D, impl mqcore_engine::clock::Clock>,
    range: &std::ops::Range<u64>,
    fill: u8,
) -> bool {
    let segment = store.files().chain.find(range.start).unwrap();
    let position = range.start - segment.base();
    let len = (range.end - range.start) as usize;
    let bytes = segment.read(position, len).unwrap();
    bytes.iter().filter(|byte| **byte == fill).count() >= BODY_LEN
}

#[test]
fn no_zeros_erase_a_record_of_appends_that_overtake_them() {
    let root = std::env::temp_dir().join(format!("mqcore-zeros-{}", std::process::id()));
    let _absent = std::fs::remove_dir_all(&root);
    // Zeros begin one step ahead of the append: in the way of every burst.
    let config = config(&root, &[]);
    let clock = SystemClock::new();
    let store = Store::open(RealDisk, clock, config, OpenHow::RefuseDamage).unwrap();
    let store = Arc::new(store);
    store.start().unwrap();
    let ranges: Vec<_> = (0..1_200)
        .map(|number| append(&store, fill_of(number)))
        .collect();
    assert!(store.files().positions.appended.position() > 8 * SEGMENT);
    for (number, range) in (0..).zip(&ranges) {
        assert!(is_whole(&store, range, fill_of(number)), "{range:?}");
    }
    store.close().unwrap();
    std::fs::remove_dir_all(&root).unwrap();
}

/// A store on the twin, and how often bytes were written through files of its log.
fn counted(pairs: &[(&str, &str)]) -> (TwinDisk, TwinStore, Arc<AtomicU64>) {
    let clock = ManualClock::at(1_700_000_000_000);
    let disk = TwinDisk::with_clock(clock.clone());
    let writes = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&writes);
    disk.on_call(move |call, path| {
        if call == CallKind::Write && path.to_string_lossy().contains("commitlog") {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let config = config(&PathBuf::from("/store"), pairs);
    let store = Store::open(disk.clone(), clock, config, OpenHow::RefuseDamage).unwrap();
    (disk, store, writes)
}

fn populated(store: &TwinStore) -> u64 {
    store.files().chain.last().unwrap().populated()
}

#[test]
fn zeros_are_written_under_asynchronous_flush_without_a_pool_alone() {
    let pool = ("transientStorePoolEnable", "true");
    let cases: [(&[(&str, &str)], bool); 4] = [
        (&[], true),
        (&[("flushDiskType", "SYNC_FLUSH")], false),
        (&[pool, ("transientStorePoolSize", "2")], false),
        (&[("lockMappedFile", "true")], false),
    ];
    for (pairs, has_zeros) in cases {
        let (_disk, store, writes) = counted(pairs);
        append(&store, 1);
        while store.preparation().step().unwrap() {}
        let end = store.files().positions.appended.position();
        assert!(populated(&store) >= end + 524_288, "{pairs:?}");
        assert_eq!(writes.load(Ordering::Relaxed) > 0, has_zeros, "{pairs:?}");
    }
}

#[test]
fn zeros_come_no_nearer_than_the_append_and_its_pages_are_populated() {
    let (disk, store, writes) = counted(&[]);
    let mut ranges = Vec::new();
    for number in 0..400 {
        ranges.push(append(&store, fill_of(number)));
        if number % 3 == 0 {
            while store.preparation().step().unwrap() {}
        }
    }
    assert!(writes.load(Ordering::Relaxed) > 100);
    assert_eq!(disk.bus_errors(), 0);
    for (number, range) in (0..).zip(&ranges) {
        assert!(is_whole(&store, range, fill_of(number)), "{range:?}");
    }
}

#[test]
fn a_window_whose_zeros_cannot_be_written_is_populated_page_by_page() {
    let (disk, store, writes) = counted(&[]);
    append(&store, 1);
    disk.fail(Fault {
        call: CallKind::Write,
        path_contains: Some("commitlog".to_owned()),
        nth: 1,
        errno: EIO,
        times: Times::Always,
    });
    while store.preparation().step().unwrap() {}
    let end = store.files().positions.appended.position();
    assert!(populated(&store) >= end + 524_288);
    assert_eq!(writes.load(Ordering::Relaxed), 1, "tried once");
    let notices = store.notices();
    let reported = notices
        .iter()
        .filter(|notice| notice.text.contains("one by one"));
    assert_eq!(reported.count(), 1, "{notices:?}");
    assert!(store.files().poison.reason().is_none());
    for number in 0..200 {
        let range = append(&store, fill_of(number));
        while store.preparation().step().unwrap() {}
        assert!(is_whole(&store, &range, fill_of(number)), "{range:?}");
    }
}

/// Calls that made pages of the log present.
fn counted_populating(disk: &TwinDisk) -> Arc<AtomicU64> {
    let calls = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&calls);
    disk.on_call(move |call, _path| {
        if call == CallKind::Populate {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    calls
}

#[test]
fn pages_next_to_the_append_are_populated_again_while_it_goes_on() {
    let (disk, store, _writes) = counted(&[]);
    let mut refresh = Refresh::default();
    append(&store, 1);
    while store.preparation().step().unwrap() {}
    let calls = counted_populating(&disk);
    let mut again = |now_ms| {
        let before = calls.load(Ordering::Relaxed);
        store.preparation().refresh(&mut refresh, now_ms);
        calls.load(Ordering::Relaxed) - before
    };
    assert_eq!(again(1_000), 0, "all of them are fresh");
    assert_eq!(again(1_050), 0, "too early");
    assert_eq!(again(1_100), 1);
    append(&store, 2);
    assert_eq!(again(1_200), 1);
    assert_eq!(again(60_000), 0, "nobody has appended for long");
    append(&store, 3);
    assert_eq!(again(60_100), 1);
}

#[test]
fn pages_of_the_next_file_are_populated_again_before_the_append_is_there() {
    let (disk, store, _writes) = counted(&[]);
    let mut refresh = Refresh::default();
    let mut number = 0;
    while store.files().positions.appended.position() < SEGMENT - 200_000 {
        append(&store, fill_of(number));
        number += 1;
        while store.preparation().step().unwrap() {}
    }
    let next = store.files().preparer.peek().unwrap();
    assert!(next.populated() > 0);
    store.preparation().refresh(&mut refresh, 1_000);
    let calls = counted_populating(&disk);
    store.preparation().refresh(&mut refresh, 1_100);
    assert_eq!(
        calls.load(Ordering::Relaxed),
        2,
        "the end of this file, and the next"
    );
}

#[test]
fn pages_that_the_append_does_not_write_to_are_left_alone() {
    let pool = ("transientStorePoolEnable", "true");
    let cases: [&[(&str, &str)]; 2] = [
        &[pool, ("transientStorePoolSize", "2")],
        &[("lockMappedFile", "true")],
    ];
    for pairs in cases {
        let (disk, store, _writes) = counted(pairs);
        let mut refresh = Refresh::default();
        append(&store, 1);
        while store.preparation().step().unwrap() {}
        let calls = counted_populating(&disk);
        store.preparation().refresh(&mut refresh, 1_000);
        append(&store, 2);
        store.preparation().refresh(&mut refresh, 1_100);
        assert_eq!(calls.load(Ordering::Relaxed), 0, "{pairs:?}");
    }
}

#[test]
fn a_page_that_cannot_be_populated_again_is_reported_once() {
    let (disk, store, _writes) = counted(&[]);
    let mut refresh = Refresh::default();
    append(&store, 1);
    while store.preparation().step().unwrap() {}
    store.preparation().refresh(&mut refresh, 1_000);
    disk.fail(Fault {
        call: CallKind::Populate,
        path_contains: Some("commitlog".to_owned()),
        nth: 1,
        errno: EIO,
        times: Times::Always,
    });
    append(&store, 2);
    store.preparation().refresh(&mut refresh, 1_100);
    append(&store, 3);
    store.preparation().refresh(&mut refresh, 1_200);
    let notices = store.notices();
    let reported = notices
        .iter()
        .filter(|notice| notice.text.contains("one by one"));
    assert_eq!(reported.count(), 1, "{notices:?}");
    append(&store, 4);
}
