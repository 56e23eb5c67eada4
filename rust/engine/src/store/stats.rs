//! Numbers about the store, for reports: none of them is kept, all are looked up.

use super::Store;
use crate::clock::Clock;
use crate::disk::{Disk, Region};
use crate::segment::Pool;

/// One log file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentStat {
    /// First physical offset.
    pub base: u64,
    /// Length.
    pub len_bytes: u64,
    /// Whether it is mapped.
    pub is_mapped: bool,
    /// Whether it is locked in memory.
    pub is_locked: bool,
    /// Bytes of it in memory, when it is mapped.
    pub resident_bytes: u64,
    /// Bytes populated ahead.
    pub populated_bytes: u64,
}

/// One follower of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueStat {
    /// "queues" or "index".
    pub name: &'static str,
    /// Physical offset that it has reached.
    pub position: u64,
    /// Bytes that it is behind.
    pub lag_bytes: u64,
}

/// The store in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// First physical offset that is kept.
    pub log_start: u64,
    /// End of what was appended.
    pub appended: u64,
    /// End of what survives the process.
    pub committed: u64,
    /// End of what survives power loss.
    pub flushed: u64,
    /// End of what is readable through queues.
    pub dispatched: u64,
    /// Syncs of the log since the store was opened.
    pub syncs: u64,
    /// Records dispatched since the store was opened.
    pub records_dispatched: u64,
    /// Bytes mapped.
    pub mapped_bytes: u64,
    /// Bytes locked.
    pub locked_bytes: u64,
    /// Bytes of maps in memory.
    pub resident_bytes: u64,
    /// Log files ready ahead of need.
    pub segments_ready: usize,
    /// Bytes that the warm-up has populated.
    pub warmed_bytes: u64,
    /// Free and all pool buffers.
    pub pool_buffers: Option<(usize, usize)>,
    /// Parked acknowledgements.
    pub parked: usize,
    /// Queue bytes that are in memory only.
    pub queue_pending_bytes: u64,
    /// Queues known.
    pub queues: usize,
    /// Queues, of which units or files were made again from the log since the store was opened.
    pub queues_mended: u64,
    /// Those units.
    pub units_mended: u64,
    /// Queue offsets among them for which the log has no record.
    pub units_lost: u64,
    /// Damaged records that were found since the store was opened.
    pub records_damaged: u64,
    /// Rounds of the scrub that were finished.
    pub scrub_rounds: u64,
    /// How long the append lock is held, ms.
    pub lock_held_ms: u64,
    /// Why appends are refused, if they are.
    pub refused: Vec<String>,
    /// Why nothing is acknowledged any more, if that is so.
    pub poisoned: Option<String>,
    /// Followers of the log.
    pub followers: Vec<QueueStat>,
    /// Log files.
    pub segments: Vec<SegmentStat>,
}

impl Stats {
    /// The store in numbers, now.
    ///
    /// # Blocking
    /// Asks the kernel for the pages of every map.
    pub(super) fn of<D: Disk, C: Clock>(store: &Store<D, C>) -> Self {
        let (files, queues, batches) = (&store.files, &store.queues, &store.batches);
        let segments: Vec<SegmentStat> = files
            .chain
            .segments()
            .iter()
            .map(|segment| segment_stat(segment))
            .collect();
        let sum = |of: fn(&SegmentStat) -> u64| segments.iter().map(of).sum::<u64>();
        let followers = store.dispatcher.lags();
        let mended = queues.mender().mended();
        Self {
            log_start: files.chain.start(),
            appended: files.positions.appended.position(),
            committed: files.in_page_cache(),
            flushed: files.positions.flushed.position(),
            dispatched: files.positions.dispatched.position(),
            syncs: store.syncer.syncs(),
            records_dispatched: store.dispatcher.records(),
            mapped_bytes: sum(|s| if s.is_mapped { s.len_bytes } else { 0 }),
            locked_bytes: sum(|s| if s.is_locked { s.len_bytes } else { 0 }),
            resident_bytes: sum(|s| s.resident_bytes),
            segments_ready: usize::from(files.preparer.peek().is_some()),
            warmed_bytes: files.window.warmed_bytes(),
            pool_buffers: files.pool.as_ref().map(Pool::free_of),
            parked: store.durability.parked(),
            queue_pending_bytes: queues.pending_bytes() + batches.pending_bytes(),
            queues: queues.len() + batches.queue_count(),
            queues_mended: mended.queues,
            units_mended: mended.units,
            units_lost: mended.lost,
            records_damaged: store.damaged.records().1,
            scrub_rounds: store.scrub.rounds(),
            lock_held_ms: store.log.lock_held_ms(),
            refused: store
                .refusals
                .reasons()
                .into_iter()
                .map(|(_, reason)| reason)
                .collect(),
            poisoned: files.poison.reason().map(str::to_owned),
            followers: followers
                .into_iter()
                .map(|(name, position, lag_bytes)| QueueStat {
                    name,
                    position,
                    lag_bytes,
                })
                .collect(),
            segments,
        }
    }
}

fn segment_stat<D: Disk>(segment: &crate::segment::Segment<D>) -> SegmentStat {
    let region = segment.region();
    let len_bytes = segment.end() - segment.base();
    let pages = region
        .as_ref()
        .map_or(0, |region| region.resident_pages(0, len_bytes));
    SegmentStat {
        base: segment.base(),
        len_bytes,
        is_mapped: region.is_some(),
        is_locked: segment.is_locked(),
        resident_bytes: pages * crate::units::PAGE_BYTES,
        populated_bytes: segment.populated(),
    }
}
