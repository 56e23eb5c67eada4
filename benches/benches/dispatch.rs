//! Dispatch: the log followed into queues and index, beside a bare walk over the same record heads;
//! the cost of many queues; how soon an append is readable through its queue. Plain timing: each
//! round needs a store of its own.
#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on ends with the reason"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use mqcore_benches::bench_dir::BenchDir;
use mqcore_benches::rows::{Row, Rows};
use mqcore_benches::stats::{median, percentile};
use mqcore_benches::stores::{RealStore, body, fill, message, open, properties};
use mqcore_benches::{by_mode, is_wanted};
use mqcore_record::{Found, head, scan_wanted};

/// A store without threads whose log holds `count` records in `queues` queues, none dispatched.
fn filled(bench_dir: &BenchDir, count: u64, queues: u64, keyed: bool) -> Arc<RealStore> {
    let segment = (1u64 << 30).to_string();
    let index = keyed.to_string();
    let store = open(
        bench_dir.path(),
        &[
            ("mappedFileSizeCommitLog", segment.as_str()),
            ("messageIndexEnable", index.as_str()),
        ],
    );
    // Every queue exists, as in a broker that runs: the making of files is another matter.
    fill(&store, queues, queues, keyed);
    while store.dispatching().step().unwrap() {}
    store.queues().write_pending().unwrap();
    store.checkpoints().sync_queues(0).unwrap();
    fill(&store, count, queues, keyed);
    store
}

/// Records per second of a walk over the heads and properties alone.
fn bare_walk(store: &RealStore) -> f64 {
    let files = store.files();
    let limit = files.positions.appended.position();
    let mut at = files.positions.dispatched.position();
    let mut count = 0u64;
    let started = Instant::now();
    while let Some(chunk) = files.chain.chunk(at, limit, 1 << 20).unwrap() {
        let bytes = chunk.bytes.as_bytes();
        let mut position = 0;
        while let Some(rest) = bytes.get(position..).filter(|rest| !rest.is_empty()) {
            match head(rest) {
                Ok(Found::Record(record)) => {
                    std::hint::black_box(scan_wanted(record.properties));
                    position += record.total_len_bytes;
                    count += 1;
                }
                Ok(Found::Blank { .. }) => position = (chunk.segment_end - at) as usize,
                Err(_) => break,
            }
        }
        if position == 0 {
            break;
        }
        at += position as u64;
    }
    count as f64 / started.elapsed().as_secs_f64()
}

fn dispatch_rate(store: &RealStore, count: u64) -> f64 {
    let started = Instant::now();
    while store.dispatching().step().unwrap() {}
    store.queues().write_pending().unwrap();
    count as f64 / started.elapsed().as_secs_f64()
}

fn dispatch(rows: &mut Rows, name: &str, queues: u64, keyed: bool, goal: f64) {
    if !is_wanted(name) {
        return;
    }
    let count = by_mode(800_000, 400_000);
    let mut rates = Vec::new();
    let mut limits = Vec::new();
    for _ in 0..by_mode(3, 2) {
        let bench_dir = BenchDir::new("dispatch");
        let store = filled(&bench_dir, count, queues, keyed);
        limits.push(bare_walk(&store));
        rates.push(dispatch_rate(&store, count));
        assert_eq!(
            store.files().positions.dispatched.position(),
            store.files().positions.appended.position()
        );
        store.abandon();
    }
    let reached = median(&rates);
    rows.add(&Row {
        name,
        goal: &format!(">= {} M records/s", goal / 1e6),
        unit: "records/s",
        reached: Some(reached),
        limit: Some(median(&limits)),
        ratio: Some(reached / median(&limits)),
        missed: Some(reached < goal),
        note: format!(
            "{count} records, queues written; the limit is a bare walk over heads and properties; \
             best round {:.2} M",
            rates.iter().copied().fold(0.0, f64::max) / 1e6
        ),
    });
}

