//! The units of a queue themselves, with what its extension says, for tools that look at queues
//! (`AdminBrokerProcessor.queryConsumeQueue`). Reads no record.

use super::{SeenExtension, SeenUnit, Store};
use crate::clock::Clock;
use crate::disk::Disk;
use crate::error::Result;

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
