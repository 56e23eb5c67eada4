//! One batch queue: what is kept of it in memory, and the decision where a unit belongs. The rooms
//! beside it move its tail to files and read them.
//!
//! Units are counted by ordinals: `[first, written)` are in files, those behind in `tail`. A file is
//! named by the byte of its first unit, which says nothing of queue offsets: those stand in the
//! units alone. Idle, a queue is this struct and no more: no descriptor, no buffer.

use std::path::PathBuf;
use std::sync::Arc;

use super::unit::{BatchUnit, UNIT_LEN};
use crate::config::BATCH_UNIT_BYTES;
use crate::disk::Disk;
use crate::lock::{Mutex, MutexGuard};
use crate::units::offset_file_name;

/// A batch queue of a topic.
pub struct BatchQueue<D: Disk> {
    pub(super) disk: D,
    pub(super) topic: Arc<str>,
    pub(super) queue_id: i32,
    pub(super) dir: PathBuf,
    /// Units of one file.
    pub(super) file_units: u64,
    state: Mutex<State<D>>,
}

/// What is known of a queue. See the head of this file.
pub(super) struct State<D: Disk> {
    /// Deleted: a handle to it is stale.
    pub(super) is_gone: bool,
    /// In the table's list of queues with something to write.
    pub(super) is_pending: bool,
    /// In the table's list of queues with something to sync.
    pub(super) is_dirty: bool,
    /// Ordinal of the first unit of the oldest file.
    pub(super) first: u64,
    /// Ordinal behind the last unit that is in a file.
    pub(super) written: u64,
    /// Ordinal behind the last unit that is durable.
    pub(super) synced: u64,
    /// Ordinal behind the last unit that the files have room for.
    pub(super) room: u64,
    /// The queue offset behind the last message.
    pub(super) end: u64,
    /// Where the record of the last unit stands; `None` in a queue without units.
    pub(super) last_physical: Option<u64>,
    /// The first unit whose record the log has, as last looked up; `None` when nobody has looked.
    pub(super) min: Option<Min>,
    /// Units that are in no file yet.
    pub(super) tail: Vec<u8>,
    /// Files that were written to since their last sync.
    pub(super) dirty: Vec<Dirty<D>>,
}

/// The first unit that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Min {
    /// The queue offset of its first message.
    pub(super) base: u64,
    /// Where its record stands; `u64::MAX` when there is none, so that nothing lies below it.
    pub(super) physical_offset: u64,
}

/// A file with bytes that are not durable. Its descriptor stays open until they are: an error of
/// its write-back is then told to the sync.
pub(super) struct Dirty<D: Disk> {
    /// Ordinal of its first unit.
    pub(super) base: u64,
    pub(super) file: Arc<D::File>,
    /// Its name is not durable either.
    pub(super) is_new: bool,
}

impl<D: Disk> Clone for Dirty<D> {
    fn clone(&self) -> Self {
        Self {
            base: self.base,
            file: Arc::clone(&self.file),
            is_new: self.is_new,
        }
    }
}

/// Where a unit belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// At the end.
    Next,
    /// Nowhere: it, or a later one, is in the queue.
    Duplicate,
    /// At offset 0 again, later in the log: the topic was deleted and made anew there.
    Restart,
    /// Below the end, later in the log: two records claim one place.
    Taken,
}

impl<D: Disk> State<D> {
    /// A queue with these files, of which nothing else is known.
    pub(super) fn of_files(first: u64, room: u64) -> Self {
        Self {
            is_gone: false,
            is_pending: false,
            is_dirty: false,
            first,
            written: first,
            synced: first,
            room,
            end: 0,
            last_physical: None,
            min: None,
            tail: Vec::new(),
            dirty: Vec::new(),
        }
    }

    /// Ordinal behind the last unit.
    pub(super) fn len(&self) -> u64 {
        self.written + (self.tail.len() / UNIT_LEN) as u64
    }

    /// Decides as `BatchConsumeQueue.putBatchMessagePositionInfo` does, which looks at places in the
    /// log alone; here no two units may claim one offset either, as in a plain queue.
    pub(super) fn place(&self, unit: &BatchUnit) -> Place {
        match self.last_physical {
            Some(last) if unit.physical_offset <= last => Place::Duplicate,
            Some(_) if unit.base >= self.end => Place::Next,
            Some(_) if unit.base == 0 => Place::Restart,
            Some(_) => Place::Taken,
            None => Place::Next,
        }
    }

    /// Adds a unit at the end.
    pub(super) fn push(&mut self, unit: &BatchUnit) {
        self.tail.extend_from_slice(&unit.encode());
        if self.last_physical.is_none() || self.has_no_record() {
            self.min = Some(Min {
                base: unit.base,
                physical_offset: unit.physical_offset,
            });
        }
        self.end = unit.end();
        self.last_physical = Some(unit.physical_offset);
    }

    /// The log is known to have no record of the queue.
    fn has_no_record(&self) -> bool {
        self.min.is_some_and(|min| min.physical_offset == u64::MAX)
    }
}

impl<D: Disk> BatchQueue<D> {
    pub(super) fn new(
        disk: D,
        (topic, queue_id): (Arc<str>, i32),
        dir: PathBuf,
        file_units: u64,
        state: State<D>,
    ) -> Self {
        Self {
            disk,
            topic,
            queue_id,
            dir,
            file_units,
            state: Mutex::new(state),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock()
    }

    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// The number of the queue in its topic.
    #[must_use]
    pub fn queue_id(&self) -> i32 {
        self.queue_id
    }

    /// Its files.
    #[must_use]
    pub fn files(&self) -> u64 {
        let state = self.lock();
        (state.room - state.first) / self.file_units
    }

    /// Their lengths, sparse or not.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.files() * self.file_len_bytes()
    }

    pub(super) fn file_len_bytes(&self) -> u64 {
        self.file_units * BATCH_UNIT_BYTES
    }

    /// Ordinal of the first unit of the file that has room for an ordinal.
    pub(super) fn base_of(&self, at: u64) -> u64 {
        at - at % self.file_units
    }

    pub(super) fn file_path(&self, base: u64) -> PathBuf {
        self.dir.join(offset_file_name(base * BATCH_UNIT_BYTES))
    }
}
