//! All queues of a store, found by topic and queue id without allocating. Holds what the verbs
//! beside it share (files, ledger, gates); decides nothing about units.
//!
//! Locks, always taken in this order: mend gate, sync gate, write gate, shard, queue, then (one at a time) the
//! pending list, the ledger, the open files. Nothing waits for a disk while it holds a queue's lock,
//! but for the first look at a queue.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::lock::{Mutex, RwLock};
use hashbrown::HashTable;

use super::extension::{Extensions, queue_files_part};
use super::files::{FILE_LEN_KEY, Files};
use super::holes::{Absent, Counts, LogSide};
use super::ledger::Ledger;
use super::queue::{Queue, State};
use super::suspects::Suspect;
use super::unit::Bounds;
use super::walk::walk_queues;
use crate::config::StoreConfig;
use crate::disk::Disk;
use crate::error::Result;
use crate::notice::Notices;
use crate::poison::Poison;
use crate::units::offset_file_name;

/// Queues at the most: some 300 MB of them. Every name in a log can ask for one, so there is a bound.
pub(super) const QUEUES_MAX: usize = 1_000_000;
/// Parts of the table that are locked apart: more than the threads that dispatch and read.
const SHARDS: usize = 32;
/// The directory of the queues below the root (`StorePathConfigHelper.getStorePathConsumeQueue`).
const DIR_NAME: &str = "consumequeue";

/// All consume queues of a store.
pub struct QueueTable<D: Disk> {
    pub(super) disk: D,
    pub(super) root: PathBuf,
    pub(super) dir: PathBuf,
    pub(super) file_len_bytes: u64,
    pub(super) files: Files<D>,
    pub(super) ledger: Ledger,
    pub(super) extensions: Extensions<D>,
    pub(super) pending: Pending,
    /// Held while tails are written or units are taken back.
    pub(super) write_gate: Mutex<()>,
    /// Held while files are synced.
    pub(super) sync_gate: Mutex<()>,
    pub(super) sync_failed: Poison,
    /// First byte of the log, as last told: units below it count for nothing.
    pub(super) log_min: AtomicU64,
    /// The manifest stands on disk and must go before the first change.
    is_from_manifest: bool,
    /// It is of the last stop, though directories may have been changed or copied since.
    has_witness: bool,
    /// Parts that the manifest names and the directories have not.
    pub(super) absent: Mutex<Vec<Absent>>,
    /// Set while the end of the log is dispatched again at the opening.
    pub(super) suspects: Mutex<Option<Vec<Suspect>>>,
    pub(super) log: OnceLock<Box<dyn LogSide<D>>>,
    /// Held while units are made again.
    pub(super) mend_gate: Mutex<()>,
    pub(super) counts: Counts,
    pub(super) has_manifest: AtomicBool,
    /// Neither a manifest nor a witness is there.
    pub(super) is_witness_void: AtomicBool,
    /// How often queues may have become shorter.
    pub(super) witness_voids: AtomicU64,
    /// The witness that was written last: `witness_voids` then, and the sum of its bytes.
    pub(super) witness_written: Mutex<Option<(u64, u32)>>,
    pub(super) notices: Arc<Notices>,
    shards: Vec<RwLock<HashTable<Arc<Queue>>>>,
    topics: Mutex<HashTable<Arc<str>>>,
    seed: u64,
    next_uid: AtomicU64,
    count: AtomicUsize,
}

/// Queues with a tail to write.
pub(super) struct Pending {
    pub(super) queues: Mutex<Vec<Arc<Queue>>>,
    pub(super) bytes: AtomicU64,
    /// Largest store time appended; `i64::MIN` before the first.
    pub(super) newest_ms: AtomicI64,
}

