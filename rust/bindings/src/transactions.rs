//! The check of half messages for Python: a checker per queue, kept between rounds. No logic.

use std::collections::HashMap;

use mqcore_engine::lock::Mutex;
use mqcore_lane::transactions::check::{Checked, Checker, Copied, Question, Rules};
use mqcore_lane::transactions::counts::{Count, Counts};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A question: group, unique id, offset id, queue offset, physical offset, record.
pub(crate) type QuestionRow = (String, Option<String>, String, u64, u64, Py<PyBytes>);
/// `CheckedHalves`.
pub(crate) type CheckedRow = (
    u64,
    u64,
    u64,
    Vec<QuestionRow>,
    usize,
    usize,
    bool,
    bool,
    u64,
);

/// `CheckRules`.
#[derive(FromPyObject)]
pub(crate) struct RulesRow {
    now_ms: i64,
    timeout_ms: i64,
    check_max: i32,
    age_max_ms: i64,
    can_give_up: bool,
    limit: usize,
}

impl From<RulesRow> for Rules {
    fn from(row: RulesRow) -> Self {
        Self {
            now_ms: row.now_ms,
            timeout_ms: row.timeout_ms,
            check_max: row.check_max,
            age_max_ms: row.age_max_ms,
            can_give_up: row.can_give_up,
            limit: row.limit,
        }
    }
}

/// The checkers that are not at work.
#[derive(Default)]
pub(crate) struct Checkers {
    idle: Mutex<HashMap<i32, Checker>>,
}

impl Checkers {
    /// The checker of a queue that goes on at an offset of it and one of the notes: where it left
    /// off, or a new one where the offsets are other ones.
    pub(crate) fn take(&self, at: (i32, u64, u64)) -> Checker {
        let (queue_id, half_offset, note_offset) = at;
        let kept = self.idle.lock().remove(&queue_id);
        let kept = kept.filter(|checker| checker.is_at(half_offset, note_offset));
        kept.unwrap_or_else(|| Checker::at(queue_id, half_offset, note_offset))
    }

    /// Keeps a checker for its next call.
    pub(crate) fn keep(&self, queue_id: i32, checker: Checker) {
        self.idle.lock().insert(queue_id, checker);
    }
}

/// What was done, with the questions about those copies that nobody ended meanwhile.
pub(crate) fn checked_row(py: Python<'_>, done: Checked, ended: &[bool]) -> CheckedRow {
    let copied = done.copies.len();
    let open = done.copies.into_iter().zip(ended).filter(|(_, is)| !**is);
    let questions = open.filter_map(|(copied, _)| question_row(py, copied));
    (
        done.half_offset,
        done.note_offset,
        done.until,
        questions.collect(),
        copied,
        done.given_up.len(),
        done.has_more,
        done.needs_topic,
        done.end,
    )
}

fn question_row(py: Python<'_>, copied: Copied) -> Option<QuestionRow> {
    let Question {
        group,
        unique_id,
        offset_id,
        record,
    } = copied.question?;
    Some((
        group,
        unique_id,
        offset_id,
        copied.to,
        copied.physical_offset,
        PyBytes::new(py, &record).unbind(),
    ))
}

/// Half messages of a topic: that wait, committed, rolled back, given up.
pub(crate) type CountRow = (String, i64, u64, u64, u64);

pub(crate) fn count_rows(counts: &Counts) -> Vec<CountRow> {
    let row = |(topic, count): (String, Count)| {
        let ended = (count.committed, count.rolled_back, count.given_up);
        (topic, count.waiting, ended.0, ended.1, ended.2)
    };
    counts.all().into_iter().map(row).collect()
}
