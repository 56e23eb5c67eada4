//! The extensions of all queues on the disk: directories, open files, the first look at one,
//! writing its tail, removing what nothing names any more. Decides nothing about queue units.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::files::Files;
use super::super::ledger::{Dirty, Ledger};
use super::super::queue::{NOTHING_WAITS_MS, Queue, State};
use super::super::table::{QueueTable, queue_dir_in};
use super::super::unit::{UNIT_LEN, Unit};
use super::tail::{Ready, Tail};
use super::unit::{END_BLANK_LEN, Extended, UNIT_LEN_MAX, place_of};
use crate::config::{QUEUE_UNIT_BYTES, StoreConfig};
use crate::disk::{Disk, DiskFile, read_exact_at};
use crate::error::{Error, Result};
use crate::units::{offset_file_name, parse_offset_file_name, round_up};

/// The directory of the extensions below the root
/// (`StorePathConfigHelper.getStorePathConsumeQueueExt`).
pub const DIR_NAME: &str = "consumequeue_ext";
/// The setting that the length of the files comes from.
const FILE_LEN_KEY: &str = "mappedFileSizeConsumeQueueExt";
/// Units of a queue that are read at once while the last one with a place is looked for.
const SCAN_UNITS: u64 = 3_276;
/// Where nothing is written, this part of the descriptors of queue files may be open beside them.
const READ_PART: usize = 16;
/// Where extensions are written each queue file has one of its own.
const WRITE_PART: usize = 2;

/// What the extensions of all queues share.
pub(in crate::consume_queue) struct Extensions<D: Disk> {
    pub(in crate::consume_queue) dir: PathBuf,
    pub(in crate::consume_queue) files: Files<D>,
    pub(in crate::consume_queue) ledger: Ledger,
    pub(super) file_len_bytes: u64,
    is_written: bool,
    /// There may be some.
    has_any: AtomicBool,
    /// The owner was told that something is missing.
    pub(super) is_missing_told: AtomicBool,
    is_put_told: AtomicBool,
}

/// Into how many parts the descriptors of queue files go where extensions are written or not.
pub(in crate::consume_queue) fn queue_files_part(config: &StoreConfig) -> usize {
    if config.writes_extensions() {
        WRITE_PART
    } else {
        1
    }
}

impl<D: Disk> Extensions<D> {
    pub(in crate::consume_queue) fn open(
        disk: &D,
        root: &Path,
        config: &StoreConfig,
    ) -> Result<Self> {
        let dir = root.join(DIR_NAME);
        let file_len_bytes = config.extension_file_len_bytes;
        let part = if config.writes_extensions() {
            WRITE_PART
        } else {
            READ_PART
        };
        let open_max = config.queue_files_open_max;
        let has_any = disk.stat(&dir)?.is_some();
        Ok(Self {
            files: Files::new(disk.clone(), (file_len_bytes, FILE_LEN_KEY), open_max, part),
            ledger: Ledger::default(),
            file_len_bytes,
            is_written: config.writes_extensions(),
            has_any: AtomicBool::new(has_any),
            is_missing_told: AtomicBool::new(false),
            is_put_told: AtomicBool::new(false),
            dir,
        })
    }

    pub(in crate::consume_queue) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    pub(super) fn file_path(&self, queue: &Queue, base: u64) -> PathBuf {
        queue_dir_in(&self.dir, queue).join(offset_file_name(base))
    }
}

impl<D: Disk> QueueTable<D> {
    /// Whether new units get an extension (`enableConsumeQueueExt`).
    #[inline]
    #[must_use]
    pub fn writes_extensions(&self) -> bool {
        self.extensions.is_written
    }

    /// Puts what the extension is to say of a unit, and gives the unit that names it: the unit as it
    /// is where it cannot be put, `None` where nobody has looked at the extension yet.
    pub(in crate::consume_queue) fn extend(
        &self,
        queue: &Queue,
        unit: &Unit,
        store_timestamp_ms: i64,
        bits: &[u8],
    ) -> Option<Unit> {
        let mut tail = queue.extension_made().lock();
        match tail.ready {
            Ready::Unknown => return None,
            Ready::Never => return Some(*unit),
            Ready::Yes => {}
        }
        let extended = Extended {
            tags_code: unit.tags_code,
            store_timestamp_ms,
            bits,
        };
        let before = tail.bytes.len();
        let code = tail.put(&extended, self.extensions.file_len_bytes);
        let put = (tail.bytes.len() - before) as u64;
        drop(tail);
        self.pending.bytes.fetch_add(put, Ordering::Relaxed);
        let Some(tags_code) = code else {
            self.tell_not_put(queue, "no place in it can hold the unit");
            return Some(*unit);
        };
        Some(Unit { tags_code, ..*unit })
    }

