//! The batch queues on the twin of the disk: where units go, what power loss leaves of them at any
//! moment, what retention and deletion take away.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::config::StoreConfig;
use crate::disk::twin::{Bound, CallKind, Fault, Times, TwinDisk};
use crate::disk::{Disk, DiskFile, Open};
use crate::error::Error;
use crate::notice::Notices;

type Table = BatchTable<TwinDisk>;

const ROOT: &str = "/store";
const TOPIC: &[u8] = b"T";
const RECORD_BYTES: u64 = 100;

fn open(disk: &TwinDisk, file_units: u64) -> Table {
    let config = StoreConfig {
        batch_file_len_bytes: file_units * 46,
        batch_topics: "T".to_owned(),
        ..StoreConfig::default()
    };
    let notices = Arc::new(Notices::default());
    Table::open(disk.clone(), Path::new(ROOT), &config, notices).unwrap()
}

/// Opens what a clean end left.
fn reopen(disk: &TwinDisk, file_units: u64) -> Table {
    let table = open(disk, file_units);
    let unasked = |_: &BatchQueue<_>, _: &BatchUnit| panic!("nobody asks after a clean end");
    table.recover(Trust::All, u64::MAX, unasked).unwrap();
    table
}

/// The records of a log: each has some messages and goes to one of two queues.
struct Log(Vec<(i32, BatchUnit)>);

impl Log {
    fn of(records: u64) -> Self {
        let mut next = BTreeMap::new();
        let units = (0..records).map(|number| {
            let queue_id = i32::from(number % 5 == 3);
            let base = next.entry(queue_id).or_insert(0);
            let unit = BatchUnit {
                physical_offset: number * RECORD_BYTES,
                size_bytes: 100,
                tags_code: -1 - number.cast_signed(),
                store_timestamp_ms: 1_000 + number.cast_signed() / 2,
                base: *base,
                count: 1 + number % 3,
            };
            *base = unit.end();
            (queue_id, unit)
        });
        Self(units.collect())
    }

    fn dispatch(&self, table: &Table, from: u64, to: u64) {
        for (queue_id, unit) in &self.0 {
            if (from..to).contains(&unit.physical_offset) {
                table.append(TOPIC, *queue_id, unit).unwrap();
            }
        }
    }

    fn of_queue(&self, queue_id: i32) -> Vec<BatchUnit> {
        let of_queue = self.0.iter().filter(|(id, _)| *id == queue_id);
        of_queue.map(|(_, unit)| *unit).collect()
    }

    fn has(&self, queue: &BatchQueue<TwinDisk>, unit: &BatchUnit) -> bool {
        self.0.contains(&(queue.queue_id(), *unit))
    }

    fn end(&self) -> u64 {
        self.0.len() as u64 * RECORD_BYTES
    }
}

fn units(table: &Table, queue_id: i32, from: u64) -> Vec<BatchUnit> {
    let mut out = Vec::new();
    if let Some(queue) = table.find(TOPIC, queue_id) {
        queue.read(from, usize::MAX, &mut out).unwrap();
    }
    out
}

fn names(disk: &TwinDisk, queue_id: i32) -> Vec<u64> {
    let dir = format!("{ROOT}/batchconsumequeue/T/{queue_id}");
    let files = disk.list(Path::new(&dir)).unwrap();
    let names = files.into_iter().map(|file| file.name.parse().unwrap());
    names.collect()
}

