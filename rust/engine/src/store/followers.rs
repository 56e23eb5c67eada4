//! What follows the log: the queues and the index, behind the dispatcher's trait, with the rules of
//! what goes where (`CommitLogDispatcherBuildConsumeQueue`, `CommitLogDispatcherBuildIndex`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mqcore_record::{RecordView, Transaction, inner_offsets, tags_code};

use super::bits::LiveBits;
use super::delay_levels::LiveLevels;
use super::event_loops::EventLoops;
use crate::batch_queue::{BatchTable, BatchUnit};
use crate::clock::Clock;
use crate::consume_queue::{Coming, QueueTable, Unit};
use crate::disk::Disk;
use crate::dispatch::{Dispatch, Request};
use crate::error::Result;
use crate::key_index::{KeyIndex, Keyed};

/// The topic of delayed messages: its queue units hold the time of delivery in place of the tags.
const SCHEDULE_TOPIC: &[u8] = b"SCHEDULE_TOPIC_XXXX";
/// How long queue units stay in memory only while writing them costs little.
pub(super) const WRITE_INTERVAL_MS: u64 = 100;
/// The longest time that they do: what a kill makes recovery feed again.
const WRITE_INTERVAL_MAX_MS: u64 = 2_000;
/// Writing may take a tenth of the time: a run per queue is dear where queues are many.
const WRITE_COST_FACTOR: u64 = 10;

/// Whether a record is in a queue at all.
pub(super) fn is_queued(record: &RecordView<'_>) -> bool {
    record.transaction().has_queue_offset()
}

/// Feeds the queues.
pub(super) struct QueueFollower<D: Disk, C: Clock> {
    pub(super) queues: Arc<QueueTable<D>>,
    pub(super) levels: LiveLevels,
    /// Where records of the topics go that have batch queues: a plain queue beside them would keep
    /// the official broker from starting (`ConsumeQueueStore.queueTypeShouldBe`).
    pub(super) batches: Arc<BatchTable<D>>,
    pub(super) clock: C,
    /// When tails are written at the latest, ms.
    pub(super) write_at_ms: AtomicU64,
    /// Makes the bits of records whose queue units get an extension.
    pub(super) bits: LiveBits,
    /// Get each record that has got its queue offset.
    pub(super) loops: Arc<EventLoops>,
}

impl<D: Disk, C: Clock> Dispatch for QueueFollower<D, C> {
    fn name(&self) -> &'static str {
        "queues"
    }

    fn needs_log_order(&self) -> bool {
        false
    }

    fn dispatch(&self, request: &Request<'_>) -> Result<()> {
        let record = request.record;
        if !is_queued(record) {
            return Ok(());
        }
        if self.batches.has_topic(record.topic) {
            return self.dispatch_batch(request);
        }
        let unit = unit_of(request, &self.levels);
        let code = unit.tags_code;
        let queue_offset = record.queue_offset.cast_unsigned();
        let mut coming = Coming {
            queue_offset,
            unit,
            store_timestamp_ms: record.store_timestamp_ms,
            extended: None,
        };
        let (topic, queue_id) = (record.topic, record.queue_id);
        let mut bits = Vec::new();
        if self.queues.writes_extensions() {
            self.bits.of(topic, record.properties, &mut bits);
            coming.extended = Some(&bits);
        }
        self.queues.add(topic, queue_id, &coming)?;
        self.loops.note(topic, queue_id, queue_offset + 1, code);
        Ok(())
    }

    fn end_round(&self, _is_last: bool) -> Result<()> {
        if self.queues.pending_bytes() + self.batches.pending_bytes() == 0 {
            return Ok(());
        }
        let now_ms = self.clock.elapsed_ms();
        let is_old = now_ms >= self.write_at_ms.load(Ordering::Relaxed);
        if !is_old && !self.queues.is_write_due() && !self.batches.is_write_due() {
            return Ok(());
        }
        let batches = self.batches.write_pending();
        let outcome = self.queues.write_pending();
        let done_ms = self.clock.elapsed_ms();
        let pause_ms = ((done_ms - now_ms) * WRITE_COST_FACTOR)
            .clamp(WRITE_INTERVAL_MS, WRITE_INTERVAL_MAX_MS);
        self.write_at_ms
            .store(done_ms + pause_ms, Ordering::Relaxed);
        batches.and(outcome.map(|_bytes| ()))
    }
}

impl<D: Disk, C: Clock> QueueFollower<D, C> {
    fn dispatch_batch(&self, request: &Request<'_>) -> Result<()> {
        let (topic, queue_id) = (request.record.topic, request.record.queue_id);
        let unit = batch_unit(request);
        self.batches.append(topic, queue_id, &unit)?;
        self.loops.note(topic, queue_id, unit.end(), unit.tags_code);
        Ok(())
    }
}

/// The unit of a record in a plain queue.
#[inline]
pub(super) fn unit_of(request: &Request<'_>, levels: &LiveLevels) -> Unit {
    let record = request.record;
    let due = match request.wanted.delay {
        Some(level) if record.topic == SCHEDULE_TOPIC => {
            levels.due_ms(level, record.store_timestamp_ms)
        }
        _ => None,
    };
    Unit {
        physical_offset: request.physical_offset.cast_signed(),
        size_bytes: i32::try_from(record.total_len_bytes).unwrap_or(i32::MAX),
        tags_code: due.unwrap_or_else(|| request.wanted.tags.map_or(0, tags_code)),
    }
}

/// The unit of a record in a batch queue: one for all messages in it.
pub(super) fn batch_unit(request: &Request<'_>) -> BatchUnit {
    let record = request.record;
    let queue_offset = record.queue_offset.cast_unsigned();
    let (base, count) = inner_offsets::base_and_count(&request.wanted, queue_offset);
    BatchUnit {
        physical_offset: request.physical_offset,
        size_bytes: u32::try_from(record.total_len_bytes).unwrap_or(u32::MAX),
        tags_code: request.wanted.tags.map_or(0, tags_code),
        store_timestamp_ms: record.store_timestamp_ms,
        base,
        count,
    }
}

/// Feeds the key index.
pub(super) struct IndexFollower<D: Disk, C: Clock> {
    pub(super) index: Arc<KeyIndex<D, C>>,
    /// Whether tags get entries too, as 5.5 has it (`index_tags`).
    pub(super) indexes_tags: bool,
}

impl<D: Disk, C: Clock> Dispatch for IndexFollower<D, C> {
    fn name(&self) -> &'static str {
        "index"
    }

    fn needs_log_order(&self) -> bool {
        true
    }

    fn dispatch(&self, request: &Request<'_>) -> Result<()> {
        let record = request.record;
        self.index
            .writer()
            .put_message(&Keyed {
                topic: record.topic,
                unique_key: request.wanted.uniq_key,
                keys: request.wanted.keys,
                tags: request.wanted.tags.filter(|_tags| self.indexes_tags),
                physical_offset: request.physical_offset,
                store_timestamp_ms: record.store_timestamp_ms,
                is_rollback: record.transaction() == Transaction::Rollback,
            })
            .map(|_put| ())
    }

    fn end_round(&self, _is_last: bool) -> Result<()> {
        Ok(())
    }
}
