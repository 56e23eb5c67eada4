//! What a unit of a queue must be able to do so that its queue can be kept in files.

use std::fmt::Debug;

/// Bytes of the longest unit: buffers for one unit have this length.
pub(super) const UNIT_LEN_MAX: usize = 46;

/// A unit: the place of one record in the log, in a fixed number of bytes.
pub trait QueueUnit: Copy + Debug + Send + Sync + 'static {
    /// What the state of a queue has of its own, under the lock of the queue.
    type Own: Debug + Default + Send;
    /// What a queue has beside its state, made at its first use.
    type Beside: Debug + Default + Send + Sync;
    /// Bytes of a unit.
    const LEN: usize;
    /// Takes the place of a queue offset without a message; `None` where queues have no such units.
    const BLANK: Option<Self>;
    /// Whether a queue keeps count of its durable units.
    const COUNTS_SYNCED: bool;

    /// Appends the bytes of the unit.
    fn encode_into(&self, out: &mut Vec<u8>);

    /// The unit in these bytes ([`QueueUnit::LEN`] of them); `None` where none was written.
    fn present(bytes: &[u8]) -> Option<Self>;

    /// First byte of the record in the log.
    fn physical_start(&self) -> i64;

    /// The first byte of the log after the record.
    fn record_end(&self) -> i64;
}

/// All units of `bytes` up to the first that was never written.
pub(super) fn present_units<U: QueueUnit>(bytes: &[u8]) -> impl Iterator<Item = U> + '_ {
    bytes.chunks_exact(U::LEN).map_while(U::present)
}
