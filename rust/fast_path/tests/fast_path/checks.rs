//! The check of half messages through the fast path: who is asked, who is given up, how far a round comes.

use mqcore_engine::config::FlushDiskType;
use mqcore_fast_path::half_counts::Counts;
use mqcore_fast_path::transactions::check::{Checked, Checker, Rules};
use mqcore_fast_path::transactions::resume::{Resumed, resume};
use mqcore_record::CrcCheck;

use crate::serving::{START_MS, Serving};
use crate::transactions::{COMMIT, HALF, Half, NOTES, ROLLBACK, property};

const GIVEN_UP: &[u8] = b"TRANS_CHECK_MAX_TIME_TOPIC";

impl Serving {
    /// A whole round at a time, from the first offsets on.
    fn check(&mut self, checker: &mut Checker, rules: Rules) -> Checked {
        self.fast_path.write_op_messages();
        self.settle();
        let done = checker.go_on(&self.store, rules, None).unwrap();
        self.fast_path.note_checked(&done);
        self.settle();
        done
    }
}

fn at(age_ms: i64) -> Rules {
    Rules {
        now_ms: START_MS + age_ms,
        timeout_ms: 6_000,
        check_max: 3,
        age_max_ms: 3_600_000,
        can_give_up: true,
        limit: 100,
    }
}

fn serving() -> Serving {
    Serving::new(FlushDiskType::Async)
}

#[test]
fn a_round_passes_what_is_ended_and_asks_about_the_rest() {
    let mut serving = serving();
    let halves: Vec<Half> = (0..4).map(|opaque| serving.half(opaque, "")).collect();
    serving.end(halves[0], COMMIT, &[]);
    serving.end(halves[2], ROLLBACK, &[]);
    let mut checker = Checker::at(0, 0, 0);
    let young = serving.check(&mut checker, at(6_000));
    // Copies of what the first note names may lie as far as the queue ended when it was read.
    assert_eq!((young.half_offset, young.note_offset), (1, 0));
    assert_eq!(young.copies, []);
    let done = serving.check(&mut checker, at(6_001));
    assert_eq!((done.half_offset, done.note_offset, done.until), (4, 2, 4));
    let offsets: Vec<_> = done.copies.iter().map(|c| (c.from.offset, c.to)).collect();
    assert_eq!(offsets, [(1, 4), (3, 5)]);
    let question = done.copies[0].question.clone().unwrap();
    assert_eq!(
        (question.group.as_str(), question.unique_id.as_deref()),
        ("p", Some("u1"))
    );
    let found = mqcore_record::decode::check(&question.record, CrcCheck::Verify).unwrap();
    let mqcore_record::decode::Found::Record(view) = found else {
        panic!("no record: {found:?}");
    };
    assert_eq!(
        (view.topic, view.queue_id, view.body),
        (b"t".as_slice(), 2, b"body".as_slice())
    );
    assert_eq!(
        (view.queue_offset, view.physical_offset as u64),
        (4, done.copies[0].physical_offset)
    );
    assert_eq!(
        property(&view, "TRANSACTION_CHECK_TIMES").as_deref(),
        Some("1")
    );
    // The answer is about the copy; an answer about the original ends the copy too.
    let copy = Half {
        offset: 4,
        physical: done.copies[0].physical_offset,
    };
    assert_eq!(
        serving
            .end(copy, COMMIT, &[("fromTransactionCheck", "true")])
            .code,
        0
    );
    assert_eq!(serving.end(halves[3], COMMIT, &[]).code, 0);
    assert_eq!(serving.bodies(b"t", 2), ["body", "body", "body"]);
    let rest = serving.check(&mut checker, at(100_000));
    assert_eq!((rest.half_offset, rest.copies.len()), (6, 0));
    assert_eq!(rest.note_offset, serving.bodies(NOTES, 0).len() as u64);
    assert_eq!(serving.end(halves[1], COMMIT, &[]).code, 0);
    assert_eq!(serving.bodies(b"t", 2).len(), 3, "its copy was committed");
}

#[test]
fn an_end_that_comes_while_its_message_is_stored_anew_ends_the_copy() {
    let mut serving = serving();
    let half = serving.half(1, "");
    serving.settle();
    let mut checker = Checker::at(0, 0, 0);
    let done = checker.go_on(&serving.store, at(7_000), None).unwrap();
    serving.end(half, COMMIT, &[]);
    assert_eq!(serving.fast_path.note_checked(&done), [true]);
    serving.settle();
    assert_eq!(serving.bodies(NOTES, 0), ["0", "1"]);
}

#[test]
fn who_is_asked_too_often_is_given_up() {
    let mut serving = serving();
    serving.half(1, "");
    let mut checker = Checker::at(0, 0, 0);
    for round in 1..=3 {
        let done = serving.check(&mut checker, at(round * 10_000));
        assert_eq!(done.copies.len(), 1, "round {round}");
        assert!(done.copies[0].question.is_some());
    }
    let unready = Rules {
        can_give_up: false,
        ..at(40_000)
    };
    let stopped = serving.check(&mut checker, unready);
    assert!(stopped.needs_topic);
    assert_eq!(stopped.half_offset, 3);
    let done = serving.check(&mut checker, at(40_000));
    assert_eq!(
        (done.half_offset, done.given_up.as_slice()),
        (4, &["t".to_owned()][..])
    );
    assert_eq!(serving.bodies(GIVEN_UP, 0), ["body"]);
    let times = serving.each(GIVEN_UP, 0, |view| {
        property(view, "TRANSACTION_CHECK_TIMES")
    });
    assert_eq!(times, [Some("3".to_owned())]);
    let after = serving.check(&mut checker, at(50_000));
    assert_eq!((after.half_offset, after.copies.len()), (4, 0));
}

