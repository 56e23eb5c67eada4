//! Stores of an official broker that has cut its log and was then stopped: it moves ends in memory only, so
//! that its files hold old bytes behind the new ends. Made of two of our stores that have the first messages in
//! common: the files of the one that was cut, with the bytes of the one that went on written over them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::Disk;
use mqcore_engine::disk::twin::{Bound, TwinDisk};
use mqcore_engine::error::{Error, Result};
use mqcore_engine::store::{OpenHow, Store};
use mqcore_record::{CrcCheck, Host, Message, index_key_hash};

use crate::reading::bodies;

type TwinStore = Store<TwinDisk, ManualClock>;

const SEGMENT: usize = 131_072;
const QUEUES: usize = 3;
const UNIT: usize = 20;
/// Messages that both logs begin with.
const COMMON: usize = 30;
/// Positions in an index file of 10 slots.
const INDEX_NEXT: usize = 36;
const INDEX_SLOTS: usize = 40;
const INDEX_ENTRIES: usize = INDEX_SLOTS + 4 * 10;

/// A message: its queue and its body, which has its number.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sent {
    queue: usize,
    body: Vec<u8>,
}

fn sent(name: &str, number: usize, queue: usize, len: usize) -> Sent {
    let body = format!("{name}-{number}-{}", "x".repeat(len));
    Sent {
        queue,
        body: body.into_bytes(),
    }
}

/// The key of a message: what its body begins with.
fn key_of(body: &[u8]) -> Vec<u8> {
    let mut parts = body.splitn(3, |byte| *byte == b'-');
    [parts.next().unwrap(), b"-", parts.next().unwrap()].concat()
}

fn clock_at(now_ms: u64) -> ManualClock {
    ManualClock::at(now_ms.cast_signed())
}

fn try_open(disk: &TwinDisk, clock: &ManualClock) -> Result<TwinStore> {
    let (config, _) = StoreConfig::from_pairs([
        ("storePathRootDir", "/store"),
        ("mappedFileSizeCommitLog", "131072"),
        ("mappedFileSizeConsumeQueue", "20000"),
        ("maxMessageSize", "4096"),
        ("maxHashSlotNum", "10"),
        ("maxIndexNum", "400"),
    ])
    .unwrap();
    Store::open(disk.clone(), clock.clone(), config, OpenHow::RefuseDamage)
}

/// Appends messages, one a second; the place behind the last.
fn append(store: &TwinStore, clock: &ManualClock, messages: &[Sent]) -> u64 {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    let mut end = 0;
    for Sent { queue, body } in messages {
        let key = String::from_utf8(key_of(body)).unwrap();
        let properties = format!("KEYS\x01{key}\x02");
        let message = Message {
            born_timestamp_ms: 1,
            properties: properties.as_bytes(),
            ..Message::of("T", i32::try_from(*queue).unwrap(), body, host)
        };
        clock.advance(Duration::from_secs(1));
        end = store.writer().append(&message).unwrap().end();
    }
    end
}

/// What is in a directory after messages were stored from a time on and the store was stopped.
fn grown(disk: &TwinDisk, now_ms: u64, messages: &[Sent]) -> u64 {
    let clock = clock_at(now_ms);
    let store = try_open(disk, &clock).unwrap();
    let end = append(&store, &clock, messages);
    assert!(store.close().unwrap());
    end
}

/// Both histories, and the directory that an official broker leaves which had the first one, cut it where the
/// second begins to differ, and took the second one.
struct Cut {
    disk: TwinDisk,
    /// What is in the log.
    live: Vec<Sent>,
    /// What was cut.
    gone: Vec<Sent>,
    /// Where the log ends.
    end: u64,
}

const BEGAN_MS: u64 = 1_000_000_000;
const WENT_ON_MS: u64 = BEGAN_MS + 1_000_000;

