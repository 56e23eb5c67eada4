//! What a request of each kind costs a fast path, and how much of that it holds locks that the fast
//! paths of all threads share. Without sockets; the store has no threads.
//!
//! Two builds give the two halves: as it is, the processor time; with the feature `lock-times`, what each
//! lock was held. `serial.py` joins them. Readings of the clock are part of a hold: the row of an
//! empty hold gives how much.
#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on ends with the reason"
)]

use std::collections::HashMap;
use std::sync::Arc;

use mqcore_benches::bench_dir::BenchDir;
use mqcore_benches::by_mode;
use mqcore_benches::gauge::thread_ns;
use mqcore_benches::rows::{Row, Rows};
use mqcore_benches::served::{
    AT_ONCE, KEY, QUEUES, Served, key_ends, number_keys, pulls, request, send, sends,
};
use mqcore_benches::stores::{RealStore, dispatch_all, populated};
use mqcore_fast_path::repeats::Repeats;
use mqcore_record::{Found, head as record};
use mqcore_wire::{CommandRef, FrameReader, WireError};

const TOPIC: &str = "flights";
/// Bytes of a body.
const BODY_BYTES: usize = 1_024;
/// All that is stored fits one log file, which is populated before.
const SEGMENT_BYTES: &str = "1073741824";
/// The settings of a broker that remembers sends: ten minutes, 64 MiB.
const WINDOW_MS: i64 = 600_000;
const WINDOW_BYTES: usize = 64 << 20;
/// Feeds before those that count: what is made once is made in them.
const WARM_FEEDS: usize = 50;
/// Digits of the physical offset at the end of the id of a half message.
const OFFSET_DIGITS: usize = 16;

const UPDATE_CONSUMER_OFFSET: i32 = 15;
const END_TRANSACTION: i32 = 37;
const POP_MESSAGE: i32 = 200_050;
const ACK_MESSAGE: i32 = 200_051;
const COMMIT: &str = "8";

/// An answer, decoded: code, fields and body.
type Answer = (i32, HashMap<String, String>, Vec<u8>);

/// Feeds bytes and decodes the answers.
fn asked(served: &mut Served, bytes: &[u8]) -> Vec<Answer> {
    let mut all = Vec::new();
    served.feed(bytes, |slices| {
        for slice in slices {
            all.extend_from_slice(slice);
        }
    });
    let mut answers = Vec::new();
    FrameReader::default()
        .feed::<WireError>(&all, |frame| {
            let command = CommandRef::decode(frame)?.to_owned();
            let ext = command.ext.into_iter();
            let fields = ext.map(|(name, value)| (name.to_string(), value.to_string()));
            answers.push((command.code, fields.collect(), command.body.to_vec()));
            Ok(())
        })
        .unwrap();
    answers
}

/// What locks were held, by type, in nanoseconds; nothing in a build that does not count it.
fn held() -> Vec<(&'static str, u64, f64)> {
    #[cfg(feature = "lock-times")]
    return mqcore_engine::lock::times::take()
        .into_iter()
        .map(|(name, held)| (name, held.count, held.held.as_nanos() as f64))
        .collect();
    #[cfg(not(feature = "lock-times"))]
    Vec::new()
}

/// Sums over the feeds of one kind of request.
#[derive(Default)]
struct Sums {
    requests: u64,
    processor_ns: u64,
    held: HashMap<&'static str, (u64, f64)>,
}

impl Sums {
    /// Feeds requests, all of which must be answered by the fast path, and counts what they took.
    fn feed(&mut self, served: &mut Served, bytes: &[u8]) {
        let before = served.fast_path.connections.stats.requests;
        drop(held());
        let began = thread_ns();
        assert!(served.turn(bytes) > 0);
        self.processor_ns += thread_ns() - began;
        for (name, count, ns) in held() {
            let sum = self.held.entry(name).or_default();
            sum.0 += count;
            sum.1 += ns;
        }
        self.requests += served.fast_path.connections.stats.requests - before;
        assert!(served.fast_path.take_escalated().is_empty());
    }

    fn rows(&self, rows: &mut Rows, kind: &str) {
        let requests = self.requests as f64;
        let note = format!("{} requests", self.requests);
        if cfg!(feature = "lock-times") {
            let mut held: Vec<_> = self.held.iter().collect();
            held.sort_by(|one, other| other.1.1.total_cmp(&one.1.1));
            for (name, (count, ns)) in held {
                let note = format!("taken {:.2} times each", *count as f64 / requests);
                shown(rows, &format!("{kind}: held {name}"), ns / requests, note);
            }
        } else {
            let ns = self.processor_ns as f64 / requests;
            shown(rows, &format!("{kind}: processor time"), ns, note);
        }
    }
}

