//! The bits that messages get in the extensions of their queues: which groups want them, as far as
//! their expressions mean. Who knows the expressions makes them; the store asks once per message, on
//! its way into its queue (`CommitLogDispatcherCalcBitMap`).
//!
//! Locks: who makes the bits, held for reading while bits are made, under the turn of the dispatcher.

use std::sync::Arc;

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

    pub(super) fn replace(&self, maker: Option<Arc<dyn BitMaker>>) {
        *self.0.write() = maker;
    }
}