fn cut_of(gone: Vec<Sent>, went_on: Vec<Sent>, went_on_ms: u64) -> Cut {
    let common: Vec<Sent> = (0..COMMON)
        .map(|number| sent("c", number, number % QUEUES, 100))
        .collect();
    let disk = TwinDisk::new();
    grown(&disk, BEGAN_MS, &common);
    let other = disk.fork();
    grown(&disk, BEGAN_MS + 500_000, &gone);
    let end = grown(&other, went_on_ms, &went_on);
    for at in (0..end).step_by(SEGMENT) {
        let path = format!("/store/commitlog/{at:020}");
        over(&disk, &other, &path, SEGMENT.min((end - at) as usize));
    }
    let mut live = common;
    live.extend(went_on);
    for queue in 0..QUEUES {
        let units = live.iter().filter(|sent| sent.queue == queue).count();
        let path = format!("/store/consumequeue/T/{queue}/{:020}", 0);
        over(&disk, &other, &path, units * UNIT);
    }
    over(&disk, &other, "/store/checkpoint", 4096);
    index_also(&disk, &other);
    disk.write_raw(Path::new("/store/lock"), b"lock");
    for name in ["queues.manifest", "mqcore.session"] {
        disk.unlink(&Path::new("/store").join(name)).unwrap();
    }
    disk.forget();
    Cut {
        disk,
        live,
        gone,
        end,
    }
}

/// The first bytes of a file become those of the same file of another disk.
fn over(disk: &TwinDisk, other: &TwinDisk, path: &str, len: usize) {
    let new = other.read(Path::new(path)).unwrap();
    let mut bytes = disk.read(Path::new(path)).unwrap_or_default();
    if bytes.len() < new.len() {
        bytes.resize(new.len(), 0);
    }
    bytes[..len].copy_from_slice(&new[..len]);
    disk.write_raw(Path::new(path), &bytes);
}

