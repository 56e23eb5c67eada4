//! Reading a batch queue: memory tail and files are one. The names of the files give no queue
//! offsets, so everything is found by halving. No lock is held while the disk is read; what retention
//! took away meanwhile is looked for again.

use std::sync::Arc;

use super::queue::{Min, Queue};
use super::unit::BatchUnit;
use crate::disk::Disk;
use crate::error::Result;
use crate::queue_store::{NO_RECORD, ReadBy, Segments, Step, first_not};

/// A batch queue of a topic: a handle for readers.
pub struct BatchQueue<D: Disk> {
    queue: Arc<Queue>,
    segments: Arc<Segments<D, BatchUnit>>,
}

/// Reads units.
struct Reader<'a, D: Disk> {
    queue: &'a Queue,
    segments: &'a Segments<D, BatchUnit>,
    by: ReadBy,
    /// Units were asked for that would have to be waited for: what was read proves nothing.
    is_cold: bool,
    scratch: Vec<BatchUnit>,
}

impl<D: Disk> BatchQueue<D> {
    pub(super) fn new(queue: Arc<Queue>, segments: Arc<Segments<D, BatchUnit>>) -> Self {
        Self { queue, segments }
    }

    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &Arc<str> {
        self.queue.topic_name()
    }

    /// The number of the queue in its topic.
    #[must_use]
    pub fn queue_id(&self) -> i32 {
        self.queue.queue_id()
    }

    /// Its files.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.size_bytes() / self.segments.file_len_bytes()
    }

    /// Their lengths, sparse or not.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        let state = self.queue.lock();
        state.files_end - state.first_base
    }

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
            let state = self.queue.lock();
            if state.last_physical_end == NO_RECORD {
                return Ok((state.own.end, state.own.end));
            }
            (state.own.min, state.own.end)
        };
        if let Some(min) = known.filter(|min| min.physical_offset >= start) {
            return Ok((min.base, end));
        }
        let found = self.retried(ReadBy::AsItIs, |reader| {
            let at = reader.first_not(|unit| unit.physical_offset < start)?;
            reader.unit(at)
        })?;
        let mut state = self.queue.lock();
        let min = found.map_or(
            Min {
                base: state.own.end,
                physical_offset: u64::MAX,
            },
            |unit| Min {
                base: unit.base,
                physical_offset: unit.physical_offset,
            },
        );
        // A unit that came meanwhile is the first one where there was none.
        let is_passed = found.is_none() && state.own.end != end;
        if !is_passed && state.own.min == known {
            state.own.min = Some(min);
        }
        let base = if is_passed { end } else { min.base };
        Ok((base, state.own.end))
    }

    /// Adds up to `count_max` units to `out`, beginning with the one that holds a queue offset.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk.
    pub fn read(&self, from: u64, count_max: usize, out: &mut Vec<BatchUnit>) -> Result<()> {
        let units = self.read_by(ReadBy::AsItIs, from, count_max)?;
        out.extend(units.unwrap_or_default());
        Ok(())
    }

    /// As [`BatchQueue::read`], without waiting for the disk: `None` where it would have to.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn read_now(&self, from: u64, count_max: usize) -> Result<Option<Vec<BatchUnit>>> {
        self.read_by(ReadBy::Cache, from, count_max)
    }

    fn read_by(&self, by: ReadBy, from: u64, count_max: usize) -> Result<Option<Vec<BatchUnit>>> {
        self.retried(by, |reader| {
            let at = match self.first_in_tail(from) {
                Some(at) => at,
                None => reader.first_not(|unit| unit.end() <= from)?,
            };
            let mut units = Vec::new();
            reader.extend(at, count_max, &mut units)?;
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
        self.retried(ReadBy::AsItIs, |reader| {
            let (first, end) = {
                let state = self.queue.lock();
                (state.first(), state.end)
            };
            let after = reader.first_not(is_before)?;
            let at = if is_upper && after > first {
                after - 1
            } else {
                after
            };
            let at = at.min(end.saturating_sub(1));
            Ok(reader.unit(at)?.map_or(0, |unit| unit.base))
        })
    }

    /// The ordinal of the unit in the tail that holds a queue offset; `None` when it is in a file.
    fn first_in_tail(&self, from: u64) -> Option<u64> {
        let state = self.queue.lock();
        let unit = |at| state.tail_unit(at);
        if unit(state.written).is_none_or(|unit| unit.base > from) {
            return None;
        }
        let is_below = |at| Ok(unit(at).is_some_and(|unit| unit.end() <= from));
        first_not(state.written, state.end, is_below).ok()
    }

    /// Reads; again while retention removes files beneath it. Of a deleted queue nothing is read.
    fn retried<T: Default>(
        &self,
        by: ReadBy,
        read: impl Fn(&mut Reader<'_, D>) -> Result<T>,
    ) -> Result<T> {
        loop {
            let first_base = self.queue.lock().first_base;
            let mut reader = Reader {
                queue: &self.queue,
                segments: &self.segments,
                by,
                is_cold: false,
                scratch: Vec::new(),
            };
            let outcome = read(&mut reader);
            let state = self.queue.lock();
            match outcome {
                _ if state.is_gone => return Ok(T::default()),
                Err(_) if state.first_base != first_base => {}
                outcome => return outcome,
            }
        }
    }
}

impl<D: Disk> Reader<'_, D> {
    /// The ordinal of the first unit that does not pass a test which all before it pass.
    fn first_not(&mut self, passes: impl Fn(&BatchUnit) -> bool) -> Result<u64> {
        let (low, high) = {
            let state = self.queue.lock();
            (state.first(), state.end)
        };
        first_not(low, high, |at| {
            Ok(self.unit(at)?.is_some_and(|unit| passes(&unit)))
        })
    }

    fn unit(&mut self, at: u64) -> Result<Option<BatchUnit>> {
        let mut units = std::mem::take(&mut self.scratch);
        units.clear();
        self.extend(at, 1, &mut units)?;
        let unit = units.first().copied();
        self.scratch = units;
        Ok(unit)
    }

    /// Adds up to `count_max` units from an ordinal on.
    fn extend(&mut self, mut at: u64, count_max: usize, out: &mut Vec<BatchUnit>) -> Result<()> {
        let end = self.queue.lock().end;
        let to = end.min(at.saturating_add(count_max as u64));
        while at < to {
            match self.segments.read_step(self.queue, at, to, out, self.by)? {
                Step::On(next) => at = next,
                Step::Cold => {
                    self.is_cold = true;
                    break;
                }
                Step::End => break,
            }
        }
        Ok(())
    }
}
