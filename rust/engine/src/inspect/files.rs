//! What a store occupies: every file with its length, what it takes on disk, and what of it is in
//! memory.

use std::path::{Path, PathBuf};

use super::Inspection;
use crate::disk::{Disk, DiskFile, Open, Region};
use crate::error::Result;
use crate::units::PAGE_BYTES;

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReport {
    /// Its path below the root.
    pub path: PathBuf,
    /// Its length.
    pub len_bytes: u64,
    /// Bytes it takes on the device.
    pub allocated_bytes: u64,
    /// Bytes of it in the page cache; `None` when the system does not say.
    pub resident_bytes: Option<u64>,
}

impl<D: Disk> Inspection<D> {
    /// Every file below the root, by path.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Asks the kernel for the pages of every file.
    pub fn files(&self) -> Result<Vec<FileReport>> {
        let mut out = Vec::new();
        self.files_below(Path::new(""), &mut out)?;
        Ok(out)
    }

    fn files_below(&self, below: &Path, out: &mut Vec<FileReport>) -> Result<()> {
        for entry in self.disk.list(&self.root.join(below))? {
            let path = below.join(&entry.name);
            if entry.is_dir {
                self.files_below(&path, out)?;
                continue;
            }
            let full = self.root.join(&path);
            // A running broker may remove a file between the two looks.
            let Some(stat) = self.disk.stat(&full)? else {
                continue;
            };
            out.push(FileReport {
                path,
                len_bytes: stat.len_bytes,
                allocated_bytes: stat.allocated_bytes,
                resident_bytes: self.resident_bytes(&full, stat.len_bytes),
            });
        }
        Ok(())
    }

    /// The map needs a descriptor that may write, though nothing is written through it.
    fn resident_bytes(&self, path: &Path, len_bytes: u64) -> Option<u64> {
        if len_bytes == 0 {
            return Some(0);
        }
        let region = self
            .disk
            .open(path, Open::Write)
            .ok()?
            .map(len_bytes, 0)
            .ok()?;
        Some(region.resident_pages(0, len_bytes) * PAGE_BYTES)
    }
}
