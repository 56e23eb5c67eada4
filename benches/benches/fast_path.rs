//! What a request costs between its socket's bytes and those of its answer: 32 of them at once, as
//! they come when a client has 32 outstanding.

use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mqcore_benches::bench_dir::BenchDir;
use mqcore_benches::served::{AT_ONCE, Served, key_ends, number_keys, pulls, sends};
use mqcore_benches::stores::{RealStore, ready};
use mqcore_fast_path::numbers;
use mqcore_fast_path::repeats::Repeats;

/// Bytes of a body.
const BODY_BYTES: usize = 1_024;
/// A run stores some gigabytes: short enough that they stay in memory.
const MEASURED: Duration = Duration::from_millis(1_500);

/// The settings of a broker with a window: ten minutes, 64 MiB.
const WINDOW_MS: i64 = 600_000;
const WINDOW_BYTES: usize = 64 << 20;

const TOPIC: &str = "flights";

struct Running {
    store: Arc<RealStore>,
    served: Served,
    // Removed last.
    _bench_dir: BenchDir,
}

impl Running {
    fn new(name: &str) -> Self {
        let bench_dir = BenchDir::new(name);
        // The first log file is there and in memory: a send that finds none would wait for it.
        let store = ready(bench_dir.path(), &[]);
        let served = Served::first(&store, &[TOPIC]);
        Self {
            store,
            served,
            _bench_dir: bench_dir,
        }
    }

    /// Feeds bytes and takes the answers' number of bytes, without copying them.
    fn turn(&mut self, bytes: &[u8]) -> usize {
        self.served.fast_path.drain(0, &mut Vec::new());
        self.served.turn(bytes)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _closed = self.store.close();
    }
}

fn send(criterion: &mut Criterion) {
    let mut running = Running::new("fast path-send");
    let bytes = sends(TOPIC, BODY_BYTES);
    let mut group = criterion.benchmark_group("fast_path");
    group.measurement_time(MEASURED).warm_up_time(MEASURED / 3);
    group.throughput(Throughput::Elements(AT_ONCE.unsigned_abs().into()));
    group.bench_function("send/32 of 1 KiB", |bencher| {
        bencher.iter(|| running.turn(&bytes));
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
        let mut running = Running::new("fast path-remembered");
        if is_remembering {
            let opened = Repeats::open(&running.store, WINDOW_MS, WINDOW_BYTES);
            running
                .served
                .fast_path
                .remember(opened.ok().map(|(repeats, _found)| repeats));
        }
        let mut bytes = sends(TOPIC, BODY_BYTES);
        let ends = key_ends(&bytes);
        let mut number = 0_u64;
        let name = if is_remembering {
            "send/32 of 1 KiB, remembered"
        } else {
            "send/32 of 1 KiB, each its key"
        };
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                number_keys(&mut bytes, &ends, &mut number);
                running.turn(&bytes)
            });
        });
        let numbers = numbers::of(&running.served.fast_path);
        assert!(
            numbers
                .iter()
                .all(|(name, count)| *name != "repeats" || *count == 0)
        );
    }
    group.finish();
}

fn pull(criterion: &mut Criterion) {
    let mut running = Running::new("fast path-pull");
    for _round in 0..100 {
        running.turn(&sends(TOPIC, BODY_BYTES));
    }
    let _lasting = running.store.durability().flush();
    let appended = running.store.files().positions.appended.position();
    let dispatched = &running.store.files().positions.dispatched;
    dispatched.wait(appended, Duration::from_secs(10), || false);
    let bytes = pulls(TOPIC);
    let mut group = criterion.benchmark_group("fast_path");
    group.measurement_time(MEASURED).warm_up_time(MEASURED / 3);
    group.throughput(Throughput::Elements(AT_ONCE.unsigned_abs().into()));
    group.bench_function("pull/32 of 32 messages", |bencher| {
        bencher.iter(|| running.turn(&bytes));
    });
    group.finish();
}

criterion_group!(benches, send, remembered, pull);
criterion_main!(benches);
