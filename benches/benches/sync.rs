//! Synchronous flush: one caller, and many completions in flight, beside a bare loop of `pwrite`
//! and `fdatasync` into a file whose pages were written and synced. Plain timing in alternating
//! blocks: the device is not the same from one second to the next.
#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on ends with the reason"
)]

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mqcore_benches::bench_dir::BenchDir;
use mqcore_benches::gauge::{device_bytes_written, process_bytes_written};
use mqcore_benches::limits::{BareFile, MIB};
use mqcore_benches::rows::{Row, Rows};
use mqcore_benches::stats::{median, median_ratio, short};
use mqcore_benches::stores::{RealStore, body, message, properties, ready, record_len};
use mqcore_benches::{by_mode, is_wanted};

const FILE_BYTES: u64 = 256 << 20;
/// Of the store with many in flight: more than one round writes, so that no file is made meanwhile.
const LONG_FILE_BYTES: u64 = 1 << 30;
/// Completions in flight.
const IN_FLIGHT: i64 = 256;

/// What a block of syncs came to.
struct Block {
    rate: f64,
    device_bytes: f64,
    process_bytes: f64,
}

fn block(count: u64, mut one: impl FnMut()) -> Block {
    let (device, process) = (device_bytes_written(), process_bytes_written());
    let started = Instant::now();
    for _ in 0..count {
        one();
    }
    let took = started.elapsed().as_secs_f64();
    Block {
        rate: count as f64 / took,
        device_bytes: (device_bytes_written() - device) as f64 / count as f64,
        process_bytes: (process_bytes_written() - process) as f64 / count as f64,
    }
}

fn sync_store(bench_dir: &BenchDir, file_bytes: u64) -> std::sync::Arc<RealStore> {
    let segment = file_bytes.to_string();
    ready(
        bench_dir.path(),
        &[
            ("mappedFileSizeCommitLog", segment.as_str()),
            ("flushDiskType", "SYNC_FLUSH"),
        ],
    )
}

fn of(blocks: &[(Block, Block)], pick: fn(&Block) -> f64) -> (f64, f64, f64) {
    let ours: Vec<f64> = blocks.iter().map(|(ours, _)| pick(ours)).collect();
    let bare: Vec<f64> = blocks.iter().map(|(_, bare)| pick(bare)).collect();
    let pairs: Vec<(f64, f64)> = ours.iter().copied().zip(bare.iter().copied()).collect();
    (median(&ours), median(&bare), median_ratio(&pairs))
}

fn one_caller(rows: &mut Rows) {
    let bench_dir = BenchDir::new("sync-one");
    let mut bare = BareFile::new(&bench_dir.path().join("bare"), FILE_BYTES);
    let record: Vec<u8> = body().into_iter().cycle().take(record_len()).collect();
    let store_dir = BenchDir::new("sync-one-store");
    let store = sync_store(&store_dir, FILE_BYTES);
    store.durability().flush().unwrap();
    let (body, properties) = (body(), properties(None));
    let message = message(0, &body, &properties);
    let count = by_mode(400, 200);
    let mut blocks = Vec::new();
    for _ in 0..by_mode(24, 8) {
        let limit = block(count, || bare.write_and_sync(&record));
        let ours = block(count, || {
            store.put(&message).unwrap();
        });
        blocks.push((ours, limit));
    }
    store.abandon();
    let (reached, limit, ratio) = of(&blocks, |block| block.rate);
    rows.add(&Row {
        name: "sync flush, one caller",
        goal: ">= 90 % of the bare loop",
        unit: "records/s",
        reached: Some(reached),
        limit: Some(limit),
        ratio: Some(ratio),
        missed: Some(ratio < 0.9),
        note: format!("{} alternating blocks of {count}", blocks.len()),
    });
    let (reached, limit, ratio) = of(&blocks, |block| block.device_bytes);
    let (process, bare, _) = of(&blocks, |block| block.process_bytes);
    rows.add(&Row {
        name: "sync flush, bytes to the device per sync",
        goal: "<= 1.2x the bare loop's",
        unit: "bytes/sync",
        reached: Some(reached),
        limit: Some(limit),
        ratio: Some(ratio),
        missed: Some(ratio > 1.2),
        note: format!(
            "the whole machine's device counters, journal included; made dirty by this process: \
             {process:.0} against {bare:.0}"
        ),
    });
}

