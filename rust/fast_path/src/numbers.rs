//! What a fast path has done and what waits in it, as names and numbers for reports.

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;

use crate::fast_path::FastPath;

/// Those of one loop.
#[must_use]
pub fn of_loop<D: Disk, C: Clock>(path: &FastPath<D, C>) -> Vec<(&'static str, u64)> {
    let (connections, processors) = (&path.connections, &path.processors);
    let mut pairs = connections.stats.pairs();
    pairs.extend([
        ("connections", connections.len() as u64),
        ("held", processors.pull.holds.len() as u64),
        ("pops_held", processors.pops.held() as u64),
        ("parked", processors.delivery.parked() as u64),
        ("deferred", path.deferred.len() as u64),
        ("throttled", path.throttled.len() as u64),
        ("filtered_waiting", processors.pull.filtered() as u64),
        ("queued_bytes", connections.queued_bytes() as u64),
        ("pinned_bytes", connections.pinned_bytes() as u64),
        ("half_frames_bytes", connections.half_frames_bytes as u64),
    ]);
    pairs
}

/// Those of what all loops share.
#[must_use]
pub fn of_all_loops<D: Disk, C: Clock>(path: &FastPath<D, C>) -> Vec<(&'static str, u64)> {
    let processors = &path.processors;
    let mut pairs = vec![
        ("ends_remembered", path.shared.ends.remembered() as u64),
        ("ends_to_note", processors.transactions.waiting() as u64),
        ("offset_changes", path.shared.offsets.changes()),
    ];
    pairs.extend(path.shared.repeats.numbers(path.store.wall_ms()));
    pairs.extend(processors.pops.shared_numbers());
    pairs
}

/// All of them, where there is one loop.
#[must_use]
pub fn of<D: Disk, C: Clock>(path: &FastPath<D, C>) -> Vec<(&'static str, u64)> {
    let mut pairs = of_loop(path);
    pairs.extend(of_all_loops(path));
    pairs
}
