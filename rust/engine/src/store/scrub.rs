//! The scrub: a slow walk over the log from the oldest record on, round after round, that checks each
//! record by its CRC and each record's unit in its queue. Changes nothing of the log.
//!
//! Locks: the position of the walk is held over a step, for one step at a time; the list of damaged records
//! and the locks of queues come behind it.

use std::collections::HashMap;
use std::sync::Arc;

use mqcore_record::{CrcCheck, Found, RecordView, head};

use super::damaged_records::DamagedRecords;
use super::followers::is_queued;
use crate::batch_queue::BatchTable;
use crate::clock::Clock;
use crate::commit_log::{Scan, Stop, scan, whole_record_after};
use crate::config::StoreConfig;
use crate::consume_queue::{QueueTable, ReadBy, Unit};
use crate::disk::Disk;
use crate::error::Result;
use crate::lock::Mutex;
use crate::segment::LogFiles;

/// Bytes that one step looks at, and some more up to the end of a record.
pub(super) const STEP_BYTES: u64 = 1 << 20;
/// Units of a queue that are read together.
const UNITS_TOGETHER: usize = 256;
/// Queues whose units are kept within one step.
const QUEUES_TOGETHER: usize = 1_024;
const HOUR_MS: u64 = 3_600_000;

/// Walks over the log and compares records with their CRC and with their queues.
pub struct Scrub<D: Disk, C: Clock> {
    files: Arc<LogFiles<D>>,
    queues: Arc<QueueTable<D>>,
    batches: Arc<BatchTable<D>>,
    damaged: Arc<DamagedRecords>,
    clock: C,
    has_property_crc: bool,
    body_len_max: usize,
    interval_ms: u64,
    walk: Mutex<Walk>,
}

#[derive(Debug, Default)]
struct Walk {
    at: u64,
    /// When the next round may begin, ms of the process.
    next_round_ms: u64,
    rounds: u64,
}

/// Units of one queue, read ahead.
struct Ahead {
    from: u64,
    units: Vec<Unit>,
}

type AheadOf = HashMap<(Vec<u8>, i32), Ahead>;

impl<D: Disk, C: Clock> Scrub<D, C> {
    pub(super) fn new(
        files: &Arc<LogFiles<D>>,
        (queues, batches): (&Arc<QueueTable<D>>, &Arc<BatchTable<D>>),
        damaged: &Arc<DamagedRecords>,
        clock: &C,
        config: &StoreConfig,
    ) -> Self {
        Self {
            files: Arc::clone(files),
            queues: Arc::clone(queues),
            batches: Arc::clone(batches),
            damaged: Arc::clone(damaged),
            clock: clock.clone(),
            has_property_crc: config.verify_property_crc,
            body_len_max: config.max_message_bytes as usize,
            interval_ms: config.scrub_interval_hours * HOUR_MS,
            walk: Mutex::default(),
        }
    }