/// What a report says of a queue.
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
    /// Opens the queues of the store at `root`. With a `stamp` equal to that of the manifest no
    /// directory is read ([`QueueTable::save_manifest`]); else all are walked, names and lengths
    /// only. The state of a queue is looked up at its first use.
    ///
    /// # Errors
    /// [`crate::error::Error::WrongFileSize`] for a file of another length than the settings say,
    /// [`crate::error::Error::Io`]. Nothing on disk is changed.
    ///
    /// # Blocking
    /// Reads directories.
    pub fn open(
        disk: D,
        root: &Path,
        config: &StoreConfig,
        notices: Arc<Notices>,
        stamp: Option<&[u8]>,
    ) -> Result<Self> {
        let file_len_bytes = config.queue_file_len_bytes;
        let files = Files::new(
            disk.clone(),
            (file_len_bytes, FILE_LEN_KEY),
            config.queue_files_open_max,
            queue_files_part(config),
        );
        let mut table = Self {
            is_from_manifest: false,
            has_witness: false,
            root: root.to_owned(),
            dir: root.join(DIR_NAME),
            file_len_bytes,
            files,
            ledger: Ledger::default(),
            extensions: Extensions::open(&disk, root, config)?,
            pending: Pending {
                queues: Mutex::new(Vec::new()),
                bytes: AtomicU64::new(0),
                newest_ms: AtomicI64::new(i64::MIN),
            },
            write_gate: Mutex::new(()),
            sync_gate: Mutex::new(()),
            sync_failed: Poison::default(),
            log_min: AtomicU64::new(0),
            absent: Mutex::new(Vec::new()),
            suspects: Mutex::new(None),
            log: OnceLock::new(),
            mend_gate: Mutex::new(()),
            counts: Counts::default(),
            has_manifest: AtomicBool::new(false),
            is_witness_void: AtomicBool::new(false),
            witness_voids: AtomicU64::new(0),
            witness_written: Mutex::new(None),
            notices,
            shards: (0..SHARDS).map(|_| RwLock::new(HashTable::new())).collect(),
            topics: Mutex::new(HashTable::new()),
            // Topics come from clients: with a seed nobody can choose names that collide.
            seed: RandomState::new().build_hasher().finish(),
            next_uid: AtomicU64::new(0),
            count: AtomicUsize::new(0),
            disk,
        };
        let (is_same, is_witness) = table.load_manifest(stamp)?;
        (table.is_from_manifest, table.has_witness) = (is_same, is_witness);
        if is_witness {
            table.compare_with_directories()?;
        }
        if !is_same {
            table.walk(is_witness)?;
        }
        Ok(table)
    }

    /// With a manifest that is a witness, of the queues alone that it does not name.
    fn walk(&self, is_witness: bool) -> Result<()> {
        let len = self.file_len_bytes;
        walk_queues(
            &self.disk,
            &self.dir,
            len,
            &self.notices,
            |topic, queue_id| !is_witness || self.find(topic.as_bytes(), queue_id).is_none(),
            |topic, queue_id, range| {
                let state = if range.files_end == range.first_base {
                    State::empty()
                } else {
                    State::of_files(range.first_base, range.files_end)
                };
                self.insert(topic, queue_id, state);
                Ok(())
            },
        )
    }

    /// Hash of a key: a folded multiplication per 8 bytes.
    #[inline]
    fn hash(&self, topic: &[u8], queue_id: i32) -> u64 {
        let mut hash = self.seed ^ topic.len() as u64;
        let (words, rest) = topic.as_chunks::<8>();
        for word in words {
            hash = fold(hash ^ u64::from_le_bytes(*word));
        }
        let mut last = [0u8; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = fold(hash ^ u64::from_le_bytes(last));
        fold(hash ^ u64::from(queue_id.cast_unsigned()) ^ SECOND_FACTOR)
    }

    #[inline]
    fn shard(&self, hash: u64) -> &RwLock<HashTable<Arc<Queue>>> {
        // The table itself takes the lowest and the highest bits.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// Calls `use_` with the queue, if there is one.
    #[inline]
    pub(super) fn with_queue<T>(
        &self,
        topic: &[u8],
        queue_id: i32,
        use_: impl FnOnce(&Arc<Queue>) -> T,
    ) -> Option<T> {
        let hash = self.hash(topic, queue_id);
        let shard = self.shard(hash).read();
        let queue = shard.find(hash, |queue| is_named(queue, hash, topic, queue_id))?;
        Some(use_(queue))
    }

    /// Whether the manifest told the state of the queues at the opening, so that none had to be
    /// looked at.
    #[must_use]
    pub fn is_from_manifest(&self) -> bool {
        self.is_from_manifest
    }

    /// Whether a manifest of the last stop says which queues there are.
    #[must_use]
    pub fn has_witness(&self) -> bool {
        self.has_witness
    }

    /// The queue, if there is one.
    #[must_use]
    pub fn find(&self, topic: &[u8], queue_id: i32) -> Option<Arc<Queue>> {
        self.with_queue(topic, queue_id, Arc::clone)
    }

    /// Adds a queue, or gives the one that is there already.
    pub(super) fn insert(&self, topic: &str, queue_id: i32, state: State) -> Arc<Queue> {
        let name = self.intern(topic);
        let hash = self.hash(topic.as_bytes(), queue_id);
        let mut shard = self.shard(hash).write();
        let is_same = |queue: &Arc<Queue>| is_named(queue, hash, topic.as_bytes(), queue_id);
        if let Some(there) = shard.find(hash, is_same) {
            return Arc::clone(there);
        }
        let uid = self.next_uid.fetch_add(1, Ordering::Relaxed);
        let queue = Arc::new(Queue::new(name, queue_id, uid, hash, state));
        shard.insert_unique(hash, Arc::clone(&queue), |queue| queue.hash());
        self.count.fetch_add(1, Ordering::Relaxed);
        queue
    }

    /// Takes a queue out of the table.
    pub(super) fn take_out(&self, queue: &Queue) {
        let hash = queue.hash();
        let mut shard = self.shard(hash).write();
        if let Ok(found) = shard.find_entry(hash, |other| other.uid() == queue.uid()) {
            let _taken = found.remove();
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// One text per topic, shared by its queues.
    fn intern(&self, topic: &str) -> Arc<str> {
        let hash = self.hash(topic.as_bytes(), 0);
        let mut topics = self.topics.lock();
        if let Some(there) = topics.find(hash, |there| **there == *topic) {
            return Arc::clone(there);
        }
        let name: Arc<str> = Arc::from(topic);
        let rehash = |there: &Arc<str>| self.hash(there.as_bytes(), 0);
        topics.insert_unique(hash, Arc::clone(&name), rehash);
        name
    }

    /// Forgets a topic's text when no queue has it any more.
    pub(super) fn forget_topic(&self, topic: &str) {
        let hash = self.hash(topic.as_bytes(), 0);
        let mut topics = self.topics.lock();
        let is_unused = |there: &Arc<str>| **there == *topic && Arc::strong_count(there) == 1;
        if let Ok(found) = topics.find_entry(hash, is_unused) {
            let _taken = found.remove();
        }
    }

    /// Every queue, in the order in which they became known: what is done to each of them on disk
    /// is then done in the same order each time, and a crash in the middle can be reproduced.
    pub(super) fn all(&self) -> Vec<Arc<Queue>> {
        let mut all = Vec::with_capacity(self.len());
        for shard in &self.shards {
            all.extend(shard.read().iter().map(Arc::clone));
        }
        all.sort_unstable_by_key(|queue| queue.uid());
        all
    }

    /// Queues in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// True when there is no queue.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Queue files open now; at most `queueFilesOpenMax`.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.files.open_count()
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
        for queue in self.all() {
            let state = self.lock_told(&queue)?;
            let size_bytes = state.files_end - state.first_base;
            infos.push(QueueInfo {
                topic: Arc::clone(queue.topic_name()),
                queue_id: queue.queue_id(),
                bounds: state.bounds(),
                files: size_bytes / self.file_len_bytes,
                size_bytes,
            });
        }
        infos.sort_by(|a, b| (&a.topic, a.queue_id).cmp(&(&b.topic, b.queue_id)));
        Ok(infos)
    }

    pub(super) fn queue_dir(&self, queue: &Queue) -> PathBuf {
        queue_dir_in(&self.dir, queue)
    }

    pub(super) fn file_path(&self, queue: &Queue, base: u64) -> PathBuf {
        self.queue_dir(queue).join(offset_file_name(base))
    }
}

/// The directory of a queue below one of all queues.
pub(super) fn queue_dir_in(dir: &Path, queue: &Queue) -> PathBuf {
    let topic_dir = dir.join(queue.topic());
    topic_dir.join(queue.queue_id().to_string())
}

const FIRST_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND_FACTOR: u64 = 0xd1b5_4a32_d192_ed03;

#[inline]
fn fold(value: u64) -> u64 {
    let wide = u128::from(value) * u128::from(FIRST_FACTOR);
    (wide as u64) ^ ((wide >> 64) as u64)
}

#[inline]
fn is_named(queue: &Queue, hash: u64, topic: &[u8], queue_id: i32) -> bool {
    queue.hash() == hash && queue.queue_id() == queue_id && queue.topic().as_bytes() == topic
}
