//! The request processors from canned bytes, by one thread and by two, each with its own fast path
//! over one store: the processor time of an operation by two threads beside one. No sockets; the
//! store's threads are stopped, its pages are populated ahead, and dispatch is done between the rounds.
#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on ends with the reason"
)]

use std::sync::{Arc, Barrier};

use mqcore_benches::bench_dir::BenchDir;
use mqcore_benches::gauge::thread_ns;
use mqcore_benches::rows::{Row, Rows};
use mqcore_benches::served::{AT_ONCE, Served, pulls, sends};
use mqcore_benches::stats::{median, median_ratio};
use mqcore_benches::stores::{RealStore, dispatch_all, populated};
use mqcore_benches::{by_mode, is_wanted};
use mqcore_record::body_crc;

/// Bytes of a body.
const BODY_BYTES: usize = 1_024;
/// All rounds of a row fit one log file, which is populated before the first: three loads a round
/// of some 1,300 bytes a send. The files of all stores, and those after them, are so short together
/// that the kernel does not begin to write them back: a page that it wrote would fault again.
const SEGMENT_BYTES: &str = "134217728";
/// Operations of a thread and round: milliseconds, so that starting it is no part of the figure.
const SENDS: usize = 1_600;
const PULLS: usize = 6_400;
const COPIES: usize = 102_400;
/// What two threads may cost beside one.
const RATIO_MAX: f64 = 1.15;

/// Rounds of a row that count.
fn rounds_count() -> usize {
    by_mode(15, 11)
}

/// One thread's work: so many operations.
trait Work: Send {
    fn run(&mut self, operations: usize);
}

/// Requests through a fast path.
struct Requests {
    served: Served,
    bytes: Vec<u8>,
}

impl Work for Requests {
    fn run(&mut self, operations: usize) {
        let before = self.served.fast_path.connections.stats.requests;
        for _ in 0..operations / AT_ONCE as usize {
            assert!(self.served.turn(&self.bytes) > 0);
        }
        let executed = self.served.fast_path.connections.stats.requests - before;
        assert_eq!(executed, operations as u64);
    }
}

/// What the machine itself makes of two threads: the same bytes copied and summed, in memory of the
/// thread's own.
struct Copies {
    from: Vec<u8>,
    into: Vec<u8>,
}

impl Work for Copies {
    fn run(&mut self, operations: usize) {
        let mut at = 0;
        for _ in 0..operations {
            if at + self.from.len() > self.into.len() {
                at = 0;
            }
            let from = std::hint::black_box(&self.from);
            std::hint::black_box(body_crc(from));
            self.into[at..at + from.len()].copy_from_slice(from);
            at += from.len();
        }
    }
}

