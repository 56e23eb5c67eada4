//! Latency of appends at a fixed pace: over roll-overs with the flush on, warmed and not; and in a
//! small memory group beside a reader that starts at the beginning of the log. Plain timing: the
//! percentiles and the pace are the measurement.
#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on ends with the reason"
)]

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mqcore_benches::bench_dir::BenchDir;
use mqcore_benches::cgroup::{CHILD, Group, answer};
use mqcore_benches::gauge::page_faults;
use mqcore_benches::rows::{Row, Rows};
use mqcore_benches::stats::percentile;
use mqcore_benches::stores::{
    RealStore, body, fill, message, open, properties, read_from_start, ready, record_len,
};
use mqcore_benches::{by_mode, is_wanted};

/// What a paced run showed, ns.
struct Paced {
    /// Durations of the appends, sorted.
    calls: Vec<u64>,
    /// From when each was due until it was done, sorted: includes waiting behind a slow one.
    from_due: Vec<u64>,
    minor_faults: u64,
    major_faults: u64,
}

fn pace(store: &RealStore, per_second: u64, span: Duration) -> Paced {
    let (body, properties) = (body(), properties(None));
    let message = message(0, &body, &properties);
    let count = (per_second as f64 * span.as_secs_f64()) as u64;
    let step_ns = 1_000_000_000 / per_second;
    let mut calls = Vec::with_capacity(count as usize);
    let mut from_due = Vec::with_capacity(count as usize);
    // The vectors' pages are touched before the clock starts: their faults are not the store's.
    calls.resize(count as usize, 1u64);
    from_due.resize(count as usize, 1u64);
    let (minor, major) = page_faults();
    let started = Instant::now();
    for n in 0..count as usize {
        let due = n as u64 * step_ns;
        let begun = loop {
            let now = started.elapsed().as_nanos() as u64;
            if now >= due {
                break now;
            }
            if due - now > 200_000 {
                std::thread::sleep(Duration::from_nanos((due - now) / 2));
            } else {
                // On two cores the others need this one: a busy wait would be paid by the store.
                std::thread::yield_now();
            }
        };
        store.writer().append(&message).unwrap();
        let done = started.elapsed().as_nanos() as u64;
        calls[n] = done - begun;
        from_due[n] = done - due;
    }
    let (minor_after, major_after) = page_faults();
    calls.sort_unstable();
    from_due.sort_unstable();
    Paced {
        calls,
        from_due,
        minor_faults: minor_after - minor,
        major_faults: major_after - major,
    }
}

fn rolling(rows: &mut Rows, warmed: bool) {
    let name = if warmed { "warmed" } else { "not warmed" };
    let names = [
        format!("paced 50 k/s, {name}, p99.99"),
        format!("paced 50 k/s, {name}, appends over 1 ms"),
    ];
    if !names.iter().any(|name| is_wanted(name)) {
        return;
    }
    let bench_dir = BenchDir::new("paced");
    let seconds = by_mode(60, 12);
    let segment = by_mode(512u64 << 20, 128 << 20);
    let segment_text = segment.to_string();
    let warm = warmed.to_string();
    let store = ready(
        bench_dir.path(),
        &[
            ("warmMapedFileEnable", warm.as_str()),
            ("mappedFileSizeCommitLog", segment_text.as_str()),
        ],
    );
    let paced = pace(&store, 50_000, Duration::from_secs(seconds));
    let rolled = store.files().positions.appended.position() / segment;
    let flushed = store.files().positions.flushed.position();
    store.abandon();
    let slow = paced.calls.iter().filter(|ns| **ns > 1_000_000).count();
    let count = paced.calls.len();
    let p9999 = percentile(&paced.calls, 0.9999) as f64 / 1e3;
    let per_100k = slow as f64 * 1e5 / count as f64;
    rows.add(&Row {
        name: &names[0],
        goal: "<= 200 us",
        unit: "us",
        reached: Some(p9999),
        limit: None,
        ratio: None,
        missed: Some(p9999 > 200.0),
        note: format!(
            "{seconds} s, {rolled} roll-overs, {} MB flushed; p50 {:.2} us, p99.9 {:.1} us, maximum \
             {:.2} ms; from the due time: p99.99 {:.0} us; faults per million appends: {} minor, {} \
             major",
            flushed >> 20,
            percentile(&paced.calls, 0.5) as f64 / 1e3,
            percentile(&paced.calls, 0.999) as f64 / 1e3,
            percentile(&paced.calls, 1.0) as f64 / 1e6,
            percentile(&paced.from_due, 0.9999) as f64 / 1e3,
            paced.minor_faults * 1_000_000 / count as u64,
            paced.major_faults * 1_000_000 / count as u64,
        ),
    });
    rows.add(&Row {
        name: &names[1],
        goal: "<= 1 in 100,000, over >= 4 roll-overs",
        unit: "of 100,000",
        reached: Some(per_100k),
        limit: None,
        ratio: None,
        missed: Some(per_100k > 1.0 || rolled < 4),
        note: format!("{slow} of {count}"),
    });
}

