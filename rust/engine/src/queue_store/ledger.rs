//! Which parts of which queue files were written and not yet synced. Knows no descriptor: a file
//! that was closed meanwhile is opened again for its sync.

use std::sync::Arc;

use crate::lock::Mutex;
use hashbrown::HashMap;

use super::files::FileKey;
use super::queue::{NOTHING_WAITS_MS, Queue};
use super::unit::QueueUnit;
use crate::units::PAGE_BYTES;

/// A file that waits for its sync.
#[derive(Debug)]
pub(super) struct Dirty<U: QueueUnit> {
    pub(super) queue: Arc<Queue<U>>,
    pub(super) base: u64,
    /// Positions in the file.
    pub(super) from: u64,
    pub(super) to: u64,
    /// Smallest store time of its unsynced units; `i64::MIN` when bytes were taken back.
    pub(super) oldest_ms: i64,
    /// Its name is not durable either.
    pub(super) is_new: bool,
}

impl<U: QueueUnit> Dirty<U> {
    /// Whether a sync from `least_pages` on takes it (`MappedFile.isAbleToFlush`).
    pub(super) fn is_due(&self, least_pages: u64, file_len_bytes: u64) -> bool {
        let pages = self.to / PAGE_BYTES - self.from / PAGE_BYTES;
        least_pages == 0
            || pages >= least_pages
            || self.to >= file_len_bytes
            || self.oldest_ms == i64::MIN
    }

    fn key(&self) -> FileKey {
        (self.queue.uid(), self.base)
    }
}

/// The files that wait for their sync.
pub(super) struct Ledger<U: QueueUnit> {
    files: Mutex<HashMap<FileKey, Dirty<U>>>,
}

impl<U: QueueUnit> Default for Ledger<U> {
    fn default() -> Self {
        Self {
            files: Mutex::new(HashMap::new()),
        }
    }
}

impl<U: QueueUnit> Ledger<U> {
    /// Adds what was written; joins it with what waits for the same file.
    pub(super) fn note(&self, dirty: Dirty<U>) {
        let mut files = self.files.lock();
        match files.get_mut(&dirty.key()) {
            None => {
                files.insert(dirty.key(), dirty);
            }
            Some(waiting) => {
                waiting.from = waiting.from.min(dirty.from);
                waiting.to = waiting.to.max(dirty.to);
                waiting.oldest_ms = waiting.oldest_ms.min(dirty.oldest_ms);
                waiting.is_new |= dirty.is_new;
            }
        }
    }

    /// Takes those that a sync from `least_pages` on does, in the order of queues and files.
    pub(super) fn take_due(&self, least_pages: u64, file_len_bytes: u64) -> Vec<Dirty<U>> {
        let mut files = self.files.lock();
        let mut due: Vec<Dirty<U>> = files
            .extract_if(|_, dirty| dirty.is_due(least_pages, file_len_bytes))
            .map(|(_, dirty)| dirty)
            .collect();
        due.sort_unstable_by_key(Dirty::key);
        due
    }

    /// Whether no file waits.
    pub(super) fn is_empty(&self) -> bool {
        self.files.lock().is_empty()
    }

    /// Smallest store time of all that waits.
    pub(super) fn oldest_ms(&self) -> i64 {
        let files = self.files.lock();
        let all = files.values().map(|dirty| dirty.oldest_ms);
        all.min().unwrap_or(NOTHING_WAITS_MS)
    }

    /// Forgets a file that is removed.
    pub(super) fn forget(&self, key: FileKey) {
        self.files.lock().remove(&key);
    }

    /// Forgets all files of a queue.
    pub(super) fn forget_all(&self, uid: u64) {
        self.files.lock().retain(|key, _dirty| key.0 != uid);
    }
}
