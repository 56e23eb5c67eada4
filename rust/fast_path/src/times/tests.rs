//! Notes become stages, times by code and the slowest requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// Times by a clock that is set.
fn times() -> (RequestTimes, Arc<AtomicU64>) {
    let now_us = Arc::new(AtomicU64::new(0));
    let mut times = RequestTimes {
        is_on: true,
        ..RequestTimes::default()
    };
    let clock = Arc::clone(&now_us);
    times.time_by(move || Duration::from_micros(clock.load(Ordering::Relaxed)));
    (times, now_us)
}

fn context(code: i32, received_us: u64) -> RequestContext {
    RequestContext {
        connection: ConnectionId(7),
        code,
        received_us,
        ..RequestContext::default()
    }
}

fn stored() -> Subject {
    Subject::Stored {
        queue_id: 1,
        queue_offset: 2,
        physical_offset: 3,
        bytes: 4,
    }
}

/// Code, time and stages of a slow request.
type Seen = (i32, u64, Vec<(&'static str, u64)>);

fn slowest(times: &RequestTimes) -> Vec<Seen> {
    let all = times.slowest.since(0, times.now_us());
    all.map(|slow| (slow.code, slow.total_us, slow.stages.named().collect()))
        .collect()
}

#[test]
fn a_send_has_the_stages_that_it_passed() {
    let (mut times, now_us) = times();
    times.begin(Duration::from_micros(100));
    times.note(&context(codes::SEND_MESSAGE_V2, 100), 0);
    times.describe(Moments::default(), stored);
    now_us.store(130, Ordering::Relaxed);
    assert_eq!(times.end_step(false), Some(130));
    // One that waited for a log file, its sync and a replica, answered in the same turn.
    times.note(&context(codes::SEND_MESSAGE_V2, 10), 0);
    let marks = Moments {
        begun_us: 40,
        appended_us: 60,
        flushed_us: 90,
        replicated_us: 120,
    };
    times.describe(marks, stored);
    now_us.store(150, Ordering::Relaxed);
    times.end_step(false);
    now_us.store(200, Ordering::Relaxed);
    times.written(|id| format!("peer {}", id.0).into());
    assert_eq!(
        slowest(&times),
        [
            (
                codes::SEND_MESSAGE_V2,
                100,
                vec![("appended", 30), ("answered", 70)]
            ),
            (
                codes::SEND_MESSAGE_V2,
                190,
                vec![
                    ("waited", 30),
                    ("appended", 20),
                    ("flushed", 30),
                    ("replicated", 30),
                    ("answered", 80)
                ]
            ),
        ]
    );
    let sums: Vec<(Stage, u64, u64)> = times
        .by_stage()
        .map(|(_, stage, durations)| (stage, durations.count(), durations.sum_us))
        .collect();
    assert_eq!(
        sums,
        [
            (Stage::Waited, 1, 30),
            (Stage::Appended, 2, 50),
            (Stage::Flushed, 1, 30),
            (Stage::Replicated, 1, 30),
            (Stage::Answered, 2, 150),
        ]
    );
    let all: Vec<(&Pair, u64)> = times.by_pair().map(|(pair, d)| (pair, d.sum)).collect();
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].0.code, all[0].1), (codes::SEND_MESSAGE_V2, 290));
}

#[test]
fn the_time_of_a_hold_is_no_slowness() {
    let (mut times, now_us) = times();
    times.begin(Duration::from_micros(5_000_000));
    times.note(&context(codes::PULL_MESSAGE, 1_000), 0);
    let marks = Moments {
        begun_us: 5_000_000,
        ..Moments::default()
    };
    times.describe(marks, || Subject::None);
    times.note(&context(codes::POP_MESSAGE, 1_000), 0);
    now_us.store(5_000_020, Ordering::Relaxed);
    times.end_step(false);
    now_us.store(5_000_050, Ordering::Relaxed);
    times.written(|_id| "p".into());
    assert_eq!(
        slowest(&times),
        [(
            codes::PULL_MESSAGE,
            50,
            vec![("held", 4_999_000), ("read", 20), ("answered", 30)]
        )]
    );
    let held: Vec<bool> = times
        .by_pair()
        .filter(|(pair, _)| pair.code == codes::PULL_MESSAGE)
        .map(|(pair, _)| pair.is_held)
        .collect();
    assert_eq!(held, [true]);
}

#[test]
fn requests_of_one_step_are_counted_together_and_each_by_itself() {
    let (mut times, now_us) = times();
    times.begin(Duration::from_micros(10));
    for _ in 0..5 {
        times.note(&context(codes::SEND_MESSAGE, 10), 0);
        times.describe(Moments::default(), stored);
    }
    times.note(&context(codes::SEND_MESSAGE, 10), 2);
    now_us.store(30, Ordering::Relaxed);
    times.end_step(false);
    times.written(|_id| "p".into());
    let counts: Vec<(Kind, Stage, u64)> = times
        .by_stage()
        .map(|(kind, stage, durations)| (kind, stage, durations.count()))
        .collect();
    assert_eq!(
        counts,
        [
            (Kind::Send, Stage::Appended, 5),
            (Kind::Send, Stage::Answered, 5),
            (Kind::Other, Stage::Executed, 1),
            (Kind::Other, Stage::Answered, 1),
        ]
    );
    assert_eq!(times.by_pair().count(), 2);
    // The end of the step was read once, and an empty turn reads nothing.
    assert_eq!(times.end_step(false), None);
}

#[test]
fn nothing_is_noted_without_a_clock_and_beyond_the_bound() {
    let mut off = RequestTimes::default();
    off.note(&context(10, 0), 0);
    off.describe(Moments::default(), || unreachable!("nothing was noted"));
    assert_eq!(off.end_step(true), None);
    let (mut times, _now_us) = times();
    for _ in 0..=NOTES_MAX {
        times.note(&context(10, 0), 0);
    }
    times.describe(Moments::default(), || unreachable!("it was not noted"));
    assert_eq!((times.untimed, times.notes.len()), (1, NOTES_MAX));
    times.end_step(false);
    times.written(|_id| "p".into());
    assert!(times.notes.is_empty());
}
