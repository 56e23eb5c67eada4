//! One log file: its descriptor (open from creation to the last sync, so that a write-back error is
//! never lost), its map while it is hot, and slices of it that keep the map alive.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::lock::RwLock;

use crate::disk::{Disk, DiskFile, Open, Region as _, SharedRegion, read_exact_at};
use crate::error::Result;
use crate::segment::PoolBuffer;

type Region<D> = <<D as Disk>::File as DiskFile>::Region;

/// The map of a file: at most one lives at a time, so that one look shows whether any slice does.
struct Mapped<D: Disk> {
    held: Option<SharedRegion<D>>,
    last: Weak<Region<D>>,
}

/// A file of the log. Shared by reference counting: a reader that holds it, or a slice of it, never
/// sees it unmapped.
pub struct Segment<D: Disk> {
    base: u64,
    len_bytes: u64,
    path: PathBuf,
    file: D::File,
    region: RwLock<Mapped<D>>,
    buffer: RwLock<Option<Arc<PoolBuffer>>>,
    populated: AtomicU64,
    content_end: AtomicU64,
    is_locked: AtomicBool,
}

impl<D: Disk> Segment<D> {
    /// Takes a file that is open and has its full length.
    #[must_use]
    pub fn new(file: D::File, path: PathBuf, base: u64, len_bytes: u64) -> Self {
        Self {
            base,
            len_bytes,
            path,
            file,
            region: RwLock::new(Mapped {
                held: None,
                last: Weak::new(),
            }),
            buffer: RwLock::new(None),
            populated: AtomicU64::new(0),
            content_end: AtomicU64::new(len_bytes),
            is_locked: AtomicBool::new(false),
        }
    }