fn shown(rows: &mut Rows, name: &str, ns: f64, note: String) {
    rows.add(&Row {
        name,
        goal: "shown",
        unit: "ns each",
        reached: Some(ns),
        note,
        ..Row::default()
    });
}

/// A store and its fast path.
struct Bench {
    store: Arc<RealStore>,
    served: Served,
    feeds: usize,
    // Removed last.
    _bench_dir: BenchDir,
}

impl Bench {
    fn new() -> Self {
        let bench_dir = BenchDir::new("serial");
        let store = populated(
            bench_dir.path(),
            &[("mappedFileSizeCommitLog", SEGMENT_BYTES)],
        );
        let served = Served::first(&store, &[TOPIC]);
        Self {
            store,
            served,
            feeds: by_mode(2_000, 600),
            _bench_dir: bench_dir,
        }
    }

    /// Runs feeds of a kind: what is fed is made, and dispatched behind it, outside the figures.
    fn run(&mut self, mut make: impl FnMut(&mut Served, &RealStore) -> Vec<u8>) -> Sums {
        let mut sums = Sums::default();
        for feed in 0..self.feeds + WARM_FEEDS {
            let bytes = make(&mut self.served, &self.store);
            if feed == WARM_FEEDS {
                sums = Sums::default();
            }
            sums.feed(&mut self.served, &bytes);
            dispatch_all(&self.store);
        }
        sums
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.store.abandon();
    }
}

/// What a hold of nothing is counted as.
fn empty_hold(rows: &mut Rows) {
    if !cfg!(feature = "lock-times") {
        return;
    }
    let (lock, count) = (mqcore_engine::lock::Mutex::new(()), 1_000_000);
    drop(held());
    for _ in 0..count {
        drop(std::hint::black_box(lock.lock()));
    }
    let ns: f64 = held().iter().map(|(_, _, ns)| ns).sum();
    let note = "part of each hold below: two readings of the clock".to_owned();
    shown(rows, "empty hold", ns / f64::from(count), note);
}

fn send_rows(rows: &mut Rows) {
    let bytes = sends(TOPIC, BODY_BYTES);
    Bench::new().run(|_, _| bytes.clone()).rows(rows, "send");
    let mut bench = Bench::new();
    let opened = Repeats::open(&bench.store, WINDOW_MS, WINDOW_BYTES).unwrap();
    bench.served.fast_path.remember(Some(opened.0));
    let (mut bytes, mut number) = (bytes, 0);
    let ends = key_ends(&bytes);
    bench
        .run(|_, _| {
            number_keys(&mut bytes, &ends, &mut number);
            bytes.clone()
        })
        .rows(rows, "send, remembered");
}

fn pull_rows(rows: &mut Rows) {
    let mut bench = Bench::new();
    for _ in 0..100 {
        bench.served.turn(&sends(TOPIC, BODY_BYTES));
    }
    dispatch_all(&bench.store);
    let bytes = pulls(TOPIC);
    bench.run(|_, _| bytes.clone()).rows(rows, "pull of 32");
    let mut offset = 0;
    bench
        .run(|_, _| {
            offset += 1;
            offset_updates(offset)
        })
        .rows(rows, "commit of an offset");
}

fn offset_updates(offset: i32) -> Vec<u8> {
    let one = |opaque: i32| {
        let (queue, offset) = ((opaque % QUEUES).to_string(), (offset % 800).to_string());
        let fields = [
            ("consumerGroup", "readers"),
            ("topic", TOPIC),
            ("queueId", queue.as_str()),
            ("commitOffset", offset.as_str()),
        ];
        request(UPDATE_CONSUMER_OFFSET, opaque, &fields, &[])
    };
    (0..AT_ONCE).flat_map(one).collect()
}

fn pop_request(opaque: i32) -> Vec<u8> {
    let fields = [
        ("consumerGroup", "readers"),
        ("topic", TOPIC),
        ("queueId", "-1"),
        ("maxMsgNums", "32"),
        ("invisibleTime", "60000"),
        ("pollTime", "0"),
        ("bornTime", "0"),
        ("initMode", "0"),
        ("expType", "TAG"),
        ("exp", "*"),
        ("order", "false"),
    ];
    request(POP_MESSAGE, opaque, &fields, &[])
}

