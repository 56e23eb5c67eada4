//! Recovery of a large store with 1,000 queues: after a clean stop, after none with the log in the
//! page cache, and the same cold beside a bare read. Plain timing: each is one event.
#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on ends with the reason"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use mqcore_benches::bench_dir::BenchDir;
use mqcore_benches::by_mode;
use mqcore_benches::limits::{evict, files_below, read_rate};
use mqcore_benches::rows::{Row, Rows};
use mqcore_benches::stats::median;
use mqcore_benches::stores::{fill, open, record_len};

const QUEUES: u64 = 1_000;

/// Makes the directory look as a kill leaves it, with nothing known of what was synced: the whole
/// log is scanned.
fn forget_clean_end(root: &Path) {
    std::fs::write(root.join("abort"), b"1").unwrap();
    let _absent = std::fs::remove_file(root.join("checkpoint"));
}

/// Seconds of an open, bytes of log that it scanned, and seconds until the stop after it.
fn reopen(root: &Path) -> (f64, u64) {
    let started = Instant::now();
    let store = open(root, &[("messageIndexEnable", "false")]);
    let took = started.elapsed().as_secs_f64();
    let scanned = store.report().scanned_bytes;
    assert!(store.close().unwrap(), "{:?}", store.notices());
    (took, scanned)
}

fn main() {
    let mut rows = Rows::new("recover");
    let bytes: u64 = by_mode(4 << 30, 1 << 30);
    let bench_dir = BenchDir::new("recover");
    let root = bench_dir.path();
    {
        let store = open(root, &[("messageIndexEnable", "false")]);
        store.start().unwrap();
        let end = fill(&store, bytes / record_len() as u64, QUEUES, false);
        let dispatched = &store.files().positions.dispatched;
        assert!(dispatched.wait(end, Duration::from_secs(120), || false));
        assert!(store.close().unwrap(), "{:?}", store.notices());
    }
    let log = files_below(&root.join("commitlog"));
    let content = bytes / log.len() as u64;
    // Once through, so that everything is in the page cache.
    let _warm = read_rate(&log, u64::MAX);
    let clean: Vec<f64> = (0..3).map(|_| reopen(root).0).collect();
    let reached = median(&clean);
    rows.add(&Row {
        name: "recovery after a clean stop, 1,000 queues",
        goal: "< 0.2 s",
        unit: "s",
        reached: Some(reached),
        missed: Some(reached >= 0.2),
        note: format!("{} MB of log", bytes >> 20),
        ..Row::default()
    });
    let mut rates = Vec::new();
    let mut limits = Vec::new();
    let mut scanned = 0;
    for _ in 0..by_mode(3, 2) {
        limits.push(read_rate(&log, content));
        forget_clean_end(root);
        let (took, bytes) = reopen(root);
        scanned = bytes;
        rates.push(bytes as f64 / took);
    }
    let reached = median(&rates);
    rows.add(&Row {
        name: "recovery after no stop, hot",
        goal: ">= 1 GB/s of log scanned",
        unit: "bytes/s",
        reached: Some(reached),
        limit: Some(median(&limits)),
        ratio: Some(reached / median(&limits)),
        missed: Some(reached < 1e9),
        note: format!(
            "{} MB scanned with CRC, queues fed again; the limit is a bare read of the same files",
            scanned >> 20
        ),
    });
    let all = files_below(root);
    all.iter().for_each(|path| evict(path));
    let limit = read_rate(&log, content);
    forget_clean_end(root);
    all.iter().for_each(|path| evict(path));
    let (took, bytes) = reopen(root);
    let reached = bytes as f64 / took;
    rows.add(&Row {
        name: "recovery after no stop, cold",
        goal: "shown next to a bare read",
        unit: "bytes/s",
        reached: Some(reached),
        limit: Some(limit),
        ratio: Some(reached / limit),
        missed: None,
        note: "one round".to_owned(),
    });
}
