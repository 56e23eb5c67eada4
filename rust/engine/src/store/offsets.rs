//! What readers get of the units of queues without the records: offsets of messages, the units
//! themselves (`AdminBrokerProcessor.queryConsumeQueue`), and the offset that goes with a time
//! (`getOffsetInQueueByTime`).

use std::ops::ControlFlow;

use mqcore_record::CrcCheck;

use super::reader::Reader;
use super::{Ask, GetStatus, Got, RecordOffsets, SeenExtension, SeenUnit};
use crate::batch_queue::BatchQueue;
use crate::clock::Clock;
use crate::consume_queue::{Boundary, Unit};
use crate::disk::Disk;
use crate::error::Result;

impl<D: Disk, C: Clock> Reader<D, C> {
    /// As [`Reader::get`] of all messages, without their records: the answer has offsets instead. Of
    /// queues of batches it has records, since one of their units is of many messages.
    /// `ask.bytes_max` and `ask.tags_codes` mean nothing here.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk where the page cache has not the units.
    pub fn offsets(&self, topic: &[u8], queue_id: i32, ask: Ask<'_>) -> Result<Got<D>> {
        if self.topics.has_batch_queues(topic) {
            return self.get(topic, queue_id, ask);
        }
        let mut units = Vec::with_capacity(ask.count_max);
        let queue = (topic, queue_id);
        let bounds = match self.read_units(queue, ask.from, ask.count_max, &mut units)? {
            ControlFlow::Continue(bounds) => bounds,
            ControlFlow::Break(nothing) => return Ok(nothing),
        };
        let (start, end) = (self.files.chain.start(), self.files.readable());
        let mut got = Got::empty(GetStatus::NoMatchedMessage, ask.from, bounds);
        got.offsets.reserve(units.len());
        for (queue_offset, unit) in (ask.from..).zip(&units) {
            let physical_offset = unit.physical_offset.cast_unsigned();
            let is_blank = unit.is_blank();
            if !is_blank && physical_offset >= end {
                // Not readable any more after a failed sync: the reader waits at this offset.
                break;
            }
            got.next_offset = queue_offset + 1;
            if is_blank {
                continue;
            }
            if physical_offset < start {
                got.status = GetStatus::MessageWasRemoving;
                continue;
            }
            got.bytes += u64::from(unit.size_bytes.cast_unsigned());
            got.offsets.push(RecordOffsets {
                queue_offset,
                physical_offset,
            });
        }
        if !got.offsets.is_empty() {
            got.status = GetStatus::Found;
        }
        Ok(got)
    }

    /// The units of the messages from a queue offset on, `count_max` messages at the most. Nothing
    /// outside of the queue's bounds.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk.
    pub fn units(
        &self,
        topic: &[u8],
        queue_id: i32,
        from: u64,
        count_max: usize,
    ) -> Result<Vec<SeenUnit>> {
        if self.topics.has_batch_queues(topic) {
            return self.topics.batch_units(topic, queue_id, from, count_max);
        }
        let mut units = Vec::new();
        self.queues
            .read(topic, queue_id, from, count_max, &mut units)?;
        let mut extensions = self.queues.extensions(topic, queue_id);
        let mut seen = Vec::with_capacity(units.len());
        for (queue_offset, mut unit) in (from..).zip(units) {
            let mut extension = SeenExtension::None;
            if unit.is_extended() {
                extension = SeenExtension::Missing;
                if let Some(found) = extensions.get(unit.tags_code)? {
                    unit.tags_code = found.tags_code;
                    extension = SeenExtension::Found(found.store_timestamp_ms, found.bits.into());
                }
            }
            seen.push(SeenUnit {
                queue_offset,
                unit,
                extension,
            });
        }
        Ok(seen)
    }

    /// The queue offset that goes with a time, by the rules of 5.3.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads records of the queue.
    pub fn offset_by_time(
        &self,
        topic: &[u8],
        queue_id: i32,
        timestamp_ms: i64,
        boundary: Boundary,
    ) -> Result<Option<u64>> {
        if self.topics.has_batch_queues(topic) {
            let queue = self.topics.batch_queue(topic, queue_id);
            let at = |queue: BatchQueue<D>| {
                self.topics
                    .batch_offset_by_time(&queue, timestamp_ms, boundary)
            };
            let found = queue.map(at);
            return found.transpose();
        }
        let store_time = |unit: &Unit| self.store_time(unit);
        self.queues
            .search_by_time(topic, queue_id, timestamp_ms, boundary, &store_time)
    }

    /// When the message at a queue offset was stored, Unix ms; `None` where there is none.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk.
    pub fn stored_ms(&self, topic: &[u8], queue_id: i32, queue_offset: u64) -> Result<Option<i64>> {
        let units = self.units(topic, queue_id, queue_offset, 1)?;
        Ok(units.first().and_then(|seen| self.store_time(&seen.unit)))
    }

    /// Puts the codes that the extension of a queue has into units that name positions there. Units
    /// of which it has none stay as they are.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk.
    pub fn fill_codes(&self, topic: &[u8], queue_id: i32, units: &mut [Unit]) -> Result<()> {
        let mut extensions = self.queues.extensions(topic, queue_id);
        for unit in units.iter_mut().filter(|unit| unit.is_extended()) {
            if let Some(extended) = extensions.get(unit.tags_code)? {
                unit.tags_code = extended.tags_code;
            }
        }
        Ok(())
    }

    /// Store time of the record that a unit names, ms.
    fn store_time(&self, unit: &Unit) -> Option<i64> {
        let len = usize::try_from(unit.size_bytes).ok()?;
        let record = self
            .records
            .record(unit.physical_offset.cast_unsigned(), len)
            .ok()?;
        Some(record.view(CrcCheck::Skip).ok()?.store_timestamp_ms)
    }
}
