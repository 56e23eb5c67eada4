//! The commit log as who appends sees it: its end and the next queue offsets, which the append lock
//! guards. Reads nothing back.
//!
//! Locks: the append lock comes before all that making space for a record may take: the commit of pool
//! buffers, the list of files, the prepared file.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::offsets::{QueueHasher, QueueOffsets};
use super::roll::{Rollover, Sink, Tail};
use crate::clock::Clock;
use crate::config::{FlushDiskType, StoreConfig};
use crate::disk::Disk;
use crate::lock::Mutex;
use crate::segment::LogFiles;

/// What the append lock guards.
pub(super) struct Guarded<D: Disk> {
    pub(super) tail: Tail<D>,
    pub(super) offsets: QueueOffsets,
}

/// Appends to a log.
pub struct CommitLog<D: Disk, C: Clock> {
    pub(super) files: Arc<LogFiles<D>>,
    pub(super) clock: C,
    pub(super) hasher: QueueHasher,
    pub(super) guarded: Mutex<Guarded<D>>,
    pub(super) held_since_ms: AtomicI64,
    pub(super) segment_wait: Duration,
    pub(super) busy_after_ms: AtomicI64,
    pub(super) roll: Rollover<D>,
    /// `flushCommitLogTimed=false`: an append may wake the asynchronous flush.
    pub(super) wakes_flush: bool,
    /// `enabledAppendPropCRC`: records carry a CRC of all their bytes as a property.
    pub(super) fills_crc: bool,
}

impl<D: Disk, C: Clock> CommitLog<D, C> {
    /// A log that goes on at the end of `files`, where recovery put it.
    #[must_use]
    pub fn new(files: Arc<LogFiles<D>>, clock: C, config: &StoreConfig) -> Self {
        let position = files.positions.appended.position();
        let last_store_ms = files.last_store_ms.load(Ordering::Acquire);
        let tail = Tail {
            segment: None,
            sink: Sink::None,
            position,
            last_store_ms,
            ring_at: position,
            claimed_to: position,
        };
        let guarded = Guarded {
            tail,
            offsets: QueueOffsets::default(),
        };
        Self {
            roll: Rollover::new(&files, config.transient_pool_fails_fast),
            files,
            clock,
            hasher: QueueHasher::default(),
            guarded: Mutex::new(guarded),
            held_since_ms: AtomicI64::new(0),
            segment_wait: Duration::from_millis(config.segment_wait_ms),
            busy_after_ms: AtomicI64::new(busy_after_ms(config)),
            fills_crc: config.append_property_crc,
            wakes_flush: !config.flush_is_timed && config.flush_disk_type == FlushDiskType::Async,
        }
    }

    /// From now on by these settings: from when on the append lock counts as held too long.
    pub fn change(&self, config: &StoreConfig) {
        self.busy_after_ms
            .store(busy_after_ms(config), Ordering::Relaxed);
    }

    /// The next queue offset of a queue that had an append since the store was opened.
    ///
    /// # Blocking
    /// For the append lock.
    #[must_use]
    pub fn next_queue_offset(&self, topic: &[u8], queue_id: i32) -> Option<u64> {
        let hash = self.hasher.hash(topic, queue_id);
        let mut guarded = self.guarded.lock();
        guarded.offsets.find(hash, topic, queue_id).copied()
    }

    /// Lets a queue go on at `next` at the least: the log holds a record of it that queues do not have yet.
    ///
    /// # Blocking
    /// For the append lock.
    pub fn raise_next(&self, topic: &[u8], queue_id: i32, next: u64) {
        let hash = self.hasher.hash(topic, queue_id);
        let mut guarded = self.guarded.lock();
        guarded.offsets.raise(hash, topic, queue_id, next);
    }

    /// Forgets the next queue offsets of all queues: what is known of them is of a time before another
    /// master's records came.
    ///
    /// # Blocking
    /// For the append lock.
    pub fn forget_queues(&self) {
        self.guarded.lock().offsets.clear();
    }

    /// Forgets the next queue offsets of a topic, after its queues were deleted.
    ///
    /// # Blocking
    /// For the append lock.
    pub fn forget_topic(&self, topic: &[u8]) {
        self.guarded.lock().offsets.forget(topic);
    }

    /// The files.
    #[must_use]
    pub fn files(&self) -> &Arc<LogFiles<D>> {
        &self.files
    }

    /// How long the append lock has been held, ms; 0 when it is free.
    #[must_use]
    pub fn lock_held_ms(&self) -> u64 {
        match self.held_since_ms.load(Ordering::Relaxed) {
            0 => 0,
            since => u64::try_from(self.clock.now_ms() - since).unwrap_or(0),
        }
    }
}

fn busy_after_ms(config: &StoreConfig) -> i64 {
    i64::try_from(config.page_cache_busy_ms).unwrap_or(i64::MAX)
}
