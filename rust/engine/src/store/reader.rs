//! Reading records: by queue offset and by physical offset (`DefaultMessageStore.getMessage`), and whether
//! that would wait for the disk.

use std::ops::ControlFlow;
use std::sync::Arc;

use mqcore_record::CrcCheck;

use super::ask::{no_queue, outside};
use super::collect::{Collecting, LiveLimits};
use super::damaged_records::DamagedRecords;
use super::lookup::Lookup;
use super::topics::{Topics, plain};
use super::{Ask, DamagedRecord, FilterDecision, Got, MessageFilter};
use crate::batch_queue::{BatchQueue, BatchUnit};
use crate::clock::Clock;
use crate::commit_log::{LogBatches, LogRecords, RecordBytes};
use crate::config::{QUEUE_UNIT_BYTES, StoreConfig};
use crate::consume_queue::{Bounds, QueueTable, ReadBy, Unit};
use crate::disk::Disk;
use crate::error::Result;
use crate::segment::LogFiles;

/// Gives every record.
struct GiveAll;

impl MessageFilter for GiveAll {
    const LOOKS: bool = false;

    fn decide(&mut self, _record: &[u8]) -> FilterDecision {
        FilterDecision::Give
    }
}

/// Reads queues and the records that their units name.
pub struct Reader<D: Disk, C: Clock> {
    pub(super) files: Arc<LogFiles<D>>,
    pub(super) records: Arc<LogRecords<D>>,
    pub(super) topics: Arc<Topics<D, C>>,
    pub(super) queues: Arc<QueueTable<D>>,
    damaged: Arc<DamagedRecords>,
    limits: LiveLimits,
    /// Units that a read looks at where the reader does not want all.
    scan_units_max: usize,
    /// `checkCrcOnColdRead`.
    checks_crc: bool,
}

impl<D: Disk, C: Clock> Reader<D, C> {
    pub(super) fn new(
        (files, records): (&Arc<LogFiles<D>>, &Arc<LogRecords<D>>),
        topics: &Arc<Topics<D, C>>,
        queues: &Arc<QueueTable<D>>,
        damaged: &Arc<DamagedRecords>,
        (config, memory_bytes): (&StoreConfig, u64),
    ) -> Self {
        records.read_ahead(config.reads_ahead);
        Self {
            files: Arc::clone(files),
            records: Arc::clone(records),
            topics: Arc::clone(topics),
            queues: Arc::clone(queues),
            damaged: Arc::clone(damaged),
            limits: LiveLimits::new(config, memory_bytes),
            scan_units_max: (config.filter_scan_max_bytes / QUEUE_UNIT_BYTES) as usize,
            checks_crc: config.check_crc_on_cold_read,
        }
    }

    /// From now on by these settings: how much one read gives, and whether cold readers are read
    /// ahead for.
    pub(super) fn change(&self, config: &StoreConfig) {
        self.limits.change(config);
        self.records.read_ahead(config.reads_ahead);
    }

    /// Messages that one read gives at the most, unless it is for bulk.
    #[must_use]
    pub fn count_max(&self) -> usize {
        self.limits.now().count_max()
    }

    /// Reads records of a queue from an offset on, under the official limits.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Below the hot window: for the disk.
    pub fn get(&self, topic: &[u8], queue_id: i32, ask: Ask<'_>) -> Result<Got<D>> {
        self.select(topic, queue_id, ask, &mut GiveAll)
    }

    /// As [`Reader::get`], of the records that a message filter gives.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Below the hot window: for the disk.
    pub fn select<J: MessageFilter>(
        &self,
        topic: &[u8],
        queue_id: i32,
        ask: Ask<'_>,
        filter: &mut J,
    ) -> Result<Got<D>> {
        if self.topics.has_batch_queues(topic) {
            return match self.topics.batch_queue(topic, queue_id) {
                Some(queue) => self.select_batches(&queue, ask, filter),
                None => Ok(no_queue()),
            };
        }
        let units_max = self.scan_units_max.max(ask.count_max);
        let mut units = Vec::with_capacity(ask.count_max.min(units_max));
        let wanted = if ask.tags_codes.is_empty() && !J::LOOKS {
            ask.count_max
        } else {
            units_max
        };
        let queue = (topic, queue_id);
        let bounds = match self.read_units(queue, ask.from, wanted, &mut units)? {
            ControlFlow::Continue(bounds) => bounds,
            ControlFlow::Break(nothing) => return Ok(nothing),
        };
        let each = units.iter().enumerate();
        let each = each.map(|(at, unit)| (*unit, ask.from + at as u64 + 1));
        let extensions = self.queues.extensions(topic, queue_id);
        let mut bad = None;
        let asked = (ask, bounds, Some(topic));
        let got = self
            .collecting()
            .collect(asked, each, Some(extensions), filter, &mut bad)?;
        let Some((queue_offset, unit)) = bad else {
            return Ok(got);
        };
        // A unit that names no record: it is wrong, or the record is damaged. Never met again after
        // one of both was dealt with.
        if !self
            .queues
            .mender()
            .mend_unit(topic, queue_id, queue_offset)?
        {
            self.damaged.note(DamagedRecord {
                physical_offset: unit.physical_offset.cast_unsigned(),
                topic: String::from_utf8_lossy(topic).into_owned(),
                queue_id,
                queue_offset: queue_offset.cast_signed(),
                why: "no record starts there".to_owned(),
            });
        }
        if got.records.is_empty() {
            let ask = Ask {
                from: got.next_offset,
                ..ask
            };
            return self.select(topic, queue_id, ask, filter);
        }
        Ok(got)
    }

