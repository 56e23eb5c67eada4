//! What the queues hold of messages whose records are bad, for an open that keeps what is behind
//! them. Changes nothing.

use std::path::Path;
use std::sync::Arc;

use crate::commit_log::{Behind, Named, NamedRecord};
use crate::config::StoreConfig;
use crate::consume_queue::{QueueTable, Unit};
use crate::disk::Disk;
use crate::error::Result;
use crate::notice::Notices;

/// Units that are read at once.
const UNITS_AT_ONCE: usize = 1024;

/// The units of all queues that name an offset in a bad stretch.
///
/// # Blocking
/// Looks at every queue.
pub(super) fn named_records<D: Disk>(
    disk: &D,
    root: &Path,
    config: &StoreConfig,
    behind: &Behind,
) -> Result<Named> {
    // A table of its own: what it learns of the files is not what recovery finds.
    let notices = Arc::new(Notices::default());
    let queues = QueueTable::open(disk.clone(), root, config, notices, None)?;
    let mut named = Named::default();
    for info in queues.queues()? {
        for (number, stretch) in behind.stretches.iter().enumerate() {
            let topic = info.topic.as_bytes();
            let unit_at = |at: u64| -> Result<Option<Unit>> {
                let mut units = Vec::new();
                queues.read(topic, info.queue_id, at, 1, &mut units)?;
                Ok(units.first().copied())
            };
            let (mut low, mut high) = (info.bounds.min, info.bounds.max);
            while low < high {
                let middle = low + (high - low) / 2;
                match unit_at(middle)? {
                    Some(unit) if physical_offset_of(&unit) < stretch.from => low = middle + 1,
                    _ => high = middle,
                }
            }
            if number == 0 && low > info.bounds.min {
                let queue = (info.topic.to_string(), info.queue_id);
                named.ends.insert(queue, low.cast_signed());
            }
            let mut units = Vec::new();
            'queue: loop {
                units.clear();
                queues.read(topic, info.queue_id, low, UNITS_AT_ONCE, &mut units)?;
                for unit in &units {
                    if physical_offset_of(unit) >= stretch.to {
                        break 'queue;
                    }
                    if unit.is_present() && !unit.is_blank() {
                        named.records.push(NamedRecord {
                            topic: info.topic.to_string(),
                            queue_id: info.queue_id,
                            queue_offset: low.cast_signed(),
                            physical_offset: physical_offset_of(unit),
                            len_bytes: usize::try_from(unit.size_bytes).unwrap_or(0),
                        });
                    }
                    low += 1;
                }
                if units.is_empty() {
                    break;
                }
            }
        }
    }
    Ok(named)
}

fn physical_offset_of(unit: &Unit) -> u64 {
    if unit.is_blank() {
        return 0;
    }
    u64::try_from(unit.physical_offset).unwrap_or(0)
}
