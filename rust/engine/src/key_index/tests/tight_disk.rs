//! For tests: the real disk, but for a switch that makes every allocation fail as on a full one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::disk::real::{RealCells, RealDisk, RealFile, RealLock, RealRegion};
use crate::disk::{Disk, DiskFile, Entry, FileSystem, Open, Space, Stat};
use crate::error::{Error, Result};
use crate::mmap::Use;

#[derive(Clone, Default)]
pub(super) struct TightDisk {
    pub(super) is_full: Arc<AtomicBool>,
}

pub(super) struct TightFile {
    file: RealFile,
    is_full: Arc<AtomicBool>,
}

impl Disk for TightDisk {
    type File = TightFile;
    type Lock = RealLock;

    fn open(&self, path: &Path, how: Open) -> Result<TightFile> {
        Ok(TightFile {
            file: RealDisk.open(path, how)?,
            is_full: Arc::clone(&self.is_full),
        })
    }
    fn stat(&self, path: &Path) -> Result<Option<Stat>> {
        RealDisk.stat(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<Entry>> {
        RealDisk.list(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        RealDisk.create_dir_all(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        RealDisk.rename(from, to)
    }
    fn unlink(&self, path: &Path) -> Result<()> {
        RealDisk.unlink(path)
    }
    fn remove_dir(&self, dir: &Path) -> Result<()> {
        RealDisk.remove_dir(dir)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        RealDisk.sync_dir(dir)
    }
    fn space(&self, path: &Path) -> Result<Space> {
        RealDisk.space(path)
    }
    fn file_system(&self, path: &Path) -> Result<FileSystem> {
        RealDisk.file_system(path)
    }
    fn lock(&self, path: &Path) -> Result<RealLock> {
        RealDisk.lock(path)
    }
    fn boot_id(&self) -> Option<u128> {
        RealDisk.boot_id()
    }
}

impl DiskFile for TightFile {
    type Region = RealRegion;
    type Cells = RealCells;

    fn path(&self) -> &Path {
        self.file.path()
    }
    fn read_at(&self, into: &mut [u8], position: u64) -> Result<usize> {
        self.file.read_at(into, position)
    }
    fn read_cached_at(&self, into: &mut [u8], position: u64) -> Result<Option<usize>> {
        self.file.read_cached_at(into, position)
    }
    fn write_at(&self, bytes: &[u8], position: u64) -> Result<()> {
        self.file.write_at(bytes, position)
    }
    fn sync_data(&self) -> Result<()> {
        self.file.sync_data()
    }
    fn start_write_back(&self, position: u64, len_bytes: u64) {
        self.file.start_write_back(position, len_bytes);
    }
    fn allocate(&self, len_bytes: u64) -> Result<()> {
        if self.is_full.load(Ordering::SeqCst) {
            let full = std::io::Error::from_raw_os_error(libc::ENOSPC);
            return Err(Error::io("allocate", self.path(), &full));
        }
        self.file.allocate(len_bytes)
    }
    fn set_len(&self, len_bytes: u64) -> Result<()> {
        self.file.set_len(len_bytes)
    }
    fn len_bytes(&self) -> Result<u64> {
        self.file.len_bytes()
    }
    fn is_at(&self, path: &Path) -> Result<bool> {
        self.file.is_at(path)
    }
    fn advise(&self, use_: Option<Use>, position: u64, len_bytes: u64) {
        self.file.advise(use_, position, len_bytes);
    }
    fn map(&self, len_bytes: u64, published: u64) -> Result<RealRegion> {
        self.file.map(len_bytes, published)
    }
    fn map_cells(&self, len_bytes: u64) -> Result<RealCells> {
        self.file.map_cells(len_bytes)
    }
}
