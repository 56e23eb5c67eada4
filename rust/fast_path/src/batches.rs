//! Batches of messages: their bounds, and which ones are kept as one record. Knows no answer.

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::Store;

use crate::properties::Seen;
use crate::requests::Send;

/// Bytes of a record beside body and properties, at the most.
pub(crate) const RECORD_REST_BYTES: usize = 512;
/// Messages of one batch: far above what a client puts into 4 MiB, far below what costs memory.
pub(crate) const BATCH_COUNT_MAX: usize = 65_536;

/// Whether a batch is kept as one record: in a topic of batch queues, when it has a key of its own,
/// which clients of 5.x give it. Otherwise its messages become records.
pub(crate) fn is_inner_batch<D: Disk, C: Clock>(
    store: &Store<D, C>,
    send: &Send<'_>,
    seen: &Seen<'_>,
) -> bool {
    send.is_batch
        && seen.uniq_key.is_some()
        && store.topics().has_batch_queues(send.topic.as_bytes())
}