/// Pops of 32 messages, and acknowledgements of single ones, in turn.
fn pop_rows(rows: &mut Rows) {
    let mut bench = Bench::new();
    // Some feeds are not counted, and queues give out less than 32 at their end.
    let feeds = bench.feeds + WARM_FEEDS;
    for _ in 0..2 * feeds {
        bench.served.turn(&sends(TOPIC, 128));
    }
    dispatch_all(&bench.store);
    let (mut pops, mut acks) = (Sums::default(), Sums::default());
    for feed in 0..feeds {
        if feed == WARM_FEEDS {
            (pops, acks) = (Sums::default(), Sums::default());
        }
        // A pop whose answer is read: one more, of the next messages, is the one that is counted.
        let answers = asked(&mut bench.served, &pop_request(0));
        let bytes = acknowledgements(&answers);
        acks.feed(&mut bench.served, &bytes);
        pops.feed(&mut bench.served, &pop_request(0));
    }
    pops.rows(rows, "pop of 32");
    acks.rows(rows, "acknowledgement");
}

fn acknowledgements(answers: &[Answer]) -> Vec<u8> {
    let (code, fields, body) = answers.first().unwrap();
    assert_eq!(*code, 0, "a pop that found nothing");
    let field = |name: &str| fields.get(name).unwrap().as_str();
    let mut rest = body.as_slice();
    let (mut bytes, mut opaque) = (Vec::new(), 0);
    while let Ok(Found::Record(view)) = record(rest) {
        let (queue, offset) = (view.queue_id.to_string(), view.queue_offset.to_string());
        let start = field("startOffsetInfo")
            .split(';')
            .find(|part| part.split(' ').nth(1) == Some(&queue))
            .and_then(|part| part.rsplit(' ').next())
            .unwrap();
        let handle = format!(
            "{start} {} {} {} 0 broker-a {queue} {offset}",
            field("popTime"),
            field("invisibleTime"),
            field("reviveQid"),
        );
        let fields = [
            ("consumerGroup", "readers"),
            ("topic", TOPIC),
            ("queueId", queue.as_str()),
            ("extraInfo", handle.as_str()),
            ("offset", offset.as_str()),
        ];
        bytes.extend(request(ACK_MESSAGE, opaque, &fields, &[]));
        opaque += 1;
        rest = rest.get(view.total_len_bytes..).unwrap_or_default();
    }
    bytes
}

/// Half messages and their commits, in turn.
fn transaction_rows(rows: &mut Rows) {
    let mut bench = Bench::new();
    let properties =
        format!("TRAN_MSG\u{1}true\u{2}PGROUP\u{1}p\u{2}UNIQ_KEY\u{1}{KEY}\u{2}WAIT\u{1}true\u{2}");
    let body = vec![b'x'; 128];
    let halves: Vec<u8> = (0..AT_ONCE)
        .flat_map(|number| send(TOPIC, number, "4", &properties, &body))
        .collect();
    bench
        .run(|served, store| {
            let answers = asked(served, &halves);
            dispatch_all(store);
            commits(&answers)
        })
        .rows(rows, "commit of a transaction");
}

fn commits(answers: &[Answer]) -> Vec<u8> {
    let one = |(opaque, (code, fields, _)): (i32, &Answer)| {
        assert_eq!(*code, 0, "a half message that was refused");
        let id = fields.get("msgId").unwrap();
        let physical = u64::from_str_radix(&id[id.len() - OFFSET_DIGITS..], 16).unwrap();
        let physical = physical.to_string();
        let fields = [
            ("producerGroup", "p"),
            (
                "tranStateTableOffset",
                fields.get("queueOffset").unwrap().as_str(),
            ),
            ("commitLogOffset", physical.as_str()),
            ("commitOrRollback", COMMIT),
            ("fromTransactionCheck", "false"),
            ("msgId", "serial"),
            ("topic", TOPIC),
        ];
        request(END_TRANSACTION, opaque, &fields, &[])
    };
    (0..).zip(answers).flat_map(one).collect()
}

fn main() {
    let name = if cfg!(feature = "lock-times") {
        "serial-locks"
    } else {
        "serial"
    };
    let mut rows = Rows::new(name);
    empty_hold(&mut rows);
    send_rows(&mut rows);
    pull_rows(&mut rows);
    pop_rows(&mut rows);
    transaction_rows(&mut rows);
}
