//! What has to be done now and then: syncs of queues, the checkpoint, retention, the state of the
//! disk, the hot window. Each is one step that a thread, or a test, makes.

use super::Store;
use crate::checkpoint::Field;
use crate::clock::Clock;
use crate::commit_log::{Reason, plan_space};
use crate::disk::{Disk, DiskFile};
use crate::dispatch::refusal_of;
use crate::error::Result;

/// Milliseconds of an hour.
const HOUR_MS: i64 = 3_600_000;

/// What a round of retention removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Log files.
    pub log_files: usize,
    /// Their bytes.
    pub log_bytes: u64,
    /// Bytes of the log that somebody still wanted to read.
    pub unread_bytes: u64,
    /// Queue files.
    pub queue_files: u64,
    /// Index files.
    pub index_files: usize,
}

impl<D: Disk, C: Clock> Store<D, C> {
    /// Dispatches one round; true when there is more. While queues or index cannot be written,
    /// appends are refused with the reason; reads go on, and a round that works lifts it.
    ///
    /// # Errors
    /// From queues or index: the same records come again.
    pub fn dispatch_step(&self) -> Result<bool> {
        let stepped = self.dispatcher.step();
        self.refuse(
            "dispatch",
            stepped.as_ref().err().map(refusal_of),
            "queues are written again",
        );
        if self.arrivals.has_news() {
            self.wake.raise();
        }
        let more = stepped?;
        if let Some(index) = &self.index
            && let Some(from) = index.needs_catch_up()?
        {
            self.dispatcher.send_back("index", from);
        }
        Ok(more)
    }

    /// Sets or lifts a cause that holds appends back, and tells the owner when that changed.
    fn refuse(&self, cause: &'static str, reason: Option<String>, healed: &str) {
        let text = reason.clone();
        if self.refusals.set(cause, reason) {
            match text {
                Some(text) => self.files.notices.error(text),
                None => self.files.notices.info(healed),
            }
        }
    }

    /// Syncs the log once.
    ///
    /// # Errors
    /// As [`crate::flush::Syncer::sync_now`].
    pub fn flush(&self) -> Result<u64> {
        let flushed = self.sync_log()?;
        self.announce();
        Ok(flushed)
    }

    /// Syncs the log once and leaves telling those who wait to the caller.
    pub(super) fn sync_log(&self) -> Result<u64> {
        if self.files.pool.is_some() {
            self.files
                .commit_to(self.files.positions.appended.position())?;
        }
        self.syncer.sync_now()
    }

    /// Prepares the next file or populates one step of the window; true when there is more to do.
    ///
    /// # Errors
    /// The file cannot be made: no space, for one. Appends are refused when they need it.
    pub fn prepare_step(&self) -> Result<bool> {
        let files = &self.files;
        let mut more = files.preparer.step()?;
        let appended = files.positions.appended.position();
        self.unlock_full(appended);
        if let Some(segment) = files.chain.find(appended).or_else(|| files.chain.last()) {
            self.lock_memory(&segment);
            more |= files.window.step(&segment, appended, &files.notices);
        }
        if let Some(next) = files.preparer.peek() {
            next.map(0)?;
            more |= files.window.step(&next, appended, &files.notices);
        }
        more |= files.reclaimer.step()?;
        self.cool_down(appended);
        Ok(more)
    }

    /// Unlocks files that are full: only what is written now is worth locked memory.
    fn unlock_full(&self, appended: u64) {
        for segment in self.files.chain.segments() {
            if segment.end() > appended {
                break;
            }
            if segment.is_locked() {
                segment.unlock_memory();
            }
        }
    }

    fn lock_memory(&self, segment: &crate::segment::Segment<D>) {
        if !self.config.lock_memory || segment.is_locked() {
            return;
        }
        let locked = self
            .files
            .chain
            .segments()
            .iter()
            .filter(|s| s.is_locked())
            .count() as u64;
        let len = self.files.chain.segment_len_bytes();
        if (locked + 1) * len > self.config.locked_bytes_max {
            return;
        }
        if let Err(error) = segment.lock() {
            self.files.notices.warn(format!(
                "{error}: log files stay unlocked; raise the limit of locked memory (ulimit -l, \
                 LimitMEMLOCK) to {} bytes",
                self.config.locked_bytes_max
            ));
        }
    }

    /// Lets the maps of files go that are below the hot window: reads go through the file there.
    fn cool_down(&self, appended: u64) {
        let hot = appended.saturating_sub(self.config.hot_window_bytes);
        let flushed = self.files.in_page_cache();
        for segment in self.files.chain.segments() {
            if segment.end() > hot.min(flushed) {
                break;
            }
            segment.unmap();
        }
    }

    /// Gives back what cold readers that come no more have left.
    pub(super) fn rest_files(&self) {
        self.log.rest();
        for segment in self.files.chain.segments() {
            segment.file().rest();
        }
    }

