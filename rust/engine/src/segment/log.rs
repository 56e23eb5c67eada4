//! What the modules of one log share: its files, its positions, the latch, the notices and the signals
//! of its threads. Holds no algorithm.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

use crate::lock::Mutex;

use crate::disk::Disk;
use crate::notice::Notices;
use crate::poison::Poison;
use crate::segment::{Chain, Holds, LogPositions, Pool, Preparer, Reclaimer, Window};
use crate::watermark::Signal;

/// One log and what goes with it.
pub struct LogFiles<D: Disk> {
    /// The disk that the files are on.
    pub disk: D,
    /// The files.
    pub chain: Chain<D>,
    /// How far the log has come.
    pub positions: LogPositions,
    /// Fail stop.
    pub poison: Poison,
    /// What is reported to the owner.
    pub notices: Arc<Notices>,
    /// Makes files ahead.
    pub preparer: Preparer<D>,
    /// Populates pages ahead.
    pub window: Window,
    /// Buffers before the page cache, if asked for.
    pub pool: Option<Pool>,
    /// Gives removed files back.
    pub reclaimer: Reclaimer<D>,
    /// What somebody copies.
    pub holds: Holds,
    /// The threads' signals.
    pub signals: Signals,
    /// Store time of the newest record, ms.
    pub last_store_ms: AtomicI64,
    /// Where the last whole record ends, while the log grows by pieces of another one; `u64::MAX` while
    /// only whole records are appended.
    pub records_end: AtomicU64,
    /// Every record below is flushed, and one ends there: what may be written down as durable.
    pub records_flushed: AtomicU64,
    /// Whether consumers may see only what survives power loss.
    pub reads_flushed_only: bool,
    /// End of what all replicas have that must have it (confirm offset), in a member; `u64::MAX` where the log
    /// ends there, wherever that is.
    pub confirmed: AtomicU64,
    /// Whether the store is being closed.
    pub is_closing: AtomicBool,
    /// Held by the one who writes pool buffers out.
    pub committing: Mutex<()>,
}

/// The signals of the threads that follow the log.
#[derive(Default)]
pub struct Signals {
    /// Dispatch: something was appended, committed or flushed.
    pub dispatch: Signal,
    /// Preparation: a file is wanted or the window is short.
    pub prepare: Signal,
    /// Commit: the pool has bytes that someone waits for.
    pub commit: Signal,
    /// Flush: someone waits for a sync.
    pub flush: Signal,
    /// Wakes who ships the log to replicas, once there is somebody: it grew.
    pub ship: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Signals {
    /// The log grew; `wakes_flush` where the flush is to know it at once.
    #[inline]
    pub fn appended(&self, wakes_flush: bool) {
        self.dispatch.notify();
        if wakes_flush {
            self.flush.notify();
        }
        if let Some(wake) = self.ship.get() {
            wake();
        }
    }
}

impl<D: Disk> LogFiles<D> {
    /// End of what is in the page cache: what a sync may cover.
    #[must_use]
    pub fn in_page_cache(&self) -> u64 {
        if self.pool.is_some() {
            self.positions.committed.position()
        } else {
            self.positions.appended.position()
        }
    }

    /// End of what readers may see. After a failed sync that is what was flushed before.
    #[must_use]
    pub fn readable(&self) -> u64 {
        if self.poison.reason().is_some() {
            self.positions.flushed.position()
        } else {
            self.in_page_cache()
        }
    }

    /// End of what is confirmed, which dispatch may hand to queues: with synchronous flush what is flushed
    /// (5.3's rule: no consumer, here or at a slave, sees what power loss could take back), else what is
    /// readable; of a member no more than its group has confirmed.
    #[must_use]
    pub fn confirmed_end(&self) -> u64 {
        let limit = if self.reads_flushed_only {
            self.positions.flushed.position()
        } else {
            self.readable()
        };
        // The end first: who begins to bound readers looks at the end behind that, and then knows that
        // nothing beyond it was given out without a bound.
        fence(Ordering::SeqCst);
        limit.min(self.confirmed.load(Ordering::Acquire))
    }

    /// Latches the first failure and wakes everyone who waits for what cannot come any more.
    pub fn fail(&self, reason: impl Into<String>) {
        let reason = reason.into();
        self.notices
            .error(format!("nothing is acknowledged any more: {reason}"));
        self.poison.set(reason);
        self.positions.wake_all();
        self.signals.dispatch.notify();
        self.signals.flush.notify();
        self.signals.commit.notify();
    }

    /// Whether the store is being closed.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }
}
