//! Replication simulated: a master and slaves, or a group under controllers, on twins of the disk, with clocks
//! of their own, over a network that loses, delays and cuts. The code that runs is that of production; one seed
//! is one history, the same each time. Faults come for a time; then everything heals, and all logs become one,
//! or a slave is refused for a reason that is so.
//!
//! - `MQCORE_SIMULATE_SEED=17` runs one history of a master and its slaves and prints its trace,
//!   `MQCORE_SIMULATE_GROUP=17` one of a group.
//! - `MQCORE_SIMULATE=100000` sets the number of histories of the long runs (`--ignored`),
//!   `MQCORE_SIMULATE_FROM` their first seed.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod agenda;
mod copying;
mod count;
mod dice;
mod drift;
mod duties;
mod ending;
mod faults;
mod flaw;
mod group;
mod ledger;
mod network;
mod node;
mod options;
mod run;
mod trace;
mod watch;
mod world;

use run::{History, described, run_many, run_one};

/// A master and its slaves.
type Pair = world::World;
/// Brokers and their controllers.
type Group = group::world::World;

/// Histories of the run that is part of every test run: of a master and its slaves, and of groups.
const SAMPLE: u64 = 1_000;
const GROUP_SAMPLE: u64 = 300;
/// Histories of the long runs by default.
const LONG: u64 = 50_000;
/// Histories in which a flaw is found at the latest.
const FLAW_SEEDS: u64 = 500;
/// Roles that groups of the sample take at the least.
const SWITCHES_MIN: u64 = 1_000;

fn number(key: &str) -> Option<u64> {
    std::env::var(key).ok()?.parse().ok()
}

fn walk<H: History>(first: u64, histories: u64, shows: bool) -> H::Count {
    let (count, failure) = run_many::<H>(first, histories, shows);
    eprintln!("{count}");
    if let Some((seed, _why)) = failure {
        panic!("{}", described::<H>(seed, None));
    }
    count
}

/// Runs the seed that is asked for, if one is.
fn has_run_one<H: History>() -> bool {
    let Some(seed) = number(H::SEED) else {
        return false;
    };
    let ran = run_one::<H>(seed, None, true);
    eprintln!("{}\n{}", ran.lines.join("\n"), ran.count);
    if let Err(why) = ran.outcome {
        panic!("{why}");
    }
    true
}

fn expect_all(kinds: Vec<(&str, u64)>) {
    let missing: Vec<_> = kinds
        .into_iter()
        .filter(|(kind, number)| *number == 0 && !kind.starts_with("rare"))
        .collect();
    assert!(missing.is_empty(), "never happened: {missing:?}");
}

fn expect_repeated<H: History>() {
    for seed in 1..=10 {
        let (one, other) = (
            run_one::<H>(seed, None, true),
            run_one::<H>(seed, None, true),
        );
        assert_eq!(one.lines, other.lines, "seed {seed}");
        assert_eq!(
            (one.mark, one.count),
            (other.mark, other.count),
            "seed {seed}"
        );
    }
    assert_ne!(
        run_one::<H>(1, None, false).mark,
        run_one::<H>(2, None, false).mark
    );
}

fn expect_found<H: History>(flaws: &[H::Flaw])
where
    H::Flaw: std::fmt::Debug,
{
    let mut missed = Vec::new();
    for &flaw in flaws {
        let found = (1..=FLAW_SEEDS).find_map(|seed| {
            let why = run_one::<H>(seed, Some(flaw), false).outcome.err()?;
            Some((seed, why))
        });
        match found {
            Some((seed, why)) => eprintln!("{flaw:?} with seed {seed}: {why}"),
            None => missed.push(flaw),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn a_sample_of_histories_keeps_every_promise() {
    if !has_run_one::<Pair>() {
        let first = number("MQCORE_SIMULATE_FROM").unwrap_or(1);
        expect_all(walk::<Pair>(first, SAMPLE, false).all());
    }
}

#[test]
fn a_sample_of_groups_keeps_every_promise() {
    if !has_run_one::<Group>() {
        let first = number("MQCORE_SIMULATE_FROM").unwrap_or(1);
        let count = walk::<Group>(first, GROUP_SAMPLE, false);
        expect_all(count.all());
        assert!(count.switches >= SWITCHES_MIN, "{}", count.switches);
    }
}

#[test]
fn one_seed_is_one_history() {
    expect_repeated::<Pair>();
}

#[test]
fn one_seed_is_one_history_of_a_group() {
    expect_repeated::<Group>();
}

#[test]
fn each_planted_flaw_is_found() {
    expect_found::<Pair>(&flaw::Flaw::ALL);
}

#[test]
fn each_planted_flaw_of_groups_is_found() {
    expect_found::<Group>(&group::flaw::Flaw::ALL);
}

#[test]
#[ignore = "up to an hour: make simulate runs it"]
fn many_histories_keep_every_promise() {
    many::<Pair>();
}

#[test]
#[ignore = "up to an hour: make simulate runs it"]
fn many_groups_keep_every_promise() {
    many::<Group>();
}

fn many<H: History>() {
    let histories = number("MQCORE_SIMULATE").unwrap_or(LONG);
    let first = number("MQCORE_SIMULATE_FROM").unwrap_or(1_000_000);
    walk::<H>(first, histories, true);
}
