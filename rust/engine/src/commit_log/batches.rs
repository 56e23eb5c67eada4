//! Walking the log in batches that are handed out: the bytes of many records at once, with the place
//! of each. For readers who want everything in log order. Changes nothing.

use mqcore_record::{CrcCheck, Found, RecordError, RecordView, check};

use crate::commit_log::Stop;
use crate::disk::Disk;
use crate::error::Result;
use crate::segment::{Chain, LogSlice, SharedBytes};

/// A record or a blank marker of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Its first byte in the batch.
    pub start: u32,
    /// Its length; a blank goes to the end of its file, also beyond the batch.
    pub len_bytes: u32,
    /// Whether it is the marker of a file's end.
    pub is_blank: bool,
}

/// Records that lie side by side in one file.
pub struct LogBatch<D: Disk> {
    /// Physical offset of the first byte.
    pub start: u64,
    /// The bytes of all of them.
    pub bytes: LogSlice<D>,
    /// Where each lies.
    pub placed: Vec<Placed>,
}

impl<D: Disk> LogBatch<D> {
    /// Records that lie side by side in `bytes`, as the answer to a pull brings them: less than
    /// 4 GiB. Their CRC is checked.
    ///
    /// # Errors
    /// Where the first byte lies that begins no whole record, and why.
    pub fn of_bytes(bytes: SharedBytes) -> std::result::Result<Self, (usize, RecordError)> {
        let len = (*bytes).as_ref().len();
        let (placed, bad) = walk((*bytes).as_ref(), len as u64, CrcCheck::Verify);
        if let Some(error) = bad {
            let at = placed
                .last()
                .map_or(0, |last| last.start as usize + last.len_bytes as usize);
            return Err((at, error));
        }
        Ok(Self {
            start: 0,
            bytes: LogSlice::Shared {
                buffer: bytes,
                range: 0..len,
            },
            placed,
        })
    }

    /// The bytes of one record.
    #[must_use]
    pub fn record_bytes(&self, placed: Placed) -> &[u8] {
        let start = placed.start as usize;
        self.bytes
            .as_bytes()
            .get(start..start + placed.len_bytes as usize)
            .unwrap_or_default()
    }

    /// One record; `None` for a blank.
    #[must_use]
    pub fn view(&self, placed: Placed) -> Option<RecordView<'_>> {
        match check(self.record_bytes(placed), CrcCheck::Skip) {
            Ok(Found::Record(record)) => Some(record),
            _ => None,
        }
    }

    /// Physical offset of a record.
    #[must_use]
    pub fn physical_offset(&self, placed: Placed) -> u64 {
        self.start + u64::from(placed.start)
    }
}

/// A walk through the log, batch by batch.
#[derive(Debug, Clone)]
pub struct LogBatches {
    at: u64,
    limit: u64,
    crc: CrcCheck,
    chunk_len: usize,
    gives_back: bool,
    stop: Option<Stop>,
}

impl LogBatches {
    /// A walk from a record's first byte to `limit`, some `chunk_len` bytes at a time. With
    /// `gives_back` pages that were read through the file leave the page cache behind the walk.
    #[must_use]
    pub fn new(from: u64, limit: u64, crc: CrcCheck, chunk_len: usize, gives_back: bool) -> Self {
        Self {
            at: from,
            limit,
            crc,
            chunk_len: chunk_len.max(1),
            gives_back,
            stop: None,
        }
    }

    /// Physical offset where the walk goes on.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Why the walk ended, once it has.
    #[must_use]
    pub fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    /// Lets the walk go on to a farther limit: for a log that grows.
    pub fn extend(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
        self.stop = None;
    }

    /// The next batch that holds at least one record or blank; `None` at the end.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk where there is no map.
    pub fn step<D: Disk>(&mut self, chain: &Chain<D>) -> Result<Option<LogBatch<D>>> {
        let mut want = self.chunk_len;
        while self.stop.is_none() {
            let Some(chunk) = chain.chunk(self.at, self.limit, want)? else {
                self.stop = Some(Stop::End);
                break;
            };
            let bytes = chunk.bytes.as_bytes();
            let chunk_end = chunk.start + bytes.len() as u64;
            let is_cut = chunk_end < chunk.segment_end && chunk_end < self.limit;
            let (placed, bad) = walk(bytes, chunk.segment_end - chunk.start, self.crc);
            let walked = placed
                .last()
                .map_or(0, |last| u64::from(last.start) + u64::from(last.len_bytes));
            match bad {
                // The record goes on behind the chunk: the next look starts at it.
                Some(RecordError::Truncated { need, .. }) if is_cut && placed.is_empty() => {
                    want = need.max(want.saturating_mul(2));
                    continue;
                }
                Some(RecordError::Truncated { .. }) if is_cut => {}
                Some(error) => self.stop = Some(Stop::BadRecord(error)),
                None => {}
            }
            self.at = chunk.start + walked;
            if self.gives_back && chunk.bytes.is_copy() {
                chain.forget(chunk.start, self.at);
            }
            if !placed.is_empty() {
                return Ok(Some(LogBatch {
                    start: chunk.start,
                    bytes: chunk.bytes,
                    placed,
                }));
            }
        }
        Ok(None)
    }
}

/// The records at the front of `bytes`, and what ended them before the end of `bytes`.
fn walk(bytes: &[u8], to_segment_end: u64, crc: CrcCheck) -> (Vec<Placed>, Option<RecordError>) {
    let mut placed = Vec::new();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        // A file is shorter than 2 GiB, so positions in it fit.
        let start = at as u32;
        match check(rest, crc) {
            Ok(Found::Record(record)) => {
                let len_bytes = record.total_len_bytes as u32;
                placed.push(Placed {
                    start,
                    len_bytes,
                    is_blank: false,
                });
                at += record.total_len_bytes;
            }
            Ok(Found::Blank { .. }) => {
                let len_bytes = (to_segment_end - at as u64) as u32;
                placed.push(Placed {
                    start,
                    len_bytes,
                    is_blank: true,
                });
                return (placed, None);
            }
            Err(error) => return (placed, Some(error)),
        }
    }
    (placed, None)
}
