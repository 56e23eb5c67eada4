//! Reading a batch queue: memory tail and files are one. The files say nothing of queue offsets in
//! their names, so everything is found by halving. No lock is held while the disk is read; what
//! retention took away meanwhile is looked for again.

use super::queue::{BatchQueue, Min};
use super::unit::{BatchUnit, UNIT_LEN};
use crate::config::BATCH_UNIT_BYTES;
use crate::disk::{Disk, DiskFile, Open, read_exact_at};
use crate::error::Result;

/// Whether a read may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    None,
    Disk,
}

/// Reads units, and keeps the file of the last ones open.
struct Reader<'a, D: Disk> {
    queue: &'a BatchQueue<D>,
    open: Option<(u64, D::File)>,
    patience: Patience,
    /// Units were asked for that would have to be waited for: what was read says nothing.
    is_cold: bool,
}

impl<D: Disk> BatchQueue<D> {
    /// First and next queue offset, of records from `start` of the log on
    /// (`BatchConsumeQueue.correctMinOffset`).
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads a few units where the log has lost records since the last call.
    pub fn bounds(&self, start: u64) -> Result<(u64, u64)> {
        let (known, end) = {
            let state = self.lock();
            if state.last_physical.is_none() {
                return Ok((state.end, state.end));
            }
            (state.min, state.end)
        };
        if let Some(min) = known.filter(|min| min.physical_offset >= start) {
            return Ok((min.base, end));
        }
        let found = self.retried(Patience::Disk, |reader| {
            let at = reader.first_not(|unit| unit.physical_offset < start)?;
            reader.unit(at)
        })?;
        let mut state = self.lock();
        let min = found.map_or(
            Min {
                base: state.end,
                physical_offset: u64::MAX,
            },
            |unit| Min {
                base: unit.base,
                physical_offset: unit.physical_offset,
            },
        );
        // A unit that came meanwhile is the first one where there was none.
        let is_passed = found.is_none() && state.end != end;
        if !is_passed && state.min == known {
            state.min = Some(min);
        }
        let base = if is_passed { end } else { min.base };
        Ok((base, state.end))
    }

    /// Adds up to `count_max` units to `out`, beginning with the one that holds a queue offset.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk.
    pub fn read(&self, from: u64, count_max: usize, out: &mut Vec<BatchUnit>) -> Result<()> {
        let units = self.read_by(Patience::Disk, from, count_max)?;
        out.extend(units.unwrap_or_default());
        Ok(())
    }

