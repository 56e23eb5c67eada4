//! The one way to files. Everything above is generic over [`Disk`]: the real one ([`real`]) and
//! its twin ([`twin`]), which remembers every event and can crash or fail at any of them.
//!
//! What a call promises after power loss is stated per method; a name (create, rename, unlink) is
//! durable only once its directory was synced.

mod durable_dirs;
pub mod process;
pub mod real;
mod sys;
pub mod twin;
mod windows;

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::mmap::{Reservation, Use};

pub use real::RealDisk;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// Reading and writing; made empty if absent.
    Create,
    /// Reading and writing; must not exist.
    CreateNew,
    /// The same, and nobody but its owner may read it: it holds secrets.
    CreatePrivate,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name, lossy where it is not UTF-8 (no store file has such a name).
    pub name: String,
    /// True for a directory.
    pub is_dir: bool,
    /// Length of a file; 0 for a directory.
    pub len_bytes: u64,
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Position of the first byte.
    pub position: u64,
    /// Bytes.
    pub len: usize,
}

impl Piece {
    /// Position behind the last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.position + self.len as u64
    }
}

/// What is known of a file without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// True for a directory.
    pub is_dir: bool,
    /// Length.
    pub len_bytes: u64,
    /// Bytes it occupies on the device.
    pub allocated_bytes: u64,
    /// Last change of its content, Unix milliseconds.
    pub modified_ms: i64,
    /// Changes whenever the content may have changed or the file is another one: change time in
    /// nanoseconds mixed with the inode.
    pub change_mark: u64,
}

/// Space on the file system of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// All bytes.
    pub total_bytes: u64,
    /// Bytes not used.
    pub free_bytes: u64,
    /// Bytes that this process may use (without what is kept for root).
    pub usable_bytes: u64,
}

impl Space {
    /// The used share in percent as RocketMQ counts it, rounded up
    /// (`UtilAll.getDiskPartitionSpaceUsedPercent`).
    #[must_use]
    pub fn used_percent(&self) -> u64 {
        let used = self.total_bytes.saturating_sub(self.free_bytes);
        let entire = used + self.usable_bytes;
        if entire == 0 {
            0
        } else {
            (used * 100).div_ceil(entire)
        }
    }
}

/// The kind of a file system, as far as it matters for durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// A local one.
    Local,
    /// Lives in memory: nothing survives power loss.
    Memory,
    /// Over a network: locks and syncs may not keep their promises.
    Network,
}

/// Files by path.
pub trait Disk: Clone + Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;
    /// Held as long as the store is open for writing.
    type Lock: Send + Sync + 'static;

    /// Opens a file.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn open(&self, path: &Path, how: Open) -> Result<Self::File>;

    /// What is known of a path; `None` when there is nothing.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn stat(&self, path: &Path) -> Result<Option<Stat>>;

    /// The names in a directory, sorted; empty when there is no such directory.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn list(&self, dir: &Path) -> Result<Vec<Entry>>;

    /// Makes a directory and the missing ones above it.
    ///
    /// # Durability
    /// On return its name and the names above it are durable, whoever made them: a process that made one may have
    /// ended, or met an error, before it had synced the directory that holds the name.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn create_dir_all(&self, dir: &Path) -> Result<()>;

    /// Makes a directory and the missing ones above it; their names are durable only once the
    /// directories they stand in were synced. For whoever makes thousands and syncs them later.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn create_dirs(&self, dir: &Path) -> Result<()> {
        self.create_dir_all(dir)
    }

    /// Renames within a file system; replaces `to`. Atomic; durable once both directories are
    /// synced.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file's name. Open descriptors and maps stay good.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn unlink(&self, path: &Path) -> Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn remove_dir(&self, dir: &Path) -> Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Space on the file system of `path`.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn space(&self, path: &Path) -> Result<Space>;

    /// The kind of file system where `path` lies.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn file_system(&self, path: &Path) -> Result<FileSystem>;

    /// Takes the exclusive lock of byte 0 of the file (made if absent); dropping it gives it back.
    /// Excludes `FileChannel.tryLock(0, 1, false)` of the official broker and every other holder,
    /// also in this process.
    ///
    /// # Errors
    /// [`crate::error::Error::Locked`], [`crate::error::Error::Io`].
    fn lock(&self, path: &Path) -> Result<Self::Lock>;

    /// Which start of the machine this is: the same as long as no page of the page cache can have
    /// been lost. `None` where nobody knows.
    fn boot_id(&self) -> Option<u128>;
}

