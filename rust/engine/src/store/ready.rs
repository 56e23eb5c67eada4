//! What can be answered at once: whether an append finds its file ready, and reads that never wait
//! for a disk. For callers that must not be held up, as an event loop.

use mqcore_record::CrcCheck;
use mqcore_record::layout::BLANK_LEN_BYTES;

use super::Store;
use super::followers::DelayLevels;
use crate::batch_queue::BatchUnit;
use crate::clock::Clock;
use crate::commit_log::LogBatches;
use crate::config::FlushDiskType;
use crate::consume_queue::ReadBy;
use crate::disk::Disk;
use crate::error::Result;

impl<D: Disk, C: Clock> Store<D, C> {
    /// Whether an acknowledgement needs nothing but memory: asynchronous flush, no pool.
    #[must_use]
    pub fn acknowledges_at_once(&self) -> bool {
        self.config.flush_disk_type == FlushDiskType::Async && self.files.pool.is_none()
    }

    /// Whether an append of `len_bytes` finds a file ready: it will not wait, unless others append
    /// at the same time.
    #[must_use]
    pub fn has_room_for(&self, len_bytes: u64) -> bool {
        let appended = self.files.positions.appended.position();
        let needed = appended + len_bytes + BLANK_LEN_BYTES as u64;
        let is_in_last = self.files.chain.end() >= needed;
        is_in_last || self.files.preparer.peek().is_some()
    }

    /// Whether an append of `len_bytes` may be made by a caller that must not wait: a file is ready,
    /// or there is no thread that could make one, so that the append makes it itself.
    #[must_use]
    pub fn is_ready_for(&self, len_bytes: u64) -> bool {
        !self.files.preparer.has_thread() || self.has_room_for(len_bytes)
    }

    /// Whether a record of a queue is so far behind the end of the log that it counts as "on disk"
    /// (`checkInDiskByConsumeOffset`); false where there is none.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads one unit of the queue.
    pub fn is_far(&self, topic: &[u8], queue_id: i32, queue_offset: u64) -> Result<bool> {
        let place = if self.has_batch_queues(topic) {
            self.batch_place(topic, queue_id, queue_offset)?
        } else {
            let mut units = Vec::with_capacity(1);
            let wanted = (1, &mut units);
            self.queues
                .read_by(topic, queue_id, queue_offset, wanted, ReadBy::AsItIs)?;
            let unit = units.first();
            unit.map(|unit| unit.physical_offset.cast_unsigned())
        };
        let Some(place) = place else {
            return Ok(false);
        };
        let behind = self.files.readable().saturating_sub(place);
        Ok(behind > self.near_bytes())
    }

    /// The time that a record appended now would get at the least, Unix ms.
    #[must_use]
    pub fn wall_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// How many delay levels there are (`messageDelayLevel`).
    #[must_use]
    pub fn delay_levels(&self) -> usize {
        self.levels.now().count()
    }

    /// Replaces the delay levels (`messageDelayLevel`): messages that are stored from now on wait so
    /// long; those that wait keep their times.
    ///
    /// # Errors
    /// [`crate::error::Error::Config`]: nothing has changed.
    pub fn set_delay_levels(&self, text: &str) -> Result<()> {
        self.levels.replace(DelayLevels::parse(text)?);
        Ok(())
    }

    /// How long a delay level waits, ms; `None` for a level that is none.
    #[must_use]
    pub fn delay_ms(&self, level: usize) -> Option<i64> {
        self.levels.now().delay_ms(level)
    }

    /// Whether up to `count` records from a queue offset on can be read from memory alone: their
    /// units are cached, and the first record (so all after it too) lies in the mapped end of the
    /// log. Also true where there is nothing to read.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn is_hot(&self, topic: &[u8], queue_id: i32, from: u64, count: usize) -> Result<bool> {
        if let Some(queue) = self.batches.find(topic, queue_id) {
            let units = queue.read_now(from, count)?;
            let is_near = |unit: &BatchUnit| self.is_mapped(unit.physical_offset);
            return Ok(units.is_some_and(|units| units.first().is_none_or(is_near)));
        }
        let mut units = Vec::with_capacity(count);
        let read =
            self.queues
                .read_by(topic, queue_id, from, (count, &mut units), ReadBy::Cache)?;
        if read.is_cold {
            return Ok(false);
        }
        let Some(first) = units.first() else {
            return Ok(true);
        };
        if !self.queues.is_extension_cached(topic, queue_id, &units)? {
            return Ok(false);
        }
        Ok(self.is_mapped(first.physical_offset.cast_unsigned()))
    }

    /// Whether a place lies in the mapped end of the log.
    fn is_mapped(&self, place: u64) -> bool {
        let segment = self.files.chain.find(place);
        segment.is_some_and(|segment| segment.region().is_some())
    }

    /// A walk through what is readable now, from a record's first byte (or the oldest record).
    #[must_use]
    pub fn walk(&self, from: Option<u64>, to: Option<u64>, chunk_len: usize) -> LogBatches {
        let start = self.files.chain.start();
        let from = from.unwrap_or(start).max(start);
        let limit = to.unwrap_or(u64::MAX).min(self.files.readable());
        LogBatches::new(from, limit, CrcCheck::Skip, chunk_len, false)
    }
}
