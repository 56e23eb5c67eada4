//! Appending units: memory only. Knows no record: it is told topic, queue, offset and unit by
//! whoever reads the log, from any thread, in log order per queue.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::queue::{Place, Queue, State};
use super::table::{QUEUES_MAX, QueueTable};
use super::unit::{UNIT_LEN, Unit};
use crate::config::QUEUE_UNIT_BYTES;
use crate::disk::Disk;
use crate::error::Result;
use crate::units::is_topic;

/// Missing units that are stood in for by blanks, 60 MB of them; a longer gap starts the queue anew
/// behind it, because so many blanks in each of many queues would fill the disk.
const GAP_UNITS_MAX: u64 = 3_000_000;
/// Queue offsets above this have no position in a file: a record that claims one is damaged.
const QUEUE_OFFSET_MAX: u64 = i64::MAX as u64 / (4 * UNIT_LEN as u64);

/// A unit on its way into its queue.
#[derive(Debug, Clone, Copy)]
pub struct Coming<'a> {
    /// Its place in the queue.
    pub queue_offset: u64,
    /// What it says; its tags code, wherever that is going to stand.
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

/// The end of a range of lost units that begins at `from`: `to`, or none of it where a damaged record
/// made it longer than any gap.
fn near(from: u64, to: u64) -> u64 {
    if to - from <= GAP_UNITS_MAX { to } else { from }
}

impl<D: Disk> QueueTable<D> {
    /// Adds a unit to its queue, which is made if absent. Twice the same changes nothing.
    ///
    /// # Durability
    /// None: the unit is in memory until [`QueueTable::write_pending`].
    ///
    /// # Errors
    /// Those of the first look at a queue; the unit was then not added, and may be again.
    ///
    /// # Blocking
    /// At the first use of a queue, and where a queue starts anew.
    #[inline]
    pub fn append(
        &self,
        topic: &[u8],
        queue_id: i32,
        queue_offset: u64,
        unit: Unit,
        store_timestamp_ms: i64,
    ) -> Result<Placed> {
        let coming = Coming {
            queue_offset,
            unit,
            store_timestamp_ms,
            extended: None,
        };
        self.add(topic, queue_id, &coming)
    }

    /// [`QueueTable::append`] of a unit that may have an extension.
    ///
    /// # Errors
    /// As [`QueueTable::append`].
    #[inline]
    pub fn add(&self, topic: &[u8], queue_id: i32, coming: &Coming<'_>) -> Result<Placed> {
        let quick = self.with_queue(topic, queue_id, |queue| self.add_quick(queue, coming));
        if let Some(Some(placed)) = quick {
            return Ok(placed);
        }
        match self.queue(topic, queue_id) {
            Some(queue) => self.add_to(&queue, coming),
            None => Ok(Placed::Refused),
        }
    }

    /// The queue, made if absent: a handle for [`QueueTable::append_to`]. `None` when the topic
    /// cannot be the name of a directory, or the table is full.
    pub fn queue(&self, topic: &[u8], queue_id: i32) -> Option<Arc<Queue>> {
        if let Some(queue) = self.find(topic, queue_id) {
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
        if self.len() >= QUEUES_MAX {
            self.notices.error(format!(
                "{QUEUES_MAX} queues: messages of {name} {queue_id} are in none"
            ));
            return None;
        }
        Some(self.insert(name, queue_id, State::empty()))
    }

    /// [`QueueTable::append`] with a handle: one look-up less. A stale handle (its topic was
    /// deleted) works too.
    ///
    /// # Errors
    /// As [`QueueTable::append`].
    #[inline]
    pub fn append_to(
        &self,
        queue: &Arc<Queue>,
        queue_offset: u64,
        unit: Unit,
        store_timestamp_ms: i64,
    ) -> Result<Placed> {
        let coming = Coming {
            queue_offset,
            unit,
            store_timestamp_ms,
            extended: None,
        };
        self.add_to(queue, &coming)
    }

    #[inline]
    fn add_to(&self, queue: &Arc<Queue>, coming: &Coming<'_>) -> Result<Placed> {
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
        match state.place(coming.queue_offset, &coming.unit) {
            Place::Next => {
                let unit = match coming.extended {
                    None => coming.unit,
                    Some(bits) => self.extend(queue, &coming.unit, store_timestamp_ms, bits)?,
                };
                state.push(&unit, store_timestamp_ms);
                self.mark_pending(queue, &mut state);
                drop(state);
                self.pending
                    .bytes
                    .fetch_add(UNIT_LEN as u64, Ordering::Relaxed);
                if store_timestamp_ms > self.pending.newest_ms.load(Ordering::Relaxed) {
                    self.pending
                        .newest_ms
                        .fetch_max(store_timestamp_ms, Ordering::Relaxed);
                }
                Some(Placed::Appended)
            }
            Place::Duplicate => Some(Placed::Duplicate),
            Place::First | Place::Gap(_) | Place::Restart | Place::Taken => None,
        }
    }

    #[inline]
    pub(super) fn mark_pending(&self, queue: &Arc<Queue>, state: &mut State) {
        if !state.is_pending {
            state.is_pending = true;
            self.pending.queues.lock().push(Arc::clone(queue));
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
        let mut state = self.lock_known(queue)?;
        if state.is_gone {
            drop(state);
            let (topic, id) = (queue.topic().as_bytes(), queue.queue_id());
            return self.add(topic, id, coming);
        }
        if coming.extended.is_some() {
            self.find_extension(queue, &state);
        }
        let answer = match state.place(queue_offset, &unit) {
            Place::Next => Placed::Appended,
            Place::Duplicate => return Ok(Placed::Duplicate),
            Place::First => {
                self.suspect(queue, (0, near(0, queue_offset)), true);
                state.begin_at(queue_offset, self.file_len_bytes);
                Placed::Appended
            }
            Place::Gap(missing) if missing <= GAP_UNITS_MAX => {
                if state.has_pending() {
                    // Blanks stand before the tail: it goes to the file first.
                    drop(state);
                    self.write_queue(queue)?;
                    return self.add_to(queue, coming);
                }
                self.suspect(queue, (state.end, queue_offset), false);
                if state.min == state.end {
                    state.min = queue_offset;
                }
                state.fill_to = queue_offset;
                state.end = queue_offset;
                Placed::Gap { missing }
            }
            Place::Gap(_) | Place::Restart => {
                let dropped = state.end - state.min;
                drop(state);
                self.tell(queue, queue_offset, &unit, Placed::Restarted { dropped });
                self.restart(queue, queue_offset, &unit)?;
                self.add_to(queue, coming)?;
                return Ok(Placed::Restarted { dropped });
            }
            Place::Taken if queue_offset < state.first_base / QUEUE_UNIT_BYTES => {
                // The files that the queue began with are lost.
                let first = state.first_base / QUEUE_UNIT_BYTES;
                drop(state);
                if !self.suspect_lost(queue, (queue_offset, near(queue_offset, first)), true) {
                    self.tell(queue, queue_offset, &unit, Placed::Taken);
                }
                return Ok(Placed::Taken);
            }
            Place::Taken => {
                drop(state);
                self.tell(queue, queue_offset, &unit, Placed::Taken);
                return Ok(Placed::Taken);
            }
        };
        drop(state);
        self.tell(queue, queue_offset, &unit, answer);
        self.add_to(queue, coming)?;
        Ok(answer)
    }

    fn tell(&self, queue: &Queue, queue_offset: u64, unit: &Unit, placed: Placed) {
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
