//! Random histories of a store next to a naive model: a list of messages per queue.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::commit_log::Appended;
use mqcore_engine::config::{FlushDiskType, StoreConfig};
use mqcore_engine::consume_queue::Boundary;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::status::PutStatus;
use mqcore_engine::store::{Ask, GetStatus, OpenHow, Store};
use mqcore_record::{CrcCheck, Host, Message, tags_code};
use proptest::prelude::*;

const TOPICS: [&str; 2] = ["T", "Unlike"];
const TAGS: [&str; 3] = ["x", "y", "z"];
const SEGMENT_BYTES: u64 = 69_632;
const START_MS: i64 = 1_795_249_596_000;

type QueueKey = (usize, i32);

#[derive(Debug, Clone)]
enum Do {
    Append {
        queue_key: QueueKey,
        len: usize,
        tag: usize,
    },
    Batch {
        queue_key: QueueKey,
        count: usize,
        tag: usize,
    },
    Flush,
    Dispatch,
    SyncQueues,
    Checkpoint,
    Prepare,
    Pass {
        ms: u64,
    },
    Read {
        queue_key: QueueKey,
        from: u64,
        tag: Option<usize>,
    },
    ByTime {
        queue_key: QueueKey,
        nth: usize,
    },
    ByKey {
        nth: usize,
    },
    Close,
    Kill,
    RemoveOldest,
    DeleteTopic {
        topic: usize,
    },
}

fn queue_key() -> impl Strategy<Value = QueueKey> {
    (0..TOPICS.len(), 0..2i32)
}

fn one() -> impl Strategy<Value = Do> {
    let len = prop_oneof![0..40usize, 3_000..3_900usize];
    prop_oneof![
        12 => (queue_key(), len, 0..3usize)
            .prop_map(|(queue_key, len, tag)| Do::Append { queue_key, len, tag }),
        2 => (queue_key(), 2..5usize, 0..3usize)
            .prop_map(|(queue_key, count, tag)| Do::Batch { queue_key, count, tag }),
        2 => Just(Do::Flush),
        4 => Just(Do::Dispatch),
        2 => Just(Do::SyncQueues),
        1 => Just(Do::Checkpoint),
        1 => Just(Do::Prepare),
        2 => (1..5_000u64).prop_map(|ms| Do::Pass { ms }),
        6 => (queue_key(), 0..20u64, proptest::option::of(0..3usize))
            .prop_map(|(queue_key, from, tag)| Do::Read { queue_key, from, tag }),
        2 => (queue_key(), 0..40usize).prop_map(|(queue_key, nth)| Do::ByTime { queue_key, nth }),
        2 => (0..60usize).prop_map(|nth| Do::ByKey { nth }),
        1 => Just(Do::Close),
        1 => Just(Do::Kill),
        2 => Just(Do::RemoveOldest),
        1 => (0..TOPICS.len()).prop_map(|topic| Do::DeleteTopic { topic }),
    ]
}

#[derive(Debug, Clone)]
struct Sent {
    body: Vec<u8>,
    tag: usize,
    key: String,
    at: Appended,
}

struct Pair {
    twin: TwinDisk,
    clock: ManualClock,
    config: StoreConfig,
    store: Option<Store<TwinDisk, ManualClock>>,
    queues: BTreeMap<QueueKey, Vec<Sent>>,
    count: usize,
    deleted: bool,
}

fn config(is_sync: bool, has_pool: bool) -> StoreConfig {
    StoreConfig {
        root: Some(PathBuf::from("/store")),
        segment_len_bytes: SEGMENT_BYTES,
        max_message_bytes: 4_000,
        queue_file_len_bytes: 100,
        index_slots: 5,
        index_entries: 8,
        hot_window_bytes: SEGMENT_BYTES,
        flush_disk_type: if is_sync {
            FlushDiskType::Sync
        } else {
            FlushDiskType::Async
        },
        transient_pool_enabled: has_pool,
        transient_pool_buffers: 2,
        ..StoreConfig::default()
    }
}

fn message<'a>(queue_key: QueueKey, body: &'a [u8], properties: &'a [u8]) -> Message<'a> {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    Message {
        born_timestamp_ms: 1,
        properties,
        ..Message::of(TOPICS[queue_key.0], queue_key.1, body, host)
    }
}

