//! The units of a queue themselves, with what its extension says, for tools that look at queues
//! (`AdminBrokerProcessor.queryConsumeQueue`). Reads no record.

use super::Store;
use crate::clock::Clock;
use crate::consume_queue::Unit;
use crate::disk::Disk;
use crate::error::Result;

/// A unit and where it stands in its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenUnit {
    /// Queue offset of its first message.
    pub queue_offset: u64,
    /// The unit. Its code is that of the extension where that has one.
    pub unit: Unit,
    /// What the extension of the queue says, where the unit names a place there.
    pub extension: SeenExtension,
}

/// What the extension of a queue says of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeenExtension {
    /// The unit names no place there.
    None,
    /// Nothing whole stands at the place that it names.
    Missing,
    /// Store time, ms, and bits.
    Found(i64, Box<[u8]>),
}

impl<D: Disk, C: Clock> Store<D, C> {
    /// The units of the messages from a queue offset on, `count_max` messages at the most. Nothing
    /// outside of the queue's bounds.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk.
    pub fn units(
        &self,
        topic: &[u8],
        queue_id: i32,
        from: u64,
        count_max: usize,
    ) -> Result<Vec<SeenUnit>> {
        if self.has_batch_queues(topic) {
            return self.batch_units(topic, queue_id, from, count_max);
        }
        let mut units = Vec::new();
        self.queues
            .read(topic, queue_id, from, count_max, &mut units)?;
        let mut extensions = self.queues.extensions(topic, queue_id);
        let mut seen = Vec::with_capacity(units.len());
        for (queue_offset, mut unit) in (from..).zip(units) {
            let mut extension = SeenExtension::None;
            if unit.is_extended() {
                extension = SeenExtension::Missing;
                if let Some(found) = extensions.get(unit.tags_code)? {
                    unit.tags_code = found.tags_code;
                    extension = SeenExtension::Found(found.store_timestamp_ms, found.bits.into());
                }
            }
            seen.push(SeenUnit {
                queue_offset,
                unit,
                extension,
            });
        }
        Ok(seen)
    }
}
