//! Bugs that the store might have, one by one: the enumeration finds each of them.

use std::sync::atomic::Ordering;

use super::flaw::{Flaw, Phase};
use super::script::{Script, Step};
use super::sweep::{Plan, sweep};

/// Images in which a bug must show.
const IMAGES_MAX: u64 = 100_000;

/// Many bugs show only when a recovered store crashes once more.
const AGAIN_EVERY: u64 = 20;

/// A bug: what it is, and how the disk or the settings make it.
struct Bug {
    what: &'static str,
    flaw: Option<Flaw>,
    bend: fn(&mut Script),
}

const fn flawed(what: &'static str, flaw: Flaw) -> Bug {
    Bug {
        what,
        flaw: Some(flaw),
        bend: |_| (),
    }
}

/// A record of one page, when it is the first.
const FIRST_PAGE: Step = Step::Append {
    queue_key: ("T", 0),
    body_len: 3_990,
    keys: "b",
};
const SECOND: Step = Step::Append {
    queue_key: ("T", 0),
    body_len: 24,
    keys: "b",
};

const BUGS: [Bug; 17] = [
    flawed(
        "the log is acknowledged before its sync",
        Flaw::NoSync("/commitlog/"),
    ),
    flawed(
        "a sync of what was appended ends a page too early",
        Flaw::ShortSync,
    ),
    flawed(
        "a sync of what was appended begins a page too late",
        Flaw::LateSync,
    ),
    flawed(
        "a log file is renamed into place, its directory not synced",
        Flaw::NoSyncDir("commitlog"),
    ),
    flawed(
        "the checkpoint runs ahead of the queues",
        Flaw::NoSync("/consumequeue/"),
    ),
    flawed("directories of queues are not synced", Flaw::NoSyncDir("0")),
    flawed(
        "the checkpoint runs ahead of the index",
        Flaw::NoSync("/index/"),
    ),
    flawed("what is cut off is not zeroed", Flaw::NoZeros),
    Bug {
        what: "the zeros over what is cut off are not synced",
        flaw: Some(Flaw::ZerosUnsynced),
        bend: |script| {
            // Two records on pages of their own: of the first loss the second one is left, until
            // one as long as the first is appended again.
            script.before = Vec::new();
            script.steps = vec![FIRST_PAGE, SECOND];
            script.sequel = Some(vec![FIRST_PAGE]);
        },
    },
    flawed(
        "the mark of an unclean end goes before the last syncs",
        Flaw::CleanTooEarly,
    ),
    flawed("there is no mark of an unclean end", Flaw::NoMark),
    flawed(
        "what a killed process left counts as flushed and is not synced",
        Flaw::NoSyncIn(Phase::Opening, "/commitlog/"),
    ),
    flawed(
        "log files go before the ends of queues are synced",
        Flaw::NoSyncIn(Phase::Removing, "/consumequeue/"),
    ),
    flawed(
        "a config file is renamed into place before its sync",
        Flaw::NoSync("topics.json.tmp"),
    ),
    flawed(
        "a config file is renamed into place, its directory not synced",
        Flaw::NoSyncDir("config"),
    ),
    Bug {
        what: "consumers read what is not flushed",
        flaw: None,
        bend: |script| script.reads_unflushed = true,
    },
    Bug {
        what: "recovery does not look at checksums",
        flaw: None,
        bend: |script| script.checks_crc = false,
    },
];

/// The sound store passes the same scripts: `a_sample_of_images_recovers`.
#[test]
fn each_seeded_bug_is_found() {
    let mut missed = Vec::new();
    for bug in &BUGS {
        let mut plan = Plan::of(IMAGES_MAX);
        plan.first_seed = 1;
        plan.again_every = AGAIN_EVERY;
        // Many histories show most bugs soonest; this one needs one image of many of a history.
        let is_narrow = bug.flaw == Some(Flaw::ZerosUnsynced);
        plan.per_stop = if is_narrow { 40 } else { 12 };
        plan.flaw = bug.flaw;
        plan.bend = bug.bend;
        let (count, failure) = sweep(plan);
        let images = count.images.load(Ordering::Relaxed);
        match failure {
            None => missed.push((bug.what, images)),
            Some((case, why)) => {
                let short: String = why.chars().take(120).collect();
                eprintln!("{}: after {images} images, {case}: {short}", bug.what);
            }
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
