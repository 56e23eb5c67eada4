//! Retention by age, by the fill of the disk and by hand, and the refusal of appends on a disk that
//! is nearly full, which heals.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::commit_log::Reason;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::error::{Error, Result};
use mqcore_engine::status::PutStatus;
use mqcore_engine::store::{Ask, GetStatus, Got, OpenHow, Store};
use mqcore_record::{Host, Message};

type TwinStore = Store<TwinDisk, ManualClock>;

const SEGMENT: u64 = 131_072;
/// A read of one message.
const ONE: Ask<'static> = Ask {
    from: 0,
    count_max: 1,
    bytes_max: u64::MAX,
    tags_codes: &[],
    is_bulk: true,
};
const HOUR: Duration = Duration::from_secs(3_600);

struct Setup {
    disk: TwinDisk,
    clock: ManualClock,
    store: TwinStore,
}

fn setup(pairs: &[(&str, &str)]) -> Setup {
    let clock = ManualClock::at(1_700_000_000_000);
    let disk = TwinDisk::with_clock(clock.clone());
    let mut all = vec![
        ("storePathRootDir", "/store"),
        ("mappedFileSizeCommitLog", "131072"),
        ("mappedFileSizeConsumeQueue", "2000"),
        ("maxMessageSize", "32768"),
        ("maxHashSlotNum", "10"),
        ("maxIndexNum", "40"),
    ];
    all.extend_from_slice(pairs);
    let config = StoreConfig::from_pairs(all).unwrap().0;
    let how = OpenHow::RefuseDamage;
    let store = Store::open(disk.clone(), clock.clone(), config, how).unwrap();
    Setup { disk, clock, store }
}

fn append(store: &TwinStore) -> Result<u64> {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    let body = [1; 30_000];
    let message = Message {
        born_timestamp_ms: 1,
        properties: b"KEYS\x01k\x02",
        ..Message::of("T", 0, &body, host)
    };
    store
        .writer()
        .append(&message)
        .map(|appended| appended.physical_offset)
}

/// Fills `files` files of the log, an hour apart, and settles everything.
fn fill(setup: &Setup, files: usize) {
    for _ in 0..files {
        for _ in 0..4 {
            append(&setup.store).unwrap();
        }
        setup.clock.advance(HOUR);
    }
    settle(setup);
}

fn settle(setup: &Setup) {
    setup.store.durability().flush().unwrap();
    while setup.store.dispatching().step().unwrap() {}
    setup.store.checkpoints().sync_queues(0).unwrap();
}

#[test]
fn files_go_when_they_have_expired_and_no_earlier() {
    let setup = setup(&[("fileReservedTime", "10")]);
    fill(&setup, 6);
    assert_eq!(
        setup
            .store
            .retention()
            .clean(Reason::Hour, None)
            .unwrap()
            .log_files,
        0
    );
    setup.clock.advance(HOUR * 7);
    // Written 13, 12, 11, 10, 9 and 8 hours ago; a record that rolled over touched its neighbour.
    let cleaned = setup.store.retention().clean(Reason::Hour, None).unwrap();
    assert!((3..=4).contains(&cleaned.log_files), "{cleaned:?}");
    assert_eq!(cleaned.log_bytes, cleaned.log_files as u64 * SEGMENT);
    let start = setup.store.files().chain.start();
    let bounds = setup.store.topics().bounds(b"T", 0).unwrap().unwrap();
    let first = setup.store.reader().record_at(start).unwrap();
    let first = first.view(mqcore_record::CrcCheck::Verify).unwrap();
    assert_eq!(bounds.min, first.queue_offset as u64);
    assert_eq!(bounds.max, 24);
    assert_eq!(
        setup
            .store
            .retention()
            .clean(Reason::Hour, None)
            .unwrap()
            .log_files,
        0,
        "nothing more"
    );
}

#[test]
fn a_log_with_a_bound_keeps_as_many_files_as_fit_whatever_their_age() {
    for (bound, kept) in [(3 * SEGMENT, 3), (3 * SEGMENT + 1, 3), (1, 1)] {
        let setup = setup(&[
            ("mqcoreLogBytesMax", &bound.to_string()),
            ("fileReservedTime", "1000"),
        ]);
        fill(&setup, 6);
        let before = setup.store.files().chain.len();
        let cleaned = setup.store.retention().clean(Reason::Space, None).unwrap();
        assert_eq!(cleaned.log_files, before - kept, "{cleaned:?}");
        assert_eq!(setup.store.files().chain.len(), kept);
        let again = setup.store.retention().clean(Reason::Space, None);
        assert_eq!(again.unwrap().log_files, 0, "nothing more");
        append(&setup.store).unwrap();
    }
}

