//! The store as replication sees it: a master's log read in ranges, a slave's log grown by bytes of its
//! master. Knows no socket, and decides nothing about roles.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering, fence};

use mqcore_record::{CrcCheck, RecordView, inner_offsets};

use super::refusals::Refusals;
use crate::clock::Clock;
use crate::commit_log::{CommitLog, LogEnd, Scan, scan};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::segment::{Chunk, Holds, LogFiles};

pub use crate::commit_log::WholeRecords;

/// Why a slave refuses appends of its own.
pub(super) const FOLLOWS_CAUSE: &str = "slave";

/// Why a master that hands its role over refuses appends.
const RESTS_CAUSE: &str = "hand-over";

/// Where queues end, by topic and then by queue id.
pub type QueueEnds = BTreeMap<String, BTreeMap<i32, u64>>;

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
    pub(super) fn new(
        log: &Arc<CommitLog<D, C>>,
        refusals: &Arc<Refusals>,
        clock: &C,
        is_member: bool,
    ) -> Self {
        if is_member {
            let reason = "the broker has no role yet: its controller gives it one".to_owned();
            refusals.set(FOLLOWS_CAUSE, Some(reason));
        }
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
        self.refusals.set(RESTS_CAUSE, None);
    }

    /// Lets a master's log take no append until [`Replica::go_on`], or until it follows another one: its
    /// role is handed over. What has begun on another thread is not waited for.
    pub fn rest(&self) {
        let reason = "the role of the master is being handed over".to_owned();
        self.refusals.set(RESTS_CAUSE, Some(reason));
    }

    /// Takes appends again after [`Replica::rest`].
    pub fn go_on(&self) {
        self.refusals.set(RESTS_CAUSE, None);
    }

    /// Whether the store is a slave's.
    #[must_use]
    pub fn follows(&self) -> bool {
        self.follows.load(Ordering::Acquire)
    }

    /// Makes a master of a member: its log takes appends from now on, and goes on where it ends. Queues may
    /// have less than the log holds: queue offsets go on behind what it holds. What was known of them before is
    /// forgotten, unless the log takes appends already.
    ///
    /// To be called when nobody grows the log by bytes of a master any more. `before` is called with the end
    /// of the log, right before appends are taken.
    ///
    /// # Errors
    /// Of `before`. [`Error::NoRecord`] where the log ends in the middle of a record, which is to be cut first: its
    /// `physical_offset` is where that begins. [`Error::Io`].
    ///
    /// # Blocking
    /// Reads what queues have not got yet.
    pub fn lead(&self, before: impl FnOnce(u64) -> Result<()>) -> Result<()> {
        if self.refusals.holds(FOLLOWS_CAUSE) {
            // What an earlier call has raised, and `before` refused, is behind where records of a master have
            // brought queues since. Queues have their ends, and the walk finds what they lack.
            self.log.forget_queues();
        }
        let end = self.appended();
        let walked = self.walk_behind_queues(end, |record, next| {
            self.log.raise_next(record.topic, record.queue_id, next);
        })?;
        if walked.end < end {
            return Err(Error::NoRecord {
                physical_offset: walked.end,
                why: "the log ends in the middle of it: it must be cut there first".to_owned(),
            });
        }
        // Whole records alone are appended from here on.
        self.files.records_end.store(u64::MAX, Ordering::Release);
        before(end)?;
        self.follows.store(false, Ordering::Release);
        self.refusals.set(FOLLOWS_CAUSE, None);
        Ok(())
    }

    /// Where queues end with what the log holds and queues have not got yet, by topic and queue id: only
    /// those with such a record. Names that are not UTF-8 are replaced as [`String::from_utf8_lossy`] does.
    ///
    /// Queues of a member may be behind: they have what is confirmed. Their bounds are to be asked for
    /// afterwards, as they grow meanwhile.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// Reads what queues have not got yet.
    pub fn ends_behind_queues(&self) -> Result<QueueEnds> {
        let mut ends = QueueEnds::new();
        self.walk_behind_queues(self.appended(), |record, next| {
            let topic = String::from_utf8_lossy(record.topic).into_owned();
            let of_topic = ends.entry(topic).or_default();
            let end = of_topic.entry(record.queue_id).or_insert(next);
            *end = next.max(*end);
        })?;
        Ok(ends)
    }

    /// Visits each record of a queue that queues have not got yet, with the queue offset behind it.
    fn walk_behind_queues(
        &self,
        end: u64,
        mut visit: impl FnMut(&RecordView<'_>, u64),
    ) -> Result<LogEnd> {
        let dispatched = self.files.positions.dispatched.position();
        let walk = Scan {
            from: dispatched.max(self.files.chain.start()).min(end),
            limit: end,
            crc: CrcCheck::Skip,
            is_recovery: false,
            torn_from: u64::MAX,
            has_property_crc: false,
            forgets: false,
        };
        scan(&self.files.chain, walk, |record, _| {
            if record.transaction().has_queue_offset() {
                let span = inner_offsets::span(record.sys_flag, record.properties);
                visit(record, record.queue_offset.cast_unsigned() + span);
            }
            Ok(true)
        })
    }

    /// Lets readers of a member see what lies before `end`, or all that the log holds. An end that is lower
    /// than an earlier one takes nothing back that queues have got.
    pub fn confirm(&self, end: Option<u64>) {
        let bound = end.unwrap_or(u64::MAX);
        let before = self.files.confirmed.swap(bound, Ordering::AcqRel);
        // See `LogFiles::confirmed_end`: who looks at the end of the log now sees all that was given out.
        fence(Ordering::SeqCst);
        if bound > before {
            self.files.signals.dispatch.notify();
        }
    }

    /// End of what is confirmed: where readers must stop, or the end of the log.
    #[must_use]
    pub fn confirmed(&self) -> u64 {
        self.files.confirmed_end()
    }

    /// End of what queues have got.
    #[must_use]
    pub fn dispatched(&self) -> u64 {
        self.files.positions.dispatched.position()
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
        // Who looks at the end of the log behind this sees every message that was stored before somebody saw
        // what held until now.
        fence(Ordering::SeqCst);
    }

    /// What sends have of replicas now: of a message that has just been stored, at the earliest what holds
    /// behind that.
    #[must_use]
    pub fn standby(&self) -> Standby {
        fence(Ordering::SeqCst);
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
        self.range_into(offset, len_max, Vec::new())
    }

    /// As [`Replica::range`], with a buffer of an earlier chunk to read into where it is read.
    ///
    /// # Errors
    /// As [`Replica::range`].
    ///
    /// # Blocking
    /// As [`Replica::range`].
    pub fn range_into(
        &self,
        offset: u64,
        len_max: usize,
        spare: Vec<u8>,
    ) -> Result<Option<Chunk<D>>> {
        self.files
            .chain
            .chunk_into(offset, self.files.readable(), len_max, spare)
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

    /// Takes a whole file of the master's log as the next one of a slave's: see [`CommitLog::adopt`].
    ///
    /// # Durability
    /// As [`CommitLog::adopt`].
    ///
    /// # Errors
    /// As [`CommitLog::adopt`]; [`Error::Closed`].
    ///
    /// # Blocking
    /// As [`CommitLog::adopt`].
    pub fn adopt(&self, base: u64, staged: &Path, store_ms: Option<i64>) -> Result<()> {
        if self.files.is_closing() {
            return Err(Error::Closed);
        }
        self.log.adopt(base, staged, store_ms)
    }

    /// Where whole files of a log end that nobody may take back: on disk, and confirmed.
    #[must_use]
    pub fn settled_files_end(&self) -> u64 {
        let flushed = self.files.positions.flushed.position();
        let end = flushed.min(self.files.confirmed_end());
        let file_len_bytes = self.files.chain.segment_len_bytes();
        end - end % file_len_bytes
    }

    /// The disk that the log is on.
    #[must_use]
    pub fn disk(&self) -> &D {
        &self.files.disk
    }

    /// Where whole files of another log wait to be adopted: beside the log, so that their names can change
    /// in one step.
    #[must_use]
    pub fn refill_dir(&self) -> PathBuf {
        let mut dir = self.files.chain.dir().as_os_str().to_owned();
        dir.push(".refill");
        PathBuf::from(dir)
    }

    /// Keeps what somebody copies of the log: expired files stay.
    #[must_use]
    pub fn holds(&self) -> &Holds {
        &self.files.holds
    }

    /// Lets the pages of a part of the log go that was read once.
    pub fn forget(&self, from: u64, to: u64) {
        self.files.chain.forget(from, to);
    }

    /// Calls `wake` whenever the log has grown, from whatever thread that happens on: it must be short and
    /// must not wait. The first call counts, for as long as the store is open.
    pub fn wake_with(&self, wake: Box<dyn Fn() + Send + Sync>) {
        let _first_counts = self.files.signals.ship.set(wake);
    }
}
