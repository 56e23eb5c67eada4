//! What the fast paths of several loops over one store share: state that a request on any connection may
//! need. Everything else a fast path owns alone. Knows no processor.
//!
//! Each part has a lock of its own. Lock order, first to last:
//!
//! | lock | held | takes meanwhile |
//! |---|---|---|
//! | pops | one step of a pop, an acknowledgement, a notification | consumer offsets; the store's, to read and to append check points |
//! | ends of transactions | one end, one op message | half messages by topic; the store's, to append |
//! | repeated sends | one send, where they are remembered | half messages by topic; the store's, to append |
//! | half messages by topic, consumer offsets | one look or change | none |
//!
//! The first three are never held together. None is held while a socket or a file is read or written;
//! an append copies into mapped memory.

use std::sync::Arc;

use mqcore_engine::lock::Mutex;

use crate::consumer_offsets::ConsumerOffsets;
use crate::half_counts::Counts;
use crate::pop::PopBufferMerge;
use crate::pop::orders::Orders;
use crate::send::RepeatedSends;
use crate::transactions::ends::Ends;

/// State of all loops over one store.
#[derive(Debug, Clone)]
pub struct SharedState {
    /// Where groups go on.
    pub offsets: Arc<ConsumerOffsets>,
    /// What is popped and not acknowledged.
    pub(crate) pops: Arc<Mutex<PopBufferMerge>>,
    /// What is ended without an op message on disk yet, and what was ended lately.
    pub(crate) ends: Arc<Mutex<Ends>>,
    /// Half messages by topic.
    pub counts: Arc<Counts>,
    /// The sends of the last minutes.
    pub(crate) repeats: RepeatedSends,
}

impl SharedState {
    /// Looks at ordered pops, or changes them.
    pub fn with_orders<T>(&self, change: impl FnOnce(&mut Orders) -> T) -> T {
        change(&mut self.pops.lock().orders)
    }

    /// Check points and acknowledgements stored since it was made: offsets of groups may rest on them.
    #[must_use]
    pub fn pops_stored(&self) -> u64 {
        self.pops.lock().stored()
    }
}

impl Default for SharedState {
    fn default() -> Self {
        let offsets = Arc::new(ConsumerOffsets::default());
        Self {
            pops: Arc::new(Mutex::new(PopBufferMerge::new(Arc::clone(&offsets)))),
            offsets,
            ends: Arc::default(),
            counts: Arc::default(),
            repeats: RepeatedSends::default(),
        }
    }
}
