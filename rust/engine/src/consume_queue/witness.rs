//! What the last clean stop or checkpoint knew of the queues, kept beyond the next change: queues only
//! grow, so each of them ends where it ended then or later. After a stop that was not clean this shows
//! which queues have lost their end, or all of their files. It counts for nothing once a topic is
//! deleted, the log has lost what it names, or another broker has worked on the store. Reads no record.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::manifest::{MANIFEST_MAX_BYTES, MANIFEST_NAME, decode_manifest};
use super::queue::{Queue, State};
use super::table::QueueTable;
use crate::config::QUEUE_UNIT_BYTES;
use crate::disk::{Disk, read_whole};
use crate::error::Result;
use crate::units::round_up;

/// Name of the manifest of the last clean stop after the first change; official brokers ignore it.
pub const WITNESS_NAME: &str = "queues.manifest.before";

/// With more queues the witness is not written at checkpoints: that of the last clean stop stays. So
/// many are some 6 MB each minute, and a tenth of a second under the locks of single queues.
const WITNESS_QUEUES_MAX: usize = 100_000;

/// How often a witness is begun again because a topic was deleted meanwhile; then the next second
/// tries.
const WITNESS_TRIES: u32 = 3;

/// A queue that ends before it should.
struct Shorter {
    queue: Arc<Queue>,
    told: State,
}

impl<D: Disk> QueueTable<D> {
    /// Before the first change: what the manifest says is a lower bound from now on.
    ///
    /// # Durability
    /// The manifest is gone for good on return, and the witness is there.
    pub(super) fn retire_manifest(&self) -> Result<()> {
        if !self.has_manifest.load(Ordering::Acquire) {
            return Ok(());
        }
        let path = self.manifest_path();
        if self.disk.stat(&path)?.is_some() {
            self.disk.rename(&path, &self.root.join(WITNESS_NAME))?;
        }
        self.disk.sync_dir(&self.root)?;
        self.has_manifest.store(false, Ordering::Release);
        Ok(())
    }

    /// Writes down how far each queue is in its files, where that has changed. To be called before a
    /// checkpoint is written: a queue that is not named then has its first record behind what the
    /// checkpoint covers, where a start after a kill finds it in the log.
    ///
    /// # Durability
    /// The witness is durable on return, or void because topics were deleted meanwhile.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]: the witness before it stays.
    ///
    /// # Blocking
    /// Until the device has answered; looks at queues not used yet. Appends and writes go on.
    pub fn refresh_witness(&self) -> Result<()> {
        let is_unchanged = self.has_manifest.load(Ordering::Acquire);
        if is_unchanged || self.len() > WITNESS_QUEUES_MAX {
            return Ok(());
        }
        let mut written = self.witness_written.lock();
        for _ in 0..WITNESS_TRIES {
            if self.write_witness(&mut written)? {
                break;
            }
        }
        Ok(())
    }

    /// False when queues may have become shorter meanwhile.
    fn write_witness(&self, written: &mut Option<(u64, u32)>) -> Result<bool> {
        let voids = {
            // Queues are deleted, and cut, with this gate held.
            let _gate = self.write_gate.lock();
            self.witness_voids.load(Ordering::Acquire)
        };
        let bytes = self.encode_manifest(&[])?;
        let sum = crc32fast::hash(&bytes);
        if *written == Some((voids, sum)) {
            return Ok(true);
        }
        let path = self.write_new(&bytes)?;
        {
            let _gate = self.write_gate.lock();
            if self.witness_voids.load(Ordering::Acquire) != voids {
                self.disk.unlink(&path)?;
                return Ok(false);
            }
            self.disk.rename(&path, &self.root.join(WITNESS_NAME))?;
            self.is_witness_void.store(false, Ordering::Release);
        }
        self.disk.sync_dir(&self.root)?;
        *written = Some((voids, sum));
        Ok(true)
    }

    /// Whether neither a manifest nor a witness is there.
    #[must_use]
    pub fn is_witness_void(&self) -> bool {
        self.is_witness_void.load(Ordering::Acquire)
    }