/// The child: a log longer than the group's memory, then paced appends without and with a reader.
fn group_child(dir: &Path, log_bytes: u64, seconds: u64) {
    let segment = (256u64 << 20).to_string();
    let store = open(dir, &[("mappedFileSizeCommitLog", &segment)]);
    store.start().unwrap();
    let end = fill(&store, log_bytes / record_len() as u64, 4, false);
    store
        .files()
        .positions
        .dispatched
        .wait(end, Duration::from_secs(120), || false);
    store.durability().flush().unwrap();
    let span = Duration::from_secs(seconds);
    let alone = pace(&store, 20_000, span);
    let (stop, read) = (AtomicBool::new(false), AtomicU64::new(0));
    let beside = std::thread::scope(|scope| {
        scope.spawn(|| read_from_start(&store, &stop, &read));
        let beside = pace(&store, 20_000, span);
        stop.store(true, Ordering::Relaxed);
        beside
    });
    store.abandon();
    answer(&[
        percentile(&alone.calls, 0.999) as f64 / 1e3,
        percentile(&beside.calls, 0.999) as f64 / 1e3,
        read.load(Ordering::Relaxed) as f64 * record_len() as f64 / span.as_secs_f64() / 1e6,
    ]);
}

fn grouped(rows: &mut Rows) {
    let name = "append p99.9 in a small memory group beside a reader";
    if !is_wanted(name) {
        return;
    }
    let (log_bytes, limit_bytes, seconds): (u64, u64, u64) =
        by_mode((8 << 30, 2 << 30, 15), (2 << 30, 512 << 20, 6));
    let bench_dir = BenchDir::new("group");
    let dir = bench_dir.path().to_string_lossy().into_owned();
    let arguments = [dir.as_str(), &log_bytes.to_string(), &seconds.to_string()];
    let numbers = Group::new(limit_bytes).and_then(|group| group.run("paced", &arguments));
    let goal = "<= 2x of without the reader";
    match numbers {
        Ok(numbers) => rows.add(&Row {
            name,
            goal,
            unit: "us",
            reached: Some(numbers[1]),
            limit: Some(numbers[0]),
            ratio: Some(numbers[1] / numbers[0]),
            missed: Some(numbers[1] > 2.0 * numbers[0]),
            note: format!(
                "20 k/s for {seconds} s each, {} MB of log in a group of {} MB; the reader had \
                 {:.0} MB/s",
                log_bytes >> 20,
                limit_bytes >> 20,
                numbers[2]
            ),
        }),
        Err(why) => rows.add(&Row {
            name,
            goal,
            unit: "us",
            note: format!("not measured, no memory cgroup: {why}"),
            ..Row::default()
        }),
    }
}

fn main() {
    if std::env::var(CHILD).is_ok() {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let number = |n: usize| arguments[n].parse().unwrap();
        group_child(Path::new(&arguments[0]), number(1), number(2));
        return;
    }
    let mut rows = Rows::new("paced");
    rolling(&mut rows, false);
    rolling(&mut rows, true);
    grouped(&mut rows);
}
