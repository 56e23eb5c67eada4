//! The bits that messages get in the extensions of their queues: which groups want them, as far as
//! their expressions say. Who knows the expressions makes them; the store asks once per message, on
//! its way into its queue (`CommitLogDispatcherCalcBitMap`).

use std::sync::Arc;

use super::Store;
use crate::clock::Clock;
use crate::disk::Disk;
use crate::lock::RwLock;

/// Makes the bits of messages.
pub trait BitMaker: Send + Sync {
    /// Puts the bits of a message into `bits`, which is empty; leaves it so where nothing is known.
    fn bits(&self, topic: &[u8], properties: &[u8], bits: &mut Vec<u8>);
}

/// Who makes the bits now.
#[derive(Clone, Default)]
pub(super) struct LiveBits(Arc<RwLock<Option<Arc<dyn BitMaker>>>>);

impl LiveBits {
    pub(super) fn of(&self, topic: &[u8], properties: &[u8], bits: &mut Vec<u8>) {
        if let Some(maker) = &*self.0.read() {
            maker.bits(topic, properties, bits);
        }
    }

    fn replace(&self, maker: Option<Arc<dyn BitMaker>>) {
        *self.0.write() = maker;
    }
}

impl<D: Disk, C: Clock> Store<D, C> {
    /// Lets bits be made from now on, or not any more; the time from which on that holds, Unix ms:
    /// messages with a later store time get theirs from this maker. Those that are in the log come
    /// from either.
    pub fn set_bit_maker(&self, maker: Option<Arc<dyn BitMaker>>) -> i64 {
        self.bits.replace(maker);
        // Read after the change. A message that is appended later has no earlier store time, and it
        // is dispatched after its append.
        let last_ms = self
            .files
            .last_store_ms
            .load(std::sync::atomic::Ordering::Acquire);
        last_ms.max(self.clock.now_ms())
    }

    /// Whether messages get extensions of their queue units, and bits there.
    #[must_use]
    pub fn extends_queues(&self) -> bool {
        self.queues.writes_extensions()
    }
}
