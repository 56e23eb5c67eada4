//! What each thread of a store does: it waits for its signal or its interval and makes the steps of one
//! part. Named for their job, so that a stack dump reads like the architecture.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use super::Store;
use super::flush_rounds::FlushRounds;
use super::followers::WRITE_INTERVAL_MS;
use super::scrub::STEP_BYTES;
use crate::clock::Clock;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::segment::{LogFiles, Refresh};
use crate::watermark::Signal;

/// The scrub begins so long after the start, which has other things to do, and looks so often whether
/// its next round is due.
const SCRUB_REST: Duration = Duration::from_secs(60);
/// Between two steps of it, whatever its rate.
const SCRUB_PAUSE_MIN: Duration = Duration::from_millis(1);
/// Pause after a step that failed and may heal: often enough that space which returns is noticed
/// within a second, seldom enough to cost nothing.
const RETRY: Duration = Duration::from_millis(500);

/// After work the dispatcher pauses so long before it waits to be woken: under load appends find it
/// awake, and none of them pays a system call to wake it. A message is readable so much later at the
/// most, and as soon as before where the last one is longer ago.
const DISPATCH_PAUSE: Duration = Duration::from_micros(100);
/// By how much the system may prolong such a pause, ns; it is 50 us by default.
const PAUSE_SLACK_NS: u64 = 10_000;

/// How far the mark of the session may be behind the flush: what a damaged log of that time is cut by
/// after a power loss, and seldom enough to cost nothing.
const NOTE_DURABLE: Duration = Duration::from_secs(1);

/// Starts the threads of a store; those of a mounted one are fewer: the index may lag after a recovery,
/// but nothing is made ahead of need, and nothing that is old is removed.
///
/// # Errors
/// [`Error::Limit`] when the system gives no thread.
pub(super) fn start<D: Disk, C: Clock>(store: &Arc<Store<D, C>>) -> Result<()> {
    if !store.threads.begin() {
        return Ok(());
    }
    let spawn = |name, work| store.threads.spawn(name, &store.files, store, work);
    if store.config.is_read_only {
        spawn("mq-dispatch", dispatch_loop)?;
        return spawn("mq-queues", queue_loop);
    }
    store.preparation.begin()?;
    spawn("mq-prepare", prepare_loop)?;
    spawn("mq-dispatch", dispatch_loop)?;
    spawn("mq-flush", flush_loop)?;
    if store.files.pool.is_some() {
        spawn("mq-commit", commit_loop)?;
    }
    spawn("mq-queues", queue_loop)?;
    if store.config.scrub_bytes_per_second > 0 {
        spawn("mq-scrub", scrub_loop)?;
    }
    spawn("mq-clean", clean_loop)
}

/// Makes steps until there is nothing to do, then waits for the signal or `interval`; until the store
/// closes.
fn each_ring<D: Disk>(
    files: &LogFiles<D>,
    (name, signal): (&str, &Signal),
    interval: impl Fn() -> Option<Duration>,
    mut step: impl FnMut() -> Result<bool>,
) {
    let mut last_error: Option<Error> = None;
    while !files.is_closing() {
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
                    files.notices.error(format!("{name}: {error}"));
                }
                last_error = Some(error);
                Some(RETRY)
            }
        };
        signal.wait(wait);
    }
}

fn prepare_loop<D: Disk, C: Clock>(store: &Store<D, C>) {
    let files = &*store.files;
    let refresh = RefCell::new(Refresh::default());
    // Removed files wait for their readers: look again now and then while there are any.
    let reclaims = || (files.reclaimer.waiting() > 0).then_some(RETRY);
    let interval = || refresh.borrow().interval().or_else(reclaims);
    let signal = ("preparation", &files.signals.prepare);
    each_ring(files, signal, interval, || {
        let now_ms = store.clock.elapsed_ms();
        store.preparation.refresh(&mut refresh.borrow_mut(), now_ms);
        store.preparation.step()
    });
    files.preparer.set_has_thread(false);
}

