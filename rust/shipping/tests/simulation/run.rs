//! Runs histories of many seeds, on every processor, and reports the first that fails: its seed, what does
//! not hold, the end of its trace.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::count::Count;
use super::flaw::Flaw;
use super::world::World;

/// Lines of a trace that are printed when a history fails.
const TRACE_LINES: usize = 60;
/// How often progress is printed.
const PROGRESS: Duration = Duration::from_secs(10);

/// A history that has run.
pub(crate) struct Ran {
    pub(crate) count: Count,
    pub(crate) mark: u64,
    pub(crate) lines: Vec<String>,
    pub(crate) outcome: Result<(), String>,
}

/// Runs one history; a panic is a failure like any other.
pub(crate) fn run_one(seed: u64, flaw: Option<Flaw>, keeps_trace: bool) -> Ran {
    let mut world = World::new(seed, flaw, keeps_trace);
    let outcome = catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    });
    Ran {
        count: world.count,
        mark: world.trace.mark(),
        lines: world.trace.lines().to_vec(),
        outcome,
    }
}

/// The text of a failure: seed, options, reason, and the end of the trace.
pub(crate) fn described(seed: u64, flaw: Option<Flaw>) -> String {
    let options = format!("{:#?}", World::new(seed, flaw, false).options);
    let ran = run_one(seed, flaw, true);
    let from = ran.lines.len().saturating_sub(TRACE_LINES);
    let why = ran
        .outcome
        .err()
        .unwrap_or_else(|| "it does not fail again".to_owned());
    format!(
        "{options}\n{}\nMQCORE_SIMULATE_SEED={seed} runs it again: {why}",
        ran.lines[from..].join("\n")
    )
}

/// Runs so many histories from a first seed on; the sum of what happened, and the first that fails.
pub(crate) fn run_many(first: u64, histories: u64, shows: bool) -> (Count, Option<(u64, String)>) {
    let next = AtomicU64::new(first);
    let is_over = AtomicBool::new(false);
    let total = Mutex::new(Count::default());
    let failure = Mutex::new(None);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let began = Instant::now();
    let shown = Mutex::new(began);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + histories {
                        return;
                    }
                    let ran = run_one(seed, None, false);
                    let mut total = total.lock().unwrap();
                    *total += ran.count;
                    if let Err(why) = ran.outcome {
                        is_over.store(true, Ordering::Relaxed);
                        failure.lock().unwrap().get_or_insert((seed, why));
                    }
                    let mut shown = shown.lock().unwrap();
                    if shows && shown.elapsed() >= PROGRESS {
                        *shown = Instant::now();
                        let done = total.histories;
                        let seconds = began.elapsed().as_secs();
                        eprintln!("{done} of {histories} histories, {seconds} s");
                    }
                }
            });
        }
    });
    let failure = failure.into_inner().unwrap();
    (total.into_inner().unwrap(), failure)
}