/// Records per second with `IN_FLIGHT` acknowledgements parked by two threads.
fn in_flight_rate(store: &RealStore, span: Duration) -> f64 {
    let parked = AtomicI64::new(0);
    let done = AtomicU64::new(0);
    let (body, properties) = (body(), properties(None));
    let started = Instant::now();
    std::thread::scope(|scope| {
        for queue_id in 0..2 {
            let (parked, done) = (&parked, &done);
            let message = message(queue_id, &body, &properties);
            scope.spawn(move || {
                let mut answers = Vec::new();
                while started.elapsed() < span {
                    // Half of them are this thread's.
                    while parked.fetch_add(1, Ordering::AcqRel) < IN_FLIGHT {
                        let end = store.writer().append(&message).unwrap().end();
                        store.durability().park(end, false).unwrap();
                    }
                    parked.fetch_sub(1, Ordering::AcqRel);
                    store.wake_descriptor().wait(Duration::from_millis(20));
                    answers.clear();
                    store.durability().drain(&mut answers);
                    parked.fetch_sub(answers.len() as i64, Ordering::AcqRel);
                    done.fetch_add(answers.len() as u64, Ordering::Relaxed);
                }
            });
        }
    });
    let rate = done.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64();
    // What is still parked is answered before the next round.
    store.durability().flush().unwrap();
    store.durability().drain(&mut Vec::new());
    rate
}

/// Records per second that the device takes for long: large writes into a new file and one sync.
fn sustained_rate() -> f64 {
    let bench_dir = BenchDir::new("sync-sustained");
    let mut file = BareFile::allocated(&bench_dir.path().join("bare"), LONG_FILE_BYTES);
    let piece = vec![0x5a; MIB];
    let started = Instant::now();
    for _ in 0..LONG_FILE_BYTES / MIB as u64 {
        file.write(&piece);
    }
    file.drain();
    LONG_FILE_BYTES as f64 / record_len() as f64 / started.elapsed().as_secs_f64()
}

fn in_flight(rows: &mut Rows) {
    let bench_dir = BenchDir::new("sync-many");
    let mut bare = BareFile::new(&bench_dir.path().join("bare"), FILE_BYTES);
    let batch = record_len() * IN_FLIGHT as usize;
    let records: Vec<u8> = body().into_iter().cycle().take(batch).collect();
    let span = Duration::from_millis(by_mode(1_000, 500));
    let mut pairs = Vec::new();
    let mut syncs = 0;
    let mut sum = 0.0;
    let mut dirtied = 0;
    let mut sustained = Vec::new();
    for _ in 0..by_mode(12, 5) {
        let begun = Instant::now();
        let mut written = 0u64;
        while begun.elapsed() < span {
            bare.write_and_sync(&records);
            written += IN_FLIGHT as u64;
        }
        let limit = written as f64 / begun.elapsed().as_secs_f64();
        let store_dir = BenchDir::new("sync-many-store");
        let store = sync_store(&store_dir, LONG_FILE_BYTES);
        store.durability().flush().unwrap();
        let before = store.stats().syncs;
        let dirtied_before = process_bytes_written();
        let rate = in_flight_rate(&store, span);
        syncs += store.stats().syncs - before;
        sum += rate * span.as_secs_f64();
        dirtied += process_bytes_written() - dirtied_before;
        store.abandon();
        pairs.push((rate, limit));
        sustained.push(sustained_rate());
    }
    let ratio = median_ratio(&pairs);
    let reached = median(&pairs.iter().map(|p| p.0).collect::<Vec<_>>());
    let sustained = median(&sustained);
    rows.add(&Row {
        name: "sync flush, 256 in flight from 2 threads",
        goal: ">= 80 % of a bare loop of 256 records per sync, or of the disk's sustained rate",
        unit: "records/s",
        reached: Some(reached),
        limit: Some(median(&pairs.iter().map(|p| p.1).collect::<Vec<_>>())),
        ratio: Some(ratio),
        missed: Some(ratio < 0.8 && reached < 0.8 * sustained),
        note: format!(
            "{:.2} of the disk's sustained rate of {} records/s; {:.0} records per sync, {:.0} bytes \
             made dirty for each",
            reached / sustained,
            short(sustained),
            sum / syncs.max(1) as f64,
            dirtied as f64 / sum
        ),
    });
}

fn main() {
    let mut rows = Rows::new("sync");
    if is_wanted("sync flush, one caller") || is_wanted("sync flush, bytes") {
        one_caller(&mut rows);
    }
    if is_wanted("sync flush, 256") {
        in_flight(&mut rows);
    }
}
