//! Group commit (`CommitLog.GroupCommitService`): one sync covers all that was appended when it
//! began. Whoever needs a sync leads one when none is under way; the others wait for the
//! watermark. There is no thread per request and no tick.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::disk::{Disk, DiskFile, Region};
use crate::error::{Error, Result};
use crate::segment::{LogFiles, Segment};
use crate::units::PAGE_BYTES;

/// How long a waiter sleeps at most before it looks whether it may lead; wakes make it shorter.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Pause after a sync that moved nothing although bytes are wanted: a file of the log is missing, or
/// its bytes are not appended yet. Short against any timeout, long against the sync that it repeats.
const NO_PROGRESS_PAUSE: Duration = Duration::from_millis(5);

/// Bytes of a sync from which on their pages leave the page tables first: eight pages, whose
/// interrupts cost more than the call and the fault of the reader that comes by. A lone record under
/// synchronous flush stays below.
const RELEASE_BYTES_MIN: u64 = 8 * PAGE_BYTES;

/// Syncs the files of a log.
pub struct Syncer<D: Disk> {
    files: Arc<LogFiles<D>>,
    is_led: AtomicBool,
    syncs: AtomicU64,
    flushed_store_ms: AtomicI64,
}

impl<D: Disk> Syncer<D> {
    /// A syncer of `files`.
    #[must_use]
    pub fn new(files: Arc<LogFiles<D>>) -> Self {
        Self {
            files,
            is_led: AtomicBool::new(false),
            syncs: AtomicU64::new(0),
            flushed_store_ms: AtomicI64::new(0),
        }
    }

    /// Syncs done so far.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Every record with a store time up to this, ms, is flushed: what the checkpoint may hold.
    #[must_use]
    pub fn flushed_store_ms(&self) -> i64 {
        self.flushed_store_ms.load(Ordering::Acquire)
    }

    /// One sync of all that is in the page cache now; the new flushed watermark.
    ///
    /// # Durability
    /// What is below the answer survives power loss.
    ///
    /// # Errors
    /// [`Error::Io`] from the sync, after which the store is poisoned: the kernel may have dropped
    /// the pages, so trying again could lie. [`Error::Poisoned`].
    ///
    /// # Blocking
    /// For the sync, or for another caller's.
    pub fn sync_now(&self) -> Result<u64> {
        let _lead = loop {
            if let Some(lead) = self.try_lead() {
                break lead;
            }
            let is_over = || !self.is_led.load(Ordering::Acquire);
            self.files
                .positions
                .flushed
                .wait(u64::MAX, LOOK_AGAIN, is_over);
        };
        self.lead()
    }

    /// Makes sure that everything below `target` is flushed.
    ///
    /// # Durability
    /// What is below `target` survives power loss.
    ///
    /// # Errors
    /// As [`Syncer::sync_now`]; [`Error::Timeout`] when it took longer than `timeout`.
    ///
    /// # Blocking
    /// At most `timeout`, and the sync that this caller leads.
    pub fn sync_to(&self, target: u64, timeout: Duration) -> Result<()> {
        let flushed = &self.files.positions.flushed;
        let deadline = std::time::Instant::now() + timeout;
        loop {
            // What was flushed before a failure is flushed.
            if flushed.position() >= target {
                return Ok(());
            }
            self.files.poison.check()?;
            let mut is_stuck = false;
            if let Some(_lead) = self.try_lead() {
                let before = (flushed.position(), self.files.in_page_cache());
                if self.lead()? < target {
                    // With a pool the bytes may not have been committed yet.
                    self.files.commit_to(target)?;
                }
                is_stuck = before == (flushed.position(), self.files.in_page_cache());
                if !is_stuck {
                    continue;
                }
            }
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                let waited_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
                return Err(Error::Timeout {
                    what: "the sync of the log",
                    waited_ms,
                });
            }
            // The leader of now may have begun before our bytes: look again after each sync.
            let next = flushed.position() + 1;
            let pause = if is_stuck {
                left.min(NO_PROGRESS_PAUSE)
            } else {
                left
            };
            let is_over = || {
                let is_led = is_stuck || self.is_led.load(Ordering::Acquire);
                self.files.poison.reason().is_some() || !is_led
            };
            flushed.wait(next.min(target), pause, is_over);
        }
    }

    fn try_lead(&self) -> Option<Lead<'_, D>> {
        self.is_led
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
            .then(|| Lead { syncer: self })
    }

    fn lead(&self) -> Result<u64> {
        let files = &*self.files;
        files.poison.check()?;
        let from = files.positions.flushed.position();
        // Read before the end: they are of records that the sync covers.
        let store_ms = files.last_store_ms.load(Ordering::Acquire);
        let records_end = files.records_end.load(Ordering::Acquire);
        let to = files.in_page_cache();
        let mut at = from;
        while at < to {
            let Some(segment) = files.chain.find(at) else {
                break;
            };
            let end = segment.end().min(to);
            if let Err(error) = self.sync_part(&segment, at, end) {
                files.fail(error.to_string());
                return Err(error);
            }
            at = end;
            files.positions.flushed.raise(at);
        }
        self.syncs.fetch_add(1, Ordering::Relaxed);
        if at >= to {
            self.flushed_store_ms.fetch_max(store_ms, Ordering::AcqRel);
            files
                .records_flushed
                .fetch_max(records_end.min(to), Ordering::AcqRel);
        }
        if to > from && files.reads_flushed_only {
            files.signals.dispatch.notify();
        }
        Ok(files.positions.flushed.position())
    }

    /// Syncs `[from, to)` of the log, which lies in one file. Through its map that range alone: the
    /// window of populated pages ahead of the append is dirty as well, and its zeros are what an
    /// allocated file reads as anyway. All else that a file needs (its length, its extents, what
    /// recovery wrote) was synced by who made it. A pool writes through the file, and a map may have
    /// been let go meanwhile: then the file is synced as a whole.
    fn sync_part(&self, segment: &Segment<D>, from: u64, to: u64) -> Result<()> {
        let is_written_through_map = self.files.pool.is_none();
        match segment.region().filter(|_| is_written_through_map) {
            Some(region) => {
                let (from, to) = (from - segment.base(), to - segment.base());
                if to - from >= RELEASE_BYTES_MIN {
                    // The page that the last sync ended in is behind the append by now; the one that
                    // this sync ends in may be written on and stays.
                    let first = from - from % PAGE_BYTES;
                    region.release(first, to - first);
                }
                region.sync(from, to - from)
            }
            None => segment.file().sync_data(),
        }
    }
}

/// The right to sync. Letting it go wakes whoever waits: a follower that woke at the leader's last
/// raise and found it still leading would otherwise sleep on with nobody left to sync for it.
struct Lead<'a, D: Disk> {
    syncer: &'a Syncer<D>,
}

impl<D: Disk> Drop for Lead<'_, D> {
    fn drop(&mut self) {
        self.syncer.is_led.store(false, Ordering::Release);
        self.syncer.files.positions.flushed.wake_waiting();
    }
}
