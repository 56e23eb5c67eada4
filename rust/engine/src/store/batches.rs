//! Reading the batch queues of 5.x: the same answers as of plain queues, where a record stands for
//! several messages.

use super::read::outside;
use super::{Ask, Got, Judge, Store};
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
        for (topic, queue_id, queue) in self.batches.all() {
            infos.push(QueueInfo {
                topic: topic.into(),
                queue_id,
                bounds: self.batch_bounds(queue)?,
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
        self.collect((ask, bounds), each, None, judge)
    }

    pub(super) fn batch_offset_by_time(
        &self,
        queue: &BatchQueue<D>,
        timestamp_ms: i64,
        boundary: Boundary,
    ) -> Result<Option<u64>> {
        let offset = queue.offset_by_time(timestamp_ms, boundary == Boundary::Upper)?;
        let Bounds { min, max } = self.batch_bounds(queue)?;
        Ok(Some(offset.clamp(min, max)))
    }
}

fn plain(unit: &BatchUnit) -> Unit {
    Unit {
        physical_offset: unit.physical_offset.cast_signed(),
        size_bytes: unit.size_bytes.cast_signed(),
        tags_code: unit.tags_code,
    }
}
