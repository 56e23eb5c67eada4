//! Pieces of a log, or answers of a broker, into batches of columns: walk, filter and rows together.
#![deny(clippy::indexing_slicing)]

use std::borrow::Cow;

use mqcore_record::inner_batch::unwrapped;
use mqcore_record::{CrcCheck, Found, RecordError, RecordView, check};
use thiserror::Error;

use crate::buffers::Batch;
use crate::column::Column;
use crate::filter::{Filter, Gate};
use crate::rows::{Rows, body_of};
use crate::walk::{Damage, Span, Step, Walk};

/// Largest bound of a batch's texts: what the 32-bit offsets of Arrow's plain text can address, less
/// the row that passes the bound, and a third of that, since three bytes replace one that is no UTF-8.
pub const BATCH_BYTES_MAX: usize = 512 << 20;
/// Largest bound of an inflated body, which passes the bound of a batch as a whole.
pub const INFLATED_BYTES_MAX: usize = 512 << 20;

/// Most bytes of an answer whose batches were taken apart, where each message repeats the head of
/// its batch: four times the longest frame. Beyond, some bytes were made to blow up a reader.
const UNWRAPPED_BYTES_MAX: usize = 64 << 20;

/// What is done about a place where records should be and none are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadRecords {
    /// It ends the reading.
    Fail,
    /// It is counted and left out.
    Skip,
    /// It becomes a row: where, and what is wrong.
    Emit,
}

/// The bounds of batches and bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rows of a batch.
    pub batch_rows: usize,
    /// Bytes of texts after which a batch is done; the row that passes them is in it.
    pub batch_bytes: usize,
    /// Bytes of an inflated body.
    pub inflated_bytes: usize,
}

/// What was seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Whole records, wanted or not.
    pub records: u64,
    /// Damaged places that were left out.
    pub skipped: u64,
    /// Bytes of these places.
    pub skipped_bytes: u64,
}

/// Why no more is read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScanError {
    /// Damage, and it was to end the reading.
    #[error("no whole record at {at}, {len} bytes: {why}", at = .0.at,
        len = .0.end.saturating_sub(.0.at), why = .0.why)]
    Damaged(Damage),
}

/// Records to columns.
pub struct RecordColumns {
    walk: Walk,
    gatherer: Gatherer,
}

/// What happens with a record once it is found.
struct Gatherer {
    gate: Gate,
    rows: Rows,
    limits: Limits,
    bad: BadRecords,
    tally: Tally,
}

impl RecordColumns {
    /// A reading of one part of one file, or of answers, that has seen nothing.
    #[must_use]
    pub fn new(
        columns: &[Column],
        filter: Filter,
        broker_name: Option<Vec<u8>>,
        limits: Limits,
        bad: BadRecords,
        (span, crc): (Span, CrcCheck),
    ) -> Self {
        let limits = Limits {
            batch_rows: limits.batch_rows.max(1),
            batch_bytes: limits.batch_bytes.min(BATCH_BYTES_MAX),
            inflated_bytes: limits.inflated_bytes.min(INFLATED_BYTES_MAX),
        };
        let (rows, inflated) = (limits.batch_rows, limits.inflated_bytes);
        Self {
            walk: Walk::new(span, crc),
            gatherer: Gatherer {
                gate: Gate::new(filter),
                rows: Rows::new(columns, broker_name, rows, inflated),
                limits,
                bad,
                tally: Tally::default(),
            },
        }
    }

    /// Takes the next piece of the log; `out` gets the batches that are full.
    ///
    /// # Errors
    /// [`ScanError::Damaged`] where damage is to fail; nothing more can be read then.
    pub fn feed(&mut self, piece: &[u8], out: &mut Vec<Batch>) -> Result<(), ScanError> {
        let Self { walk, gatherer } = self;
        walk.feed(piece, |step| gatherer.take(step, out))
    }

