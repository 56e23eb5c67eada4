//! The store's threads: each waits for its bell or its interval and makes one room's steps. Named
//! for their job, so that a stack dump reads like the architecture.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Store;
use super::followers::WRITE_INTERVAL_MS;
use super::scrub::STEP_BYTES;
use crate::clock::Clock;
use crate::commit_log::Reason;
use crate::config::FlushDiskType;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::flush::{Cadence, Wave};
use crate::poison::PanicGuard;
use crate::watermark::Doorbell;

/// Between two looks at a wave: the system makes some 70 us of it, in which a thread appends a
/// hundred records.
const LOOK_AT_WAVE: Duration = Duration::from_micros(20);

/// The scrub begins so long after the start, which has other things to do, and looks so often whether
/// its next round is due.
const SCRUB_REST: Duration = Duration::from_secs(60);
/// Between two steps of it, whatever its rate.
const SCRUB_PAUSE_MIN: Duration = Duration::from_millis(1);
/// Pause after a step that failed and may heal: often enough that space which returns is noticed
/// within a second, seldom enough to cost nothing.
const RETRY: Duration = Duration::from_millis(500);

/// How far the mark of the session may be behind the flush: what a damaged log of that time is cut by
/// after a power loss, and seldom enough to cost nothing.
const NOTE_DURABLE: Duration = Duration::from_secs(1);

impl<D: Disk, C: Clock> Store<D, C> {
    /// Starts the threads. Without them nothing is flushed, dispatched or prepared by itself.
    ///
    /// # Errors
    /// [`Error::Limit`] when the system gives no thread.
    pub fn start(self: &Arc<Self>) -> Result<()> {
        if self.is_started.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        if self.config.is_read_only {
            return self.start_reading();
        }
        self.files.preparer.set_has_thread(true);
        // The first file and the first pages are wanted before the first append comes.
        let appended = self.files.positions.appended.position();
        if self.files.chain.find(appended).is_none() {
            let len = self.files.chain.segment_len_bytes();
            self.files.preparer.want(appended - appended % len);
        } else if let Some(segment) = self.files.chain.find(appended) {
            segment.map(appended - segment.base())?;
        }
        self.spawn("mq-prepare", Self::prepare_loop)?;
        self.spawn("mq-dispatch", Self::dispatch_loop)?;
        self.spawn("mq-flush", Self::flush_loop)?;
        if self.files.pool.is_some() {
            self.spawn("mq-commit", Self::commit_loop)?;
        }
        self.spawn("mq-queues", Self::queue_loop)?;
        if self.config.scrub_bytes_per_second > 0 {
            self.spawn("mq-scrub", Self::scrub_loop)?;
        }
        self.spawn("mq-clean", Self::clean_loop)
    }

    /// Starts what a store without appends needs: the index may lag after a recovery. Nothing is made
    /// ahead of need, and nothing that is old is removed.
    fn start_reading(self: &Arc<Self>) -> Result<()> {
        self.spawn("mq-dispatch", Self::dispatch_loop)?;
        self.spawn("mq-queues", Self::queue_loop)
    }

