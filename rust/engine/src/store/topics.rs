//! The queues of topics, plain ones and the batch queues of 5.x: the same answers of both; and which
//! topics have which. Reads no record.

use std::sync::Arc;

use mqcore_record::RecordError;

use super::{SeenExtension, SeenUnit};
use crate::batch_queue::{BatchQueue, BatchTable, BatchUnit};
use crate::clock::Clock;
use crate::commit_log::CommitLog;
use crate::consume_queue::{Boundary, Bounds, QueueInfo, QueueTable, Unit};
use crate::disk::Disk;
use crate::error::Result;

/// Longest topic of a client, bytes.
const TOPIC_LEN_MAX: usize = 127;
/// Longest topic of all, bytes: only retry topics may be longer than a client's.
const RETRY_TOPIC_LEN_MAX: usize = 255;

/// The queues of all topics.
pub struct Topics<D: Disk, C: Clock> {
    log: Arc<CommitLog<D, C>>,
    queues: Arc<QueueTable<D>>,
    batches: Arc<BatchTable<D>>,
}

impl<D: Disk, C: Clock> Topics<D, C> {
    pub(super) fn new(
        log: &Arc<CommitLog<D, C>>,
        queues: &Arc<QueueTable<D>>,
        batches: &Arc<BatchTable<D>>,
    ) -> Self {
        Self {
            log: Arc::clone(log),
            queues: Arc::clone(queues),
            batches: Arc::clone(batches),
        }
    }

    /// First and next queue offset of a queue; `None` when there is no such queue.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn bounds(&self, topic: &[u8], queue_id: i32) -> Result<Option<Bounds>> {
        if self.batches.has_topic(topic) {
            let queue = self.batches.find(topic, queue_id);
            return queue.map(|queue| self.batch_bounds(&queue)).transpose();
        }
        self.queues.bounds(topic, queue_id)
    }

    /// All queues, plain ones and batch queues, by topic and queue id.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the files of queues that were not used yet.
    pub fn queue_infos(&self) -> Result<Vec<QueueInfo>> {
        let mut infos = self.queues.queues()?;
        for queue in self.batches.all() {
            infos.push(QueueInfo {
                topic: queue.topic().as_ref().into(),
                queue_id: queue.queue_id(),
                bounds: self.batch_bounds(&queue)?,
                files: queue.files(),
                size_bytes: queue.size_bytes(),
            });
        }
        infos.sort_by(|a, b| (&a.topic, a.queue_id).cmp(&(&b.topic, b.queue_id)));
        Ok(infos)
    }

    pub(super) fn batch_bounds(&self, queue: &BatchQueue<D>) -> Result<Bounds> {
        let (min, max) = queue.bounds(self.log.files().chain.start())?;
        Ok(Bounds { min, max })
    }

    /// A batch queue; `None` when there is no such queue.
    pub(super) fn batch_queue(&self, topic: &[u8], queue_id: i32) -> Option<BatchQueue<D>> {
        self.batches.find(topic, queue_id)
    }

    /// The units of a batch queue with the messages from a queue offset on, `count_max` messages at the
    /// least where there are as many.
    fn read_batches(
        &self,
        (topic, queue_id): (&[u8], i32),
        from: u64,
        count_max: usize,
    ) -> Result<Vec<BatchUnit>> {
        let mut units = Vec::new();
        if let Some(queue) = self.batches.find(topic, queue_id) {
            // Each unit is a message at the least.
            queue.read(from, count_max, &mut units)?;
        }
        Ok(units)
    }

    /// The unit of a batch queue with the message at a queue offset, without waiting for the disk:
    /// `None` where it would have to.
    fn batch_now(
        &self,
        (topic, queue_id): (&[u8], i32),
        queue_offset: u64,
    ) -> Result<Option<Option<BatchUnit>>> {
        let Some(queue) = self.batches.find(topic, queue_id) else {
            return Ok(Some(None));
        };
        let units = queue.read_now(queue_offset, 1)?;
        Ok(units.map(|units| units.into_iter().next()))
    }

    pub(super) fn batch_units(
        &self,
        topic: &[u8],
        queue_id: i32,
        from: u64,
        count_max: usize,
    ) -> Result<Vec<SeenUnit>> {
        let units = self.read_batches((topic, queue_id), from, count_max)?;
        let end = from.saturating_add(count_max as u64);
        let wanted = units.iter().take_while(|unit| unit.base < end);
        let seen = wanted.map(|unit| SeenUnit {
            queue_offset: unit.base,
            unit: plain(unit),
            extension: SeenExtension::None,
        });
        Ok(seen.collect())
    }

    pub(super) fn batch_offset_by_time(
        &self,
        queue: &BatchQueue<D>,
        timestamp_ms: i64,
        boundary: Boundary,
    ) -> Result<u64> {
        let offset = queue.offset_by_time(timestamp_ms, boundary == Boundary::Upper)?;
        let Bounds { min, max } = self.batch_bounds(queue)?;
        Ok(offset.clamp(min, max))
    }

    /// Whether a topic has batch queues (`queue.type=BatchCQ`).
    #[must_use]
    pub fn has_batch_queues(&self, topic: &[u8]) -> bool {
        self.batches.has_topic(topic)
    }

    /// Where the record is that a batch queue has for a queue offset.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk.
    pub fn batch_physical_offset(
        &self,
        topic: &[u8],
        queue_id: i32,
        queue_offset: u64,
    ) -> Result<Option<u64>> {
        let units = self.read_batches((topic, queue_id), queue_offset, 1)?;
        Ok(units.first().map(|unit| unit.physical_offset))
    }

    /// As [`Topics::batch_physical_offset`], without waiting for the disk: `None` where it would have to.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn batch_physical_offset_now(
        &self,
        topic: &[u8],
        queue_id: i32,
        queue_offset: u64,
    ) -> Result<Option<Option<u64>>> {
        let unit = self.batch_now((topic, queue_id), queue_offset)?;
        Ok(unit.map(|unit| unit.map(|unit| unit.physical_offset)))
    }

    /// The queue offset behind the record that has messages on both sides of one; the offset itself
    /// where no record has. Without waiting for the disk: `None` where it would have to.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn batch_end_now(
        &self,
        topic: &[u8],
        queue_id: i32,
        queue_offset: u64,
    ) -> Result<Option<u64>> {
        let behind = |unit: Option<BatchUnit>| {
            let cut = unit.filter(|unit| unit.base < queue_offset);
            cut.map_or(queue_offset, |unit| unit.end())
        };
        let unit = self.batch_now((topic, queue_id), queue_offset)?;
        Ok(unit.map(behind))
    }

    /// Gives a new topic batch queues. What an earlier topic of the name left in plain ones goes: an
    /// official broker does not start on a topic that has both.
    ///
    /// # Durability
    /// None until it has a message: whoever opens the store names such topics (`batchQueueTopics`).
    ///
    /// # Errors
    /// [`crate::error::Error::Message`] for a name that no topic has; [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Makes, removes and syncs directories.
    pub fn declare_batch_queues(&self, topic: &str) -> Result<()> {
        check_topic(topic.as_bytes())?;
        if self.has_batch_queues(topic.as_bytes()) {
            return Ok(());
        }
        self.queues.delete_topic(topic.as_bytes())?;
        self.batches.declare(topic)?;
        self.log.forget_topic(topic.as_bytes());
        Ok(())
    }

    /// Deletes the queues of a topic; its records stay in the log until they expire.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn delete_topic(&self, topic: &[u8]) -> Result<()> {
        self.queues.delete_topic(topic)?;
        self.batches.delete_topic(topic)?;
        self.log.forget_topic(topic);
        Ok(())
    }
}

