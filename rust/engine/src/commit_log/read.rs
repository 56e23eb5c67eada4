//! Reading records by physical offset. Inside the hot window a record is a slice of the map; below it
//! it is read through the file, from the page cache where that has it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mqcore_record::{CrcCheck, Found, RecordView, check};

use super::ahead::ReadAhead;
use super::together::{Spares, TOGETHER_BYTES, Together};
use crate::disk::{Disk, DiskFile, Piece, Region, SharedRegion};
use crate::error::{Error, Result};
use crate::lock::Mutex;
use crate::mmap::Use;
use crate::segment::{LogFiles, LogSlice};

/// A record's bytes, good as long as they are held.
#[derive(Debug)]
pub struct RecordBytes<D: Disk> {
    /// Where the record starts in the log.
    pub physical_offset: u64,
    bytes: LogSlice<D>,
}

impl<D: Disk> RecordBytes<D> {
    /// The bytes of the whole record.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_bytes()
    }

    /// Whether the bytes were copied out of the file.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        self.bytes.is_copy()
    }

    /// The record.
    ///
    /// # Errors
    /// [`Error::NoRecord`] when the bytes are no record, or fail the CRC where that is asked for.
    pub fn view(&self, crc: CrcCheck) -> Result<RecordView<'_>> {
        let none = |why: String| Error::NoRecord {
            physical_offset: self.physical_offset,
            why,
        };
        match check(self.as_bytes(), crc) {
            Ok(Found::Record(record)) => Ok(record),
            Ok(Found::Blank { .. }) => Err(none("the blank end of a file".to_owned())),
            Err(error) => Err(none(error.to_string())),
        }
    }
}

/// Reads several records of one answer: what they share is looked up once.
pub struct LogReader<'a, D: Disk> {
    log: &'a LogRecords<D>,
    start: u64,
    readable: u64,
    /// The map that the record before was in, with the bytes of the log that it holds.
    hot: Option<(Range<u64>, SharedRegion<D>)>,
    /// What was read together with a record before.
    cold: Together,
}

impl<D: Disk> LogReader<'_, D> {
    /// As [`LogRecords::record`]. `behind` are records that are wanted next, by offset and length:
    /// below the hot window they are read together with this one.
    ///
    /// # Errors
    /// As [`LogRecords::record`].
    ///
    /// # Blocking
    /// As [`LogRecords::record`].
    #[inline]
    pub fn record(
        &mut self,
        physical_offset: u64,
        len: usize,
        behind: impl Iterator<Item = (u64, usize)>,
    ) -> Result<RecordBytes<D>> {
        let end = physical_offset.saturating_add(len as u64);
        if physical_offset < self.start || end > self.readable {
            return Err(out_of_bounds(physical_offset, self.start, self.readable));
        }
        if let Some((range, region)) = &self.hot
            && range.contains(&physical_offset)
            && end <= range.end
        {
            // A record below the readable end is published.
            let position = physical_offset - range.start;
            let region = Arc::clone(region);
            let bytes = LogSlice::Mapped {
                region,
                position,
                len,
            };
            return Ok(RecordBytes {
                physical_offset,
                bytes,
            });
        }
        let cold = match self.cold.take(physical_offset, len) {
            None => self.read_together(physical_offset, len, behind)?,
            taken => taken,
        };
        if let Some(bytes) = cold {
            return Ok(RecordBytes {
                physical_offset,
                bytes,
            });
        }
        let record = self.log.record(physical_offset, len)?;
        if let LogSlice::Mapped {
            region, position, ..
        } = &record.bytes
        {
            let base = physical_offset - position;
            self.hot = Some((base..base + region.published(), Arc::clone(region)));
        }
        Ok(record)
    }

    /// Reads a record and those behind it that lie in the same file; `None` where it is hot, or
    /// alone.
    fn read_together(
        &mut self,
        physical_offset: u64,
        len: usize,
        behind: impl Iterator<Item = (u64, usize)>,
    ) -> Result<Option<LogSlice<D>>> {
        let Some(segment) = self.log.files.chain.find(physical_offset) else {
            return Ok(None);
        };
        let readable = segment.base()..segment.end().min(self.readable);
        let is_inside = |&(physical_offset, len): &(u64, usize)| {
            readable.contains(&physical_offset) && physical_offset + len as u64 <= readable.end
        };
        if segment.region().is_some() || !is_inside(&(physical_offset, len)) {
            return Ok(None);
        }
        let mut space = TOGETHER_BYTES.saturating_sub(len);
        let has_space = |&(_, len): &(u64, usize)| {
            let is_short = len <= space;
            space = space.saturating_sub(len);
            is_short
        };
        let wanted: Vec<(u64, usize)> = std::iter::once((physical_offset, len))
            .chain(behind.take_while(is_inside).take_while(has_space))
            .collect();
        if wanted.len() == 1 {
            return Ok(None);
        }
        let piece = |&(physical_offset, len): &(u64, usize)| Piece {
            position: physical_offset - readable.start,
            len,
        };
        let pieces: Vec<Piece> = wanted.iter().map(piece).collect();
        let mut buffer = Spares::take(&self.log.spares);
        segment.file().read_pieces(&pieces, buffer.bytes())?;
        let end = pieces.last().map_or(0, Piece::end) + readable.start;
        self.log
            .fetch_ahead(physical_offset, end.saturating_sub(physical_offset));
        self.cold = Together::new(Arc::new(buffer), wanted);
        Ok(self.cold.take(physical_offset, len))
    }

    /// First physical offset that is kept.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }
}

