//! The open files of all queues: a bounded number of descriptors, the least used closed first.
//! Knows nothing of units. A file that waits for its sync is closed only when no other is left: an
//! error of its write-back is then still reported to whoever opens it for the sync.

use std::path::Path;
use std::sync::Arc;

use crate::lock::Mutex;
use hashbrown::HashMap;
use rustix::process::{Resource, getrlimit};

use crate::disk::{Disk, DiskFile, Open};
use crate::error::{Error, Result};

/// At the bound this part of the open files is closed at once, so that the choice is paid rarely.
const CLOSE_PART: usize = 8;

/// How long the files of queues are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileLength {
    pub(crate) bytes: u64,
    /// The setting that it comes from.
    pub(crate) key: &'static str,
}

/// A file: the queue's uid, the offset that names it.
pub(crate) type FileKey = (u64, u64);

pub(crate) struct Files<D: Disk> {
    disk: D,
    length: FileLength,
    open_max: usize,
    open: Mutex<OpenFiles<D::File>>,
}

struct OpenFiles<F> {
    map: HashMap<FileKey, OpenFile<F>>,
    tick: u64,
}

struct OpenFile<F> {
    file: Arc<F>,
    used: u64,
    is_dirty: bool,
}

impl<D: Disk> Files<D> {
    /// Files of one length. Of `open_max`, and of what the process may have, one of so many parts is
    /// theirs.
    pub(crate) fn new(disk: D, length: FileLength, open_max: usize, parts: usize) -> Self {
        let open = OpenFiles {
            map: HashMap::new(),
            tick: 0,
        };
        Self {
            disk,
            length,
            open_max: (open_max.min(descriptors_allowed()) / parts).max(CLOSE_PART),
            open: Mutex::new(open),
        }
    }

    fn cached(&self, key: FileKey, makes_dirty: bool) -> Option<Arc<D::File>> {
        let mut open = self.open.lock();
        open.tick += 1;
        let tick = open.tick;
        let found = open.map.get_mut(&key)?;
        found.used = tick;
        found.is_dirty |= makes_dirty;
        Some(Arc::clone(&found.file))
    }

    fn keep(&self, key: FileKey, file: D::File, is_dirty: bool) -> Arc<D::File> {
        let file = Arc::new(file);
        let mut open = self.open.lock();
        if open.map.len() >= self.open_max {
            open.close_some();
        }
        open.tick += 1;
        let used = open.tick;
        let kept = OpenFile {
            file: Arc::clone(&file),
            used,
            is_dirty,
        };
        open.map.insert(key, kept);
        file
    }

    /// An existing file.
    pub(crate) fn existing(
        &self,
        key: FileKey,
        path: impl FnOnce() -> std::path::PathBuf,
    ) -> Result<Arc<D::File>> {
        match self.cached(key, false) {
            Some(file) => Ok(file),
            None => Ok(self.keep(key, self.disk.open(&path(), Open::Write)?, false)),
        }
    }

    /// A file to write to, made sparse at its full length if absent, as Java's mapping makes it.
    pub(crate) fn writable(
        &self,
        key: FileKey,
        path: impl FnOnce() -> std::path::PathBuf,
        is_new: bool,
    ) -> Result<Arc<D::File>> {
        if let Some(file) = self.cached(key, true) {
            return Ok(file);
        }
        let path = path();
        if !is_new {
            return Ok(self.keep(key, self.disk.open(&path, Open::Write)?, true));
        }
        if let Some(dir) = path.parent() {
            // The sync makes the names of the file and of these durable.
            self.disk.create_dirs(dir)?;
        }
        let file = self.disk.open(&path, Open::Create)?;
        self.make_empty(&path, &file)?;
        Ok(self.keep(key, file, true))
    }

    fn make_empty(&self, path: &Path, file: &D::File) -> Result<()> {
        match file.len_bytes()? {
            // New, or left so by a crash between its making and its length.
            0 => file.set_len(self.length.bytes),
            // Left over behind the end of the queue: nothing of it counts.
            len_bytes if len_bytes == self.length.bytes => {
                file.set_len(0)?;
                file.set_len(self.length.bytes)
            }
            len_bytes => Err(Error::WrongFileSize {
                path: path.to_owned(),
                len_bytes,
                expected_bytes: self.length.bytes,
                key: self.length.key,
            }),
        }
    }

    /// How long the files are.
    pub(super) fn length(&self) -> FileLength {
        self.length
    }

    /// The file was synced.
    pub(crate) fn mark_clean(&self, key: FileKey) {
        if let Some(found) = self.open.lock().map.get_mut(&key) {
            found.is_dirty = false;
        }
    }

    /// Closes a file (it is about to be removed).
    pub(crate) fn close(&self, key: FileKey) {
        self.open.lock().map.remove(&key);
    }

    /// Closes all files of a queue.
    pub(crate) fn close_all(&self, uid: u64) {
        self.open.lock().map.retain(|key, _file| key.0 != uid);
    }

    /// Files open now.
    pub(crate) fn open_count(&self) -> usize {
        self.open.lock().map.len()
    }
}

/// Half of the descriptors that the process may have: the others are for the log, for sockets, and
/// for whoever the process belongs to.
fn descriptors_allowed() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit / 2).unwrap_or(usize::MAX)
    })
}

impl<F> OpenFiles<F> {
    fn close_some(&mut self) {
        let mut order: Vec<(bool, u64, FileKey)> = self
            .map
            .iter()
            .map(|(key, file)| (file.is_dirty, file.used, *key))
            .collect();
        let count = (order.len() / CLOSE_PART).max(1).min(order.len());
        order.select_nth_unstable(count - 1);
        for (_, _, key) in order.into_iter().take(count) {
            self.map.remove(&key);
        }
    }
}
