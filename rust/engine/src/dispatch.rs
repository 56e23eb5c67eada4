//! The one reader that follows the log and feeds what is derived from it: queues, the key index,
//! later delays and compaction (`DefaultMessageStore.ReputMessageService`). Dispatching any range
//! twice changes nothing. Knows no queue and no index: they are a list behind [`Dispatch`].

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::lock::Mutex;
use hashbrown::DefaultHashBuilder;
use mqcore_record::{Found, RecordError, RecordView, Wanted, head, scan_wanted};

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::segment::LogFiles;
use crate::units::MIB;

/// Bytes of log per round: about a thousand records of 1 KB, so readers see them soon and what is
/// written per queue is a run.
const ROUND_BYTES: usize = MIB as usize;
/// Bytes behind from which on a round is spread over threads, and bytes of such a round: it takes
/// milliseconds, against which the tens of microseconds of starting a thread do not count.
const CATCH_UP_BYTES: u64 = 16 * MIB;
const CATCH_UP_ROUND_BYTES: usize = 8 * MIB as usize;
/// Threads of such a round at the most: beyond it memory is the limit, and each walks every head.
const CATCH_UP_THREADS_MAX: usize = 4;
/// The longest record that can be: a chunk that does not end with a whole record is asked for again
/// with this much.
const RECORD_LEN_MAX_BYTES: usize = i32::MAX as usize;

/// One record on its way to queues and index.
pub struct Request<'a> {
    /// The record without its body.
    pub record: &'a RecordView<'a>,
    /// The properties that dispatchers look at.
    pub wanted: Wanted<'a>,
    /// Where the record starts.
    pub physical_offset: u64,
}

impl<'a> Request<'a> {
    /// The record that starts at `physical_offset`.
    #[inline]
    #[must_use]
    pub fn new(record: &'a RecordView<'a>, physical_offset: u64) -> Self {
        Self {
            wanted: scan_wanted(record.properties),
            record,
            physical_offset,
        }
    }
}

/// Something that is derived from the log.
pub trait Dispatch: Send + Sync {
    /// Its name, for reports.
    fn name(&self) -> &'static str;

    /// Whether each record must come in the order of the log; otherwise only those of one queue
    /// must, and records of different queues may come from different threads.
    fn needs_log_order(&self) -> bool;

    /// Takes one record, in the order that [`Dispatch::needs_log_order`] asks for; a record that was
    /// taken before changes nothing.
    ///
    /// # Errors
    /// Whatever hinders it; the same record comes again.
    fn dispatch(&self, request: &Request<'_>) -> Result<()>;

    /// Ends a round: what was taken may be written. `is_last` when the log's end was reached.
    ///
    /// # Errors
    /// Whatever hinders it. What was taken is kept, and the next round tries again.
    fn end_round(&self, is_last: bool) -> Result<()>;
}

/// One dispatcher and how far it is.
struct Follower {
    dispatch: Box<dyn Dispatch>,
    position: AtomicU64,
}

/// Follows the log.
pub struct Dispatcher<D: Disk> {
    files: Arc<LogFiles<D>>,
    followers: Vec<Follower>,
    turn: Mutex<()>,
    /// The buffer of the last round that had to copy: kept only while there is more to do.
    spare: Mutex<Vec<u8>>,
    records: AtomicU64,
    done_store_ms: AtomicI64,
    threads: usize,
    hasher: DefaultHashBuilder,
}

/// How a round is to be walked.
#[derive(Clone, Copy)]
struct FastPath {
    number: usize,
    of: usize,
}

impl FastPath {
    const ONLY: Self = Self { number: 0, of: 1 };
}

/// Where the walk of a chunk came to, and what is wrong there if it is not the end of the bytes.
struct Walked {
    to: u64,
    why: Option<RecordError>,
    records: u64,
    last_store_ms: Option<i64>,
}

/// Threads of a long round. The system is asked once per process: it looks through files of the kernel.
fn catch_up_threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| {
        std::thread::available_parallelism()
            .map_or(1, |cores| cores.get().min(CATCH_UP_THREADS_MAX))
    })
}