    fn tell_not_put(&self, queue: &Queue, why: &str) {
        if self.extensions.is_put_told.swap(true, Ordering::AcqRel) {
            return;
        }
        let (topic, id) = (queue.topic(), queue.queue_id());
        self.notices.warn(format!(
            "the extension of queue {topic} {id} cannot be written: {why}; its units hold the tags \
             codes alone (told once)"
        ));
    }

    /// The first look at a queue's extension: where it goes on. What stands behind is taken away. An
    /// extension that cannot be looked at is not written until the store is opened again.
    ///
    /// # Blocking
    /// Reads, cuts and removes files of the extension; reads the queue back to its last unit that
    /// names a place.
    pub(in crate::consume_queue) fn find_extension(&self, queue: &Arc<Queue>, state: &State) {
        if queue.extension_made().lock().ready != Ready::Unknown {
            return;
        }
        self.extensions.has_any.store(true, Ordering::Release);
        let found = self.look_at_extension(queue, state);
        let mut tail = queue.extension_made().lock();
        match found {
            Ok(found) => *tail = found,
            Err(error) => {
                tail.ready = Ready::Never;
                drop(tail);
                self.tell_not_put(queue, &error.to_string());
            }
        }
    }

    fn look_at_extension(&self, queue: &Arc<Queue>, state: &State) -> Result<Tail> {
        let len = self.extensions.file_len_bytes;
        let bases = self.extension_bases(queue)?;
        let files_end = bases.last().map_or(0, |base| base + len);
        let end = match self.last_place(queue, state)? {
            None => files_end,
            Some(place) => match self.unit_end(queue, place, &bases)? {
                Some(end) => end,
                // What the queue names is not there: no place below is given a second time.
                None => round_up(place + 1, len).max(files_end),
            },
        };
        let kept_end = round_up(end, len);
        let mut is_cut = false;
        for base in bases.iter().rev().filter(|base| **base >= kept_end) {
            self.remove_extension_file(queue, *base)?;
            is_cut = true;
        }
        if is_cut {
            self.disk
                .sync_dir(&queue_dir_in(&self.extensions.dir, queue))?;
        }
        let has_files = bases.iter().any(|base| *base < kept_end);
        if has_files && end < kept_end {
            self.clear_behind(queue, end)?;
        }
        Ok(Tail {
            ready: Ready::Yes,
            written: end,
            end,
            files_end: kept_end.min(files_end),
            has_files,
            bytes: Vec::new(),
        })
    }

    /// The first bytes of the files of a queue's extension, in order. Files without a length are what
    /// a crash left of one that was being made: they are removed.
    fn extension_bases(&self, queue: &Queue) -> Result<Vec<u64>> {
        let dir = queue_dir_in(&self.extensions.dir, queue);
        let len = self.extensions.file_len_bytes;
        let mut bases = Vec::new();
        for entry in self.disk.list(&dir)? {
            let base = parse_offset_file_name(&entry.name).filter(|_| !entry.is_dir);
            let Some(base) = base else { continue };
            let path = dir.join(&entry.name);
            if entry.len_bytes == 0 {
                self.disk.unlink(&path)?;
            } else if entry.len_bytes != len || base % len != 0 {
                return Err(Error::WrongFileSize {
                    path,
                    len_bytes: entry.len_bytes,
                    expected_bytes: len,
                    key: FILE_LEN_KEY,
                });
            } else {
                bases.push(base);
            }
        }
        Ok(bases)
    }

