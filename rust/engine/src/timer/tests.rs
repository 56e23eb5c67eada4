//! The files of the timers on a disk in memory: their bytes, and what every crash leaves of them.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Entered, Entry, Timer, TimerConfig, Unit};
use crate::disk::twin::{Bound, TwinDisk};
use crate::disk::{Disk, read_whole};
use crate::error::Result;

const NOW_MS: i64 = 1_795_249_596_000;
/// The messages of these tests differ by their offsets.
const STRIDE: i64 = 100;

fn config() -> TimerConfig {
    TimerConfig {
        step_ms: 1_000,
        roll_slots: 172_800,
        log_file_len_bytes: 4_096,
    }
}

fn open(disk: &TwinDisk) -> Timer<TwinDisk> {
    // The store made it, and its name is durable.
    disk.create_dir_all(Path::new("/t")).unwrap();
    open_to(disk, u64::MAX)
}

/// Opens the timers of a store whose log of messages ends there.
fn open_to(disk: &TwinDisk, messages_end: u64) -> Timer<TwinDisk> {
    try_open_to(disk, messages_end).unwrap()
}

fn try_open_to(disk: &TwinDisk, messages_end: u64) -> Result<Timer<TwinDisk>> {
    let mut whole = |unit: &Unit| {
        let offset = u64::try_from(unit.physical_offset).ok()?;
        (offset < messages_end).then_some(offset / STRIDE.unsigned_abs())
    };
    let (root, config) = (Path::new("/t"), config());
    Timer::open(disk, root, &config, NOW_MS, messages_end, &mut whole)
}

fn enter(timer: &mut Timer<TwinDisk>, numbers: std::ops::Range<i64>) {
    try_enter(timer, numbers).unwrap();
}

fn try_enter(timer: &mut Timer<TwinDisk>, numbers: std::ops::Range<i64>) -> Result<()> {
    for number in numbers {
        let entry = Entry {
            due_ms: NOW_MS + 10_000 + number % 3 * 1_000,
            physical_offset: number * STRIDE,
            len_bytes: 90,
            topic_hash: 7,
            is_delete: false,
        };
        assert_eq!(timer.enter(&entry)?, Entered::Waits);
        timer.set_queue_offset(number.unsigned_abs() + 1);
    }
    Ok(())
}

/// The numbers of the messages that wait, and how often one was met.
fn waiting(timer: &mut Timer<TwinDisk>) -> (BTreeSet<i64>, usize) {
    let (mut found, mut met) = (BTreeSet::new(), 0);
    for slot in 0..3 {
        let Some(slot) = timer.wheel().slot(NOW_MS + 10_000 + slot * 1_000) else {
            continue;
        };
        for position in timer.chain(&slot, -1).unwrap() {
            let unit = timer.unit(position).unwrap().unwrap();
            found.insert(unit.physical_offset / STRIDE);
            met += 1;
        }
    }
    (found, met)
}

#[test]
fn files_are_those_of_the_official_broker() {
    let disk = TwinDisk::new();
    let mut timer = open(&disk);
    enter(&mut timer, 0..80);
    timer.flush(NOW_MS + 5).unwrap();
    let read = |name: &str| {
        let path = Path::new("/t").join(name);
        read_whole(&disk, &path, 1 << 26).unwrap().unwrap()
    };
    let wheel = read("timerwheel");
    assert_eq!(wheel.len(), 38_707_200);
    let steps = (NOW_MS + 10_000) / 1_000;
    let at = (steps % 1_209_600) as usize * 32;
    assert_eq!(wheel[at..at + 8], steps.to_be_bytes());
    assert_eq!(wheel[at + 8..at + 16], 0i64.to_be_bytes());
    // Number 78 is the 79th unit: 78 fit into the first file, with space left for its end.
    assert_eq!(wheel[at + 16..at + 24], 4_096i64.to_be_bytes());
    assert_eq!(wheel[at + 24..at + 32], [0, 0, 0, 27, 0, 0, 0, 0]);
    let log = read("timerlog/00000000000000000000");
    assert_eq!(log.len(), 4_096);
    let blank = &log[78 * 52..];
    assert_eq!(blank[..4], 40i32.to_be_bytes());
    assert_eq!(blank[12..16], [0xCB, 0xD4, 0x31, 0x94]);
    let point = read("config/timercheck");
    assert_eq!(point.len(), 4_096);
    let long = |at: usize| i64::from_be_bytes(point[at..at + 8].try_into().unwrap());
    assert_eq!(
        (long(0), long(8), long(16), long(24)),
        (NOW_MS, 4_096 + 104, 80, 80)
    );
    assert_eq!((long(32), long(40), long(48)), (0, NOW_MS + 5, 1));
}

#[test]
fn a_wheel_of_another_length_is_refused() {
    let disk = TwinDisk::new();
    disk.create_dir_all(Path::new("/t")).unwrap();
    disk.write_raw(Path::new("/t/timerwheel"), b"short");
    let mut whole = |_unit: &Unit| None;
    let opened = Timer::open(
        &disk,
        Path::new("/t"),
        &config(),
        NOW_MS,
        u64::MAX,
        &mut whole,
    );
    assert!(opened.is_err_and(|error| error.to_string().contains("38707200")));
}