/// Seconds from the first append until the last record is readable and the queues are written.
fn fan_out(count: u64, queues: u64) -> f64 {
    let bench_dir = BenchDir::new("queues");
    let store = open(bench_dir.path(), &[]);
    store.start().unwrap();
    // Every queue exists, as in a broker that runs: what is measured is not the making of files.
    let end = fill(&store, queues, queues, false);
    let dispatched = &store.files().positions.dispatched;
    assert!(dispatched.wait(end, Duration::from_secs(60), || false));
    store.checkpoints().sync_queues(0).unwrap();
    let started = Instant::now();
    let end = fill(&store, count, queues, false);
    assert!(dispatched.wait(end, Duration::from_secs(60), || false));
    store.queues().write_pending().unwrap();
    let took = started.elapsed().as_secs_f64();
    store.abandon();
    took
}

fn many_queues(rows: &mut Rows) {
    if !is_wanted("queues, 2 M records") {
        return;
    }
    let count = by_mode(2_000_000, 500_000);
    let rounds = by_mode(3, 2);
    let mut took = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (times, queues) in took.iter_mut().zip([1, 1_000, 10_000]) {
            let _status = std::process::Command::new("sync").status();
            times.push(fan_out(count, queues));
        }
    }
    let [one, thousand, ten_thousand] = took.map(|times| median(&times));
    let shown = count as f64;
    for (name, time, allowed, goal) in [
        (
            "1,000 queues, 2 M records, until readable",
            thousand,
            0.05,
            "<= 5 % slower than 1 queue",
        ),
        (
            "10,000 queues, 2 M records, until readable",
            ten_thousand,
            0.15,
            "<= 15 % slower than 1 queue",
        ),
    ] {
        rows.add(&Row {
            name,
            goal,
            unit: "records/s",
            reached: Some(shown / time),
            limit: Some(shown / one),
            ratio: Some(one / time),
            missed: Some(time > one * (1.0 + allowed)),
            note: format!("{count} records, {rounds} alternating rounds; the limit is one queue"),
        });
    }
}

fn readable(rows: &mut Rows) {
    if !is_wanted("append to readable") {
        return;
    }
    let bench_dir = BenchDir::new("readable");
    let store = open(bench_dir.path(), &[]);
    store.start().unwrap();
    let (body, properties) = (body(), properties(None));
    let message = message(0, &body, &properties);
    let mut times = Vec::new();
    for _ in 0..by_mode(5_000, 1_500) {
        // Caught up and asleep: the dispatcher is woken by the append.
        std::thread::sleep(Duration::from_micros(500));
        let started = Instant::now();
        let end = store.writer().append(&message).unwrap();
        let dispatched = &store.files().positions.dispatched;
        assert!(dispatched.wait(end.end(), Duration::from_secs(5), || false));
        times.push(started.elapsed().as_nanos() as u64);
        let bounds = store.topics().bounds(b"bench", 0).unwrap().unwrap();
        assert!(bounds.max > end.queue_offset);
    }
    store.abandon();
    times.sort_unstable();
    let p99 = percentile(&times, 0.99) as f64 / 1e6;
    rows.add(&Row {
        name: "append to readable through its queue, p99",
        goal: "<= 0.2 ms",
        unit: "ms",
        reached: Some(p99),
        limit: None,
        ratio: None,
        missed: Some(p99 > 0.2),
        note: format!(
            "caught up, {} appends 0.5 ms apart; p50 {:.3} ms, p99.9 {:.3} ms",
            times.len(),
            percentile(&times, 0.5) as f64 / 1e6,
            percentile(&times, 0.999) as f64 / 1e6
        ),
    });
}

fn main() {
    let mut rows = Rows::new("dispatch");
    dispatch(&mut rows, "dispatch over 4 queues", 4, false, 3e6);
    dispatch(&mut rows, "dispatch over 1,000 queues", 1_000, false, 3e6);
    dispatch(
        &mut rows,
        "dispatch over 10,000 queues",
        10_000,
        false,
        1.5e6,
    );
    dispatch(&mut rows, "dispatch with an index of one key", 4, true, 1e6);
    readable(&mut rows);
    many_queues(&mut rows);
}
