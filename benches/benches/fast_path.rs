//! What a request costs between its socket's bytes and those of its answer: 32 of them at once, as
//! they come when a client has 32 outstanding.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mqcore_benches::bench_dir::BenchDir;
use mqcore_benches::stores::ready;
use mqcore_engine::clock::SystemClock;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::store::Store;
use mqcore_fast_path::policy::{Group, Topic};
use mqcore_fast_path::repeats::Repeats;
use mqcore_fast_path::{ConnectionId, FastPath, numbers};
use mqcore_record::Host;
use mqcore_wire::command::encode;
use mqcore_wire::{Head, Serialization};

/// Requests in one feed.
const AT_ONCE: i32 = 32;
/// Bytes of a body.
const BODY_BYTES: usize = 1_024;
/// A run stores some gigabytes: short enough that they stay in memory.
const MEASURED: Duration = Duration::from_millis(1_500);

/// The unique key of the messages; its last half is a number.
const KEY: &str = "7F0000010001000000000000000000FF";
/// The settings of a broker with a window: ten minutes, 64 MiB.
const WINDOW_MS: i64 = 600_000;
const WINDOW_BYTES: usize = 64 << 20;

struct Served {
    store: Arc<Store<RealDisk, SystemClock>>,
    fast_path: FastPath<RealDisk, SystemClock>,
    client: ConnectionId,
    // Removed last.
    _bench_dir: BenchDir,
}

impl Served {
    fn new(name: &str) -> Self {
        let bench_dir = BenchDir::new(name);
        // The first log file is there and in memory: a send that finds none would wait for it.
        let store = ready(bench_dir.path(), &[]);
        let mut fast_path = FastPath::new(Arc::clone(&store), 0);
        let topic = Topic::plain(4);
        let group = Group::PLAIN;
        fast_path.policy.topics.insert("flights".into(), topic);
        fast_path.policy.groups.insert("readers".into(), group);
        let host = Host::V4 {
            address: [127, 0, 0, 1],
            port: 40_000,
        };
        let client = fast_path.open(host, "127.0.0.1:40000");
        Self {
            store,
            fast_path,
            client,
            _bench_dir: bench_dir,
        }
    }

    /// Feeds bytes and takes the answers' number of bytes, without copying them.
    fn turn(&mut self, bytes: &[u8]) -> usize {
        if self
            .fast_path
            .feed(self.client, black_box(bytes), 0)
            .is_err()
        {
            return 0;
        }
        self.fast_path.drain(0, &mut Vec::new());
        let mut ids = Vec::new();
        self.fast_path.connections.take_dirty(&mut ids);
        let taken = self
            .fast_path
            .connections
            .change_output(self.client, |output| {
                let queued = output.queued_bytes();
                let mut slices = Vec::with_capacity(64);
                output.slices(64, &mut slices);
                black_box(&slices);
                output.sent(usize::MAX);
                queued
            });
        taken.unwrap_or(0)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _closed = self.store.close();
    }
}

fn request(code: i32, opaque: i32, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let head = Head {
        code,
        version: 409,
        opaque,
        serialization: Serialization::Json,
        ..Head::default()
    };
    encode(&head, fields.iter().copied(), body).unwrap_or_default()
}

fn sends() -> Vec<u8> {
    let properties =
        format!("KEYS\u{1}N14228\u{2}UNIQ_KEY\u{1}{KEY}\u{2}WAIT\u{1}true\u{2}TAGS\u{1}EWR");
    let body = vec![b'x'; BODY_BYTES];
    let one = |opaque: i32| {
        let queue = (opaque % 4).to_string();
        let fields = [
            ("a", "producer-group"),
            ("b", "flights"),
            ("c", "TBW102"),
            ("d", "4"),
            ("e", &queue),
            ("f", "0"),
            ("g", "1795249596000"),
            ("h", "0"),
            ("i", properties.as_str()),
            ("j", "0"),
            ("k", "false"),
            ("m", "false"),
        ];
        request(310, opaque, &fields, &body)
    };
    (0..AT_ONCE).flat_map(one).collect()
}

