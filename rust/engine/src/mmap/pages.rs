//! What the kernel is asked to do with the pages of a map: to make them present, to write them back,
//! to keep them. Touches no byte itself, and no pointer.

use std::io;

use memmap2::{Advice, MmapRaw};

use super::{Map, Use};

impl Map {
    /// Makes the pages of a range present and writable, if the map is. Does not change a byte.
    ///
    /// # Errors
    /// The system's; `EINVAL` on kernels before 5.14.
    ///
    /// # Blocking
    /// Until the file system has given every page.
    pub fn populate(&self, position: u64, len_bytes: u64) -> io::Result<()> {
        let wanted = self.clamp(position, len_bytes);
        let Some((position, len)) = wanted.filter(|_| self.is_writable) else {
            return Ok(());
        };
        self.raw.advise_range(Advice::PopulateWrite, position, len)
    }

    /// Makes the pages of a range present for reading.
    ///
    /// # Errors
    /// The system's; `EFAULT` where the disk does not give them, `EINVAL` on kernels before 5.14.
    ///
    /// # Blocking
    /// Until every page is read.
    pub fn expect_read(&self, position: u64, len_bytes: u64) -> io::Result<()> {
        let Some((position, len)) = self.clamp(position, len_bytes) else {
            return Ok(());
        };
        self.raw.advise_range(Advice::PopulateRead, position, len)
    }

    /// Advises the kernel what a range will be used for.
    ///
    /// # Errors
    /// The system's.
    pub fn advise(&self, use_: Use, position: u64, len_bytes: u64) -> io::Result<()> {
        let Some((position, len)) = self.clamp(position, len_bytes) else {
            return Ok(());
        };
        self.raw.advise_range(use_.advice(), position, len)
    }

    /// Makes the bytes of a range durable, and what of the file's metadata reading them back needs
    /// (`msync`: on Linux `fdatasync` of these pages). Pages that the range only touches are written
    /// whole; the others of the file are left as they are.
    ///
    /// # Errors
    /// The system's, also of write-back that failed anywhere in the file before: it is reported once.
    /// `InvalidInput` where no file lies under the map.
    ///
    /// # Blocking
    /// Until the device has answered.
    pub fn sync(&self, position: u64, len_bytes: u64) -> io::Result<()> {
        let Some((position, len)) = self.clamp(position, len_bytes) else {
            return Ok(());
        };
        let raw = self.raw.of_file();
        let raw = raw.ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
        raw.flush_range(position, len)
    }

    /// Locks the whole map in memory.
    ///
    /// # Errors
    /// `ENOMEM` or `EPERM` when the limit of locked memory (RLIMIT_MEMLOCK) is too low.
    pub fn lock(&self) -> io::Result<()> {
        self.raw.mapped().map_or(Ok(()), MmapRaw::lock)
    }

    /// Undoes [`Map::lock`].
    ///
    /// # Errors
    /// The system's.
    pub fn unlock(&self) -> io::Result<()> {
        self.raw.mapped().map_or(Ok(()), MmapRaw::unlock)
    }
}
