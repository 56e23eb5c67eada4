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

/// Bytes of a file in the page cache, by equal parts of it from its start on; empty for an empty
/// file, `None` when there is none, or the system does not report it. The last part may be shorter.
///
/// # Errors
/// [`crate::error::Error::Io`].
///
/// # Blocking
/// Asks the kernel for every page of the file.
pub fn resident_parts<D: Disk>(disk: &D, path: &Path, parts: u64) -> Result<Option<Vec<u64>>> {
    let Some(stat) = disk.stat(path)? else {
        return Ok(None);
    };
    if stat.len_bytes == 0 {
        return Ok(Some(Vec::new()));
    }
    let pages = stat.len_bytes.div_ceil(PAGE_BYTES);
    let part_bytes = pages.div_ceil(parts.max(1)) * PAGE_BYTES;
    let Some(region) = mapped(disk, path, stat.len_bytes) else {
        return Ok(None);
    };
    let starts = (0..stat.len_bytes).step_by(usize::try_from(part_bytes).unwrap_or(usize::MAX));
    let resident = starts.map(|start| region.resident_pages(start, part_bytes) * PAGE_BYTES);
    Ok(Some(resident.collect()))
}

fn resident_bytes<D: Disk>(disk: &D, path: &Path, len_bytes: u64) -> Option<u64> {
    if len_bytes == 0 {
        return Some(0);
    }
    Some(mapped(disk, path, len_bytes)?.resident_pages(0, len_bytes) * PAGE_BYTES)
}

/// The map needs a descriptor that may write, though nothing is written through it.
fn mapped<D: Disk>(disk: &D, path: &Path, len_bytes: u64) -> Option<<D::File as DiskFile>::Region> {
    disk.open(path, Open::Write).ok()?.map(len_bytes, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    #[test]
    fn parts_of_a_file_add_up_to_what_is_in_memory() {
        let name = format!("mq-resident-parts-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        assert_eq!(resident_parts(&RealDisk, &path, 4).unwrap(), None);
        std::fs::write(&path, b"").unwrap();
        assert_eq!(resident_parts(&RealDisk, &path, 4).unwrap(), Some(vec![]));
        std::fs::write(&path, vec![1; 10 * PAGE_BYTES as usize + 1]).unwrap();
        let parts = resident_parts(&RealDisk, &path, 4).unwrap().unwrap();
        let pages: Vec<u64> = parts.iter().map(|bytes| bytes / PAGE_BYTES).collect();
        assert_eq!(pages, [3, 3, 3, 2]);
        let fine = resident_parts(&RealDisk, &path, 1_000).unwrap().unwrap();
        assert_eq!(fine.len(), 11);
        std::fs::remove_file(&path).unwrap();
    }
}
