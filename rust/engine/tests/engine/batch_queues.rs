//! Topics of batch queues (`queue.type=BatchCQ` of 5.x) in a store: what an official broker wrote is
//! made again byte for byte and goes on, records take as many offsets as they have messages, and
//! every kind of end and of retention leaves queues as of any topic.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use mqcore_engine::clock::{Clock, ManualClock, SystemClock};
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::disk::{Disk, RealDisk};
use mqcore_engine::store::{Ask, GetStatus, OpenHow, Store, rebuild};
use mqcore_record::properties::{INNER_BASE, lookup};
use mqcore_record::sys_flag::{INNER_BATCH, NEED_UNWRAP};
use mqcore_record::{CrcCheck, Host, Message};

const GOLDEN_TOPIC: &str = "GoldenBcq";
const START_MS: i64 = 1_795_249_596_000;

fn config(root: &Path, topics: &str) -> StoreConfig {
    let pairs = [
        ("storePathRootDir", root.to_str().unwrap()),
        ("mappedFileSizeCommitLog", "1048576"),
        ("mappedFileSizeConsumeQueue", "20000"),
        ("maxMessageSize", "65536"),
        ("maxHashSlotNum", "1000"),
        ("maxIndexNum", "4000"),
        ("fileReservedTime", "1000000"),
        ("batchQueueTopics", topics),
    ];
    StoreConfig::from_pairs(pairs).unwrap().0
}

fn open_real(root: &Path) -> Store<RealDisk, SystemClock> {
    let config = config(root, GOLDEN_TOPIC);
    Store::open(RealDisk, SystemClock::new(), config, OpenHow::RefuseDamage).unwrap()
}

fn open_twin(disk: &TwinDisk, clock: &ManualClock) -> Store<TwinDisk, ManualClock> {
    let mut config = config(Path::new("/store"), "B");
    config.batch_file_len_bytes = 4 * 46;
    config.segment_len_bytes = 131_072;
    config.max_message_bytes = 32_768;
    let how = OpenHow::RefuseDamage;
    Store::open(disk.clone(), clock.clone(), config, how).unwrap()
}

fn message<'a>(topic: &'a str, sys_flag: i32, properties: &'a [u8]) -> Message<'a> {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    Message {
        sys_flag,
        born_timestamp_ms: 1,
        properties,
        ..Message::of(topic, 0, &[7; 1_000], host)
    }
}

/// Appends a record of `count` messages; 0: a message alone. Gives its queue offset.
fn append<D: Disk, C: Clock>(store: &Store<D, C>, topic: &str, count: u64) -> u64 {
    let properties = format!("UNIQ_KEY\x01k\x02INNER_NUM\x01{count}\x02");
    let message = match count {
        0 => message(topic, 0, b"TAGS\x01t\x02"),
        _ => message(topic, INNER_BATCH | NEED_UNWRAP, properties.as_bytes()),
    };
    let appended = store.writer().append(&message).unwrap();
    appended.queue_offset
}

/// Queue offset and number of messages of each record of queue 0, as a reader goes through it.
fn walk<D: Disk, C: Clock>(store: &Store<D, C>, topic: &str) -> Vec<(u64, u64)> {
    let mut out = Vec::new();
    let mut from = store
        .topics()
        .bounds(topic.as_bytes(), 0)
        .unwrap()
        .unwrap()
        .min;
    loop {
        let ask = Ask {
            from,
            count_max: 1,
            bytes_max: 1 << 20,
            tags_codes: &[],
            is_bulk: false,
        };
        let got = store.reader().get(topic.as_bytes(), 0, ask).unwrap();
        if got.status != GetStatus::Found {
            return out;
        }
        assert_eq!(got.records.len(), 1);
        let record = got.records[0].view(CrcCheck::Verify).unwrap();
        assert_eq!(record.queue_offset.cast_unsigned(), from);
        if let Some(base) = lookup(record.properties, INNER_BASE) {
            let base: u64 = std::str::from_utf8(base).unwrap().parse().unwrap();
            assert_eq!(base, from);
        }
        out.push((from, got.next_offset - from));
        from = got.next_offset;
    }
}

