//! The batch queues of a store: makes the parts that keep them and hands them out.
//!
//! Locks, always taken in this order: those of `queue_store`, with the topics before the shards of
//! the map.

use std::path::Path;
use std::sync::Arc;

use super::queue::{Queue, State};
use super::read::BatchQueue;
use super::recover::{BatchRecovery, Trust};
use super::topics::BatchTopics;
use super::unit::BatchUnit;
use crate::config::StoreConfig;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::notice::Notices;
use crate::queue_store::{
    FileLength, Files, Pending, QueueSync, Segments, TailWriter, walk_queues,
};
use crate::units::is_topic;

/// The directory of the queues below the root (`StorePathConfigHelper.getStorePathBatchConsumeQueue`).
const DIR_NAME: &str = "batchconsumequeue";
/// The setting that the length of the files comes from.
const FILE_LEN_KEY: &str = "mapperFileSizeBatchConsumeQueue";
/// Queues at the most: every record of such a topic can ask for one, so there is a bound.
const QUEUES_MAX: usize = 100_000;
/// Files that are open at the most, beside those of plain queues.
const FILES_OPEN_MAX: usize = 1_024;

/// The batch queues by topic and queue id.
pub struct BatchTable<D: Disk> {
    pub(super) topics: BatchTopics,
    pub(super) segments: Arc<Segments<D, BatchUnit>>,
    pub(super) pending: Arc<Pending<BatchUnit>>,
    writer: TailWriter<D, BatchUnit>,
    pub(super) sync: QueueSync<D, BatchUnit>,
    pub(super) notices: Arc<Notices>,
    is_missing: bool,
}

impl<D: Disk> BatchTable<D> {
    /// The queues of the store at `root`: names and lengths of files only, until
    /// [`BatchTable::recover`]. Has the topics of the settings, too. What is no queue is passed over.
    ///
    /// # Errors
    /// [`Error::WrongFileSize`] for a file of another length than the settings have; [`Error::Io`].
    /// Nothing on disk is changed.
    ///
    /// # Blocking
    /// Reads directories.
    pub fn open(disk: D, root: &Path, config: &StoreConfig, notices: Arc<Notices>) -> Result<Self> {
        let length = FileLength {
            bytes: config.batch_file_len_bytes,
            key: FILE_LEN_KEY,
        };
        let files = Files::new(disk.clone(), length, FILES_OPEN_MAX, 1);
        let segments = Arc::new(Segments::new(disk, root, DIR_NAME, files));
        let pending = Arc::<Pending<BatchUnit>>::default();
        let shared = || (Arc::clone(&segments), Arc::clone(&pending));
        let named: Vec<&str> = config.batch_topics.split_whitespace().collect();
        let is_missing = !named.is_empty() && segments.disk().stat(segments.dir())?.is_none();
        let (for_writer, for_sync) = (shared(), shared());
        let table = Self {
            topics: BatchTopics::default(),
            writer: TailWriter::new(for_writer.0, for_writer.1, |_queue| Ok(())),
            sync: QueueSync::new(for_sync.0, for_sync.1),
            segments,
            pending,
            notices,
            is_missing,
        };
        for topic in named {
            table.topics.add(topic);
        }
        table.walk()?;
        Ok(table)
    }

    fn walk(&self) -> Result<()> {
        walk_queues(
            self.segments.disk(),
            self.segments.dir(),
            self.segments.length(),
            &self.notices,
            |_topic, _queue_id| true,
            |topic, queue_id, range| {
                self.topics.add(topic);
                let state = State::of_files(range.first_base, range.files_end);
                self.topics.insert(topic, queue_id, state);
                Ok(())
            },
        )
    }

    fn handle(&self, queue: Arc<Queue>) -> BatchQueue<D> {
        BatchQueue::new(queue, Arc::clone(&self.segments))
    }