    /// Removes manifest and witness: queues may become shorter from now on.
    ///
    /// # Durability
    /// Both are gone for good on return.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn void_witness(&self) -> Result<()> {
        self.witness_voids.fetch_add(1, Ordering::AcqRel);
        if self.is_witness_void.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut has_any = false;
        for name in [WITNESS_NAME, MANIFEST_NAME] {
            let path = self.root.join(name);
            if self.disk.stat(&path)?.is_some() {
                self.disk.unlink(&path)?;
                has_any = true;
            }
        }
        if has_any {
            self.disk.sync_dir(&self.root)?;
        }
        self.has_manifest.store(false, Ordering::Release);
        self.is_witness_void.store(true, Ordering::Release);
        Ok(())
    }

    /// Lengthens each queue that is shorter than it was at the last clean stop, with nothing in the new
    /// part, and notes it as a suspect. Called while the store is opened, when the queues have
    /// everything that is dispatched again.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads one file; writes what waits where a queue is shorter.
    pub fn compare_with_witness(&self, log_start: u64, log_end: u64) -> Result<()> {
        if self.is_witness_void.load(Ordering::Acquire) {
            return Ok(());
        }
        let log_end = i64::try_from(log_end).unwrap_or(i64::MAX);
        let mut shorter = Vec::new();
        let mut is_void = false;
        for name in [MANIFEST_NAME, WITNESS_NAME] {
            let bytes = read_whole(&self.disk, &self.root.join(name), MANIFEST_MAX_BYTES)?;
            let Some(bytes) = bytes else {
                continue;
            };
            let Some((_stamp, queues)) = decode_manifest(&bytes, None, self.file_len_bytes) else {
                continue;
            };
            for (topic, queue_id, told) in queues {
                if told.last_physical_end > log_end {
                    // The log has lost some of it, and said so.
                    is_void = true;
                } else if told.end > 0 {
                    shorter.extend(self.if_shorter((topic, queue_id), told, log_start)?);
                }
            }
            break;
        }
        if !shorter.is_empty() {
            self.write_pending()?;
        }
        for each in shorter {
            self.lengthen(&each)?;
        }
        if is_void {
            self.void_witness()?;
        }
        Ok(())
    }

    fn if_shorter(
        &self,
        (topic, id): (&str, i32),
        told: State,
        log_start: u64,
    ) -> Result<Option<Shorter>> {
        let queue = match self.find(topic.as_bytes(), id) {
            Some(queue) => queue,
            None => self.insert(topic, id, State::empty()),
        };
        let (end, first_base, has_files) = {
            let state = self.lock_known(&queue)?;
            (state.end, state.first_base, state.has_files())
        };
        if has_files && first_base > told.first_base {
            let first = first_base / QUEUE_UNIT_BYTES;
            let unit = self.file_unit(&queue, first)?;
            let place = unit.physical_offset.cast_unsigned();
            // Retention keeps the file of the first record that the log has.
            if !unit.is_present() || (!unit.is_blank() && place >= log_start) {
                let _is_watched = self.suspect_lost(&queue, (0, first), true);
            }
        }
        Ok((end < told.end).then_some(Shorter { queue, told }))
    }

    fn lengthen(&self, Shorter { queue, told }: &Shorter) -> Result<()> {
        let len = self.file_len_bytes;
        let (end, files_end, has_files) = {
            let state = queue.lock();
            (state.end, state.files_end, state.has_files())
        };
        let position = told.end * QUEUE_UNIT_BYTES;
        let first = if has_files {
            files_end
        } else {
            position - position % len
        };
        let to = round_up(position, len);
        for base in (first..to).step_by(len as usize) {
            // One after the other, each for good: a crash leaves a shorter queue.
            self.make_whole(queue, base)?;
            self.disk.sync_dir(&self.queue_dir(queue))?;
        }
        {
            let mut state = queue.lock();
            if !has_files {
                state.begin_at(told.end, len);
            }
            state.files_end = state.files_end.max(to);
            state.set_end(told.end);
            state.has_checked_ends = false;
            state.last_physical_end = state.last_physical_end.max(told.last_physical_end);
        }
        let from = if has_files { end } else { 0 };
        let _is_watched = self.suspect_lost(queue, (from, told.end), !has_files);
        Ok(())
    }
}