/// An open file. All positions are bytes from its start; calls may come from any thread.
pub trait DiskFile: Send + Sync + 'static {
    /// A map of append-only bytes.
    type Region: Region;
    /// A map of cells that change in place.
    type Cells: CellRegion;

    /// Where the file was opened.
    fn path(&self) -> &Path;

    /// Whether the file belongs to another store: it can be read and mapped, and every write to it
    /// fails.
    fn is_borrowed(&self) -> bool {
        false
    }

    /// Reads up to `into.len()` bytes; fewer only at the end of the file.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk where the page cache has not the bytes.
    fn read_at(&self, into: &mut [u8], position: u64) -> Result<usize>;

    /// Like [`DiskFile::read_at`], from the page cache alone: `None` when any byte would have to be
    /// read from the disk.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn read_cached_at(&self, into: &mut [u8], position: u64) -> Result<Option<usize>>;

    /// Appends pieces to `into`, side by side: those that lie near each other, in ascending order,
    /// cost less than one read each. Nobody may change their bytes any more.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`], also where the file ends before a piece does.
    ///
    /// # Blocking
    /// Reads the disk where the page cache has not the bytes.
    fn read_pieces(&self, pieces: &[Piece], into: &mut Vec<u8>) -> Result<()>
    where
        Self: Sized,
    {
        pieces
            .iter()
            .try_for_each(|piece| read_piece(self, *piece, into))
    }

    /// Gives back what [`DiskFile::read_pieces`] keeps for the next call, where none came since the
    /// last time.
    fn rest(&self) {}

    /// Writes all of `bytes`.
    ///
    /// # Durability
    /// Survives the process; survives power loss after [`DiskFile::sync_data`].
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]; some of the bytes may have been written.
    fn write_at(&self, bytes: &[u8], position: u64) -> Result<()>;

    /// Makes content (and the length, where reading it back needs it) durable.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]. After a failure nothing is known of the bytes: never try again.
    ///
    /// # Blocking
    /// Until the device has answered.
    fn sync_data(&self) -> Result<()>;

    /// Starts writing a range back without waiting for it. Promises nothing.
    fn start_write_back(&self, position: u64, len_bytes: u64);

    /// Gives the file this length and allocates all of it on the device, reading as zeros: a full
    /// disk is an error here and never later.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]; see [`crate::error::Error::is_no_space`].
    fn allocate(&self, len_bytes: u64) -> Result<()>;

    /// Cuts or extends the file; what is added is a hole. Never cuts a mapped file.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn set_len(&self, len_bytes: u64) -> Result<()>;

    /// Length now.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn len_bytes(&self) -> Result<u64>;

    /// Whether `path` names this very file: not when the name was removed, or given to another
    /// file.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn is_at(&self, path: &Path) -> Result<bool>;

    /// Whether a name leads to the file's bytes, wherever: a hard link of a snapshot after the store's own
    /// name was removed. Never on a disk without hard links.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn is_linked(&self) -> Result<bool> {
        Ok(false)
    }

    /// Advises the system what a range will be used for; `None` means the pages may go.
    fn advise(&self, use_: Option<Use>, position: u64, len_bytes: u64);

    /// Maps the first `len_bytes` for appending, of which `published` hold content already.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn map(&self, len_bytes: u64, published: u64) -> Result<Self::Region>;

    /// Maps the first `len_bytes` as cells.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn map_cells(&self, len_bytes: u64) -> Result<Self::Cells>;
}