#[test]
fn units_are_read_from_memory_and_files_alike() {
    let disk = TwinDisk::new();
    let table = reopen(&disk, 4);
    let log = Log::of(23);
    let wanted = log.of_queue(0);
    let end = wanted.last().unwrap().end();
    for written in 0..3 {
        log.dispatch(&table, 0, (written + 1) * 800);
        let queue = table.find(TOPIC, 0).unwrap();
        let there = units(&table, 0, 0).len();
        assert_eq!(units(&table, 0, 0), wanted[..there]);
        for (at, unit) in wanted[..there].iter().enumerate() {
            for offset in unit.base..unit.end() {
                assert_eq!(units(&table, 0, offset), wanted[at..there], "{offset}");
            }
            let mut one = Vec::new();
            queue.read(unit.base, 1, &mut one).unwrap();
            assert_eq!(one, [*unit]);
        }
        table.write_pending().unwrap();
        assert_eq!(table.pending_bytes(), 0);
        assert_eq!(units(&table, 0, 0), wanted[..there]);
        let now = queue.read_now(0, usize::MAX).unwrap();
        assert_eq!(
            now.as_deref(),
            Some(&wanted[..there]),
            "from the page cache"
        );
    }
    assert_eq!(names(&disk, 0), [0, 184, 368, 552, 736]);
    assert_eq!(table.find(TOPIC, 0).unwrap().bounds(0).unwrap(), (0, end));
    assert_eq!(units(&table, 0, end), []);
    log.dispatch(&table, 0, log.end());
    assert_eq!(table.pending_bytes(), 0, "twice the same changes nothing");
    table.sync().unwrap();
    let again = reopen(&disk, 4);
    assert_eq!(units(&again, 0, 0), wanted);
    assert_eq!(again.find(TOPIC, 0).unwrap().bounds(0).unwrap(), (0, end));
    assert_eq!(units(&again, 1, 0), log.of_queue(1));
}

#[test]
fn times_are_found_on_both_sides() {
    let disk = TwinDisk::new();
    let table = reopen(&disk, 4);
    // 1000 1000 1001 1002 1002 1003 1003 1004 ...
    let log = Log::of(13);
    log.dispatch(&table, 0, 900);
    table.write_pending().unwrap();
    log.dispatch(&table, 900, log.end());
    let queue = table.find(TOPIC, 0).unwrap();
    let all = log.of_queue(0);
    for ms in 990..1_010 {
        let lower = all.iter().find(|unit| unit.store_timestamp_ms >= ms);
        let lower = lower.or(all.last()).unwrap().base;
        assert_eq!(queue.offset_by_time(ms, false).unwrap(), lower, "{ms}");
        let upper = all.iter().rfind(|unit| unit.store_timestamp_ms <= ms);
        let upper = upper.or(all.first()).unwrap().base;
        assert_eq!(queue.offset_by_time(ms, true).unwrap(), upper, "{ms}");
    }
}

#[test]
fn what_contradicts_the_queue_is_not_in_it() {
    let disk = TwinDisk::new();
    let table = reopen(&disk, 4);
    let log = Log::of(6);
    log.dispatch(&table, 0, log.end());
    table.write_pending().unwrap();
    let last = *log.of_queue(0).last().unwrap();
    let later = BatchUnit {
        physical_offset: 5_000,
        ..last
    };
    let placed = |unit: &BatchUnit| table.append(TOPIC, 0, unit).unwrap();
    assert_eq!(placed(&later), Placed::Taken);
    assert_eq!(placed(&BatchUnit { count: 0, ..later }), Placed::Refused);
    assert_eq!(table.append(b"other", 0, &last).unwrap(), Placed::Refused);
    let gap = BatchUnit {
        base: last.end() + 7,
        ..later
    };
    assert_eq!(placed(&gap), Placed::Appended);
    let anew = BatchUnit {
        physical_offset: 6_000,
        base: 0,
        ..last
    };
    assert_eq!(placed(&anew), Placed::Restarted);
    assert_eq!(units(&table, 0, 0), [anew]);
    assert_eq!(names(&disk, 0), [] as [u64; 0]);
    table.write_pending().unwrap();
    table.sync().unwrap();
    assert_eq!(units(&reopen(&disk, 4), 0, 0), [anew]);
}