    fn spawn(self: &Arc<Self>, name: &'static str, work: fn(&Self)) -> Result<()> {
        let store = Arc::clone(self);
        let spawned = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let guard = PanicGuard::new(&store.files.poison, name);
                work(&store);
                drop(guard);
            });
        match spawned {
            Ok(thread) => {
                self.threads.lock().push(thread);
                Ok(())
            }
            Err(error) => Err(Error::Limit {
                what: format!("thread {name}: {error}"),
                limit: 0,
            }),
        }
    }

    /// Makes steps until there is nothing to do, then waits for the bell or `interval`.
    fn each_ring(
        &self,
        name: &str,
        bell: &Doorbell,
        interval: impl Fn() -> Option<Duration>,
        step: impl Fn() -> Result<bool>,
    ) {
        let mut last_error: Option<Error> = None;
        while !self.files.is_closing() {
            let wait = match step() {
                Ok(true) => {
                    last_error = None;
                    continue;
                }
                Ok(false) => {
                    last_error = None;
                    interval()
                }
                Err(error) => {
                    if last_error.as_ref() != Some(&error) {
                        self.files.notices.error(format!("{name}: {error}"));
                    }
                    last_error = Some(error);
                    Some(RETRY)
                }
            };
            bell.wait(wait);
        }
    }

    fn prepare_loop(&self) {
        let bells = &self.files.bells;
        // Removed files wait for their readers: look again now and then while there are any.
        let interval = || (self.files.reclaimer.waiting() > 0).then_some(RETRY);
        self.each_ring("preparation", &bells.prepare, interval, || {
            self.prepare_step()
        });
        self.files.preparer.set_has_thread(false);
    }

    fn dispatch_loop(&self) {
        let interval = || {
            let is_pending = self.queues.pending_bytes() + self.batches.pending_bytes() > 0;
            is_pending.then_some(Duration::from_millis(WRITE_INTERVAL_MS))
        };
        let step = || self.dispatch_step();
        self.each_ring("dispatch", &self.files.bells.dispatch, interval, step);
    }

    fn commit_loop(&self) {
        let interval = Duration::from_millis(self.config.commit_interval_ms);
        let step = || {
            let files = &self.files;
            files.commit_to(files.positions.appended.position())?;
            self.announce();
            Ok(false)
        };
        self.each_ring("commit", &self.files.bells.commit, || Some(interval), step);
    }

    fn flush_loop(&self) {
        let interval = Duration::from_millis(self.config.flush_interval_ms.max(1));
        let now_ms = self.clock.elapsed_ms();
        let cadence = crate::lock::Mutex::new(Cadence::new(
            self.config.flush_least_pages,
            self.config.flush_thorough_interval_ms,
            now_ms,
        ));
        let wave = crate::lock::Mutex::new(Wave::default());
        let step = || {
            let positions = &self.files.positions;
            // Bound first: the lock must not be held while the flush announces.
            let farthest = self.acks.lock().farthest();
            if let Some(wanted) = farthest
                && self.config.flush_disk_type == FlushDiskType::Sync
                && positions.flushed.position() < wanted
            {
                self.sync_wave(&mut wave.lock())?;
                // Answered now or, where a pool held bytes back, after the next round.
                return Ok(self
                    .acks
                    .lock()
                    .farthest()
                    .is_some_and(|end| end > positions.flushed.position()));
            }
            let (done, end) = (positions.flushed.position(), self.files.in_page_cache());
            if cadence.lock().is_due(done, end, self.clock.elapsed_ms()) {
                self.flush()?;
            } else {
                self.announce();
            }
            Ok(false)
        };
        self.each_ring("flush", &self.files.bells.flush, || Some(interval), step);
    }

    /// Waits shortly for those who are about to append again, then syncs for all of them.
    fn sync_wave(&self, wave: &mut Wave) -> Result<()> {
        let flushed = self.files.positions.flushed.position();
        let gathering = Instant::now();
        let mut seen = 0;
        loop {
            let parked = self.acks.lock().beyond(flushed);
            if wave.is_full(parked, parked.saturating_sub(seen), gathering.elapsed()) {
                break;
            }
            seen = parked;
            std::thread::sleep(LOOK_AT_WAVE);
        }
        let begun = Instant::now();
        self.sync_log()?;
        wave.note(self.acks.lock().beyond(flushed), begun.elapsed());
        self.announce();
        Ok(())
    }

    fn queue_loop(&self) {
        let interval = Duration::from_millis(self.config.queue_flush_interval_ms.max(1));
        let started_ms = self.clock.elapsed_ms();
        let thorough_ms = std::cell::Cell::new(started_ms);
        let due_ms = std::cell::Cell::new(started_ms);
        let step = || {
            // First, and whether or not queues can be written: two calls of the system, when the log
            // was flushed farther since.
            self.note_durable()?;
            let now_ms = self.clock.elapsed_ms();
            if now_ms < due_ms.get() {
                return Ok(false);
            }
            due_ms.set(now_ms + self.config.queue_flush_interval_ms);
            let is_thorough =
                now_ms >= thorough_ms.get() + self.config.queue_flush_thorough_interval_ms;
            let least_pages = if is_thorough {
                0
            } else {
                self.config.queue_flush_least_pages
            };
            self.sync_queues(least_pages)?;
            if !is_thorough && self.queues.witness().is_void() {
                // A topic was deleted.
                self.queues.witness().refresh()?;
            }
            if is_thorough {
                thorough_ms.set(now_ms);
                self.write_checkpoint()?;
            }
            Ok(false)
        };
        let wait = interval.min(NOTE_DURABLE);
        self.each_ring("queue sync", &self.pace_queues, || Some(wait), step);
    }

    fn clean_loop(&self) {
        let interval = Duration::from_millis(self.config.clean_interval_ms.max(1));
        let step = || {
            let reason = if self.is_clean_hour() {
                Reason::Hour
            } else {
                Reason::Space
            };
            self.clean(reason, None)?;
            self.rest_files();
            Ok(false)
        };
        // The first look comes after one interval: opening has other things to do.
        self.pace_clean.wait(Some(interval));
        self.each_ring("retention", &self.pace_clean, || Some(interval), step);
    }

    fn scrub_loop(&self) {
        let rate = self.config.scrub_bytes_per_second.max(1);
        let pause = Duration::from_millis(STEP_BYTES * 1_000 / rate).max(SCRUB_PAUSE_MIN);
        let is_on = std::cell::Cell::new(true);
        let interval = || Some(if is_on.get() { pause } else { SCRUB_REST });
        let step = || {
            is_on.set(self.scrub_step()?);
            Ok(false)
        };
        self.pace_scrub.wait(Some(SCRUB_REST));
        self.each_ring("scrub", &self.pace_scrub, interval, step);
    }

    /// Whether the local hour is one of `deleteWhen`.
    fn is_clean_hour(&self) -> bool {
        let hour = crate::clock::local_hour(self.clock.now_ms());
        self.config.delete_when.split(';').any(|text| {
            text.trim()
                .parse::<u32>()
                .is_ok_and(|wanted| wanted == hour)
        })
    }
}
