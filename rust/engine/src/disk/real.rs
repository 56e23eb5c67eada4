//! The disk of the machine. Knows no format of the store: paths, bytes, syncs and errors with their
//! paths. Any thread may call it.
//!
//! A file behind a symbolic link is borrowed: it belongs to another directory, which is mounted
//! here. It is opened and mapped for reading alone, so that the kernel refuses every write to it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Advice, FallocateFlags};

use super::durable_dirs;
use super::windows::{Windows, run_len};
use super::{CellRegion, Disk, DiskFile, Entry, FileSystem, Open, Piece, Region, Space, Stat};
use super::{read_piece, sys};
use crate::error::{Error, Result, SYNC_DIR_ACTION};
use crate::mmap::{Cells, Map, Reservation, Use};

/// What the official broker writes into its lock file.
const LOCK_CONTENT: &[u8] = b"lock";
/// Linux draws a new one at each start of the machine.
const BOOT_ID_PATH: &str = "/proc/sys/kernel/random/boot_id";
/// Read and written by the owner alone.
const PRIVATE_MODE: u32 = 0o600;

/// The real disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

/// An open file of the real disk.
#[derive(Debug)]
pub struct RealFile {
    file: File,
    path: Arc<Path>,
    is_borrowed: bool,
    windows: Windows,
}

/// A region of a real file.
#[derive(Debug)]
pub struct RealRegion {
    map: Map,
    path: Arc<Path>,
}

/// Cells of a real file.
#[derive(Debug)]
pub struct RealCells(Cells);

/// The store's lock: given back when dropped.
#[derive(Debug)]
pub struct RealLock {
    _held: File,
}

impl Disk for RealDisk {
    type File = RealFile;
    type Lock = RealLock;

    fn open(&self, path: &Path, how: Open) -> Result<RealFile> {
        let is_borrowed = how == Open::Write && is_link(path);
        let mut options = OpenOptions::new();
        options.read(true).write(how != Open::Read && !is_borrowed);
        match how {
            Open::Read | Open::Write => {}
            Open::Create => {
                options.create(true).truncate(false);
            }
            Open::CreateNew => {
                options.create_new(true);
            }
            Open::CreatePrivate => {
                options.create_new(true).mode(PRIVATE_MODE);
            }
        }
        let file = options
            .open(path)
            .map_err(|error| Error::io("open", path, &error))?;
        Ok(RealFile {
            file,
            path: Arc::from(path),
            is_borrowed,
            windows: Windows::default(),
        })
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>> {
        match fs::metadata(path) {
            Ok(meta) => Ok(Some(Stat {
                is_dir: meta.is_dir(),
                len_bytes: meta.len(),
                allocated_bytes: meta.blocks() * 512,
                modified_ms: meta.mtime() * 1000 + meta.mtime_nsec() / 1_000_000,
                change_mark: (meta.ctime() as u64)
                    .wrapping_mul(1_000_000_000)
                    .wrapping_add(meta.ctime_nsec() as u64)
                    .wrapping_mul(31)
                    .wrapping_add(meta.ino()),
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("stat", path, &error)),
        }
    }

    fn list(&self, dir: &Path) -> Result<Vec<Entry>> {
        let failed = |error: &io::Error| Error::io("list", dir, error);
        let names = match fs::read_dir(dir) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(&error)),
        };
        let mut entries = Vec::new();
        for name in names {
            let name = name.map_err(|error| failed(&error))?;
            let kind = name.file_type().map_err(|error| failed(&error))?;
            let len_bytes = if kind.is_dir() {
                0
            } else {
                // Of a link the length of the file behind it counts.
                let found = if kind.is_symlink() {
                    fs::metadata(name.path())
                } else {
                    name.metadata()
                };
                match found {
                    Ok(meta) => meta.len(),
                    // Removed between the two calls.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(failed(&error)),
                }
            };
            let text = name.file_name().to_string_lossy().into_owned();
            entries.push(Entry {
                name: text,
                is_dir: kind.is_dir(),
                len_bytes,
            });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        durable_dirs::make(dir, |holder| self.sync_dir(holder))
    }

    fn create_dirs(&self, dir: &Path) -> Result<()> {
        durable_dirs::make_dirs(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|error| Error::io("rename", from, &error))
    }

    fn unlink(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|error| Error::io("remove", path, &error))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        fs::remove_dir(dir).map_err(|error| Error::io("remove directory", dir, &error))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        File::open(dir)
            .and_then(|opened| opened.sync_all())
            .map_err(|error| Error::io(SYNC_DIR_ACTION, dir, &error))
    }

    fn space(&self, path: &Path) -> Result<Space> {
        let stat = rustix::fs::statvfs(path)
            .map_err(|errno| Error::io("stat file system of", path, &errno.into()))?;
        Ok(Space {
            total_bytes: stat.f_blocks * stat.f_frsize,
            free_bytes: stat.f_bfree * stat.f_frsize,
            usable_bytes: stat.f_bavail * stat.f_frsize,
        })
    }

    fn file_system(&self, path: &Path) -> Result<FileSystem> {
        let stat = rustix::fs::statfs(path)
            .map_err(|errno| Error::io("stat file system of", path, &errno.into()))?;
        Ok(kind_of_magic(stat.f_type as u64))
    }

    fn lock(&self, path: &Path) -> Result<RealLock> {
        let file = self.open(path, Open::Create)?;
        match sys::try_lock_byte_0(&file.file) {
            Ok(true) => {}
            Ok(false) => {
                return Err(Error::Locked {
                    path: path.to_owned(),
                });
            }
            Err(error) => return Err(Error::io("lock", path, &error)),
        }
        // Existing content is left alone: it names the last owner.
        if file.len_bytes()? == 0 {
            file.write_at(LOCK_CONTENT, 0)?;
        }
        Ok(RealLock { _held: file.file })
    }

    fn boot_id(&self) -> Option<u128> {
        let text = fs::read_to_string(BOOT_ID_PATH).ok()?;
        let digits: String = text.trim().chars().filter(|each| *each != '-').collect();
        u128::from_str_radix(&digits, 16).ok()
    }
}

/// Whether a path is a symbolic link. What cannot be looked at is none: opening it reports why.
fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink())
}