    /// Writes and syncs queues that are at least `least_pages` behind, then what that allows the
    /// checkpoint to say.
    ///
    /// # Durability
    /// The checkpoint covers only what was written and synced.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]: the queues stay dirty and come again.
    pub fn sync_queues(&self, least_pages: u64) -> Result<()> {
        // Read first: only whole rounds count for the checkpoint.
        let done_ms = self.dispatcher.done_store_ms();
        let batches_ms = self.batches.newest_ms();
        self.batches.write_pending()?;
        self.batches.sync()?;
        self.queues.write_pending()?;
        let synced = self.queues.sync(least_pages)?;
        // Batch queues leave nothing behind that was there before; what came since is not older.
        let behind_ms = synced.waiting_ms.saturating_sub(1);
        let batches_ms = batches_ms.map(|newest_ms| newest_ms.min(behind_ms));
        let bound_ms = done_ms - i64::from(self.batches.has_unsynced());
        if let Some(covered_ms) = synced.covered_ms.max(batches_ms) {
            self.checkpoint
                .raise(Field::LogicsTimestamp, covered_ms.min(bound_ms));
        }
        if let Some(index) = &self.index
            && let Some(index_ms) = index.sync()?
        {
            self.checkpoint.raise(Field::IndexTimestamp, index_ms);
        }
        Ok(())
    }

    /// Writes down where the log begins and how far it is durable, where that has changed.
    ///
    /// # Durability
    /// The mark claims nothing that a completed sync has not made durable.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]: the mark before it holds, and the next call writes it.
    ///
    /// # Blocking
    /// Until the device has answered.
    pub fn note_durable(&self) -> Result<()> {
        match &self.session {
            Some(session) => {
                let durable = self.files.positions.flushed.position();
                session.note(self.files.chain.start()..durable, false)
            }
            None => Ok(()),
        }
    }

    /// Writes down how far the queues are, then the checkpoint.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn write_checkpoint(&self) -> Result<()> {
        self.queues.witness().refresh()?;
        self.checkpoint
            .raise(Field::PhysicTimestamp, self.syncer.flushed_store_ms());
        self.checkpoint.flush()
    }

    /// One look at the disk's fill: refuses appends above the warning level, lifts that below it.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn watch_space(&self) -> Result<crate::commit_log::RetainPlan> {
        let space = self
            .files
            .disk
            .space(self.files.chain.dir())
            .or_else(|_no_log_yet| self.files.disk.space(&self.config.root()?))?;
        let plan = plan_space(space, &self.config);
        let used = space.used_percent();
        let level = self.config.disk_warning_percent;
        let reason = plan.refuses_appends.then(|| {
            format!("the disk is {used} % full (diskSpaceWarningLevelRatio {level}): free space")
        });
        self.refuse("disk", reason, "the disk has room again: appends are taken");
        Ok(plan)
    }

    /// One round of retention for a reason; `hour` is the local hour of the day.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]; what went before is gone.
    pub fn clean(&self, reason: Reason, unread_from: Option<u64>) -> Result<Cleaned> {
        let plan = self.watch_space()?;
        if reason == Reason::Space && !plan.deletes_expired && !plan.deletes_at_once {
            return Ok(Cleaned::default());
        }
        let reserved_ms = i64::try_from(self.config.file_reserved_hours)
            .unwrap_or(i64::MAX)
            .saturating_mul(HOUR_MS);
        let expired_before = self.clock.now_ms().saturating_sub(reserved_ms);
        let before = (!plan.deletes_at_once).then_some(expired_before);
        self.remove_oldest(before, self.config.delete_batch_max, unread_from)
    }

    /// Removes the oldest files whatever their age, as an administrator asks; queues and index
    /// follow.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn remove_oldest(
        &self,
        expired_before_ms: Option<i64>,
        files_max: usize,
        unread_from: Option<u64>,
    ) -> Result<Cleaned> {
        let done = self
            .log
            .remove_oldest(expired_before_ms, files_max, unread_from, || {
                self.keep_queue_ends()
            })?;
        let mut cleaned = Cleaned {
            log_files: done.files,
            log_bytes: done.bytes,
            unread_bytes: done.unread_bytes,
            ..Cleaned::default()
        };
        if done.files == 0 {
            return Ok(cleaned);
        }
        self.files.bells.prepare.ring();
        if done.unread_bytes > 0 {
            self.files.notices.warn(format!(
                "retention removed {} bytes that were not read yet",
                done.unread_bytes
            ));
        }
        let flushed = self.files.positions.flushed.position();
        cleaned.queue_files = self.queues.retain(done.start)?.files;
        cleaned.queue_files += self.batches.retain(done.start, flushed)?;
        if let Some(index) = &self.index {
            cleaned.index_files = index.retain(done.start)?;
        }
        // At once: a start that finds the log shorter than it knows warns.
        self.note_durable()?;
        Ok(cleaned)
    }

    /// Makes durable where each queue ends: once the records are gone only its files say so, and a
    /// queue that began anew would give its offsets to other messages. On a full disk room comes
    /// first: the queues are then written as soon as there is some.
    fn keep_queue_ends(&self) -> Result<()> {
        match self.sync_queues(0) {
            Err(error) if error.is_no_space() => {
                self.files.notices.warn(format!(
                    "{error}: old log files go before the queues are written"
                ));
                Ok(())
            }
            done => done,
        }
    }

    /// Deletes the queues of a topic; its records stay in the log until they expire.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn delete_topic(&self, topic: &[u8]) -> Result<()> {
        self.queues.delete_topic(topic)?;
        self.batches.delete_topic(topic)?;
        self.log.forget_topic(topic);
        Ok(())
    }
}
