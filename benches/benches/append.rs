//! Appending in bursts and for a long time, beside (copy + CRC) into a populated map and beside a
//! bare sequential `pwrite`. Plain timing: preparation must stay outside of the clock, which a
//! sampling harness cannot show.
#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on ends with the reason"
)]

use std::time::{Duration, Instant};

use mqcore_benches::bench_dir::BenchDir;
use mqcore_benches::gauge::thread_ns;
use mqcore_benches::limits::{BareFile, PopulatedMap};
use mqcore_benches::rows::{Row, Rows};
use mqcore_benches::stats::{median, median_ratio, percentile, short};
use mqcore_benches::stores::{RealStore, body, message, properties, ready, record_len};
use mqcore_benches::{by_mode, is_wanted};

const SEGMENT_BYTES: u64 = 512 << 20;

fn segment_text() -> String {
    SEGMENT_BYTES.to_string()
}

/// Records that fit one prepared file, less the one that `ready` put there.
fn burst_len() -> u64 {
    SEGMENT_BYTES / record_len() as u64 - 2
}

fn append_loop(store: &RealStore, queue_id: i32, count: u64) {
    let (body, properties) = (body(), properties(None));
    let message = message(queue_id, &body, &properties);
    for _ in 0..count {
        store.writer().append(&message).unwrap();
    }
}

/// Records per second of one burst by `threads`, on a store made for it; with one thread also its
/// processor time per record, ns.
fn burst(threads: u64) -> (f64, f64) {
    let bench_dir = BenchDir::new("append");
    let segment = segment_text();
    let store = ready(bench_dir.path(), &[("mappedFileSizeCommitLog", &segment)]);
    let each = burst_len() / threads;
    let mut cpu = 0;
    let took = if threads == 1 {
        let cpu_before = thread_ns();
        let started = Instant::now();
        append_loop(&store, 0, each);
        let took = started.elapsed();
        cpu = thread_ns() - cpu_before;
        took
    } else {
        let gate = std::sync::Barrier::new(threads as usize + 1);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|n| {
                    let (gate, store) = (&gate, &store);
                    scope.spawn(move || {
                        gate.wait();
                        append_loop(store, i32::try_from(n).unwrap_or(0), each);
                    })
                })
                .collect();
            gate.wait();
            let started = Instant::now();
            for worker in workers {
                worker.join().unwrap();
            }
            started.elapsed()
        })
    };
    store.abandon();
    let count = (each * threads) as f64;
    (count / took.as_secs_f64(), cpu as f64 / count)
}

fn bursts(rows: &mut Rows) {
    let bench_dir = BenchDir::new("limit");
    let map = PopulatedMap::new(bench_dir.path(), SEGMENT_BYTES);
    let mut one = Vec::new();
    let mut eight = Vec::new();
    let mut ns = Vec::new();
    for _ in 0..by_mode(9, 5) {
        let (limit, limit_ns) = map.rate();
        let (alone, alone_ns) = burst(1);
        one.push((alone, limit));
        ns.push((limit_ns, alone_ns));
        if is_wanted("append, 8 threads") {
            eight.push((burst(8).0, alone));
        }
    }
    let reached =
        |pairs: &[(f64, f64)]| Some(median(&pairs.iter().map(|p| p.0).collect::<Vec<_>>()));
    let limit = |pairs: &[(f64, f64)]| Some(median(&pairs.iter().map(|p| p.1).collect::<Vec<_>>()));
    let ratio = median_ratio(&one);
    rows.add(&Row {
        name: "append, one thread, async flush",
        goal: ">= 60 % of copy + CRC into a populated map",
        unit: "records/s",
        reached: reached(&one),
        limit: limit(&one),
        ratio: Some(ratio),
        missed: Some(ratio < 0.6),
        note: format!(
            "bursts of {} records into one prepared file; best burst {} of best limit {} = {:.2}; \
             processor time {:.0} ns of the limit's {:.0} = {:.2}",
            burst_len(),
            short(best(&one, |pair| pair.0)),
            short(best(&one, |pair| pair.1)),
            best(&one, |pair| pair.0) / best(&one, |pair| pair.1),
            median(&ns.iter().map(|p| p.1).collect::<Vec<_>>()),
            median(&ns.iter().map(|p| p.0).collect::<Vec<_>>()),
            median_ratio(&ns)
        ),
    });
    if !eight.is_empty() {
        let ratio = median_ratio(&eight);
        rows.add(&Row {
            name: "append, 8 threads",
            goal: ">= 80 % of one thread's rate",
            unit: "records/s",
            reached: reached(&eight),
            limit: limit(&eight),
            ratio: Some(ratio),
            missed: Some(ratio < 0.8),
            note: "the limit is one thread's rate of the same round".to_owned(),
        });
    }
}

