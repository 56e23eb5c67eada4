//! Queue files that are missing, too short or blank in places, after a clean and an unclean stop:
//! the next start has every message readable, gives no queue offset twice, and reports what it did.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod witness;

use std::path::{Path, PathBuf};
use std::time::Duration;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::disk::{Disk, DiskFile, Open};
use mqcore_engine::inspect::Inspection;
use mqcore_engine::notice::Level;
use mqcore_engine::store::{Ask, GetStatus, OpenHow, Store};
use mqcore_record::{CrcCheck, Host, Message};

type TwinStore = Store<TwinDisk, ManualClock>;

/// Units in a queue file.
const FILE_UNITS: u64 = 100;
const UNIT: u64 = 20;
/// Messages of each queue: two full files and a part of a third.
const COUNT: usize = 250;
const QUEUES: [(&str, i32); 3] = [("T", 0), ("T", 1), ("Other", 0)];

fn config() -> StoreConfig {
    let (config, _) = StoreConfig::from_pairs([
        ("storePathRootDir", "/store"),
        ("mappedFileSizeCommitLog", "131072"),
        ("mappedFileSizeConsumeQueue", "2000"),
        ("maxMessageSize", "4096"),
        ("maxHashSlotNum", "10"),
        ("maxIndexNum", "400"),
    ])
    .unwrap();
    config
}

fn open(disk: &TwinDisk, clock: &ManualClock) -> TwinStore {
    Store::open(disk.clone(), clock.clone(), config(), OpenHow::RefuseDamage).unwrap()
}

fn append(store: &TwinStore, clock: &ManualClock, queue: (&str, i32), number: usize) -> u64 {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    let body = body(queue, number);
    let message = Message {
        born_timestamp_ms: 1,
        properties: b"TAGS\x01a\x02",
        ..Message::of(queue.0, queue.1, &body, host)
    };
    clock.advance(Duration::from_millis(10));
    store.writer().append(&message).unwrap().queue_offset
}

fn body(queue: (&str, i32), number: usize) -> Vec<u8> {
    // Long enough for several log files.
    format!("{} {} {number:0>500}", queue.0, queue.1).into_bytes()
}

/// A disk with a store that has [`COUNT`] messages in each of [`QUEUES`], all synced.
fn filled() -> (TwinDisk, ManualClock, TwinStore) {
    let (disk, clock) = (TwinDisk::new(), ManualClock::at(1_000_000_000));
    let store = open(&disk, &clock);
    for number in 0..COUNT {
        for queue in QUEUES {
            append(&store, &clock, queue, number);
        }
    }
    while store.dispatching().step().unwrap() {}
    store.durability().flush().unwrap();
    store.checkpoints().note_durable().unwrap();
    store.checkpoints().sync_queues(0).unwrap();
    (disk, clock, store)
}

fn stopped() -> (TwinDisk, ManualClock) {
    let (disk, clock, store) = filled();
    assert!(store.close().unwrap());
    (disk, clock)
}

/// Killed when the checkpoint covers everything, so that a start walks the last file alone; these
/// queues have a record there.
fn killed(fed: &[(&str, i32)]) -> (TwinDisk, ManualClock) {
    let (disk, clock, store) = filled();
    clock.advance(Duration::from_secs(10));
    for number in 0..300 {
        append(&store, &clock, ("Last", 0), number);
    }
    for queue in fed.iter().copied() {
        append(&store, &clock, queue, COUNT);
    }
    while store.dispatching().step().unwrap() {}
    store.durability().flush().unwrap();
    store.checkpoints().note_durable().unwrap();
    store.checkpoints().sync_queues(0).unwrap();
    store.checkpoints().write().unwrap();
    store.abandon();
    (disk, clock)
}

fn read(store: &TwinStore, queue: (&str, i32)) -> Vec<Vec<u8>> {
    let mut served = Vec::new();
    let mut from = store
        .topics()
        .bounds(queue.0.as_bytes(), queue.1)
        .unwrap()
        .map_or(0, |bounds| bounds.min);
    loop {
        let ask = Ask {
            from,
            count_max: 32,
            bytes_max: 1 << 20,
            tags_codes: &[],
            is_bulk: false,
        };
        let got = store
            .reader()
            .get(queue.0.as_bytes(), queue.1, ask)
            .unwrap();
        if got.status != GetStatus::Found {
            return served;
        }
        for record in &got.records {
            served.push(record.view(CrcCheck::Verify).unwrap().body.to_vec());
        }
        from = got.next_offset;
    }
}

