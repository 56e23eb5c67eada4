//! The extensions of all queues on the disk: the first look at one, writing its tail, removing what
//! nothing names any more. Decides nothing about queue units.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::queue::{NOTHING_WAITS_MS, Queue, State};
use super::super::unit::{UNIT_LEN, Unit};
use super::tail::{Ready, Tail};
use super::unit::{END_BLANK_LEN, Extended, UNIT_LEN_MAX, ext_offset_of};
use crate::config::{QUEUE_UNIT_BYTES, StoreConfig};
use crate::disk::{Disk, DiskFile};
use crate::error::{Error, Result};
use crate::notice::Notices;
use crate::queue_store::{FileLength, Files, Pending, Segments, WriteRange};
use crate::units::{parse_offset_file_name, round_up};

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
    pub(super) files: Segments<D, Unit>,
    pub(super) notices: Arc<Notices>,
    /// The queues whose units name places.
    units: Arc<Segments<D, Unit>>,
    pending: Arc<Pending<Unit>>,
    is_written: bool,
    /// There may be some.
    has_any: AtomicBool,
    /// It was reported that something is missing.
    pub(super) has_warned_of_missing: AtomicBool,
    has_warned_of_put: AtomicBool,
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
    /// The extensions of the store at `root`, of these queues. Reads nothing.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(in crate::consume_queue) fn open(
        root: &Path,
        config: &StoreConfig,
        units: Arc<Segments<D, Unit>>,
        pending: Arc<Pending<Unit>>,
        notices: Arc<Notices>,
    ) -> Result<Self> {
        let disk = units.disk().clone();
        let length = FileLength {
            bytes: config.extension_file_len_bytes,
            key: FILE_LEN_KEY,
        };
        let part = if config.writes_extensions() {
            WRITE_PART
        } else {
            READ_PART
        };
        let files = Files::new(disk.clone(), length, config.queue_files_open_max, part);
        let files = Segments::new(disk.clone(), root, DIR_NAME, files);
        let has_any = disk.stat(files.dir())?.is_some();
        Ok(Self {
            files,
            notices,
            units,
            pending,
            is_written: config.writes_extensions(),
            has_any: AtomicBool::new(has_any),
            has_warned_of_missing: AtomicBool::new(false),
            has_warned_of_put: AtomicBool::new(false),
        })
    }

    /// The directory of all extensions.
    pub(in crate::consume_queue) fn dir(&self) -> &Path {
        self.files.dir()
    }

    /// Whether there may be any.
    pub(in crate::consume_queue) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    /// Syncs what was written of all extensions: before the units that name it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(in crate::consume_queue) fn sync(&self) -> Result<()> {
        self.files.sync_all()
    }

    /// Whether new units get an extension (`enableConsumeQueueExt`).
    #[inline]
    pub(in crate::consume_queue) fn is_written(&self) -> bool {
        self.is_written
    }

    /// Puts what the extension is to hold of a unit, and gives the unit that names it: the unit as
    /// it is where it cannot be put, `None` where nobody has looked at the extension yet.
    pub(in crate::consume_queue) fn extend(
        &self,
        queue: &Queue,
        unit: &Unit,
        store_timestamp_ms: i64,
        bits: &[u8],
    ) -> Option<Unit> {
        let mut tail = queue.beside_made().lock();
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
        let code = tail.put(&extended, self.files.file_len_bytes());
        let put = (tail.bytes.len() - before) as u64;
        drop(tail);
        self.pending.add_bytes(put);
        let Some(tags_code) = code else {
            self.warn_not_put(queue, "no place in it can hold the unit");
            return Some(*unit);
        };
        Some(Unit { tags_code, ..*unit })
    }

    fn warn_not_put(&self, queue: &Queue, why: &str) {
        if self.has_warned_of_put.swap(true, Ordering::AcqRel) {
            return;
        }
        let (topic, id) = (queue.topic(), queue.queue_id());
        self.notices.warn(format!(
            "the extension of queue {topic} {id} cannot be written: {why}; its units hold the tags \
             codes alone (reported once)"
        ));
    }

    /// The first look at a queue's extension: where it goes on. What follows is taken away. An
    /// extension that cannot be looked at is not written until the store is opened again.
    ///
    /// # Blocking
    /// Reads, cuts and removes files of the extension; reads the queue back to its last unit that
    /// names a place.
    pub(in crate::consume_queue) fn look(&self, queue: &Arc<Queue>, state: &State) {
        if queue.beside_made().lock().ready != Ready::Unknown {
            return;
        }
        self.has_any.store(true, Ordering::Release);
        let found = self.find_tail(queue, state);
        let mut tail = queue.beside_made().lock();
        match found {
            Ok(found) => *tail = found,
            Err(error) => {
                tail.ready = Ready::Never;
                drop(tail);
                self.warn_not_put(queue, &error.to_string());
            }
        }
    }

    fn find_tail(&self, queue: &Arc<Queue>, state: &State) -> Result<Tail> {
        let len = self.files.file_len_bytes();
        let bases = self.bases(queue)?;
        let files_end = bases.last().map_or(0, |base| base + len);
        let end = match self.last_ext_offset(queue, state)? {
            None => files_end,
            Some(ext_offset) => match self.unit_end(queue, ext_offset, &bases)? {
                Some(end) => end,
                // What the queue names is not there: no place below is given a second time.
                None => round_up(ext_offset + 1, len).max(files_end),
            },
        };
        let kept_end = round_up(end, len);
        let mut is_cut = false;
        for base in bases.iter().rev().filter(|base| **base >= kept_end) {
            self.files.remove_file(queue, *base)?;
            is_cut = true;
        }
        if is_cut {
            self.files.disk().sync_dir(&self.files.queue_dir(queue))?;
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

    /// The first bytes of the files of a queue's extension, in order. Files without a length are
    /// what a crash left of one that was being made: they are removed.
    fn bases(&self, queue: &Queue) -> Result<Vec<u64>> {
        let dir = self.files.queue_dir(queue);
        let len = self.files.file_len_bytes();
        let mut bases = Vec::new();
        for entry in self.files.disk().list(&dir)? {
            let base = parse_offset_file_name(&entry.name).filter(|_| !entry.is_dir);
            let Some(base) = base else { continue };
            let path = dir.join(&entry.name);
            if entry.len_bytes == 0 {
                self.files.disk().unlink(&path)?;
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
    fn last_ext_offset(&self, queue: &Arc<Queue>, state: &State) -> Result<Option<u64>> {
        for index in (state.written..state.end).rev() {
            let unit = state.tail_unit(index);
            if let Some(ext_offset) = unit.and_then(|unit| ext_offset_of(unit.tags_code)) {
                return Ok(Some(ext_offset));
            }
        }
        let per_file = self.units.units_per_file();
        let first = state.first_base / QUEUE_UNIT_BYTES;
        let mut to = state.written;
        let mut buffer = Vec::new();
        while to > first {
            let file_first = (to - 1) / per_file * per_file;
            let from = to.saturating_sub(SCAN_UNITS).max(first).max(file_first);
            buffer.resize((to - from) as usize * UNIT_LEN, 0);
            self.units
                .read_bytes(queue, from * QUEUE_UNIT_BYTES, &mut buffer)?;
            let ext_offsets =
                Unit::decode_all(&buffer).filter_map(|unit| ext_offset_of(unit.tags_code));
            if let Some(ext_offset) = ext_offsets.last() {
                return Ok(Some(ext_offset));
            }
            to = from;
        }
        Ok(None)
    }

    /// Where the unit at a place ends, and so where the next may begin; `None` when none is there.
    fn unit_end(&self, queue: &Arc<Queue>, ext_offset: u64, bases: &[u64]) -> Result<Option<u64>> {
        let len = self.files.file_len_bytes();
        let in_file = ext_offset % len;
        let base = ext_offset - in_file;
        if !bases.contains(&base) {
            return Ok(None);
        }
        let file = self.files.file(queue, base)?;
        let mut bytes = vec![0; (len - in_file).min(UNIT_LEN_MAX as u64) as usize];
        let got = file.read_at(&mut bytes, in_file)?;
        let unit = bytes.get(..got).and_then(Extended::decode);
        Ok(unit.map(|unit| {
            let end = ext_offset + unit.len() as u64;
            let is_fitting = end % len <= len - END_BLANK_LEN;
            if is_fitting { end } else { round_up(end, len) }
        }))
    }

    /// Makes everything behind `end` in its file zero: the official start walks the sizes there.
    fn clear_behind(&self, queue: &Arc<Queue>, end: u64) -> Result<()> {
        let len = self.files.file_len_bytes();
        let from = end % len;
        let base = end - from;
        let file = self.files.file(queue, base)?;
        let part = (file.as_ref(), from);
        if self.files.is_absent_behind(queue, base, part)?
            || !self.files.zero_behind(file.as_ref(), from)?
        {
            return Ok(());
        }
        self.files.note_changed(queue, base, (from, len));
        Ok(())
    }

    /// Moves the tail of a queue's extension to its files. With the write gate held, and before the
    /// units that name its places are written.
    pub(in crate::consume_queue) fn write(&self, queue: &Arc<Queue>) -> Result<()> {
        let Some(extension) = queue.beside() else {
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
        let range = WriteRange {
            position: written,
            files_end: if has_files { files_end } else { 0 },
            has_files,
            oldest_ms: NOTHING_WAITS_MS,
        };
        self.files.write_bytes(queue, range, &bytes)?;
        let mut tail = extension.lock();
        if tail.bytes.len() == bytes.len() {
            tail.bytes = Vec::new();
        } else {
            tail.bytes.drain(..bytes.len());
        }
        tail.written += bytes.len() as u64;
        tail.has_files = true;
        tail.files_end = round_up(tail.written, self.files.file_len_bytes());
        drop(tail);
        let len = bytes.len() as u64;
        self.pending.subtract_bytes(len);
        Ok(())
    }

    /// Lets everything be looked at again: units of the queue were taken back. With the write gate
    /// held.
    pub(in crate::consume_queue) fn forget(&self, queue: &Arc<Queue>) -> Result<()> {
        // What is left of the queue may name what is in memory.
        self.write(queue)?;
        if let Some(extension) = queue.beside() {
            *extension.lock() = Tail::default();
        }
        Ok(())
    }

    /// Lets go of the extension of a queue that is deleted; its files are removed with its
    /// directory.
    pub(in crate::consume_queue) fn drop_queue(&self, queue: &Queue) {
        if let Some(extension) = queue.beside() {
            let dropped = std::mem::take(&mut *extension.lock()).bytes.len() as u64;
            self.pending.subtract_bytes(dropped);
        }
        self.files.forget_queue(queue);
    }

    /// Removes the files of a queue's extension that end before the first offset that its units
    /// still name (`ConsumeQueueExt.truncateByMinAddress`).
    pub(in crate::consume_queue) fn retain(&self, queue: &Arc<Queue>) -> Result<()> {
        if !self.has_any() {
            return Ok(());
        }
        let _gate = self.pending.hold_writes();
        let min = {
            let state = queue.lock();
            if state.is_gone || state.min == state.end {
                return Ok(());
            }
            state.min
        };
        let Some(first) = ext_offset_of(self.units.unit_at(queue, min)?.tags_code) else {
            return Ok(());
        };
        for base in self.bases(queue)? {
            if base + self.files.file_len_bytes() > first {
                break;
            }
            self.files.remove_file(queue, base)?;
        }
        Ok(())
    }
}