    /// The greatest place that a unit of the queue names: places only rise.
    fn last_place(&self, queue: &Arc<Queue>, state: &State) -> Result<Option<u64>> {
        for index in (state.written..state.end).rev() {
            let unit = state.tail_unit(index);
            if let Some(place) = unit.and_then(|unit| place_of(unit.tags_code)) {
                return Ok(Some(place));
            }
        }
        let per_file = self.file_len_bytes / QUEUE_UNIT_BYTES;
        let first = state.first_base / QUEUE_UNIT_BYTES;
        let mut to = state.written;
        let mut buffer = Vec::new();
        while to > first {
            let file_first = (to - 1) / per_file * per_file;
            let from = to.saturating_sub(SCAN_UNITS).max(first).max(file_first);
            let base = file_first * QUEUE_UNIT_BYTES;
            let path = || self.file_path(queue, base);
            let file = self.files.existing((queue.uid(), base), path)?;
            buffer.resize((to - from) as usize * UNIT_LEN, 0);
            read_exact_at(file.as_ref(), &mut buffer, from * QUEUE_UNIT_BYTES - base)?;
            let places = Unit::decode_all(&buffer).filter_map(|unit| place_of(unit.tags_code));
            if let Some(place) = places.last() {
                return Ok(Some(place));
            }
            to = from;
        }
        Ok(None)
    }

    /// Where the unit at a place ends, and so where the next may begin; `None` when none is there.
    fn unit_end(&self, queue: &Arc<Queue>, place: u64, bases: &[u64]) -> Result<Option<u64>> {
        let len = self.extensions.file_len_bytes;
        let in_file = place % len;
        let base = place - in_file;
        if !bases.contains(&base) {
            return Ok(None);
        }
        let file = self.extensions.disk_file(queue, base)?;
        let mut bytes = vec![0; (len - in_file).min(UNIT_LEN_MAX as u64) as usize];
        let got = file.read_at(&mut bytes, in_file)?;
        let unit = bytes.get(..got).and_then(Extended::decode);
        Ok(unit.map(|unit| {
            let end = place + unit.len() as u64;
            let is_room = end % len <= len - END_BLANK_LEN;
            if is_room { end } else { round_up(end, len) }
        }))
    }

    /// Makes everything behind `end` in its file zero: the official start walks the sizes there.
    fn clear_behind(&self, queue: &Arc<Queue>, end: u64) -> Result<()> {
        let len = self.extensions.file_len_bytes;
        let from = end % len;
        let base = end - from;
        let path = self.extensions.file_path(queue, base);
        let file = self.extensions.disk_file(queue, base)?;
        if self.is_absent_behind(&path, file.as_ref(), from, len)?
            || !Self::zero_behind(file.as_ref(), from, len)?
        {
            return Ok(());
        }
        self.note_extension(queue, base, (from, len), false);
        Ok(())
    }

    fn note_extension(&self, queue: &Arc<Queue>, base: u64, range: (u64, u64), is_new: bool) {
        let (from, to) = range;
        self.extensions.ledger.note(Dirty {
            queue: Arc::clone(queue),
            base,
            from,
            to,
            oldest_ms: NOTHING_WAITS_MS,
            is_new,
        });
    }

    /// Moves the tail of a queue's extension to its files. With the write gate held, and before the
    /// units that name its places are written.
    pub(in crate::consume_queue) fn write_extension(&self, queue: &Arc<Queue>) -> Result<()> {
        let Some(extension) = queue.extension() else {
            return Ok(());
        };
        let (written, files_end, has_files, bytes) = {
            let tail = extension.lock();
            if tail.bytes.is_empty() {
                return Ok(());
            }
            let bytes = tail.bytes.clone();
            (tail.written, tail.files_end, tail.has_files, bytes)
        };
        self.write_extension_at(queue, written, &bytes, has_files.then_some(files_end))?;
        let mut tail = extension.lock();
        if tail.bytes.len() == bytes.len() {
            tail.bytes = Vec::new();
        } else {
            tail.bytes.drain(..bytes.len());
        }
        tail.written += bytes.len() as u64;
        tail.has_files = true;
        tail.files_end = round_up(tail.written, self.extensions.file_len_bytes);
        drop(tail);
        let len = bytes.len() as u64;
        self.pending.bytes.fetch_sub(len, Ordering::Relaxed);
        Ok(())
    }