/// Every queue has its first `count` messages, the next one gets the next offset, and who reads the
/// notices finds `notice` among the warnings.
fn check(store: &TwinStore, clock: &ManualClock, count: usize, notice: &str) {
    while store.dispatching().step().unwrap() {}
    for queue in QUEUES {
        let bounds = store
            .topics()
            .bounds(queue.0.as_bytes(), queue.1)
            .unwrap()
            .unwrap();
        assert_eq!((bounds.min, bounds.max), (0, count as u64), "{queue:?}");
        let expected: Vec<_> = (0..count).map(|number| body(queue, number)).collect();
        assert_eq!(read(store, queue), expected, "{queue:?}");
        assert_eq!(append(store, clock, queue, count), count as u64);
    }
    while store.dispatching().step().unwrap() {}
    for queue in QUEUES {
        assert_eq!(read(store, queue).len(), count + 1);
    }
    let notices = store.notices();
    assert!(
        notice.is_empty()
            || notices
                .iter()
                .any(|it| it.level == Level::Warning && it.text.contains(notice)),
        "{notice}: {notices:?}"
    );
    assert!(store.close().unwrap());
}

fn problems(disk: &TwinDisk) -> Vec<String> {
    let given = [("mappedFileSizeConsumeQueue".to_owned(), "2000".to_owned())];
    let inspection = Inspection::open(disk.clone(), Path::new("/store"), &given).unwrap();
    let findings = inspection.verify().unwrap();
    let problems = findings.problems.into_iter();
    problems
        .map(|it| format!("{} {}: {}", it.part, it.location, it.why))
        .collect()
}

fn queue_dir((topic, queue_id): (&str, i32)) -> PathBuf {
    Path::new("/store/consumequeue")
        .join(topic)
        .join(queue_id.to_string())
}

fn file(queue: (&str, i32), number: u64) -> PathBuf {
    queue_dir(queue).join(format!("{:020}", number * FILE_UNITS * UNIT))
}

fn remove_dir(disk: &TwinDisk, dir: &Path) {
    for entry in disk.list(dir).unwrap() {
        let path = dir.join(&entry.name);
        if entry.is_dir {
            remove_dir(disk, &path);
        } else {
            disk.unlink(&path).unwrap();
        }
    }
    disk.remove_dir(dir).unwrap();
}

/// Makes units of a queue zero.
fn zero(disk: &TwinDisk, queue: (&str, i32), units: std::ops::Range<u64>) {
    for unit in units {
        let file = disk.open(&file(queue, unit / FILE_UNITS), Open::Write);
        let position = unit % FILE_UNITS * UNIT;
        file.unwrap().write_at(&[0; 20], position).unwrap();
    }
}

fn notice(queues: usize, units: usize) -> String {
    format!(
        "{queues} queues were not whole on the disk: {units} units were made again from the log"
    )
}

#[test]
fn a_removed_queue_directory_is_made_again_after_a_clean_stop() {
    let (disk, clock) = stopped();
    assert_eq!(problems(&disk), [""; 0]);
    remove_dir(&disk, &queue_dir(("T", 0)));
    assert_eq!(problems(&disk).len(), 1, "{:?}", problems(&disk));
    check(&open(&disk, &clock), &clock, COUNT, &notice(1, COUNT));
    assert_eq!(problems(&disk), [""; 0]);
    check(&open(&disk, &clock), &clock, COUNT + 1, "");
}

#[test]
fn a_removed_topic_directory_is_made_again_after_a_clean_stop() {
    let (disk, clock) = stopped();
    remove_dir(&disk, Path::new("/store/consumequeue/T"));
    assert_eq!(problems(&disk).len(), 2, "{:?}", problems(&disk));
    check(&open(&disk, &clock), &clock, COUNT, &notice(2, 2 * COUNT));
    assert_eq!(problems(&disk), [""; 0]);
}