impl Pair {
    fn new(is_sync: bool, has_pool: bool) -> Self {
        let clock = ManualClock::at(START_MS);
        let twin = TwinDisk::with_clock(clock.clone());
        twin.keep_history(false);
        let mut pair = Self {
            twin,
            clock,
            config: config(is_sync, has_pool),
            store: None,
            queues: BTreeMap::new(),
            count: 0,
            deleted: false,
        };
        pair.open();
        pair
    }

    fn open(&mut self) {
        self.store = None;
        let how = OpenHow::RefuseDamage;
        let (twin, clock) = (self.twin.clone(), self.clock.clone());
        self.store = Some(Store::open(twin, clock, self.config.clone(), how).unwrap());
    }

    fn store(&self) -> &Store<TwinDisk, ManualClock> {
        self.store.as_ref().unwrap()
    }

    /// Appends and waits for the acknowledgement.
    fn append(&mut self, queue_key: QueueKey, lens: &[usize], tag: usize) {
        let mut parts = Vec::new();
        for len in lens {
            self.count += 1;
            let mut body = format!("{}.", self.count).into_bytes();
            body.resize(body.len() + len, b'.');
            let key = format!("k{}", self.count);
            parts.push((body, key));
        }
        let texts = parts
            .iter()
            .map(|(_, key)| format!("KEYS\x01{key}\x02TAGS\x01{}\x02", TAGS[tag]).into_bytes());
        let texts: Vec<Vec<u8>> = texts.collect();
        let messages = parts.iter().zip(&texts);
        let messages: Vec<Message<'_>> = messages
            .map(|((body, _), text)| message(queue_key, body, text))
            .collect();
        let store = self.store();
        let done = match &messages[..] {
            [one] => vec![store.writer().append(one).unwrap()],
            many => store.writer().append_batch(many).unwrap(),
        };
        let end = done.last().unwrap().end();
        assert_eq!(store.durability().settle(end).unwrap(), PutStatus::PutOk);
        let queue = self.queues.entry(queue_key).or_default();
        for ((body, key), at) in parts.into_iter().zip(done) {
            let next = queue.last().map_or(0, |last| last.at.queue_offset + 1);
            assert_eq!(at.queue_offset, next, "{queue_key:?}");
            queue.push(Sent { body, tag, key, at });
        }
    }

    fn dispatch(&self) {
        while self.store().dispatching().step().unwrap() {}
    }

    fn start(&self) -> u64 {
        self.store().files().chain.start()
    }

    /// What is kept of a queue.
    fn kept(&self, queue_key: QueueKey) -> Vec<&Sent> {
        let start = self.start();
        let queue = self.queues.get(&queue_key).map_or(&[][..], Vec::as_slice);
        let is_kept = |sent: &&Sent| sent.at.physical_offset >= start;
        queue.iter().filter(is_kept).collect()
    }

    fn read(&self, queue_key: QueueKey, from: u64, tag: Option<usize>) {
        self.dispatch();
        let kept = self.kept(queue_key);
        let topic = TOPICS[queue_key.0].as_bytes();
        let codes: Vec<i64> = tag
            .iter()
            .map(|tag| tags_code(TAGS[*tag].as_bytes()))
            .collect();
        let ask = Ask {
            from,
            count_max: 5,
            bytes_max: 1 << 20,
            tags_codes: &codes,
            is_bulk: false,
        };
        let got = self.store().reader().get(topic, queue_key.1, ask).unwrap();
        let first = kept.first().map_or(0, |sent| sent.at.queue_offset);
        let is_wanted =
            |sent: &&&Sent| sent.at.queue_offset >= from && tag.is_none_or(|tag| tag == sent.tag);
        let expected: Vec<&[u8]> = if from < first {
            Vec::new()
        } else {
            let wanted = kept.iter().filter(is_wanted).take(5);
            wanted.map(|sent| sent.body.as_slice()).collect()
        };
        let records = got.records.iter();
        let views: Vec<_> = records.map(|r| r.view(CrcCheck::Verify).unwrap()).collect();
        let found: Vec<&[u8]> = views.iter().map(|view| view.body).collect();
        assert_eq!(
            found, expected,
            "{queue_key:?} from {from} tag {tag:?}: {:?}",
            got.status
        );
        if !kept.is_empty() && from < first {
            assert_eq!(
                (got.status, got.next_offset),
                (GetStatus::OffsetTooSmall, first)
            );
        }
    }

