//! The queue files of a directory, read as they are: which there are, where each queue begins and
//! ends, and its units one after another. Trusts nothing but the names.

use std::path::{Path, PathBuf};

use super::Inspection;
use super::batch_queues::batch_reports;
use super::queue_report::QueueReport;
use crate::config::QUEUE_UNIT_BYTES;
use crate::consume_queue::Unit;
use crate::disk::{Disk, DiskFile, Open};
use crate::error::Result;
use crate::units::parse_offset_file_name;

/// Bytes of a unit, as a length in memory.
const UNIT_LEN: usize = QUEUE_UNIT_BYTES as usize;
/// Units read at once: with very many queues each holds this many, so it is small.
const UNITS_PER_READ: u64 = 64;

/// The files of one queue, contiguous, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueFiles {
    /// The topic.
    pub topic: String,
    /// The number of the queue in it.
    pub queue_id: i32,
    /// Base in bytes of the queue, and path, of each file.
    pub files: Vec<(u64, PathBuf)>,
    /// First queue offset that the files have space for.
    pub first: u64,
    /// Queue offset behind the last unit.
    pub end: u64,
}

/// Reads units of one queue; keeps the last read ones, no descriptor.
pub(super) struct UnitReader {
    pub(super) queue: QueueFiles,
    file_len_bytes: u64,
    buffer: Vec<u8>,
    buffer_first: u64,
}

impl UnitReader {
    pub(super) fn new(queue: QueueFiles, file_len_bytes: u64) -> Self {
        Self {
            queue,
            file_len_bytes,
            buffer: Vec::new(),
            buffer_first: 0,
        }
    }

    /// The unit at a queue offset; `None` where no file has one.
    pub(super) fn unit<D: Disk>(&mut self, disk: &D, index: u64) -> Result<Option<Unit>> {
        if let Some(unit) = self.buffered(index) {
            return Ok(unit.is_present().then_some(unit));
        }
        let position = index * QUEUE_UNIT_BYTES;
        let base = position - position % self.file_len_bytes;
        let Some((_, path)) = self.queue.files.iter().find(|(at, _)| *at == base) else {
            return Ok(None);
        };
        let in_file = position - base;
        let len = (UNITS_PER_READ * QUEUE_UNIT_BYTES).min(self.file_len_bytes - in_file);
        self.buffer.resize(len as usize, 0);
        let got = disk
            .open(path, Open::Read)?
            .read_at(&mut self.buffer, in_file)?;
        self.buffer.truncate(got);
        self.buffer_first = index;
        Ok(self.buffered(index).filter(Unit::is_present))
    }

    fn buffered(&self, index: u64) -> Option<Unit> {
        let at = usize::try_from(index.checked_sub(self.buffer_first)?).ok()? * UNIT_LEN;
        let bytes = self.buffer.get(at..at + UNIT_LEN)?;
        Some(Unit::decode(bytes.first_chunk()?))
    }

    /// Queue offset behind the last present unit of a file of `[first, last)`: units of a file are
    /// a prefix of it.
    fn end_in<D: Disk>(&mut self, disk: &D, first: u64, last: u64) -> Result<u64> {
        let (mut low, mut high) = (first, last);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.unit(disk, middle)?.is_some() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

impl<D: Disk> Inspection<D> {
    /// Every queue, by topic and queue id. Names that no queue has are passed over.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn queue_files(&self) -> Result<Vec<QueueFiles>> {
        let dir = self.root.join("consumequeue");
        let mut out = Vec::new();
        for topic in self
            .disk
            .list(&dir)?
            .into_iter()
            .filter(|entry| entry.is_dir)
        {
            let topic_dir = dir.join(&topic.name);
            for queue in self
                .disk
                .list(&topic_dir)?
                .into_iter()
                .filter(|entry| entry.is_dir)
            {
                let Ok(queue_id) = queue.name.parse::<i32>() else {
                    continue;
                };
                let files = files_of(&self.disk, &topic_dir.join(&queue.name))?;
                let len = self.config.queue_file_len_bytes;
                out.push(bounded(
                    &self.disk,
                    len,
                    topic.name.clone(),
                    queue_id,
                    files,
                )?);
            }
        }
        out.sort_by(|a, b| (&a.topic, a.queue_id).cmp(&(&b.topic, b.queue_id)));
        Ok(out)
    }

    /// Every queue with its bounds, batch queues among them: the minimum is the first unit of a record that
    /// the log has.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn queues(&self) -> Result<Vec<QueueReport>> {
        let log_start = self.chain.start().cast_signed();
        let mut out = Vec::new();
        for queue in self.queue_files()? {
            let mut reader = UnitReader::new(queue, self.config.queue_file_len_bytes);
            let (mut low, mut high) = (reader.queue.first, reader.queue.end);
            // Places only rise in a queue, so the first one the log still has is found by halving.
            while low < high {
                let middle = low + (high - low) / 2;
                let unit = reader.unit(&self.disk, middle)?;
                let is_kept =
                    unit.is_some_and(|unit| !unit.is_blank() && unit.physical_offset >= log_start);
                if is_kept {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            let first = reader
                .unit(&self.disk, low)?
                .filter(|_| low < reader.queue.end);
            let QueueFiles {
                topic,
                queue_id,
                files,
                end,
                ..
            } = reader.queue;
            out.push(QueueReport {
                topic,
                queue_id,
                min_offset: low,
                min_physical_offset: first.map(|unit| unit.physical_offset.cast_unsigned()),
                max_offset: end,
                files: files.len(),
            });
        }
        out.extend(batch_reports(self)?);
        out.sort_by(|a, b| (&a.topic, a.queue_id).cmp(&(&b.topic, b.queue_id)));
        Ok(out)
    }
}

/// The files of a queue that have units.
fn files_of<D: Disk>(disk: &D, dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let entries = disk.list(dir)?;
    let files = entries
        .into_iter()
        .filter(|entry| !entry.is_dir && entry.len_bytes > 0);
    Ok(files
        .filter_map(|entry| Some((parse_offset_file_name(&entry.name)?, dir.join(&entry.name))))
        .collect())
}

/// A queue with where its files begin and its units end.
fn bounded<D: Disk>(
    disk: &D,
    len: u64,
    topic: String,
    queue_id: i32,
    files: Vec<(u64, PathBuf)>,
) -> Result<QueueFiles> {
    let first = files.first().map_or(0, |(base, _)| base / QUEUE_UNIT_BYTES);
    let queue = QueueFiles {
        topic,
        queue_id,
        files,
        first,
        end: first,
    };
    let mut reader = UnitReader::new(queue, len);
    let bases: Vec<u64> = reader.queue.files.iter().map(|(base, _)| *base).collect();
    for base in bases.into_iter().rev() {
        let from = base / QUEUE_UNIT_BYTES;
        let end = reader.end_in(disk, from, from + len / QUEUE_UNIT_BYTES)?;
        if end > from {
            reader.queue.end = end;
            break;
        }
    }
    Ok(reader.queue)
}
