//! Moving the tails to the files, one run per queue and file. Called by the engine's threads, one
//! at a time; appends and reads go on beside it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ledger::Dirty;
use super::queue::{NOTHING_WAITS_MS, Queue};
use super::table::QueueTable;
use super::unit::{UNIT_LEN, Unit};
use crate::config::QUEUE_UNIT_BYTES;
use crate::disk::{Disk, DiskFile};
use crate::error::Result;
use crate::units::MIB;

/// Bytes below which a round is not worth its calls.
const ROUND_BYTES_MIN: u64 = MIB;
/// Bytes at which a round begins however short its runs are.
const ROUND_BYTES_MAX: u64 = 16 * MIB;
/// Bytes of a run, on average, that pay for opening, writing and closing a file (8 us): with a
/// fixed round of 1 MiB, 10,000 queues were written at 0.6 million units per second, with this at
/// some 2 million.
const RUN_BYTES_MIN: u64 = 20 * QUEUE_UNIT_BYTES;
/// Blanks that are written at once.
const BLANKS_PER_WRITE: u64 = 3_000;
/// Queues that may fail in one round: a full disk fails them all, one bad directory only itself.
const FAILURES_MAX: usize = 16;

/// What one queue has to write.
struct Run {
    position: u64,
    blanks: u64,
    files_end: u64,
    has_files: bool,
    oldest_ms: i64,
}

impl<D: Disk> QueueTable<D> {
    /// Bytes in the tails of all queues.
    #[must_use]
    pub fn pending_bytes(&self) -> u64 {
        self.pending.bytes.load(Ordering::Relaxed)
    }

    /// Whether a round of writing pays now: 1 MiB waits, in runs that are not too short for what a
    /// run costs, or so much waits that memory counts. Whoever appends also writes after 100 ms.
    #[must_use]
    pub fn is_write_due(&self) -> bool {
        let bytes = self.pending_bytes();
        bytes >= ROUND_BYTES_MAX
            || (bytes >= ROUND_BYTES_MIN
                && bytes >= self.pending.queues.lock().len() as u64 * RUN_BYTES_MIN)
    }

    /// Writes every tail; gives the bytes written. What could not be written stays in memory and
    /// is tried again by the next call.
    ///
    /// # Durability
    /// What was written survives the process; power loss only after [`QueueTable::sync`].
    ///
    /// # Errors
    /// The first failure of [`crate::error::Error::Io`]; other queues were written all the same.
    ///
    /// # Blocking
    /// Writes to the page cache; makes directories and files.
    pub fn write_pending(&self) -> Result<u64> {
        let _gate = self.write_gate.lock();
        let queues = std::mem::take(&mut *self.pending.queues.lock());
        if queues.is_empty() {
            return Ok(0);
        }
        let mut scratch = Vec::new();
        let mut written = 0;
        let mut failures = Vec::new();
        for queue in &queues {
            queue.lock().is_pending = false;
            if failures.len() < FAILURES_MAX {
                match self.write_run(queue, &mut scratch) {
                    Ok(bytes) => written += bytes,
                    Err(error) => failures.push(error),
                }
            }
            let mut state = queue.lock();
            if !state.is_gone && state.has_pending() {
                self.mark_pending(queue, &mut state);
            }
        }
        failures.into_iter().next().map_or(Ok(written), Err)
    }

    /// Writes the tail of one queue.
    pub(super) fn write_queue(&self, queue: &Arc<Queue>) -> Result<u64> {
        let _gate = self.write_gate.lock();
        self.write_run(queue, &mut Vec::new())
    }

    /// With the write gate held.
    fn write_run(&self, queue: &Arc<Queue>, scratch: &mut Vec<u8>) -> Result<u64> {
        scratch.clear();
        let run = {
            let mut state = queue.lock();
            if state.is_gone || !state.has_pending() {
                return Ok(0);
            }
            scratch.extend_from_slice(&state.tail);
            Run {
                position: state.written * QUEUE_UNIT_BYTES,
                blanks: state.fill_to - state.written,
                files_end: state.files_end,
                has_files: state.has_files(),
                oldest_ms: std::mem::replace(&mut state.oldest_pending_ms, NOTHING_WAITS_MS),
            }
        };
        let done = self
            .retire_manifest()
            .and_then(|()| self.write_extension(queue))
            .and_then(|()| self.write_at(queue, &run, scratch));
        let mut state = queue.lock();
        if let Err(error) = done {
            state.oldest_pending_ms = state.oldest_pending_ms.min(run.oldest_ms);
            return Err(error);
        }
        if state.tail.len() == scratch.len() {
            // Idle queues keep no buffer; a busy one takes its next by one call per round.
            state.tail = Vec::new();
        } else {
            state.tail.drain(..scratch.len());
        }
        state.written += run.blanks + (scratch.len() / UNIT_LEN) as u64;
        state.fill_to = state.written;
        let end = (state.written * QUEUE_UNIT_BYTES).next_multiple_of(self.file_len_bytes);
        state.files_end = state.files_end.max(end);
        let bytes = scratch.len() as u64;
        self.pending.bytes.fetch_sub(bytes, Ordering::Relaxed);
        Ok(bytes)
    }

    fn write_at(&self, queue: &Arc<Queue>, run: &Run, bytes: &[u8]) -> Result<()> {
        let mut position = run.position;
        let mut blanks_left = run.blanks;
        while blanks_left > 0 {
            let count = blanks_left.min(BLANKS_PER_WRITE);
            let blanks = Unit::BLANK.encode().repeat(count as usize);
            self.write_bytes(queue, run, position, &blanks)?;
            position += blanks.len() as u64;
            blanks_left -= count;
        }
        self.write_bytes(queue, run, position, bytes)
    }

    /// Writes bytes of a queue across its files.
    fn write_bytes(
        &self,
        queue: &Arc<Queue>,
        run: &Run,
        mut position: u64,
        mut bytes: &[u8],
    ) -> Result<()> {
        while !bytes.is_empty() {
            let from = position % self.file_len_bytes;
            let base = position - from;
            let room = (self.file_len_bytes - from) as usize;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            let is_new = base >= run.files_end;
            let key = (queue.uid(), base);
            let path = || self.file_path(queue, base);
            if is_new && run.has_files {
                // The name of the file before is durable first: were the newer one alone to
                // survive a crash, the queue would seem to begin there.
                self.disk.sync_dir(&self.queue_dir(queue))?;
            }
            let file = self.files.writable(key, path, is_new)?;
            file.write_at(now, from)?;
            self.ledger.note(Dirty {
                queue: Arc::clone(queue),
                base,
                from,
                to: from + now.len() as u64,
                oldest_ms: run.oldest_ms,
                is_new,
            });
            position += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }
}
