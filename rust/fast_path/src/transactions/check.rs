//! One round over a half queue: what is ended is passed, what is too old or was asked about too often
//! is given up, what is open is stored anew and asked about (`TransactionalMessageServiceImpl.check`).
//!
//! Knows no timetable and no fast path: whoever has one calls, keeps both offsets, and may do so from any
//! thread. Other than the official broker a round reads all op messages before it decides, and a
//! message that cannot be stored anew is not passed: nothing is asked about that was ended, nothing
//! lost.

use mqcore_engine::clock::Clock;
use mqcore_engine::consume_queue::{Bounds, Unit};
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_engine::store::Store;
use mqcore_record::properties::{
    CHECK_IMMUNITY_TIME_IN_SECONDS, PGROUP, REAL_TOPIC, UNIQ_KEY, lookup,
};
use mqcore_record::{CrcCheck, RecordView, offset_id};

use super::decided::{Decided, queue_offsets};
use super::half;
use super::remembered::Half;
use crate::moved::record_of;
use crate::names::{HALF_TOPIC, OP_HALF_TOPIC};

/// Op messages read per call at the most: some ten milliseconds of work.
const OP_MESSAGES_PER_CALL: usize = 65_536;
/// Op messages read at a time.
const NOTES_AT_ONCE: usize = 1_024;
/// Half messages stored anew per call at the most.
pub const LIMIT_MAX: usize = 4_096;
/// Bytes of questions per call at the most; the first is always asked.
const QUESTION_BYTES_MAX: usize = 16 << 20;
/// The tag of an op message (`REMOVE_TAG`).
const OP_MESSAGE_TAG: &[u8] = b"d";

/// What a round goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// The time now, Unix ms.
    pub now_ms: i64,
    /// Age from which on a half message is asked about, ms (`transactionTimeOut`).
    pub timeout_ms: i64,
    /// How often it is (`transactionCheckMax`).
    pub check_max: i32,
    /// Age from which on it is given up whatever was asked, ms (`fileReservedTime`).
    pub age_max_ms: i64,
    /// Whether the topic for what is given up is there.
    pub can_give_up: bool,
    /// Half messages stored anew or given up at the most.
    pub limit: usize,
}

/// What to ask the producers of a half message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The group to ask.
    pub group: String,
    /// The id that the producer gave.
    pub unique_id: Option<String>,
    /// The id of the newest copy.
    pub offset_id: String,
    /// The message as the producers read it.
    pub record: Vec<u8>,
}

/// A half message that was stored anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// What it was.
    pub from: Half,
    /// Its new offset in the half queue.
    pub to: u64,
    /// Its new place in the log.
    pub physical_offset: u64,
    /// What to ask; `None` for one that is too young for a question.
    pub question: Option<Question>,
}

/// What a call did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// Where the half queue goes on.
    pub half_offset: u64,
    /// Where the queue of op messages goes on.
    pub note_offset: u64,
    /// Where the half queue ended when the round began: what came later waits for the next.
    pub until: u64,
    /// What was stored anew.
    pub copies: Vec<Copied>,
    /// The topics that those given up were meant for, each as often as it was.
    pub given_up: Vec<String>,
    /// Whether the round goes on with another call.
    pub has_more: bool,
    /// Set: the round cannot go on before the topic for what is given up is there.
    pub needs_topic: bool,
    /// End of the last record stored in the log: both offsets may be written down once the log is
    /// flushed up to it. 0 for none.
    pub end: u64,
}

/// What becomes of an open half message.
enum Fate {
    GiveUp,
    Wait,
    /// Stored anew, and asked about unless it is too young.
    Renew {
        is_asked: bool,
    },
}

/// Why the walk ends.
enum Stop {
    Front,
    More,
    Topic,
}

/// The rounds over one half queue. Between calls it keeps what the op messages name.
#[derive(Debug)]
pub struct Checker {
    queue_id: i32,
    decided: Decided,
    text: Vec<u8>,
}

impl Checker {
    /// A checker of a queue that goes on at these offsets.
    #[must_use]
    pub fn at(queue_id: i32, half_offset: u64, note_offset: u64) -> Self {
        Self {
            queue_id,
            decided: Decided::at(half_offset, note_offset),
            text: Vec::new(),
        }
    }

