//! Syncing index files, and what that allows the checkpoint to state: nothing more once a sync has
//! failed, or once somebody else has changed the directory.
//!
//! Locks: that of the one who puts is held over one look at the directory, as no file may be made
//! meanwhile; that of the list of files comes behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::files::{Files, IndexFiles};
use super::name::is_index_name;
use super::write::IndexWriter;
use crate::clock::Clock;
use crate::disk::Disk;
use crate::error::Result;
use crate::notice::Notices;
use crate::poison::Poison;

/// Syncs index files.
pub struct IndexSync<D: Disk, C: Clock> {
    pub(super) files: Arc<IndexFiles<D>>,
    pub(super) writer: Arc<IndexWriter<D, C>>,
    pub(super) notices: Arc<Notices>,
    /// Set when the directory no longer held just these files: see [`IndexSync::check_names`].
    pub(super) is_disturbed: AtomicBool,
    /// Set by the first failed sync: what the files hold on the device is then unknown.
    pub(super) poison: Poison,
}

impl<D: Disk, C: Clock> IndexSync<D, C> {
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

    /// [`IndexSync::sync`] of every file, also the one being filled: before a clean stop.
    ///
    /// # Durability
    /// On return all that was put before survives power loss.
    ///
    /// # Blocking
    /// Until the device has answered.
    ///
    /// # Errors
    /// As for [`IndexSync::sync`].
    pub fn sync_all(&self) -> Result<Option<i64>> {
        self.sync_where(|_| true)
    }

    fn sync_where(&self, is_wanted: impl Fn(bool) -> bool) -> Result<Option<i64>> {
        self.poison.check()?;
        let mut is_more_synced = false;
        for file in self.files.now().iter().filter(|file| !file.is_synced()) {
            if !is_wanted(file.is_full()) {
                continue;
            }
            if let Err(error) = file.sync() {
                self.poison.set(error.to_string());
                return Err(error);
            }
            is_more_synced = true;
            if file.is_synced() && file.is_mapped() {
                self.files.replace(&Arc::new(file.sealed()));
            }
        }
        let is_disturbed =
            self.is_disturbed.load(Ordering::Acquire) || (is_more_synced && !self.check_names()?);
        if is_disturbed {
            return Ok(None);
        }
        Ok(checkpoint_timestamp_ms::<D>(&self.files.list.read()))
    }

    /// Whether the directory holds just the files of this index. An official broker that is
    /// refused a live store has by then removed the newest files and made others: keys put since
    /// are then in no file that the next opening finds. Once that was seen [`IndexSync::sync`]
    /// allows no more of the checkpoint; the owner lets the next opening make the index again.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn check_names(&self) -> Result<bool> {
        if self.is_disturbed.load(Ordering::Acquire) {
            return Ok(false);
        }
        // No file is made between the two looks.
        let Some(problem) = self.writer.while_still(|| self.problem())? else {
            return Ok(true);
        };
        self.is_disturbed.store(true, Ordering::Release);
        self.notices.warn(format!(
            "{problem} by another process: the next start makes the key index again from the log. \
             See that nobody else starts a broker on this store"
        ));
        Ok(false)
    }

    /// How the directory is not that of these files.
    fn problem(&self) -> Result<Option<String>> {
        let files = self.files.now();
        let dir = &self.files.dir;
        let mut problem = None;
        for file in &files {
            if !file.has_name()? {
                problem = Some(format!("{} was removed", file.path().display()));
            }
        }
        for entry in self.files.disk.list(dir)? {
            let is_ours = || files.iter().any(|file| file.name() == entry.name);
            if is_index_name(&entry.name) && !is_ours() {
                problem = Some(format!("{} appeared", dir.join(&entry.name).display()));
            }
        }
        Ok(problem)
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
