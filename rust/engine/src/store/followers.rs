//! What follows the log: the queues and the index, behind the dispatcher's trait, with the rules of
//! what goes where (`CommitLogDispatcherBuildConsumeQueue`, `CommitLogDispatcherBuildIndex`).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mqcore_record::{Transaction, tags_code};

use super::bits::LiveBits;
use crate::arrivals::Arrivals;
use crate::clock::Clock;
use crate::consume_queue::{Coming, QueueTable, Unit};
use crate::disk::Disk;
use crate::dispatch::{Dispatch, Request};
use crate::error::{Error, Result};
use crate::key_index::{KeyIndex, Keyed};
use crate::lock::{RwLock, RwLockReadGuard};

/// The topic of delayed messages: its queue units hold the time of delivery in place of the tags.
const SCHEDULE_TOPIC: &[u8] = b"SCHEDULE_TOPIC_XXXX";
/// How long queue units stay in memory only while writing them costs little.
pub(super) const WRITE_INTERVAL_MS: u64 = 100;
/// The longest time that they do: what a kill makes recovery feed again.
const WRITE_INTERVAL_MAX_MS: u64 = 2_000;
/// Writing may take a tenth of the time: a run per queue is dear where queues are many.
const WRITE_COST_FACTOR: u64 = 10;
/// The batch queues of 5.x.
pub(super) const BATCH_QUEUE_DIR: &str = "batchconsumequeue";
/// What an unknown delay level waits (`ScheduleMessageService.computeDeliverTimestamp`).
const UNKNOWN_LEVEL_MS: i64 = 1_000;

/// The delays of the levels, ms, from `messageDelayLevel`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DelayLevels(Vec<i64>);

impl DelayLevels {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let refused = |level: &str| Error::Config {
            key: "messageDelayLevel".to_owned(),
            value: text.to_owned(),
            why: format!(
                "{level:?} is no time: a number with s, m, h or d, levels split by spaces"
            ),
        };
        let mut levels = Vec::new();
        for level in text.split_whitespace() {
            let (number, unit) =
                level.split_at(level.len() - level.chars().last().map_or(0, char::len_utf8));
            let unit_ms: i64 = match unit {
                "s" => 1_000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                _ => return Err(refused(level)),
            };
            let number: i64 = number.parse().map_err(|_| refused(level))?;
            levels.push(number.checked_mul(unit_ms).ok_or_else(|| refused(level))?);
        }
        Ok(Self(levels))
    }

    /// How many levels there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// When a record of the schedule topic is due; `None` when it has no level.
    pub(super) fn due_ms(&self, level: &[u8], store_timestamp_ms: i64) -> Option<i64> {
        let level: usize = std::str::from_utf8(level).ok()?.trim().parse().ok()?;
        Some(store_timestamp_ms + self.delay_ms(level)?)
    }

    /// How long a level waits; one above the last waits as long as that, and level 0 is none.
    pub(super) fn delay_ms(&self, level: usize) -> Option<i64> {
        let place = level.min(self.0.len()).saturating_sub(1);
        let delay = self.0.get(place).copied().unwrap_or(UNKNOWN_LEVEL_MS);
        (level > 0).then_some(delay)
    }
}

/// The levels as they are now: an administrator may change them while messages are stored.
#[derive(Debug, Clone)]
pub(super) struct LiveLevels(Arc<RwLock<DelayLevels>>);

impl LiveLevels {
    pub(super) fn new(levels: DelayLevels) -> Self {
        Self(Arc::new(RwLock::new(levels)))
    }

    pub(super) fn now(&self) -> RwLockReadGuard<'_, DelayLevels> {
        self.0.read()
    }

    pub(super) fn replace(&self, levels: DelayLevels) {
        *self.0.write() = levels;
    }
}

/// Topics that have batch queues (5.x): not ours to feed, and a plain queue beside them would keep
/// the official broker from starting (`ConsumeQueueStore.queueTypeShouldBe`).
pub(super) fn batch_topics<D: Disk>(disk: &D, root: &Path) -> Result<Vec<String>> {
    let entries = disk.list(&root.join(BATCH_QUEUE_DIR))?;
    Ok(entries
        .into_iter()
        .filter(|entry| entry.is_dir)
        .map(|entry| entry.name)
        .collect())
}

/// Feeds the queues.
pub(super) struct QueueFollower<D: Disk, C: Clock> {
    pub(super) queues: Arc<QueueTable<D>>,
    pub(super) levels: LiveLevels,
    /// Topics whose queues are batch queues: see [`batch_topics`].
    pub(super) batch_topics: Vec<String>,
    pub(super) clock: C,
    /// When tails are written at the latest, ms.
    pub(super) write_at_ms: AtomicU64,
    /// Makes the bits of records whose queue units get an extension.
    pub(super) bits: LiveBits,
    /// Told of each record that has got its place in its queue.
    pub(super) arrivals: Arc<Arrivals>,
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
        if !matches!(
            record.transaction(),
            Transaction::None | Transaction::Commit
        ) {
            return Ok(());
        }
        if self
            .batch_topics
            .iter()
            .any(|topic| topic.as_bytes() == record.topic)
        {
            return Ok(());
        }
        let due = match request.wanted.delay {
            Some(level) if record.topic == SCHEDULE_TOPIC => {
                self.levels.now().due_ms(level, record.store_timestamp_ms)
            }
            _ => None,
        };
        let code = due.unwrap_or_else(|| request.wanted.tags.map_or(0, tags_code));
        let unit = Unit {
            physical_offset: request.physical_offset.cast_signed(),
            size_bytes: i32::try_from(record.total_len_bytes).unwrap_or(i32::MAX),
            tags_code: code,
        };
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
        self.arrivals.note(topic, queue_id, queue_offset + 1, code);
        Ok(())
    }

    fn end_round(&self, _is_last: bool) -> Result<()> {
        if self.queues.pending_bytes() == 0 {
            return Ok(());
        }
        let now_ms = self.clock.elapsed_ms();
        let is_old = now_ms >= self.write_at_ms.load(Ordering::Relaxed);
        if !is_old && !self.queues.is_write_due() {
            return Ok(());
        }
        let outcome = self.queues.write_pending();
        let done_ms = self.clock.elapsed_ms();
        let pause_ms = ((done_ms - now_ms) * WRITE_COST_FACTOR)
            .clamp(WRITE_INTERVAL_MS, WRITE_INTERVAL_MAX_MS);
        self.write_at_ms
            .store(done_ms + pause_ms, Ordering::Relaxed);
        outcome.map(|_bytes| ())
    }
}

/// Feeds the key index.
pub(super) struct IndexFollower<D: Disk, C: Clock> {
    pub(super) index: Arc<KeyIndex<D, C>>,
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
            .put_message(&Keyed {
                topic: record.topic,
                unique_key: request.wanted.uniq_key,
                keys: request.wanted.keys,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_as_the_official_settings_write_them() {
        let levels = DelayLevels::parse("1s 5s 1m 2h").unwrap();
        assert_eq!(levels.due_ms(b"1", 10), Some(1_010));
        assert_eq!(levels.due_ms(b"4", 0), Some(7_200_000));
        assert_eq!(
            levels.due_ms(b"99", 0),
            Some(7_200_000),
            "clipped to the last level"
        );
        assert_eq!(levels.due_ms(b"0", 0), None);
        assert_eq!(levels.due_ms(b"-1", 0), None);
        assert!(DelayLevels::parse("1s 5x").is_err());
        assert!(DelayLevels::parse("1s s").is_err());
    }
}
