//! Appends through the extension: whether the GIL is kept for one, and the wait that ends it.

use mqcore_engine::clock::SystemClock;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::error::Result;
use mqcore_engine::status::PutStatus;
use mqcore_engine::store::Store;

use crate::gil::{Gil, KEEP_BYTES_MAX};

/// Bytes of a record beside body and properties, at the most: to choose whether the GIL is kept.
pub(crate) const RECORD_REST_BYTES: usize = 512;

/// Whether appends of so many bytes can be made with the GIL kept.
#[inline]
pub(crate) fn pass_of(engine: &Store<RealDisk, SystemClock>, bytes: usize) -> Gil {
    let is_short = bytes <= KEEP_BYTES_MAX
        && engine.durability().acknowledges_at_once()
        && engine
            .writer()
            .has_space_for((bytes + RECORD_REST_BYTES) as u64);
    Gil::kept_if(is_short)
}

/// Waits for what the settings promise, unless the caller will.
pub(crate) fn settle(
    engine: &Store<RealDisk, SystemClock>,
    end: u64,
    waits: bool,
) -> Result<PutStatus> {
    if waits {
        engine.durability().settle(end)
    } else {
        Ok(PutStatus::PutOk)
    }
}
