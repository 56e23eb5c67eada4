//! The store as replication sees it: a master's log read in ranges, a slave's log grown by bytes of its
//! master. Knows no socket, and decides nothing about roles.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::refusals::Refusals;
use crate::clock::Clock;
use crate::commit_log::CommitLog;
use crate::disk::Disk;
use crate::error::Result;
use crate::segment::{Chunk, LogFiles};

pub use crate::commit_log::WholeRecords;

/// Why a slave refuses appends of its own.
pub(super) const FOLLOWS_CAUSE: &str = "slave";

/// What a send has of replicas now, where acknowledgements wait for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standby {
    /// It waits for none.
    Unneeded,
    /// It waits until enough have it.
    Reachable,
    /// Too few are near enough to be waited for.
    Unavailable,
    /// Too few are in sync: nothing is to be stored.
    NotEnough,
}

impl Standby {
    const ALL: [Self; 4] = [
        Self::Unneeded,
        Self::Reachable,
        Self::Unavailable,
        Self::NotEnough,
    ];

    fn of(number: u8) -> Self {
        let known = Self::ALL.get(usize::from(number));
        known.copied().unwrap_or(Self::Reachable)
    }
}

/// What a log holds, as who ships it must know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// First byte that is kept.
    pub start: u64,
    /// Behind the last byte that survives the process.
    pub end: u64,
    /// Length of each file.
    pub file_len_bytes: u64,
    /// Store time of the newest record, Unix ms; 0 for none.
    pub last_store_ms: i64,
}

/// Reads and grows the log for replication.
pub struct Replica<D: Disk, C: Clock> {
    files: Arc<LogFiles<D>>,
    log: Arc<CommitLog<D, C>>,
    refusals: Arc<Refusals>,
    clock: C,
    follows: AtomicBool,
    /// A [`Standby`] as its place in the enumeration.
    standby: AtomicU8,
}

impl<D: Disk, C: Clock> Replica<D, C> {
    pub(super) fn new(log: &Arc<CommitLog<D, C>>, refusals: &Arc<Refusals>, clock: &C) -> Self {
        Self {
            clock: clock.clone(),
            files: Arc::clone(log.files()),
            log: Arc::clone(log),
            refusals: Arc::clone(refusals),
            follows: AtomicBool::new(false),
            standby: AtomicU8::new(Standby::Reachable as u8),
        }
    }

    /// Makes a slave of the store: it refuses appends of its own from now on, and takes bytes of its
    /// master.
    pub fn follow(&self) {
        let reason = "the store follows a master (brokerRole=SLAVE)".to_owned();
        self.refusals.set(FOLLOWS_CAUSE, Some(reason));
        self.follows.store(true, Ordering::Release);
    }

    /// Whether the store is a slave's.
    #[must_use]
    pub fn follows(&self) -> bool {
        self.follows.load(Ordering::Acquire)
    }

    /// Lets acknowledgements wait for replicas from now on, none of which is there yet. To be called
    /// before the first of them is parked: until then all count as replicated.
    pub fn require(&self) {
        self.note_standby(Standby::NotEnough);
        self.files.positions.replicated.reset(0);
    }

    /// Notes what sends have of replicas now.
    pub fn note_standby(&self, standby: Standby) {
        self.standby.store(standby as u8, Ordering::Release);
    }

    /// What sends have of replicas now.
    #[must_use]
    pub fn standby(&self) -> Standby {
        Standby::of(self.standby.load(Ordering::Acquire))
    }

    /// A clock that does not step, ms: the times of links.
    #[must_use]
    pub fn elapsed_ms(&self) -> u64 {
        self.clock.elapsed_ms()
    }

    /// What the log holds now.
    #[must_use]
    pub fn extent(&self) -> Extent {
        Extent {
            start: self.files.chain.start(),
            end: self.files.readable(),
            file_len_bytes: self.files.chain.segment_len_bytes(),
            last_store_ms: self.files.last_store_ms.load(Ordering::Acquire),
        }
    }

    /// End of what was appended.
    #[must_use]
    pub fn appended(&self) -> u64 {
        self.files.positions.appended.position()
    }

    /// Up to `len_max` bytes of the log from `offset` on, inside one file; `None` at its end or outside of
    /// it. Inside the hot window nothing is copied.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk where the file has no map.
    pub fn range(&self, offset: u64, len_max: usize) -> Result<Option<Chunk<D>>> {
        self.files
            .chain
            .chunk(offset, self.files.readable(), len_max)
    }

    /// Grows a slave's log by bytes of its master's, in any pieces, which lie at `offset` there and in one
    /// file; `whole` is the last record that is whole with them.
    ///
    /// # Durability
    /// As [`Writer::append`](super::Writer::append).
    ///
    /// # Errors
    /// As [`CommitLog::append_raw`]; [`crate::error::Error::Closed`].
    ///
    /// # Blocking
    /// As [`CommitLog::append_raw`].
    pub fn append(&self, offset: u64, pieces: &[&[u8]], whole: WholeRecords) -> Result<()> {
        if self.files.is_closing() {
            return Err(crate::error::Error::Closed);
        }
        self.log.append_raw(offset, pieces, whole)
    }

    /// Lets a slave's log that holds nothing begin at `offset`.
    ///
    /// # Durability
    /// As [`CommitLog::begin_at`].
    ///
    /// # Errors
    /// As [`CommitLog::begin_at`]; [`crate::error::Error::Closed`].
    ///
    /// # Blocking
    /// As [`CommitLog::begin_at`].
    pub fn begin_at(&self, offset: u64) -> Result<()> {
        if self.files.is_closing() {
            return Err(crate::error::Error::Closed);
        }
        self.log.begin_at(offset)
    }

    /// Calls `wake` whenever the log has grown, from whatever thread that happens on: it must be short and
    /// must not wait. The first call counts, for as long as the store is open.
    pub fn wake_with(&self, wake: Box<dyn Fn() + Send + Sync>) {
        let _first_counts = self.files.signals.ship.set(wake);
    }
}