    /// Rounds of the scrub that were finished since the store was opened.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.walk.lock().rounds
    }

    /// Looks at the next part of the log; false when the round is done, or the next one is not due.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads a mebibyte; where a queue's units are damaged, the log between the good ones.
    pub fn step(&self) -> Result<bool> {
        let now_ms = self.clock.elapsed_ms();
        let mut walk = self.walk.lock();
        if now_ms < walk.next_round_ms {
            return Ok(false);
        }
        let chain = &self.files.chain;
        let positions = &self.files.positions;
        let limit = positions
            .dispatched
            .position()
            .min(positions.flushed.position());
        let from = walk.at.max(chain.start());
        walk.at = if from < limit {
            self.part(from, limit)?
        } else {
            from
        };
        if walk.at < limit {
            return Ok(true);
        }
        (walk.at, walk.rounds) = (0, walk.rounds + 1);
        walk.next_round_ms = now_ms + self.interval_ms;
        Ok(false)
    }

    /// Gives where the next part begins.
    fn part(&self, from: u64, limit: u64) -> Result<u64> {
        let chain = &self.files.chain;
        // With the CRC of the whole record the one of the body need not be looked at (5.3's rule).
        let crc = if self.has_property_crc {
            CrcCheck::Skip
        } else {
            CrcCheck::Verify
        };
        let part = Scan {
            from,
            limit,
            crc,
            is_recovery: true,
            torn_from: u64::MAX,
            has_property_crc: self.has_property_crc,
            forgets: true,
        };
        let mut ahead = AheadOf::new();
        let end = scan(chain, part, |record, physical_offset| {
            self.compare_unit(record, physical_offset, &mut ahead)?;
            Ok(physical_offset + record.total_len_bytes as u64 - from < STEP_BYTES)
        })?;
        if chain
            .find(from)
            .is_some_and(|segment| segment.region().is_none())
        {
            chain.forget(from, end.end);
        }
        let why = match end.stop {
            Stop::End => return Ok(limit),
            Stop::Visitor => return Ok(end.end),
            ref stop => stop.why().unwrap_or_else(|| "zeros".to_owned()),
        };
        self.pass_damaged(end.end, why)
    }

    /// Notes a damaged record; gives where the next whole one is.
    fn pass_damaged(&self, physical_offset: u64, why: String) -> Result<u64> {
        let chain = &self.files.chain;
        let Some(segment) = chain.find(physical_offset) else {
            return Ok(physical_offset);
        };
        let len_max = self.body_len_max + (1 << 17);
        let chunk = chain.chunk(physical_offset, segment.end(), len_max)?;
        let bytes = chunk
            .as_ref()
            .map_or(&[][..], |chunk| chunk.bytes.as_bytes());
        self.damaged.note_at(physical_offset, bytes, why);
        // Its length may be good though its body is not.
        if let Ok(Found::Record(record)) = head(bytes)
            && record.physical_offset.cast_unsigned() == physical_offset
        {
            return Ok(physical_offset + record.total_len_bytes as u64);
        }
        let next = whole_record_after(chain, physical_offset, 1, i64::MAX)?;
        Ok(next.unwrap_or_else(|| segment.end()))
    }

    /// Compares the unit of a record with its offset; what cannot be right is made again.
    fn compare_unit(
        &self,
        record: &RecordView<'_>,
        physical_offset: u64,
        ahead: &mut AheadOf,
    ) -> Result<()> {
        if !is_queued(record) || self.batches.has_topic(record.topic) {
            return Ok(());
        }
        let offset = record.queue_offset.cast_unsigned();
        if ahead.len() > QUEUES_TOGETHER {
            ahead.clear();
        }
        let queue = ahead
            .entry((record.topic.to_vec(), record.queue_id))
            .or_insert(Ahead {
                from: u64::MAX,
                units: Vec::new(),
            });
        let at = |queue: &Ahead| {
            let at = usize::try_from(offset.checked_sub(queue.from)?).ok()?;
            queue.units.get(at).copied()
        };
        let mut unit = at(queue);
        if unit.is_none() {
            queue.units.clear();
            queue.from = offset;
            let (topic, queue_id) = (record.topic, record.queue_id);
            let wanted = (UNITS_TOGETHER, &mut queue.units);
            let read = self
                .queues
                .read_by(topic, queue_id, offset, wanted, ReadBy::AsItIs)?;
            let is_inside = read
                .bounds
                .is_some_and(|bounds| (bounds.min..bounds.max).contains(&offset));
            if !is_inside {
                return Ok(());
            }
            unit = at(queue);
        }
        // A later record may have the offset, where the topic was deleted and made anew.
        let is_right =
            unit.is_some_and(|unit| unit.physical_offset >= physical_offset.cast_signed());
        if !is_right {
            self.queues
                .mender()
                .mend_unit(record.topic, record.queue_id, offset)?;
            queue.units.clear();
        }
        Ok(())
    }
}
