//! Power loss at every moment of the life of small state, checkpoint and key index, in every way
//! that the twin of the disk allows up to a bound.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::Path;
use std::sync::Arc;

use mqcore_engine::checkpoint::{Checkpoint, Field};
use mqcore_engine::clock::ManualClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::Disk;
use mqcore_engine::disk::twin::{Bound, TwinDisk};
use mqcore_engine::key_index::{
    KeyIndex, Keyed, LastExit, Layout, Opening, index_files, verify_file,
};
use mqcore_engine::notice::Notices;
use mqcore_engine::small_state::{self, Generation};

const START_MS: i64 = 1_795_249_596_000;

fn bound(images_max: usize) -> Bound {
    Bound {
        images_max,
        ..Bound::default()
    }
}

fn parse(bytes: &[u8]) -> Result<u64, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    match text
        .strip_prefix('<')
        .and_then(|text| text.strip_suffix('>'))
    {
        Some(number) => number.parse().map_err(|_| text.to_owned()),
        None => Err(format!("torn: {text:?}")),
    }
}

#[test]
fn small_state_is_whole_whenever_the_power_goes() {
    let path = Path::new("/store/config/topics.json");
    let twin = TwinDisk::new();
    let mut done_at = Vec::new();
    for generation in 0..4u64 {
        let text = format!("<{}>", "0".repeat(700 * generation as usize) + "7");
        small_state::write(
            &twin,
            path,
            text.replace('7', &generation.to_string()).as_bytes(),
        )
        .unwrap();
        done_at.push(twin.history().stop_points() - 1);
    }
    let history = twin.history();
    let mut images = 0;
    for stop in 0..history.stop_points() {
        let done = done_at.iter().filter(|at| **at <= stop).count();
        for image in history.images(stop, &bound(200)) {
            images += 1;
            let disk = image.disk();
            let notices = Notices::default();
            let loaded = small_state::read(&disk, path, &notices, parse);
            let loaded = loaded.unwrap_or_else(|error| panic!("{}: {error}", image.id()));
            match loaded {
                None => assert_eq!(done, 0, "{}", image.id()),
                Some(loaded) => {
                    let value = loaded.value as usize;
                    assert!(
                        value + 1 == done || value == done,
                        "{}: {value}",
                        image.id()
                    );
                    assert_eq!(loaded.generation, Generation::Newest, "{}", image.id());
                }
            }
            small_state::write(&disk, path, b"<9>").unwrap();
            let again = small_state::read(&disk, path, &notices, parse)
                .unwrap()
                .unwrap();
            assert_eq!(again.value, 9);
        }
    }
    assert!(images > 800, "{images}");
}

#[test]
fn a_damaged_newest_generation_is_replaced_without_a_moment_of_nothing() {
    let path = Path::new("/store/config/topics.json");
    let twin = TwinDisk::new();
    small_state::write(&twin, path, b"<1>").unwrap();
    small_state::write(&twin, path, b"<2>").unwrap();
    assert!(twin.overwrite(path, 0, |byte| !byte));
    twin.forget();
    small_state::write(&twin, path, b"<3>").unwrap();
    let history = twin.history();
    for stop in 0..history.stop_points() {
        for image in history.images(stop, &bound(200)) {
            let notices = Notices::default();
            let loaded = small_state::read(&image.disk(), path, &notices, parse);
            let value = loaded.unwrap_or_else(|error| panic!("{}: {error}", image.id()));
            assert!(
                matches!(value.map(|loaded| loaded.value), Some(1 | 3)),
                "{}",
                image.id()
            );
        }
    }
}

#[test]
fn a_checkpoint_never_falls_below_its_last_flush() {
    let path = Path::new("/store/checkpoint");
    let twin = TwinDisk::new();
    twin.create_dir_all(Path::new("/store")).unwrap();
    let checkpoint = Checkpoint::open(&twin, path, &Notices::default()).unwrap();
    let mut done_at = Vec::new();
    for round in 1..=4i64 {
        checkpoint.raise(Field::PhysicTimestamp, START_MS + round * 1_000_000_007);
        checkpoint.raise(Field::LogicsTimestamp, START_MS + round * 1_000_000_009);
        checkpoint.flush().unwrap();
        done_at.push(twin.history().stop_points() - 1);
    }
    let history = twin.history();
    for stop in 0..history.stop_points() {
        let done = done_at.iter().filter(|at| **at <= stop).count() as i64;
        for image in history.images(stop, &bound(200)) {
            let found = Checkpoint::open(&image.disk(), path, &Notices::default()).unwrap();
            let of = |field, step| {
                let value = found.value(field);
                if value == 0 {
                    0
                } else {
                    (value - START_MS) / step
                }
            };
            for round in [
                of(Field::PhysicTimestamp, 1_000_000_007),
                of(Field::LogicsTimestamp, 1_000_000_009),
            ] {
                assert!(
                    round == done || round == done + 1,
                    "{}: {round}",
                    image.id()
                );
            }
        }
    }
}

/// A record of the log, which itself is safe here.
struct Record {
    offset: u64,
    time_ms: i64,
    keys: &'static str,
}

