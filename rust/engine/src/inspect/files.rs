//! What a store occupies: every file with its length, what it takes on disk, and what of it is in
//! memory.

use std::path::{Path, PathBuf};

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
    /// Bytes of it in the page cache; `None` when the system does not report it.
    pub resident_bytes: Option<u64>,
}

/// Every file below `below` in a root, by path.
///
/// # Errors
/// [`crate::error::Error::Io`].
pub(super) fn files_below<D: Disk>(
    disk: &D,
    (root, below): (&Path, &Path),
    out: &mut Vec<FileReport>,
) -> Result<()> {
    for entry in disk.list(&root.join(below))? {
        let path = below.join(&entry.name);
        if entry.is_dir {
            files_below(disk, (root, &path), out)?;
            continue;
        }
        let full = root.join(&path);
        // A running broker may remove a file between the two looks.
        let Some(stat) = disk.stat(&full)? else {
            continue;
        };
        out.push(FileReport {
            path,
            len_bytes: stat.len_bytes,
            allocated_bytes: stat.allocated_bytes,
            resident_bytes: resident_bytes(disk, &full, stat.len_bytes),
        });
    }
    Ok(())
}

/// The map needs a descriptor that may write, though nothing is written through it.
fn resident_bytes<D: Disk>(disk: &D, path: &Path, len_bytes: u64) -> Option<u64> {
    if len_bytes == 0 {
        return Some(0);
    }
    let region = disk.open(path, Open::Write).ok()?.map(len_bytes, 0).ok()?;
    Some(region.resident_pages(0, len_bytes) * PAGE_BYTES)
}
