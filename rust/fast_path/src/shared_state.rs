//! What the fast paths of several loops over one store share: state that a request on any connection may
//! need. Everything else a fast path owns alone. Knows no processor.
//!
//! Each part has a lock of its own. Lock order, first to last:
//!
//! | lock | held | takes meanwhile |
//! |---|---|---|
//! | a shard of the pops, by group | one step of a pop, an acknowledgement, a notification | consumer offsets; the store's, to read and to append check points |
//! | a shard of the ends of transactions, by half message | one end | op messages; the store's, to append |
//! | op messages | one look or change, one op message of many ends | the store's, to append |
//! | a shard of the repeated sends, by mark | one send, where they are remembered | the store's, to append |
//! | a shard of the half messages by topic, consumer offsets | one look or change | none |
//!
//! Pops, ends and repeated sends are never held together, nor two shards of one of them. None is held while
//! a socket or a file is read or written; an append copies into mapped memory.

use std::sync::Arc;

use crate::consumer_offsets::ConsumerOffsets;
use crate::half_counts::Counts;
use crate::pop::PopShards;
use crate::pop::orders::Order;
use crate::send::RepeatedSends;
use crate::transactions::Ends;

/// State of all loops over one store.
#[derive(Debug, Clone)]
pub struct SharedState {
    /// Where groups go on.
    pub offsets: Arc<ConsumerOffsets>,
    /// What is popped and not acknowledged, in shards by group.
    pub(crate) pops: Arc<PopShards>,
    /// What is ended without an op message on disk yet, and what was ended lately.
    pub(crate) ends: Arc<Ends>,
    /// Half messages by topic.
    pub counts: Arc<Counts>,
    /// The sends of the last minutes.
    pub(crate) repeats: RepeatedSends,
}

impl SharedState {
    /// Each ordered pop of all groups, by `topic@group` and queue: shard by shard, so that those of one
    /// group are of one moment.
    pub fn each_order(&self, mut each: impl FnMut(&str, i32, &Order)) {
        for shard in self.pops.all() {
            shard.with(|merge| {
                for (key, queue_id, order) in merge.orders.all() {
                    each(key, queue_id, order);
                }
            });
        }
    }

    /// Replaces all ordered pops.
    pub fn load_orders(&self, table: impl IntoIterator<Item = (String, i32, Order)>) {
        self.pops.load_orders(table);
    }

    /// Rises with every change of an ordered pop.
    #[must_use]
    pub fn order_changes(&self) -> u64 {
        let shards = self.pops.all();
        shards
            .map(|shard| shard.with(|merge| merge.orders.changes()))
            .sum()
    }

    /// Check points and acknowledgements stored since it was made: offsets of groups may rest on them.
    #[must_use]
    pub fn pops_stored(&self) -> u64 {
        self.pops.sum_stored()
    }
}

impl Default for SharedState {
    fn default() -> Self {
        let offsets = Arc::new(ConsumerOffsets::default());
        Self {
            pops: Arc::new(PopShards::new(&offsets)),
            offsets,
            ends: Arc::default(),
            counts: Arc::default(),
            repeats: RepeatedSends::default(),
        }
    }
}
