//! What happens to index files after they were filled: sync, retention, truncation.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::name::is_index_name;
use super::table::{Files, IndexState, KeyIndex};
use crate::clock::Clock;
use crate::disk::Disk;
use crate::error::Result;

impl<D: Disk, C: Clock> KeyIndex<D, C> {
    /// Syncs the files that became full and stops mapping them. Returns what the checkpoint's
    /// `indexMsgTimestamp` may be raised to: after a crash every full file that ends at or before
    /// it is trusted, so it stays below the end of all that is not synced. `None`: leave it.
    ///
    /// # Durability
    /// On return full files survive power loss.
    ///
    /// # Blocking
    /// Until the device has answered.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]; after that every call fails with
    /// [`crate::error::Error::Poisoned`]: the checkpoint must not move any more.
    pub fn sync(&self) -> Result<Option<i64>> {
        self.sync_where(|is_full| is_full)
    }

    /// [`KeyIndex::sync`] of every file, also the one being filled: before a clean stop.
    ///
    /// # Durability
    /// On return all that was put before survives power loss.
    ///
    /// # Blocking
    /// Until the device has answered.
    ///
    /// # Errors
    /// As for [`KeyIndex::sync`].
    pub fn sync_all(&self) -> Result<Option<i64>> {
        self.sync_where(|_| true)
    }

    fn sync_where(&self, is_wanted: impl Fn(bool) -> bool) -> Result<Option<i64>> {
        self.sync_poison.check()?;
        let mut is_more_synced = false;
        let files: Files<D> = self.files.read().clone();
        for file in files.iter().filter(|file| !file.is_synced()) {
            if !is_wanted(file.is_full()) {
                continue;
            }
            if let Err(error) = file.sync() {
                self.sync_poison.set(error.to_string());
                return Err(error);
            }
            is_more_synced = true;
            if file.is_synced() && file.is_mapped() {
                self.replace(&Arc::new(file.sealed()));
            }
        }
        let is_disturbed =
            self.is_disturbed.load(Ordering::Acquire) || (is_more_synced && !self.check_names()?);
        if is_disturbed {
            return Ok(None);
        }
        Ok(checkpoint_timestamp_ms::<D>(&self.files.read()))
    }

    /// Whether the directory holds just the files of this index. An official broker that is
    /// refused a live store has by then removed the newest files and made others: keys put since
    /// are then in no file that the next opening finds. Once that was seen [`KeyIndex::sync`]
    /// allows no more of the checkpoint; the owner lets the next opening make the index again.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn check_names(&self) -> Result<bool> {
        if self.is_disturbed.load(Ordering::Acquire) {
            return Ok(false);
        }
        // Held, so that no file is made between the two looks.
        let writer = self.writer.lock();
        let files: Files<D> = self.files.read().clone();
        let mut problem = None;
        for file in &files {
            if !file.has_name()? {
                problem = Some(format!("{} was removed", file.path().display()));
            }
        }
        for entry in self.disk.list(&self.dir)? {
            let is_ours = || files.iter().any(|file| file.name() == entry.name);
            if is_index_name(&entry.name) && !is_ours() {
                problem = Some(format!("{} appeared", self.dir.join(&entry.name).display()));
            }
        }
        drop(writer);
        let Some(problem) = problem else {
            return Ok(true);
        };
        self.is_disturbed.store(true, Ordering::Release);
        self.notices.warn(format!(
            "{problem} by another process: the next start makes the key index again from the log. \
             See that nobody else starts a broker on this store"
        ));
        Ok(false)
    }

    /// Removes the oldest files that hold nothing of the log from `log_min` on; never the newest
    /// (`IndexService.deleteExpiredFile`). Returns how many.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]; files after the failing one stay.
    pub fn retain(&self, log_min: u64) -> Result<usize> {
        let mut removed = 0;
        loop {
            let oldest = {
                let files = self.files.read();
                match files.first() {
                    Some(oldest) if files.len() > 1 && oldest.end_offset() < log_min => {
                        Arc::clone(oldest)
                    }
                    _ => break,
                }
            };
            if oldest.has_name()? {
                self.disk.unlink(oldest.path())?;
            }
            self.files
                .write()
                .retain(|file| file.name() != oldest.name());
            removed += 1;
        }
        if removed > 0 {
            self.disk.sync_dir(&self.dir)?;
        }
        Ok(removed)
    }

    /// Makes sure that no entry at or beyond `physical_offset` is found, after the log was cut
    /// there: entries cannot be taken out, so files that hold one go as a whole. Returns where
    /// dispatch of the index has to start to have all that lies before. Store times may start
    /// again below those that were cut: the caller sets the checkpoint's `indexMsgTimestamp` back
    /// to [`super::IndexStats::end_timestamp_ms`] where it is above, or files that are made later
    /// could pass for synced.
    ///
    /// # Durability
    /// On return the removal survives power loss.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn truncate_from(&self, physical_offset: u64) -> Result<u64> {
        let mut writer = self.writer.lock();
        let keep = self.files.read().iter().position(|file| {
            // An empty first file ends at 0 without holding the record at 0.
            let is_empty = file.next_number() <= 1;
            file.end_offset() >= physical_offset && !(is_empty && physical_offset == 0)
        });
        if let Some(keep) = keep {
            writer.current = None;
            self.drop_from(keep)?;
        }
        writer.last = self.last_record()?;
        if let IndexState::Paused { resume_offset } | IndexState::CatchingUp { resume_offset } =
            writer.state
            && resume_offset >= physical_offset
        {
            self.set_state(&mut writer, IndexState::Running);
        }
        Ok(self.end_offset())
    }

    /// Removes every file: the log is empty, or the index is to be made again from its start.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn clear(&self) -> Result<()> {
        let mut writer = self.writer.lock();
        writer.current = None;
        self.drop_from(0)?;
        writer.last = None;
        self.set_state(&mut writer, IndexState::Running);
        Ok(())
    }
}

/// The latest end time of the synced files at the front that lies before the end time of all that
/// follows: records of one millisecond may lie in two files, of which one is synced.
fn checkpoint_timestamp_ms<D: Disk>(files: &Files<D>) -> Option<i64> {
    let synced = files.iter().take_while(|file| file.is_synced()).count();
    // All synced: what comes next may still have the time of the last one's end.
    let bound = files.get(synced).or(files.last())?.end_timestamp_ms();
    files
        .iter()
        .take(synced)
        .map(|file| file.end_timestamp_ms())
        .filter(|end_ms| *end_ms < bound)
        .max()
}
