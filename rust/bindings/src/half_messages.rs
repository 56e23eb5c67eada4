//! The class over the half messages of a fast path: their check, with a checker per queue that is kept
//! between rounds, and their counts. No logic.

use std::collections::HashMap;
use std::sync::Arc;

use mqcore_engine::lock::Mutex;
use mqcore_fast_path::transactions::check::{Checked, Checker, Copied, Question, Rules};
use mqcore_fast_path::transactions::resume::{Resumed, resume};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::raised;
use crate::frozen::frozen;
use crate::gil::{Gil, gil_call};
use crate::locked::LockedFastPath;

frozen! {
    /// What to ask the producers of a half message.
    CheckQuestion {
        /// Their group.
        group: String,
        /// The id that the producer gave.
        unique_id: Option<String>,
        /// The id of the half message's newest copy.
        offset_id: String,
        /// Its offset in the half queue.
        half_offset: u64,
        /// Its physical offset.
        physical_offset: u64,
        /// The message as its producers read it.
        record: Py<PyBytes>,
    }

    /// What a check did.
    CheckedHalves {
        /// Where the half queue goes on.
        half_offset: u64,
        /// Where the op queue goes on.
        note_offset: u64,
        /// Where the half queue ended when the round began: for the next call of the round.
        until: u64,
        /// What to ask whom.
        questions: Vec<Py<CheckQuestion>>,
        /// Half messages stored anew.
        copied: usize,
        /// Half messages given up.
        given_up: usize,
        /// Whether the round goes on with another call.
        has_more: bool,
        /// Whether it cannot go on before the topic for what is given up is there.
        needs_topic: bool,
        /// End of what was stored in the log: write both offsets down only when the log is flushed
        /// up to it. 0 when nothing was.
        end: u64,
    }

    /// The transactions of one topic.
    TransactionCount {
        /// The topic that the messages are meant for.
        topic: String,
        /// Half messages that are neither ended nor given up.
        waiting: i64,
        /// Committed since the start.
        committed: u64,
        /// Rolled back since the start.
        rolled_back: u64,
        /// Given up since the start.
        given_up: u64,
    }

    /// What came of a half message that was to be asked about again.
    ResumedHalf {
        /// End of its new record in the log; `None` where it was not stored.
        end: Option<u64>,
        /// The topic of a message that was not given up.
        found_in: Option<String>,
    }

    /// The op messages of ends of transactions.
    OpMessagesWritten {
        /// Whether every end has one in the log.
        is_all: bool,
        /// End of the log behind them.
        end: u64,
    }
}

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

/// The half messages of a fast path.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct HalfMessages {
    fast_path: Arc<LockedFastPath>,
    /// The checkers that are not at work, by queue.
    idle: Mutex<HashMap<i32, Checker>>,
}

impl HalfMessages {
    pub(crate) fn new(fast_path: Arc<LockedFastPath>) -> Self {
        Self {
            fast_path,
            idle: Mutex::default(),
        }
    }

    /// The checker of a queue that goes on at an offset of it and one of the notes: where it left
    /// off, or a new one where the offsets are other ones.
    fn checker(&self, queue_id: i32, half_offset: u64, note_offset: u64) -> Checker {
        let kept = self.idle.lock().remove(&queue_id);
        let kept = kept.filter(|checker| checker.is_at(half_offset, note_offset));
        kept.unwrap_or_else(|| Checker::at(queue_id, half_offset, note_offset))
    }
}

#[pymethods]
impl HalfMessages {
    fn write_op_messages(&self) -> OpMessagesWritten {
        let is_all = self.fast_path.locked().path.write_op_messages();
        let end = self.fast_path.engine.files().positions.appended.position();
        OpMessagesWritten { is_all, end }
    }

    #[pyo3(signature = (queue_id, half_offset, note_offset, rules, *, until=None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "where both queues go on, and the rules"
    )]
    fn check(
        &self,
        py: Python<'_>,
        queue_id: i32,
        half_offset: u64,
        note_offset: u64,
        rules: RulesRow,
        until: Option<u64>,
    ) -> PyResult<CheckedHalves> {
        let (done, ended) = gil_call(py, Gil::Released, || {
            let mut checker = self.checker(queue_id, half_offset, note_offset);
            let done = checker.go_on(&self.fast_path.engine, rules.into(), until)?;
            self.idle.lock().insert(queue_id, checker);
            let mut inside = self.fast_path.locked();
            let ended = inside.path.note_checked(&done);
            self.fast_path.of_python().wake_before_deadline(&mut inside);
            Ok((done, ended))
        })
        .map_err(|error| raised(py, &error))?;
        CheckedHalves::of(py, done, &ended)
    }

    fn resume(&self, py: Python<'_>, physical_offset: u64) -> PyResult<ResumedHalf> {
        gil_call(py, Gil::Released, || {
            let fast_path = &self.fast_path;
            resume(&fast_path.engine, &fast_path.shared.counts, physical_offset)
        })
        .map(ResumedHalf::of)
        .map_err(|error| raised(py, &error))
    }

    fn counts(&self) -> Vec<TransactionCount> {
        let counts = self.fast_path.shared.counts.all();
        let counts = counts.into_iter().map(|(topic, count)| TransactionCount {
            topic,
            waiting: count.waiting,
            committed: count.committed,
            rolled_back: count.rolled_back,
            given_up: count.given_up,
        });
        counts.collect()
    }

    fn load(&self, waiting: HashMap<String, i64>) {
        let rows = waiting.into_iter();
        let rows = rows.map(|(topic, count)| (topic.into_boxed_str(), count));
        self.fast_path.shared.counts.load(rows);
    }

    #[getter]
    fn changes(&self) -> u64 {
        self.fast_path.shared.counts.changes()
    }
}

impl ResumedHalf {
    fn of(resumed: Resumed) -> Self {
        let (end, found_in) = match resumed {
            Resumed::Stored { end } => (Some(end), None),
            Resumed::Unfit => (None, None),
            Resumed::NotGivenUp(topic) => (None, Some(topic)),
        };
        Self { end, found_in }
    }
}

impl CheckedHalves {
    /// What was done, with the questions about those copies that nobody ended meanwhile.
    fn of(py: Python<'_>, done: Checked, ended: &[bool]) -> PyResult<Self> {
        let copied = done.copies.len();
        let open = done.copies.into_iter().zip(ended).filter(|(_, is)| !**is);
        let questions = open.filter_map(|(copied, _)| CheckQuestion::of(py, copied));
        let questions = questions.map(|question| Py::new(py, question));
        Ok(Self {
            half_offset: done.half_offset,
            note_offset: done.note_offset,
            until: done.until,
            questions: questions.collect::<PyResult<_>>()?,
            copied,
            given_up: done.given_up.len(),
            has_more: done.has_more,
            needs_topic: done.needs_topic,
            end: done.end,
        })
    }
}

impl CheckQuestion {
    fn of(py: Python<'_>, copied: Copied) -> Option<Self> {
        let Question {
            group,
            unique_id,
            offset_id,
            record,
        } = copied.question?;
        Some(Self {
            group,
            unique_id,
            offset_id,
            half_offset: copied.to,
            physical_offset: copied.physical_offset,
            record: PyBytes::new(py, &record).unbind(),
        })
    }
}