#[test]
fn a_message_that_is_too_old_is_given_up_unasked() {
    let mut serving = serving();
    serving.half(1, "");
    let mut checker = Checker::at(0, 0, 0);
    let done = serving.check(&mut checker, at(3_600_001));
    assert_eq!((done.given_up.len(), done.copies.len()), (1, 0));
}

#[test]
fn an_immune_message_steps_back_and_keeps_its_first_offset() {
    let mut serving = serving();
    let half = serving.half(1, "CHECK_IMMUNITY_TIME_IN_SECONDS\u{1}60\u{2}");
    let young = serving.half(2, "");
    let mut checker = Checker::at(0, 0, 0);
    for (round, age_ms) in [5_000, 20_000].into_iter().enumerate() {
        let done = serving.check(&mut checker, at(age_ms));
        let immune: Vec<_> = done
            .copies
            .iter()
            .filter(|c| c.question.is_none())
            .collect();
        assert_eq!(immune.len(), 1, "round {round}");
    }
    let firsts = serving.each(HALF, 0, |view| property(view, "TRAN_PREPARED_QUEUE_OFFSET"));
    assert_eq!(firsts.last().unwrap().as_deref(), Some("0"));
    let times = serving.each(HALF, 0, |view| property(view, "TRANSACTION_CHECK_TIMES"));
    assert!(
        times.iter().flatten().count() <= 1,
        "steps back are no checks: {times:?}"
    );
    serving.end(half, COMMIT, &[]);
    serving.end(young, ROLLBACK, &[]);
    let done = serving.check(&mut checker, at(61_000));
    assert_eq!(
        done.copies,
        [],
        "the end of the first is the end of its copies"
    );
    let max = serving.store.topics().bounds(HALF, 0).unwrap().unwrap().max;
    assert_eq!(done.half_offset, max);
}

#[test]
fn a_clock_that_is_ahead_does_not_keep_a_message_from_its_check() {
    let mut serving = serving();
    serving.half(1, "");
    let mut checker = Checker::at(0, 0, 0);
    let done = serving.check(&mut checker, at(-1));
    assert_eq!(done.copies.len(), 1);
}

#[test]
fn a_round_is_bounded_per_call_and_ends_where_it_began() {
    let mut serving = serving();
    for opaque in 0..10 {
        serving.half(opaque, "");
    }
    serving.settle();
    let rules = Rules {
        limit: 4,
        ..at(7_000)
    };
    let mut checker = Checker::at(0, 0, 0);
    let mut until = None;
    let mut calls = Vec::new();
    loop {
        let done = checker.go_on(&serving.store, rules, until).unwrap();
        serving.settle();
        until = Some(done.until);
        calls.push(done.copies.len());
        if !done.has_more {
            break;
        }
    }
    assert_eq!(calls, [4, 4, 2]);
    assert_eq!(
        serving.store.topics().bounds(HALF, 0).unwrap().unwrap().max,
        20
    );
}

#[test]
fn a_checker_goes_on_from_written_offsets_and_into_the_bounds() {
    let mut serving = serving();
    let halves: Vec<Half> = (0..3).map(|opaque| serving.half(opaque, "")).collect();
    serving.end(halves[1], COMMIT, &[]);
    serving.end(halves[0], COMMIT, &[]);
    let mut first = Checker::at(0, 0, 0);
    let done = serving.check(&mut first, at(1_000));
    assert_eq!((done.half_offset, done.note_offset), (2, 0));
    assert!(first.is_at(2, 0) && !first.is_at(2, 1));
    let mut again = Checker::at(0, 2, 2);
    assert_eq!(serving.check(&mut again, at(7_000)).copies.len(), 1);
    let mut beyond = Checker::at(0, 900, 900);
    let done = serving.check(&mut beyond, at(7_000));
    assert_eq!((done.half_offset, done.note_offset), (4, 2));
    let mut none = Checker::at(5, 7, 7);
    let done = serving.check(&mut none, at(7_000));
    assert_eq!((done.half_offset, done.note_offset), (0, 0));
}

#[test]
fn what_was_given_up_waits_for_its_end_again() {
    let mut serving = serving();
    serving.half(0, "");
    serving.settle();
    let counts = Counts::default();
    let done = serving.check(&mut Checker::at(0, 0, 0), at(3_600_001));
    assert_eq!(done.given_up.len(), 1);
    let (store, none) = (&serving.store, resume(&serving.store, &counts, 1 << 40));
    assert_eq!(none.unwrap(), Resumed::Unfit);
    let half = String::from_utf8(HALF.to_vec()).unwrap();
    assert_eq!(
        resume(store, &counts, 0).unwrap(),
        Resumed::NotGivenUp(half)
    );
    let given_up = first_of(&serving, GIVEN_UP);
    let resumed = resume(store, &counts, given_up).unwrap();
    let Resumed::Stored { end } = resumed else {
        panic!("not stored: {resumed:?}");
    };
    assert!(end > done.end);
    assert_eq!(
        counts.all().first().map(|(_, count)| count.waiting),
        Some(1)
    );
    serving.settle();
    let again = serving.check(&mut Checker::at(0, 1, 0), at(6_001));
    assert_eq!(again.copies.len(), 1);
}

/// Where the first record of a topic's first queue is in the log.
fn first_of(serving: &Serving, topic: &[u8]) -> u64 {
    let mut units = Vec::new();
    let queues = serving.store.queues();
    queues.read(topic, 0, 0, 1, &mut units).unwrap();
    units[0].physical_offset.unsigned_abs()
}
