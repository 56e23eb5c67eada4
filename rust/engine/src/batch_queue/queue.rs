//! One batch queue: its files side by side, read by the ordinal of a unit. The files say nothing of
//! queue offsets in their names, so everything is found by halving.

use std::path::PathBuf;

use super::unit::{BATCH_UNIT_BYTES, BatchUnit};
use crate::disk::{Disk, Open, read_exact_at};
use crate::error::{Error, Result};

const UNIT_LEN: usize = BATCH_UNIT_BYTES as usize;

/// A batch queue that nobody writes to.
#[derive(Debug)]
pub struct BatchQueue<D: Disk> {
    disk: D,
    files: Vec<PathBuf>,
    /// Units of one file.
    file_units: u64,
    /// Units of all files.
    len: u64,
}

impl<D: Disk> BatchQueue<D> {
    /// The queue in some files of one length, in the order of their names: the units that stand in
    /// them without a gap, of records below `end`.
    ///
    /// # Errors
    /// [`Error::ForeignFile`] for files that are none of a batch queue; [`Error::Io`].
    pub(super) fn open(disk: D, files: Vec<(PathBuf, u64)>, end: u64) -> Result<Self> {
        let file_len = files.first().map_or(BATCH_UNIT_BYTES, |file| file.1);
        let wrong = files
            .iter()
            .find(|(_, len)| *len != file_len || len % BATCH_UNIT_BYTES != 0 || *len == 0);
        if let Some((path, len)) = wrong {
            let why = format!(
                "{len} bytes: no whole units of {BATCH_UNIT_BYTES} bytes, or unlike the others"
            );
            let path = path.clone();
            return Err(Error::ForeignFile { path, why });
        }
        let mut queue = Self {
            disk,
            file_units: file_len / BATCH_UNIT_BYTES,
            len: files.len() as u64 * (file_len / BATCH_UNIT_BYTES),
            files: files.into_iter().map(|file| file.0).collect(),
        };
        queue.len = queue.first_not(|unit| unit.is_some_and(|unit| unit.physical_offset < end))?;
        Ok(queue)
    }

    /// Its files.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.files.len() as u64
    }

    /// Their lengths, sparse or not.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.files() * self.file_units * BATCH_UNIT_BYTES
    }

    /// First and next queue offset, of records from `start` of the log on.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// Reads a few units.
    pub fn bounds(&self, start: u64) -> Result<(u64, u64)> {
        let Some(last) = self.len.checked_sub(1) else {
            return Ok((0, 0));
        };
        let max = self.unit(last)?.map_or(0, |unit| unit.end());
        let is_gone =
            |unit: Option<BatchUnit>| unit.is_some_and(|unit| unit.physical_offset < start);
        let first = self.first_not(is_gone)?;
        let min = self.unit(first)?.map_or(max, |unit| unit.base);
        Ok((min, max))
    }

    /// Adds up to `count_max` units to `out`, beginning with the one that holds a queue offset.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk.
    pub fn read(&self, from: u64, count_max: usize, out: &mut Vec<BatchUnit>) -> Result<()> {
        let first = self.first_not(|unit| unit.is_some_and(|unit| unit.end() <= from))?;
        let mut at = first;
        while at < self.len && out.len() < count_max {
            let in_file = self.file_units - at % self.file_units;
            let left = (count_max - out.len()) as u64;
            let count = in_file.min(self.len - at).min(left);
            let bytes = self.bytes(at, count)?;
            let (units, _rest) = bytes.as_chunks::<UNIT_LEN>();
            out.extend(units.iter().map_while(BatchUnit::decode));
            at += count;
        }
        Ok(())
    }

    /// The queue offset of the first message of the first record at or after a time, or with
    /// `is_upper` of the last one at or before it; of the last record where all are older, of the
    /// first where all are younger (`BatchConsumeQueue.getOffsetInQueueByTime`).
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk.
    pub fn offset_by_time(&self, timestamp_ms: i64, is_upper: bool) -> Result<u64> {
        let is_before = |unit: Option<BatchUnit>| {
            unit.is_some_and(|unit| {
                let store_ms = unit.store_timestamp_ms;
                store_ms < timestamp_ms || (is_upper && store_ms == timestamp_ms)
            })
        };
        let after = self.first_not(is_before)?;
        let at = if is_upper {
            after.saturating_sub(1)
        } else {
            after
        };
        let last = self.len.saturating_sub(1);
        Ok(self.unit(at.min(last))?.map_or(0, |unit| unit.base))
    }

    /// The ordinal of the first unit that does not pass a test which all before it pass.
    fn first_not(&self, passes: impl Fn(Option<BatchUnit>) -> bool) -> Result<u64> {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            if passes(self.unit(middle)?) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    fn unit(&self, at: u64) -> Result<Option<BatchUnit>> {
        if at >= self.len {
            return Ok(None);
        }
        let bytes = self.bytes(at, 1)?;
        let (units, _rest) = bytes.as_chunks::<UNIT_LEN>();
        Ok(units.first().and_then(BatchUnit::decode))
    }

    fn bytes(&self, at: u64, count: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; (count * BATCH_UNIT_BYTES) as usize];
        let file = usize::try_from(at / self.file_units).unwrap_or(usize::MAX);
        if let Some(path) = self.files.get(file) {
            let position = at % self.file_units * BATCH_UNIT_BYTES;
            let file = self.disk.open(path, Open::Read)?;
            read_exact_at(&file, &mut bytes, position)?;
        }
        Ok(bytes)
    }
}
