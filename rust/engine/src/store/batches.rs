//! The batch queues of 5.x as the store has them: the same answers as of plain queues, where a record
//! stands for several messages; and which topics have them.

use super::ask::outside;
use super::{Ask, Got, Judge, SeenExtension, SeenUnit, Store};
use crate::batch_queue::{BatchQueue, BatchUnit};
use crate::clock::Clock;
use crate::consume_queue::{Boundary, Bounds, QueueInfo, Unit};
use crate::disk::Disk;
use crate::error::Result;

impl<D: Disk, C: Clock> Store<D, C> {
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
        let (min, max) = queue.bounds(self.files.chain.start())?;
        Ok(Bounds { min, max })
    }

    pub(super) fn select_batches<J: Judge>(
        &self,
        queue: &BatchQueue<D>,
        ask: Ask<'_>,
        judge: &mut J,
    ) -> Result<Got<D>> {
        let bounds = self.batch_bounds(queue)?;
        let mut units = Vec::new();
        // Each unit is a message at the least.
        queue.read(ask.from, ask.count_max, &mut units)?;
        if let Some(outside) = outside(ask.from, bounds, units.is_empty()) {
            return Ok(outside);
        }
        let each = units.iter().map(|unit| (plain(unit), unit.end()));
        self.collect((ask, bounds, None), each, None, judge, &mut None)
    }

    pub(super) fn batch_units(
        &self,
        topic: &[u8],
        queue_id: i32,
        from: u64,
        count_max: usize,
    ) -> Result<Vec<SeenUnit>> {
        let Some(queue) = self.batches.find(topic, queue_id) else {
            return Ok(Vec::new());
        };
        let mut units = Vec::new();
        // Each unit is a message at the least.
        queue.read(from, count_max, &mut units)?;
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

    /// Where the record stands that a batch queue has for a queue offset.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk.
    pub fn batch_place(
        &self,
        topic: &[u8],
        queue_id: i32,
        queue_offset: u64,
    ) -> Result<Option<u64>> {
        let Some(queue) = self.batches.find(topic, queue_id) else {
            return Ok(None);
        };
        let mut units = Vec::with_capacity(1);
        queue.read(queue_offset, 1, &mut units)?;
        Ok(units.first().map(|unit| unit.physical_offset))
    }

    /// As [`Store::batch_place`], without waiting for the disk: `None` where it would have to.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn batch_place_now(
        &self,
        topic: &[u8],
        queue_id: i32,
        queue_offset: u64,
    ) -> Result<Option<Option<u64>>> {
        let Some(queue) = self.batches.find(topic, queue_id) else {
            return Ok(Some(None));
        };
        let units = queue.read_now(queue_offset, 1)?;
        Ok(units.map(|units| units.first().map(|unit| unit.physical_offset)))
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
        let Some(queue) = self.batches.find(topic, queue_id) else {
            return Ok(Some(queue_offset));
        };
        let units = queue.read_now(queue_offset, 1)?;
        let behind = |units: Vec<BatchUnit>| {
            let cut = units.first().filter(|unit| unit.base < queue_offset);
            cut.map_or(queue_offset, BatchUnit::end)
        };
        Ok(units.map(behind))
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
        super::append::check_topic(topic.as_bytes())?;
        if self.has_batch_queues(topic.as_bytes()) {
            return Ok(());
        }
        self.queues.delete_topic(topic.as_bytes())?;
        self.batches.declare(topic)?;
        self.log.forget_topic(topic.as_bytes());
        Ok(())
    }
}

fn plain(unit: &BatchUnit) -> Unit {
    Unit {
        physical_offset: unit.physical_offset.cast_signed(),
        size_bytes: unit.size_bytes.cast_signed(),
        tags_code: unit.tags_code,
    }
}
