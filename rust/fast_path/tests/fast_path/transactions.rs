//! Transactions through the fast path: half messages, their ends, and op messages.

use mqcore_engine::config::FlushDiskType;
use mqcore_fast_path::policy::Broker;
use mqcore_record::properties::lookup;
use mqcore_record::{CrcCheck, RecordView};
use mqcore_wire::Command;

use crate::serving::{START_MS, Serving, request, response, send_with};

pub(crate) const HALF: &[u8] = b"RMQ_SYS_TRANS_HALF_TOPIC";
pub(crate) const NOTES: &[u8] = b"RMQ_SYS_TRANS_OP_HALF_TOPIC";
pub(crate) const COMMIT: &str = "8";
pub(crate) const ROLLBACK: &str = "12";
pub(crate) const BATCHING: i32 = 483;

/// A half message as it was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Half {
    pub(crate) offset: u64,
    pub(crate) physical: u64,
}

impl Serving {
    pub(crate) fn half(&mut self, opaque: i32, more: &str) -> Half {
        let text =
            format!("TRAN_MSG\u{1}true\u{2}PGROUP\u{1}p\u{2}UNIQ_KEY\u{1}u{opaque}\u{2}{more}");
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

    pub(crate) fn end(&mut self, half: Half, state: &str, more: &[(&str, &str)]) -> Command {
        self.feed(&ending(half, state, more));
        self.settle();
        let mut answers = self.answers();
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0)
    }

    pub(crate) fn bodies(&self, topic: &[u8], queue_id: i32) -> Vec<String> {
        self.each(topic, queue_id, |view| {
            String::from_utf8(view.body.to_vec()).unwrap()
        })
    }

