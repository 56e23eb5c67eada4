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
/// All rounds of a row fit one log file, which is populated before the first.
const SEGMENT_BYTES: &str = "1073741824";
/// Bytes of a record of these sends, with room to spare.
const RECORD_BYTES_MAX: usize = 1_400;
/// Operations of a thread and round: some 10 ms, so that starting it is no part of the figure.
const OPERATIONS: usize = 10_240;
/// More of them where each is short: nothing is stored.
const PULLS: usize = 40_960;
/// What two threads may cost beside one.
const RATIO_MAX: f64 = 1.15;

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

/// Rounds of one thread and of two in turn, and what is done between them.
fn compare(
    (first, second): (&mut dyn Work, &mut dyn Work),
    operations: usize,
    between: impl Fn(),
) -> Vec<(f64, f64)> {
    let mut pairs = Vec::new();
    // One more, the first, is not counted: what is made once is made in it.
    for round in 0..=by_mode(15, 7) {
        let alone: &mut dyn Work = if round % 2 == 0 { first } else { second };
        let one = ns_per_operation(&mut [alone], operations);
        between();
        let two = ns_per_operation(&mut [&mut *first, &mut *second], operations);
        between();
        if round > 0 {
            pairs.push((two, one));
        }
    }
    pairs
}

fn add(rows: &mut Rows, name: &str, pairs: &[(f64, f64)], goal: Option<f64>, note: String) {
    let (two, one): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let ratio = median_ratio(pairs);
    rows.add(&Row {
        name,
        goal: &goal.map_or("shown".to_owned(), |max| {
            format!("<= {max} times by one thread")
        }),
        unit: "ns each",
        reached: Some(median(&two)),
        limit: Some(median(&one)),
        ratio: Some(ratio),
        missed: goal.map(|max| ratio > max),
        note,
    });
}

/// Two fast paths over one store, with what each is fed.
fn requests(store: &Arc<RealStore>, topics: [&str; 2], bytes: [Vec<u8>; 2]) -> [Requests; 2] {
    let first = Served::first(store, &topics);
    let second = first.beside(&topics);
    let [of_first, of_second] = bytes;
    [(first, of_first), (second, of_second)].map(|(served, bytes)| Requests { served, bytes })
}

fn send_rows(rows: &mut Rows, name: &str, topics: [&str; 2]) {
    if !is_wanted(name) {
        return;
    }
    let bench_dir = BenchDir::new("processors");
    let store = populated(
        bench_dir.path(),
        &[("mappedFileSizeCommitLog", SEGMENT_BYTES)],
    );
    // Three loads of a thread in each round, and the round that does not count.
    let stored = OPERATIONS * 3 * (by_mode(15, 7) + 1) * RECORD_BYTES_MAX;
    assert!(stored < 1 << 30, "the rounds would need another file");
    let bytes = topics.map(|topic| sends(topic, BODY_BYTES));
    let [mut first, mut second] = requests(&store, topics, bytes);
    let pairs = compare((&mut first, &mut second), OPERATIONS, || {
        dispatch_all(&store)
    });
    let note = "sends of 1 KB, 32 in a feed; the limit is one thread".to_owned();
    add(rows, name, &pairs, Some(RATIO_MAX), note);
    store.abandon();
}

fn pull_rows(rows: &mut Rows, name: &str) {
    if !is_wanted(name) {
        return;
    }
    let bench_dir = BenchDir::new("processors");
    let store = populated(
        bench_dir.path(),
        &[("mappedFileSizeCommitLog", SEGMENT_BYTES)],
    );
    let topics = ["flights", "flights"];
    let bytes = [pulls("flights"), pulls("flights")];
    let [mut first, mut second] = requests(&store, topics, bytes);
    for _ in 0..100 {
        assert!(first.served.turn(&sends("flights", BODY_BYTES)) > 0);
    }
    dispatch_all(&store);
    let pairs = compare((&mut first, &mut second), PULLS, || {});
    let note = "pulls of 32 messages of 1 KB in memory, 32 in a feed; the limit is one thread";
    add(rows, name, &pairs, Some(RATIO_MAX), note.to_owned());
    store.abandon();
}

fn machine_row(rows: &mut Rows, name: &str) {
    if !is_wanted(name) {
        return;
    }
    let copies = || Copies {
        from: vec![b'x'; BODY_BYTES],
        into: vec![0; 8 << 20],
    };
    let (mut first, mut second) = (copies(), copies());
    let pairs = compare((&mut first, &mut second), PULLS, || {});
    let note = "copy + CRC of 1 KB, memory of each thread's own: what this machine makes of two";
    add(rows, name, &pairs, None, note.to_owned());
}

fn main() {
    let mut rows = Rows::new("processors");
    machine_row(&mut rows, "2 threads beside 1: nothing shared");
    let name = "2 threads beside 1: sends, a topic each";
    send_rows(&mut rows, name, ["flights", "delays"]);
    let name = "2 threads beside 1: sends, one topic";
    send_rows(&mut rows, name, ["flights", "flights"]);
    pull_rows(&mut rows, "2 threads beside 1: pulls, one topic");
}
