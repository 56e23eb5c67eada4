//! Runs histories of many seeds, on every processor, and reports the first that fails: its seed, what does
//! not hold, the end of its trace.

use std::fmt::Display;
use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::ledger::Checked;
use super::trace::Trace;

/// Lines of a trace that are printed when a history fails.
const TRACE_LINES: usize = 60;
/// How often progress is printed.
const PROGRESS: Duration = Duration::from_secs(10);

/// A kind of history.
pub(crate) trait History: Sized {
    type Flaw: Copy;
    type Count: Copy + Default + AddAssign + Display + Send + PartialEq + std::fmt::Debug;

    /// What runs a seed that failed again.
    const SEED: &'static str;

    fn new(seed: u64, flaw: Option<Self::Flaw>, keeps_trace: bool) -> Self;
    fn run(&mut self) -> Checked;
    fn options(&self) -> String;
    fn count(&self) -> Self::Count;
    fn trace(&self) -> &Trace;
}

/// A history that has run.
pub(crate) struct Ran<C> {
    pub(crate) count: C,
    pub(crate) mark: u64,
    pub(crate) lines: Vec<String>,
    pub(crate) outcome: Checked,
}

/// Runs one history; a panic is a failure like any other.
pub(crate) fn run_one<H: History>(
    seed: u64,
    flaw: Option<H::Flaw>,
    keeps_trace: bool,
) -> Ran<H::Count> {
    let mut world = H::new(seed, flaw, keeps_trace);
    let outcome = catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    });
    Ran {
        count: world.count(),
        mark: world.trace().mark(),
        lines: world.trace().lines().to_vec(),
        outcome,
    }
}

/// The text of a failure: seed, options, reason, and the end of the trace.
pub(crate) fn described<H: History>(seed: u64, flaw: Option<H::Flaw>) -> String {
    let options = H::new(seed, flaw, false).options();
    let ran = run_one::<H>(seed, flaw, true);
    let from = ran.lines.len().saturating_sub(TRACE_LINES);
    let why = ran
        .outcome
        .err()
        .unwrap_or_else(|| "it does not fail again".to_owned());
    format!(
        "{options}\n{}\n{}={seed} runs it again: {why}",
        ran.lines[from..].join("\n"),
        H::SEED
    )
}

/// Runs so many histories from a first seed on; the sum of what happened, and the first that fails.
pub(crate) fn run_many<H: History>(
    first: u64,
    histories: u64,
    shows: bool,
) -> (H::Count, Option<(u64, String)>) {
    let next = AtomicU64::new(first);
    let is_over = AtomicBool::new(false);
    let total = Mutex::new((0, H::Count::default()));
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
                    let ran = run_one::<H>(seed, None, false);
                    let mut total = total.lock().unwrap();
                    total.0 += 1;
                    total.1 += ran.count;
                    if let Err(why) = ran.outcome {
                        is_over.store(true, Ordering::Relaxed);
                        failure.lock().unwrap().get_or_insert((seed, why));
                    }
                    let mut shown = shown.lock().unwrap();
                    if shows && shown.elapsed() >= PROGRESS {
                        *shown = Instant::now();
                        let (done, seconds) = (total.0, began.elapsed().as_secs());
                        eprintln!("{done} of {histories} histories, {seconds} s");
                    }
                }
            });
        }
    });
    let failure = failure.into_inner().unwrap();
    (total.into_inner().unwrap().1, failure)
}
