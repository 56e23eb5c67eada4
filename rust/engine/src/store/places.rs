//! Reading by queue offset for readers who want the places of messages alone: out of the units of a
//! queue. Reads no record.

use super::ask::{no_queue, outside};
use super::{Ask, GetStatus, Got, Place, Store};
use crate::clock::Clock;
use crate::disk::Disk;
use crate::error::Result;

impl<D: Disk, C: Clock> Store<D, C> {
    /// As [`Store::get`] of all messages, without their records: the answer has places instead. Of
    /// queues of batches it has records, since one of their units stands for many messages.
    /// `ask.bytes_max` and `ask.tags_codes` say nothing here.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk where the page cache has not the units.
    pub fn places(&self, topic: &[u8], queue_id: i32, ask: Ask<'_>) -> Result<Got<D>> {
        if self.has_batch_queues(topic) {
            return self.get(topic, queue_id, ask);
        }
        let mut units = Vec::with_capacity(ask.count_max);
        let queues = &self.queues;
        let read = queues.read(topic, queue_id, ask.from, ask.count_max, &mut units)?;
        let Some(bounds) = read.bounds else {
            return Ok(no_queue());
        };
        if let Some(outside) = outside(ask.from, bounds, units.is_empty()) {
            return Ok(outside);
        }
        let (start, end) = (self.files.chain.start(), self.files.readable());
        let mut got = Got::empty(GetStatus::NoMatchedMessage, ask.from, bounds);
        got.places.reserve(units.len());
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
            got.places.push(Place {
                queue_offset,
                physical_offset,
            });
        }
        if !got.places.is_empty() {
            got.status = GetStatus::Found;
        }
        Ok(got)
    }
}