fn log() -> Vec<Record> {
    let keys = [
        "a b", "b", "a", "a c b a", "c", "", "b c", "a", "b", "c", "a b c",
    ];
    let records = keys
        .into_iter()
        .zip(1..)
        .zip([0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 3]);
    records
        .map(|((keys, n), second)| Record {
            // Both halves of the 64 bits change from record to record.
            offset: n * 0x1_0000_0001,
            time_ms: START_MS + second * 1000,
            keys,
        })
        .collect()
}

fn put(index: &KeyIndex<TwinDisk, ManualClock>, record: &Record) {
    let message = Keyed {
        topic: b"t",
        unique_key: None,
        keys: Some(record.keys.as_bytes()),
        tags: None,
        physical_offset: record.offset,
        store_timestamp_ms: record.time_ms,
        is_rollback: false,
    };
    index.writer().put_message(&message).unwrap();
}

fn open(
    disk: &TwinDisk,
    layout: Layout,
    last_exit: LastExit,
) -> mqcore_engine::error::Result<KeyIndex<TwinDisk, ManualClock>> {
    let config = StoreConfig {
        index_slots: u64::from(layout.slots()),
        index_entries: u64::from(layout.entries()),
        ..StoreConfig::default()
    };
    let opening = Opening {
        dir: Path::new("/store/index"),
        config: &config,
        last_exit,
    };
    let notices = Arc::new(Notices::default());
    KeyIndex::open(disk, &ManualClock::at(START_MS), &notices, opening)
}

/// The index after a crash, its missing part dispatched again, finds what is in the log.
fn check_recovered(disk: &TwinDisk, layout: Layout, last_exit: LastExit, id: &str) {
    let log = log();
    let index = open(disk, layout, last_exit).unwrap_or_else(|error| panic!("{id}: {error}"));
    let from = index.writer().resume_offset();
    for record in log.iter().filter(|record| record.offset >= from) {
        put(&index, record);
    }
    for key in ["a", "b", "c"] {
        let found = index.query(b"t", key.as_bytes(), 64, 0, i64::MAX).unwrap();
        let expected = log.iter().rev().flat_map(|record| {
            let times = record.keys.split(' ').filter(|piece| *piece == key).count();
            std::iter::repeat_n(record.offset, times)
        });
        let expected: Vec<u64> = expected.collect();
        assert_eq!(found.physical_offsets, expected, "{id}: {key}");
    }
    for path in index_files(disk, Path::new("/store/index")).unwrap() {
        assert_eq!(verify_file(disk, &path, Some(layout)).unwrap(), [], "{id}");
    }
    let leftovers = disk.list(Path::new("/store/index")).unwrap();
    assert!(
        leftovers.iter().all(|entry| entry.name.len() == 17),
        "{id}: {leftovers:?}"
    );
    assert_eq!(disk.bus_errors(), 0, "{id}");
}

#[test]
fn the_index_is_made_whole_whenever_the_power_goes() {
    let mut images = 0;
    // Files of one page, of two entries, and with header, slots and entries on pages of their own.
    for (slots, entries) in [(3, 4), (1, 2), (2, 7), (2_000, 2), (2_000, 4)] {
        let layout = Layout::of(slots, entries).unwrap();
        let twin = TwinDisk::new();
        twin.create_dir_all(Path::new("/store")).unwrap();
        let path = Path::new("/store/checkpoint");
        let checkpoint = Checkpoint::open(&twin, path, &Notices::default()).unwrap();
        checkpoint.flush().unwrap();
        twin.forget();
        let index = open(&twin, layout, LastExit::Clean).unwrap();
        for (number, record) in log().iter().enumerate() {
            put(&index, record);
            if number % 2 == 0
                && let Some(time_ms) = index.syncing().sync().unwrap()
            {
                checkpoint.raise(Field::IndexTimestamp, time_ms);
                checkpoint.flush().unwrap();
            }
        }
        let history = twin.history();
        for stop in 0..history.stop_points() {
            for image in history.images(stop, &bound(24)) {
                images += 1;
                let disk = image.disk();
                let found = Checkpoint::open(&disk, path, &Notices::default()).unwrap();
                let last_exit = LastExit::Abnormal {
                    checkpoint_index_timestamp_ms: found.value(Field::IndexTimestamp),
                };
                check_recovered(&disk, layout, last_exit, &format!("{slots} {}", image.id()));
            }
        }
        // After a clean stop all of it is there: the last stop point, the worst image.
        index.syncing().sync_all().unwrap();
        let history = twin.history();
        let last = history.stop_points() - 1;
        for image in history.images(last, &bound(24)) {
            let disk = image.disk();
            let opened = open(&disk, layout, LastExit::Clean).unwrap();
            assert_eq!(
                opened.writer().resume_offset(),
                log().last().unwrap().offset,
                "{}",
                image.id()
            );
            drop(opened);
            check_recovered(&disk, layout, LastExit::Clean, &image.id().to_string());
        }
    }
    assert!(images > 5_000, "{images}");
}
