//! Logs that are torn, damaged, cut, foreign or half there: what opening reports, what it changes,
//! and what it leaves alone.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::disk::{Disk, DiskFile, Open};
use mqcore_engine::error::{Error, Result};
use mqcore_engine::store::{OpenHow, Store};
use mqcore_record::{Host, Message, RecordError};

type TwinStore = Store<TwinDisk, ManualClock>;

const SEGMENT: u64 = 131_072;
const LOG: &str = "/store/commitlog/00000000000000000000";

fn config(pairs: &[(&str, &str)]) -> StoreConfig {
    let mut all = vec![
        ("storePathRootDir", "/store"),
        ("mappedFileSizeCommitLog", "131072"),
        ("mappedFileSizeConsumeQueue", "2000"),
        ("maxMessageSize", "4096"),
        ("maxHashSlotNum", "10"),
        ("maxIndexNum", "40"),
    ];
    all.extend_from_slice(pairs);
    StoreConfig::from_pairs(all).unwrap().0
}

fn open_with(disk: &TwinDisk, how: OpenHow, pairs: &[(&str, &str)]) -> Result<TwinStore> {
    Store::open(
        disk.clone(),
        ManualClock::at(1_000_000_000),
        config(pairs),
        how,
    )
}

fn open(disk: &TwinDisk) -> Result<TwinStore> {
    open_with(disk, OpenHow::RefuseDamage, &[])
}

fn append(store: &TwinStore, topic: &str, body: &[u8]) -> Result<u64> {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    let message = Message {
        born_timestamp_ms: 1,
        properties: b"KEYS\x01k\x02",
        ..Message::of(topic, 0, body, host)
    };
    store
        .writer()
        .append(&message)
        .map(|appended| appended.physical_offset)
}

/// Ten records of 1,000 bytes, flushed, dispatched and in the checkpoint; then left as by a kill.
fn killed() -> (TwinDisk, Vec<u64>) {
    let disk = TwinDisk::new();
    let clock = ManualClock::at(1_000_000_000);
    let how = OpenHow::RefuseDamage;
    let store = Store::open(disk.clone(), clock.clone(), config(&[]), how).unwrap();
    let mut offsets = Vec::new();
    for n in 0..10u8 {
        offsets.push(append(&store, "T", &[n; 1_000]).unwrap());
        clock.advance(Duration::from_millis(10));
    }
    store.durability().flush().unwrap();
    while store.dispatching().step().unwrap() {}
    store.checkpoints().sync_queues(0).unwrap();
    store.checkpoints().write().unwrap();
    store.abandon();
    (disk, offsets)
}

fn names(disk: &TwinDisk, dir: &str) -> Vec<String> {
    disk.list(Path::new(dir))
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect()
}

