//! Appending. Before the lock: checks, lengths, CRC, the header without offsets, the queue's
//! counter. Under it: offsets, store time, one copy, publish (`CommitLog.asyncPutMessage`).

use std::sync::atomic::{AtomicI64, Ordering};

use crate::lock::MutexGuard;
use mqcore_record::layout::BLANK_LEN_BYTES;
use mqcore_record::sys_flag::INNER_BATCH;
use mqcore_record::{Prepared, Transaction, crc_property, inner_offsets};

use super::log::{CommitLog, Guarded};
use super::roll::{Sink, Tail};
use crate::clock::Clock;
use crate::disk::{Disk, Region};
use crate::error::{Error, Result};

/// Bytes behind a record that the processor is asked to fetch for the next one, which is likely as
/// long: beyond this its own prefetcher has understood where the copy goes.
const EXPECTED_LEN_MAX: usize = 4096;

/// Where a record went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// First byte of the record in the log.
    pub physical_offset: u64,
    /// Length of the record.
    pub len_bytes: u64,
    /// Place in its queue.
    pub queue_offset: u64,
    /// Time in the record.
    pub store_timestamp_ms: i64,
}

impl Appended {
    /// Physical offset behind the record: what a watermark must reach.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.physical_offset + self.len_bytes
    }
}

/// What an append under the lock came to.
enum Step {
    Done(Appended),
    NeedsSegment(u64),
}

/// What a run of records is.
#[derive(Clone, Copy)]
struct Run {
    /// Of their queue.
    hash: u64,
    /// All their bytes, when they must go into one file.
    whole_len: Option<u64>,
}

/// Why a hold of the lock ended.
enum Stopped {
    AtEnd,
    UnknownQueue,
    NeedsSegment(u64),
}

/// Marks the lock as free again, however the hold of it ends.
struct Held<'a>(&'a AtomicI64);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl<D: Disk, C: Clock> CommitLog<D, C> {
    /// Appends one record. `first_offset` is where a queue starts that had no append yet.
    ///
    /// # Durability
    /// On return the record is in the page cache (with a pool: in the pool's buffer); wait for the
    /// watermark that is wanted.
    ///
    /// # Blocking
    /// For the append lock, and at most `segmentWaitMs` for the next log file.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::PageCacheBusy`], [`Error::NoSegment`].
    pub fn append(
        &self,
        record: &mut Prepared<'_>,
        first_offset: impl Fn(&[u8], i32) -> Result<u64>,
    ) -> Result<Appended> {
        let mut out = None;
        self.append_run(std::slice::from_mut(record), false, first_offset, |done| {
            out = Some(done)
        })?;
        out.ok_or(Error::Closed)
    }

