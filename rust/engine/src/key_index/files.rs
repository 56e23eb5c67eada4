//! The files of the index, in order of their names: the list that all share, making the next file,
//! and removing old and new ones. Knows no keys.
//!
//! Locks: the list is held for a look at it or a change of it (over a call of the disk only by
//! `last_record`, for opening and cutting), and comes behind the lock of the one who puts.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::tz::TimeZone;

use super::file::{IndexFile, read_header};
use super::layout::Layout;
use super::name::next_name;
use crate::disk::{Disk, DiskFile, Open};
use crate::error::{Error, Result};
use crate::lock::RwLock;

/// What a file is called until it is allocated: not digits alone, so that nobody takes it for an
/// index file.
pub(super) const UNFINISHED_SUFFIX: &str = ".new";
/// Entries of one record at the most: properties are at most 32767 bytes long, a key takes two with
/// its separator, and there are two more, the unique one and that of the tags. A damaged file may
/// pretend more.
const RECORD_KEYS_MAX: usize = 32_767 / 2 + 2;

/// Files in order of their names.
pub(super) type Files<D> = Vec<Arc<IndexFile<<D as Disk>::File>>>;

/// The latest record in the index and the keys of it that are in. Telling whether all of them are
/// is what makes a second dispatch of it change nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LastRecord {
    pub(super) physical_offset: u64,
    /// In the order of their entries.
    pub(super) hashes: Vec<u32>,
}

/// The files of an index.
pub(super) struct IndexFiles<D: Disk> {
    pub(super) disk: D,
    pub(super) dir: PathBuf,
    pub(super) layout: Layout,
    pub(super) list: RwLock<Files<D>>,
}

impl<D: Disk> IndexFiles<D> {
    /// The files as they are now.
    pub(super) fn now(&self) -> Files<D> {
        self.list.read().clone()
    }

    /// Physical offset of the latest record in the index; 0 when it is empty.
    pub(super) fn end_offset(&self) -> u64 {
        let files = self.list.read();
        files
            .iter()
            .map(|file| file.end_offset())
            .max()
            .unwrap_or(0)
    }

    /// The latest record in the files, with the hashes of its keys.
    pub(super) fn last_record(&self) -> Result<Option<LastRecord>> {
        let mut last: Option<LastRecord> = None;
        let files = self.list.read();
        'files: for file in files.iter().rev() {
            let mut number = file.next_number() - 1;
            while number > 0 {
                let entry = file.entry(number)?;
                let offset = entry.physical_offset.cast_unsigned();
                let record = last.get_or_insert_with(|| LastRecord {
                    physical_offset: offset,
                    hashes: Vec::new(),
                });
                if record.physical_offset != offset || record.hashes.len() == RECORD_KEYS_MAX {
                    break 'files;
                }
                record.hashes.push(entry.key_hash);
                number -= 1;
            }
        }
        if let Some(record) = &mut last {
            record.hashes.reverse();
        }
        Ok(last)
    }

    /// Puts `file` in the place of the one of the same name.
    pub(super) fn replace(&self, file: &Arc<IndexFile<D::File>>) {
        let mut files = self.list.write();
        if let Some(slot) = files.iter_mut().find(|slot| slot.name() == file.name()) {
            *slot = Arc::clone(file);
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
                let files = self.list.read();
                match files.last() {
                    Some(newest) if files.len() > from => Arc::clone(newest),
                    _ => break,
                }
            };
            if newest.has_name()? {
                self.disk.unlink(newest.path())?;
            }
            self.list.write().pop();
            dropped = true;
        }
        if dropped {
            self.disk.sync_dir(&self.dir)?;
        }
        Ok(())
    }

    /// Removes the oldest files that hold nothing of the log from `log_min` on; never the newest
    /// (`IndexService.deleteExpiredFile`). Returns how many.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]; files after the failing one stay.
    pub(super) fn retain(&self, log_min: u64) -> Result<usize> {
        let mut removed = 0;
        loop {
            let oldest = {
                let files = self.list.read();
                match files.first() {
                    Some(oldest) if files.len() > 1 && oldest.end_offset() < log_min => {
                        Arc::clone(oldest)
                    }
                    _ => break,
                }
            };
            if oldest.has_name()? {
                self.disk.unlink(oldest.path())?;
            }
            self.list
                .write()
                .retain(|file| file.name() != oldest.name());
            removed += 1;
        }
        if removed > 0 {
            self.disk.sync_dir(&self.dir)?;
        }
        Ok(removed)
    }

    /// A mapped file with free entries: the newest one, or a new one.
    ///
    /// # Blocking
    /// Until a new one is allocated and its name synced.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Limit`] after the last name.
    pub(super) fn next(&self, now_ms: i64) -> Result<Arc<IndexFile<D::File>>> {
        let newest = self.list.read().last().map(Arc::clone);
        if let Some(newest) = &newest
            && !newest.is_full()
        {
            let mapped = Arc::new(newest.mapped()?);
            self.replace(&mapped);
            return Ok(mapped);
        }
        let last = newest.as_ref().map(|newest| newest.name());
        let name = next_name(now_ms, TimeZone::system(), last).ok_or_else(|| Error::Limit {
            what: format!("an index file after {}", last.unwrap_or_default()),
            limit: 99_999_999_999_999_999,
        })?;
        let file = Arc::new(self.make_file(&name)?);
        if let Some(newest) = &newest {
            file.preset(newest.end_offset(), newest.end_timestamp_ms());
        }
        self.list.write().push(Arc::clone(&file));
        Ok(file)
    }

    /// An empty, mapped file under this name: allocated and synced under another name first, so
    /// that a crash never leaves an index file of another size.
    fn make_file(&self, name: &str) -> Result<IndexFile<D::File>> {
        self.disk.create_dir_all(&self.dir)?;
        let path = self.dir.join(name);
        let unfinished = self.dir.join(format!("{name}{UNFINISHED_SUFFIX}"));
        let made = (|| {
            let file = self.disk.open(&unfinished, Open::Create)?;
            file.allocate(self.layout.len_bytes())?;
            file.sync_data()?;
            drop(file);
            self.disk.rename(&unfinished, &path)?;
            self.disk.sync_dir(&self.dir)?;
            let file = self.disk.open(&path, Open::Write)?;
            let header = read_header(&file)?;
            IndexFile::new(name, file, self.layout, &header).mapped()
        })();
        if made.is_err() {
            // What it took is given back. The first error counts; when this fails too, the next
            // opening removes an unfinished file, and takes an empty one as one without entries.
            let _absent_or_stays = self.disk.unlink(&unfinished);
            let _absent_or_stays = self.disk.unlink(&path);
        }
        made
    }
}
