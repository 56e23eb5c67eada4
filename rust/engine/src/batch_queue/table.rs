//! Which topics have batch queues, and their queues. A topic is one of them when its owner says so (in
//! the settings, or later), and when it has such queues on disk; until it is deleted.
//!
//! Locks, always taken in this order: write gate, sync gate, topics, queue, then (one at a time) the
//! lists of pending and dirty queues.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use hashbrown::HashMap;

use super::queue::{BatchQueue, State};
use crate::config::{BATCH_UNIT_BYTES, StoreConfig};
use crate::disk::{Disk, Entry};
use crate::error::{Error, Result};
use crate::lock::{Mutex, RwLock};
use crate::notice::Notices;
use crate::poison::Poison;
use crate::units::{is_topic, parse_offset_file_name, parse_queue_id};

/// The directory of the queues below the root (`StorePathConfigHelper.getStorePathBatchConsumeQueue`).
pub(super) const DIR_NAME: &str = "batchconsumequeue";
/// The setting that the length of the files comes from.
const FILE_LEN_KEY: &str = "mapperFileSizeBatchConsumeQueue";
/// Queues at the most: every record of such a topic can ask for one, so there is a bound.
pub(super) const QUEUES_MAX: u64 = 100_000;

type Queues<D> = HashMap<i32, Arc<BatchQueue<D>>>;

/// The batch queues by topic and queue id.
pub struct BatchTable<D: Disk> {
    pub(super) disk: D,
    pub(super) root: PathBuf,
    pub(super) dir: PathBuf,
    pub(super) file_units: u64,
    pub(super) notices: Arc<Notices>,
    pub(super) topics: RwLock<HashMap<Box<str>, Queues<D>>>,
    /// Nearly every store has none: one look, then, in place of a lock for each record.
    has_topics: AtomicBool,
    count: AtomicU64,
    is_missing: bool,
    pub(super) pending: Mutex<Vec<Arc<BatchQueue<D>>>>,
    pub(super) pending_bytes: AtomicU64,
    pub(super) dirty: Mutex<Vec<Arc<BatchQueue<D>>>>,
    /// Largest store time appended; `i64::MIN` before the first.
    pub(super) newest_ms: AtomicI64,
    /// Held while tails are written or files are removed.
    pub(super) write_gate: Mutex<()>,
    /// Held while files are synced.
    pub(super) sync_gate: Mutex<()>,
    pub(super) sync_failed: Poison,
}

impl<D: Disk> BatchTable<D> {
    /// The queues of the store at `root`: names and lengths of files only, until
    /// [`BatchTable::recover`]. Has the topics of the settings, too. What is no queue is passed over.
    ///
    /// # Errors
    /// [`Error::WrongFileSize`] for a file of another length than the settings say; [`Error::Io`].
    /// Nothing on disk is changed.
    ///
    /// # Blocking
    /// Reads directories.
    pub fn open(disk: D, root: &Path, config: &StoreConfig, notices: Arc<Notices>) -> Result<Self> {
        let dir = root.join(DIR_NAME);
        let named: Vec<&str> = config.batch_topics.split_whitespace().collect();
        let is_missing = !named.is_empty() && disk.stat(&dir)?.is_none();
        let table = Self {
            root: root.to_owned(),
            dir,
            file_units: config.batch_file_len_bytes / BATCH_UNIT_BYTES,
            notices,
            topics: RwLock::new(HashMap::new()),
            has_topics: AtomicBool::new(false),
            count: AtomicU64::new(0),
            is_missing,
            pending: Mutex::new(Vec::new()),
            pending_bytes: AtomicU64::new(0),
            dirty: Mutex::new(Vec::new()),
            newest_ms: AtomicI64::new(i64::MIN),
            write_gate: Mutex::new(()),
            sync_gate: Mutex::new(()),
            sync_failed: Poison::default(),
            disk,
        };
        for topic in named {
            table.know(topic);
        }
        table.walk()?;
        Ok(table)
    }

    fn walk(&self) -> Result<()> {
        for topic in self.disk.list(&self.dir)? {
            if !topic.is_dir || !is_topic(topic.name.as_bytes()) {
                continue;
            }
            let topic_dir = self.dir.join(&topic.name);
            let entries = self.disk.list(&topic_dir)?;
            for entry in entries.iter().filter(|entry| entry.is_dir) {
                let Some(queue_id) = parse_queue_id(&entry.name) else {
                    continue;
                };
                self.know(&topic.name);
                let files = self.disk.list(&topic_dir.join(&entry.name))?;
                let (first, room) = self.range_of(&topic_dir.join(&entry.name), &files)?;
                self.insert(&topic.name, queue_id, State::of_files(first, room));
            }
        }
        Ok(())
    }