    /// Whether it goes on at these offsets.
    #[must_use]
    pub fn is_at(&self, half_offset: u64, note_offset: u64) -> bool {
        self.decided.front() == half_offset && self.decided.done_op_messages() == note_offset
    }

    /// Goes on with a round, or begins one (`until` is `None`).
    ///
    /// # Durability
    /// That of an append. A round that is repeated because its offsets were lost asks once more.
    ///
    /// # Errors
    /// Something could not be read or stored, and nothing was done before.
    ///
    /// # Blocking
    /// For the disk, where the messages are cold.
    pub fn go_on<D: Disk, C: Clock>(
        &mut self,
        store: &Store<D, C>,
        rules: Rules,
        until: Option<u64>,
    ) -> Result<Checked> {
        let half = bounds(store, HALF_TOPIC, self.queue_id)?;
        let until = until.unwrap_or(half.max).min(half.max);
        let mut done = Checked {
            until,
            ..Checked::default()
        };
        self.fit(half);
        let has_all_notes = self.read_notes(store, half.max)?;
        let result = self.walk(store, rules, until, has_all_notes, &mut done);
        done.half_offset = self.decided.front();
        done.note_offset = self.decided.done_op_messages();
        match result {
            Ok(Stop::More) => done.has_more = true,
            Ok(Stop::Topic) => done.needs_topic = true,
            Ok(Stop::Front) => {}
            Err(error) if done.end == 0 => return Err(error),
            // What was done counts; the next call meets the error again.
            Err(_later) => done.has_more = true,
        }
        Ok(done)
    }

    /// Moves into the queue: what lies outside was deleted, or never was.
    fn fit(&mut self, half: Bounds) {
        let front = self.decided.front();
        if front < half.min {
            self.decided.pass_to(half.min);
        } else if front > half.max {
            self.decided = Decided::at(half.max, self.decided.done_op_messages());
        }
    }

    /// Reads op messages; true when none is left that names open messages of this queue.
    fn read_notes<D: Disk, C: Clock>(
        &mut self,
        store: &Store<D, C>,
        half_end: u64,
    ) -> Result<bool> {
        let op_messages = bounds(store, OP_HALF_TOPIC, self.queue_id)?;
        if self.decided.next_op_message() > op_messages.max {
            self.decided = Decided::at(self.decided.front(), op_messages.max);
        }
        self.decided.skip_op_messages_to(op_messages.min);
        let last =
            (self.decided.next_op_message() + OP_MESSAGES_PER_CALL as u64).min(op_messages.max);
        let mut units: Vec<Unit> = Vec::with_capacity(NOTES_AT_ONCE);
        while self.decided.next_op_message() < last {
            units.clear();
            let from = self.decided.next_op_message();
            let topic = OP_HALF_TOPIC.as_bytes();
            let queues = store.queues();
            queues.read(topic, self.queue_id, from, NOTES_AT_ONCE, &mut units)?;
            if units.is_empty() {
                break;
            }
            for unit in &units {
                // Too far ahead, or too many: what is open at the front is decided without them.
                if !self.decided.has_space() || !self.take_op_message(store, unit, half_end)? {
                    return Ok(true);
                }
            }
        }
        Ok(self.decided.next_op_message() >= op_messages.max)
    }

    fn take_op_message<D: Disk, C: Clock>(
        &mut self,
        store: &Store<D, C>,
        unit: &Unit,
        half_end: u64,
    ) -> Result<bool> {
        let Some(record) = record_of(store, unit)? else {
            return Ok(self.decided.take(std::iter::empty(), half_end));
        };
        let view = record.view(CrcCheck::Verify)?;
        let is_op_message = view.tags() == Some(OP_MESSAGE_TAG);
        let named = queue_offsets(if is_op_message { view.body } else { &[] });
        Ok(self.decided.take(named, half_end))
    }

