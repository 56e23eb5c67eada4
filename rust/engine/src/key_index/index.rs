//! The key index as its owner holds it: opened, asked, and taken apart into who puts and who syncs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use mqcore_record::index_key_hash;

use super::files::IndexFiles;
use super::layout::{IndexEntry, Layout};
use super::load::{Opening, find};
use super::query::{self, QueryAnswer, Wanted};
use super::scan;
use super::sync::IndexSync;
use super::write::{IndexState, IndexWriter};
use crate::clock::Clock;
use crate::disk::Disk;
use crate::error::Result;
use crate::lock::RwLock;
use crate::notice::Notices;
use crate::poison::Poison;

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

/// The index of a store.
pub struct KeyIndex<D: Disk, C: Clock> {
    files: Arc<IndexFiles<D>>,
    writer: Arc<IndexWriter<D, C>>,
    sync: IndexSync<D, C>,
    query_max: usize,
    /// Files that were not trusted when the index was opened.
    dropped_files: usize,
}

impl<D: Disk, C: Clock> KeyIndex<D, C> {
    /// Opens the index. Files that cannot be trusted (after an abnormal exit: that are not full,
    /// or end after the checkpoint; always: whose header does not hold) are removed, and every
    /// file after them, so that what stays has no gap. Other names are left alone.
    ///
    /// # Errors
    /// [`crate::error::Error::WrongFileSize`] when a file has another size than the settings give;
    /// nothing was changed then. [`crate::error::Error::Io`], [`crate::error::Error::Config`].
    pub fn open(disk: &D, clock: &C, notices: &Arc<Notices>, opening: Opening<'_>) -> Result<Self> {
        let layout = Layout::new(opening.config)?;
        let found = find(disk, layout, notices, &opening)?;
        let dropped_files = found.files.len().saturating_sub(found.keep);
        let files = Arc::new(IndexFiles {
            disk: disk.clone(),
            dir: opening.dir.to_owned(),
            layout,
            list: RwLock::new(found.files),
        });
        for name in &found.unfinished {
            disk.unlink(&opening.dir.join(name))?;
        }
        files.drop_from(found.keep)?;
        let writer = Arc::new(IndexWriter::new(&files, clock, notices)?);
        Ok(Self {
            sync: IndexSync {
                files: Arc::clone(&files),
                writer: Arc::clone(&writer),
                notices: Arc::clone(notices),
                is_disturbed: AtomicBool::new(false),
                poison: Poison::default(),
            },
            query_max: opening.config.query_max,
            dropped_files,
            files,
            writer,
        })
    }

    /// Whether [`KeyIndex::open`] would refuse: changes nothing, so it can be asked before the
    /// rest of the store is changed.
    ///
    /// # Errors
    /// As for [`KeyIndex::open`].
    pub fn check(disk: &D, opening: &Opening<'_>) -> Result<()> {
        let layout = Layout::new(opening.config)?;
        // What is worth reporting is reported when the index is opened.
        find(disk, layout, &Notices::default(), opening).map(drop)
    }

    /// What puts keys.
    #[must_use]
    pub fn writer(&self) -> &IndexWriter<D, C> {
        &self.writer
    }

    /// What syncs files.
    #[must_use]
    pub fn syncing(&self) -> &IndexSync<D, C> {
        &self.sync
    }

    /// Physical offset of the latest record in the index; 0 when it is empty.
    #[must_use]
    pub fn end_offset(&self) -> u64 {
        self.files.end_offset()
    }

    /// Figures.
    #[must_use]
    pub fn stats(&self) -> IndexStats {
        let state = self.writer.state();
        let files = self.files.list.read();
        let len = self.files.layout.len_bytes();
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
    /// dispatch has to start at [`IndexWriter::resume_offset`], also after a clean end.
    #[must_use]
    pub fn dropped_files(&self) -> usize {
        self.dropped_files
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.files.dir
    }

    /// The newest `max` records (at most `maxMsgsNumBatch`) of the topic with the key that were
    /// stored between `begin_ms` and `end_ms`, both inclusive. The index keeps whole seconds after
    /// the begin of a file, so a record counts as stored up to one second before it was.
    ///
    /// # Blocking
    /// Reads the disk where the page cache has not the pages: two reads per entry of the slot.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn query(
        &self,
        topic: &[u8],
        key: &[u8],
        max: usize,
        begin_ms: i64,
        end_ms: i64,
    ) -> Result<QueryAnswer> {
        let wanted = Wanted {
            hash: index_key_hash(topic, key),
            max: max.min(self.query_max),
            begin_ms,
            end_ms,
        };
        query::find::<D>(&self.files.now(), &wanted)
    }

    /// Every entry of the index, oldest first, as it is in the files.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`] for the list of files; then per entry.
    pub fn entries(&self) -> Result<impl Iterator<Item = Result<IndexEntry>> + use<D, C>> {
        scan::entries(&self.files.disk, &self.files.dir, self.files.layout)
    }

    /// Removes the oldest files that hold nothing of the log from `log_min` on; never the newest
    /// (`IndexService.deleteExpiredFile`). Returns how many.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]; files after the failing one stay.
    pub fn retain(&self, log_min: u64) -> Result<usize> {
        self.files.retain(log_min)
    }
}