fn settle<D: Disk, C: Clock>(store: &Store<D, C>) {
    store.durability().flush().unwrap();
    while store.dispatching().step().unwrap() {}
    store.checkpoints().note_durable().unwrap();
    store.checkpoints().sync_queues(0).unwrap();
    store.checkpoints().write().unwrap();
}

struct Unpacked(PathBuf);

impl Unpacked {
    fn new(test: &str) -> Self {
        let name = format!("mqcore-golden-{test}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let archive = Path::new(env!("CARGO_MANIFEST_DIR"));
        let archive = archive.join("../../tests/golden/v53-clean.tar.xz");
        let mut tar = Command::new("tar");
        let tar = tar.arg("-xJf").arg(&archive).arg("-C").arg(&dir);
        assert!(tar.status().unwrap().success());
        Self(dir)
    }

    fn store(&self) -> PathBuf {
        self.0.join("v53-clean")
    }

    /// Content of every file of batch queues.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let topic = self.store().join("batchconsumequeue").join(GOLDEN_TOPIC);
        let mut files = BTreeMap::new();
        for queue in std::fs::read_dir(topic).unwrap() {
            for file in std::fs::read_dir(queue.unwrap().path()).unwrap() {
                let path = file.unwrap().path();
                files.insert(path.clone(), std::fs::read(path).unwrap());
            }
        }
        files
    }

