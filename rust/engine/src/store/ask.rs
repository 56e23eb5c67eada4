//! What readers of queues ask for, how they choose among records, and what they are given of units.
//! Reads nothing.

use super::{GetStatus, Got};
use crate::consume_queue::{Bounds, Extended, Unit};
use crate::disk::Disk;

/// What a read by queue offset asks for.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// First queue offset.
    pub from: u64,
    /// Records at the most.
    pub count_max: usize,
    /// Bytes at the most; the first record is always given.
    pub bytes_max: u64,
    /// Only records with one of these tag hashes; empty: all.
    pub tags_codes: &'a [i64],
    /// Whether the official limits of one answer do not count: who asks has set fit ones.
    pub is_bulk: bool,
}

/// What is to be done with a record that a read has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterDecision {
    /// It is given.
    Give,
    /// It is passed over.
    Pass,
    /// The read ends in front of it.
    Stop,
}

/// Looks at records before they are given. The first record that a read comes to must not stop it:
/// its reader would come back to the same offset for ever.
pub trait MessageFilter {
    /// Whether it looks at all.
    const LOOKS: bool;

    /// Decides about one record.
    fn decide(&mut self, record: &[u8]) -> FilterDecision;

    /// Whether it can decide by the extension of a queue alone that a record is not wanted.
    fn reads_extensions(&self) -> bool {
        false
    }

    /// Whether that is so for the record of which the extension has this.
    fn rules_out(&self, _extended: &Extended<'_>) -> bool {
        false
    }
}

/// A unit and its queue offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenUnit {
    /// Queue offset of its first message.
    pub queue_offset: u64,
    /// The unit. Its code is that of the extension where that has one.
    pub unit: Unit,
    /// What the extension of the queue has, where the unit names a position there.
    pub extension: SeenExtension,
}

/// What the extension of a queue has of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeenExtension {
    /// The unit names no position there.
    None,
    /// Nothing whole is at the position that it names.
    Missing,
    /// Store time, ms, and bits.
    Found(i64, Box<[u8]>),
}

/// The answer to a read that finds nothing by its offset alone; `None` when there is something.
pub(super) fn outside<D: Disk>(from: u64, bounds: Bounds, is_empty: bool) -> Option<Got<D>> {
    let Bounds { min, max } = bounds;
    let (status, next_offset) = match from {
        _ if max == 0 => (GetStatus::NoMessageInQueue, 0),
        from if from < min => (GetStatus::OffsetTooSmall, min),
        from if from == max => (GetStatus::OffsetOverflowOne, max),
        from if from > max => (GetStatus::OffsetOverflowBadly, max),
        from if is_empty => (GetStatus::OffsetFoundNull, from),
        _ => return None,
    };
    Some(Got::empty(status, next_offset, bounds))
}

/// The answer to a read of a queue that is not there.
pub(super) fn no_queue<D: Disk>() -> Got<D> {
    Got::empty(GetStatus::NoMatchedLogicQueue, 0, Bounds { min: 0, max: 0 })
}