/// File system magics of statfs(2) that do not keep what they promise.
fn kind_of_magic(magic: u64) -> FileSystem {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    const NFS: u64 = 0x6969;
    const SMB: u64 = 0x517b;
    const SMB2: u64 = 0xfe53_4d42;
    const CIFS: u64 = 0xff53_4d42;
    const CEPH: u64 = 0x00c3_6400;
    const NINE_P: u64 = 0x0102_1997;
    const FUSE: u64 = 0x6573_5546;
    match magic & 0xffff_ffff {
        TMPFS | RAMFS => FileSystem::Memory,
        NFS | SMB | SMB2 | CIFS | CEPH | NINE_P | FUSE => FileSystem::Network,
        _ => FileSystem::Local,
    }
}

impl RealFile {
    fn failed(&self, action: &'static str, error: &io::Error) -> Error {
        Error::io(action, &self.path, error)
    }

    #[cfg(test)]
    pub(super) fn windows(&self) -> &Windows {
        &self.windows
    }
}

impl DiskFile for RealFile {
    type Region = RealRegion;
    type Cells = RealCells;

    fn path(&self) -> &Path {
        &self.path
    }

    fn is_borrowed(&self) -> bool {
        self.is_borrowed
    }

    fn read_at(&self, into: &mut [u8], position: u64) -> Result<usize> {
        let mut got = 0;
        while let Some(rest) = into.get_mut(got..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, position + got as u64) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed("read", &error)),
            }
        }
        Ok(got)
    }

    fn read_cached_at(&self, into: &mut [u8], position: u64) -> Result<Option<usize>> {
        match sys::read_cached(&self.file, into, position) {
            // Fewer than asked may be the end of the file or the end of what is cached.
            Ok(Some(got)) if got < into.len() && position + (got as u64) < self.len_bytes()? => {
                Ok(None)
            }
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.failed("read", &error)),
        }
    }

    fn read_pieces(&self, pieces: &[Piece], into: &mut Vec<u8>) -> Result<()> {
        into.reserve(pieces.iter().map(|piece| piece.len).sum());
        let mut rest = pieces;
        while !rest.is_empty() {
            // Whom a borrowed file belongs to may cut it at any time: no map of it is touched.
            let run = if self.is_borrowed { 0 } else { run_len(rest) };
            let (near, behind) = rest.split_at(run.max(1));
            if run == 0 || !self.windows.copy(&self.file, near, into) {
                near.iter()
                    .try_for_each(|piece| read_piece(self, *piece, into))?;
            }
            rest = behind;
        }
        Ok(())
    }

    fn rest(&self) {
        self.windows.rest();
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> Result<()> {
        self.file
            .write_all_at(bytes, position)
            .map_err(|error| self.failed("write", &error))
    }

    fn sync_data(&self) -> Result<()> {
        self.file
            .sync_data()
            .map_err(|error| self.failed("sync", &error))
    }

    fn start_write_back(&self, position: u64, len_bytes: u64) {
        sys::start_write_back(&self.file, position, len_bytes);
    }

    fn allocate(&self, len_bytes: u64) -> Result<()> {
        loop {
            match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len_bytes) {
                Ok(()) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(self.failed("allocate", &errno.into())),
            }
        }
    }

    fn set_len(&self, len_bytes: u64) -> Result<()> {
        self.windows.clear();
        self.file
            .set_len(len_bytes)
            .map_err(|error| self.failed("set the length of", &error))
    }

    fn len_bytes(&self) -> Result<u64> {
        let meta = self
            .file
            .metadata()
            .map_err(|error| self.failed("stat", &error))?;
        Ok(meta.len())
    }

    fn is_at(&self, path: &Path) -> Result<bool> {
        let mine = self
            .file
            .metadata()
            .map_err(|error| self.failed("stat", &error))?;
        match fs::metadata(path) {
            Ok(named) => Ok(named.dev() == mine.dev() && named.ino() == mine.ino()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io("stat", path, &error)),
        }
    }

    fn is_linked(&self) -> Result<bool> {
        let mine = self
            .file
            .metadata()
            .map_err(|error| self.failed("stat", &error))?;
        Ok(mine.nlink() > 0)
    }

    fn advise(&self, use_: Option<Use>, position: u64, len_bytes: u64) {
        let advice = match use_ {
            None => Advice::DontNeed,
            Some(Use::Sequential) => Advice::Sequential,
            Some(Use::Random) => Advice::Random,
            Some(Use::WillNeed) => Advice::WillNeed,
            Some(Use::Normal | Use::DontFork | Use::HugePages) => Advice::Normal,
        };
        // Advice that is refused changes nothing but speed.
        let _refused = rustix::fs::fadvise(
            &self.file,
            position,
            std::num::NonZeroU64::new(len_bytes),
            advice,
        );
    }

    fn map(&self, len_bytes: u64, published: u64) -> Result<RealRegion> {
        let map = if self.is_borrowed {
            Map::readable(&self.file, len_bytes)
        } else {
            Map::writable(&self.file, len_bytes)
        };
        let map = map.map_err(|error| self.failed("map", &error))?;
        map.publish_through(published);
        Ok(RealRegion {
            map,
            path: Arc::clone(&self.path),
        })
    }

    fn map_cells(&self, len_bytes: u64) -> Result<RealCells> {
        let cells = Cells::of_file(&self.file, len_bytes, !self.is_borrowed)
            .map_err(|error| self.failed("map", &error))?;
        Ok(RealCells(cells))
    }
}