    /// As [`BatchQueue::read`], without waiting for the disk: `None` where it would have to.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn read_now(&self, from: u64, count_max: usize) -> Result<Option<Vec<BatchUnit>>> {
        self.read_by(Patience::None, from, count_max)
    }

    fn read_by(
        &self,
        patience: Patience,
        from: u64,
        count_max: usize,
    ) -> Result<Option<Vec<BatchUnit>>> {
        self.retried(patience, |reader| {
            let mut at = match self.first_in_tail(from) {
                Some(at) => at,
                None => reader.first_not(|unit| unit.end() <= from)?,
            };
            let mut units = Vec::new();
            while units.len() < count_max {
                let bytes = reader.bytes(at, (count_max - units.len()) as u64)?;
                let (chunks, _rest) = bytes.as_chunks::<UNIT_LEN>();
                let before = units.len();
                units.extend(chunks.iter().map_while(BatchUnit::decode));
                if units.len() == before {
                    break;
                }
                at += (units.len() - before) as u64;
            }
            Ok((!reader.is_cold).then_some(units))
        })
    }

    /// The queue offset of the first message of the first record at or after a time, or with
    /// `is_upper` of the last one at or before it; of the last record where all are older, of the
    /// first where all are younger (`BatchConsumeQueue.getOffsetInQueueByTime`).
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk.
    pub fn offset_by_time(&self, timestamp_ms: i64, is_upper: bool) -> Result<u64> {
        let is_before = |unit: &BatchUnit| {
            let store_ms = unit.store_timestamp_ms;
            store_ms < timestamp_ms || (is_upper && store_ms == timestamp_ms)
        };
        self.retried(Patience::Disk, |reader| {
            let (first, len) = {
                let state = self.lock();
                (state.first, state.len())
            };
            let after = reader.first_not(is_before)?;
            let at = if is_upper && after > first {
                after - 1
            } else {
                after
            };
            let at = at.min(len.saturating_sub(1));
            Ok(reader.unit(at)?.map_or(0, |unit| unit.base))
        })
    }

    /// The ordinal of the unit in the tail that holds a queue offset; `None` when it is in a file.
    fn first_in_tail(&self, from: u64) -> Option<u64> {
        let state = self.lock();
        let (units, _rest) = state.tail.as_chunks::<UNIT_LEN>();
        let is_in_file =
            |bytes: &[u8; UNIT_LEN]| BatchUnit::decode(bytes).is_none_or(|unit| unit.base > from);
        if units.first().is_none_or(is_in_file) {
            return None;
        }
        let is_below = |bytes: &[u8; UNIT_LEN]| {
            BatchUnit::decode(bytes).is_some_and(|unit| unit.end() <= from)
        };
        Some(state.written + units.partition_point(is_below) as u64)
    }

    /// Reads; again while retention removes files beneath it. Of a deleted queue nothing is read.
    fn retried<T: Default>(
        &self,
        patience: Patience,
        read: impl Fn(&mut Reader<'_, D>) -> Result<T>,
    ) -> Result<T> {
        loop {
            let first = self.lock().first;
            let mut reader = Reader {
                queue: self,
                open: None,
                patience,
                is_cold: false,
            };
            let outcome = read(&mut reader);
            let state = self.lock();
            match outcome {
                Err(_) if state.is_gone => return Ok(T::default()),
                Err(_) if state.first != first => {}
                outcome => return outcome,
            }
        }
    }

    /// The unit of an ordinal that lies in a file.
    pub(super) fn file_unit(&self, at: u64) -> Result<Option<BatchUnit>> {
        let file = self
            .disk
            .open(&self.file_path(self.base_of(at)), Open::Read)?;
        let mut bytes = [0; UNIT_LEN];
        read_exact_at(&file, &mut bytes, at % self.file_units * BATCH_UNIT_BYTES)?;
        Ok(BatchUnit::decode(&bytes))
    }
}

impl<D: Disk> Reader<'_, D> {
    /// The ordinal of the first unit that does not pass a test which all before it pass.
    fn first_not(&mut self, passes: impl Fn(&BatchUnit) -> bool) -> Result<u64> {
        let (mut low, mut high) = {
            let state = self.queue.lock();
            (state.first, state.len())
        };
        while low < high {
            let middle = low + (high - low) / 2;
            if self.unit(middle)?.is_some_and(|unit| passes(&unit)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    fn unit(&mut self, at: u64) -> Result<Option<BatchUnit>> {
        let bytes = self.bytes(at, 1)?;
        let (units, _rest) = bytes.as_chunks::<UNIT_LEN>();
        Ok(units.first().and_then(BatchUnit::decode))
    }

    /// Some of the next `count` units from an ordinal on: those in the same file, or in the tail;
    /// empty at the end only.
    fn bytes(&mut self, at: u64, count: u64) -> Result<Vec<u8>> {
        let in_files = {
            let state = self.queue.lock();
            if at >= state.written {
                let skipped = (at - state.written) as usize * UNIT_LEN;
                let rest = state.tail.get(skipped..).unwrap_or_default();
                let len = (count as usize).saturating_mul(UNIT_LEN).min(rest.len());
                return Ok(rest.get(..len).unwrap_or_default().to_vec());
            }
            state.written - at
        };
        let base = self.queue.base_of(at);
        let in_file = self.queue.file_units - (at - base);
        let count = count.min(in_files).min(in_file);
        let mut bytes = vec![0; count as usize * UNIT_LEN];
        if self.open.as_ref().is_none_or(|open| open.0 != base) {
            let file = self
                .queue
                .disk
                .open(&self.queue.file_path(base), Open::Read)?;
            self.open = Some((base, file));
        }
        let position = (at - base) * BATCH_UNIT_BYTES;
        match (&self.open, self.patience) {
            (Some((_, file)), Patience::Disk) => read_exact_at(file, &mut bytes, position)?,
            (Some((_, file)), Patience::None) => {
                let len = file.read_cached_at(&mut bytes, position)?;
                if len != Some(bytes.len()) {
                    self.is_cold = true;
                    bytes.clear();
                }
            }
            (None, _) => {}
        }
        Ok(bytes)
    }
}