    fn lose(&self) {
        std::fs::remove_dir_all(self.store().join("batchconsumequeue")).unwrap();
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn batch_queues_made_from_the_log_are_the_official_files_byte_for_byte() {
    let golden = Unpacked::new("batch-bytes");
    let official = golden.files();
    assert_eq!(official.len(), 2);
    // Opened and closed: nothing of them changes.
    assert!(open_real(&golden.store()).close().unwrap());
    assert!(golden.files() == official, "after a clean start");
    // Lost, after a clean end.
    golden.lose();
    let store = open_real(&golden.store());
    assert!(store.close().unwrap());
    assert!(golden.files() == official, "after a loss");
    // Lost, after a kill.
    golden.lose();
    std::fs::write(golden.store().join("abort"), b"").unwrap();
    assert!(open_real(&golden.store()).close().unwrap());
    assert!(golden.files() == official, "after a kill");
    // Built again on demand.
    golden.lose();
    let settings = config(&golden.store(), GOLDEN_TOPIC);
    let rebuilt = rebuild(&RealDisk, &SystemClock::new(), settings).unwrap();
    assert!(rebuilt.queues > 60, "{rebuilt:?}");
    assert!(golden.files() == official, "after a repair");
    // A kill takes what was not synced: it is dispatched again.
    std::fs::write(golden.store().join("abort"), b"").unwrap();
    assert!(open_real(&golden.store()).close().unwrap());
    assert!(golden.files() == official, "after a kill");
}

#[test]
fn an_official_topic_of_batch_queues_goes_on() {
    let golden = Unpacked::new("batch-goes-on");
    let store = open_real(&golden.store());
    let before = walk(&store, GOLDEN_TOPIC);
    let end = before.last().map(|(base, count)| base + count).unwrap();
    assert_eq!(append(&store, GOLDEN_TOPIC, 5), end);
    assert_eq!(append(&store, GOLDEN_TOPIC, 0), end + 5);
    assert_eq!(append(&store, GOLDEN_TOPIC, 2), end + 6);
    settle(&store);
    let mut wanted = before;
    wanted.extend([(end, 5), (end + 5, 1), (end + 6, 2)]);
    assert_eq!(walk(&store, GOLDEN_TOPIC), wanted);
    assert!(store.close().unwrap());
    let store = open_real(&golden.store());
    assert_eq!(walk(&store, GOLDEN_TOPIC), wanted);
    assert_eq!(append(&store, GOLDEN_TOPIC, 0), end + 8);
    let plain = golden.store().join("consumequeue").join(GOLDEN_TOPIC);
    assert!(!plain.exists(), "no plain queue beside a batch queue");
}

#[test]
fn a_record_takes_an_offset_for_each_of_its_messages_after_every_end() {
    let (disk, clock) = (TwinDisk::new(), ManualClock::at(START_MS));
    let mut wanted = Vec::new();
    let mut next = 0;
    for (round, is_clean) in [true, false, false, true, false].into_iter().enumerate() {
        let store = open_twin(&disk, &clock);
        if round > 0 {
            assert_eq!(walk(&store, "B"), wanted, "round {round}");
        }
        for count in [0, 3, 1, 0, 32_767, 2] {
            assert_eq!(append(&store, "B", count), next);
            wanted.push((next, count.max(1)));
            next += count.max(1);
            append(&store, "plain", 0);
        }
        while store.dispatching().step().unwrap() {}
        assert_eq!(walk(&store, "B"), wanted, "round {round}");
        if round == 2 {
            settle(&store);
            append(&store, "B", 4);
            wanted.push((next, 4));
            next += 4;
        }
        if is_clean {
            assert!(store.close().unwrap());
        }
    }
    let plain = disk.list(Path::new("/store/consumequeue")).unwrap();
    let plain: Vec<_> = plain.into_iter().map(|entry| entry.name).collect();
    assert_eq!(plain, ["plain"]);
}

#[test]
fn the_checkpoint_follows_batch_queues_alone() {
    let (disk, clock) = (TwinDisk::new(), ManualClock::at(START_MS));
    let store = open_twin(&disk, &clock);
    for _ in 0..400 {
        append(&store, "B", 2);
        clock.advance(std::time::Duration::from_secs(1));
    }
    settle(&store);
    drop(store);
    let store = open_twin(&disk, &clock);
    assert!(!store.report().was_clean);
    let from = store.report().scanned_from;
    assert!(from >= 3 * 131_072, "walked from {from}");
    assert_eq!(walk(&store, "B").len(), 400);
}

#[test]
fn batch_queues_follow_the_retention_of_the_log() {
    let (disk, clock) = (TwinDisk::new(), ManualClock::at(START_MS));
    let store = open_twin(&disk, &clock);
    for _ in 0..400 {
        append(&store, "B", 2);
    }
    settle(&store);
    let bounds = |store: &Store<TwinDisk, ManualClock>| {
        let bounds = store.topics().bounds(b"B", 0).unwrap().unwrap();
        (bounds.min, bounds.max)
    };
    assert_eq!(bounds(&store), (0, 800));
    let cleaned = store.retention().remove_oldest(None, 2, None).unwrap();
    assert_eq!(cleaned.log_files, 2);
    assert!(cleaned.queue_files > 40, "{cleaned:?}");
    let (min, max) = bounds(&store);
    assert!(min > 400 && max == 800, "{min} {max}");
    let got = walk(&store, "B");
    assert_eq!((got[0], got.len() as u64 * 2), ((min, 2), max - min));
    drop(store);
    let store = open_twin(&disk, &clock);
    assert_eq!(bounds(&store), (min, max));
    assert_eq!(append(&store, "B", 0), max);
}

#[test]
fn a_topic_is_given_batch_queues_and_loses_them_with_its_life() {
    let (disk, clock) = (TwinDisk::new(), ManualClock::at(START_MS));
    let store = open_twin(&disk, &clock);
    append(&store, "new", 0);
    settle(&store);
    let refused = store
        .writer()
        .append(&message("new", INNER_BATCH, b"INNER_NUM\x013\x02"));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("plain"), "{refused}");
    store.topics().declare_batch_queues("new").unwrap();
    assert!(store.topics().has_batch_queues(b"new"));
    assert!(store.topics().declare_batch_queues("../new").is_err());
    assert_eq!(append(&store, "new", 3), 0, "what was there is gone");
    assert_eq!(append(&store, "new", 3), 3);
    settle(&store);
    assert_eq!(walk(&store, "new"), [(0, 3), (3, 3)]);
    let plain = disk.list(Path::new("/store/consumequeue/new")).unwrap();
    assert!(plain.is_empty());
    store.topics().delete_topic(b"new").unwrap();
    assert!(!store.topics().has_batch_queues(b"new"));
    assert_eq!(store.topics().bounds(b"new", 0).unwrap(), None);
    assert_eq!(append(&store, "new", 0), 0);
    settle(&store);
    assert_eq!(walk(&store, "new"), [(0, 1)]);
}