fn pulls() -> Vec<u8> {
    let one = |opaque: i32| {
        let (queue, offset) = ((opaque % 4).to_string(), (opaque * 7).to_string());
        let fields = [
            ("consumerGroup", "readers"),
            ("topic", "flights"),
            ("queueId", queue.as_str()),
            ("queueOffset", offset.as_str()),
            ("maxMsgNums", "32"),
            ("sysFlag", "6"),
            ("commitOffset", "0"),
            ("suspendTimeoutMillis", "15000"),
            ("subscription", "*"),
            ("subVersion", "0"),
        ];
        request(11, opaque, &fields, &[])
    };
    (0..AT_ONCE).flat_map(one).collect()
}

fn send(criterion: &mut Criterion) {
    let mut served = Served::new("fast path-send");
    let bytes = sends();
    let mut group = criterion.benchmark_group("fast_path");
    group.measurement_time(MEASURED).warm_up_time(MEASURED / 3);
    group.throughput(Throughput::Elements(AT_ONCE.unsigned_abs().into()));
    group.bench_function("send/32 of 1 KiB", |bencher| {
        bencher.iter(|| served.turn(&bytes));
    });
    group.finish();
}

/// Every send has another unique key, as sends have: without and with a window that remembers them,
/// which is full after some two million.
fn remembered(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fast_path");
    group.measurement_time(MEASURED).warm_up_time(MEASURED);
    group.throughput(Throughput::Elements(AT_ONCE.unsigned_abs().into()));
    for is_remembering in [false, true] {
        let mut served = Served::new("fast path-remembered");
        if is_remembering {
            let opened = Repeats::open(&served.store, WINDOW_MS, WINDOW_BYTES);
            served
                .fast_path
                .remember(opened.ok().map(|(repeats, _found)| repeats));
        }
        let mut bytes = sends();
        let ends = key_ends(&bytes);
        let mut number = 0_u64;
        let name = if is_remembering {
            "send/32 of 1 KiB, remembered"
        } else {
            "send/32 of 1 KiB, each its key"
        };
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for end in &ends {
                    number += 1;
                    let digits = format!("{number:016X}");
                    if let Some(key) = bytes.get_mut(end - digits.len()..*end) {
                        key.copy_from_slice(digits.as_bytes());
                    }
                }
                served.turn(&bytes)
            });
        });
        let numbers = numbers::of(&served.fast_path);
        assert!(
            numbers
                .iter()
                .all(|(name, count)| *name != "repeats" || *count == 0)
        );
    }
    group.finish();
}

/// Where the unique keys in some requests end.
fn key_ends(bytes: &[u8]) -> Vec<usize> {
    let key = KEY.as_bytes();
    let found = bytes.windows(key.len()).enumerate();
    let found = found.filter(|(_, window)| *window == key);
    found.map(|(at, _)| at + key.len()).collect()
}

fn pull(criterion: &mut Criterion) {
    let mut served = Served::new("fast path-pull");
    for _round in 0..100 {
        served.turn(&sends());
    }
    let _lasting = served.store.durability().flush();
    let appended = served.store.files().positions.appended.position();
    let dispatched = &served.store.files().positions.dispatched;
    dispatched.wait(appended, Duration::from_secs(10), || false);
    let bytes = pulls();
    let mut group = criterion.benchmark_group("fast_path");
    group.measurement_time(MEASURED).warm_up_time(MEASURED / 3);
    group.throughput(Throughput::Elements(AT_ONCE.unsigned_abs().into()));
    group.bench_function("pull/32 of 32 messages", |bencher| {
        bencher.iter(|| served.turn(&bytes));
    });
    group.finish();
}

criterion_group!(benches, send, remembered, pull);
criterion_main!(benches);
