//! Moving the tails to the files, one run per queue and file. Called by the engine's threads, one
//! at a time; appends and reads go on beside it.

use std::sync::Arc;

use super::pending::Pending;
use super::queue::{NOTHING_WAITS_MS, Queue};
use super::segments::{Segments, WriteRange};
use super::unit::QueueUnit;
use crate::disk::Disk;
use crate::error::Result;

/// Blanks that are written at once.
const BLANKS_PER_WRITE: u64 = 3_000;
/// Queues that may fail in one round: a full disk fails them all, one bad directory only itself.
const FAILURES_MAX: usize = 16;

/// What has to be done before the units of a queue are written, with the write gate held.
type BeforeRun<U> = Box<dyn Fn(&Arc<Queue<U>>) -> Result<()> + Send + Sync>;

/// Writes tails.
pub(crate) struct TailWriter<D: Disk, U: QueueUnit> {
    segments: Arc<Segments<D, U>>,
    pending: Arc<Pending<U>>,
    before_run: BeforeRun<U>,
}

/// What one queue has to write.
struct Run {
    range: WriteRange,
    blanks: u64,
}

impl<D: Disk, U: QueueUnit> TailWriter<D, U> {
    pub(crate) fn new(
        segments: Arc<Segments<D, U>>,
        pending: Arc<Pending<U>>,
        before_run: impl Fn(&Arc<Queue<U>>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            segments,
            pending,
            before_run: Box::new(before_run),
        }
    }

    /// Writes every tail; gives the bytes written. What could not be written stays in memory and
    /// is tried again by the next call.
    ///
    /// # Durability
    /// What was written survives the process; power loss only after a sync.
    ///
    /// # Errors
    /// The first failure of [`crate::error::Error::Io`]; other queues were written all the same.
    ///
    /// # Blocking
    /// Writes to the page cache; makes directories and files.
    pub(crate) fn write_pending(&self) -> Result<u64> {
        let _gate = self.pending.hold_writes();
        let queues = self.pending.take();
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
                self.pending.mark(queue, &mut state);
            }
        }
        failures.into_iter().next().map_or(Ok(written), Err)
    }

    /// Writes the tail of one queue.
    pub(crate) fn write_queue(&self, queue: &Arc<Queue<U>>) -> Result<u64> {
        let _gate = self.pending.hold_writes();
        self.write_run(queue, &mut Vec::new())
    }

    /// With the write gate held.
    fn write_run(&self, queue: &Arc<Queue<U>>, scratch: &mut Vec<u8>) -> Result<u64> {
        scratch.clear();
        let unit_len = U::LEN as u64;
        let run = {
            let mut state = queue.lock();
            if state.is_gone || !state.has_pending() {
                return Ok(0);
            }
            scratch.extend_from_slice(&state.tail);
            let range = WriteRange {
                position: state.written * unit_len,
                files_end: state.files_end,
                has_files: state.has_files(),
                oldest_ms: std::mem::replace(&mut state.oldest_pending_ms, NOTHING_WAITS_MS),
            };
            Run {
                range,
                blanks: state.fill_to - state.written,
            }
        };
        let done = (self.before_run)(queue).and_then(|()| self.write_units(queue, &run, scratch));
        let mut state = queue.lock();
        if let Err(error) = done {
            state.oldest_pending_ms = state.oldest_pending_ms.min(run.range.oldest_ms);
            return Err(error);
        }
        if state.tail.len() == scratch.len() {
            // Idle queues keep no buffer; a busy one takes its next by one call per round.
            state.tail = Vec::new();
        } else {
            state.tail.drain(..scratch.len());
        }
        state.written += run.blanks + scratch.len() as u64 / unit_len;
        state.fill_to = state.written;
        let end = (state.written * unit_len).next_multiple_of(self.segments.file_len_bytes());
        state.files_end = state.files_end.max(end);
        let bytes = scratch.len() as u64;
        self.pending.subtract_bytes(bytes);
        Ok(bytes)
    }

    fn write_units(&self, queue: &Arc<Queue<U>>, run: &Run, bytes: &[u8]) -> Result<()> {
        let mut range = run.range;
        let mut blanks_left = run.blanks;
        let mut blank = Vec::new();
        if let Some(unit) = U::BLANK.filter(|_| blanks_left > 0) {
            unit.encode_into(&mut blank);
        }
        while blanks_left > 0 {
            let count = blanks_left.min(BLANKS_PER_WRITE);
            let blanks = blank.repeat(count as usize);
            self.segments.write_bytes(queue, range, &blanks)?;
            range.position += blanks.len() as u64;
            blanks_left -= count;
        }
        self.segments.write_bytes(queue, range, bytes)
    }
}