#[test]
fn damage_before_whole_records_refuses_a_writable_open_and_names_the_offset() {
    let (disk, offsets) = killed();
    assert!(disk.flip_bit(Path::new(LOG), offsets[4] + 200, 3));
    let before = disk.content_hash();
    let error = open(&disk).err().unwrap();
    let Error::Damaged {
        physical_offset,
        position,
        ref path,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((physical_offset, position), (offsets[4], offsets[4]));
    assert_eq!(path, Path::new(LOG));
    assert_eq!(
        disk.content_hash(),
        before,
        "a failing open changes nothing"
    );

    let store = open_with(&disk, OpenHow::CutDamage, &[]).unwrap();
    assert_eq!(store.files().positions.appended.position(), offsets[4]);
    let cut = &store.report().cut;
    assert_eq!(
        cut.kept_aside_bytes,
        offsets[9] + (offsets[9] - offsets[8]) - offsets[4]
    );
    assert_eq!(
        names(&disk, "/store/truncated"),
        [
            format!("{:020}", offsets[4]),
            format!("{:020}.json", offsets[4])
        ]
    );
    assert_eq!(store.topics().bounds(b"T", 0).unwrap().unwrap().max, 4);
    assert_eq!(append(&store, "T", b"next").unwrap(), offsets[4]);
}

#[test]
fn a_torn_end_is_cut_and_zeroed_whatever_byte_it_ends_at() {
    let (disk, offsets) = killed();
    let last = offsets[9];
    let end = last + (offsets[9] - offsets[8]);
    for keep in (last..end).step_by(7) {
        let image = disk.fork();
        let torn = vec![0; (end - keep) as usize];
        let file = image.open(Path::new(LOG), Open::Write).unwrap();
        file.write_at(&torn, keep).unwrap();
        let store = open(&image).unwrap();
        assert_eq!(
            store.files().positions.appended.position(),
            last,
            "kept up to {keep}"
        );
        assert_eq!(store.topics().bounds(b"T", 0).unwrap().unwrap().max, 9);
        let rest = image.read(Path::new(LOG)).unwrap();
        assert!(rest[last as usize..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn what_is_younger_than_the_checkpoint_is_a_torn_end_even_before_whole_records() {
    let disk = TwinDisk::new();
    let clock = ManualClock::at(1_000_000_000);
    let how = OpenHow::RefuseDamage;
    let store = Store::open(disk.clone(), clock.clone(), config(&[]), how).unwrap();
    append(&store, "T", b"old").unwrap();
    store.durability().flush().unwrap();
    store.checkpoints().write().unwrap();
    clock.advance(Duration::from_secs(60));
    let offsets: Vec<u64> = (0..5u8)
        .map(|n| append(&store, "T", &[n; 500]).unwrap())
        .collect();
    store.abandon();
    assert!(disk.flip_bit(Path::new(LOG), offsets[1] + 150, 0));
    disk.set_boot_id(Some(2));
    let store = open(&disk).unwrap();
    assert_eq!(store.files().positions.appended.position(), offsets[1]);
}

#[test]
fn old_records_behind_the_end_of_a_log_that_another_broker_cut_prove_nothing() {
    // The official broker cuts without zeroing: records of before stand behind the new end.
    let (disk, offsets) = killed();
    let stale = disk.read(Path::new(LOG)).unwrap()[offsets[5] as usize..].to_vec();
    let store = open_with(&disk, OpenHow::CutDamage, &[]).unwrap();
    store.abandon();
    let zeros = vec![0; (SEGMENT - offsets[3]) as usize];
    let file = disk.open(Path::new(LOG), Open::Write).unwrap();
    file.write_at(&zeros, offsets[3]).unwrap();
    let lock = disk.open(Path::new("/store/lock"), Open::Write).unwrap();
    lock.write_at(b"lock", 0).unwrap();
    let clock = ManualClock::at(2_000_000_000);
    let store = Store::open(disk.clone(), clock, config(&[]), OpenHow::RefuseDamage).unwrap();
    append(&store, "T", b"newer").unwrap();
    store.durability().flush().unwrap();
    store.checkpoints().write().unwrap();
    store.abandon();
    file.write_at(&stale, offsets[5]).unwrap();
    lock.write_at(b"lock", 0).unwrap();
    let store = open(&disk).unwrap();
    assert!(store.files().positions.appended.position() < offsets[5]);
}

#[test]
fn files_that_do_not_fit_the_settings_are_refused_and_nothing_changes() {
    let (disk, _) = killed();
    let refused: [(&str, &str, &str); 3] = [
        (
            "mappedFileSizeCommitLog",
            "262144",
            "mappedFileSizeCommitLog",
        ),
        (
            "mappedFileSizeConsumeQueue",
            "4000",
            "mappedFileSizeConsumeQueue",
        ),
        ("maxIndexNum", "80", "maxIndexNum"),
    ];
    for (key, value, named) in refused {
        let before = disk.content_hash();
        let error = open_with(&disk, OpenHow::RefuseDamage, &[(key, value)])
            .err()
            .unwrap();
        let Error::WrongFileSize { key, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(key, named);
        assert_eq!(disk.content_hash(), before);
    }
    disk.open(Path::new("/store/commitlog/readme.txt"), Open::Create)
        .unwrap();
    assert!(matches!(open(&disk).err(), Some(Error::ForeignFile { .. })));
}

#[test]
fn a_message_that_cannot_be_is_refused_with_its_reason() {
    let disk = TwinDisk::new();
    let store = open(&disk).unwrap();
    let refused = |topic: &str, body: &[u8]| match append(&store, topic, body) {
        Err(Error::Message(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(
        refused("../up", b""),
        RecordError::TopicIllegal { at: 0, byte: b'.' }
    ));
    assert!(matches!(refused("", b""), RecordError::TopicEmpty));
    assert!(matches!(
        refused(&"t".repeat(200), b""),
        RecordError::TopicTooLong { .. }
    ));
    assert!(matches!(
        refused("T", &[0; 4_097]),
        RecordError::BodyTooLarge { .. }
    ));
    assert_eq!(
        append(&store, "T", &[0; 4_096]).unwrap(),
        0,
        "nothing was burnt"
    );
}

#[test]
fn a_full_disk_refuses_the_next_file_and_heals() {
    let disk = TwinDisk::new();
    disk.set_space(10 * SEGMENT, 2 * SEGMENT);
    let store = open_with(
        &disk,
        OpenHow::RefuseDamage,
        &[("messageIndexEnable", "false")],
    )
    .unwrap();
    let mut stored = 0;
    let refused = loop {
        match append(&store, "T", &[1; 4_000]) {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 1_000);
    };
    assert!(matches!(refused, Error::NoSegment { .. }), "{refused}");
    disk.set_space(10 * SEGMENT, 4 * SEGMENT);
    append(&store, "T", &[1; 4_000]).unwrap();
    while store.dispatching().step().unwrap() {}
    assert_eq!(
        store.topics().bounds(b"T", 0).unwrap().unwrap().max,
        stored + 1
    );
}

#[test]
fn retention_removes_whole_files_with_their_queues_and_counts_what_was_unread() {
    let disk = TwinDisk::new();
    let store = open(&disk).unwrap();
    for _ in 0..150 {
        append(&store, "T", &[1; 4_000]).unwrap();
    }
    store.durability().flush().unwrap();
    while store.dispatching().step().unwrap() {}
    store.checkpoints().sync_queues(0).unwrap();
    assert_eq!(names(&disk, "/store/commitlog").len(), 5);
    let far = store.retention().remove_oldest(Some(-1), 10, None).unwrap();
    assert_eq!(far.log_files, 0, "nothing has expired");
    let cleaned = store
        .retention()
        .remove_oldest(None, 2, Some(SEGMENT + 100))
        .unwrap();
    assert_eq!((cleaned.log_files, cleaned.log_bytes), (2, 2 * SEGMENT));
    assert_eq!(cleaned.unread_bytes, SEGMENT - 100);
    let bounds = store.topics().bounds(b"T", 0).unwrap().unwrap();
    assert_eq!(bounds.max, 150);
    assert!(bounds.min > 60 && bounds.min < 70, "{bounds:?}");
    assert!(store.reader().record_at(0).is_err());
    let all = store.retention().remove_oldest(None, 100, None).unwrap();
    assert_eq!(all.log_files, 2, "the newest file stays");
    assert!(store.close().unwrap());
    let store = open(&disk).unwrap();
    assert_eq!(append(&store, "T", b"x").unwrap() / SEGMENT, 4);
    assert_eq!(disk.bus_errors(), 0);
}

#[test]
fn with_record_crcs_a_flipped_bit_anywhere_in_a_record_is_seen() {
    let pairs = [
        ("enabledAppendPropCRC", "true"),
        ("forceVerifyPropCRC", "true"),
    ];
    let disk = TwinDisk::new();
    let store = open_with(&disk, OpenHow::RefuseDamage, &pairs).unwrap();
    let offsets: Vec<u64> = (0..3u8)
        .map(|n| append(&store, "T", &[n; 50]).unwrap())
        .collect();
    store.abandon();
    let whole = open_with(&disk.fork(), OpenHow::RefuseDamage, &pairs).unwrap();
    assert!(whole.files().positions.appended.position() > offsets[2]);
    for at in offsets[1]..offsets[2] {
        let image = disk.fork();
        assert!(image.flip_bit(Path::new(LOG), at, 5));
        let store = open_with(&image, OpenHow::CutDamage, &pairs).unwrap();
        assert_eq!(
            store.files().positions.appended.position(),
            offsets[1],
            "byte {at}"
        );
    }
}
