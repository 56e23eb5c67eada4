//! The plain queues of a store: holds the parts that keep them, and hands the calls of the store to
//! the part whose state they are about. Decides nothing itself; `open` makes it.
//!
//! Locks, always taken in this order: the bytes of the last witness, the mend gate, then those of
//! `queue_store` (sync gate, write gate, shard, queue, and last, one at a time, the list of pending
//! queues, the ledger, the open files); the tail of an extension after its queue. The list of suspects
//! is taken alone, or under a queue.

use std::sync::Arc;

use super::append::{Coming, Placed, UnitAppender};
use super::extension::ExtensionReader;
use super::holes::HoleMender;
use super::lost::LostUnits;
use super::queue::Queue;
use super::read::{QueueRead, UnitReader};
use super::recover::QueueRecovery;
use super::remove::QueueRemoval;
use super::retain::{Deleted, QueueRetention};
use super::search::{Boundary, TimeSearch};
use super::shared::Shared;
use super::truncate::UnitCutter;
use super::unit::{Bounds, Unit};
use super::witness::Witness;
use crate::disk::Disk;
use crate::error::Result;
use crate::queue_store::{QueueSync, ReadBy, Synced, TailWriter};

/// All plain queues of a store.
pub struct QueueTable<D: Disk> {
    pub(super) shared: Shared<D>,
    pub(super) mender: Arc<HoleMender<D>>,
    pub(super) cutter: Arc<UnitCutter<D>>,
    pub(super) writer: Arc<TailWriter<D, Unit>>,
    pub(super) sync: QueueSync<D, Unit>,
    pub(super) appender: UnitAppender<D>,
    pub(super) reader: UnitReader<D>,
    pub(super) search: TimeSearch<D>,
    pub(super) recovery: QueueRecovery<D>,
    pub(super) retention: QueueRetention<D>,
    pub(super) removal: QueueRemoval<D>,
    pub(super) lost: LostUnits<D>,
    /// The manifest of the last stop gave the state of all queues.
    pub(super) is_from_manifest: bool,
    /// It is of the last stop, though directories may have been changed or copied since.
    pub(super) has_witness: bool,
}

/// A queue in a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueInfo {
    /// The topic.
    pub topic: Arc<str>,
    /// The number of the queue in its topic.
    pub queue_id: i32,
    /// The queue offsets it holds.
    pub bounds: Bounds,
    /// Its files.
    pub files: u64,
    /// Their lengths, sparse or not.
    pub size_bytes: u64,
}

impl<D: Disk> QueueTable<D> {
    /// Whether the manifest gave the state of the queues at the opening, so that none had to be
    /// looked at.
    #[must_use]
    pub fn is_from_manifest(&self) -> bool {
        self.is_from_manifest
    }

    /// Whether there is a manifest of the last stop, which names the queues.
    #[must_use]
    pub fn has_witness(&self) -> bool {
        self.has_witness
    }

    /// The queue, if there is one.
    #[must_use]
    pub fn find(&self, topic: &[u8], queue_id: i32) -> Option<Arc<Queue>> {
        self.shared.map.find(topic, queue_id)
    }