    fn walk<D: Disk, C: Clock>(
        &mut self,
        store: &Store<D, C>,
        rules: Rules,
        until: u64,
        has_all_notes: bool,
        done: &mut Checked,
    ) -> Result<Stop> {
        let mut question_bytes = 0;
        while self.decided.front() < until {
            let at = self.decided.front();
            if self.decided.holds(at) {
                self.decided.pass_to(at + 1);
                continue;
            }
            let count = done.copies.len() + done.given_up.len();
            let is_full =
                count >= rules.limit.clamp(1, LIMIT_MAX) || question_bytes > QUESTION_BYTES_MAX;
            if !has_all_notes || is_full {
                return Ok(Stop::More);
            }
            let mut units: Vec<Unit> = Vec::with_capacity(1);
            let topic = HALF_TOPIC.as_bytes();
            store
                .queues()
                .read(topic, self.queue_id, at, 1, &mut units)?;
            let Some(unit) = units.first() else {
                return Ok(Stop::Front);
            };
            let Some(record) = record_of(store, unit)? else {
                // Gone by retention.
                self.decided.pass_to(at + 1);
                continue;
            };
            let view = record.view(CrcCheck::Verify)?;
            if self.decided.is_named(half::known(&view).first) {
                // The first copy of it is ended.
                self.decided.pass_to(at + 1);
                continue;
            }
            match fate(&view, rules) {
                Fate::Wait => return Ok(Stop::Front),
                Fate::GiveUp if !rules.can_give_up => return Ok(Stop::Topic),
                Fate::GiveUp => {
                    let appended = store.writer().append(&half::given_up(&view))?;
                    done.end = appended.end();
                    done.given_up.push(meant_for(&view));
                }
                Fate::Renew { is_asked } => {
                    let copied = self.renew(store, &view, is_asked, done)?;
                    question_bytes += copied;
                }
            }
            self.decided.pass_to(at + 1);
        }
        Ok(Stop::Front)
    }

    /// Stores a half message anew; gives the bytes of the question about it.
    fn renew<D: Disk, C: Clock>(
        &mut self,
        store: &Store<D, C>,
        view: &RecordView<'_>,
        is_asked: bool,
        done: &mut Checked,
    ) -> Result<usize> {
        half::renewed_properties(view, is_asked, &mut self.text);
        let appended = store.writer().append(&half::renewed(view, &self.text))?;
        let to = (appended.queue_offset, appended.physical_offset);
        let question = is_asked.then(|| question(view, to, &self.text)).flatten();
        let bytes = question
            .as_ref()
            .map_or(0, |question| question.record.len());
        done.end = appended.end();
        done.copies.push(Copied {
            from: half::known(view),
            to: appended.queue_offset,
            physical_offset: appended.physical_offset,
            question,
        });
        Ok(bytes)
    }
}

/// What becomes of an open half message: the official conditions in the official order.
fn fate(view: &RecordView<'_>, rules: Rules) -> Fate {
    let age_ms = rules.now_ms.saturating_sub(view.born_timestamp_ms);
    let is_done_for = half::check_times(view) >= rules.check_max || age_ms > rules.age_max_ms;
    if is_done_for || !half::has_space_to_renew(view) {
        return Fate::GiveUp;
    }
    // Born in the future: its producer's clock is ahead, and gives no age.
    if age_ms < 0 {
        return Fate::Renew { is_asked: true };
    }
    let Some(immunity) = lookup(view.properties, CHECK_IMMUNITY_TIME_IN_SECONDS) else {
        if age_ms <= rules.timeout_ms {
            return Fate::Wait;
        }
        return Fate::Renew { is_asked: true };
    };
    let seconds = half::number::<i64>(immunity).filter(|seconds| *seconds != -1);
    let immunity_ms = seconds.map_or(rules.timeout_ms, |s| s.saturating_mul(half::MS_PER_S));
    Fate::Renew {
        is_asked: age_ms > immunity_ms,
    }
}

/// What to ask; `None` when nobody can be: no group, or no topic to name.
fn question(view: &RecordView<'_>, to: (u64, u64), text: &[u8]) -> Option<Question> {
    let utf8 = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let target = half::meant_for(view)?;
    Some(Question {
        group: utf8(lookup(view.properties, PGROUP)?),
        unique_id: lookup(view.properties, UNIQ_KEY).map(utf8),
        offset_id: offset_id(&view.store_host, to.1.cast_signed()),
        record: half::question(view, target, text, to),
    })
}

fn meant_for(view: &RecordView<'_>) -> String {
    let topic = lookup(view.properties, REAL_TOPIC).unwrap_or_default();
    String::from_utf8_lossy(topic).into_owned()
}

fn bounds<D: Disk, C: Clock>(store: &Store<D, C>, topic: &str, queue_id: i32) -> Result<Bounds> {
    let found = store.topics().bounds(topic.as_bytes(), queue_id)?;
    Ok(found.unwrap_or(Bounds { min: 0, max: 0 }))
}