    /// Appends several records of one queue, in one hold of the lock where they fit one file. With
    /// `is_whole` either all of them go into one file, with queue offsets in a row, or none.
    ///
    /// # Errors
    /// As [`CommitLog::append`]; [`Error::Limit`] for a whole run longer than a file. Without
    /// `is_whole` the records before the failing one are appended: `done` was called for them.
    ///
    /// # Blocking
    /// As [`CommitLog::append`].
    pub fn append_run(
        &self,
        records: &mut [Prepared<'_>],
        is_whole: bool,
        first_offset: impl Fn(&[u8], i32) -> Result<u64>,
        mut done: impl FnMut(Appended),
    ) -> Result<()> {
        let Some(first) = records.first() else {
            return Ok(());
        };
        let (topic, queue_id) = (first.topic(), first.queue_id());
        let hash = self.hasher.hash(topic, queue_id);
        let run_len: u64 = records.iter().map(|record| record.total_len() as u64).sum();
        let longest = if is_whole {
            run_len
        } else {
            records
                .iter()
                .map(|record| record.total_len() as u64)
                .max()
                .unwrap_or(0)
        };
        let limit = self.files.chain.segment_len_bytes() - BLANK_LEN_BYTES as u64;
        if longest > limit {
            return Err(Error::Limit {
                what: format!("a run of {longest} bytes"),
                limit,
            });
        }
        let mut at = 0;
        while at < records.len() {
            self.check_busy()?;
            let run = Run {
                hash,
                whole_len: is_whole.then_some(run_len),
            };
            let stopped = self.push_run(records, &mut at, run, &mut done);
            // Also when it failed: what was appended before is to be dispatched.
            self.files.signals.appended(self.wakes_flush);
            match stopped? {
                Stopped::AtEnd => {}
                Stopped::UnknownQueue => {
                    let next = first_offset(topic, queue_id)?;
                    let mut guarded = self.guarded.lock();
                    guarded.offsets.register(hash, topic, queue_id, next);
                }
                Stopped::NeedsSegment(base) => {
                    self.files.signals.prepare.notify();
                    self.files.preparer.wait(base, self.segment_wait)?;
                }
            }
        }
        Ok(())
    }

    /// Appends records from `at` on in one hold of the lock.
    fn push_run(
        &self,
        records: &mut [Prepared<'_>],
        at: &mut usize,
        run: Run,
        done: &mut impl FnMut(Appended),
    ) -> Result<Stopped> {
        let mut guarded = self.lock();
        let held = Held(&self.held_since_ms);
        let stopped = self.push_locked(&mut guarded, records, at, run, done);
        let tail = &mut guarded.tail;
        let wants_pages = tail.position >= tail.ring_at;
        if wants_pages {
            tail.ring_at = tail.position + (self.files.window.bytes() / 8).max(1);
        }
        drop(held);
        drop(guarded);
        if wants_pages {
            self.files.signals.prepare.notify();
        }
        stopped
    }

    fn push_locked(
        &self,
        Guarded { tail, offsets }: &mut Guarded<D>,
        records: &mut [Prepared<'_>],
        at: &mut usize,
        run: Run,
        done: &mut impl FnMut(Appended),
    ) -> Result<Stopped> {
        let Some(first) = records.get(*at) else {
            return Ok(Stopped::AtEnd);
        };
        let Some(next) = offsets.find(run.hash, first.topic(), first.queue_id()) else {
            return Ok(Stopped::UnknownQueue);
        };
        while let Some(record) = records.get_mut(*at) {
            let space = match run.whole_len {
                Some(whole_len) if *at == 0 => whole_len,
                _ => record.total_len() as u64,
            };
            match self.push(tail, record, next, space)? {
                Step::Done(appended) => done(appended),
                Step::NeedsSegment(base) => return Ok(Stopped::NeedsSegment(base)),
            }
            *at += 1;
        }
        Ok(Stopped::AtEnd)
    }

    fn check_busy(&self) -> Result<()> {
        self.files.poison.check()?;
        let since = self.held_since_ms.load(Ordering::Relaxed);
        if since == 0 {
            return Ok(());
        }
        let held_ms = self.clock.now_ms() - since;
        if held_ms <= self.busy_after_ms.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Error::PageCacheBusy {
            held_ms: u64::try_from(held_ms).unwrap_or(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Guarded<D>> {
        let mut guarded = self.guarded.lock();
        // One reading of the clock serves the store time and the busy test: store times never step
        // back, whatever the clock does.
        let now_ms = self.clock.now_ms();
        self.held_since_ms.store(now_ms, Ordering::Relaxed);
        let tail = &mut guarded.tail;
        tail.last_store_ms = tail.last_store_ms.max(now_ms);
        guarded
    }

    /// Appends under the lock, or returns which file it needs first.
    fn push(
        &self,
        tail: &mut Tail<D>,
        record: &mut Prepared<'_>,
        next_queue_offset: &mut u64,
        space: u64,
    ) -> Result<Step> {
        if let Some(base) = self.roll.make_space(tail, space)? {
            return Ok(Step::NeedsSegment(base));
        }
        let Some(segment) = &tail.segment else {
            return Err(Error::Closed);
        };
        let is_counted = matches!(
            record.transaction(),
            Transaction::None | Transaction::Commit
        );
        let queue_offset = if is_counted { *next_queue_offset } else { 0 };
        let len = record.total_len();
        let physical_offset = tail.position;
        record.stamp(
            queue_offset.cast_signed(),
            physical_offset.cast_signed(),
            tail.last_store_ms,
        );
        let position = physical_offset - segment.base();
        let is_written = match &tail.sink {
            Sink::Mapped(region) => region.reserve(position, len).map(|mut reservation| {
                self.write(record, queue_offset, &mut reservation);
                region.publish(reservation);
                region.expect_write(position + len as u64, len.min(EXPECTED_LEN_MAX));
            }),
            Sink::Pooled(buffer) => buffer.reserve(position, len).map(|mut reservation| {
                self.write(record, queue_offset, &mut reservation);
                reservation.publish();
                buffer.expect_write(position + len as u64, len.min(EXPECTED_LEN_MAX));
            }),
            Sink::None => None,
        };
        if is_written.is_none() {
            let reason = format!(
                "{}: position {position} was refused",
                segment.path().display()
            );
            self.files.fail(reason);
            return Err(self.files.poison.check().err().unwrap_or(Error::Closed));
        }
        if is_counted {
            let span = inner_offsets::span(record.sys_flag(), record.properties());
            *next_queue_offset = queue_offset + span;
        }
        tail.position += len as u64;
        self.files
            .last_store_ms
            .store(tail.last_store_ms, Ordering::Relaxed);
        self.files.positions.appended.publish(tail.position);
        Ok(Step::Done(Appended {
            physical_offset,
            len_bytes: len as u64,
            queue_offset,
            store_timestamp_ms: tail.last_store_ms,
        }))
    }

    #[inline]
    fn write(&self, record: &Prepared<'_>, queue_offset: u64, into: &mut [u8]) {
        record.write_to(into);
        if record.sys_flag() & INNER_BATCH != 0 {
            // A record without such a property (of a replica) keeps its own offsets.
            let _is_filled = inner_offsets::fill(into, record.properties().len(), queue_offset);
        }
        if self.fills_crc {
            // A record without such a property (of a replica) has no CRC.
            let _is_filled = crc_property::fill(into);
        }
    }

    /// Runs `f` while nothing can be appended.
    ///
    /// # Blocking
    /// For the append lock.
    pub fn while_still<R>(&self, f: impl FnOnce(u64) -> R) -> R {
        let guarded = self.guarded.lock();
        f(guarded.tail.position)
    }
}