/// A unit of a batch queue as one of a plain queue.
pub(super) fn plain(unit: &BatchUnit) -> Unit {
    Unit {
        physical_offset: unit.physical_offset.cast_signed(),
        size_bytes: unit.size_bytes.cast_signed(),
        tags_code: unit.tags_code,
    }
}

/// A topic as the official store takes it (`HookUtils.checkBeforePutMessage`,
/// `TopicValidator.isTopicOrGroupIllegal`): it becomes the name of a directory.
pub(super) fn check_topic(topic: &[u8]) -> Result<()> {
    let is_retry = topic.starts_with(b"%RETRY%");
    let max = if is_retry {
        RETRY_TOPIC_LEN_MAX
    } else {
        TOPIC_LEN_MAX
    };
    if topic.len() > max {
        return Err(RecordError::TopicTooLong {
            len: topic.len(),
            max,
        }
        .into());
    }
    // Retry topics of pops join group and topic by it (`KeyBuilder.buildPopRetryTopicV2`).
    let joins = |byte: &u8| is_retry && *byte == b'+';
    let is_legal =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"%|-_".contains(byte) || joins(byte);
    match topic.iter().enumerate().find(|(_, byte)| !is_legal(byte)) {
        None => Ok(()),
        Some((at, byte)) => Err(RecordError::TopicIllegal { at, byte: *byte }.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn topics_are_names_and_no_paths() {
        assert!(check_topic(b"%RETRY%CG_a-1|x").is_ok());
        assert!(check_topic(&[b'a'; 127]).is_ok());
        assert!(check_topic(&[b'a'; 128]).is_err());
        assert!(check_topic(&[&b"%RETRY%"[..], &[b'a'; 200]].concat()).is_ok());
        assert!(check_topic(&[&b"%RETRY%"[..], &[b'a'; 249]].concat()).is_err());
        assert!(check_topic(b"%RETRY%g+t").is_ok());
        for bad in ["../x", "a b", "g+t", "a/b", "\u{e9}", "a\u{0}"] {
            let refused = check_topic(bad.as_bytes());
            assert!(matches!(
                refused,
                Err(Error::Message(RecordError::TopicIllegal { .. }))
            ));
        }
    }
}