impl<D: Disk> Dispatcher<D> {
    /// Feeds each of `followers` from its own position on. What the first one has is what readers
    /// see (`dispatched`).
    #[must_use]
    pub fn new(files: Arc<LogFiles<D>>, followers: Vec<(Box<dyn Dispatch>, u64)>) -> Self {
        let followers = followers
            .into_iter()
            .map(|(dispatch, from)| Follower {
                dispatch,
                position: AtomicU64::new(from),
            })
            .collect();
        Self {
            files,
            followers,
            turn: Mutex::new(()),
            spare: Mutex::new(Vec::new()),
            records: AtomicU64::new(0),
            done_store_ms: AtomicI64::new(0),
            threads: catch_up_threads(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Records dispatched so far, to any follower.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Records up to this store time, ms, that were stored before the last round ended are with the
    /// first follower. What a round of several threads has taken so far does not count before its
    /// end: one thread may be ahead of another.
    #[must_use]
    pub fn done_store_ms(&self) -> i64 {
        self.done_store_ms.load(Ordering::Acquire)
    }

    /// Name, position and lag of each follower.
    #[must_use]
    pub fn lags(&self) -> Vec<(&'static str, u64, u64)> {
        let limit = self.files.confirmed_end();
        self.followers
            .iter()
            .map(|f| {
                let at = f.position.load(Ordering::Acquire);
                (f.dispatch.name(), at, limit.saturating_sub(at))
            })
            .collect()
    }

    /// Sends the follower called `name` back to `position`: it missed something.
    pub fn send_back(&self, name: &str, position: u64) {
        let _turn = self.turn.lock();
        for follower in self.followers.iter().filter(|f| f.dispatch.name() == name) {
            follower.position.fetch_min(position, Ordering::AcqRel);
        }
    }

    /// One round for the first follower alone, while the store is opened; true when it moved.
    ///
    /// # Errors
    /// As [`Dispatcher::step`].
    ///
    /// # Blocking
    /// Reads the disk where the log is not mapped.
    pub fn step_lead(&self) -> Result<bool> {
        let _turn = self.turn.lock();
        let limit = self.files.confirmed_end();
        let Some(lead) = self.followers.first() else {
            return Ok(false);
        };
        let from = lead
            .position
            .load(Ordering::Acquire)
            .max(self.files.chain.start());
        let to = if from < limit {
            self.round(&[lead], from, limit)?
        } else {
            from
        };
        lead.position.store(to, Ordering::Release);
        self.files.positions.dispatched.raise(to);
        lead.dispatch.end_round(false)?;
        Ok(to > from)
    }

    /// One round for those who are at the lowest position; true when there is more to do.
    ///
    /// # Errors
    /// From a follower: it gets the same records again. [`Error::Io`]. A record that is not whole
    /// below the readable end poisons the store.
    ///
    /// # Blocking
    /// Reads the disk where the log is not mapped.
    pub fn step(&self) -> Result<bool> {
        let _turn = self.turn.lock();
        let limit = self.files.confirmed_end();
        let start = self.files.chain.start();
        let at = |f: &Follower| f.position.load(Ordering::Acquire).max(start);
        // Readers first: the one that they see gets its round before a straggler gets one.
        let lead = self.followers.first().map_or(limit, at);
        let lowest = self.followers.iter().map(at).min().unwrap_or(limit);
        let mut is_moving = false;
        for from in if lead == lowest {
            vec![lead]
        } else {
            vec![lead, lowest]
        } {
            let group: Vec<&Follower> = self.followers.iter().filter(|f| at(f) == from).collect();
            if from < limit {
                let to = self.round(&group, from, limit)?;
                is_moving |= to > from;
                for follower in &group {
                    follower.position.store(to, Ordering::Release);
                }
            }
        }
        let reached = self.followers.first().map_or(limit, at);
        self.files.positions.dispatched.raise(reached);
        let lowest = self.followers.iter().map(at).min().unwrap_or(limit);
        for follower in &self.followers {
            follower.dispatch.end_round(lowest >= limit)?;
        }
        let more = is_moving && lowest < self.files.confirmed_end();
        if !more {
            *self.spare.lock() = Vec::new();
        }
        Ok(more)
    }

    fn round(&self, group: &[&Follower], from: u64, limit: u64) -> Result<u64> {
        let is_behind = limit - from >= CATCH_UP_BYTES && self.threads > 1;
        let len = if is_behind {
            CATCH_UP_ROUND_BYTES
        } else {
            ROUND_BYTES
        };
        let mut walked = self.round_of(group, from, limit, len)?;
        if walked.to == from && matches!(walked.why, Some(RecordError::Truncated { .. })) {
            walked = self.round_of(group, from, limit, RECORD_LEN_MAX_BYTES)?;
        }
        self.records.fetch_add(walked.records, Ordering::Relaxed);
        let has_lead = match (self.followers.first(), group.first()) {
            (Some(lead), Some(first)) => std::ptr::eq(lead, *first),
            _ => false,
        };
        if let Some(store_ms) = walked.last_store_ms.filter(|_| has_lead) {
            self.done_store_ms.fetch_max(store_ms, Ordering::AcqRel);
        }
        match walked.why {
            Some(why) if walked.to == from && !matches!(why, RecordError::Truncated { .. }) => {
                let reason = format!("no whole record at physical offset {from}: {why}");
                self.files.fail(reason);
                self.files.poison.check()?;
            }
            // The rest of a record is not readable yet: a commit stopped in the middle of it.
            _ => {}
        }
        Ok(walked.to)
    }

    /// Dispatches the whole records among the next `len_max` bytes.
    fn round_of(
        &self,
        group: &[&Follower],
        from: u64,
        limit: u64,
        len_max: usize,
    ) -> Result<Walked> {
        let spare = std::mem::take(&mut *self.spare.lock());
        let Some(chunk) = self.files.chain.chunk_into(from, limit, len_max, spare)? else {
            return Ok(Walked {
                to: from,
                why: None,
                records: 0,
                last_store_ms: None,
            });
        };
        // The blank end of a file may be readable in part: it comes from a master, or is committed.
        let blank_to = (chunk.segment_end <= limit).then_some(chunk.segment_end);
        let walked = self.walk_all(group, chunk.bytes.as_bytes(), (from, blank_to));
        *self.spare.lock() = chunk.bytes.into_spare();
        walked
    }

    fn walk_all(
        &self,
        group: &[&Follower],
        bytes: &[u8],
        ends: (u64, Option<u64>),
    ) -> Result<Walked> {
        if bytes.len() <= ROUND_BYTES || self.threads == 1 {
            return self.walk(group, bytes, ends, FastPath::ONLY);
        }
        let of = self.threads;
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..of)
                .map(|number| {
                    scope.spawn(move || self.walk(group, bytes, ends, FastPath { number, of }))
                })
                .collect();
            let mine = self.walk(group, bytes, ends, FastPath { number: 0, of });
            for other in others {
                match other.join() {
                    Ok(walked) => drop(walked?),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            mine
        })
    }

    /// Dispatches the records of one fast path: those of its queues and, on the first fast path, all records
    /// to those who need the order of the log.
    fn walk(
        &self,
        group: &[&Follower],
        bytes: &[u8],
        (from, blank_to): (u64, Option<u64>),
        fast_path: FastPath,
    ) -> Result<Walked> {
        let mut walked = Walked {
            to: from,
            why: None,
            records: 0,
            last_store_ms: None,
        };
        let mut at = 0usize;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let record = match head(rest) {
                Ok(Found::Record(record)) => record,
                Ok(Found::Blank { .. }) => {
                    match blank_to {
                        Some(end) => walked.to = end,
                        None => {
                            let (need, have) = (rest.len() + 1, rest.len());
                            walked.why = Some(RecordError::Truncated { need, have });
                        }
                    }
                    return Ok(walked);
                }
                Err(why) => {
                    walked.why = Some(why);
                    return Ok(walked);
                }
            };
            self.give(group, &record, walked.to, fast_path)?;
            at += record.total_len_bytes;
            walked.to = from + at as u64;
            walked.records += 1;
            walked.last_store_ms = Some(record.store_timestamp_ms);
        }
        Ok(walked)
    }

    #[inline]
    fn give(
        &self,
        group: &[&Follower],
        record: &RecordView<'_>,
        physical_offset: u64,
        fast_path: FastPath,
    ) -> Result<()> {
        let is_mine = fast_path.of == 1 || {
            let hash = self.hasher.hash_one((record.topic, record.queue_id));
            hash as usize % fast_path.of == fast_path.number
        };
        let takes = |follower: &Follower| {
            if follower.dispatch.needs_log_order() {
                fast_path.number == 0
            } else {
                is_mine
            }
        };
        if !group.iter().any(|follower| takes(follower)) {
            return Ok(());
        }
        let request = Request::new(record, physical_offset);
        for follower in group.iter().filter(|follower| takes(follower)) {
            follower.dispatch.dispatch(&request)?;
        }
        Ok(())
    }
}

/// Sets what a follower's failure means for appends: they are refused until it heals.
#[must_use]
pub fn refusal_of(error: &Error) -> String {
    format!("queues or index cannot be written: {error}; reads go on, appends resume when it heals")
}