#[test]
fn offsets_are_those_of_the_records_whatever_retention_took() {
    let setup = setup(&[("fileReservedTime", "10")]);
    fill(&setup, 6);
    let same_everywhere = || {
        for (from, count_max) in (0..27).flat_map(|from| [(from, 1), (from, 5), (from, 100)]) {
            let ask = Ask {
                from,
                count_max,
                ..ONE
            };
            let whole = setup.store.reader().get(b"T", 0, ask).unwrap();
            let bare = setup.store.reader().offsets(b"T", 0, ask).unwrap();
            let head = |got: &Got<_>| (got.status, got.next_offset, got.min_offset, got.max_offset);
            assert_eq!(head(&bare), head(&whole), "{ask:?}");
            assert_eq!((bare.len(), bare.bytes), (whole.len(), whole.bytes));
            assert!(bare.records.is_empty() && whole.offsets.is_empty());
            for (position, record) in bare.offsets.iter().zip(&whole.records) {
                let view = record.view(mqcore_record::CrcCheck::Verify).unwrap();
                assert_eq!(position.queue_offset, view.queue_offset.cast_unsigned());
                assert_eq!(
                    position.physical_offset,
                    view.physical_offset.cast_unsigned()
                );
            }
        }
    };
    same_everywhere();
    setup.clock.advance(HOUR * 7);
    assert!(
        setup
            .store
            .retention()
            .clean(Reason::Hour, None)
            .unwrap()
            .log_files
            > 2
    );
    assert!(setup.store.topics().bounds(b"T", 0).unwrap().unwrap().min > 5);
    same_everywhere();
    let nowhere = setup.store.reader().offsets(b"T", 1, ONE).unwrap();
    assert_eq!(nowhere.status, GetStatus::NoMatchedLogicQueue);
}

#[test]
fn a_fuller_disk_deletes_the_expired_at_any_hour_and_then_whatever_is_oldest() {
    let setup = setup(&[("fileReservedTime", "1000")]);
    fill(&setup, 8);
    let total = 1_000 * SEGMENT;
    setup.disk.set_space(total, total * 30 / 100);
    assert_eq!(
        setup
            .store
            .retention()
            .clean(Reason::Space, None)
            .unwrap()
            .log_files,
        0,
        "70 % full"
    );
    setup.disk.set_space(total, total * 20 / 100);
    assert_eq!(
        setup
            .store
            .retention()
            .clean(Reason::Space, None)
            .unwrap()
            .log_files,
        0,
        "none has expired"
    );
    setup.disk.set_space(total, total * 12 / 100);
    let cleaned = setup
        .store
        .retention()
        .clean(Reason::Space, Some(0))
        .unwrap();
    assert!(cleaned.log_files > 0, "88 % full: the oldest go");
    assert_eq!(cleaned.unread_bytes, cleaned.log_bytes);
    assert!(
        setup
            .store
            .notices()
            .iter()
            .any(|notice| notice.text.contains("not read yet"))
    );
    append(&setup.store).unwrap();
}

#[test]
fn a_disk_that_is_nearly_full_refuses_appends_until_there_is_space() {
    let setup = setup(&[("cleanFileForciblyEnable", "false")]);
    fill(&setup, 2);
    let total = 1_000 * SEGMENT;
    setup.disk.set_space(total, total * 5 / 100);
    setup.store.retention().watch_space().unwrap();
    let refused = append(&setup.store).unwrap_err();
    assert!(matches!(&refused, Error::NotWritable { reason } if reason.contains("% full")));
    assert_eq!(PutStatus::of(&refused), PutStatus::ServiceNotAvailable);
    assert!(setup.store.reader().record_at(0).is_ok(), "reads go on");
    setup.disk.set_space(total, total * 50 / 100);
    setup.store.retention().watch_space().unwrap();
    append(&setup.store).unwrap();
}

#[test]
fn a_topic_is_forgotten_and_may_come_again() {
    let setup = setup(&[]);
    fill(&setup, 1);
    setup.store.topics().delete_topic(b"T").unwrap();
    assert_eq!(setup.store.topics().bounds(b"T", 0).unwrap(), None);
    assert!(
        setup.store.reader().record_at(0).is_ok(),
        "the log keeps it until it expires"
    );
    append(&setup.store).unwrap();
    settle(&setup);
    let bounds = setup.store.topics().bounds(b"T", 0).unwrap().unwrap();
    assert_eq!((bounds.min, bounds.max), (0, 1));
    assert!(setup.store.close().unwrap());
}