    /// Takes the body of an answer: whole records one behind the other, wherever they stand in a log.
    /// Batches that are one record are taken apart, as a client does; a log is given as it is.
    ///
    /// # Errors
    /// [`ScanError::Damaged`] where damage is to fail: its place is a byte of the answer.
    pub fn answer(&mut self, body: &[u8], out: &mut Vec<Batch>) -> Result<(), ScanError> {
        let inflated = self.gatherer.limits.inflated_bytes;
        let apart = unwrapped(body, UNWRAPPED_BYTES_MAX, |batch| {
            body_of(batch, inflated).ok().map(Cow::into_owned)
        });
        let body = apart.as_ref().map_or(body, |apart| &apart.bytes);
        let mut at = 0;
        while let Some(rest) = body.get(at..).filter(|rest| !rest.is_empty()) {
            let (len, step) = match check(rest, CrcCheck::Verify) {
                Ok(Found::Record(record)) => (record.total_len_bytes, Step::Record(record)),
                Ok(Found::Blank { len_bytes }) => {
                    at += len_bytes;
                    continue;
                }
                Err(error) => {
                    // Behind a foreign body the answer goes on, behind anything else nobody knows.
                    let len = match (&error, mqcore_record::peek_total_len(rest)) {
                        (RecordError::CrcMismatch { .. }, Some(len)) => len,
                        _ => rest.len(),
                    };
                    let (start, end) = (at as u64, (at + len) as u64);
                    let why = error.to_string();
                    let at = start;
                    (len, Step::Damage(Damage { at, end, why }))
                }
            };
            at += len;
            self.gatherer.take(step, out)?;
        }
        Ok(())
    }

    /// Ends the reading; `out` gets what is left.
    ///
    /// # Errors
    /// As [`RecordColumns::feed`].
    pub fn finish(&mut self, out: &mut Vec<Batch>) -> Result<(), ScanError> {
        let Self { walk, gatherer } = self;
        walk.finish(|step| gatherer.take(step, out))?;
        self.flush(out);
        Ok(())
    }

    /// Gives the rows that wait for a full batch.
    pub fn flush(&mut self, out: &mut Vec<Batch>) {
        if self.gatherer.rows.len() > 0 {
            out.push(self.gatherer.rows.take());
        }
    }

    /// The walk: its position.
    #[must_use]
    pub fn walk(&self) -> &Walk {
        &self.walk
    }

    /// What was seen so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.gatherer.tally
    }
}

impl Gatherer {
    #[inline]
    fn take(&mut self, step: Step<'_>, out: &mut Vec<Batch>) -> Result<(), ScanError> {
        match step {
            Step::Record(record) => {
                self.tally.records += 1;
                if self.gate.passes(&record) {
                    self.add(&record, out)?;
                }
                Ok(())
            }
            Step::Damage(damage) => self.damage(damage, out),
        }
    }

    #[inline]
    fn add(&mut self, record: &RecordView<'_>, out: &mut Vec<Batch>) -> Result<(), ScanError> {
        if let Err(why) = self.rows.push(record) {
            let at = record.physical_offset.cast_unsigned();
            let end = at.saturating_add(record.total_len_bytes as u64);
            return self.damage(Damage { at, end, why }, out);
        }
        self.cut(out);
        Ok(())
    }

    #[inline]
    fn cut(&mut self, out: &mut Vec<Batch>) {
        let is_full = self.rows.len() >= self.limits.batch_rows
            || self.rows.has_text_bytes(self.limits.batch_bytes);
        if is_full {
            out.push(self.rows.take());
        }
    }

    #[cold]
    fn damage(&mut self, damage: Damage, out: &mut Vec<Batch>) -> Result<(), ScanError> {
        let len_bytes = damage.end.saturating_sub(damage.at);
        match self.bad {
            BadRecords::Fail => return Err(ScanError::Damaged(damage)),
            BadRecords::Skip => {
                self.tally.skipped += 1;
                self.tally.skipped_bytes += len_bytes;
            }
            BadRecords::Emit => {
                let why = format!("{len_bytes} bytes: {}", damage.why);
                self.rows.push_damage(damage.at, &why);
                self.cut(out);
            }
        }
        Ok(())
    }
}
