//! Opening a store of many queues after a clean stop, and the memory of queues that nobody uses.
//! Plain timing: each is one event.
#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on ends with the reason"
)]

use std::path::Path;
use std::time::Instant;

use mqcore_benches::bench_dir::BenchDir;
use mqcore_benches::gauge::anonymous_bytes;
use mqcore_benches::rows::{Row, Rows};
use mqcore_benches::stats::median;
use mqcore_benches::stores::{fill, open};
use mqcore_benches::{by_mode, is_wanted};

/// Small queue files: what is measured is their number.
const QUEUE_FILE_BYTES: &str = "6000";

fn prepare(root: &Path, queues: u64) {
    let store = open(root, &options());
    fill(&store, queues, queues, false);
    while store.dispatching().step().unwrap() {}
    assert!(store.close().unwrap(), "{:?}", store.notices());
}

fn options() -> [(&'static str, &'static str); 2] {
    [
        ("mappedFileSizeConsumeQueue", QUEUE_FILE_BYTES),
        ("messageIndexEnable", "false"),
    ]
}

fn measure(rows: &mut Rows, queues: u64, goal_s: f64) {
    let name = format!("open with {queues} queues after a clean stop");
    if !is_wanted(&name) {
        return;
    }
    let bench_dir = BenchDir::new("open");
    prepare(bench_dir.path(), queues);
    let mut times = Vec::new();
    let mut memory = Vec::new();
    for _ in 0..3 {
        let before = anonymous_bytes();
        let started = Instant::now();
        let store = open(bench_dir.path(), &options());
        times.push(started.elapsed().as_secs_f64());
        assert!(store.report().used_manifest && store.queues().len() as u64 == queues);
        memory.push(anonymous_bytes().saturating_sub(before) as f64 / queues as f64);
        assert!(store.close().unwrap());
    }
    let reached = median(&times);
    rows.add(&Row {
        name: &name,
        goal: &format!("< {goal_s} s"),
        unit: "s",
        reached: Some(reached),
        missed: Some(reached >= goal_s),
        note: "one message per queue; names and offsets come from the manifest".to_owned(),
        ..Row::default()
    });
    // Only the first open finds the heap without what an earlier one left behind.
    let first = memory.first().copied().unwrap_or(0.0);
    rows.add(&Row {
        name: &format!("resident memory per idle queue, {queues} queues"),
        goal: "<= 1 KB",
        unit: "bytes",
        reached: Some(first),
        missed: Some(first > 1024.0),
        note: "anonymous memory of the process, before and after the open".to_owned(),
        ..Row::default()
    });
}

/// What memory one queue takes, in a process that has opened nothing before.
fn main() {
    let mut rows = Rows::new("open");
    measure(&mut rows, by_mode(10_000, 2_000), 0.3);
    if by_mode(true, false) {
        measure(&mut rows, 200_000, 5.0);
    }
}
