//! Transactions through the lane: half messages, their ends, the notes of them, and the check.

use mqcore_engine::config::FlushDiskType;
use mqcore_lane::policy::Broker;
use mqcore_lane::transactions::check::{Checked, Checker, Rules};
use mqcore_record::properties::lookup;
use mqcore_record::{CrcCheck, RecordView};
use mqcore_wire::Command;

use crate::desk::{Desk, START_MS, request, said, send_with};

const HALF: &[u8] = b"RMQ_SYS_TRANS_HALF_TOPIC";
const NOTES: &[u8] = b"RMQ_SYS_TRANS_OP_HALF_TOPIC";
const GIVEN_UP: &[u8] = b"TRANS_CHECK_MAX_TIME_TOPIC";
const COMMIT: &str = "8";
const ROLLBACK: &str = "12";
const BATCHING: i32 = 483;

/// A half message as it was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Half {
    offset: u64,
    physical: u64,
}

impl Desk {
    fn half(&mut self, opaque: i32, more: &str) -> Half {
        let text = format!("TRAN_MSG\u{1}true\u{2}PGROUP\u{1}p\u{2}UNIQ_KEY\u{1}u{opaque}\u{2}{more}");
        let born = (START_MS + self.now_ms as i64).to_string();
        let fields = [("f", "4"), ("e", "2"), ("g", &born), ("i", &text)];
        let answer = self.ask(&send_with(opaque, &fields, b"body"));
        assert_eq!(answer.code, 0);
        let id = answer.ext["msgId"].clone();
        Half {
            offset: answer.ext["queueOffset"].parse().unwrap(),
            physical: u64::from_str_radix(&id[id.len() - 16..], 16).unwrap(),
        }
    }