    /// Queues in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.map.len()
    }

    /// True when there is no queue.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Queue files open now; at most `queueFilesOpenMax`.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.shared.segments.open_count()
    }

    /// Every queue with its bounds and files, by topic and queue id.
    ///
    /// # Errors
    /// Those of the first look at a queue.
    ///
    /// # Blocking
    /// Reads the files of queues that were not used yet.
    pub fn queues(&self) -> Result<Vec<QueueInfo>> {
        let mut infos = Vec::with_capacity(self.len());
        for queue in self.shared.map.all() {
            let state = self.shared.loader.lock_bounds(&queue)?;
            let size_bytes = state.files_end - state.first_base;
            infos.push(QueueInfo {
                topic: Arc::clone(queue.topic_name()),
                queue_id: queue.queue_id(),
                bounds: state.bounds(),
                files: size_bytes / self.shared.segments.file_len_bytes(),
                size_bytes,
            });
        }
        infos.sort_by(|a, b| (&a.topic, a.queue_id).cmp(&(&b.topic, b.queue_id)));
        Ok(infos)
    }

    /// What makes units again that files do not hold though they should.
    #[must_use]
    pub fn mender(&self) -> &HoleMender<D> {
        &self.mender
    }

    /// What finds units that queues have lost.
    #[must_use]
    pub fn lost(&self) -> &LostUnits<D> {
        &self.lost
    }

    /// What looks at all queues after the end of a store.
    #[must_use]
    pub fn recovery(&self) -> &QueueRecovery<D> {
        &self.recovery
    }

    /// What is kept on disk of the queues of the last stop.
    #[must_use]
    pub fn witness(&self) -> &Witness<D> {
        &self.shared.witness
    }

    /// Adds a unit to its queue, which is made if absent. Twice the same changes nothing.
    ///
    /// # Durability
    /// None: the unit is in memory until [`QueueTable::write_pending`].
    ///
    /// # Errors
    /// Those of the first look at a queue; the unit was then not added, and may be again.
    ///
    /// # Blocking
    /// At the first use of a queue, and where a queue starts anew.
    #[inline]
    pub fn append(
        &self,
        topic: &[u8],
        queue_id: i32,
        queue_offset: u64,
        unit: Unit,
        store_timestamp_ms: i64,
    ) -> Result<Placed> {
        let coming = Coming {
            queue_offset,
            unit,
            store_timestamp_ms,
            extended: None,
        };
        self.add(topic, queue_id, &coming)
    }

    /// [`QueueTable::append`] of a unit that may have an extension.
    ///
    /// # Errors
    /// As [`QueueTable::append`].
    #[inline]
    pub fn add(&self, topic: &[u8], queue_id: i32, coming: &Coming<'_>) -> Result<Placed> {
        self.appender.add(topic, queue_id, coming)
    }

    /// The queue, made if absent: a handle for [`QueueTable::append_to`]. `None` when the topic
    /// cannot be the name of a directory, or the table is full.
    pub fn queue(&self, topic: &[u8], queue_id: i32) -> Option<Arc<Queue>> {
        self.appender.queue(topic, queue_id)
    }

    /// [`QueueTable::append`] with a handle: one look-up less. A stale handle (its topic was
    /// deleted) works too.
    ///
    /// # Errors
    /// As [`QueueTable::append`].
    #[inline]
    pub fn append_to(
        &self,
        queue: &Arc<Queue>,
        queue_offset: u64,
        unit: Unit,
        store_timestamp_ms: i64,
    ) -> Result<Placed> {
        let coming = Coming {
            queue_offset,
            unit,
            store_timestamp_ms,
            extended: None,
        };
        self.appender.add_to(queue, &coming)
    }

    /// The bounds of a queue; `None` when there is no such queue.
    ///
    /// # Errors
    /// Those of the first look at a queue.
    ///
    /// # Blocking
    /// At the first use of a queue.
    pub fn bounds(&self, topic: &[u8], queue_id: i32) -> Result<Option<Bounds>> {
        self.reader.bounds(topic, queue_id)
    }

    /// Adds to `out` up to `count_max` units from queue offset `from` on, across files. Nothing
    /// when `from` is outside of the bounds. Units of messages that were never seen are
    /// [`Unit::BLANK`].
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk where the page cache has not the bytes.
    pub fn read(
        &self,
        topic: &[u8],
        queue_id: i32,
        from: u64,
        count_max: usize,
        out: &mut Vec<Unit>,
    ) -> Result<QueueRead> {
        self.read_by(topic, queue_id, from, (count_max, out), ReadBy::Disk)
    }

    /// Like [`QueueTable::read`], from where `by` allows: at most so many units, added to those.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// At the first use of a queue; else as [`ReadBy`] has it.
    pub fn read_by(
        &self,
        topic: &[u8],
        queue_id: i32,
        from: u64,
        (count_max, out): (usize, &mut Vec<Unit>),
        by: ReadBy,
    ) -> Result<QueueRead> {
        self.reader
            .read_by(topic, queue_id, from, (count_max, out), by)
    }

    /// The queue offset for a store time as 5.3 answers it
    /// (`ConsumeQueue.getOffsetInQueueByTime(timestamp, boundaryType)`), inside of the bounds.
    /// `None` when there is no such queue.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk.
    pub fn search_by_time(
        &self,
        topic: &[u8],
        queue_id: i32,
        timestamp_ms: i64,
        boundary: Boundary,
        store_time: &dyn Fn(&Unit) -> Option<i64>,
    ) -> Result<Option<u64>> {
        self.search
            .by_boundary((topic, queue_id), timestamp_ms, boundary, store_time)
    }

    /// The queue offset whose store time is nearest, as 4.9 answers it
    /// (`ConsumeQueue.getOffsetInQueueByTime(timestamp)`), but with the file chosen by store times,
    /// where 4.9 takes the time at which the file was last changed. `None` when there is no such
    /// queue.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk.
    pub fn search_nearest_by_time(
        &self,
        topic: &[u8],
        queue_id: i32,
        timestamp_ms: i64,
        store_time: &dyn Fn(&Unit) -> Option<i64>,
    ) -> Result<Option<u64>> {
        self.search
            .by_distance((topic, queue_id), timestamp_ms, store_time)
    }

    /// A reader of what the units of a queue name in its extension. Looks at nothing before it is
    /// asked.
    #[must_use]
    pub fn extensions<'a>(&'a self, topic: &'a [u8], queue_id: i32) -> ExtensionReader<'a, D> {
        self.shared
            .extensions
            .reader(&self.shared.map, (topic, queue_id))
    }

    /// Whether what units name in the extension of their queue can be read from memory alone. Also
    /// true where they name nothing.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn is_extension_cached(&self, topic: &[u8], queue_id: i32, units: &[Unit]) -> Result<bool> {
        self.shared
            .extensions
            .is_cached(&self.shared.map, (topic, queue_id), units)
    }

    /// Whether new units get an extension (`enableConsumeQueueExt`).
    #[inline]
    #[must_use]
    pub fn writes_extensions(&self) -> bool {
        self.shared.extensions.is_written()
    }

    /// Bytes in the tails of all queues.
    #[must_use]
    pub fn pending_bytes(&self) -> u64 {
        self.shared.pending.bytes()
    }

    /// Whether a round of writing pays now: 1 MiB waits, in runs that are not too short for what a
    /// run costs, or so much waits that memory counts. Whoever appends also writes after 100 ms.
    #[must_use]
    pub fn is_write_due(&self) -> bool {
        self.shared.pending.is_write_due()
    }

    /// Writes every tail; gives the bytes written. What could not be written stays in memory and
    /// is tried again by the next call.
    ///
    /// # Durability
    /// What was written survives the process; power loss only after [`QueueTable::sync`].
    ///
    /// # Errors
    /// The first failure of [`crate::error::Error::Io`]; other queues were written all the same.
    ///
    /// # Blocking
    /// Writes to the page cache; makes directories and files.
    pub fn write_pending(&self) -> Result<u64> {
        self.writer.write_pending()
    }

    /// Syncs the files of which at least `least_pages` pages were written (0: all). What the units
    /// name in their extensions was written before them, and is durable before them.
    ///
    /// # Durability
    /// See [`Synced::covered_ms`]. Tails that were not written are not covered.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`] when a sync failed, then [`crate::error::Error::Poisoned`]
    /// for good: after a failed sync nothing is known of the bytes.
    ///
    /// # Blocking
    /// Until the device has answered. Does not hold up appends.
    pub fn sync(&self, least_pages: u64) -> Result<Synced> {
        self.sync
            .sync(least_pages, || self.shared.extensions.sync())
    }

    /// Takes the units of all records at or above `physical_offset` out of every queue, in memory
    /// and in files (`ConsumeQueue.truncateDirtyLogicFiles`). A newest file that becomes empty is
    /// removed, but for one whose name alone is left to give the offset at which the queue goes on.
    ///
    /// # Durability
    /// Gone for good after the next [`QueueTable::sync`] of 0 pages.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads and cuts files.
    pub fn truncate_from(&self, physical_offset: u64) -> Result<()> {
        self.cutter.truncate_from(physical_offset)
    }

    /// The log begins at `log_min` now: the minimum of each queue becomes its first unit of a
    /// record that is still there, the end of the queue when there is none
    /// (`ConsumeQueue.correctMinOffset`). Queues not used yet do so at their first use.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads files of queues whose minimum changes.
    pub fn correct_min(&self, log_min: u64) -> Result<()> {
        self.retention.correct_min(log_min)
    }

    /// [`QueueTable::correct_min`], then removes the files whose units all lie below the minimum;
    /// never the newest of a queue, whose name gives the offset at which it goes on.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads and removes files.
    pub fn retain(&self, log_min: u64) -> Result<Deleted> {
        self.retention.retain(log_min)
    }

    /// Deletes the queues of a topic with their files; gives how many there were. May be called
    /// again after a failure.
    ///
    /// # Durability
    /// The names are gone for good on return.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]; the queues are out of the table all the same.
    ///
    /// # Blocking
    /// Removes files and syncs directories.
    pub fn delete_topic(&self, topic: &[u8]) -> Result<usize> {
        self.removal.delete_topic(topic)
    }

    /// Deletes one queue with its files; false when there was none.
    ///
    /// # Durability
    /// The names are gone for good on return.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]; the queue is out of the table all the same.
    ///
    /// # Blocking
    /// Removes files and syncs directories.
    pub fn delete_queue(&self, topic: &[u8], queue_id: i32) -> Result<bool> {
        self.removal.delete_queue(topic, queue_id)
    }

    /// Deletes every queue; gives how many there were.
    ///
    /// # Durability
    /// The names are gone for good on return.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Removes files and syncs directories.
    pub fn destroy_all(&self) -> Result<usize> {
        self.removal.destroy_all()
    }

    /// Writes and syncs everything, then the manifest under `stamp`: to be called at a clean stop,
    /// when nobody appends any more.
    ///
    /// # Durability
    /// The manifest is durable on return.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`], [`crate::error::Error::Poisoned`];
    /// [`crate::error::Error::Limit`] for a stamp above 4096 bytes;
    /// [`crate::error::Error::NotWritable`] when units were appended meanwhile.
    ///
    /// # Blocking
    /// Writes and syncs; looks at queues not used yet.
    pub fn save_manifest(&self, stamp: &[u8]) -> Result<()> {
        self.write_pending()?;
        self.sync(0)?;
        self.shared.witness.save(stamp)
    }
}
