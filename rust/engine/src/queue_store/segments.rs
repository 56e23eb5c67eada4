//! The files of all queues below one directory: bytes by queue and position, and which of them wait
//! for a sync. Knows no unit but its length, and no state of a queue.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{FileLength, Files};
use super::ledger::{Dirty, Ledger};
use super::queue::{NOTHING_WAITS_MS, Queue};
use super::unit::QueueUnit;
use crate::disk::{Disk, DiskFile, Open, read_exact_at};
use crate::error::Result;
use crate::units::{PAGE_BYTES, offset_file_name, round_up};

/// The files of all queues below one directory.
pub(crate) struct Segments<D: Disk, U: QueueUnit> {
    disk: D,
    root: PathBuf,
    dir: PathBuf,
    files: Files<D>,
    ledger: Ledger<U>,
}

/// Where bytes of a queue go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteRange {
    /// First byte, from the start of the queue.
    pub(crate) position: u64,
    /// Files from this byte on are made; `u64::MAX` where all are there.
    pub(crate) files_end: u64,
    /// The queue has a file.
    pub(crate) has_files: bool,
    /// Smallest store time of the units; [`NOTHING_WAITS_MS`] where no checkpoint waits for them.
    pub(crate) oldest_ms: i64,
}

impl<D: Disk, U: QueueUnit> Segments<D, U> {
    /// The files below `root/dir_name`.
    pub(crate) fn new(disk: D, root: &Path, dir_name: &str, files: Files<D>) -> Self {
        Self {
            disk,
            root: root.to_owned(),
            dir: root.join(dir_name),
            files,
            ledger: Ledger::default(),
        }
    }

    pub(crate) fn disk(&self) -> &D {
        &self.disk
    }