    /// Whether topics have batch queues of which there is not even the directory: somebody removed
    /// all of them, to have them made again from the log.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.is_missing
    }

    /// Whether no topic has batch queues.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// Whether a topic has batch queues.
    #[must_use]
    pub fn has_topic(&self, topic: &[u8]) -> bool {
        self.topics.has_topic(topic)
    }

    /// A queue.
    #[must_use]
    pub fn find(&self, topic: &[u8], queue_id: i32) -> Option<BatchQueue<D>> {
        let queue = self.topics.find(topic, queue_id)?;
        Some(self.handle(queue))
    }

    /// All queues, by topic and queue id.
    #[must_use]
    pub fn all(&self) -> Vec<BatchQueue<D>> {
        let queues = self.topics.queues().into_iter();
        queues.map(|queue| self.handle(queue)).collect()
    }

    /// The topics, in the order of their names.
    #[must_use]
    pub fn topics(&self) -> Vec<Box<str>> {
        self.topics.names()
    }

    /// From now on a topic has batch queues.
    ///
    /// # Durability
    /// None until it has a message: its owner keeps the settings of topics.
    ///
    /// # Errors
    /// [`Error::Limit`] for a name that no directory can have; [`Error::Io`]: it has none then.
    ///
    /// # Blocking
    /// Makes and syncs a directory.
    pub fn declare(&self, topic: &str) -> Result<()> {
        if !is_topic(topic.as_bytes()) {
            let what = format!("{topic:?} as the name of a directory");
            return Err(Error::Limit { what, limit: 0 });
        }
        self.topics.add(topic);
        self.make_dir()
    }

    /// Makes the directory of all of them, whose absence means that they are to be made again.
    fn make_dir(&self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        self.segments.disk().create_dir_all(self.segments.dir())
    }

    /// Queues in the table.
    #[must_use]
    pub fn queue_count(&self) -> usize {
        self.topics.queue_count()
    }

    /// The queue, made if absent; `None` when its topic has no batch queues, or there are too many.
    pub(super) fn queue(&self, topic: &[u8], queue_id: i32) -> Option<Arc<Queue>> {
        if let Some(queue) = self.topics.find(topic, queue_id) {
            return Some(queue);
        }
        let name = std::str::from_utf8(topic).ok()?;
        if self.queue_count() >= QUEUES_MAX {
            self.notices.error(format!(
                "{QUEUES_MAX} batch queues: messages of {name} {queue_id} are in none"
            ));
            return None;
        }
        self.topics.insert(name, queue_id, State::empty())
    }

    /// Looks where every queue ends, and takes away what is not trusted or belongs to records at or
    /// above `log_end`, so that no stale unit can come back. Where not all is trusted, `is_of_log`
    /// answers whether the log has the record of a unit: one that was torn may claim any place.
    ///
    /// # Durability
    /// What was taken away is gone for good.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// Reads, cuts and syncs files.
    pub fn recover(
        &self,
        trust: Trust,
        log_end: u64,
        is_of_log: impl Fn(&BatchQueue<D>, &BatchUnit) -> Result<bool>,
    ) -> Result<()> {
        let recovery = BatchRecovery {
            segments: &self.segments,
            pending: &self.pending,
            trust,
            log_end,
        };
        for queue in self.topics.queues() {
            recovery.recover(&queue, &is_of_log)?;
        }
        self.make_dir()
    }

    /// Bytes in the tails of all queues.
    #[must_use]
    pub fn pending_bytes(&self) -> u64 {
        self.pending.bytes()
    }

    /// Whether a round of writing pays now, before its time.
    #[must_use]
    pub fn is_write_due(&self) -> bool {
        self.pending.is_write_due()
    }

    /// Writes every tail. What could not be written stays in memory and is tried again by the next
    /// call.
    ///
    /// # Durability
    /// What was written survives the process; power loss only after [`BatchTable::sync`].
    ///
    /// # Errors
    /// The first failure of [`Error::Io`]; other queues were written all the same.
    ///
    /// # Blocking
    /// Writes to the page cache; makes directories and files.
    pub fn write_pending(&self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        self.writer.write_pending().map(|_bytes| ())
    }

    /// Largest store time of a unit appended so far; `None` before the first.
    #[must_use]
    pub fn newest_ms(&self) -> Option<i64> {
        let newest_ms = self.pending.newest_ms();
        (newest_ms > i64::MIN).then_some(newest_ms)
    }

    /// Whether there are units that are not durable.
    #[must_use]
    pub fn has_unsynced(&self) -> bool {
        self.pending_bytes() > 0 || self.segments.has_unsynced()
    }

    /// Syncs every file that was written to.
    ///
    /// # Durability
    /// Every unit that [`BatchTable::write_pending`] wrote before the call survives power loss.
    ///
    /// # Errors
    /// [`Error::Io`] when a sync failed, then [`Error::Poisoned`] for good: after a failed sync
    /// nothing is known of the bytes.
    ///
    /// # Blocking
    /// Until the device has answered. Does not hold up appends.
    pub fn sync(&self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        self.sync.sync(0, || Ok(())).map(|_synced| ())
    }
}
