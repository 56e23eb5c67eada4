//! Making the files of batch queues durable. Appends, writes and reads go on beside it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::queue::{BatchQueue, Dirty};
use super::table::BatchTable;
use crate::config::BATCH_UNIT_BYTES;
use crate::disk::{Disk, DiskFile};
use crate::error::Result;

/// What one queue has to sync.
struct Due<D: Disk> {
    queue: Arc<BatchQueue<D>>,
    /// Ordinal behind the last unit that is durable then.
    written: u64,
    files: Vec<Dirty<D>>,
}

impl<D: Disk> BatchTable<D> {
    /// Largest store time of a unit appended so far; `None` before the first.
    #[must_use]
    pub fn newest_ms(&self) -> Option<i64> {
        let newest_ms = self.newest_ms.load(Ordering::Acquire);
        (newest_ms > i64::MIN).then_some(newest_ms)
    }

    /// Whether there are units that are not durable.
    #[must_use]
    pub fn has_unsynced(&self) -> bool {
        self.pending_bytes() > 0 || !self.dirty.lock().is_empty()
    }

    /// Syncs every file that was written to.
    ///
    /// # Durability
    /// Every unit that [`BatchTable::write_pending`] wrote before the call survives power loss.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`] when a sync failed, then [`crate::error::Error::Poisoned`] for
    /// good: after a failed sync nothing is known of the bytes.
    ///
    /// # Blocking
    /// Until the device has answered. Does not hold up appends.
    pub fn sync(&self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let _gate = self.sync_gate.lock();
        self.sync_failed.check()?;
        let queues = std::mem::take(&mut *self.dirty.lock());
        let due: Vec<Due<D>> = queues
            .into_iter()
            .map(|queue| {
                let mut state = queue.lock();
                state.is_dirty = false;
                let (written, files) = (state.written, state.dirty.clone());
                drop(state);
                Due {
                    queue,
                    written,
                    files,
                }
            })
            .collect();
        if let Err(error) = self.sync_files(&due) {
            self.sync_failed.set(error.to_string());
            return Err(error);
        }
        for Due {
            queue,
            written,
            files,
        } in due
        {
            let mut state = queue.lock();
            if state.is_gone || state.written < written {
                continue;
            }
            state.synced = state.synced.max(written);
            if !state.is_dirty {
                state.dirty.clear();
            }
            // Written to again meanwhile: the names are durable all the same.
            for dirty in &mut state.dirty {
                dirty.is_new &= !files.iter().any(|synced| synced.base == dirty.base);
            }
        }
        Ok(())
    }

    fn sync_files(&self, due: &[Due<D>]) -> Result<()> {
        let mut dirs = BTreeSet::new();
        for Due { queue, files, .. } in due {
            for dirty in files {
                dirty
                    .file
                    .start_write_back(0, queue.file_units * BATCH_UNIT_BYTES);
            }
        }
        for Due { queue, files, .. } in due {
            for dirty in files {
                dirty.file.sync_data()?;
                if dirty.is_new {
                    // The directories above may be as new as the file.
                    dirs.extend(queue.dir.parent().map(Path::to_owned));
                    dirs.insert(queue.dir.clone());
                    dirs.insert(self.dir.clone());
                    dirs.insert(self.root.clone());
                }
            }
        }
        // Deepest first: once a name is durable, so is everything below it.
        for dir in dirs.into_iter().rev() {
            if self.disk.stat(&dir)?.is_some() {
                self.disk.sync_dir(&dir)?;
            }
        }
        Ok(())
    }
}
