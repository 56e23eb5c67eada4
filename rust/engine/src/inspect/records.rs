//! One record by its physical offset, for whoever follows a unit or an index entry. Verifying asks for many
//! records side by side, so the bytes are kept between looks.

use mqcore_record::{CrcCheck, Found, RecordError, RecordView, check};

use crate::disk::Disk;
use crate::error::Result;
use crate::segment::{Chain, LogSlice};
use crate::units::KIB;

/// Bytes read at once: some records ahead; units and entries follow the order of the log.
const READ_BYTES: usize = 64 * KIB as usize;

/// Reads records at physical offsets.
pub(super) struct RecordReader<'a, D: Disk> {
    chain: &'a Chain<D>,
    start: u64,
    bytes: Option<LogSlice<D>>,
}

impl<'a, D: Disk> RecordReader<'a, D> {
    pub(super) fn new(chain: &'a Chain<D>) -> Self {
        Self {
            chain,
            start: 0,
            bytes: None,
        }
    }

    /// The record at a physical offset that is its own, too; `None` when there is none.
    pub(super) fn at(&mut self, physical_offset: u64) -> Result<Option<RecordView<'_>>> {
        let mut need = match self.peek(physical_offset) {
            Ok(()) => 0,
            Err(need) => need.max(READ_BYTES),
        };
        // Twice at the most for a whole record: its first bytes hold its length.
        while need > 0 {
            let Some(chunk) = self.chain.chunk(physical_offset, self.chain.end(), need)? else {
                return Ok(None);
            };
            let got = chunk.bytes.as_bytes().len();
            (self.start, self.bytes) = (physical_offset, Some(chunk.bytes));
            need = match self.peek(physical_offset) {
                Ok(()) => 0,
                Err(more) if more > got && got == need => more,
                Err(_) => return Ok(None),
            };
        }
        match check(self.rest(physical_offset), CrcCheck::Skip) {
            Ok(Found::Record(record))
                if record.physical_offset.cast_unsigned() == physical_offset =>
            {
                Ok(Some(record))
            }
            _ => Ok(None),
        }
    }

    fn rest(&self, physical_offset: u64) -> &[u8] {
        let held = self
            .bytes
            .as_ref()
            .map_or(&[][..], |bytes| bytes.as_bytes());
        physical_offset
            .checked_sub(self.start)
            .and_then(|at| held.get(usize::try_from(at).ok()?..))
            .unwrap_or_default()
    }

    /// Whether what is held decides about the offset; else the bytes needed for that.
    fn peek(&self, physical_offset: u64) -> std::result::Result<(), usize> {
        match check(self.rest(physical_offset), CrcCheck::Skip) {
            Err(RecordError::Truncated { need, .. }) => Err(need),
            _ => Ok(()),
        }
    }
}