    /// The directory of all queues.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn length(&self) -> FileLength {
        self.files.length()
    }

    #[inline]
    pub(crate) fn file_len_bytes(&self) -> u64 {
        self.files.length().bytes
    }

    /// Units of one file.
    pub(crate) fn units_per_file(&self) -> u64 {
        self.file_len_bytes() / U::LEN as u64
    }

    /// Files open now.
    pub(crate) fn open_count(&self) -> usize {
        self.files.open_count()
    }

    pub(crate) fn queue_dir(&self, queue: &Queue<U>) -> PathBuf {
        queue_dir_in(&self.dir, queue)
    }

    pub(crate) fn file_path(&self, queue: &Queue<U>, base: u64) -> PathBuf {
        self.queue_dir(queue).join(offset_file_name(base))
    }

    /// A file that is there.
    pub(crate) fn file(&self, queue: &Queue<U>, base: u64) -> Result<Arc<D::File>> {
        let key = (queue.uid(), base);
        self.files.existing(key, || self.file_path(queue, base))
    }

    /// A file; `None` when there is none of that name.
    pub(crate) fn file_if_there(
        &self,
        queue: &Queue<U>,
        base: u64,
    ) -> Result<Option<Arc<D::File>>> {
        match self.file(queue, base) {
            Ok(file) => Ok(Some(file)),
            Err(_) if self.disk.stat(&self.file_path(queue, base))?.is_none() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads exactly so many bytes of one file, from a position in the queue on.
    pub(crate) fn read_bytes(
        &self,
        queue: &Queue<U>,
        position: u64,
        into: &mut [u8],
    ) -> Result<()> {
        let in_file = position % self.file_len_bytes();
        let file = self.file(queue, position - in_file)?;
        read_exact_at(file.as_ref(), into, in_file)
    }

    /// Writes bytes of a queue across its files; with the write gate held.
    pub(crate) fn write_bytes(
        &self,
        queue: &Arc<Queue<U>>,
        range: WriteRange,
        mut bytes: &[u8],
    ) -> Result<()> {
        let len = self.file_len_bytes();
        let WriteRange {
            mut position,
            mut has_files,
            ..
        } = range;
        while !bytes.is_empty() {
            let from = position % len;
            let base = position - from;
            let left = usize::try_from(len - from).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(left.min(bytes.len()));
            let is_new = base >= range.files_end;
            if is_new && has_files {
                // The name of the file before is durable first: were the newer one alone to
                // survive a crash, the queue would seem to begin there.
                self.disk.sync_dir(&self.queue_dir(queue))?;
            }
            let path = || self.file_path(queue, base);
            let file = self.files.writable((queue.uid(), base), path, is_new)?;
            file.write_at(now, from)?;
            let span = (from, from + now.len() as u64);
            self.note(queue, base, span, (range.oldest_ms, is_new));
            has_files = true;
            position += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    fn note(
        &self,
        queue: &Arc<Queue<U>>,
        base: u64,
        (from, to): (u64, u64),
        (oldest_ms, is_new): (i64, bool),
    ) {
        self.ledger.note(Dirty {
            queue: Arc::clone(queue),
            base,
            from,
            to,
            oldest_ms,
            is_new,
        });
    }

    /// Notes a part of a file of which bytes were taken back: it is due at the next sync.
    pub(crate) fn note_taken_back(&self, queue: &Arc<Queue<U>>, base: u64, span: (u64, u64)) {
        self.note(queue, base, span, (i64::MIN, false));
    }

    /// Notes a part of a file for a sync that no checkpoint waits for.
    pub(crate) fn note_changed(&self, queue: &Arc<Queue<U>>, base: u64, span: (u64, u64)) {
        self.note(queue, base, span, (NOTHING_WAITS_MS, false));
    }

    /// Gives a file its full length, and its name where that is gone.
    pub(crate) fn make_whole(&self, queue: &Arc<Queue<U>>, base: u64) -> Result<()> {
        let path = self.file_path(queue, base);
        let len = self.file_len_bytes();
        let stat = self.disk.stat(&path)?;
        if stat.is_some_and(|stat| stat.len_bytes >= len) {
            return Ok(());
        }
        self.files.close((queue.uid(), base));
        self.disk.create_dirs(&self.queue_dir(queue))?;
        self.disk.open(&path, Open::Create)?.set_len(len)?;
        // Due at the next sync, and no reason to hold the checkpoint back.
        self.note(queue, base, (0, len), (NOTHING_WAITS_MS, true));
        Ok(())
    }

    /// Removes one file of a queue and everything that knows it.
    pub(crate) fn remove_file(&self, queue: &Queue<U>, base: u64) -> Result<()> {
        let path = self.file_path(queue, base);
        if self.disk.stat(&path)?.is_some() {
            self.disk.unlink(&path)?;
        }
        self.forget_file(queue, base);
        Ok(())
    }

    /// Removes one file for good: were two removed before a sync, a crash could bring back the newer
    /// one alone, and the queue would seem to begin there.
    pub(crate) fn remove_file_for_good(&self, queue: &Queue<U>, base: u64) -> Result<()> {
        self.remove_file(queue, base)?;
        self.disk.sync_dir(&self.queue_dir(queue))
    }

    /// Lets go of one file, which is removed by somebody else.
    pub(crate) fn forget_file(&self, queue: &Queue<U>, base: u64) {
        let key = (queue.uid(), base);
        self.files.close(key);
        self.ledger.forget(key);
    }

    /// Lets go of all files of a queue.
    pub(crate) fn forget_queue(&self, queue: &Queue<U>) {
        self.files.close_all(queue.uid());
        self.ledger.forget_all(queue.uid());
    }

    /// Writes zeros over what is not zero from `from` on in a file; false when there was nothing.
    pub(crate) fn zero_behind(&self, file: &D::File, from: u64) -> Result<bool> {
        let mut is_changed = false;
        self.each_part_behind(file, from, |bytes, position| {
            if bytes.iter().any(|byte| *byte != 0) {
                bytes.fill(0);
                file.write_at(bytes, position)?;
                is_changed = true;
            }
            Ok(true)
        })?;
        Ok(is_changed)
    }

    /// Whether a file holds anything but zeros from `from` on.
    pub(crate) fn has_bytes_behind(&self, file: &D::File, from: u64) -> Result<bool> {
        let mut has_any = false;
        self.each_part_behind(file, from, |bytes, _position| {
            has_any = bytes.iter().any(|byte| *byte != 0);
            Ok(!has_any)
        })?;
        Ok(has_any)
    }

    /// Reads a file from `from` on, a page at a time so that holes stay holes, as long as `use_`
    /// returns true.
    fn each_part_behind(
        &self,
        file: &D::File,
        from: u64,
        mut use_: impl FnMut(&mut [u8], u64) -> Result<bool>,
    ) -> Result<()> {
        let mut buffer = vec![0; PAGE_BYTES as usize];
        let mut position = from;
        while position < self.file_len_bytes() {
            let page_left = PAGE_BYTES - position % PAGE_BYTES;
            let len = (self.file_len_bytes() - position).min(page_left) as usize;
            let bytes = &mut buffer[..len];
            read_exact_at(file, bytes, position)?;
            if !use_(bytes, position)? {
                break;
            }
            position += len as u64;
        }
        Ok(())
    }

    /// True when a file surely holds nothing from `from` on: the rest of the page is zero and the
    /// file occupies what the pages before need, neither more nor (a compressing file system) less.
    pub(crate) fn is_absent_behind(
        &self,
        queue: &Queue<U>,
        base: u64,
        (file, from): (&D::File, u64),
    ) -> Result<bool> {
        let pages_end = round_up(from, PAGE_BYTES).min(self.file_len_bytes());
        let stat = self.disk.stat(&self.file_path(queue, base))?;
        if stat.is_none_or(|stat| stat.allocated_bytes != round_up(from, PAGE_BYTES)) {
            return Ok(false);
        }
        let mut rest = vec![0; (pages_end - from) as usize];
        read_exact_at(file, &mut rest, from)?;
        Ok(rest.iter().all(|byte| *byte == 0))
    }

    /// Whether a file waits for its sync.
    pub(crate) fn has_unsynced(&self) -> bool {
        !self.ledger.is_empty()
    }

    /// Smallest store time of a unit in a file that waits for its sync.
    pub(super) fn oldest_waiting_ms(&self) -> i64 {
        self.ledger.oldest_ms()
    }

    /// Takes the files that a sync from `least_pages` on does (0: all).
    pub(super) fn take_due(&self, least_pages: u64) -> Vec<Dirty<U>> {
        self.ledger.take_due(least_pages, self.file_len_bytes())
    }

    /// Syncs every file that waits, and the names of new ones.
    pub(crate) fn sync_all(&self) -> Result<()> {
        self.sync_files(&self.take_due(0))
    }

    pub(super) fn sync_files(&self, due: &[Dirty<U>]) -> Result<()> {
        // All write-backs are started first: the syncs then mostly wait for what is under way, and
        // the file system joins their journal entries.
        for dirty in due {
            if let Some(file) = self.file_if_there(&dirty.queue, dirty.base)? {
                file.start_write_back(dirty.from, dirty.to - dirty.from);
            }
        }
        let mut dirs = BTreeSet::new();
        for dirty in due {
            // Opened again if it was closed; none where it was removed meanwhile.
            let Some(file) = self.file_if_there(&dirty.queue, dirty.base)? else {
                continue;
            };
            file.sync_data()?;
            self.files.mark_clean((dirty.queue.uid(), dirty.base));
            if dirty.is_new {
                // The directories above may be as new as the file.
                let queue_dir = self.queue_dir(&dirty.queue);
                dirs.extend(queue_dir.parent().map(Path::to_owned));
                dirs.insert(queue_dir);
                dirs.insert(self.dir.clone());
                dirs.insert(self.root.clone());
            }
        }
        // Deepest first: once a name is durable, so is everything below it.
        for dir in dirs.into_iter().rev() {
            if self.disk.stat(&dir)?.is_some() {
                self.disk.sync_dir(&dir)?;
            }
        }
        Ok(())
    }
}

/// The directory of a queue below one of all queues.
fn queue_dir_in<U: QueueUnit>(dir: &Path, queue: &Queue<U>) -> PathBuf {
    let topic_dir = dir.join(queue.topic());
    topic_dir.join(queue.queue_id().to_string())
}