    fn select_batches<J: MessageFilter>(
        &self,
        queue: &BatchQueue<D>,
        ask: Ask<'_>,
        filter: &mut J,
    ) -> Result<Got<D>> {
        let bounds = self.topics.batch_bounds(queue)?;
        let mut units = Vec::new();
        // Each unit is a message at the least.
        queue.read(ask.from, ask.count_max, &mut units)?;
        if let Some(outside) = outside(ask.from, bounds, units.is_empty()) {
            return Ok(outside);
        }
        let each = units.iter().map(|unit| (plain(unit), unit.end()));
        let asked = (ask, bounds, None);
        self.collecting()
            .collect(asked, each, None, filter, &mut None)
    }

    /// Reads units of a plain queue from an offset on; the whole answer where there is nothing by the
    /// offset alone.
    pub(super) fn read_units(
        &self,
        (topic, queue_id): (&[u8], i32),
        from: u64,
        count_max: usize,
        units: &mut Vec<Unit>,
    ) -> Result<ControlFlow<Got<D>, Bounds>> {
        let read = self.queues.read(topic, queue_id, from, count_max, units)?;
        let Some(bounds) = read.bounds else {
            return Ok(ControlFlow::Break(no_queue()));
        };
        Ok(match outside(from, bounds, units.is_empty()) {
            Some(nothing) => ControlFlow::Break(nothing),
            None => ControlFlow::Continue(bounds),
        })
    }

    fn collecting(&self) -> Collecting<'_, D> {
        Collecting {
            lookup: Lookup {
                reader: self.records.reader(),
                files: &self.files,
                damaged: &self.damaged,
                checks_crc: self.checks_crc,
            },
            limits: self.limits.now(),
            end: self.files.readable(),
        }
    }

    /// The record that starts at a physical offset.
    ///
    /// # Errors
    /// [`Error::NoRecord`](crate::error::Error::NoRecord), [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Below the hot window: for the disk.
    pub fn record_at(&self, physical_offset: u64) -> Result<RecordBytes<D>> {
        self.records.record_at(physical_offset)
    }

    /// A record whose offset and length are known, without waiting for a disk: `None` when it would
    /// have to.
    ///
    /// # Errors
    /// [`Error::NoRecord`](crate::error::Error::NoRecord), [`crate::error::Error::Io`].
    pub fn record_now(&self, physical_offset: u64, len: usize) -> Result<Option<RecordBytes<D>>> {
        self.records.record_now(physical_offset, len)
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
        let physical_offset = if self.topics.has_batch_queues(topic) {
            self.topics
                .batch_physical_offset(topic, queue_id, queue_offset)?
        } else {
            let mut units = Vec::with_capacity(1);
            let wanted = (1, &mut units);
            self.queues
                .read_by(topic, queue_id, queue_offset, wanted, ReadBy::AsItIs)?;
            let unit = units.first();
            unit.map(|unit| unit.physical_offset.cast_unsigned())
        };
        let Some(physical_offset) = physical_offset else {
            return Ok(false);
        };
        let behind = self.files.readable().saturating_sub(physical_offset);
        Ok(behind > self.limits.now().near_bytes)
    }

    /// Whether up to `count` records from a queue offset on can be read from memory alone: their
    /// units are cached, and the first record (so all after it too) lies in the mapped end of the
    /// log. Also true where there is nothing to read.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn is_hot(&self, topic: &[u8], queue_id: i32, from: u64, count: usize) -> Result<bool> {
        if let Some(queue) = self.topics.batch_queue(topic, queue_id) {
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

    /// Whether a physical offset lies in the mapped end of the log.
    fn is_mapped(&self, physical_offset: u64) -> bool {
        let segment = self.files.chain.find(physical_offset);
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
