//! What an append waits for while other processes use the processors, without and with a small memory
//! group, beside a bare thread that does the same memory work at the same pace without a store. Plain
//! timing: the percentiles, and where the slow ones spent their time, are the measurement.
#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on ends with the reason"
)]

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mqcore_benches::bench_dir::BenchDir;
use mqcore_benches::cgroup::{CHILD, Group, answer, run_child};
use mqcore_benches::gauge::{QueuedTime, thread_ns};
use mqcore_benches::rows::{Row, Rows};
use mqcore_benches::stats::{median, percentile};
use mqcore_benches::stores::{
    RealStore, body, fill, message, open, properties, read_from_start, record_len,
};
use mqcore_benches::{by_mode, is_wanted};
use mqcore_record::body_crc;

/// Busy processes beside the store.
const LOADS: [usize; 3] = [0, 2, 4];
/// An append is slow from here on, ns.
const SLOW_NS: u64 = 1_000_000;
/// Appends come together so often, as the requests of a reactor's turn do: a thread that waits in
/// between is no processor hog to the scheduler, one that spins until the next is due is.
const BURST: Duration = Duration::from_millis(1);
/// Appends of a burst: 20,000 a second.
const BURST_APPENDS: usize = 20;
/// The bare thread goes round in so much touched memory: more than the caches hold.
const BARE_BYTES: usize = 64 << 20;
/// The numbers that a phase is answered with.
const NUMBERS: usize = 8;
/// The part of a child that only uses a processor.
const BUSY: &str = "busy";

/// The appends of one phase.
#[derive(Default)]
struct Phase {
    /// Durations, ns.
    calls: Vec<u64>,
    slow: Slow,
}

/// Where the slow appends of a phase spent their time, ns.
#[derive(Default)]
struct Slow {
    count: u64,
    all_ns: u64,
    /// On a processor.
    ran_ns: u64,
    /// Ready to run, and others ran.
    queued_ns: u64,
}

impl Phase {
    /// Measures one append of the calling thread.
    fn add(&mut self, queued: &QueuedTime, append: impl FnOnce()) {
        let (queued_before, ran_before) = (queued.ns(), thread_ns());
        let begun = Instant::now();
        append();
        let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if took >= SLOW_NS {
            self.slow.count += 1;
            self.slow.all_ns += took;
            self.slow.ran_ns += thread_ns() - ran_before;
            self.slow.queued_ns += (queued.ns() - queued_before).min(took);
        }
        self.calls.push(took);
    }
}

/// Appends in bursts for `span`, and as many bare copies behind each burst.
fn pace(span: Duration, mut append: impl FnMut(), mut copy: impl FnMut()) -> [Phase; 2] {
    let capacity = (span.as_millis() as usize + 1) * BURST_APPENDS;
    let [mut appends, mut copies] = [(); 2].map(|()| {
        let mut phase = Phase::default();
        // Touched before the clock starts.
        phase.calls.resize(capacity, 1);
        phase.calls.clear();
        phase
    });
    let queued = QueuedTime::of_this_thread();
    let started = Instant::now();
    let mut due = Duration::ZERO;
    while due < span {
        if let Some(wait) = due.checked_sub(started.elapsed()) {
            std::thread::sleep(wait);
        }
        for _ in 0..BURST_APPENDS {
            appends.add(&queued, &mut append);
        }
        for _ in 0..BURST_APPENDS {
            copies.add(&queued, &mut copy);
        }
        due += BURST;
    }
    [appends, copies]
}

/// What a phase is answered with.
fn numbers(mut phases: Vec<Phase>) -> [f64; NUMBERS] {
    let of = |share: f64, phases: &mut Vec<Phase>| {
        let each: Vec<f64> = phases
            .iter_mut()
            .map(|phase| {
                phase.calls.sort_unstable();
                percentile(&phase.calls, share) as f64 / 1e3
            })
            .collect();
        median(&each)
    };
    let percentiles = [0.5, 0.99, 0.999, 1.0].map(|share| of(share, &mut phases));
    let sum = |of: fn(&Slow) -> u64| phases.iter().map(|phase| of(&phase.slow)).sum::<u64>() as f64;
    let all = sum(|slow| slow.all_ns).max(1.0);
    let (ran, queued) = (sum(|slow| slow.ran_ns), sum(|slow| slow.queued_ns));
    let [p50, p99, p999, max] = percentiles;
    [
        p50,
        p99,
        p999,
        max,
        sum(|slow| slow.count),
        queued / all,
        ran / all,
        ((all - queued - ran) / all).max(0.0),
    ]
}

/// Processes that only use a processor; they end with this.
struct Busy(Vec<Child>);

impl Busy {
    fn start(count: usize) -> Self {
        let me = std::env::current_exe().unwrap();
        let start = |_| {
            Command::new(&me)
                .env(CHILD, BUSY)
                .stdin(Stdio::piped())
                .spawn()
                .unwrap()
        };
        Self((0..count).map(start).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ended = child.kill();
            let _status = child.wait();
        }
    }
}

/// Uses a processor until whoever started this has ended.
fn be_busy() {
    std::thread::spawn(|| {
        let mut nothing = [0];
        let _end = std::io::stdin().read(&mut nothing);
        std::process::exit(0);
    });
    let mut n = 0u64;
    loop {
        n = std::hint::black_box(n.wrapping_mul(31).wrapping_add(7));
    }
}

