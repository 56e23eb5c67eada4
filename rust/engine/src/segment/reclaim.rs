//! Gives the bytes of removed log files back, in steps, once nobody reads them any more. The name is
//! gone before; a crash in between leaves the rest to the file system. A file that has another name
//! (a hard link of a snapshot) keeps its bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::lock::Mutex;

use crate::disk::{Disk, DiskFile};
use crate::error::Result;
use crate::segment::Segment;
use crate::units::MIB;

/// Bytes given back per step: freeing the extents of 64 MiB keeps the file system's journal busy
/// for about a millisecond, so an append in between does not notice.
const STEP_BYTES: u64 = 64 * MIB;

/// Removed files whose bytes are still allocated.
pub struct Reclaimer<D: Disk> {
    waiting: Mutex<VecDeque<Arc<Segment<D>>>>,
}

impl<D: Disk> Default for Reclaimer<D> {
    fn default() -> Self {
        Self {
            waiting: Mutex::new(VecDeque::new()),
        }
    }
}

impl<D: Disk> Reclaimer<D> {
    /// Removes the name of a file that has left its chain and queues its bytes.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`] when the name cannot be removed.
    pub fn remove(&self, disk: &D, segment: Arc<Segment<D>>) -> Result<()> {
        disk.unlink(segment.path())?;
        segment.unmap();
        self.waiting.lock().push_back(segment);
        Ok(())
    }

    /// One step: cuts the oldest waiting file that nobody holds; true when there is more to do.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]; the file is then left to the file system.
    pub fn step(&self) -> Result<bool> {
        let mut waiting = self.waiting.lock();
        let is_free = |segment: &Arc<Segment<D>>| {
            // Both must be gone: who holds the segment may map it, who holds a slice reads it.
            Arc::strong_count(segment) == 1 && !segment.is_mapped()
        };
        let Some(at) = waiting.iter().position(is_free) else {
            return Ok(false);
        };
        let Some(segment) = waiting.remove(at) else {
            return Ok(false);
        };
        drop(waiting);
        if segment.file().is_linked()? {
            // A snapshot has it under a name of its own: the bytes are that one's now.
            return Ok(!self.waiting.lock().is_empty());
        }
        let len = segment.file().len_bytes()?;
        if len > STEP_BYTES {
            segment.file().set_len(len - STEP_BYTES)?;
            self.waiting.lock().push_front(segment);
            return Ok(true);
        }
        drop(segment);
        Ok(!self.waiting.lock().is_empty())
    }

    /// Files that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.lock().len()
    }
}