fn best(pairs: &[(f64, f64)], of: fn(&(f64, f64)) -> f64) -> f64 {
    pairs.iter().map(of).fold(0.0, f64::max)
}

fn sustained(rows: &mut Rows) {
    let seconds = by_mode(30, 8);
    let span = Duration::from_secs(seconds);
    let record: Vec<u8> = body().into_iter().cycle().take(record_len()).collect();
    let limit = {
        let bench_dir = BenchDir::new("pwrite");
        let started = Instant::now();
        let mut count = 0u64;
        let mut files = Vec::new();
        'all: for n in 0.. {
            let path = bench_dir.path().join(n.to_string());
            let mut file = BareFile::allocated(&path, 1 << 30);
            for _ in 0..(1u64 << 30) / record.len() as u64 {
                file.write(&record);
                count += 1;
                if count.is_multiple_of(256) && started.elapsed() >= span {
                    break 'all;
                }
            }
            files.push(file);
        }
        count as f64 / started.elapsed().as_secs_f64()
    };
    settle();
    let bench_dir = BenchDir::new("sustained");
    let store = ready(bench_dir.path(), &[("warmMapedFileEnable", "false")]);
    let (body, properties) = (body(), properties(None));
    let message = message(0, &body, &properties);
    let started = Instant::now();
    let mut count = 0u64;
    while started.elapsed() < span {
        for _ in 0..256 {
            store.writer().append(&message).unwrap();
        }
        count += 256;
    }
    let reached = count as f64 / started.elapsed().as_secs_f64();
    let stats = store.stats();
    store.abandon();
    rows.add(&Row {
        name: "append, sustained",
        goal: ">= 90 % of a bare sequential pwrite of the same bytes",
        unit: "records/s",
        reached: Some(reached),
        limit: Some(limit),
        ratio: Some(reached / limit),
        missed: Some(reached < 0.9 * limit),
        note: format!(
            "{seconds} s each, files of 1 GiB; {} MB of {} MB flushed, dispatch {} records behind",
            stats.flushed >> 20,
            stats.appended >> 20,
            (stats.appended - stats.dispatched) / record_len() as u64
        ),
    });
    drop(bench_dir);
    settle();
}

/// Lets the device finish what earlier rows left.
fn settle() {
    let _status = std::process::Command::new("sync").status();
}

fn pooled(rows: &mut Rows) {
    let limit_dir = BenchDir::new("limit");
    let map = PopulatedMap::new(limit_dir.path(), SEGMENT_BYTES);
    let mut pairs = Vec::new();
    let mut waits = Vec::new();
    let segment = segment_text();
    let (body, properties) = (body(), properties(None));
    let message = message(0, &body, &properties);
    for _ in 0..by_mode(5, 2) {
        let (limit, _) = map.rate();
        let bench_dir = BenchDir::new("pool");
        let store = ready(
            bench_dir.path(),
            &[
                ("mappedFileSizeCommitLog", segment.as_str()),
                ("transientStorePoolEnable", "true"),
                ("transientStorePoolSize", "2"),
            ],
        );
        let count = burst_len();
        let started = Instant::now();
        let mut end = 0;
        for _ in 0..count {
            end = store.writer().append(&message).unwrap().end();
        }
        store.durability().settle(end).unwrap();
        pairs.push((count as f64 / started.elapsed().as_secs_f64(), limit));
        let mut answers = Vec::new();
        for _ in 0..by_mode(2_000, 500) {
            let begun = Instant::now();
            let end = store.writer().append(&message).unwrap().end();
            store.durability().park(end, false).unwrap();
            answers.clear();
            while answers.is_empty() {
                store.wake_descriptor().wait(Duration::from_secs(1));
                store.durability().drain(&mut answers);
            }
            waits.push(begun.elapsed().as_nanos() as u64);
        }
        store.abandon();
    }
    waits.sort_unstable();
    let ratio = median_ratio(&pairs);
    rows.add(&Row {
        name: "append, transient pool, until committed",
        goal: ">= 25 % of copy + CRC into a populated map",
        unit: "records/s",
        reached: Some(median(&pairs.iter().map(|p| p.0).collect::<Vec<_>>())),
        limit: Some(median(&pairs.iter().map(|p| p.1).collect::<Vec<_>>())),
        ratio: Some(ratio),
        missed: Some(ratio < 0.25),
        note: format!(
            "acknowledgement of a lone append through ticket and wake descriptor: p50 {} us, p99 \
             {} us",
            percentile(&waits, 0.5) / 1000,
            percentile(&waits, 0.99) / 1000
        ),
    });
}

fn main() {
    let mut rows = Rows::new("append");
    if is_wanted("append, one thread") || is_wanted("append, 8 threads") {
        bursts(&mut rows);
    }
    if is_wanted("append, transient pool") {
        pooled(&mut rows);
    }
    if is_wanted("append, sustained") {
        sustained(&mut rows);
    }
}