impl Region for RealRegion {
    fn len_bytes(&self) -> u64 {
        self.map.len_bytes()
    }

    fn published(&self) -> u64 {
        self.map.published()
    }

    #[inline]
    fn reserve(&self, position: u64, len: usize) -> Option<Reservation<'_>> {
        self.map.reserve(position, len)
    }

    #[inline]
    fn expect_write(&self, position: u64, len: usize) {
        self.map.expect_write(position, len);
    }

    #[inline]
    fn publish(&self, reservation: Reservation<'_>) {
        reservation.publish();
    }

    fn publish_through(&self, position: u64) {
        self.map.publish_through(position);
    }

    #[inline]
    fn slice(&self, position: u64, len: usize) -> Option<&[u8]> {
        self.map.slice(position, len)
    }

    fn populate(&self, position: u64, len_bytes: u64) -> Result<()> {
        self.map
            .populate(position, len_bytes)
            .map_err(|error| Error::io("populate", &self.path, &error))
    }

    fn sync(&self, position: u64, len_bytes: u64) -> Result<()> {
        self.map
            .sync(position, len_bytes)
            .map_err(|error| Error::io("sync", &self.path, &error))
    }

    fn release(&self, position: u64, len_bytes: u64) {
        // Advice that is refused (a map locked in memory) changes nothing but speed.
        let _refused = self.map.release(position, len_bytes);
    }

    fn advise(&self, use_: Use, position: u64, len_bytes: u64) {
        // Advice that is refused changes nothing but speed.
        let _refused = self.map.advise(use_, position, len_bytes);
    }

    fn lock(&self) -> Result<()> {
        self.map
            .lock()
            .map_err(|error| Error::io("lock in memory", &self.path, &error))
    }

    fn unlock(&self) {
        // An unlock fails only for a range that is not mapped; this one is.
        let _impossible = self.map.unlock();
    }

    fn resident_pages(&self, position: u64, len_bytes: u64) -> u64 {
        self.map.resident_pages(position, len_bytes).unwrap_or(0)
    }
}

impl CellRegion for RealCells {
    fn len_bytes(&self) -> u64 {
        self.0.len_bytes()
    }

    #[inline]
    fn load(&self, position: u64) -> u32 {
        self.0.load(position)
    }

    #[inline]
    fn store(&self, position: u64, value: u32) -> bool {
        self.0.store(position, value)
    }
}