/// Power goes at every moment, in every way up to a bound: what was synced is there, and after the
/// rest was dispatched again the queues are what they would have been.
fn lose_power(file_units: u64, steps: &[u64], images_max: usize) -> usize {
    let disk = TwinDisk::new();
    let table = reopen(&disk, file_units);
    let log = Log::of(steps.iter().sum());
    let mut synced = vec![(0, 0)];
    let mut to = 0;
    for (step, records) in steps.iter().enumerate() {
        let from = to;
        to += records * RECORD_BYTES;
        log.dispatch(&table, from, to);
        table.write_pending().unwrap();
        if step % 2 == 1 {
            table.sync().unwrap();
            synced.push((disk.history().stop_points() - 1, to));
        }
    }
    let history = disk.history();
    let bound = Bound {
        images_max,
        ..Bound::default()
    };
    let mut images = 0;
    for stop in 0..history.stop_points() {
        let done = synced.iter().rev().find(|(at, _)| *at <= stop);
        let safe = done.map_or(0, |(_, to)| *to);
        for image in history.images(stop, &bound) {
            images += 1;
            let id = image.id();
            let disk = image.disk();
            let table = open(&disk, file_units);
            table
                .recover(Trust::Below(safe), log.end(), |queue, unit| {
                    Ok(log.has(queue, unit))
                })
                .unwrap_or_else(|error| panic!("{id}: {error}"));
            for queue_id in [0, 1] {
                let mut kept = log.of_queue(queue_id);
                kept.retain(|unit| unit.physical_offset < safe);
                assert_eq!(units(&table, queue_id, 0), kept, "{id}: queue {queue_id}");
            }
            log.dispatch(&table, safe, log.end());
            table.write_pending().unwrap();
            table.sync().unwrap();
            let again = reopen(&disk, file_units);
            for queue_id in [0, 1] {
                let wanted = log.of_queue(queue_id);
                assert_eq!(units(&again, queue_id, 0), wanted, "{id}: queue {queue_id}");
            }
        }
    }
    images
}

#[test]
fn power_loss_takes_nothing_that_was_synced() {
    let images = lose_power(3, &[2, 3, 4, 1, 6, 2], 60);
    assert!(images > 500, "{images}");
}

#[test]
fn power_loss_tears_units_across_pages() {
    let images = lose_power(100, &[80, 25, 30, 4], 120);
    assert!(images > 300, "{images}");
}

#[test]
fn a_recovery_that_loses_power_is_made_again() {
    let before = TwinDisk::new();
    let table = reopen(&before, 100);
    let log = Log::of(140);
    log.dispatch(&table, 0, 3_000);
    table.write_pending().unwrap();
    table.sync().unwrap();
    log.dispatch(&table, 3_000, log.end());
    table.write_pending().unwrap();
    table.sync().unwrap();
    drop(table);
    before.forget();
    let recover = |disk: &TwinDisk, safe: u64| {
        let table = open(disk, 100);
        let is_of_log = |queue: &BatchQueue<_>, unit: &BatchUnit| Ok(log.has(queue, unit));
        table
            .recover(Trust::Below(safe), log.end(), is_of_log)
            .unwrap();
        table
    };
    recover(&before, 3_000);
    let history = before.history();
    let bound = Bound {
        images_max: 100,
        ..Bound::default()
    };
    for stop in 0..history.stop_points() {
        for image in history.images(stop, &bound) {
            let table = recover(&image.disk(), 3_000);
            for queue_id in [0, 1] {
                let mut kept = log.of_queue(queue_id);
                kept.retain(|unit| unit.physical_offset < 3_000);
                assert_eq!(units(&table, queue_id, 0), kept, "{}", image.id());
            }
        }
    }
}

#[test]
fn the_log_takes_units_back_that_it_lost() {
    let disk = TwinDisk::new();
    let table = reopen(&disk, 4);
    let log = Log::of(30);
    log.dispatch(&table, 0, log.end());
    table.write_pending().unwrap();
    table.sync().unwrap();
    for end in [2_950, 2_900, 1_700, 450, 0] {
        let table = open(&disk, 4);
        table.recover(Trust::All, end, |_, _| Ok(true)).unwrap();
        for queue_id in [0, 1] {
            let mut kept = log.of_queue(queue_id);
            kept.retain(|unit| unit.physical_offset < end);
            assert_eq!(units(&table, queue_id, 0), kept, "{end}");
        }
    }
    assert_eq!(names(&disk, 0), [] as [u64; 0]);
}