    /// Ordinals of the first unit of the files of a queue and behind the last one that they have
    /// room for. A file of length 0 is what a crash leaves between its making and its length: the
    /// queue ends before it, and what follows was never synced.
    fn range_of(&self, queue_dir: &Path, files: &[Entry]) -> Result<(u64, u64)> {
        let file_len_bytes = self.file_units * BATCH_UNIT_BYTES;
        let (mut first, mut room) = (0, 0);
        for entry in files.iter().filter(|entry| !entry.is_dir) {
            let base = parse_offset_file_name(&entry.name);
            let Some(base) = base.filter(|base| base.is_multiple_of(file_len_bytes)) else {
                continue;
            };
            if entry.len_bytes == 0 {
                break;
            }
            let path = queue_dir.join(&entry.name);
            if entry.len_bytes != file_len_bytes {
                return Err(Error::WrongFileSize {
                    path,
                    len_bytes: entry.len_bytes,
                    expected_bytes: file_len_bytes,
                    key: FILE_LEN_KEY,
                });
            }
            let base = base / BATCH_UNIT_BYTES;
            if base != room {
                if room > first {
                    let at = path.display();
                    self.notices.warn(format!(
                        "queue files are missing before {at}: it begins there"
                    ));
                }
                first = base;
            }
            room = base + self.file_units;
        }
        Ok((first, room))
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
        !self.has_topics.load(Ordering::Acquire)
    }

    /// Whether a topic has batch queues.
    #[must_use]
    pub fn has_topic(&self, topic: &[u8]) -> bool {
        !self.is_empty()
            && std::str::from_utf8(topic).is_ok_and(|name| self.topics.read().contains_key(name))
    }

    /// A queue.
    #[must_use]
    pub fn find(&self, topic: &[u8], queue_id: i32) -> Option<Arc<BatchQueue<D>>> {
        if self.is_empty() {
            return None;
        }
        let name = std::str::from_utf8(topic).ok()?;
        self.topics.read().get(name)?.get(&queue_id).map(Arc::clone)
    }

    /// All queues, by topic and queue id: what is done to each of them on disk is then done in the
    /// same order each time, and a crash in the middle can be reproduced.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<BatchQueue<D>>> {
        let topics = self.topics.read();
        let queues = topics.values().flat_map(HashMap::values);
        let mut all: Vec<_> = queues.map(Arc::clone).collect();
        all.sort_unstable_by(|a, b| (&a.topic, a.queue_id).cmp(&(&b.topic, b.queue_id)));
        all
    }

    /// The topics, in the order of their names.
    #[must_use]
    pub fn topics(&self) -> Vec<Box<str>> {
        let mut names: Vec<_> = self.topics.read().keys().cloned().collect();
        names.sort_unstable();
        names
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
        self.know(topic);
        self.make_dir()
    }

    /// Makes the directory of all of them, whose absence says that they are to be made again.
    pub(super) fn make_dir(&self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        self.disk.create_dir_all(&self.dir)
    }

    /// Queues in the table.
    #[must_use]
    pub fn queue_count(&self) -> usize {
        usize::try_from(self.count.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    fn know(&self, topic: &str) {
        if is_topic(topic.as_bytes()) {
            self.topics.write().entry(topic.into()).or_default();
            self.has_topics.store(true, Ordering::Release);
        }
    }

    /// Forgets a topic and gives its queues.
    pub(super) fn forget(&self, topic: &str) -> Vec<Arc<BatchQueue<D>>> {
        let mut topics = self.topics.write();
        let queues = topics.remove(topic).unwrap_or_default();
        self.has_topics.store(!topics.is_empty(), Ordering::Release);
        self.count.fetch_sub(queues.len() as u64, Ordering::Relaxed);
        queues.into_values().collect()
    }

    /// The queue, made if absent; `None` when its topic has no batch queues, or there are too many.
    pub(super) fn queue(&self, topic: &[u8], queue_id: i32) -> Option<Arc<BatchQueue<D>>> {
        if let Some(queue) = self.find(topic, queue_id) {
            return Some(queue);
        }
        let name = std::str::from_utf8(topic).ok()?;
        if self.count.load(Ordering::Relaxed) >= QUEUES_MAX {
            self.notices.error(format!(
                "{QUEUES_MAX} batch queues: messages of {name} {queue_id} are in none"
            ));
            return None;
        }
        self.insert(name, queue_id, State::of_files(0, 0))
    }

    /// Adds a queue, or gives the one that is there; `None` when the topic has no batch queues.
    fn insert(&self, topic: &str, queue_id: i32, state: State<D>) -> Option<Arc<BatchQueue<D>>> {
        let mut topics = self.topics.write();
        let queues = topics.get_mut(topic)?;
        if let Some(there) = queues.get(&queue_id) {
            return Some(Arc::clone(there));
        }
        let dir = self.dir.join(topic).join(queue_id.to_string());
        let disk = self.disk.clone();
        let name = (Arc::from(topic), queue_id);
        let queue = Arc::new(BatchQueue::new(disk, name, dir, self.file_units, state));
        queues.insert(queue_id, Arc::clone(&queue));
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(queue)
    }
}
