//! A disk that leaves out, or does too early, what the store relies on: each flaw is a bug that the
//! store might have. Without a flaw it is the twin itself.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use mqcore_engine::disk::twin::{TwinCells, TwinDisk, TwinFile, TwinLock, TwinRegion};
use mqcore_engine::disk::{Disk, DiskFile, Entry, FileSystem, Open, Region, Space, Stat};
use mqcore_engine::error::Result;
use mqcore_engine::mmap::{Reservation, Use};
use mqcore_engine::units::PAGE_BYTES;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Syncs of files whose path has this are not done, and called done.
    NoSync(&'static str),
    /// The same for directories whose path ends so.
    NoSyncDir(&'static str),
    /// A sync of a range does not reach the page that the range ends in.
    ShortSync,
    /// A sync of a range begins behind the page that the range begins in.
    LateSync,
    /// Syncs of files whose path has this are not done during one phase.
    NoSyncIn(Phase, &'static str),
    /// Zeros are not written over what is cut off.
    NoZeros,
    /// Zeros are written over what is cut off, but not synced.
    ZerosUnsynced,
    /// An open store has no mark of an unclean end.
    NoMark,
    /// The mark of an unclean end goes before the rest of a clean stop is synced.
    CleanTooEarly,
}

/// What the store is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Opening,
    Working,
    Removing,
    Closing,
}

/// The twin with a flaw.
#[derive(Clone)]
pub(crate) struct FlawedDisk {
    twin: TwinDisk,
    flaw: Option<Flaw>,
    has_zeroed: Arc<AtomicBool>,
    phase: Arc<Mutex<Phase>>,
}

pub(crate) struct FlawedFile {
    file: TwinFile,
    disk: FlawedDisk,
}

pub(crate) struct FlawedRegion {
    region: TwinRegion,
    path: PathBuf,
    disk: FlawedDisk,
}

fn is_in(path: &Path, part: &str) -> bool {
    path.to_string_lossy().contains(part)
}

impl FlawedDisk {
    pub(crate) fn new(twin: TwinDisk, flaw: Option<Flaw>) -> Self {
        Self {
            twin,
            flaw,
            has_zeroed: Arc::default(),
            phase: Arc::new(Mutex::new(Phase::Working)),
        }
    }

    /// Notes what begins now.
    pub(crate) fn enter(&self, phase: Phase) {
        *self.phase.lock().unwrap() = phase;
        if phase == Phase::Working {
            self.has_zeroed.store(false, Ordering::Relaxed);
        }
    }

    fn phase(&self) -> Phase {
        *self.phase.lock().unwrap()
    }

    /// What happens before a sync of a file, and whether the sync is left out.
    fn leaves_out_sync(&self, path: &Path) -> Result<bool> {
        self.before_sync()?;
        Ok(match self.flaw {
            Some(Flaw::NoSync(part)) => is_in(path, part),
            Some(Flaw::NoSyncIn(phase, part)) => phase == self.phase() && is_in(path, part),
            Some(Flaw::ZerosUnsynced) => {
                is_in(path, "/commitlog/") && self.has_zeroed.load(Ordering::Relaxed)
            }
            _ => false,
        })
    }

    fn before_sync(&self) -> Result<()> {
        if self.flaw == Some(Flaw::CleanTooEarly) && self.phase() == Phase::Closing {
            let abort = Path::new(super::play::ROOT).join("abort");
            if self.twin.stat(&abort)?.is_some() {
                self.twin.unlink(&abort)?;
                self.twin.sync_dir(Path::new(super::play::ROOT))?;
            }
        }
        Ok(())
    }
}

impl Disk for FlawedDisk {
    type File = FlawedFile;
    type Lock = TwinLock;

    fn open(&self, path: &Path, how: Open) -> Result<FlawedFile> {
        let disk = self.clone();
        let is_mark = self.flaw == Some(Flaw::NoMark) && path.ends_with("abort");
        let aside = path.with_file_name("no-mark");
        let path = if is_mark { aside.as_path() } else { path };
        self.twin
            .open(path, how)
            .map(|file| FlawedFile { file, disk })
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>> {
        self.twin.stat(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<Entry>> {
        self.twin.list(dir)
    }

    fn create_dirs(&self, dir: &Path) -> Result<()> {
        self.twin.create_dirs(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.twin.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.twin.rename(from, to)
    }

    fn unlink(&self, path: &Path) -> Result<()> {
        self.twin.unlink(path)
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.twin.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        match self.flaw {
            Some(Flaw::NoSyncDir(end)) if dir.ends_with(end) => Ok(()),
            _ => self.twin.sync_dir(dir),
        }
    }

    fn space(&self, path: &Path) -> Result<Space> {
        self.twin.space(path)
    }

    fn file_system(&self, path: &Path) -> Result<FileSystem> {
        self.twin.file_system(path)
    }

    fn lock(&self, path: &Path) -> Result<TwinLock> {
        self.twin.lock(path)
    }

    fn boot_id(&self) -> Option<u128> {
        self.twin.boot_id()
    }
}

impl DiskFile for FlawedFile {
    type Region = FlawedRegion;
    type Cells = TwinCells;

    fn path(&self) -> &Path {
        self.file.path()
    }

    fn is_at(&self, path: &Path) -> Result<bool> {
        self.file.is_at(path)
    }

    fn read_at(&self, into: &mut [u8], position: u64) -> Result<usize> {
        self.file.read_at(into, position)
    }

    fn read_cached_at(&self, into: &mut [u8], position: u64) -> Result<Option<usize>> {
        self.file.read_cached_at(into, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> Result<()> {
        let is_zeros = bytes.iter().all(|byte| *byte == 0);
        let is_in_log = is_in(self.path(), "/commitlog/");
        match self.disk.flaw {
            Some(Flaw::NoZeros) if is_zeros && is_in_log => return Ok(()),
            Some(Flaw::ZerosUnsynced) if is_zeros && is_in_log => {
                self.disk.has_zeroed.store(true, Ordering::Relaxed);
            }
            _ => {}
        }
        self.file.write_at(bytes, position)
    }

    fn sync_data(&self) -> Result<()> {
        if self.disk.leaves_out_sync(self.path())? {
            return Ok(());
        }
        self.file.sync_data()
    }

    fn start_write_back(&self, position: u64, len_bytes: u64) {
        self.file.start_write_back(position, len_bytes);
    }

    fn allocate(&self, len_bytes: u64) -> Result<()> {
        self.file.allocate(len_bytes)
    }

    fn set_len(&self, len_bytes: u64) -> Result<()> {
        self.file.set_len(len_bytes)
    }

    fn len_bytes(&self) -> Result<u64> {
        self.file.len_bytes()
    }

    fn advise(&self, use_: Option<Use>, position: u64, len_bytes: u64) {
        self.file.advise(use_, position, len_bytes);
    }

    fn map(&self, len_bytes: u64, published: u64) -> Result<FlawedRegion> {
        Ok(FlawedRegion {
            region: self.file.map(len_bytes, published)?,
            path: self.path().to_owned(),
            disk: self.disk.clone(),
        })
    }

    fn map_cells(&self, len_bytes: u64) -> Result<TwinCells> {
        self.file.map_cells(len_bytes)
    }
}

impl Region for FlawedRegion {
    fn len_bytes(&self) -> u64 {
        self.region.len_bytes()
    }

    fn published(&self) -> u64 {
        self.region.published()
    }

    fn reserve(&self, position: u64, len: usize) -> Option<Reservation<'_>> {
        self.region.reserve(position, len)
    }

    fn publish(&self, reservation: Reservation<'_>) {
        self.region.publish(reservation);
    }

    fn publish_through(&self, position: u64) {
        self.region.publish_through(position);
    }

    fn slice(&self, position: u64, len: usize) -> Option<&[u8]> {
        self.region.slice(position, len)
    }

    fn populate(&self, position: u64, len_bytes: u64) -> Result<()> {
        self.region.populate(position, len_bytes)
    }

    fn sync(&self, position: u64, len_bytes: u64) -> Result<()> {
        if self.disk.leaves_out_sync(&self.path)? {
            return Ok(());
        }
        let (mut from, mut end) = (position, position + len_bytes);
        match self.disk.flaw {
            Some(Flaw::ShortSync) => end = (end - 1) / PAGE_BYTES * PAGE_BYTES,
            Some(Flaw::LateSync) => from = (from / PAGE_BYTES + 1) * PAGE_BYTES,
            _ => {}
        }
        self.region.sync(from, end.saturating_sub(from))
    }

    fn release(&self, position: u64, len_bytes: u64) {
        self.region.release(position, len_bytes);
    }

    fn advise(&self, use_: Use, position: u64, len_bytes: u64) {
        self.region.advise(use_, position, len_bytes);
    }

    fn lock(&self) -> Result<()> {
        self.region.lock()
    }

    fn unlock(&self) {
        self.region.unlock();
    }

    fn resident_pages(&self, position: u64, len_bytes: u64) -> u64 {
        self.region.resident_pages(position, len_bytes)
    }
}
