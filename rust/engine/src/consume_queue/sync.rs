//! Making the queue files durable. Has a thread of the engine's to itself; appends, writes and
//! reads go on beside it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::files::Files;
use super::ledger::Dirty;
use super::queue::NOTHING_WAITS_MS;
use super::table::{QueueTable, queue_dir_in};
use crate::disk::{Disk, DiskFile};
use crate::error::Result;
use crate::units::offset_file_name;

/// What a sync did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Synced {
    /// Every unit appended before the call with a store time up to this is durable. `None` when
    /// nothing was appended since the store was opened, or nothing of it is durable yet.
    pub covered_ms: Option<i64>,
    /// Smallest store time of a unit that is not durable; `i64::MAX` when all are.
    pub waiting_ms: i64,
    /// Files synced.
    pub files: u64,
}

impl<D: Disk> QueueTable<D> {
    /// Syncs the files of which at least `least_pages` pages were written (0: all).
    ///
    /// # Durability
    /// See [`Synced::covered_ms`]. Tails that were not written are not covered.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`] when a sync failed, then [`crate::error::Error::Poisoned`]
    /// for good: after a failed sync nothing is known of the bytes.
    ///
    /// # Blocking
    /// Until the device has answered. Does not hold up appends.
    pub fn sync(&self, least_pages: u64) -> Result<Synced> {
        let _gate = self.sync_gate.lock();
        self.sync_failed.check()?;
        let newest_ms = self.pending.newest_ms.load(Ordering::Acquire);
        let due = self.ledger.take_due(least_pages, self.file_len_bytes);
        // What the units name in their extensions was written before them, and is durable before them.
        let extended = self.extensions.ledger.take_due(0, 0);
        let synced = self
            .sync_files(&extended, &self.extensions.files, &self.extensions.dir)
            .and_then(|()| self.sync_files(&due, &self.files, &self.dir));
        if let Err(error) = synced {
            self.sync_failed.set(error.to_string());
            return Err(error);
        }
        let waiting_ms = self.oldest_waiting_ms();
        let covered_ms = newest_ms.min(waiting_ms.saturating_sub(1));
        Ok(Synced {
            covered_ms: (covered_ms > i64::MIN).then_some(covered_ms),
            waiting_ms,
            files: due.len() as u64,
        })
    }

    fn sync_files(&self, due: &[Dirty], files: &Files<D>, root_dir: &Path) -> Result<()> {
        // All write-backs are started first: the syncs then mostly wait for what is under way, and
        // the file system joins their journal entries.
        let mut dirs = BTreeSet::new();
        for dirty in due {
            let file = self.dirty_file(dirty, files, root_dir)?;
            if let Some(file) = file {
                file.start_write_back(dirty.from, dirty.to - dirty.from);
            }
        }
        for dirty in due {
            let Some(file) = self.dirty_file(dirty, files, root_dir)? else {
                continue;
            };
            file.sync_data()?;
            files.mark_clean((dirty.queue.uid(), dirty.base));
            if dirty.is_new {
                // The directories above may be as new as the file.
                let queue_dir = queue_dir_in(root_dir, &dirty.queue);
                dirs.extend(queue_dir.parent().map(Path::to_owned));
                dirs.insert(queue_dir);
                dirs.insert(root_dir.to_owned());
                dirs.insert(self.root.clone());
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

    /// The file to sync, opened again if it was closed; `None` when it was removed meanwhile.
    fn dirty_file(
        &self,
        dirty: &Dirty,
        files: &Files<D>,
        root_dir: &Path,
    ) -> Result<Option<std::sync::Arc<D::File>>> {
        let key = (dirty.queue.uid(), dirty.base);
        let path = queue_dir_in(root_dir, &dirty.queue).join(offset_file_name(dirty.base));
        match files.existing(key, || path.clone()) {
            Ok(file) => Ok(Some(file)),
            Err(_) if self.disk.stat(&path)?.is_none() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Smallest store time of a unit that is not durable.
    fn oldest_waiting_ms(&self) -> i64 {
        // While the gate is held no tail is on its way into a file: each unit is seen in its tail
        // or in the ledger.
        let _gate = self.write_gate.lock();
        let pending = self.pending.queues.lock().clone();
        let tails = pending.iter().map(|queue| queue.lock().oldest_pending_ms);
        let oldest = tails.min().unwrap_or(NOTHING_WAITS_MS);
        oldest.min(self.ledger.oldest_ms())
    }
}
