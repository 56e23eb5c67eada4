//! Retention, and the state of the disk that asks for it: which files go when, with queues and index
//! behind them (`DefaultMessageStore.CleanCommitLogService`).

use std::sync::Arc;

use super::checkpoints::Checkpoints;
use super::refusals::Refusals;
use crate::batch_queue::BatchTable;
use crate::clock::Clock;
use crate::commit_log::{self, Reason, RetainPlan, plan_space};
use crate::config::StoreConfig;
use crate::consume_queue::QueueTable;
use crate::disk::Disk;
use crate::error::Result;
use crate::key_index::KeyIndex;
use crate::lock::Mutex;
use crate::segment::LogFiles;

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

/// Removes the oldest files.
pub struct Retention<D: Disk, C: Clock> {
    /// Replaced when a setting changes while the store is open.
    config: Mutex<Arc<StoreConfig>>,
    clock: C,
    files: Arc<LogFiles<D>>,
    queues: Arc<QueueTable<D>>,
    batches: Arc<BatchTable<D>>,
    index: Option<Arc<KeyIndex<D, C>>>,
    checkpoints: Arc<Checkpoints<D, C>>,
    refusals: Arc<Refusals>,
}

impl<D: Disk, C: Clock> Retention<D, C> {
    /// Removes what `checkpoints` syncs.
    pub(super) fn new(
        checkpoints: &Arc<Checkpoints<D, C>>,
        refusals: &Arc<Refusals>,
        config: &Arc<StoreConfig>,
        clock: &C,
    ) -> Self {
        Self {
            config: Mutex::new(Arc::clone(config)),
            clock: clock.clone(),
            files: Arc::clone(&checkpoints.files),
            queues: Arc::clone(&checkpoints.queues),
            batches: Arc::clone(&checkpoints.batches),
            index: checkpoints.index.clone(),
            checkpoints: Arc::clone(checkpoints),
            refusals: Arc::clone(refusals),
        }
    }

    /// From now on by these settings.
    pub(super) fn change(&self, config: &Arc<StoreConfig>) {
        *self.config.lock() = Arc::clone(config);
    }

    fn config(&self) -> Arc<StoreConfig> {
        Arc::clone(&self.config.lock())
    }

    /// One look at the disk's fill: refuses appends above the warning level, lifts that below it.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn watch_space(&self) -> Result<RetainPlan> {
        let config = self.config();
        let space = self
            .files
            .disk
            .space(self.files.chain.dir())
            .or_else(|_no_log_yet| self.files.disk.space(&config.root()?))?;
        let plan = plan_space(space, &config);
        let used = space.used_percent();
        let level = config.disk_warning_percent;
        let reason = plan.refuses_appends.then(|| {
            format!("the disk is {used} % full (diskSpaceWarningLevelRatio {level}): free space")
        });
        let healed = "the disk has room again: appends are taken";
        let notices = &self.files.notices;
        self.refusals.report(notices, "disk", reason, healed);
        Ok(plan)
    }

    /// One round of retention for a reason; `hour` is the local hour of the day.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]; what went before is gone.
    pub fn clean(&self, reason: Reason, unread_from: Option<u64>) -> Result<Cleaned> {
        let plan = self.watch_space()?;
        let config = self.config();
        let beyond = self.files_beyond(config.log_bytes_max);
        if beyond > 0 {
            // Of any age, and none that somebody copies.
            return self.remove_oldest(Some(i64::MAX), beyond, unread_from);
        }
        if reason == Reason::Space && !plan.deletes_expired && !plan.deletes_at_once {
            return Ok(Cleaned::default());
        }
        let reserved_ms = i64::try_from(config.file_reserved_hours)
            .unwrap_or(i64::MAX)
            .saturating_mul(HOUR_MS);
        let expired_before = self.clock.now_ms().saturating_sub(reserved_ms);
        let before = (!plan.deletes_at_once).then_some(expired_before);
        self.remove_oldest(before, config.delete_batch_max, unread_from)
    }

    /// How many of the oldest files have to go so that the log has `bytes_max` bytes or less; 0 of a
    /// log without a bound.
    fn files_beyond(&self, bytes_max: u64) -> usize {
        if bytes_max == 0 {
            return 0;
        }
        let segments = self.files.chain.segments();
        let mut kept = 0_u64;
        let fitting = segments.iter().rev().take_while(|file| {
            kept = kept.saturating_add(file.end() - file.base());
            kept <= bytes_max
        });
        // The newest stays, however long it is.
        segments.len().saturating_sub(fitting.count().max(1))
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
        let keep_queue_ends = || self.keep_queue_ends();
        let done = commit_log::remove_oldest(
            &self.files,
            expired_before_ms,
            files_max,
            unread_from,
            keep_queue_ends,
        )?;
        let mut cleaned = Cleaned {
            log_files: done.files,
            log_bytes: done.bytes,
            unread_bytes: done.unread_bytes,
            ..Cleaned::default()
        };
        if done.files == 0 {
            return Ok(cleaned);
        }
        self.files.signals.prepare.notify();
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
        self.checkpoints.note_durable()?;
        Ok(cleaned)
    }

    /// Makes durable where each queue ends: once the records are gone only its files hold it, and a
    /// queue that began anew would give its offsets to other messages. On a full disk space comes
    /// first: the queues are then written as soon as there is some.
    fn keep_queue_ends(&self) -> Result<()> {
        match self.checkpoints.sync_queues(0) {
            Err(error) if error.is_no_space() => {
                self.files.notices.warn(format!(
                    "{error}: old log files go before the queues are written"
                ));
                Ok(())
            }
            done => done,
        }
    }

    /// Why files are looked at now: for the hour, where it is one of `deleteWhen`.
    pub(super) fn reason_now(&self) -> Reason {
        let hour = crate::clock::local_hour(self.clock.now_ms());
        let is_hour = self.config().delete_when.split(';').any(|text| {
            text.trim()
                .parse::<u32>()
                .is_ok_and(|wanted| wanted == hour)
        });
        if is_hour { Reason::Hour } else { Reason::Space }
    }
}
