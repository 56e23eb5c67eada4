//! Appending units: memory only. Knows no record: topic, queue, offset and unit come from whoever
//! reads the log, from any thread, in log order per queue.

use std::sync::Arc;

use super::extension::Extensions;
use super::load::QueueLoader;
use super::queue::{AppendCase, GAP_UNITS_MAX, QUEUES_MAX, Queue, State};
use super::suspects::Suspects;
use super::truncate::UnitCutter;
use super::unit::{UNIT_LEN, Unit};
use crate::config::QUEUE_UNIT_BYTES;
use crate::disk::Disk;
use crate::error::Result;
use crate::notice::Notices;
use crate::queue_store::{Pending, QueueMap, Segments, TailWriter};
use crate::units::is_topic;

/// Queue offsets above this have no position in a file: a record that claims one is damaged.
const QUEUE_OFFSET_MAX: u64 = i64::MAX as u64 / (4 * UNIT_LEN as u64);

/// A unit on its way into its queue.
#[derive(Debug, Clone, Copy)]
pub struct Coming<'a> {
    /// Its place in the queue.
    pub queue_offset: u64,
    /// The unit; with its tags code, wherever that is going to be written.
    pub unit: Unit,
    /// When its message was stored, ms.
    pub store_timestamp_ms: i64,
    /// Set: the tags code goes to the extension of the queue, with these bits (none: empty).
    pub extended: Option<&'a [u8]>,
}

/// What became of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// It is at its queue offset.
    Appended,
    /// It, or a later one, was in the queue already: nothing changed.
    Duplicate,
    /// It is at its queue offset; the `missing` before it were never seen.
    Gap {
        /// Queue offsets without a message.
        missing: u64,
    },
    /// The queue begins with it; what it held before (a deleted topic) is gone.
    Restarted {
        /// Units that the queue held.
        dropped: u64,
    },
    /// Another record has its queue offset: it is not in the queue.
    Taken,
    /// Its topic or queue offset cannot be one: it is not in any queue.
    Refused,
}

/// Appends units to queues.
pub(super) struct UnitAppender<D: Disk> {
    pub(super) map: Arc<QueueMap<Unit>>,
    pub(super) segments: Arc<Segments<D, Unit>>,
    pub(super) pending: Arc<Pending<Unit>>,
    pub(super) loader: Arc<QueueLoader<D>>,
    pub(super) extensions: Arc<Extensions<D>>,
    pub(super) writer: Arc<TailWriter<D, Unit>>,
    pub(super) cutter: Arc<UnitCutter<D>>,
    pub(super) suspects: Arc<Suspects>,
    pub(super) notices: Arc<Notices>,
}

impl<D: Disk> UnitAppender<D> {
    /// As [`QueueTable::add`](super::QueueTable::add).
    #[inline]
    pub(super) fn add(&self, topic: &[u8], queue_id: i32, coming: &Coming<'_>) -> Result<Placed> {
        let quick = self
            .map
            .with_queue(topic, queue_id, |queue| self.add_quick(queue, coming));
        if let Some(Some(placed)) = quick {
            return Ok(placed);
        }
        match self.queue(topic, queue_id) {
            Some(queue) => self.add_to(&queue, coming),
            None => Ok(Placed::Refused),
        }
    }

    /// As [`QueueTable::queue`](super::QueueTable::queue).
    pub(super) fn queue(&self, topic: &[u8], queue_id: i32) -> Option<Arc<Queue>> {
        if let Some(queue) = self.map.find(topic, queue_id) {
            return Some(queue);
        }
        let name = std::str::from_utf8(topic).ok().filter(|_| is_topic(topic));
        let Some(name) = name else {
            let shown = String::from_utf8_lossy(topic);
            self.notices.warn(format!(
                "no queue can have the topic {shown:?}: its messages are in none"
            ));
            return None;
        };
        if self.map.len() >= QUEUES_MAX {
            self.notices.error(format!(
                "{QUEUES_MAX} queues: messages of {name} {queue_id} are in none"
            ));
            return None;
        }
        Some(self.map.insert(name, queue_id, State::empty()))
    }

    /// [`UnitAppender::add`] with a handle, which may be stale.
    #[inline]
    pub(super) fn add_to(&self, queue: &Arc<Queue>, coming: &Coming<'_>) -> Result<Placed> {
        match self.add_quick(queue, coming) {
            Some(placed) => Ok(placed),
            None => self.add_slowly(queue, coming),
        }
    }