#[test]
fn a_removed_queue_file_is_made_again_wherever_it_stood() {
    for number in 0..3 {
        let (disk, clock) = stopped();
        disk.unlink(&file(("T", 1), number)).unwrap();
        assert!(!problems(&disk).is_empty(), "file {number}");
        let units = if number == 2 { 50 } else { 100 };
        check(&open(&disk, &clock), &clock, COUNT, &notice(1, units));
        assert_eq!(problems(&disk), [""; 0], "file {number}");
    }
}

#[test]
fn a_shortened_queue_file_gets_its_units_back() {
    for number in 0..3 {
        for len in [0, 20, 407, 1_000] {
            let (disk, clock) = stopped();
            let shortened = disk.open(&file(("T", 1), number), Open::Write).unwrap();
            shortened.set_len(len).unwrap();
            drop(shortened);
            let in_use = if number == 2 { 50 } else { 100 };
            let units = in_use - in_use.min(len / UNIT);
            check(
                &open(&disk, &clock),
                &clock,
                COUNT,
                &notice(1, units as usize),
            );
        }
    }
}

#[test]
fn blank_units_are_made_again_before_they_are_read() {
    for units in [
        0..50,
        20..70,
        60..100,
        80..130,
        100..200,
        200..250,
        249..250,
    ] {
        let (disk, clock) = stopped();
        zero(&disk, ("T", 0), units.clone());
        assert!(!problems(&disk).is_empty(), "{units:?}");
        let count = (units.end - units.start) as usize;
        check(&open(&disk, &clock), &clock, COUNT, &notice(1, count));
        assert_eq!(problems(&disk), [""; 0], "{units:?}");
    }
}

#[test]
fn a_unit_that_names_another_record_is_made_again() {
    for unit in [0, 99, 100, 249] {
        let (disk, clock) = stopped();
        let path = file(("T", 0), unit / FILE_UNITS);
        let damaged = disk.open(&path, Open::Write).unwrap();
        let position = unit % FILE_UNITS * UNIT;
        damaged.write_at(&[0x77], position + 7).unwrap();
        drop(damaged);
        assert!(!problems(&disk).is_empty(), "{unit}");
        check(&open(&disk, &clock), &clock, COUNT, &notice(1, 1));
    }
}

#[test]
fn after_a_kill_a_removed_queue_that_comes_again_is_made_whole() {
    for number in 0..4 {
        let (disk, clock) = killed(&QUEUES);
        match number {
            3 => remove_dir(&disk, &queue_dir(("T", 0))),
            number => disk.unlink(&file(("T", 0), number)).unwrap(),
        }
        let store = open(&disk, &clock);
        check(&store, &clock, COUNT + 1, "were not whole on the disk");
    }
}

#[test]
fn after_a_kill_blank_units_are_made_again() {
    for units in [
        0..50,
        20..70,
        60..100,
        80..130,
        100..200,
        190..251,
        250..251,
    ] {
        let (disk, clock) = killed(&QUEUES);
        zero(&disk, ("T", 0), units.clone());
        let is_newest = units.end > COUNT as u64;
        let notice = if is_newest && units.start == 250 {
            ""
        } else {
            "were not whole on the disk"
        };
        check(&open(&disk, &clock), &clock, COUNT + 1, notice);
        assert_eq!(problems(&disk), [""; 0], "{units:?}");
    }
}

#[test]
fn after_a_kill_blank_units_of_an_idle_queue_are_made_again() {
    for units in [0..50, 20..70, 60..100, 80..130, 100..200, 190..240] {
        let (disk, clock) = killed(&[]);
        zero(&disk, ("T", 0), units.clone());
        check(
            &open(&disk, &clock),
            &clock,
            COUNT,
            "were not whole on the disk",
        );
        assert_eq!(problems(&disk), [""; 0], "{units:?}");
    }
}

