//! The check of half messages through the lane: who is asked, who is given up, how far a round comes.

use mqcore_engine::config::FlushDiskType;
use mqcore_lane::transactions::check::{Checked, Checker, Rules};
use mqcore_record::CrcCheck;

use crate::desk::{Desk, START_MS};
use crate::transactions::{COMMIT, HALF, Half, NOTES, ROLLBACK, property};

const GIVEN_UP: &[u8] = b"TRANS_CHECK_MAX_TIME_TOPIC";

impl Desk {
    /// A whole round at a time, from the first offsets on.
    fn check(&mut self, checker: &mut Checker, rules: Rules) -> Checked {
        self.lane.write_notes();
        self.settle();
        let done = checker.go_on(&self.store, rules, None).unwrap();
        self.lane.note_checked(&done);
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

fn desk() -> Desk {
    Desk::new(FlushDiskType::Async)
}

#[test]
fn a_round_passes_what_is_ended_and_asks_about_the_rest() {
    let mut desk = desk();
    let halves: Vec<Half> = (0..4).map(|opaque| desk.half(opaque, "")).collect();
    desk.end(halves[0], COMMIT, &[]);
    desk.end(halves[2], ROLLBACK, &[]);
    let mut checker = Checker::at(0, 0, 0);
    let young = desk.check(&mut checker, at(6_000));
    assert_eq!((young.half_offset, young.note_offset), (1, 1));
    assert_eq!(young.copies, []);
    let done = desk.check(&mut checker, at(6_001));
    assert_eq!((done.half_offset, done.note_offset, done.until), (4, 2, 4));
    let places: Vec<_> = done.copies.iter().map(|c| (c.from.offset, c.to)).collect();
    assert_eq!(places, [(1, 4), (3, 5)]);
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
        desk.end(copy, COMMIT, &[("fromTransactionCheck", "true")])
            .code,
        0
    );
    assert_eq!(desk.end(halves[3], COMMIT, &[]).code, 0);
    assert_eq!(desk.bodies(b"t", 2), ["body", "body", "body"]);
    let rest = desk.check(&mut checker, at(100_000));
    assert_eq!((rest.half_offset, rest.copies.len()), (6, 0));
    assert_eq!(rest.note_offset, desk.bodies(NOTES, 0).len() as u64);
    assert_eq!(desk.end(halves[1], COMMIT, &[]).code, 0);
    assert_eq!(desk.bodies(b"t", 2).len(), 3, "its copy was committed");
}

#[test]
fn an_end_that_comes_while_its_message_is_stored_anew_ends_the_copy() {
    let mut desk = desk();
    let half = desk.half(1, "");
    desk.settle();
    let mut checker = Checker::at(0, 0, 0);
    let done = checker.go_on(&desk.store, at(7_000), None).unwrap();
    desk.end(half, COMMIT, &[]);
    assert_eq!(desk.lane.note_checked(&done), [true]);
    desk.settle();
    assert_eq!(desk.bodies(NOTES, 0), ["0", "1"]);
}

#[test]
fn who_is_asked_too_often_is_given_up() {
    let mut desk = desk();
    desk.half(1, "");
    let mut checker = Checker::at(0, 0, 0);
    for round in 1..=3 {
        let done = desk.check(&mut checker, at(round * 10_000));
        assert_eq!(done.copies.len(), 1, "round {round}");
        assert!(done.copies[0].question.is_some());
    }
    let unready = Rules {
        can_give_up: false,
        ..at(40_000)
    };
    let stopped = desk.check(&mut checker, unready);
    assert!(stopped.needs_topic);
    assert_eq!(stopped.half_offset, 3);
    let done = desk.check(&mut checker, at(40_000));
    assert_eq!(
        (done.half_offset, done.given_up.as_slice()),
        (4, &["t".to_owned()][..])
    );
    assert_eq!(desk.bodies(GIVEN_UP, 0), ["body"]);
    let times = desk.each(GIVEN_UP, 0, |view| {
        property(view, "TRANSACTION_CHECK_TIMES")
    });
    assert_eq!(times, [Some("3".to_owned())]);
    let after = desk.check(&mut checker, at(50_000));
    assert_eq!((after.half_offset, after.copies.len()), (4, 0));
}

#[test]
fn a_message_that_is_too_old_is_given_up_unasked() {
    let mut desk = desk();
    desk.half(1, "");
    let mut checker = Checker::at(0, 0, 0);
    let done = desk.check(&mut checker, at(3_600_001));
    assert_eq!((done.given_up.len(), done.copies.len()), (1, 0));
}

#[test]
fn an_immune_message_steps_back_and_keeps_its_first_place() {
    let mut desk = desk();
    let half = desk.half(1, "CHECK_IMMUNITY_TIME_IN_SECONDS\u{1}60\u{2}");
    let young = desk.half(2, "");
    let mut checker = Checker::at(0, 0, 0);
    for (round, age_ms) in [5_000, 20_000].into_iter().enumerate() {
        let done = desk.check(&mut checker, at(age_ms));
        let immune: Vec<_> = done
            .copies
            .iter()
            .filter(|c| c.question.is_none())
            .collect();
        assert_eq!(immune.len(), 1, "round {round}");
    }
    let firsts = desk.each(HALF, 0, |view| property(view, "TRAN_PREPARED_QUEUE_OFFSET"));
    assert_eq!(firsts.last().unwrap().as_deref(), Some("0"));
    let times = desk.each(HALF, 0, |view| property(view, "TRANSACTION_CHECK_TIMES"));
    assert!(
        times.iter().flatten().count() <= 1,
        "steps back are no checks: {times:?}"
    );
    desk.end(half, COMMIT, &[]);
    desk.end(young, ROLLBACK, &[]);
    let done = desk.check(&mut checker, at(61_000));
    assert_eq!(
        done.copies,
        [],
        "the end of the first is the end of its copies"
    );
    let max = desk.store.bounds(HALF, 0).unwrap().unwrap().max;
    assert_eq!(done.half_offset, max);
}

#[test]
fn a_clock_that_is_ahead_does_not_keep_a_message_from_its_check() {
    let mut desk = desk();
    desk.half(1, "");
    let mut checker = Checker::at(0, 0, 0);
    let done = desk.check(&mut checker, at(-1));
    assert_eq!(done.copies.len(), 1);
}

#[test]
fn a_round_is_bounded_per_call_and_ends_where_it_began() {
    let mut desk = desk();
    for opaque in 0..10 {
        desk.half(opaque, "");
    }
    desk.settle();
    let rules = Rules {
        limit: 4,
        ..at(7_000)
    };
    let mut checker = Checker::at(0, 0, 0);
    let mut until = None;
    let mut calls = Vec::new();
    loop {
        let done = checker.go_on(&desk.store, rules, until).unwrap();
        desk.settle();
        until = Some(done.until);
        calls.push(done.copies.len());
        if !done.has_more {
            break;
        }
    }
    assert_eq!(calls, [4, 4, 2]);
    assert_eq!(desk.store.bounds(HALF, 0).unwrap().unwrap().max, 20);
}

#[test]
fn a_checker_goes_on_from_written_offsets_and_into_the_bounds() {
    let mut desk = desk();
    let halves: Vec<Half> = (0..3).map(|opaque| desk.half(opaque, "")).collect();
    desk.end(halves[1], COMMIT, &[]);
    desk.end(halves[0], COMMIT, &[]);
    let mut first = Checker::at(0, 0, 0);
    let done = desk.check(&mut first, at(1_000));
    assert_eq!((done.half_offset, done.note_offset), (2, 2));
    assert!(first.is_at(2, 2) && !first.is_at(2, 1));
    let mut again = Checker::at(0, 2, 2);
    assert_eq!(desk.check(&mut again, at(7_000)).copies.len(), 1);
    let mut beyond = Checker::at(0, 900, 900);
    let done = desk.check(&mut beyond, at(7_000));
    assert_eq!((done.half_offset, done.note_offset), (4, 2));
    let mut none = Checker::at(5, 7, 7);
    let done = desk.check(&mut none, at(7_000));
    assert_eq!((done.half_offset, done.note_offset), (0, 0));
}
