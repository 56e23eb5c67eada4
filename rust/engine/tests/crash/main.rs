//! Power loss and kill at every moment of small histories of a whole store, in every way that the
//! twin of the disk allows up to a bound: each image is opened and compared with a model.
//!
//! - `MQCORE_CRASH_IMAGES=1000000` sets the number of distinct images of the long run
//!   (`--ignored`), `MQCORE_CRASH_SEED` its first seed.
//! - `MQCORE_CRASH_CASE=17/40.w.r3` runs one case alone and prints its script and its events.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod check;
mod dice;
mod faults;
mod flaw;
mod harm;
mod harm_queues;
mod play;
mod reported;
mod script;
mod seeded;
mod sweep;

use std::sync::atomic::Ordering;
use std::time::Instant;

use sweep::{Count, Plan, one_case, sweep};

/// Distinct images of the run that is part of every test run.
const SAMPLE_IMAGES: u64 = 50_000;
/// Distinct images of the long run by default.
const LONG_IMAGES: u64 = 1_000_000;

fn number(key: &str) -> Option<u64> {
    std::env::var(key).ok()?.parse().ok()
}

fn summary(count: &Count, started: Instant) -> String {
    let of = |number: &std::sync::atomic::AtomicU64| number.load(Ordering::Relaxed);
    format!(
        "{} histories, {} recoveries crashed again, {} stop points, {} distinct images, {:.1} s",
        of(&count.histories),
        of(&count.recoveries),
        of(&count.stops),
        of(&count.images),
        started.elapsed().as_secs_f64()
    )
}

fn walk(plan: Plan) {
    let started = Instant::now();
    let (count, failure) = sweep(plan);
    eprintln!("crash images: {}", summary(&count, started));
    if let Some((case, why)) = failure {
        panic!("MQCORE_CRASH_CASE={case} reproduces it: {why}");
    }
    assert!(count.images.load(Ordering::Relaxed) >= plan.images);
}

#[test]
fn a_sample_of_images_recovers() {
    let mut plan = Plan::of(SAMPLE_IMAGES);
    plan.first_seed = number("MQCORE_CRASH_SEED").unwrap_or(1);
    if let Ok(case) = std::env::var("MQCORE_CRASH_CASE") {
        if let Err(why) = one_case(&case, &plan) {
            panic!("{case}: {why}");
        }
        return;
    }
    walk(plan);
}

/// Cases that failed once.
const FOUND: [&str; 1] = [
    // A record whose queue offset alone was lost, in front of a sector's end.
    "1000438/102.w.r9480989917715480539/31.w.r7481615874974450616",
];

#[test]
fn what_failed_once_recovers() {
    let mut plan = Plan::of(LONG_IMAGES);
    plan.per_stop = 32;
    for case in FOUND {
        if let Err(why) = one_case(case, &plan) {
            panic!("{case}: {why}");
        }
    }
}

#[test]
#[ignore = "minutes: make crash runs it"]
fn a_million_images_recover() {
    let mut plan = Plan::of(number("MQCORE_CRASH_IMAGES").unwrap_or(LONG_IMAGES));
    plan.first_seed = number("MQCORE_CRASH_SEED").unwrap_or(1_000_000);
    plan.per_stop = 32;
    walk(plan);
}
