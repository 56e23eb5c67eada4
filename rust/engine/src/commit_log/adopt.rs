//! Taking a whole file of another log as the next one of this: what a slave has copied from its master. The
//! file was looked at and synced before; here it gets its name and its place.
//!
//! Locks: as [`super::log`]; under the append lock no file is made ahead.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::log::{CommitLog, Guarded};
use crate::clock::Clock;
use crate::disk::{Disk, Open};
use crate::error::{Error, Result};
use crate::segment::Segment;
use crate::units::offset_file_name;

impl<D: Disk, C: Clock> CommitLog<D, C> {
    /// Takes the file `staged`, which is on the disk, as that of the log from `base` on: where the log
    /// ends, or anywhere while it holds nothing. `store_ms` is the time of its last record, Unix ms.
    ///
    /// # Durability
    /// On return the file is the log's after power loss, too. A crash before leaves it where it was, or in the
    /// log: both are whole.
    ///
    /// # Blocking
    /// For the append lock, the file that is being made ahead, and two syncs of a directory.
    ///
    /// # Errors
    /// [`Error::NotWritable`] when the log ends elsewhere; [`Error::WrongFileSize`]; [`Error::Io`], after which
    /// the store is poisoned where nothing is known of the name; [`Error::Poisoned`].
    pub fn adopt(&self, base: u64, staged: &Path, store_ms: Option<i64>) -> Result<()> {
        let files = &*self.files;
        files.poison.check()?;
        let expected_bytes = files.chain.segment_len_bytes();
        let len_bytes = files.disk.stat(staged)?.map_or(0, |stat| stat.len_bytes);
        if len_bytes != expected_bytes {
            return Err(Error::WrongFileSize {
                path: staged.to_owned(),
                len_bytes,
                expected_bytes,
                key: "mappedFileSizeCommitLog",
            });
        }
        {
            let Guarded { tail, .. } = &mut *self.guarded.lock();
            let is_next = tail.position == base || tail.position == 0;
            if !is_next || !base.is_multiple_of(expected_bytes) {
                let reason = format!(
                    "a file of another log for {base}, and this log ends at {}",
                    tail.position
                );
                return Err(Error::NotWritable { reason });
            }
            // Names go before the new one comes: with both a start would miss the files between them.
            let _nothing_is_made = files.preparer.quiet()?;
            self.clear_from(tail, tail.position)?;
            let segment = self.take_name(base, staged)?;
            if tail.position != base {
                self.skip_to(tail, base);
            }
            let end = segment.end();
            files.chain.push(Arc::new(segment));
            (tail.position, tail.ring_at, tail.claimed_to) = (end, end, end);
            tail.last_store_ms = tail.last_store_ms.max(store_ms.unwrap_or(0));
            files
                .last_store_ms
                .store(tail.last_store_ms, Ordering::Relaxed);
            files.records_end.store(end, Ordering::Release);
            files.positions.appended.publish(end);
        }
        files.signals.appended(self.wakes_flush);
        Ok(())
    }

    /// Gives the file its name in the log.
    fn take_name(&self, base: u64, staged: &Path) -> Result<Segment<D>> {
        let files = &*self.files;
        let dir = files.chain.dir();
        files.disk.create_dir_all(dir)?;
        let path = dir.join(offset_file_name(base));
        files.disk.rename(staged, &path)?;
        let synced = files.disk.sync_dir(dir).and_then(|()| {
            // Between two directories: the new name, then that it is the only one.
            staged
                .parent()
                .map_or(Ok(()), |from| files.disk.sync_dir(from))
        });
        if let Err(error) = synced {
            files.fail(error.to_string());
            return Err(error);
        }
        let len_bytes = files.chain.segment_len_bytes();
        Segment::open(&files.disk, path, base, len_bytes, Open::Write)
    }
}
