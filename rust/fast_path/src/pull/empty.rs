//! Answers to pulls that need no read: an offset that was set, one below zero.

use mqcore_engine::clock::Clock;
use mqcore_engine::consume_queue::Bounds;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_engine::store::{GetStatus, Got, Store};

use crate::holds::Pull;

/// What a pull is answered whose queue was set to another offset.
pub(super) fn got_reset<D: Disk, C: Clock>(
    store: &Store<D, C>,
    topic: &str,
    queue_id: i32,
    offset: i64,
) -> Result<Got<D>> {
    let bounds = store.topics().bounds(topic.as_bytes(), queue_id)?;
    let bounds = bounds.unwrap_or(Bounds { min: 0, max: 0 });
    let next_offset = u64::try_from(offset).unwrap_or(bounds.min);
    Ok(Got::empty(GetStatus::OffsetReset, next_offset, bounds))
}

/// What the official store answers to an offset below zero.
pub(super) fn got_below_zero<D: Disk, C: Clock>(
    store: &Store<D, C>,
    pull: &Pull,
) -> Result<Got<D>> {
    let bounds = store
        .topics()
        .bounds(pull.topic.as_bytes(), pull.queue_id)?;
    let (status, next_offset) = match bounds {
        None => (GetStatus::NoMatchedLogicQueue, 0),
        Some(bounds) if bounds.max == 0 => (GetStatus::NoMessageInQueue, 0),
        Some(bounds) => (GetStatus::OffsetTooSmall, bounds.min),
    };
    let bounds = bounds.unwrap_or(Bounds { min: 0, max: 0 });
    Ok(Got::empty(status, next_offset, bounds))
}