    fn write_extension_at(
        &self,
        queue: &Arc<Queue>,
        mut place: u64,
        mut bytes: &[u8],
        files_end: Option<u64>,
    ) -> Result<()> {
        let len = self.extensions.file_len_bytes;
        while !bytes.is_empty() {
            let from = place % len;
            let base = place - from;
            let room = usize::try_from(len - from).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            let is_new = files_end.is_none_or(|files_end| base >= files_end);
            if is_new && files_end.is_some() {
                // As with queue files: no file survives a crash that the one before did not.
                self.disk
                    .sync_dir(&queue_dir_in(&self.extensions.dir, queue))?;
            }
            let path = || self.extensions.file_path(queue, base);
            let file = self
                .extensions
                .files
                .writable((queue.uid(), base), path, is_new)?;
            file.write_at(now, from)?;
            self.note_extension(queue, base, (from, from + now.len() as u64), is_new);
            place += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    /// Lets everything be looked at again: units of the queue were taken back. With the write gate
    /// held.
    pub(in crate::consume_queue) fn forget_extension(&self, queue: &Arc<Queue>) -> Result<()> {
        // What is left of the queue may name what is in memory.
        self.write_extension(queue)?;
        if let Some(extension) = queue.extension() {
            *extension.lock() = Tail::default();
        }
        Ok(())
    }

    /// Lets go of the extension of a queue that is deleted; its files are removed with its directory.
    pub(in crate::consume_queue) fn drop_extension(&self, queue: &Queue) {
        if let Some(extension) = queue.extension() {
            let dropped = std::mem::take(&mut *extension.lock()).bytes.len() as u64;
            self.pending.bytes.fetch_sub(dropped, Ordering::Relaxed);
        }
        self.extensions.files.close_all(queue.uid());
        self.extensions.ledger.forget_all(queue.uid());
    }

    /// Removes the files of a queue's extension that end before the first place that its units still
    /// name (`ConsumeQueueExt.truncateByMinAddress`).
    pub(in crate::consume_queue) fn retain_extension(&self, queue: &Arc<Queue>) -> Result<()> {
        if !self.extensions.has_any() {
            return Ok(());
        }
        let _gate = self.write_gate.lock();
        let min = {
            let state = queue.lock();
            if state.is_gone || state.min == state.end {
                return Ok(());
            }
            state.min
        };
        let Some(first) = place_of(self.unit_at(queue, min)?.tags_code) else {
            return Ok(());
        };
        for base in self.extension_bases(queue)? {
            if base + self.extensions.file_len_bytes > first {
                break;
            }
            self.remove_extension_file(queue, base)?;
        }
        Ok(())
    }

    fn remove_extension_file(&self, queue: &Queue, base: u64) -> Result<()> {
        let key = (queue.uid(), base);
        self.disk.unlink(&self.extensions.file_path(queue, base))?;
        self.extensions.files.close(key);
        self.extensions.ledger.forget(key);
        Ok(())
    }

    /// After an unclean end: looks at every extension that there is, so that nothing stands behind
    /// what the queues name, whoever opens the store next. To be called after the queues were cut.
    ///
    /// # Durability
    /// Good after the next [`QueueTable::sync`] of 0 pages.
    ///
    /// # Errors
    /// Those of the first look at a queue.
    ///
    /// # Blocking
    /// Reads and cuts files.
    pub fn settle_extensions(&self) -> Result<()> {
        for topic in self.disk.list(&self.extensions.dir)? {
            let dir = self.extensions.dir.join(&topic.name);
            for entry in self.disk.list(&dir)?.iter().filter(|entry| entry.is_dir) {
                let Ok(queue_id) = entry.name.parse() else {
                    continue;
                };
                let Some(queue) = self.find(topic.name.as_bytes(), queue_id) else {
                    continue;
                };
                let _gate = self.write_gate.lock();
                let state = self.lock_known(&queue)?;
                if !state.is_gone {
                    self.find_extension(&queue, &state);
                }
            }
        }
        Ok(())
    }
}

impl<D: Disk> Extensions<D> {
    fn disk_file(&self, queue: &Queue, base: u64) -> Result<Arc<D::File>> {
        let path = || self.file_path(queue, base);
        self.files.existing((queue.uid(), base), path)
    }

    /// A file to read from; `None` when there is none of that name.
    pub(super) fn file_to_read(
        &self,
        disk: &D,
        queue: &Queue,
        base: u64,
    ) -> Result<Option<Arc<D::File>>> {
        match self.disk_file(queue, base) {
            Ok(file) => Ok(Some(file)),
            Err(_) if disk.stat(&self.file_path(queue, base))?.is_none() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
