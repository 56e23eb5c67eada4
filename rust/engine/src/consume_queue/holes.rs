//! Parts of a queue that its files do not hold though they should: found by comparing the manifest
//! with the directories, by a unit that nothing was ever written over, and by a unit whose place in
//! the log holds another record. Decides where to look in the log; reads no record itself.
//!
//! Locks: the mend gate comes before all of `queue_store`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::queue::{NO_RECORD, NOTHING_WAITS_MS, Queue, State};
use super::unit::{UNIT_LEN, Unit};
use crate::config::QUEUE_UNIT_BYTES;
use crate::disk::Disk;
use crate::error::Result;
use crate::lock::Mutex;
use crate::queue_store::{Pending, QueueMap, Segments, WriteRange};

/// Units of one queue to be made again from the log.
#[derive(Debug, Clone)]
pub struct Hole {
    /// The queue.
    pub queue: Arc<Queue>,
    /// First queue offset.
    pub from: u64,
    /// One after the last.
    pub to: u64,
    /// Their records lie in this range of the log.
    pub log_from: u64,
    /// Its end.
    pub log_to: u64,
    /// Below this queue offset the records may be gone by retention.
    pub min: u64,
    /// Rises when units of the queue were taken back: the hole is then of no use.
    epoch: u32,
}

/// What was made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mended {
    /// Queues with at least one such unit or file.
    pub queues: u64,
    /// Units written.
    pub units: u64,
    /// Queue offsets for which the log has no record: readers pass over them.
    pub lost: u64,
}

/// What the log answers about units of queues.
pub trait LogSide<D: Disk>: Send + Sync {
    /// Whether the record that a unit names is that of its place in the queue. Also true for a
    /// record that retention has removed.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn agrees(&self, queue: &Queue, queue_offset: u64, unit: &Unit) -> Result<bool>;

    /// Makes the units of holes again, by one walk over the log.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn mend(&self, queues: &HoleMender<D>, holes: Vec<Hole>) -> Result<Mended>;
}

/// Counts since the store was opened.
#[derive(Debug, Default)]
pub(super) struct Counts {
    queues: AtomicU64,
    units: AtomicU64,
    lost: AtomicU64,
}

/// A part of a queue whose files are missing or too short: `[from, to)`, in bytes of the queue.
#[derive(Debug)]
pub(super) struct Absent {
    pub(super) queue: Arc<Queue>,
    from: u64,
    to: u64,
}

/// Makes units again that files do not hold though they should.
pub struct HoleMender<D: Disk> {
    map: Arc<QueueMap<Unit>>,
    segments: Arc<Segments<D, Unit>>,
    pending: Arc<Pending<Unit>>,
    /// Parts that the manifest names and the directories have not.
    absent: Mutex<Vec<Absent>>,
    log: OnceLock<Box<dyn LogSide<D>>>,
    /// Held while units are made again.
    gate: Mutex<()>,
    counts: Counts,
}

impl<D: Disk> HoleMender<D> {
    pub(super) fn new(
        map: Arc<QueueMap<Unit>>,
        segments: Arc<Segments<D, Unit>>,
        pending: Arc<Pending<Unit>>,
    ) -> Self {
        Self {
            map,
            segments,
            pending,
            absent: Mutex::new(Vec::new()),
            log: OnceLock::new(),
            gate: Mutex::new(()),
            counts: Counts::default(),
        }
    }

    /// Whether somebody answers for the log.
    pub(super) fn has_log(&self) -> bool {
        self.log.get().is_some()
    }

    /// Compares each queue of the manifest with its files. Names and lengths only.
    pub(super) fn compare_with_directories(&self) -> Result<()> {
        let mut absent = self.absent.lock();
        for queue in self.map.all() {
            self.compare_files(&queue, &mut absent)?;
        }
        Ok(())
    }