    fn by_time(&self, queue_key: QueueKey, nth: usize) {
        self.dispatch();
        let kept = self.kept(queue_key);
        let Some(sent) = kept.get(nth) else { return };
        let (topic, time_ms) = (TOPICS[queue_key.0].as_bytes(), sent.at.store_timestamp_ms);
        let found =
            self.store()
                .reader()
                .offset_by_time(topic, queue_key.1, time_ms, Boundary::Lower);
        let lowest = kept
            .iter()
            .find(|other| other.at.store_timestamp_ms >= time_ms);
        let expected = lowest.map(|sent| sent.at.queue_offset);
        assert_eq!(found.unwrap(), expected, "{queue_key:?} at {time_ms}");
    }

    fn by_key(&self, nth: usize) {
        self.dispatch();
        let all = self.queues.iter();
        let all =
            all.flat_map(|(queue_key, queue)| queue.iter().map(move |sent| (queue_key, sent)));
        let Some((queue_key, sent)) = all.clone().nth(nth) else {
            return;
        };
        let topic = TOPICS[queue_key.0].as_bytes();
        let found = self
            .store()
            .key_reader()
            .query(topic, sent.key.as_bytes(), 8, 0, i64::MAX);
        let found = found.unwrap();
        let bodies: Vec<Vec<u8>> = found
            .records
            .iter()
            .map(|record| record.view(CrcCheck::Verify).unwrap().body.to_vec())
            .collect();
        // Slots are few, so an answer may hold a message of the same hash; the one asked for is in
        // it exactly as long as the log has it.
        let is_kept = sent.at.physical_offset >= self.start();
        assert_eq!(bodies.contains(&sent.body), is_kept, "{}", sent.key);
    }

    fn step(&mut self, step: &Do) {
        match step {
            Do::Append {
                queue_key,
                len,
                tag,
            } => self.append(*queue_key, &[*len], *tag),
            Do::Batch {
                queue_key,
                count,
                tag,
            } => self.append(*queue_key, &vec![50; *count], *tag),
            Do::Flush => drop(self.store().durability().flush().unwrap()),
            Do::Dispatch => self.dispatch(),
            Do::SyncQueues => self.store().checkpoints().sync_queues(0).unwrap(),
            Do::Checkpoint => self.store().checkpoints().write().unwrap(),
            Do::Prepare => while self.store().preparation().step().unwrap() {},
            Do::Pass { ms } => self.clock.advance(Duration::from_millis(*ms)),
            Do::Read {
                queue_key,
                from,
                tag,
            } => self.read(*queue_key, *from, *tag),
            Do::ByTime { queue_key, nth } => self.by_time(*queue_key, *nth),
            Do::ByKey { nth } => self.by_key(*nth),
            // The records of a deleted topic are in the log still: a start that feeds the queues
            // from there, as the official broker's does, brings them back.
            Do::Close | Do::Kill if self.deleted => {}
            Do::Close => {
                assert!(self.store().close().unwrap());
                self.open();
                assert!(self.store().report().was_clean);
            }
            Do::Kill => {
                self.open();
                assert!(!self.store().report().was_clean);
            }
            Do::RemoveOldest => drop(
                self.store()
                    .retention()
                    .remove_oldest(None, 1, None)
                    .unwrap(),
            ),
            Do::DeleteTopic { topic } => {
                self.dispatch();
                self.store()
                    .topics()
                    .delete_topic(TOPICS[*topic].as_bytes())
                    .unwrap();
                self.queues.retain(|queue_key, _| queue_key.0 != *topic);
                self.deleted = true;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_store_is_what_a_list_is(
        is_sync: bool,
        has_pool: bool,
        steps in proptest::collection::vec(one(), 1..120),
    ) {
        let mut pair = Pair::new(is_sync, has_pool);
        for step in &steps {
            pair.step(step);
        }
        pair.store().durability().flush().unwrap();
        for topic in 0..TOPICS.len() {
            for queue_id in 0..2 {
                let queue_key = (topic, queue_id);
                let kept = pair.kept(queue_key);
                let kept: Vec<u64> = kept.iter().map(|sent| sent.at.queue_offset).collect();
                for from in kept {
                    pair.read(queue_key, from, None);
                }
            }
        }
        prop_assert_eq!(pair.twin.bus_errors(), 0);
    }
}
