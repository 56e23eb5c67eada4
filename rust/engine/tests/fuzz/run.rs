//! Runs fuzz targets: a sample in every test run, and for as long as somebody wants. Knows no target;
//! each crate that has decoders uses it.
//!
//! - `MQCORE_FUZZ_SECONDS=600` sets the length of the long run (`--ignored`), `MQCORE_FUZZ_SEED` its
//!   first number.
//! - `MQCORE_FUZZ_CASE=index/1234` runs one case alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use mqcore_mutation::Mutation;

/// Cases per target of the run that is part of every test run.
const SAMPLE_CASES: u64 = 2_000;
/// The same for whole stores, which are slower.
const SAMPLE_STORES: u64 = 300;
/// Seconds of the long run by default.
const LONG_SECONDS: u64 = 300;
/// Longest time of one case: all of them are a few KB.
const CASE_TIME_MAX: Duration = Duration::from_secs(10);

fn number(key: &str) -> Option<u64> {
    std::env::var(key).ok()?.parse().ok()
}

/// What bytes are put into.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
    pub(crate) run: fn(&[u8], u64),
    pub(crate) is_slow: bool,
}

/// A target that takes microseconds.
pub(crate) const fn target(
    name: &'static str,
    seeds: fn() -> Vec<Vec<u8>>,
    run: fn(&[u8], u64),
) -> Target {
    Target {
        name,
        seeds,
        run,
        is_slow: false,
    }
}

/// Runs one case; a panic names it.
fn case(target: &Target, seeds: &[Vec<u8>], number: u64) {
    let mut mutation = Mutation::of(number);
    let seed = seeds
        .get(mutation.below(seeds.len() as u64) as usize)
        .unwrap();
    let bytes = mutation.apply(seed, seeds);
    let started = Instant::now();
    let ran = catch_unwind(AssertUnwindSafe(|| (target.run)(&bytes, number)));
    let took = started.elapsed();
    let name = target.name;
    assert!(ran.is_ok(), "MQCORE_FUZZ_CASE={name}/{number} panics");
    assert!(
        took < CASE_TIME_MAX,
        "MQCORE_FUZZ_CASE={name}/{number} took {took:?}"
    );
}

/// The corpus: whole inputs, and what was found before.
fn seeds_of(target: &Target) -> Vec<Vec<u8>> {
    let mut seeds = (target.seeds)();
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = dir.join("tests/corpus").join(target.name);
    let mut paths: Vec<_> = std::fs::read_dir(dir)
        .map(|names| names.map(|name| name.unwrap().path()).collect())
        .unwrap_or_default();
    paths.sort();
    seeds.extend(paths.iter().map(|path| std::fs::read(path).unwrap()));
    seeds
}

/// Some cases of each target, or the one that is asked for.
pub(crate) fn sample(targets: &[Target]) {
    if let Ok(name) = std::env::var("MQCORE_FUZZ_CASE") {
        let (name, number) = name.split_once('/').unwrap();
        // Another crate's target is run there.
        if let Some(target) = targets.iter().find(|target| target.name == name) {
            case(target, &seeds_of(target), number.parse().unwrap());
        }
        return;
    }
    for target in targets {
        let seeds = seeds_of(target);
        let cases = if target.is_slow {
            SAMPLE_STORES
        } else {
            SAMPLE_CASES
        };
        for number in 0..cases {
            case(target, &seeds, number);
        }
    }
}

/// Case after case for as long as the environment sets.
pub(crate) fn for_long(targets: &[Target]) {
    let seconds = number("MQCORE_FUZZ_SECONDS").unwrap_or(LONG_SECONDS);
    let first = number("MQCORE_FUZZ_SEED").unwrap_or(1 << 32);
    let each = Duration::from_secs(seconds) / targets.len() as u32;
    for target in targets {
        let seeds = seeds_of(target);
        let started = Instant::now();
        let mut number = first;
        while started.elapsed() < each {
            case(target, &seeds, number);
            number += 1;
        }
        eprintln!("{}: {} cases", target.name, number - first);
    }
}