    fn compare_files(&self, queue: &Arc<Queue>, absent: &mut Vec<Absent>) -> Result<()> {
        let len = self.segments.file_len_bytes();
        let state = queue.lock();
        if !state.has_files() {
            return Ok(());
        }
        let mut base = state.first_base;
        while base < state.files_end {
            // One call for a file, where listing the directory takes six.
            let stat = self
                .segments
                .disk()
                .stat(&self.segments.file_path(queue, base))?;
            let kept_bytes = stat.map_or(0, |stat| stat.len_bytes.min(len));
            if kept_bytes < len {
                let from = base + kept_bytes - kept_bytes % QUEUE_UNIT_BYTES;
                match absent.last_mut() {
                    Some(last) if Arc::ptr_eq(&last.queue, queue) && last.to == from => {
                        last.to = base + len;
                    }
                    _ => absent.push(Absent {
                        queue: Arc::clone(queue),
                        from,
                        to: base + len,
                    }),
                }
            }
            base += len;
        }
        Ok(())
    }

    /// Makes the files that were found missing or too short, with nothing in the new part; gives
    /// the holes that this leaves. Called while the store is opened.
    ///
    /// # Durability
    /// After the next [`QueueTable::sync`](super::QueueTable::sync) of 0 pages.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn make_absent_files(&self) -> Result<Vec<Hole>> {
        let absent = std::mem::take(&mut *self.absent.lock());
        for part in &absent {
            let first = part.from - part.from % self.segments.file_len_bytes();
            for base in (first..part.to).step_by(self.segments.file_len_bytes() as usize) {
                self.segments.make_whole(&part.queue, base)?;
            }
        }
        let mut holes = Vec::with_capacity(absent.len());
        for Absent { queue, from, to } in absent {
            let state = queue.lock();
            let to = (to / QUEUE_UNIT_BYTES).min(state.end);
            let from = (from / QUEUE_UNIT_BYTES).min(to);
            holes.push(self.hole_of(&queue, &state, from, to)?);
        }
        Ok(holes)
    }

    /// The hole `[from, to)` with the range of the log between the units around it.
    pub(super) fn hole_of(
        &self,
        queue: &Arc<Queue>,
        state: &State,
        from: u64,
        to: u64,
    ) -> Result<Hole> {
        let first = state.first_base / QUEUE_UNIT_BYTES;
        let is_record = |unit: &Unit| unit.is_present() && !unit.is_blank();
        let mut log_from = 0;
        for index in (first..from).rev() {
            let unit = self.segments.unit_of(queue, state, index)?;
            if is_record(&unit) {
                log_from = unit.physical_end().cast_unsigned();
                break;
            }
        }
        let mut log_to = match state.last_physical_end {
            NO_RECORD => u64::MAX,
            end => end.cast_unsigned(),
        };
        for index in to..state.end {
            let unit = self.segments.unit_of(queue, state, index)?;
            if is_record(&unit) {
                log_to = unit.physical_offset.cast_unsigned();
                break;
            }
        }
        Ok(Hole {
            queue: Arc::clone(queue),
            from,
            to,
            log_from,
            log_to,
            min: state.min,
            epoch: state.epoch,
        })
    }

    /// Writes units into files that are there, from a queue offset on; false when the queue was cut
    /// or deleted since the hole was found.
    ///
    /// # Durability
    /// After the next [`QueueTable::sync`](super::QueueTable::sync) of 0 pages.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn write_units(&self, hole: &Hole, from: u64, bytes: &[u8]) -> Result<bool> {
        let queue = &hole.queue;
        let _gate = self.pending.hold_writes();
        let end = from + (bytes.len() / UNIT_LEN) as u64;
        {
            let state = queue.lock();
            if state.is_gone || state.epoch != hole.epoch || end > state.written {
                return Ok(false);
            }
        }
        let range = WriteRange {
            position: from * QUEUE_UNIT_BYTES,
            files_end: u64::MAX,
            has_files: true,
            // Due at the next sync, and no reason to hold the checkpoint back.
            oldest_ms: NOTHING_WAITS_MS,
        };
        self.segments.write_bytes(queue, range, bytes)?;
        Ok(true)
    }

    /// Sets who answers for the log. Without one nothing is made again.
    pub fn set_log(&self, log: Box<dyn LogSide<D>>) {
        let _is_first = self.log.set(log);
    }

    /// Looks at the unit at `index` and makes it again, with those around it that are as bad, when
    /// it cannot be right. True when something was written.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// For a walk over the log between the good units around it.
    pub(super) fn mend_at(&self, queue: &Arc<Queue>, index: u64) -> Result<bool> {
        let Some(log) = self.log.get() else {
            return Ok(false);
        };
        // One at a time: who waited finds it done.
        let _gate = self.gate.lock();
        let (first, written) = {
            let state = queue.lock();
            (state.first_base / QUEUE_UNIT_BYTES, state.written)
        };
        if !(first..written).contains(&index) {
            return Ok(false);
        }
        let is_good = |index: u64| -> Result<bool> {
            let unit = self.segments.unit_at(queue, index)?;
            Ok(unit.is_present() && log.agrees(queue, index, &unit)?)
        };
        let base = index * QUEUE_UNIT_BYTES / self.segments.file_len_bytes()
            * self.segments.file_len_bytes();
        self.segments.make_whole(queue, base)?;
        if is_good(index)? {
            return Ok(false);
        }
        let (mut from, mut to) = (index, index + 1);
        while from > first && !is_good(from - 1)? {
            from -= 1;
        }
        while to < written && !is_good(to)? {
            to += 1;
        }
        let hole = {
            let state = queue.lock();
            if state.is_gone || state.written < to {
                return Ok(false);
            }
            self.hole_of(queue, &state, from, to)?
        };
        let mended = log.mend(self, vec![hole])?;
        Ok(mended.units > 0 || mended.lost > 0)
    }

    /// As `HoleMender::mend_at`, by name.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// For a walk over the log between the good units around it.
    pub fn mend_unit(&self, topic: &[u8], queue_id: i32, index: u64) -> Result<bool> {
        match self.map.find(topic, queue_id) {
            Some(queue) => self.mend_at(&queue, index),
            None => Ok(false),
        }
    }

    /// Compares the first and the last unit of each file with the log, once per queue; what cannot
    /// be right is made again.
    pub(super) fn check_ends(&self, queue: &Arc<Queue>) -> Result<()> {
        let Some(log) = self.log.get() else {
            return Ok(());
        };
        let (first_base, min, written) = {
            let state = queue.lock();
            (state.first_base, state.min, state.written)
        };
        let per_file = self.segments.file_len_bytes() / QUEUE_UNIT_BYTES;
        let mut first = first_base / QUEUE_UNIT_BYTES;
        while first < written {
            let last = written.min(first + per_file) - 1;
            for index in [first.max(min).min(last), last] {
                if index < min {
                    continue;
                }
                let unit = self.segments.unit_at(queue, index)?;
                if !unit.is_present() || !log.agrees(queue, index, &unit)? {
                    self.mend_at(queue, index)?;
                }
            }
            first += per_file;
        }
        queue.lock().has_checked_ends = true;
        Ok(())
    }

    /// Adds to the counts that [`HoleMender::mended`] gives.
    pub fn count_mended(&self, mended: Mended) {
        let counts = &self.counts;
        counts.queues.fetch_add(mended.queues, Ordering::Relaxed);
        counts.units.fetch_add(mended.units, Ordering::Relaxed);
        counts.lost.fetch_add(mended.lost, Ordering::Relaxed);
    }

    /// What was made again since the store was opened.
    #[must_use]
    pub fn mended(&self) -> Mended {
        Mended {
            queues: self.counts.queues.load(Ordering::Relaxed),
            units: self.counts.units.load(Ordering::Relaxed),
            lost: self.counts.lost.load(Ordering::Relaxed),
        }
    }

    /// The unit that a file holds, present or not.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn unit_in_file(&self, queue: &Queue, index: u64) -> Result<Unit> {
        self.segments.file_unit(queue, index)
    }
}