    /// The usual cases: the next unit, or one that is there.
    #[inline]
    fn add_quick(&self, queue: &Arc<Queue>, coming: &Coming<'_>) -> Option<Placed> {
        let mut state = queue.lock();
        if !state.is_known() {
            return None;
        }
        let store_timestamp_ms = coming.store_timestamp_ms;
        match state.append_case(coming.queue_offset, &coming.unit) {
            AppendCase::Next => {
                let unit = match coming.extended {
                    None => coming.unit,
                    Some(bits) => {
                        self.extensions
                            .extend(queue, &coming.unit, store_timestamp_ms, bits)?
                    }
                };
                state.push(&unit, store_timestamp_ms);
                self.pending.mark(queue, &mut state);
                drop(state);
                self.pending.count_unit(store_timestamp_ms);
                Some(Placed::Appended)
            }
            AppendCase::Duplicate => Some(Placed::Duplicate),
            AppendCase::First | AppendCase::Gap(_) | AppendCase::Restart | AppendCase::Taken => {
                None
            }
        }
    }

    #[cold]
    fn add_slowly(&self, queue: &Arc<Queue>, coming: &Coming<'_>) -> Result<Placed> {
        let Coming {
            queue_offset, unit, ..
        } = *coming;
        if queue_offset > QUEUE_OFFSET_MAX || !unit.is_present() {
            let (topic, id) = (queue.topic(), queue.queue_id());
            let at = unit.physical_offset;
            self.notices.warn(format!(
                "the record at physical offset {at} claims queue offset {queue_offset} of {topic} \
                 {id}: no queue can hold it"
            ));
            return Ok(Placed::Refused);
        }
        let mut state = self.loader.lock_known(queue)?;
        if state.is_gone {
            drop(state);
            let (topic, id) = (queue.topic().as_bytes(), queue.queue_id());
            return self.add(topic, id, coming);
        }
        if coming.extended.is_some() {
            self.extensions.look(queue, &state);
        }
        let answer = match state.append_case(queue_offset, &unit) {
            AppendCase::Next => Placed::Appended,
            AppendCase::Duplicate => return Ok(Placed::Duplicate),
            AppendCase::First => {
                self.suspects.note_beginning(queue, queue_offset);
                state.begin_at(queue_offset, self.segments.file_len_bytes());
                Placed::Appended
            }
            AppendCase::Gap(missing) if missing <= GAP_UNITS_MAX => {
                if state.has_pending() {
                    // Blanks stand before the tail: it goes to the file first.
                    drop(state);
                    self.writer.write_queue(queue)?;
                    return self.add_to(queue, coming);
                }
                self.suspects.note(queue, (state.end, queue_offset), false);
                if state.min == state.end {
                    state.min = queue_offset;
                }
                state.fill_to = queue_offset;
                state.end = queue_offset;
                Placed::Gap { missing }
            }
            AppendCase::Gap(_) | AppendCase::Restart => {
                let dropped = state.end - state.min;
                drop(state);
                self.warn(queue, queue_offset, &unit, Placed::Restarted { dropped });
                self.cutter.restart(queue, queue_offset, &unit)?;
                self.add_to(queue, coming)?;
                return Ok(Placed::Restarted { dropped });
            }
            AppendCase::Taken if queue_offset < state.first_base / QUEUE_UNIT_BYTES => {
                // The files that the queue began with are lost.
                let first = state.first_base / QUEUE_UNIT_BYTES;
                drop(state);
                if !self.suspects.note_lost_before(queue, queue_offset, first) {
                    self.warn(queue, queue_offset, &unit, Placed::Taken);
                }
                return Ok(Placed::Taken);
            }
            AppendCase::Taken => {
                drop(state);
                self.warn(queue, queue_offset, &unit, Placed::Taken);
                return Ok(Placed::Taken);
            }
        };
        drop(state);
        self.warn(queue, queue_offset, &unit, answer);
        self.add_to(queue, coming)?;
        Ok(answer)
    }

    fn warn(&self, queue: &Queue, queue_offset: u64, unit: &Unit, placed: Placed) {
        let what = match placed {
            Placed::Appended | Placed::Duplicate | Placed::Refused => return,
            Placed::Gap { missing } => format!("{missing} messages before it were never seen"),
            Placed::Restarted { dropped } => {
                format!("the queue starts anew with it, {dropped} earlier messages are out of it")
            }
            Placed::Taken => "another message has this place: it is not in the queue".to_owned(),
        };
        let (topic, id, at) = (queue.topic(), queue.queue_id(), unit.physical_offset);
        self.notices.warn(format!(
            "queue {topic} {id}, offset {queue_offset} (physical offset {at}): {what}"
        ));
    }
}