#[test]
fn without_a_manifest_what_the_walk_of_the_log_sees_is_made_again() {
    for number in 0..2 {
        let (disk, clock) = stopped();
        disk.unlink(Path::new("/store/queues.manifest")).unwrap();
        disk.create_dir_all(Path::new("/store/config")).unwrap();
        let topics = disk.open(Path::new("/store/config/topics.json"), Open::Create);
        let text = br#"{"topicConfigTable":{"T":{},"Other":{}}}"#;
        topics.unwrap().write_at(text, 0).unwrap();
        if number == 0 {
            remove_dir(&disk, &queue_dir(("T", 0)));
        } else {
            zero(&disk, ("T", 0), 20..70);
        }
        assert!(!problems(&disk).is_empty());
        check(
            &open(&disk, &clock),
            &clock,
            COUNT,
            "were not whole on the disk",
        );
        assert_eq!(problems(&disk), [""; 0]);
    }
}

/// Flips a bit in the body of a message of T 0; gives the place of its record.
fn rot(disk: &TwinDisk, store: &TwinStore, queue_offset: u64) -> u64 {
    let ask = Ask {
        from: queue_offset,
        count_max: 1,
        bytes_max: 1 << 20,
        tags_codes: &[],
        is_bulk: false,
    };
    let got = store.reader().get(b"T", 0, ask).unwrap();
    let offset = got.records.first().unwrap().physical_offset;
    flip(disk, offset + 200);
    offset
}

fn flip(disk: &TwinDisk, position: u64) {
    const SEGMENT: u64 = 131_072;
    let name = format!("/store/commitlog/{:020}", position - position % SEGMENT);
    let file = disk.open(Path::new(&name), Open::Write).unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, position % SEGMENT).unwrap();
    byte[0] ^= 4;
    file.write_at(&byte, position % SEGMENT).unwrap();
}

fn errors(store: &TwinStore) -> Vec<String> {
    let notices = store.notices().into_iter();
    let errors = notices.filter(|it| it.level == Level::Error);
    errors.map(|it| it.text).collect()
}

#[test]
fn the_scrub_reports_a_damaged_record_once_and_goes_on_behind_it() {
    let (disk, clock) = stopped();
    let store = open(&disk, &clock);
    let offset = rot(&disk, &store, 10);
    for _round in 0..2 {
        while store.scrub().step().unwrap() {}
        clock.advance(Duration::from_secs(200 * 3_600));
    }
    assert_eq!(store.scrub().rounds(), 2);
    let (found, count) = store.damaged().records();
    assert_eq!(count, 1);
    let found = &found[0];
    assert_eq!(
        (found.physical_offset, found.topic.as_str(), found.queue_id),
        (offset, "T", 0)
    );
    assert_eq!(found.queue_offset, 10);
    let errors = errors(&store);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains(&format!("physical offset {offset}")));
}

#[test]
fn the_scrub_makes_blank_units_again() {
    let (disk, clock) = stopped();
    let store = open(&disk, &clock);
    // Read once, so that the ends of files were compared before.
    assert_eq!(read(&store, ("T", 0)).len(), COUNT);
    zero(&disk, ("T", 0), 20..70);
    while store.scrub().step().unwrap() {}
    assert_eq!(store.stats().units_mended, 50);
    assert!(store.close().unwrap());
    assert_eq!(problems(&disk), [""; 0]);
}

#[test]
fn a_cold_read_passes_over_a_damaged_record_and_reports_it_once() {
    let (disk, clock) = stopped();
    let store = open(&disk, &clock);
    let offset = rot(&disk, &store, 10);
    for _time in 0..2 {
        let bodies = read(&store, ("T", 0));
        let expected = (0..COUNT).filter(|number| *number != 10);
        let expected: Vec<_> = expected.map(|number| body(("T", 0), number)).collect();
        assert_eq!(bodies, expected);
    }
    let errors = errors(&store);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains(&format!("physical offset {offset}")));
    assert_eq!(store.stats().records_damaged, 1);
}

#[test]
fn a_record_without_its_head_is_passed_over_and_reported_once() {
    let (disk, clock) = stopped();
    let store = open(&disk, &clock);
    let offset = rot(&disk, &store, 10);
    flip(&disk, offset + 4);
    for _time in 0..2 {
        assert_eq!(read(&store, ("T", 0)).len(), COUNT - 1);
    }
    assert_eq!(errors(&store).len(), 1);
    assert_eq!(store.damaged().records().0[0].queue_offset, 10);
}
