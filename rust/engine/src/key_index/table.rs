//! The key index as its owner holds it: the files in order, the one writer's state, and what can
//! be told of them. The verbs are in their own files: `load`, `write`, `query`, `keep`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::lock::{Mutex, RwLock};

use super::file::IndexFile;
use super::layout::Layout;
use crate::clock::Clock;
use crate::config::StoreConfig;
use crate::disk::{Disk, DiskFile};
use crate::error::Result;
use crate::notice::Notices;
use crate::poison::Poison;

/// How the store ended the last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastExit {
    /// Everything was synced.
    Clean,
    /// The `abort` marker was there. Only full files up to this time are known to be whole.
    Abnormal {
        /// `indexMsgTimestamp` of the checkpoint.
        checkpoint_index_timestamp_ms: i64,
    },
}

/// What an index is opened with.
#[derive(Debug, Clone, Copy)]
pub struct Opening<'a> {
    /// The directory of the index; made when the first file is.
    pub dir: &'a Path,
    /// Slots, entries and the bound of answers.
    pub config: &'a StoreConfig,
    /// How the store ended the last time.
    pub last_exit: LastExit,
}

/// Whether keys are being indexed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexState {
    /// Yes.
    Running,
    /// No: the disk has no room for the next file. Appends go on; the index is missing from this
    /// record on.
    Paused {
        /// Physical offset of the first record that is not indexed, or not with all its keys.
        resume_offset: u64,
    },
    /// There is room again; dispatch has to come back to this record first.
    CatchingUp {
        /// As for `Paused`.
        resume_offset: u64,
    },
}

/// Figures of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexStats {
    /// Files.
    pub files: usize,
    /// Entries in all of them.
    pub entries: u64,
    /// Bytes of all of them.
    pub len_bytes: u64,
    /// Of these, mapped.
    pub mapped_bytes: u64,
    /// Physical offset of the latest record that was indexed, 0 when none was.
    pub end_offset: u64,
    /// Its store time, ms.
    pub end_timestamp_ms: i64,
    /// Whether keys are being indexed.
    pub state: IndexState,
}

/// Files in order of their names.
pub(super) type Files<D> = Vec<Arc<IndexFile<<D as Disk>::File>>>;

/// The index of a store.
pub struct KeyIndex<D: Disk, C: Clock> {
    pub(super) disk: D,
    pub(super) clock: C,
    pub(super) dir: PathBuf,
    pub(super) layout: Layout,
    pub(super) query_max: usize,
    /// Files that were not trusted when the index was opened.
    pub(super) dropped_files: usize,
    pub(super) notices: Arc<Notices>,
    pub(super) files: RwLock<Files<D>>,
    pub(super) writer: Mutex<Writer<D::File>>,
    /// True while [`IndexState`] is not `Running`: asked without taking the writer's lock.
    pub(super) is_behind: AtomicBool,
    /// Set when the directory no longer held just these files: see [`KeyIndex::check_names`].
    pub(super) is_disturbed: AtomicBool,
    /// Set by the first failed sync: what the files hold on the device is then unknown.
    pub(super) sync_poison: Poison,
}

/// What only the one that puts touches.
pub(super) struct Writer<F: DiskFile> {
    /// The newest file, mapped; `None` until the first put.
    pub(super) current: Option<Arc<IndexFile<F>>>,
    pub(super) state: IndexState,
    /// While paused: when to look for room again, in elapsed ms.
    pub(super) retry_at_ms: u64,
    pub(super) last: Option<LastRecord>,
}

/// The latest record in the index and the keys of it that are in. Telling whether all of them are
/// is what makes a second dispatch of it change nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LastRecord {
    pub(super) physical_offset: u64,
    /// In the order of their entries.
    pub(super) hashes: Vec<u32>,
}

impl<D: Disk, C: Clock> KeyIndex<D, C> {
    /// Physical offset of the latest record in the index; 0 when it is empty.
    #[must_use]
    pub fn end_offset(&self) -> u64 {
        let files = self.files.read();
        files
            .iter()
            .map(|file| file.end_offset())
            .max()
            .unwrap_or(0)
    }

    /// Where dispatch has to start so that no key is missing: the first record that is not indexed
    /// or might be so in part. Records before it that have a key are all indexed.
    #[must_use]
    pub fn resume_offset(&self) -> u64 {
        match self.writer.lock().state {
            IndexState::Running => self.end_offset(),
            IndexState::Paused { resume_offset } | IndexState::CatchingUp { resume_offset } => {
                resume_offset
            }
        }
    }

    /// Whether keys are being indexed.
    #[must_use]
    pub fn state(&self) -> IndexState {
        self.writer.lock().state
    }

    /// Figures.
    #[must_use]
    pub fn stats(&self) -> IndexStats {
        let state = self.state();
        let files = self.files.read();
        let len = self.layout.len_bytes();
        let mapped = files.iter().filter(|file| file.is_mapped()).count() as u64;
        IndexStats {
            files: files.len(),
            entries: files
                .iter()
                .map(|file| u64::from(file.next_number() - 1))
                .sum(),
            len_bytes: len * files.len() as u64,
            mapped_bytes: len * mapped,
            end_offset: files.last().map_or(0, |file| file.end_offset()),
            end_timestamp_ms: files.last().map_or(0, |file| file.end_timestamp_ms()),
            state,
        }
    }

    /// How many files were not trusted and removed when the index was opened. Where there was one,
    /// dispatch has to start at [`KeyIndex::resume_offset`], also after a clean end.
    #[must_use]
    pub fn dropped_files(&self) -> usize {
        self.dropped_files
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn set_state(&self, writer: &mut Writer<D::File>, state: IndexState) {
        writer.state = state;
        let is_behind = state != IndexState::Running;
        self.is_behind.store(is_behind, Ordering::Release);
    }

    /// Puts `file` in the place of the one of the same name.
    pub(super) fn replace(&self, file: &Arc<IndexFile<D::File>>) {
        let mut files = self.files.write();
        if let Some(place) = files.iter_mut().find(|place| place.name() == file.name()) {
            *place = Arc::clone(file);
        }
    }

    /// Removes the files from `from` on, newest first, so that what stays is always without gaps.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]; files before the failing one are still there.
    pub(super) fn drop_from(&self, from: usize) -> Result<()> {
        let mut dropped = false;
        loop {
            let newest = {
                let files = self.files.read();
                match files.last() {
                    Some(newest) if files.len() > from => Arc::clone(newest),
                    _ => break,
                }
            };
            if newest.has_name()? {
                self.disk.unlink(newest.path())?;
            }
            self.files.write().pop();
            dropped = true;
        }
        if dropped {
            self.disk.sync_dir(&self.dir)?;
        }
        Ok(())
    }
}
