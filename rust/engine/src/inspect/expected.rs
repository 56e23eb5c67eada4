//! What a directory has beside its log and its queues on which queues there should be: the
//! manifest of our last clean stop, and the topics of the broker's configuration. Decides nothing.

use std::collections::HashSet;

use super::Inspection;
use crate::consume_queue::{ManifestQueues, manifest_queues};
use crate::disk::Disk;
use crate::error::Result;
use crate::queue_dirs::configured_topics;

/// Which queues there should be.
#[derive(Default)]
pub(super) struct Expected {
    /// By topic and queue id; `None` without a manifest of the last stop.
    pub(super) manifest: Option<ManifestQueues>,
    /// `None` where the file cannot be read.
    topics: Option<HashSet<Vec<u8>>>,
}

impl Expected {
    /// Reads what a directory has of it.
    pub(super) fn of<D: Disk>(inspection: &Inspection<D>) -> Result<Self> {
        let (disk, root) = (&inspection.disk, &inspection.root);
        let file_len_bytes = inspection.config.queue_file_len_bytes;
        let manifest = if inspection.has_abort()? {
            None
        } else {
            manifest_queues(disk, root, &inspection.chain, file_len_bytes)?
        };
        Ok(Self {
            manifest,
            topics: configured_topics(disk, root)?,
        })
    }

    /// Whether a queue without files is one that was lost: a deleted topic leaves its records in the
    /// log too.
    pub(super) fn has(&self, topic: &[u8], queue_id: i32) -> bool {
        match (&self.manifest, &self.topics) {
            (Some(manifest), _) => manifest.contains_key(&(topic.to_vec(), queue_id)),
            (None, Some(topics)) => topics.contains(topic),
            (None, None) => false,
        }
    }
}