    /// Opens an existing file.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn open(disk: &D, path: PathBuf, base: u64, len_bytes: u64, how: Open) -> Result<Self> {
        let file = disk.open(&path, how)?;
        Ok(Self::new(file, path, base, len_bytes))
    }

    /// Physical offset of the first byte.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Physical offset behind the last byte of the file.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.base + self.len_bytes
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The descriptor that writes and syncs.
    #[must_use]
    pub fn file(&self) -> &D::File {
        &self.file
    }

    /// The map, while there is one.
    #[must_use]
    pub fn region(&self) -> Option<SharedRegion<D>> {
        self.region.read().held.clone()
    }

    /// The map, made when there is none; `published` bytes hold content already.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn map(&self, published: u64) -> Result<SharedRegion<D>> {
        let mut mapped = self.region.write();
        if let Some(region) = mapped.held.clone().or_else(|| mapped.last.upgrade()) {
            mapped.held = Some(Arc::clone(&region));
            return Ok(region);
        }
        let made = Arc::new(self.file.map(self.len_bytes, published)?);
        *mapped = Mapped {
            held: Some(Arc::clone(&made)),
            last: Arc::downgrade(&made),
        };
        Ok(made)
    }

    /// Writes other bytes into a file that nobody maps, and syncs it; false, with nothing written, where
    /// somebody does. No map is made meanwhile.
    ///
    /// # Durability
    /// After true the bytes survive power loss.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// For the sync.
    pub fn replace(&self, bytes: &[u8], position: u64) -> Result<bool> {
        let mapped = self.region.read();
        if mapped.last.strong_count() > 0 || self.buffer.read().is_some() {
            return Ok(false);
        }
        self.file.write_at(bytes, position)?;
        self.file.sync_data()?;
        Ok(true)
    }

    /// Lets the map go: it is unmapped when the last slice is gone. Reads go through the file now.
    pub fn unmap(&self) {
        let region = self.region.write().held.take();
        if let Some(region) = region {
            self.unlock(&region);
        }
    }

    /// Whether the map, or a slice of it, still lives: the file must not be cut.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.region.read().last.strong_count() > 0
    }

    /// The pool buffer that is written in place of the map.
    #[must_use]
    pub fn buffer(&self) -> Option<Arc<PoolBuffer>> {
        self.buffer.read().clone()
    }

    /// Sets or takes away the pool buffer.
    pub fn set_buffer(&self, buffer: Option<Arc<PoolBuffer>>) -> Option<Arc<PoolBuffer>> {
        std::mem::replace(&mut self.buffer.write(), buffer)
    }

    /// Where the content of the file ends: behind its blank marker, or at its length.
    #[must_use]
    pub fn content_end(&self) -> u64 {
        self.content_end.load(Ordering::Acquire)
    }

    /// Sets where the blank marker ends.
    pub fn set_content_end(&self, position: u64) {
        self.content_end.store(position, Ordering::Release);
    }

    /// Bytes from the start of the file that are present and writable in the map.
    #[must_use]
    pub fn populated(&self) -> u64 {
        self.populated.load(Ordering::Relaxed)
    }

    /// Marks that bytes below `position` need no more populating.
    pub fn set_populated(&self, position: u64) {
        self.populated.fetch_max(position, Ordering::Relaxed);
    }

    /// Locks the map in memory; true when it was not locked before.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`] when the limit of locked memory is too low.
    pub fn lock(&self) -> Result<bool> {
        let Some(region) = self.region() else {
            return Ok(false);
        };
        if self.is_locked.swap(true, Ordering::AcqRel) {
            return Ok(false);
        }
        region
            .lock()
            .inspect_err(|_| self.is_locked.store(false, Ordering::Release))?;
        Ok(true)
    }

    /// Whether the map is locked in memory.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.is_locked.load(Ordering::Acquire)
    }

    fn unlock(&self, region: &SharedRegion<D>) {
        if self.is_locked.swap(false, Ordering::AcqRel) {
            region.unlock();
        }
    }

    /// Undoes [`Segment::lock`].
    pub fn unlock_memory(&self) {
        if let Some(region) = self.region() {
            self.unlock(&region);
        }
    }

    /// The bytes `[position, position + len)` of the file: a slice of the map where they are
    /// published there, else read through the file.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk when there is no map.
    pub fn bytes(&self, position: u64, len: usize) -> Result<LogSlice<D>> {
        self.bytes_into(position, len, Vec::new())
    }

    /// As [`Segment::bytes`], with a buffer to read into where there is no map.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// As [`Segment::bytes`].
    pub fn bytes_into(&self, position: u64, len: usize, spare: Vec<u8>) -> Result<LogSlice<D>> {
        match self.mapped(position, len) {
            Some(slice) => Ok(slice),
            None => self.read_into(position, len, spare),
        }
    }

    /// Only from the map: never waits for a disk.
    #[must_use]
    pub fn mapped(&self, position: u64, len: usize) -> Option<LogSlice<D>> {
        let region = self.region()?;
        let end = position.checked_add(len as u64)?;
        (end <= region.published()).then_some(LogSlice::Mapped {
            region,
            position,
            len,
        })
    }

    /// Through the file.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn read(&self, position: u64, len: usize) -> Result<LogSlice<D>> {
        self.read_into(position, len, Vec::new())
    }

    /// Through the file, into a buffer that was used before: a walk that takes a fresh one for each
    /// chunk spends as long on making it zero as on reading.
    fn read_into(&self, position: u64, len: usize, mut buffer: Vec<u8>) -> Result<LogSlice<D>> {
        buffer.resize(len, 0);
        read_exact_at(&self.file, &mut buffer, position)?;
        Ok(LogSlice::Owned(buffer))
    }
}

/// Bytes that several slices are parts of, whoever owns them.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Bytes of the log that stay good as long as they are held.
pub enum LogSlice<D: Disk> {
    /// A part of a map: nothing was copied.
    Mapped {
        /// The map.
        region: SharedRegion<D>,
        /// First byte in the map.
        position: u64,
        /// Length; was published when the slice was made.
        len: usize,
    },
    /// A copy.
    Owned(Vec<u8>),
    /// A part of bytes that others are parts of too.
    Shared {
        /// The bytes.
        buffer: SharedBytes,
        /// The part.
        range: Range<usize>,
    },
}

impl<D: Disk> LogSlice<D> {
    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Mapped {
                region,
                position,
                len,
            } => {
                // Published when the slice was made, and what is published stays so.
                region.slice(*position, *len).unwrap_or_default()
            }
            Self::Owned(bytes) => bytes,
            Self::Shared { buffer, range } => {
                (**buffer).as_ref().get(range.clone()).unwrap_or_default()
            }
        }
    }

    /// The buffer of a copy, to be used again; empty where nothing was copied, or others have a part.
    #[must_use]
    pub fn into_spare(self) -> Vec<u8> {
        match self {
            Self::Mapped { .. } | Self::Shared { .. } => Vec::new(),
            Self::Owned(buffer) => buffer,
        }
    }

    /// Whether the bytes were copied.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        !matches!(self, Self::Mapped { .. })
    }
}

impl<D: Disk> std::ops::Deref for LogSlice<D> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl<D: Disk> std::fmt::Debug for LogSlice<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LogSlice({} bytes)", self.as_bytes().len())
    }
}