fn out_of_bounds(physical_offset: u64, start: u64, readable: u64) -> Error {
    let why = format!("the log is readable from {start} to {readable}");
    Error::NoRecord {
        physical_offset,
        why,
    }
}

/// The records of a log, for who reads them.
pub struct LogRecords<D: Disk> {
    files: Arc<LogFiles<D>>,
    ahead: Mutex<ReadAhead>,
    /// `dataReadAheadEnable`.
    reads_ahead: AtomicBool,
    spares: Arc<Spares>,
}

impl<D: Disk> LogRecords<D> {
    /// The records of `files`.
    #[must_use]
    pub fn new(files: &Arc<LogFiles<D>>) -> Self {
        Self {
            files: Arc::clone(files),
            ahead: Mutex::new(ReadAhead::default()),
            reads_ahead: AtomicBool::new(true),
            spares: Arc::default(),
        }
    }

    /// Whether what a cold reader that reads on will want next is asked for.
    pub fn read_ahead(&self, is_on: bool) {
        self.reads_ahead.store(is_on, Ordering::Relaxed);
    }

    /// A reader of several records.
    #[must_use]
    pub fn reader(&self) -> LogReader<'_, D> {
        let files = &self.files;
        LogReader {
            log: self,
            start: files.chain.start(),
            readable: files.readable(),
            hot: None,
            cold: Together::none(),
        }
    }

    /// The record at `physical_offset` of `len` bytes, as a queue unit names it.
    ///
    /// # Errors
    /// [`Error::NoRecord`] when the offset is not readable (below the oldest file, beyond the end),
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// Below the hot window: for the disk, when the page cache has not the bytes.
    pub fn record(&self, physical_offset: u64, len: usize) -> Result<RecordBytes<D>> {
        self.check_readable(physical_offset, len)?;
        let bytes = self.files.chain.bytes(physical_offset, len)?;
        if bytes.is_copy() {
            self.fetch_ahead(physical_offset, len as u64);
        }
        Ok(RecordBytes {
            physical_offset,
            bytes,
        })
    }

    /// Like [`LogRecords::record`] without ever waiting for a disk: `None` when it would have to.
    ///
    /// # Errors
    /// As [`LogRecords::record`].
    pub fn record_now(&self, physical_offset: u64, len: usize) -> Result<Option<RecordBytes<D>>> {
        self.check_readable(physical_offset, len)?;
        let Some(segment) = self.files.chain.find(physical_offset) else {
            return Ok(None);
        };
        let position = physical_offset - segment.base();
        let bytes = match segment.mapped(position, len) {
            Some(bytes) => bytes,
            None => {
                let mut bytes = vec![0; len];
                match segment.file().read_cached_at(&mut bytes, position)? {
                    Some(got) if got == len => {
                        self.fetch_ahead(physical_offset, len as u64);
                        LogSlice::Owned(bytes)
                    }
                    _ => return Ok(None),
                }
            }
        };
        Ok(Some(RecordBytes {
            physical_offset,
            bytes,
        }))
    }

    /// The record that starts at `physical_offset`, whatever its length.
    ///
    /// # Errors
    /// [`Error::NoRecord`] when no whole record with this offset in it starts there.
    ///
    /// # Blocking
    /// As [`LogRecords::record`].
    pub fn record_at(&self, physical_offset: u64) -> Result<RecordBytes<D>> {
        let head = self.record(physical_offset, 4)?;
        let claimed: [u8; 4] = head.as_bytes().try_into().unwrap_or_default();
        let none = |why: &str| Error::NoRecord {
            physical_offset,
            why: why.to_owned(),
        };
        let len = usize::try_from(i32::from_be_bytes(claimed))
            .ok()
            .filter(|len| *len > 8)
            .ok_or_else(|| none("no record starts there"))?;
        let record = self.record(physical_offset, len)?;
        if record
            .view(CrcCheck::Verify)?
            .physical_offset
            .cast_unsigned()
            != physical_offset
        {
            return Err(none("the record there names another place"));
        }
        Ok(record)
    }

    /// Asks for what a cold reader that reads on will want next; does not wait for it.
    fn fetch_ahead(&self, physical_offset: u64, len: u64) {
        if !self.reads_ahead.load(Ordering::Relaxed) {
            return;
        }
        let Some(range) = self.ahead.lock().on_read(physical_offset, len) else {
            return;
        };
        let Some(segment) = self.files.chain.find(range.start) else {
            return;
        };
        let end = range.end.min(segment.end());
        let position = range.start - segment.base();
        segment
            .file()
            .advise(Some(Use::WillNeed), position, end - range.start);
    }

    /// Gives back what reads below the hot window keep for the next ones.
    pub fn rest(&self) {
        self.spares.clear();
    }

    fn check_readable(&self, physical_offset: u64, len: usize) -> Result<()> {
        let files = &self.files;
        let (start, readable) = (files.chain.start(), files.readable());
        let end = physical_offset.checked_add(len as u64);
        if physical_offset < start || end.is_none_or(|end| end > readable) {
            return Err(out_of_bounds(physical_offset, start, readable));
        }
        Ok(())
    }
}
