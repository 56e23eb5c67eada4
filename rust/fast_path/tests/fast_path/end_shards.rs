//! Ends of half messages of all shards on two loops over one store: each ends once and is noted once, and
//! what waits for an op message is known to both. There are more half messages than shards.

use std::thread;

use mqcore_engine::config::FlushDiskType;
use mqcore_fast_path::policy::Broker;
use mqcore_fast_path::transactions::check::{Checker, Rules};

use crate::beside::Loop;
use crate::serving::{START_MS, Serving, commands};
use crate::transactions::{BATCHING, COMMIT, Half, NOTES, ROLLBACK, ending};

const HALVES: usize = 200;
/// A release whose op messages name one end each.
const SINGLE: i32 = 409;
/// How long an end waits for others, ms.
const INTERVAL_MS: u64 = 3_000;

/// A broker of a release with half messages, and another loop over its store.
fn with_halves(version: i32) -> (Serving, Loop, Vec<Half>) {
    let mut serving = Serving::new(FlushDiskType::Async);
    serving.fast_path.decide_broker(Broker {
        version,
        ..serving.fast_path.policy.broker.as_ref().clone()
    });
    let other = serving.another_loop();
    let halves = (0..HALVES).map(|number| serving.half(number as i32, ""));
    let halves = halves.collect();
    (serving, other, halves)
}

/// The offsets that op messages name, in their order.
fn noted(serving: &Serving) -> Vec<u64> {
    let bodies = serving.bodies(NOTES, 0);
    let offsets = bodies.iter().flat_map(|body| body.split_terminator(','));
    offsets.map(|offset| offset.parse().unwrap()).collect()
}

/// Feeds one loop, and gives the codes of the answers.
fn codes(one: &mut Loop, requests: &[Vec<u8>]) -> Vec<i32> {
    for request in requests {
        one.fast_path.feed(one.client, request, 0).unwrap();
    }
    let connections = &mut one.fast_path.connections;
    let bytes = connections.change_output(one.client, |output| output.take(usize::MAX));
    let answers = commands(&bytes.unwrap());
    answers.iter().map(|answer| answer.code).collect()
}

#[test]
fn of_ends_on_several_loops_at_the_same_time_one_counts() {
    for version in [SINGLE, BATCHING] {
        let (mut serving, other, halves) = with_halves(version);
        let mut loops = [serving.another_loop(), other];
        let ends = |state: &str| -> Vec<Vec<u8>> {
            let each = halves.iter().map(|half| ending(*half, state, &[]));
            each.collect()
        };
        let ends = [ends(COMMIT), ends(ROLLBACK)];
        let [committed, rolled_back]: [Vec<i32>; 2] = thread::scope(|scope| {
            let started = loops.iter_mut().zip(&ends);
            let started: Vec<_> = started
                .map(|(one, requests)| scope.spawn(|| codes(one, requests)))
                .collect();
            let done: Vec<_> = started
                .into_iter()
                .map(|each| each.join().unwrap())
                .collect();
            done.try_into().unwrap()
        });
        // Of each half message one end came first, and the other one was refused.
        for (commit, rollback) in committed.iter().zip(&rolled_back) {
            assert_eq!(
                (*commit == 0, *rollback == 0),
                (*rollback != 0, *commit != 0)
            );
        }
        assert!(serving.fast_path.write_op_messages());
        serving.settle();
        let commits = committed.iter().filter(|code| **code == 0).count();
        assert_eq!(serving.stored(b"t"), commits);
        let mut offsets = noted(&serving);
        offsets.sort_unstable();
        let all: Vec<u64> = halves.iter().map(|half| half.offset).collect();
        assert_eq!(offsets, all, "release {version}");
        let counts = serving.fast_path.shared.counts.all();
        let (_topic, count) = &counts[0];
        assert_eq!((count.waiting, count.committed), (0, commits as u64));
        assert_eq!(count.rolled_back, (HALVES - commits) as u64);
    }
}

#[test]
fn what_one_loop_has_ended_another_one_notes_when_it_is_due() {
    let (mut serving, mut other, halves) = with_halves(BATCHING);
    let ends = halves.iter().map(|half| ending(*half, COMMIT, &[]));
    let answered = codes(&mut other, &ends.collect::<Vec<_>>());
    assert_eq!(answered, [0; HALVES]);
    assert_eq!(serving.number("ends_to_note"), HALVES as u64);
    assert_eq!(serving.fast_path.next_deadline_ms(), Some(INTERVAL_MS));
    serving.pass(INTERVAL_MS - 1);
    assert_eq!(serving.number("ends_to_note"), HALVES as u64);
    serving.pass(1);
    assert_eq!(serving.number("ends_to_note"), 0);
    assert_eq!(serving.number("ends_remembered"), HALVES as u64);
    assert_eq!(serving.fast_path.next_deadline_ms(), None);
    assert_eq!(other.fast_path.next_deadline_ms(), None);
    serving.settle();
    assert_eq!(
        serving.bodies(NOTES, 0).len(),
        1,
        "one op message of all shards"
    );
    let all: Vec<u64> = halves.iter().map(|half| half.offset).collect();
    assert_eq!(noted(&serving), all);
}

#[test]
fn copies_of_what_another_loop_has_ended_meanwhile_are_ended() {
    for version in [SINGLE, BATCHING] {
        let (mut serving, mut other, halves) = with_halves(version);
        serving.settle();
        let mut checker = Checker::at(0, 0, 0);
        let rules = Rules {
            now_ms: START_MS + 6_001,
            timeout_ms: 6_000,
            check_max: 3,
            age_max_ms: 3_600_000,
            can_give_up: true,
            limit: HALVES,
        };
        let done = checker.go_on(&serving.store, rules, None).unwrap();
        assert_eq!(done.copies.len(), HALVES);
        // Every other one, between the round and the record of what it did.
        let early: Vec<_> = halves.iter().step_by(2).collect();
        let ends = early.iter().map(|half| ending(**half, ROLLBACK, &[]));
        let answered = codes(&mut other, &ends.collect::<Vec<_>>());
        assert_eq!(answered, [0; HALVES / 2]);
        let ended = serving.fast_path.note_checked(&done);
        assert!(
            ended
                .iter()
                .enumerate()
                .all(|(at, is_ended)| *is_ended == (at % 2 == 0))
        );
        // The others after it: the end of the first ends the copy.
        let late = halves.iter().skip(1).step_by(2);
        let ends = late.map(|half| ending(*half, ROLLBACK, &[]));
        let answered = codes(&mut other, &ends.collect::<Vec<_>>());
        assert_eq!(answered, [0; HALVES / 2]);
        assert!(serving.fast_path.write_op_messages());
        serving.settle();
        let mut offsets = noted(&serving);
        offsets.sort_unstable();
        assert_eq!(offsets, (0..2 * HALVES as u64).collect::<Vec<_>>());
    }
}