fn index_of(disk: &TwinDisk) -> (String, Vec<u8>) {
    let files = disk.list(Path::new("/store/index")).unwrap();
    assert_eq!(files.len(), 1);
    let path = format!("/store/index/{}", files[0].name);
    let bytes = disk.read(Path::new(&path)).unwrap();
    (path, bytes)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Puts the entries of the other index that are not common behind those of the one that was cut, as an official
/// broker does, which leaves those in.
fn index_also(disk: &TwinDisk, other: &TwinDisk) {
    let (path, mut bytes) = index_of(disk);
    let (_, new) = index_of(other);
    let mut next = word(&bytes, INDEX_NEXT);
    for number in COMMON + 1..word(&new, INDEX_NEXT) as usize {
        let from = INDEX_ENTRIES + number * UNIT;
        let mut entry = new[from..from + UNIT].to_vec();
        let slot = INDEX_SLOTS + (word(&entry, 0) % 10) as usize * 4;
        let previous: [u8; 4] = bytes[slot..slot + 4].try_into().unwrap();
        entry[16..].copy_from_slice(&previous);
        let to = INDEX_ENTRIES + next as usize * UNIT;
        bytes[to..to + UNIT].copy_from_slice(&entry);
        bytes[slot..slot + 4].copy_from_slice(&next.to_be_bytes());
        next += 1;
    }
    // Times and places of the newest entry.
    bytes[8..16].copy_from_slice(&new[8..16]);
    bytes[24..32].copy_from_slice(&new[24..32]);
    bytes[INDEX_NEXT..INDEX_NEXT + 4].copy_from_slice(&next.to_be_bytes());
    disk.write_raw(Path::new(&path), &bytes);
}

fn found(store: &TwinStore, body: &[u8]) -> Vec<Vec<u8>> {
    let reader = store.key_reader();
    let found = reader.query(b"T", &key_of(body), 64, 0, i64::MAX).unwrap();
    let bodies = found.records.iter();
    bodies
        .map(|record| record.view(CrcCheck::Skip).unwrap().body.to_vec())
        .collect()
}

/// All that is in the log is served by queues and keys, nothing of what was cut, and queues go on where the log
/// has them end.
fn check(store: &TwinStore, live: &[Sent], gone: &[Sent]) {
    while store.dispatching().step().unwrap() {}
    for queue in 0..QUEUES {
        let wanted = live.iter().filter(|sent| sent.queue == queue);
        let wanted: Vec<&[u8]> = wanted.map(|sent| sent.body.as_slice()).collect();
        assert_eq!(bodies(store, "T", queue as i32), wanted, "queue {queue}");
    }
    for Sent { body, .. } in live {
        assert_eq!(found(store, body), [body.as_slice()], "by key");
    }
    for Sent { body, .. } in gone {
        assert_eq!(
            found(store, body),
            [[0; 0]; 0],
            "by the key of what was cut"
        );
    }
}

impl Cut {
    fn open(&self) -> Result<TwinStore> {
        try_open(&self.disk, &clock_at(WENT_ON_MS + 1_000_000))
    }

    /// The store opens, reports what it found, serves the log, and goes on.
    fn is_taken_over(&self) {
        let clock = clock_at(WENT_ON_MS + 1_000_000);
        let store = try_open(&self.disk, &clock).unwrap();
        assert!(store.report().was_cut);
        let notices = store.notices();
        let notice = notices
            .iter()
            .find(|notice| notice.text.contains("another broker cut the log"))
            .unwrap();
        let ends_at = format!("ends at {} now", self.end);
        assert!(notice.text.contains(&ends_at), "{}", notice.text);
        assert!(notice.text.contains("T 1 offsets"), "{}", notice.text);
        check(&store, &self.live, &self.gone);
        let more: Vec<Sent> = (0..9)
            .map(|number| sent("m", number, number % QUEUES, 50))
            .collect();
        append(&store, &clock, &more);
        let all = [self.live.clone(), more].concat();
        check(&store, &all, &self.gone);
        assert!(store.close().unwrap());
        drop(store);
        let again = try_open(&self.disk, &clock_at(WENT_ON_MS + 3_000_000)).unwrap();
        assert!(!again.report().was_cut);
        check(&again, &all, &self.gone);
    }

    fn is_refused(&self) {
        match self.open() {
            Err(Error::Damaged { .. }) => {}
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it was opened"),
        }
    }
}

/// Messages of all queues in turns.
fn many(name: &str, count: usize, len: usize) -> Vec<Sent> {
    (0..count)
        .map(|number| sent(name, number, number % QUEUES, len + number * 7 % 50))
        .collect()
}

/// Messages of the first queue alone.
fn of_one_queue(name: &str, count: usize, len: usize) -> Vec<Sent> {
    (0..count)
        .map(|number| sent(name, number, 0, len + number * 7 % 50))
        .collect()
}

#[test]
fn units_that_name_records_behind_the_end_are_taken_away() {
    cut_of(many("g", 40, 300), many("w", 10, 170), WENT_ON_MS).is_taken_over();
}

#[test]
fn units_that_point_into_other_records_are_taken_away() {
    let cut = cut_of(many("g", 12, 80), of_one_queue("w", 20, 501), WENT_ON_MS);
    cut.is_taken_over();
}

#[test]
fn units_are_taken_away_whose_records_went_with_a_file_of_the_log() {
    let cut = cut_of(many("g", 90, 1_800), of_one_queue("w", 9, 901), WENT_ON_MS);
    let second = format!("/store/commitlog/{SEGMENT:020}");
    assert!(cut.disk.read(Path::new(&second)).is_some());
    cut.disk.unlink(Path::new(&second)).unwrap();
    cut.is_taken_over();
}

#[test]
fn a_log_that_went_on_for_longer_than_what_was_cut_is_taken_over() {
    // The files behind the first one are new.
    let cut = cut_of(many("g", 12, 80), of_one_queue("w", 200, 701), WENT_ON_MS);
    assert!(cut.end > SEGMENT as u64);
    cut.is_taken_over();
}

#[test]
fn a_start_after_a_power_loss_in_the_midst_of_it_goes_on() {
    let cut = cut_of(many("g", 20, 300), many("w", 6, 171), WENT_ON_MS);
    let store = cut.open().unwrap();
    store.abandon();
    drop(store);
    let history = cut.disk.history();
    let bound = Bound {
        images_max: 6,
        ..Bound::default()
    };
    let mut images = 0;
    for stop in 0..history.stop_points() {
        for image in history.images(stop, &bound) {
            images += 1;
            let disk = image.disk();
            let store = try_open(&disk, &clock_at(WENT_ON_MS + 2_000_000))
                .unwrap_or_else(|error| panic!("{}: {error}", image.id()));
            check(&store, &cut.live, &cut.gone);
            store.abandon();
        }
    }
    assert!(images > 20, "{images}");
}

#[test]
fn a_record_that_the_checkpoint_knows_of_and_the_log_has_not_is_a_loss() {
    // The log went on by a clock that is behind: as if it were damaged, what is behind its end is newer.
    cut_of(many("g", 40, 300), many("w", 10, 170), BEGAN_MS + 100_000).is_refused();
}

#[test]
fn units_that_name_the_end_itself_are_a_loss() {
    let cut = cut_of(many("g", 40, 300), many("w", 10, 170), WENT_ON_MS);
    // The last record of what went on is torn.
    let path = format!("/store/commitlog/{:020}", 0);
    assert!(
        cut.disk
            .overwrite(Path::new(&path), cut.end - 120, |byte| !byte)
    );
    cut.is_refused();
}

#[test]
fn units_behind_an_end_that_nothing_shows_to_be_a_cut_are_a_loss() {
    let disk = TwinDisk::new();
    grown(&disk, BEGAN_MS, &many("g", 40, 300));
    let path = format!("/store/commitlog/{:020}", 0);
    let mut log = disk.read(Path::new(&path)).unwrap();
    let len = log.len();
    log[9_000..len].fill(0);
    disk.write_raw(Path::new(&path), &log);
    disk.write_raw(Path::new("/store/lock"), b"lock");
    for name in ["queues.manifest", "mqcore.session"] {
        disk.unlink(&Path::new("/store").join(name)).unwrap();
    }
    assert!(matches!(
        try_open(&disk, &clock_at(WENT_ON_MS)),
        Err(Error::Damaged { .. })
    ));
    // Even where the checkpoint is gone, which would know of it.
    disk.unlink(Path::new("/store/checkpoint")).unwrap();
    assert!(matches!(
        try_open(&disk, &clock_at(WENT_ON_MS)),
        Err(Error::Damaged { .. })
    ));
}

#[test]
fn one_unit_with_a_wrong_bit_costs_no_message() {
    let disk = TwinDisk::new();
    let messages = many("g", 40, 300);
    grown(&disk, BEGAN_MS, &messages);
    let units = messages.iter().filter(|sent| sent.queue == 1).count();
    let path = format!("/store/consumequeue/T/1/{:020}", 0);
    let position = ((units - 1) * UNIT + 7) as u64;
    assert!(disk.flip_bit(Path::new(&path), position, 3));
    disk.write_raw(Path::new("/store/lock"), b"lock");
    for name in ["queues.manifest", "mqcore.session"] {
        disk.unlink(&Path::new("/store").join(name)).unwrap();
    }
    let store = try_open(&disk, &clock_at(WENT_ON_MS)).unwrap();
    let notices = store.notices();
    let has_notice = |text: &str| notices.iter().any(|notice| notice.text.contains(text));
    assert!(has_notice("names no record of its queue"), "{notices:?}");
    assert!(!has_notice("another broker cut the log"));
    check(&store, &messages, &[]);
}

#[test]
fn the_hash_of_a_key_is_in_the_entries_that_are_put_behind() {
    let cut = cut_of(many("g", 5, 300), many("w", 3, 170), WENT_ON_MS);
    let (_, bytes) = index_of(&cut.disk);
    let next = word(&bytes, INDEX_NEXT) as usize;
    assert_eq!(next, COMMON + 5 + 3 + 1);
    let last = INDEX_ENTRIES + (next - 1) * UNIT;
    assert_eq!(word(&bytes, last), index_key_hash(b"T", b"w-2"));
}
