//! Committing: what appends left in pool buffers goes to the file by `pwrite`
//! (`DefaultMappedFile.commit0`). On demand: whoever needs it does it, for everyone who waits.

use crate::disk::{Disk, DiskFile, Region};
use crate::error::{Error, Result};
use crate::segment::LogFiles;
use crate::units::MIB;

/// Bytes per `pwrite`: enough to make the call cheap, little enough that `committed` moves often.
const COMMIT_STEP_BYTES: u64 = MIB;

impl<D: Disk> LogFiles<D> {
    /// Writes what is in pool buffers to the files until at least `target` is committed; gives
    /// buffers of full files back. Without a pool everything is committed as it is appended.
    ///
    /// # Durability
    /// What is below the committed watermark survives the process.
    ///
    /// # Errors
    /// [`Error::Io`], after which the store is poisoned; [`Error::Poisoned`].
    ///
    /// # Blocking
    /// For the writes, or for another caller's.
    pub fn commit_to(&self, target: u64) -> Result<u64> {
        let Some(pool) = &self.pool else {
            return Ok(self.positions.appended.position());
        };
        loop {
            let committed = self.positions.committed.position();
            if committed >= target {
                return Ok(committed);
            }
            let _turn = self.committing.lock();
            self.poison.check()?;
            let from = self.positions.committed.position();
            let to = self.positions.appended.position();
            if from >= target || from >= to {
                return Ok(from);
            }
            let Some(segment) = self.chain.find(from) else {
                return Err(Error::NoRecord {
                    physical_offset: from,
                    why: "no log file holds what is to be committed".to_owned(),
                });
            };
            let start = from - segment.base();
            let end = to.min(segment.end()).min(from + COMMIT_STEP_BYTES) - segment.base();
            if let Some(buffer) = segment.buffer() {
                let content = end.min(segment.content_end()).max(start);
                let bytes = buffer
                    .slice(start, (content - start) as usize)
                    .unwrap_or_default();
                if let Err(error) = segment.file().write_at(bytes, start) {
                    self.fail(error.to_string());
                    return Err(error);
                }
            }
            if let Some(region) = segment.region() {
                region.publish_through(end);
            }
            self.positions.committed.raise(segment.base() + end);
            if segment.base() + end == segment.end()
                && let Some(buffer) = segment.set_buffer(None)
            {
                pool.give_back(buffer);
            }
            self.signals.appended(false);
        }
    }
}
