//! Moving the tails to the files. Called by the engine's threads, one at a time; appends and reads
//! go on beside it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::queue::{BatchQueue, Dirty};
use super::table::BatchTable;
use super::unit::UNIT_LEN;
use crate::disk::{Disk, DiskFile, Open};
use crate::error::Result;
use crate::units::MIB;

/// Bytes at which a round begins before its time.
const ROUND_BYTES: u64 = MIB;
/// Queues that may fail in one round: a full disk fails them all, one bad directory only itself.
const FAILURES_MAX: usize = 16;
/// Queues whose files wait for their sync, each with a descriptor; then they are synced at once.
const DIRTY_MAX: usize = 1_024;

/// What one queue has to write.
struct Run {
    /// Ordinal of the first unit.
    at: u64,
    /// Ordinal behind the last unit that there is room for.
    room: u64,
    has_files: bool,
    bytes: Vec<u8>,
    /// The files of it that wait for their sync.
    dirty: Vec<(u64, bool)>,
}

impl<D: Disk> BatchTable<D> {
    /// Bytes in the tails of all queues.
    #[must_use]
    pub fn pending_bytes(&self) -> u64 {
        self.pending_bytes.load(Ordering::Relaxed)
    }

    /// Whether a round of writing pays now, before its time.
    #[must_use]
    pub fn is_write_due(&self) -> bool {
        self.pending_bytes() >= ROUND_BYTES
    }

    /// Writes every tail. What could not be written stays in memory and is tried again by the next
    /// call.
    ///
    /// # Durability
    /// What was written survives the process; power loss only after [`BatchTable::sync`].
    ///
    /// # Errors
    /// The first failure of [`crate::error::Error::Io`]; other queues were written all the same.
    ///
    /// # Blocking
    /// Writes to the page cache; makes directories and files.
    pub fn write_pending(&self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let _gate = self.write_gate.lock();
        let queues = std::mem::take(&mut *self.pending.lock());
        let mut failures = Vec::new();
        for queue in &queues {
            queue.lock().is_pending = false;
            if failures.len() < FAILURES_MAX {
                failures.extend(self.write_queue(queue).err());
            }
            let mut state = queue.lock();
            if !state.is_gone && !state.tail.is_empty() {
                self.mark_pending(queue, &mut state);
            }
            drop(state);
            if self.dirty.lock().len() >= DIRTY_MAX {
                failures.extend(self.sync().err());
            }
        }
        failures.into_iter().next().map_or(Ok(()), Err)
    }

    /// With the write gate held.
    fn write_queue(&self, queue: &Arc<BatchQueue<D>>) -> Result<()> {
        let run = {
            let state = queue.lock();
            if state.is_gone || state.tail.is_empty() {
                return Ok(());
            }
            Run {
                at: state.written,
                room: state.room,
                has_files: state.room > state.first,
                bytes: state.tail.clone(),
                dirty: state.dirty.iter().map(|d| (d.base, d.is_new)).collect(),
            }
        };
        let written = self.write_run(queue, &run)?;
        let mut state = queue.lock();
        let count = (run.bytes.len() / UNIT_LEN) as u64;
        state.written += count;
        state.room = state
            .room
            .max(state.written.next_multiple_of(queue.file_units));
        if state.tail.len() == run.bytes.len() {
            // Idle queues keep no buffer.
            state.tail = Vec::new();
        } else {
            state.tail.drain(..run.bytes.len());
        }
        for dirty in written {
            if !state.dirty.iter().any(|known| known.base == dirty.base) {
                state.dirty.push(dirty);
            }
        }
        if !state.is_dirty {
            state.is_dirty = true;
            self.dirty.lock().push(Arc::clone(queue));
        }
        self.pending_bytes
            .fetch_sub(run.bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Writes the units of a run across the files of its queue; gives the files.
    fn write_run(&self, queue: &BatchQueue<D>, run: &Run) -> Result<Vec<Dirty<D>>> {
        let mut files = Vec::new();
        let (mut at, mut rest) = (run.at, run.bytes.as_slice());
        while !rest.is_empty() {
            let base = queue.base_of(at);
            let room = (queue.file_units - (at - base)) as usize * UNIT_LEN;
            let (now, later) = rest.split_at(room.min(rest.len()));
            let is_new = base >= run.room;
            if is_new && (run.has_files || !files.is_empty()) {
                // The name of the file before is durable first: were the newer one alone to survive
                // a crash, the queue would seem to begin there.
                self.disk.sync_dir(&queue.dir)?;
            }
            let file = self.file_for(queue, base, is_new)?;
            file.write_at(now, (at - base) * UNIT_LEN as u64)?;
            let is_new = is_new || run.dirty.contains(&(base, true));
            files.push(Dirty { base, file, is_new });
            at += (now.len() / UNIT_LEN) as u64;
            rest = later;
        }
        Ok(files)
    }

    /// A file to write to, made sparse at its full length if absent, as Java's mapping makes it.
    fn file_for(&self, queue: &BatchQueue<D>, base: u64, is_new: bool) -> Result<Arc<D::File>> {
        let waiting = {
            let state = queue.lock();
            let found = state.dirty.iter().find(|dirty| dirty.base == base);
            found.map(|dirty| Arc::clone(&dirty.file))
        };
        if let Some(file) = waiting {
            return Ok(file);
        }
        let path = queue.file_path(base);
        if !is_new {
            return Ok(Arc::new(self.disk.open(&path, Open::Write)?));
        }
        // The sync makes the names of the file and of these durable.
        self.disk.create_dirs(&queue.dir)?;
        let file = self.disk.open(&path, Open::Create)?;
        if file.len_bytes()? != 0 {
            // Left over by a round that failed: nothing of it counts.
            file.set_len(0)?;
        }
        file.set_len(queue.file_len_bytes())?;
        Ok(Arc::new(file))
    }
}