fn dispatch_loop<D: Disk, C: Clock>(store: &Store<D, C>) {
    // Without it pauses are longer, and nothing else changes.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(PAUSE_SLACK_NS));
    let interval = || {
        let pending_bytes = store.queues.pending_bytes() + store.batches.pending_bytes();
        (pending_bytes > 0).then_some(Duration::from_millis(WRITE_INTERVAL_MS))
    };
    let signal = ("dispatch", &store.files.signals.dispatch);
    each_ring(&store.files, signal, interval, || {
        let mut more = store.dispatching.step()?;
        while !more && !store.files.is_closing() {
            std::thread::sleep(DISPATCH_PAUSE);
            if !store.files.signals.dispatch.take() {
                break;
            }
            more = store.dispatching.step()?;
        }
        Ok(more)
    });
}

fn commit_loop<D: Disk, C: Clock>(store: &Store<D, C>) {
    let interval = Duration::from_millis(store.config.commit_interval_ms);
    let step = || {
        let committed = store.durability.commit();
        store.durability.announce();
        committed.map(|()| false)
    };
    let signal = ("commit", &store.files.signals.commit);
    each_ring(&store.files, signal, || Some(interval), step);
}

fn flush_loop<D: Disk, C: Clock>(store: &Store<D, C>) {
    let (files, config) = (&store.files, &store.config);
    let interval = Duration::from_millis(config.flush_interval_ms.max(1));
    let mut rounds = FlushRounds::new(&store.durability, files, &store.clock, config);
    let signal = ("flush", &files.signals.flush);
    each_ring(files, signal, || Some(interval), || rounds.step());
}

fn queue_loop<D: Disk, C: Clock>(store: &Store<D, C>) {
    let (config, checkpoints) = (&store.config, &store.checkpoints);
    let interval = Duration::from_millis(config.queue_flush_interval_ms.max(1));
    let started_ms = store.clock.elapsed_ms();
    let (mut thorough_ms, mut due_ms) = (started_ms, started_ms);
    let step = || {
        // First, and whether or not queues can be written: two calls of the system, when the log
        // was flushed farther since.
        checkpoints.note_durable()?;
        let now_ms = store.clock.elapsed_ms();
        if now_ms < due_ms {
            return Ok(false);
        }
        due_ms = now_ms + config.queue_flush_interval_ms;
        let is_thorough = now_ms >= thorough_ms + config.queue_flush_thorough_interval_ms;
        let least_pages = if is_thorough {
            0
        } else {
            config.queue_flush_least_pages
        };
        checkpoints.sync_queues(least_pages)?;
        if !is_thorough && store.queues.witness().is_void() {
            // A topic was deleted.
            store.queues.witness().refresh()?;
        }
        if is_thorough {
            thorough_ms = now_ms;
            checkpoints.write()?;
        }
        Ok(false)
    };
    let wait = interval.min(NOTE_DURABLE);
    let signal = ("queue sync", &store.threads.paces.queues);
    each_ring(&store.files, signal, || Some(wait), step);
}

fn clean_loop<D: Disk, C: Clock>(store: &Store<D, C>) {
    let interval = Duration::from_millis(store.config.clean_interval_ms.max(1));
    let step = || {
        let reason = store.retention.reason_now();
        store.retention.clean(reason, None)?;
        store.records.rest();
        store.preparation.rest();
        Ok(false)
    };
    let pace = &store.threads.paces.clean;
    // The first look comes after one interval: opening has other things to do.
    pace.wait(Some(interval));
    each_ring(&store.files, ("retention", pace), || Some(interval), step);
}

fn scrub_loop<D: Disk, C: Clock>(store: &Store<D, C>) {
    let rate = store.config.scrub_bytes_per_second.max(1);
    let pause = Duration::from_millis(STEP_BYTES * 1_000 / rate).max(SCRUB_PAUSE_MIN);
    let is_on = Cell::new(true);
    let interval = || Some(if is_on.get() { pause } else { SCRUB_REST });
    let step = || {
        is_on.set(store.scrub.step()?);
        Ok(false)
    };
    let pace = &store.threads.paces.scrub;
    pace.wait(Some(SCRUB_REST));
    each_ring(&store.files, ("scrub", pace), interval, step);
}