#[test]
fn retention_removes_whole_files_and_never_the_end() {
    let disk = TwinDisk::new();
    let table = reopen(&disk, 4);
    let log = Log::of(25);
    let all = log.of_queue(0);
    log.dispatch(&table, 0, log.end());
    table.write_pending().unwrap();
    assert_eq!(table.retain(log.end(), log.end()).unwrap(), 0, "not synced");
    table.sync().unwrap();
    assert_eq!(table.retain(log.end(), 0).unwrap(), 0, "the log is not");
    let queue = table.find(TOPIC, 0).unwrap();
    let bounds = |start: u64| queue.bounds(start).unwrap();
    let end = all.last().unwrap().end();
    // Units of queue 0 stand at 0 100 200 400 | 500 600 700 900 | 1000 ...
    for (start, gone) in [(1, 0), (400, 0), (401, 1), (950, 1)] {
        assert_eq!(table.retain(start, log.end()).unwrap(), gone, "{start}");
        let min = all.iter().find(|unit| unit.physical_offset >= start);
        assert_eq!(bounds(start), (min.unwrap().base, end), "{start}");
    }
    assert_eq!(names(&disk, 0), [368, 552, 736]);
    assert_eq!(units(&table, 0, 0), all[8..]);
    table.retain(log.end(), log.end()).unwrap();
    assert_eq!(names(&disk, 0), [736], "it says where the queue goes on");
    assert_eq!(bounds(log.end()), (end, end));
    let again = reopen(&disk, 4);
    let queue = again.find(TOPIC, 0).unwrap();
    assert_eq!(queue.bounds(log.end()).unwrap(), (end, end));
    let next = BatchUnit {
        physical_offset: log.end(),
        base: end,
        ..all[0]
    };
    assert_eq!(again.append(TOPIC, 0, &next).unwrap(), Placed::Appended);
    assert_eq!(queue.bounds(log.end()).unwrap(), (end, next.end()));
}

#[test]
fn a_deleted_topic_has_no_batch_queues_any_more() {
    let disk = TwinDisk::new();
    let table = reopen(&disk, 4);
    let log = Log::of(9);
    log.dispatch(&table, 0, log.end());
    table.write_pending().unwrap();
    let stale = table.find(TOPIC, 0).unwrap();
    assert_eq!(table.delete_topic(TOPIC).unwrap(), 2);
    assert!(!table.has_topic(TOPIC) && table.is_empty());
    assert!(
        disk.list(Path::new("/store/batchconsumequeue"))
            .unwrap()
            .is_empty()
    );
    let mut out = Vec::new();
    stale.read(0, 10, &mut out).unwrap();
    assert_eq!(out, []);
    assert_eq!(
        table.append(TOPIC, 0, &log.0[0].1).unwrap(),
        Placed::Refused
    );
    table.declare("T").unwrap();
    log.dispatch(&table, 0, log.end());
    assert_eq!(units(&table, 0, 0), log.of_queue(0));
}

fn fault(call: CallKind) -> Fault {
    Fault {
        call,
        path_contains: None,
        nth: 1,
        errno: libc::EIO,
        times: Times::Always,
    }
}

#[test]
fn a_write_that_fails_is_made_again_and_a_sync_is_not() {
    let disk = TwinDisk::new();
    let table = reopen(&disk, 4);
    let log = Log::of(20);
    log.dispatch(&table, 0, 1_000);
    disk.fail(fault(CallKind::Write));
    assert!(table.write_pending().is_err());
    assert!(table.has_unsynced());
    assert_eq!(units(&table, 0, 0).len(), 8, "read from memory");
    disk.heal();
    log.dispatch(&table, 1_000, log.end());
    table.write_pending().unwrap();
    assert_eq!(units(&table, 0, 0), log.of_queue(0));
    disk.fail(fault(CallKind::Sync));
    assert!(matches!(table.sync(), Err(Error::Io { .. })));
    disk.heal();
    assert!(matches!(table.sync(), Err(Error::Poisoned { .. })));
}

#[test]
fn files_of_another_length_are_refused() {
    let disk = TwinDisk::new();
    let table = reopen(&disk, 4);
    Log::of(9).dispatch(&table, 0, 900);
    table.write_pending().unwrap();
    let config = StoreConfig {
        batch_file_len_bytes: 92,
        ..StoreConfig::default()
    };
    let notices = Arc::new(Notices::default());
    let refused = Table::open(disk.clone(), Path::new(ROOT), &config, notices);
    assert!(matches!(
        refused.err(),
        Some(Error::WrongFileSize {
            key: "mapperFileSizeBatchConsumeQueue",
            ..
        })
    ));
    let path = Path::new("/store/batchconsumequeue/T/0/00000000000000000368");
    disk.open(path, Open::Create).unwrap().set_len(0).unwrap();
    let table = reopen(&disk, 4);
    let there = units(&table, 0, 0).len();
    assert_eq!(there, 7, "what a crash leaves of a new file is none");
}