/// Appends to the store and bare copies, `rounds` of `span` under each load.
fn phases(store: &RealStore, span: Duration, rounds: usize) -> Vec<f64> {
    let (body, properties) = (body(), properties(None));
    let message = message(0, &body, &properties);
    let record: Vec<u8> = body.iter().copied().cycle().take(record_len()).collect();
    let mut memory = vec![1u8; BARE_BYTES];
    let mut at = 0;
    let mut crcs = 0;
    let mut measured = LOADS.map(|_| (Vec::new(), Vec::new()));
    // In turns: what the filling of the log has left to be written is the same for each.
    for _ in 0..rounds {
        for (load, (appends, copies)) in LOADS.iter().zip(&mut measured) {
            let busy = Busy::start(*load);
            let append = || {
                store.writer().append(&message).unwrap();
            };
            let copy = || {
                at = if at + 2 * record.len() > BARE_BYTES {
                    0
                } else {
                    at + record.len()
                };
                crcs ^= body_crc(std::hint::black_box(&body));
                memory[at..at + record.len()].copy_from_slice(&record);
            };
            let [appended, copied] = pace(span, append, copy);
            appends.push(appended);
            copies.push(copied);
            drop(busy);
        }
    }
    let out = measured.into_iter().flat_map(|(appends, copies)| {
        let both = [numbers(appends), numbers(copies)];
        both.into_iter().flatten()
    });
    let out = out.collect();
    std::hint::black_box((crcs, &memory));
    out
}

/// The child: a log of `log_bytes`, then the phases, beside a reader from the start where `reads`.
fn child(arguments: &[String]) {
    let number = |n: usize| arguments[n].parse::<u64>().unwrap();
    let (log_bytes, span_ms, rounds) = (number(1), number(2), number(3));
    let (reads, pools) = (arguments[4] == "true", arguments[5].as_str());
    let settings = [
        ("mappedFileSizeCommitLog", "67108864"),
        ("transientStorePoolEnable", pools),
        ("transientStorePoolSize", "3"),
    ];
    let store = open(Path::new(&arguments[0]), &settings);
    store.start().unwrap();
    let end = fill(&store, log_bytes / record_len() as u64, 4, false);
    let dispatched = &store.files().positions.dispatched;
    dispatched.wait(end, Duration::from_secs(120), || false);
    store.durability().flush().unwrap();
    let (stop, read) = (AtomicBool::new(!reads), AtomicU64::new(0));
    let span = Duration::from_millis(span_ms);
    let numbers = std::thread::scope(|scope| {
        scope.spawn(|| read_from_start(&store, &stop, &read));
        let numbers = phases(&store, span, usize::try_from(rounds).unwrap());
        stop.store(true, Ordering::Relaxed);
        numbers
    });
    store.abandon();
    answer(&numbers);
}

/// Measures one kind of store, and adds its rows.
fn measure(rows: &mut Rows, kind: &str, group_bytes: Option<u64>, pools: bool) {
    let name = |load: usize| format!("append beside {load} busy processes, {kind}");
    if !LOADS.iter().any(|load| is_wanted(&name(*load))) {
        return;
    }
    let (span_ms, rounds) = by_mode((5_000, 3), (2_000, 2));
    let bench_dir = BenchDir::new("contended");
    let log_bytes = group_bytes.map_or(0, |bytes| 4 * bytes);
    let arguments = [
        bench_dir.path().to_string_lossy().into_owned(),
        log_bytes.to_string(),
        span_ms.to_string(),
        rounds.to_string(),
        group_bytes.is_some().to_string(),
        pools.to_string(),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let numbers = match group_bytes {
        Some(bytes) => Group::new(bytes).and_then(|group| group.run("contended", &arguments)),
        None => run_child("contended", &arguments),
    };
    let numbers = match numbers {
        Ok(numbers) => numbers,
        Err(why) => {
            rows.add(&Row {
                name: &name(0),
                unit: "us",
                note: format!("not measured: {why}"),
                ..Row::default()
            });
            return;
        }
    };
    for (load, both) in LOADS.iter().zip(numbers.chunks_exact(2 * NUMBERS)) {
        let (append, bare) = both.split_at(NUMBERS);
        let text = |n: &[f64]| {
            format!(
                "p50 {:.1}, p99 {:.1}, p99.9 {:.1}, maximum {:.0} us; {} over 1 ms, of whose time \
                 {:.0} % ready while others ran, {:.0} % on a processor, {:.0} % waiting",
                n[0],
                n[1],
                n[2],
                n[3],
                n[4],
                n[5] * 100.0,
                n[6] * 100.0,
                n[7] * 100.0
            )
        };
        rows.add(&Row {
            name: &name(*load),
            goal: "shown",
            unit: "us",
            reached: Some(append[2]),
            limit: Some(bare[2]),
            ratio: Some(append[2] / bare[2]),
            missed: None,
            note: format!("append: {}; bare: {}", text(append), text(bare)),
        });
    }
}

fn main() {
    match std::env::var(CHILD).as_deref() {
        Ok(BUSY) => return be_busy(),
        Ok(_) => return child(&std::env::args().skip(1).collect::<Vec<_>>()),
        Err(_) => {}
    }
    let mut rows = Rows::new("contended");
    let group_bytes = by_mode(2 << 30, 512 << 20);
    measure(&mut rows, "plain", None, false);
    measure(
        &mut rows,
        "reader in a small memory group",
        Some(group_bytes),
        false,
    );
    measure(
        &mut rows,
        "transient pool, reader in a memory group",
        Some(group_bytes),
        true,
    );
}