    fn end(&mut self, half: Half, state: &str, more: &[(&str, &str)]) -> Command {
        self.feed(&ending(half, state, more));
        self.settle();
        let mut answers = self.answers();
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0)
    }

    fn bodies(&self, topic: &[u8], queue_id: i32) -> Vec<String> {
        self.each(topic, queue_id, |view| {
            String::from_utf8(view.body.to_vec()).unwrap()
        })
    }

    fn each<T>(&self, topic: &[u8], queue_id: i32, take: impl Fn(&RecordView<'_>) -> T) -> Vec<T> {
        let mut units = Vec::new();
        let queues = self.store.queues();
        queues.read(topic, queue_id, 0, 1_000, &mut units).unwrap();
        let read = |unit: &mqcore_engine::consume_queue::Unit| {
            let record = self.store.record_at(unit.physical_offset as u64).unwrap();
            take(&record.view(CrcCheck::Verify).unwrap())
        };
        units.iter().map(read).collect()
    }

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

fn ending(half: Half, state: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let (offset, physical) = (half.offset.to_string(), half.physical.to_string());
    let usual = [
        ("producerGroup", "p"),
        ("tranStateTableOffset", offset.as_str()),
        ("commitLogOffset", physical.as_str()),
        ("commitOrRollback", state),
        ("msgId", "m"),
    ];
    let kept = usual
        .iter()
        .filter(|(name, _)| more.iter().all(|(other, _)| other != name));
    let fields: Vec<(&str, &str)> = kept.chain(more).copied().collect();
    request(37, 99, &fields, b"")
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

fn property(view: &RecordView<'_>, name: &str) -> Option<String> {
    let found = lookup(view.properties, name)?;
    Some(String::from_utf8(found.to_vec()).unwrap())
}

#[test]
fn a_commit_stores_the_message_and_notes_the_end() {
    let mut desk = desk();
    let half = desk.half(1, "TAGS\u{1}a\u{2}");
    assert_eq!(said(&desk.end(half, COMMIT, &[])), (0, ""));
    let found = desk.each(b"t", 2, |view| {
        assert_eq!((view.body, view.sys_flag), (b"body".as_slice(), 8));
        assert_eq!(view.prepared_transaction_offset, half.physical as i64);
        assert_eq!(property(view, "TRAN_MSG").as_deref(), Some("true"));
        (property(view, "TAGS"), property(view, "REAL_TOPIC"))
    });
    assert_eq!(found, [(Some("a".to_owned()), Some("t".to_owned()))]);
    assert_eq!(desk.bodies(NOTES, 0), ["0"]);
    let tags = desk.each(NOTES, 0, |view| property(view, "TAGS"));
    assert_eq!(tags, [Some("d".to_owned())]);
}

#[test]
fn a_rollback_notes_the_end_alone() {
    let mut desk = desk();
    let half = desk.half(1, "");
    let other = desk.half(2, "");
    assert_eq!(desk.end(other, ROLLBACK, &[]).code, 0);
    assert_eq!(desk.bodies(NOTES, 0), ["1"]);
    assert_eq!(desk.end(half, COMMIT, &[]).code, 0);
    assert_eq!(desk.bodies(b"t", 2), ["body"]);
    assert_eq!(desk.bodies(NOTES, 0), ["1", "0"]);
    let counts: Vec<_> = desk.lane.ends.counts.all().collect();
    let (topic, count) = counts[0];
    assert_eq!((topic, count.waiting), ("t", 0));
    assert_eq!((count.committed, count.rolled_back), (1, 1));
}

#[test]
fn an_end_that_is_not_decided_is_not_answered() {
    let mut desk = desk();
    let half = desk.half(1, "");
    for state in ["0", "4", "77"] {
        desk.feed(&ending(half, state, &[]));
    }
    desk.settle();
    assert_eq!(desk.answers(), []);
    assert_eq!(desk.bodies(NOTES, 0), [""; 0]);
}

#[test]
fn a_wrong_end_is_refused_in_the_official_words() {
    let mut desk = desk();
    desk.ask(&send_with(0, &[], b"plain"));
    let half = desk.half(1, "");
    let missing = "Find prepared transaction message failed";
    let cases: [(Half, &[(&str, &str)], &str); 7] = [
        (Half { physical: 1 << 40, ..half }, &[], missing),
        (Half { physical: 0, ..half }, &[], missing),
        (Half { physical: half.physical + 1, ..half }, &[], missing),
        (half, &[("commitLogOffset", "-5")], missing),
        (half, &[("producerGroup", "q")], "The producer group wrong"),
        (
            Half { offset: 7, ..half },
            &[],
            "The transaction state table offset wrong",
        ),
        (
            half,
            &[("commitLogOffset", "x")],
            "the custom field <commitLogOffset> is no \"x\"",
        ),
    ];
    for (half, more, remark) in cases {
        assert_eq!(said(&desk.end(half, COMMIT, more)), (1, remark));
    }
    assert_eq!(desk.bodies(b"t", 2), [""; 0], "nothing was committed");
    assert_eq!(desk.bodies(NOTES, 0), [""; 0], "and nothing ended");
    assert_eq!(desk.end(half, COMMIT, &[]).code, 0);
}

#[test]
fn what_is_committed_is_no_half_message_any_more() {
    let mut desk = desk();
    let half = desk.half(1, "");
    desk.end(half, COMMIT, &[]);
    let physical = desk.each(b"t", 2, |view| view.physical_offset as u64)[0];
    let committed = Half { offset: 0, physical };
    assert_eq!(desk.end(committed, COMMIT, &[]).code, 1);
    assert_eq!(desk.bodies(b"t", 2), ["body"]);
}

#[test]
fn a_transaction_ends_once() {
    let mut desk = desk();
    let half = desk.half(1, "");
    desk.end(half, ROLLBACK, &[]);
    let again = desk.end(half, ROLLBACK, &[]);
    assert_eq!(
        said(&again),
        (0, "the transaction was rolled back before")
    );
    assert_eq!(desk.end(half, COMMIT, &[]).code, 1);
    assert_eq!(desk.bodies(b"t", 2), [""; 0], "rolled back it stays");
    let other = desk.half(2, "");
    desk.end(other, COMMIT, &[]);
    assert_eq!(desk.end(other, COMMIT, &[]).code, 0);
    assert_eq!(desk.bodies(b"t", 2), ["body"]);
    assert_eq!(desk.bodies(NOTES, 0), ["0", "1"]);
}

#[test]
fn later_releases_note_many_ends_together() {
    let mut desk = desk();
    desk.lane.decide_broker(Broker {
        version: BATCHING,
        ..Broker::default()
    });
    for opaque in 0..3 {
        let half = desk.half(opaque, "");
        assert_eq!(desk.end(half, COMMIT, &[]).code, 0);
        desk.pass(500);
    }
    let ids = desk.each(HALF, 0, |view| property(view, "__transactionId__"));
    assert_eq!(ids[0].as_deref(), Some("u0"));
    assert_eq!(desk.bodies(NOTES, 0), [""; 0]);
    assert_eq!(desk.lane.next_deadline_ms(), Some(3_000));
    desk.pass(1_500);
    desk.settle();
    assert_eq!(desk.bodies(NOTES, 0), ["0,1,2,"]);
    assert_eq!(desk.lane.next_deadline_ms(), None);
    let half = desk.half(4, "");
    desk.end(half, ROLLBACK, &[]);
    assert!(desk.lane.write_notes());
    desk.settle();
    assert_eq!(desk.bodies(NOTES, 0), ["0,1,2,", "3,"]);
}

#[test]
fn an_end_that_comes_later_than_its_message_allows_is_refused() {
    let mut desk = desk();
    let immune = "CHECK_IMMUNITY_TIME_IN_SECONDS\u{1}8\u{2}";
    let (early, half) = (desk.half(1, immune), desk.half(2, immune));
    desk.lane.decide_broker(Broker {
        version: BATCHING,
        ..Broker::default()
    });
    desk.pass(8_000);
    assert_eq!(desk.end(early, COMMIT, &[]).code, 0);
    desk.pass(1);
    assert_eq!(desk.end(half, COMMIT, &[]).code, 604);
    let asked = [("fromTransactionCheck", "true")];
    assert_eq!(desk.end(half, COMMIT, &asked).code, 0);
}

#[test]
fn a_delayed_half_message_waits_for_its_level_once_committed() {
    let mut desk = desk();
    let half = desk.half(1, "DELAY\u{1}2\u{2}");
    desk.end(half, COMMIT, &[]);
    assert_eq!(desk.bodies(b"SCHEDULE_TOPIC_XXXX", 1), ["body"]);
    let later = START_MS + 5_000;
    let done = mqcore_lane::delay::deliver_due(&desk.store, 2, 0, later, 10).unwrap();
    assert_eq!(done.count, 1);
    desk.settle();
    let found = desk.each(b"t", 2, |view| (view.sys_flag, view.body.len()));
    assert_eq!(found, [(8, 4)]);
}

#[test]
fn with_synchronous_flush_a_commit_is_answered_after_the_sync() {
    let mut desk = Desk::new(FlushDiskType::Sync);
    let text = "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}p\u{2}WAIT\u{1}false\u{2}";
    desk.ask(&send_with(1, &[("i", text)], b"x"));
    let half = Half {
        offset: 0,
        physical: 0,
    };
    desk.feed(&ending(half, COMMIT, &[]));
    desk.drain();
    assert_eq!(desk.answers(), []);
    desk.store.flush().unwrap();
    desk.drain();
    assert_eq!(said(&desk.answers()[0]), (0, ""));
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
    assert_eq!((question.group.as_str(), question.unique_id.as_deref()), ("p", Some("u1")));
    let found = mqcore_record::decode::check(&question.record, CrcCheck::Verify).unwrap();
    let mqcore_record::decode::Found::Record(view) = found else {
        panic!("no record: {found:?}");
    };
    assert_eq!((view.topic, view.queue_id, view.body), (b"t".as_slice(), 2, b"body".as_slice()));
    assert_eq!((view.queue_offset, view.physical_offset as u64), (4, done.copies[0].physical_offset));
    assert_eq!(property(&view, "TRANSACTION_CHECK_TIMES").as_deref(), Some("1"));
    // The answer is about the copy; an answer about the original ends the copy too.
    let copy = Half {
        offset: 4,
        physical: done.copies[0].physical_offset,
    };
    assert_eq!(desk.end(copy, COMMIT, &[("fromTransactionCheck", "true")]).code, 0);
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
    assert_eq!((done.half_offset, done.given_up.as_slice()), (4, &["t".to_owned()][..]));
    assert_eq!(desk.bodies(GIVEN_UP, 0), ["body"]);
    let times = desk.each(GIVEN_UP, 0, |view| property(view, "TRANSACTION_CHECK_TIMES"));
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
        let immune: Vec<_> = done.copies.iter().filter(|c| c.question.is_none()).collect();
        assert_eq!(immune.len(), 1, "round {round}");
    }
    let firsts = desk.each(HALF, 0, |view| property(view, "TRAN_PREPARED_QUEUE_OFFSET"));
    assert_eq!(firsts.last().unwrap().as_deref(), Some("0"));
    let times = desk.each(HALF, 0, |view| property(view, "TRANSACTION_CHECK_TIMES"));
    assert!(times.iter().flatten().count() <= 1, "steps back are no checks: {times:?}");
    desk.end(half, COMMIT, &[]);
    desk.end(young, ROLLBACK, &[]);
    let done = desk.check(&mut checker, at(61_000));
    assert_eq!(done.copies, [], "the end of the first is the end of its copies");
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
    let rules = Rules { limit: 4, ..at(7_000) };
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
