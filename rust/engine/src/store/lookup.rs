//! What a read meets where a unit of a queue sends it: a good record, a damaged one that is passed over, or
//! none. Decides nothing about the answer that is made of it.

use mqcore_record::{CrcCheck, peek_total_len};

use super::damaged_records::DamagedRecords;
use crate::commit_log::{LogReader, RecordBytes};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::segment::LogFiles;

/// What is where a unit sends a read.
pub(super) enum Met<D: Disk> {
    Record(RecordBytes<D>),
    /// A damaged record that was reported.
    Passed,
    /// Removed by retention.
    Removed,
    /// The reader waits at this offset.
    NotYet,
    /// No record: the unit is wrong, or the record is.
    Wrong,
}

/// Looks up the records of one read.
pub(super) struct Lookup<'a, D: Disk> {
    pub(super) reader: LogReader<'a, D>,
    pub(super) files: &'a LogFiles<D>,
    pub(super) damaged: &'a DamagedRecords,
    /// `checkCrcOnColdRead`.
    pub(super) checks_crc: bool,
}

impl<D: Disk> Lookup<'_, D> {
    /// What a read finds where a unit sends it; `named` are the topic and the queue offset that the
    /// record there has to name.
    pub(super) fn meet(
        &mut self,
        (physical_offset, size): (u64, u64),
        behind: impl Iterator<Item = (u64, usize)>,
        named: Option<(&[u8], u64)>,
    ) -> Result<Met<D>> {
        let is_wrong = match self.reader.record(physical_offset, size as usize, behind) {
            Ok(record) if Self::is_whole(&record) => {
                return Ok(if self.is_damaged(&record, named) {
                    Met::Passed
                } else {
                    Met::Record(record)
                });
            }
            Ok(_no_record) => true,
            Err(Error::NoRecord { .. }) if physical_offset < self.reader.start() => {
                return Ok(Met::Removed);
            }
            // Behind all that was ever stored, or not readable any more after a failed sync.
            Err(Error::NoRecord { .. }) => physical_offset.saturating_add(size) > self.stored_end(),
            Err(error) => return Err(error),
        };
        Ok(match is_wrong {
            false => Met::NotYet,
            true if self.damaged.has(physical_offset) => Met::Passed,
            true => Met::Wrong,
        })
    }

    /// Whether a record starts where a unit names it, with the length that it gives.
    fn is_whole(record: &RecordBytes<D>) -> bool {
        let bytes = record.as_bytes();
        peek_total_len(bytes) == Some(bytes.len())
    }

    /// Whether a record that was read from the disk is not what was stored, by the CRC of its body and by
    /// the queue offset that it names: it is noted, and passed over. A record in the hot window was
    /// written by this process, or looked at when the store was opened.
    fn is_damaged(&self, record: &RecordBytes<D>, named: Option<(&[u8], u64)>) -> bool {
        if !self.checks_crc || !record.is_copy() {
            return false;
        }
        let why = match (record.view(CrcCheck::Verify), named) {
            (Err(error), _) => error.to_string(),
            // A record may be in queues of other topics too, and has the offset of its own.
            (Ok(view), Some((topic, queue_offset)))
                if view.topic == topic && view.queue_offset.cast_unsigned() != queue_offset =>
            {
                format!("its queue has it at offset {queue_offset}")
            }
            (Ok(_), _) => return false,
        };
        self.damaged
            .note_at(record.physical_offset, record.as_bytes(), why);
        true
    }

    fn stored_end(&self) -> u64 {
        self.files.positions.appended.position()
    }
}