/// Nanoseconds of processor time per operation, by as many threads as there is work, at once.
fn ns_per_operation(works: &mut [&mut dyn Work], operations: usize) -> f64 {
    let barrier = Barrier::new(works.len());
    let count = works.len();
    let spent: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = works
            .iter_mut()
            .map(|work| {
                scope.spawn(|| {
                    barrier.wait();
                    let before = thread_ns();
                    work.run(operations);
                    thread_ns() - before
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    spent as f64 / (count * operations) as f64
}

/// Nanoseconds per operation of the rounds of one row.
#[derive(Default)]
struct Rounds {
    one: Vec<f64>,
    two: Vec<f64>,
    /// By two threads that share nothing.
    apart: Vec<f64>,
}

impl Rounds {
    /// Rounds of one thread, of two over one store, and of two over a store each, in turn.
    fn measure(
        shared: &mut [Requests; 2],
        apart: &mut [Requests; 2],
        operations: usize,
        between: impl Fn(),
    ) -> Self {
        let mut rounds = Self::default();
        // One more, the first, is not counted: what is made once is made in it.
        for round in 0..=rounds_count() {
            let [first, second] = &mut *shared;
            let alone: &mut dyn Work = if round % 2 == 0 { first } else { second };
            let one = ns_per_operation(&mut [alone], operations);
            between();
            let [first, second] = &mut *shared;
            let two = ns_per_operation(&mut [first, second], operations);
            between();
            let [first, second] = &mut *apart;
            let by_itself = ns_per_operation(&mut [first, second], operations);
            between();
            if round > 0 {
                rounds.one.push(one);
                rounds.two.push(two);
                rounds.apart.push(by_itself);
            }
        }
        rounds
    }

    fn add(&self, rows: &mut Rows, what: &str, note: &str) {
        let beside = [
            ("1", &self.one, "by one thread"),
            (
                "2 over a store each",
                &self.apart,
                "by two that share nothing",
            ),
        ];
        for (other, limits, words) in beside {
            let pairs: Vec<_> = self
                .two
                .iter()
                .copied()
                .zip(limits.iter().copied())
                .collect();
            let ratio = median_ratio(&pairs);
            rows.add(&Row {
                name: &format!("2 threads beside {other}: {what}"),
                goal: &format!("<= {RATIO_MAX} times {words}"),
                unit: "ns each",
                reached: Some(median(&self.two)),
                limit: Some(median(limits)),
                ratio: Some(ratio),
                missed: Some(ratio > RATIO_MAX),
                note: note.to_owned(),
            });
        }
    }
}

/// A store that is ready, and two fast paths.
struct Bench {
    stores: Vec<Arc<RealStore>>,
    requests: [Requests; 2],
    // Removed last.
    _bench_dirs: Vec<BenchDir>,
}

impl Bench {
    /// Two fast paths over one store, or over a store each.
    fn new(store_count: usize, topics: [&str; 2], bytes: &[Vec<u8>; 2]) -> Self {
        let bench_dirs: Vec<_> = (0..store_count)
            .map(|_| BenchDir::new("processors"))
            .collect();
        let pairs = [("mappedFileSizeCommitLog", SEGMENT_BYTES)];
        let stores: Vec<_> = bench_dirs
            .iter()
            .map(|dir| populated(dir.path(), &pairs))
            .collect();
        let first = Served::first(&stores[0], &topics);
        let second = match stores.get(1) {
            Some(store) => Served::first(store, &topics),
            None => first.beside(&topics),
        };
        let [of_first, of_second] = bytes.clone();
        let requests = [(first, of_first), (second, of_second)];
        Self {
            stores,
            requests: requests.map(|(served, bytes)| Requests { served, bytes }),
            _bench_dirs: bench_dirs,
        }
    }

    fn store_some(&mut self, topic: &str) {
        for requests in &mut self.requests {
            for _ in 0..100 {
                assert!(requests.served.turn(&sends(topic, BODY_BYTES)) > 0);
            }
        }
    }

    fn dispatch(stores: &[Arc<RealStore>]) {
        for store in stores {
            dispatch_all(store);
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for store in &self.stores {
            store.abandon();
        }
    }
}

fn row(rows: &mut Rows, what: &str, topics: [&str; 2], bytes: &[Vec<u8>; 2], operations: usize) {
    if !is_wanted(what) {
        return;
    }
    // What other benches left to be written back is not left to this one.
    let _status = std::process::Command::new("sync").status();
    let mut shared = Bench::new(1, topics, bytes);
    let mut apart = Bench::new(2, topics, bytes);
    for bench in [&mut shared, &mut apart] {
        bench.store_some(topics[0]);
        Bench::dispatch(&bench.stores);
    }
    let stores: Vec<_> = shared.stores.iter().chain(&apart.stores).cloned().collect();
    let between = || Bench::dispatch(&stores);
    let rounds = Rounds::measure(
        &mut shared.requests,
        &mut apart.requests,
        operations,
        between,
    );
    rounds.add(
        rows,
        what,
        "1 KB, 32 requests in a feed; processor time of the threads",
    );
}

/// What the machine makes of two threads that copy and sum in memory of their own.
fn machine_row(rows: &mut Rows) {
    let name = "2 threads beside 1: copy + CRC, nothing shared";
    if !is_wanted(name) {
        return;
    }
    let copies = || Copies {
        from: vec![b'x'; BODY_BYTES],
        into: vec![0; 8 << 20],
    };
    let (mut first, mut second) = (copies(), copies());
    let pairs: Vec<_> = (0..=rounds_count())
        .map(|_| {
            let one = ns_per_operation(&mut [&mut first], COPIES);
            (
                ns_per_operation(&mut [&mut first, &mut second], COPIES),
                one,
            )
        })
        .skip(1)
        .collect();
    let (two, one): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    rows.add(&Row {
        name,
        goal: "shown",
        unit: "ns each",
        reached: Some(median(&two)),
        limit: Some(median(&one)),
        ratio: Some(median_ratio(&pairs)),
        missed: None,
        note: "1 KB, memory of each thread's own: above 1, the two processors share a core"
            .to_owned(),
    });
}

fn main() {
    let mut rows = Rows::new("processors");
    machine_row(&mut rows);
    let topics = ["flights", "delays"];
    let bytes = topics.map(|topic| sends(topic, BODY_BYTES));
    row(&mut rows, "sends, a topic each", topics, &bytes, SENDS);
    let topics = ["flights", "flights"];
    let bytes = topics.map(|topic| sends(topic, BODY_BYTES));
    row(&mut rows, "sends, one topic", topics, &bytes, SENDS);
    let bytes = topics.map(pulls);
    row(&mut rows, "pulls of 32, one topic", topics, &bytes, PULLS);
}
