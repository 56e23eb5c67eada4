//! The ordered files of one log: contiguous, all of one length. Finding, adding at the end, taking
//! from the front; reading ranges as chunks.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::lock::RwLock;

use crate::disk::{Disk, DiskFile, Entry, Open};
use crate::error::{Error, Result};
use crate::segment::{LogSlice, Segment};
use crate::units::parse_offset_file_name;

/// A range of the log inside one file.
pub struct Chunk<D: Disk> {
    /// Physical offset of the first byte.
    pub start: u64,
    /// Physical offset behind the file that the chunk is of.
    pub segment_end: u64,
    /// The bytes.
    pub bytes: LogSlice<D>,
}

/// The files of a log.
pub struct Chain<D: Disk> {
    dir: PathBuf,
    segment_len_bytes: u64,
    list: RwLock<VecDeque<Arc<Segment<D>>>>,
}

impl<D: Disk> Chain<D> {
    /// Opens what is in `dir`. A file of another length is refused, except an empty or half one at
    /// the very end, which a crash while it was made leaves: it is left out and named in the answer.
    ///
    /// # Errors
    /// [`Error::WrongFileSize`], [`Error::ForeignFile`] for a name that is no offset, a gap, or a
    /// base that is no multiple of the length; [`Error::Io`].
    pub fn open(
        disk: &D,
        dir: &Path,
        segment_len_bytes: u64,
        how: Open,
    ) -> Result<(Self, Vec<PathBuf>)> {
        let mut list: VecDeque<Arc<Segment<D>>> = VecDeque::new();
        let mut unfinished = Vec::new();
        let entries: Vec<Entry> = disk
            .list(dir)?
            .into_iter()
            .filter(|entry| !entry.is_dir)
            .collect();
        for (at, entry) in entries.iter().enumerate() {
            let path = dir.join(&entry.name);
            let Some(base) = parse_offset_file_name(&entry.name) else {
                let why =
                    "a log directory holds files named by 20-digit offsets only; move it away";
                return Err(Error::ForeignFile {
                    path,
                    why: why.to_owned(),
                });
            };
            if entry.len_bytes != segment_len_bytes {
                let is_last = at + 1 == entries.len();
                if is_last && entry.len_bytes == 0 {
                    unfinished.push(path);
                    continue;
                }
                return Err(Error::WrongFileSize {
                    path,
                    len_bytes: entry.len_bytes,
                    expected_bytes: segment_len_bytes,
                    key: "mappedFileSizeCommitLog",
                });
            }
            if let Some(before) = list.back().filter(|before| before.end() != base) {
                let why = format!(
                    "the file before it ends at {}: a file of the log is missing; restore it",
                    before.end()
                );
                return Err(Error::ForeignFile { path, why });
            }
            list.push_back(Arc::new(Segment::open(
                disk,
                path,
                base,
                segment_len_bytes,
                how,
            )?));
        }
        let chain = Self {
            dir: dir.to_owned(),
            segment_len_bytes,
            list: RwLock::new(list),
        };
        Ok((chain, unfinished))
    }

    /// A log of one file.
    #[must_use]
    pub fn of(dir: &Path, segment: Segment<D>) -> Self {
        Self {
            dir: dir.to_owned(),
            segment_len_bytes: segment.end() - segment.base(),
            list: RwLock::new(VecDeque::from([Arc::new(segment)])),
        }
    }

    /// The directory of the log.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Length of each file.
    #[must_use]
    pub fn segment_len_bytes(&self) -> u64 {
        self.segment_len_bytes
    }

    /// Physical offset of the first byte that is kept, 0 for an empty log.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.list.read().front().map_or(0, |first| first.base())
    }

    /// Physical offset behind the last file, 0 for an empty log.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.list.read().back().map_or(0, |last| last.end())
    }

    /// The file that holds `physical_offset`.
    #[must_use]
    pub fn find(&self, physical_offset: u64) -> Option<Arc<Segment<D>>> {
        let list = self.list.read();
        let ahead = physical_offset.checked_sub(list.front()?.base())?;
        list.get(usize::try_from(ahead / self.segment_len_bytes).ok()?)
            .cloned()
    }

    /// All files, oldest first.
    #[must_use]
    pub fn segments(&self) -> Vec<Arc<Segment<D>>> {
        self.list.read().iter().cloned().collect()
    }

    /// Files now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.read().len()
    }

    /// Whether there is no file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.read().is_empty()
    }

    /// The newest file.
    #[must_use]
    pub fn last(&self) -> Option<Arc<Segment<D>>> {
        self.list.read().back().cloned()
    }

    /// Adds the next file.
    pub fn push(&self, segment: Arc<Segment<D>>) {
        self.list.write().push_back(segment);
    }

    /// Takes the oldest file out, but never the newest one.
    #[must_use]
    pub fn pop_front(&self) -> Option<Arc<Segment<D>>> {
        let mut list = self.list.write();
        if list.len() > 1 {
            list.pop_front()
        } else {
            None
        }
    }

    /// Takes out every file that starts at or after `physical_offset`, newest first.
    #[must_use]
    pub fn pop_from(&self, physical_offset: u64) -> Vec<Arc<Segment<D>>> {
        let mut list = self.list.write();
        let mut out = Vec::new();
        while list
            .back()
            .is_some_and(|last| last.base() >= physical_offset)
        {
            out.extend(list.pop_back());
        }
        out
    }

    /// Up to `len_max` bytes from `physical_offset` to at most `limit`, inside one file; `None` at
    /// the limit or outside of the log.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk where the file has no map.
    pub fn chunk(
        &self,
        physical_offset: u64,
        limit: u64,
        len_max: usize,
    ) -> Result<Option<Chunk<D>>> {
        self.chunk_into(physical_offset, limit, len_max, Vec::new())
    }

    /// As [`Chain::chunk`], with a buffer of an earlier chunk to read into
    /// ([`LogSlice::into_spare`]).
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// As [`Chain::chunk`].
    pub fn chunk_into(
        &self,
        physical_offset: u64,
        limit: u64,
        len_max: usize,
        spare: Vec<u8>,
    ) -> Result<Option<Chunk<D>>> {
        let Some(segment) = self.find(physical_offset) else {
            return Ok(None);
        };
        let end = segment
            .end()
            .min(limit)
            .min(physical_offset.saturating_add(len_max as u64));
        if physical_offset >= end {
            return Ok(None);
        }
        let position = physical_offset - segment.base();
        let len = (end - physical_offset) as usize;
        let bytes = segment.bytes_into(position, len, spare)?;
        Ok(Some(Chunk {
            start: physical_offset,
            segment_end: segment.end(),
            bytes,
        }))
    }

    /// The bytes of one record.
    ///
    /// # Errors
    /// [`Error::NoRecord`] outside of the log or across its files, [`Error::Io`].
    pub fn bytes(&self, physical_offset: u64, len: usize) -> Result<LogSlice<D>> {
        let none = |why: &str| Error::NoRecord {
            physical_offset,
            why: why.to_owned(),
        };
        let segment = self
            .find(physical_offset)
            .ok_or_else(|| none("outside of the log"))?;
        if physical_offset + len as u64 > segment.end() {
            return Err(none("it would cross the end of its file"));
        }
        segment.bytes(physical_offset - segment.base(), len)
    }

    /// Advises the kernel that a range was read and will not be again.
    pub fn forget(&self, from: u64, to: u64) {
        let mut at = from;
        while let Some(segment) = self.find(at).filter(|_| at < to) {
            let end = segment.end().min(to);
            segment.file().advise(None, at - segment.base(), end - at);
            at = end;
        }
    }
}