/// Mapped bytes that are written once, front to back ([`crate::mmap::Map`]). All mapped writes of
/// the log pass [`Region::reserve`] and [`Region::publish`].
pub trait Region: Send + Sync + 'static {
    /// Length of the map.
    fn len_bytes(&self) -> u64;
    /// Bytes below this may be read.
    fn published(&self) -> u64;
    /// The bytes to write, or `None`: see [`crate::mmap::Map::reserve`].
    fn reserve(&self, position: u64, len: usize) -> Option<Reservation<'_>>;
    /// Ends a reservation: readers see its bytes, and they survive the process.
    fn publish(&self, reservation: Reservation<'_>);
    /// Raises the published position over bytes that came through the file.
    fn publish_through(&self, position: u64);
    /// Published bytes; `None` when they are not all published.
    fn slice(&self, position: u64, len: usize) -> Option<&[u8]>;
    /// Makes pages present and writable.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    fn populate(&self, position: u64, len_bytes: u64) -> Result<()>;
    /// Makes the bytes of a range durable that came through the map.
    ///
    /// # Durability
    /// What lies in the range, and whatever of the file's metadata is needed to read it back,
    /// survives power loss. A page that the range only touches is written whole. Of the rest of
    /// the file nothing is promised.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`], also of bytes outside of the range whose write-back failed
    /// before: the system reports that once. After a failure nothing is known of the whole file:
    /// never try again.
    ///
    /// # Blocking
    /// Until the device has answered.
    fn sync(&self, position: u64, len_bytes: u64) -> Result<()>;
    /// Advises that whole pages of a range will hardly be touched through this map soon: they leave
    /// the page tables and stay in the page cache. A sync of pages that are mapped and writable
    /// makes each read-only first, which interrupts the other cores page by page. Changes no byte.
    fn release(&self, position: u64, len_bytes: u64);
    /// Advises the system what a range will be used for.
    fn advise(&self, use_: Use, position: u64, len_bytes: u64);
    /// Advises the processor that a range will be written next; changes nothing.
    #[inline]
    fn expect_write(&self, _position: u64, _len: usize) {}
    /// Locks the map in memory.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`] when the limit of locked memory is too low.
    fn lock(&self) -> Result<()>;
    /// Undoes [`Region::lock`].
    fn unlock(&self);
    /// Pages in memory: for reports.
    fn resident_pages(&self, position: u64, len_bytes: u64) -> u64;
}

/// Mapped big-endian 32-bit cells that change in place ([`crate::mmap::Cells`]).
pub trait CellRegion: Send + Sync + 'static {
    /// Length of the map.
    fn len_bytes(&self) -> u64;
    /// The cell at a multiple of 4.
    fn load(&self, position: u64) -> u32;
    /// Sets the cell at a multiple of 4; false when there is no such cell.
    fn store(&self, position: u64, value: u32) -> bool;
}

/// Reads exactly `into.len()` bytes.
///
/// # Errors
/// [`crate::error::Error::Io`]; a file that ends before that is an error too (errno 0).
pub fn read_exact_at(file: &impl DiskFile, into: &mut [u8], position: u64) -> Result<()> {
    let got = file.read_at(into, position)?;
    if got == into.len() {
        return Ok(());
    }
    let wanted = into.len();
    let text = format!("the file ends after {got} of {wanted} bytes at position {position}");
    let error = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, text);
    Err(crate::error::Error::io("read", file.path(), &error))
}

/// Appends a piece to `into`, through the file.
///
/// # Errors
/// As [`read_exact_at`].
pub fn read_piece(file: &impl DiskFile, piece: Piece, into: &mut Vec<u8>) -> Result<()> {
    let before = into.len();
    into.resize(before + piece.len, 0);
    match into.get_mut(before..) {
        Some(rest_of_buf) => read_exact_at(file, rest_of_buf, piece.position),
        // The line above has made it.
        None => Ok(()),
    }
}

/// The whole content of a file of at most `len_max_bytes`; `None` when there is no such file.
///
/// # Errors
/// [`crate::error::Error::Io`]; [`crate::error::Error::ForeignFile`] when it is longer.
pub fn read_whole<D: Disk>(disk: &D, path: &Path, len_max_bytes: u64) -> Result<Option<Vec<u8>>> {
    let Some(stat) = disk.stat(path)? else {
        return Ok(None);
    };
    if stat.is_dir || stat.len_bytes > len_max_bytes {
        let why = format!("expected a file of at most {len_max_bytes} bytes");
        return Err(crate::error::Error::ForeignFile {
            path: path.to_owned(),
            why,
        });
    }
    let file = disk.open(path, Open::Read)?;
    let mut bytes = vec![0; stat.len_bytes as usize];
    let got = file.read_at(&mut bytes, 0)?;
    bytes.truncate(got);
    Ok(Some(bytes))
}

/// A region that several readers hold.
pub type SharedRegion<D> = Arc<<<D as Disk>::File as DiskFile>::Region>;