#[test]
fn after_every_crash_what_was_entered_waits_or_is_entered_again() {
    let disk = TwinDisk::new();
    disk.create_dir_all(Path::new("/t")).unwrap();
    disk.keep_history(true);
    disk.forget();
    let mut flushed = vec![(0, 0)];
    let mut timer = open(&disk);
    for (from, to) in [(0, 30), (30, 70), (70, 95)] {
        enter(&mut timer, from..to);
        timer.flush(NOW_MS).unwrap();
        flushed.push((disk.events() as usize, to));
    }
    enter(&mut timer, 95..110);
    let history = disk.history();
    let bound = Bound {
        images_max: 6,
        ..Bound::default()
    };
    let mut images = 0;
    for stop in 0..history.stop_points() {
        for image in history.images(stop, &bound) {
            images += 1;
            let mut timer = open(&image.disk());
            let (found, met) = waiting(&mut timer);
            let next = timer.queue_offset().cast_signed();
            let id = image.id();
            assert_eq!(found.len(), met, "{id}: one twice");
            let lost: Vec<i64> = (0..next).filter(|number| !found.contains(number)).collect();
            assert!(lost.is_empty(), "{id}: {lost:?} of {next} are lost");
            let durable = flushed.iter().filter(|(events, _)| *events <= stop);
            let durable = durable.map(|(_, to)| *to).max().unwrap_or(0);
            assert!(next >= durable, "{id}: {next} of {durable}");
        }
    }
    assert!(images > 50, "{images}");
}

#[test]
fn what_a_killed_process_wrote_is_durable_with_the_next_check_point() {
    let (mut images, mut kept) = (0, 0);
    for call in 1.. {
        let disk = TwinDisk::new();
        disk.create_dir_all(Path::new("/t")).unwrap();
        disk.stop_at_call(disk.calls() + call);
        let ended = try_open_to(&disk, u64::MAX).and_then(|mut timer| {
            try_enter(&mut timer, 0..95)?;
            timer.flush(NOW_MS)
        });
        let is_whole = ended.is_ok();
        disk.heal();
        // The next process finds what was written, whether that was synced or not.
        open(&disk).flush(NOW_MS).unwrap();
        let history = disk.history();
        let bound = Bound {
            images_max: 6,
            ..Bound::default()
        };
        for image in history.images(history.stop_points() - 1, &bound) {
            images += 1;
            let mut timer = open(&image.disk());
            let (found, _met) = waiting(&mut timer);
            let next = timer.queue_offset().cast_signed();
            let lost: Vec<i64> = (0..next).filter(|number| !found.contains(number)).collect();
            let id = image.id();
            assert!(
                lost.is_empty(),
                "call {call}, {id}: {lost:?} of {next} are lost"
            );
            kept += u32::from(next > 0);
        }
        if is_whole {
            break;
        }
    }
    assert!(images > kept && kept > 3, "{images} {kept}");
}

#[test]
fn timers_that_follow_a_master_keep_what_it_has_not_delivered() {
    let disk = TwinDisk::new();
    let mut timer = open(&disk);
    let (read_ms, now_ms) = (NOW_MS + 10_000, NOW_MS + 20_000);
    timer.follow(read_ms, now_ms).unwrap();
    let entry = |due_ms| Entry {
        due_ms,
        physical_offset: due_ms,
        len_bytes: 100,
        topic_hash: 1,
        is_delete: false,
    };
    let entered =
        |timer: &mut Timer<TwinDisk>, due_ms| timer.enter_undelivered(&entry(due_ms)).unwrap();
    assert_eq!(entered(&mut timer, read_ms - 1), Entered::Due);
    for due_ms in [read_ms, now_ms - 1_000, now_ms + 60_000] {
        assert_eq!(entered(&mut timer, due_ms), Entered::Waits);
    }
    assert_eq!(timer.wheel().count(read_ms, None), 3);
    // Another master, whose clock is behind, has not delivered what comes to it for a time before that.
    timer.follow(NOW_MS, now_ms).unwrap();
    assert_eq!(timer.read_ms(), timer.wheel().floored(NOW_MS));
    assert_eq!(timer.wheel().count(NOW_MS, None), 3);
    assert_eq!(entered(&mut timer, read_ms - 1), Entered::Waits);
    // In place of the master: what was due meanwhile is delivered, at once.
    timer.turn(now_ms).unwrap();
    let due = timer.due_slot().unwrap();
    assert_eq!(due.time_ms, timer.wheel().floored(read_ms - 1));
    // What was delivered does not come again.
    timer.follow(now_ms, now_ms).unwrap();
    timer.follow(NOW_MS, now_ms).unwrap();
    assert_eq!(timer.wheel().count(NOW_MS, Some(now_ms)), 0);
}

#[test]
fn units_of_messages_that_were_cut_are_cut_too() {
    // Of files of 78 units: at a border, beside it, in the middle, at the begin.
    for kept in [0, 1, 40, 77, 78, 79, 99, 100] {
        let disk = TwinDisk::new();
        let mut timer = open(&disk);
        enter(&mut timer, 0..100);
        timer.flush(NOW_MS).unwrap();
        let mut timer = open_to(&disk, (kept * STRIDE).unsigned_abs());
        assert_eq!(timer.opened().is_rebuilt, kept < 100, "{kept}");
        let (found, met) = waiting(&mut timer);
        assert_eq!((found, met), ((0..kept).collect(), kept as usize));
        // Others come to the same places: each waits once.
        enter(&mut timer, kept..120);
        let (found, met) = waiting(&mut timer);
        assert_eq!((found, met), ((0..120).collect(), 120), "{kept}");
        let counts: i32 = (0..3)
            .filter_map(|slot| timer.wheel().slot(NOW_MS + 10_000 + slot * 1_000))
            .map(|slot| slot.count)
            .sum();
        assert_eq!(counts, 120, "{kept}");
    }
}
