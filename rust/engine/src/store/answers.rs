//! What reads answer: the official statuses (`GetMessageStatus`), records, and where to go on.

use crate::commit_log::RecordBytes;
use crate::consume_queue::Bounds;
use crate::disk::Disk;

/// How a read by queue offset ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GetStatus {
    /// At least one record.
    Found,
    /// Units were looked at, none passed the tag test.
    NoMatchedMessage,
    /// The record is gone from the log, the unit is not.
    MessageWasRemoving,
    /// The queue file is not readable at this offset.
    OffsetFoundNull,
    /// Beyond the end.
    OffsetOverflowBadly,
    /// Exactly at the end.
    OffsetOverflowOne,
    /// Below the start.
    OffsetTooSmall,
    /// No such queue.
    NoMatchedLogicQueue,
    /// The queue is empty.
    NoMessageInQueue,
    /// Whoever asks is to go on elsewhere; no read ends so, brokers answer it.
    OffsetReset,
}

impl GetStatus {
    /// The official name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Found => "FOUND",
            Self::NoMatchedMessage => "NO_MATCHED_MESSAGE",
            Self::MessageWasRemoving => "MESSAGE_WAS_REMOVING",
            Self::OffsetFoundNull => "OFFSET_FOUND_NULL",
            Self::OffsetOverflowBadly => "OFFSET_OVERFLOW_BADLY",
            Self::OffsetOverflowOne => "OFFSET_OVERFLOW_ONE",
            Self::OffsetTooSmall => "OFFSET_TOO_SMALL",
            Self::NoMatchedLogicQueue => "NO_MATCHED_LOGIC_QUEUE",
            Self::NoMessageInQueue => "NO_MESSAGE_IN_QUEUE",
            Self::OffsetReset => "OFFSET_RESET",
        }
    }
}

/// Records read by queue offset.
#[derive(Debug)]
pub struct Got<D: Disk> {
    /// How it ended.
    pub status: GetStatus,
    /// Where to read next.
    pub next_offset: u64,
    /// First queue offset that is kept.
    pub min_offset: u64,
    /// Queue offset behind the last record.
    pub max_offset: u64,
    /// The records, in queue order.
    pub records: Vec<RecordBytes<D>>,
    /// Where messages are, in queue order, of a read that gives no records.
    pub offsets: Vec<RecordOffsets>,
    /// Bytes of the records.
    pub bytes: u64,
    /// The reader is so far behind that a replica should serve it.
    pub suggests_replica: bool,
}

/// Where a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordOffsets {
    /// In its queue: messages.
    pub queue_offset: u64,
    /// In the log: bytes.
    pub physical_offset: u64,
}

impl<D: Disk> Got<D> {
    /// An answer without messages.
    #[must_use]
    pub fn empty(status: GetStatus, next_offset: u64, bounds: Bounds) -> Self {
        Self {
            status,
            next_offset,
            min_offset: bounds.min,
            max_offset: bounds.max,
            records: Vec::new(),
            offsets: Vec::new(),
            bytes: 0,
            suggests_replica: false,
        }
    }

    /// How many messages it names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len() + self.offsets.len()
    }

    /// Whether it names none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Records found by key.
#[derive(Debug)]
pub struct Queried<D: Disk> {
    /// Records whose key has the hash asked for, ascending by offset; the caller compares keys.
    pub records: Vec<RecordBytes<D>>,
    /// Store time of the newest record that is indexed, ms.
    pub index_last_update_ms: i64,
    /// Place of the newest record that is indexed.
    pub index_last_update_offset: u64,
}
