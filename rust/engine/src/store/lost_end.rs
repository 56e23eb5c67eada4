//! The mark of a log of a member that may have lost its end (`mqcore.lost-end`): it outlives starts until
//! somebody has acted on it. Without it a second start would find a clean end, or the pages of the first one,
//! and know nothing of what the power took before. Knows no record and no role.

use std::path::{Path, PathBuf};

use crate::disk::Disk;
use crate::error::Result;
use crate::small_state;

/// Name of the mark in the root of the store; official brokers ignore it.
const LOST_END_NAME: &str = "mqcore.lost-end";
/// What it holds; that it is there is all that counts.
const CONTENT: &[u8] = b"1";

fn path_in(root: &Path) -> PathBuf {
    root.join(LOST_END_NAME)
}

/// Whether an earlier start has found that the end may be lost, and nobody has acted on it.
pub(super) fn is_noted<D: Disk>(disk: &D, root: &Path) -> Result<bool> {
    Ok(disk.stat(&path_in(root))?.is_some())
}

/// Notes that the end may be lost; to be called before anything shows a later start that this one was there.
///
/// # Durability
/// On return the mark survives power loss.
pub(super) fn note<D: Disk>(disk: &D, root: &Path) -> Result<()> {
    small_state::write(disk, &path_in(root), CONTENT)
}

/// Removes the mark. Power loss may bring it back: then it is acted on once more.
pub(super) fn forget<D: Disk>(disk: &D, root: &Path) -> Result<()> {
    if is_noted(disk, root)? {
        disk.unlink(&path_in(root))?;
    }
    Ok(())
}