    pub(crate) fn each<T>(
        &self,
        topic: &[u8],
        queue_id: i32,
        take: impl Fn(&RecordView<'_>) -> T,
    ) -> Vec<T> {
        let mut units = Vec::new();
        let queues = self.store.queues();
        queues.read(topic, queue_id, 0, 1_000, &mut units).unwrap();
        let read = |unit: &mqcore_engine::consume_queue::Unit| {
            let record = self
                .store
                .reader()
                .record_at(unit.physical_offset as u64)
                .unwrap();
            take(&record.view(CrcCheck::Verify).unwrap())
        };
        units.iter().map(read).collect()
    }
}

pub(crate) fn ending(half: Half, state: &str, more: &[(&str, &str)]) -> Vec<u8> {
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

fn serving() -> Serving {
    Serving::new(FlushDiskType::Async)
}

pub(crate) fn property(view: &RecordView<'_>, name: &str) -> Option<String> {
    let found = lookup(view.properties, name)?;
    Some(String::from_utf8(found.to_vec()).unwrap())
}

#[test]
fn a_commit_stores_the_message_and_notes_the_end() {
    let mut serving = serving();
    let half = serving.half(1, "TAGS\u{1}a\u{2}");
    assert_eq!(response(&serving.end(half, COMMIT, &[])), (0, ""));
    let found = serving.each(b"t", 2, |view| {
        assert_eq!((view.body, view.sys_flag), (b"body".as_slice(), 8));
        assert_eq!(view.prepared_transaction_offset, half.physical as i64);
        assert_eq!(property(view, "TRAN_MSG").as_deref(), Some("true"));
        (property(view, "TAGS"), property(view, "REAL_TOPIC"))
    });
    assert_eq!(found, [(Some("a".to_owned()), Some("t".to_owned()))]);
    assert_eq!(serving.bodies(NOTES, 0), ["0"]);
    let tags = serving.each(NOTES, 0, |view| property(view, "TAGS"));
    assert_eq!(tags, [Some("d".to_owned())]);
}

#[test]
fn a_rollback_notes_the_end_alone() {
    let mut serving = serving();
    let half = serving.half(1, "");
    let other = serving.half(2, "");
    assert_eq!(serving.end(other, ROLLBACK, &[]).code, 0);
    assert_eq!(serving.bodies(NOTES, 0), ["1"]);
    assert_eq!(serving.end(half, COMMIT, &[]).code, 0);
    assert_eq!(serving.bodies(b"t", 2), ["body"]);
    assert_eq!(serving.bodies(NOTES, 0), ["1", "0"]);
    let counts = serving.fast_path.shared.counts.all();
    let (topic, count) = &counts[0];
    assert_eq!((topic.as_str(), count.waiting), ("t", 0));
    assert_eq!((count.committed, count.rolled_back), (1, 1));
}

#[test]
fn an_end_that_is_not_decided_is_not_answered() {
    let mut serving = serving();
    let half = serving.half(1, "");
    for state in ["0", "4", "77"] {
        serving.feed(&ending(half, state, &[]));
    }
    serving.settle();
    assert_eq!(serving.answers(), []);
    assert_eq!(serving.bodies(NOTES, 0), [""; 0]);
}

/// Where the request claims the half message to be, what else is wrong, and the remark.
type Wrong<'a> = (Half, &'a [(&'a str, &'a str)], &'a str);

#[test]
fn a_wrong_end_is_refused_in_the_official_words() {
    let mut serving = serving();
    serving.ask(&send_with(0, &[], b"plain"));
    let half = serving.half(1, "");
    let missing = "Find prepared transaction message failed";
    let cases: [Wrong<'_>; 7] = [
        (
            Half {
                physical: 1 << 40,
                ..half
            },
            &[],
            missing,
        ),
        (
            Half {
                physical: 0,
                ..half
            },
            &[],
            missing,
        ),
        (
            Half {
                physical: half.physical + 1,
                ..half
            },
            &[],
            missing,
        ),
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
        assert_eq!(response(&serving.end(half, COMMIT, more)), (1, remark));
    }
    assert_eq!(serving.bodies(b"t", 2), [""; 0], "nothing was committed");
    assert_eq!(serving.bodies(NOTES, 0), [""; 0], "and nothing ended");
    assert_eq!(serving.end(half, COMMIT, &[]).code, 0);
}

#[test]
fn what_is_committed_is_no_half_message_any_more() {
    let mut serving = serving();
    let half = serving.half(1, "");
    serving.end(half, COMMIT, &[]);
    let physical = serving.each(b"t", 2, |view| view.physical_offset as u64)[0];
    let committed = Half {
        offset: 0,
        physical,
    };
    assert_eq!(serving.end(committed, COMMIT, &[]).code, 1);
    assert_eq!(serving.bodies(b"t", 2), ["body"]);
}

#[test]
fn a_transaction_ends_once() {
    let mut serving = serving();
    let half = serving.half(1, "");
    serving.end(half, ROLLBACK, &[]);
    let again = serving.end(half, ROLLBACK, &[]);
    assert_eq!(
        response(&again),
        (0, "the transaction was rolled back before")
    );
    assert_eq!(serving.end(half, COMMIT, &[]).code, 1);
    assert_eq!(serving.bodies(b"t", 2), [""; 0], "rolled back it stays");
    let other = serving.half(2, "");
    serving.end(other, COMMIT, &[]);
    assert_eq!(serving.end(other, COMMIT, &[]).code, 0);
    assert_eq!(serving.bodies(b"t", 2), ["body"]);
    assert_eq!(serving.bodies(NOTES, 0), ["0", "1"]);
}

#[test]
fn later_releases_note_many_ends_together() {
    let mut serving = serving();
    serving.fast_path.decide_broker(Broker {
        version: BATCHING,
        ..Broker::default()
    });
    for opaque in 0..3 {
        let half = serving.half(opaque, "");
        assert_eq!(serving.end(half, COMMIT, &[]).code, 0);
        serving.pass(500);
    }
    let ids = serving.each(HALF, 0, |view| property(view, "__transactionId__"));
    assert_eq!(ids[0].as_deref(), Some("u0"));
    assert_eq!(serving.bodies(NOTES, 0), [""; 0]);
    assert_eq!(serving.fast_path.next_deadline_ms(), Some(3_000));
    serving.pass(1_500);
    serving.settle();
    assert_eq!(serving.bodies(NOTES, 0), ["0,1,2,"]);
    assert_eq!(serving.fast_path.next_deadline_ms(), None);
    let half = serving.half(4, "");
    serving.end(half, ROLLBACK, &[]);
    assert!(serving.fast_path.write_op_messages());
    serving.settle();
    assert_eq!(serving.bodies(NOTES, 0), ["0,1,2,", "3,"]);
}

#[test]
fn an_end_that_comes_later_than_its_message_allows_is_refused() {
    let mut serving = serving();
    let immune = "CHECK_IMMUNITY_TIME_IN_SECONDS\u{1}8\u{2}";
    let (early, half) = (serving.half(1, immune), serving.half(2, immune));
    serving.fast_path.decide_broker(Broker {
        version: BATCHING,
        ..Broker::default()
    });
    serving.pass(8_000);
    assert_eq!(serving.end(early, COMMIT, &[]).code, 0);
    serving.pass(1);
    assert_eq!(serving.end(half, COMMIT, &[]).code, 604);
    let asked = [("fromTransactionCheck", "true")];
    assert_eq!(serving.end(half, COMMIT, &asked).code, 0);
}

#[test]
fn a_delayed_half_message_waits_for_its_level_once_committed() {
    let mut serving = serving();
    let half = serving.half(1, "DELAY\u{1}2\u{2}");
    serving.end(half, COMMIT, &[]);
    assert_eq!(serving.bodies(b"SCHEDULE_TOPIC_XXXX", 1), ["body"]);
    let later = START_MS + 5_000;
    let done = mqcore_fast_path::delay::deliver_due(&serving.store, 2, 0, later, 10).unwrap();
    assert_eq!(done.count, 1);
    serving.settle();
    let found = serving.each(b"t", 2, |view| (view.sys_flag, view.body.len()));
    assert_eq!(found, [(8, 4)]);
}

#[test]
fn with_synchronous_flush_a_commit_is_answered_after_the_sync() {
    let mut serving = Serving::new(FlushDiskType::Sync);
    let text = "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}p\u{2}WAIT\u{1}false\u{2}";
    serving.ask(&send_with(1, &[("i", text)], b"x"));
    let half = Half {
        offset: 0,
        physical: 0,
    };
    serving.feed(&ending(half, COMMIT, &[]));
    serving.drain();
    assert_eq!(serving.answers(), []);
    serving.store.durability().flush().unwrap();
    serving.drain();
    assert_eq!(response(&serving.answers()[0]), (0, ""));
}
