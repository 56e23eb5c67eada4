//! Pieces of a log to records, wherever the pieces are cut and wherever the walk begins.
//!
//! The log has no marks between records, but each record holds its own physical offset: from any
//! byte the next record is found by its magic, whole fields, and a stored offset equal to its own.
//! So a file is read by several readers, each taking the records that begin in its range, and behind
//! damage the walk goes on. Damage belongs to who read the record before it: a walk ends only where
//! the next record is found, or a file begins. Knows no column; keeps at most one record
//! that is not whole yet.
#![deny(clippy::indexing_slicing)]

use mqcore_record::layout::{
    BLANK_LEN_BYTES, BODY_LEN_AT, HEAD_LEN_MAX, HOST_V6_EXTRA_BYTES, MAGIC_AT, MAGIC_BLANK,
    MAGIC_V1, PHYSICAL_OFFSET_AT, RECORD_LEN_BEYOND_BODY, SYS_FLAG_AT,
};
use mqcore_record::sys_flag::{BORN_HOST_V6, STORE_HOST_V6};
use mqcore_record::{CrcCheck, Found, RecordError, RecordView, check, head, peek_total_len};

/// What both magics of records begin with.
const MAGIC_LEAD: [u8; 3] = {
    let [a, b, c, _] = MAGIC_V1.to_be_bytes();
    [a, b, c]
};
/// Bytes of a record up to the end of its magic.
const THROUGH_MAGIC: usize = MAGIC_AT + 4;
/// Bytes of a record up to the end of its physical offset.
const THROUGH_PHYSICAL_OFFSET: usize = PHYSICAL_OFFSET_AT + 8;
/// Bytes looked at in one step of the search: the compiler compares them side by side.
const SEARCH_BYTES: usize = 64;

/// The part of a file that one walk takes: physical offsets, bytes of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Where it begins.
    pub start: u64,
    /// Records that begin here or behind are another's; the walk looks at the first of them.
    pub end: u64,
    /// Where the file ends, or what is to be read of it: no record reaches beyond.
    pub limit: u64,
    /// Whether `start` may lie inside a record, which then is another's.
    pub is_inside: bool,
    /// Whether the log ends in this file: what is no record at its end is no damage then.
    pub is_log_end: bool,
}

/// A stretch where records should be and none are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins: bytes of the log.
    pub at: u64,
    /// Where the next record begins, or the file ends.
    pub end: u64,
    /// What is wrong.
    pub why: String,
}

/// What a walk comes upon.
#[derive(Debug)]
pub enum Step<'a> {
    /// A whole record.
    Record(RecordView<'a>),
    /// A damaged stretch.
    Damage(Damage),
}

#[derive(Debug)]
enum State {
    /// At the first byte of a record.
    Reading,
    /// Looking for the next record; where damage began and what it is, nothing at the start.
    Seeking(Option<(u64, String)>),
    /// Behind the last record.
    Done,
}

/// What is found where a record is expected.
enum There<'a> {
    Record(RecordView<'a>),
    /// The end of the file.
    Blank,
    /// That many bytes from here on are needed to decide.
    Needs(usize),
    /// A record with a foreign body, of that length.
    BadBody(usize, String),
    /// No record.
    Bad(String),
}

/// A walk over one part of one file.
#[derive(Debug)]
pub struct Walk {
    span: Span,
    crc: CrcCheck,
    state: State,
    /// What came and is not whole yet, from `position` on.
    pending: Vec<u8>,
    position: u64,
    /// Bytes from `position` on that would bring the walk on.
    needs: usize,
    good_end: u64,
}

impl Walk {
    /// A walk that has seen nothing.
    #[must_use]
    pub fn new(span: Span, crc: CrcCheck) -> Self {
        let state = if span.is_inside {
            State::Seeking(None)
        } else {
            State::Reading
        };
        Self {
            span,
            crc,
            state,
            pending: Vec::new(),
            position: span.start,
            needs: HEAD_LEN_MAX,
            good_end: span.start,
        }
    }

    /// Physical offset of the next byte that `feed` takes.
    #[must_use]
    pub fn next_position(&self) -> u64 {
        self.position + self.pending.len() as u64
    }

    /// Whether nothing that comes would be looked at.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Physical offset behind the last whole record, or where the walk began.
    #[must_use]
    pub fn good_end(&self) -> u64 {
        self.good_end
    }

    /// Takes the next piece and calls `on` with what is in it, in order.
    ///
    /// # Errors
    /// What `on` returns; the walk must not be used further then.
    pub fn feed<E>(
        &mut self,
        piece: &[u8],
        mut on: impl FnMut(Step<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = piece;
        while !self.pending.is_empty() && !rest.is_empty() && !self.is_done() {
            let missing = self.needs.saturating_sub(self.pending.len()).max(1);
            let (more, later) = rest.split_at(missing.min(rest.len()));
            let mut joined = std::mem::take(&mut self.pending);
            joined.extend_from_slice(more);
            let taken = self.advance(&joined, false, &mut on)?;
            let left = joined.len() - taken;
            if let Some(before) = more.len().checked_sub(left) {
                // What is left came with this piece: it is looked at where it lies.
                rest = rest.get(before..).unwrap_or_default();
            } else {
                joined.drain(..taken);
                self.pending = joined;
                rest = later;
            }
        }
        if self.is_done() {
            self.pending.clear();
            return Ok(());
        }
        if !rest.is_empty() {
            let taken = self.advance(rest, false, &mut on)?;
            self.pending
                .extend_from_slice(rest.get(taken..).unwrap_or_default());
        }
        Ok(())
    }

    /// Ends the walk: nothing comes any more.
    ///
    /// # Errors
    /// What `on` returns.
    pub fn finish<E>(&mut self, mut on: impl FnMut(Step<'_>) -> Result<(), E>) -> Result<(), E> {
        let pending = std::mem::take(&mut self.pending);
        self.advance(&pending, true, &mut on)?;
        let state = std::mem::replace(&mut self.state, State::Done);
        if let State::Seeking(Some((at, why))) = state
            && !self.span.is_log_end
        {
            let end = self.position;
            on(Step::Damage(Damage { at, end, why }))?;
        }
        Ok(())
    }

    /// Goes as far as `bytes`, which begin at `position`, allow; gives how many are done with.
    fn advance<E>(
        &mut self,
        bytes: &[u8],
        is_end: bool,
        on: &mut impl FnMut(Step<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let start = self.position;
        let mut at = 0;
        loop {
            let physical_offset = start + at as u64;
            let rest = bytes.get(at..).unwrap_or_default();
            match &mut self.state {
                State::Done => at = bytes.len(),
                State::Reading => {
                    let is_others = physical_offset >= self.span.end;
                    match self.there(rest, physical_offset, is_others, is_end) {
                        There::Record(record) if !is_others => {
                            at += record.total_len_bytes;
                            self.good_end = start + at as u64;
                            on(Step::Record(record))?;
                            continue;
                        }
                        There::Record(_) | There::Blank => {
                            self.state = State::Done;
                            continue;
                        }
                        There::Needs(needs) => self.needs = needs,
                        There::BadBody(len, why) => {
                            at += len;
                            let end = start + at as u64;
                            let at = physical_offset;
                            on(Step::Damage(Damage { at, end, why }))?;
                            continue;
                        }
                        There::Bad(why) => {
                            self.state = State::Seeking(Some((physical_offset, why)));
                            at += 1;
                            continue;
                        }
                    }
                }
                State::Seeking(from) => {
                    if from.is_none() && physical_offset >= self.span.end {
                        self.state = State::Done;
                        continue;
                    }
                    match seek(rest, physical_offset, self.span.limit, is_end) {
                        Sought::Record(before) => {
                            at += before;
                            let end = start + at as u64;
                            if let Some((at, why)) = from.take() {
                                on(Step::Damage(Damage { at, end, why }))?;
                            }
                            self.state = State::Reading;
                            continue;
                        }
                        Sought::None { before, needs } => {
                            at += before;
                            self.needs = needs;
                        }
                    }
                }
            }
            self.position = start + at as u64;
            return Ok(at);
        }
    }

    /// What is at a physical offset. Of another's record only that it is there is asked.
    fn there<'a>(
        &self,
        rest: &'a [u8],
        physical_offset: u64,
        is_others: bool,
        is_end: bool,
    ) -> There<'a> {
        let crc = if is_others { CrcCheck::Skip } else { self.crc };
        let left = self.span.limit.saturating_sub(physical_offset);
        let Some((len, magic)) = start_of(rest) else {
            if !is_end {
                return There::Needs(HEAD_LEN_MAX);
            }
            return if rest.is_empty() {
                There::Needs(0)
            } else {
                There::Bad(format!("{} bytes, too few for a record", rest.len()))
            };
        };
        if magic == MAGIC_BLANK {
            return if i64::from(len) >= BLANK_LEN_BYTES as i64 {
                There::Blank
            } else {
                There::Bad(format!("a blank that claims {len} bytes"))
            };
        }
        match check(rest, crc) {
            Ok(Found::Record(record))
                if record.physical_offset.cast_unsigned() != physical_offset =>
            {
                There::Bad(format!(
                    "the record has the physical offset {}",
                    record.physical_offset
                ))
            }
            Ok(Found::Record(record)) => There::Record(record),
            Ok(Found::Blank { .. }) => There::Blank,
            Err(RecordError::Truncated { need, .. }) => {
                if need as u64 > left || !is_plausible(rest) {
                    There::Bad(format!("a record that claims {need} bytes"))
                } else if is_end {
                    There::Bad(format!(
                        "a record of {need} bytes, {} are there",
                        rest.len()
                    ))
                } else {
                    There::Needs(need)
                }
            }
            Err(error @ RecordError::CrcMismatch { .. }) => match head(rest) {
                Ok(Found::Record(record))
                    if record.physical_offset.cast_unsigned() == physical_offset =>
                {
                    There::BadBody(record.total_len_bytes, error.to_string())
                }
                _ => There::Bad(error.to_string()),
            },
            Err(error) => There::Bad(error.to_string()),
        }
    }
}

/// Length and magic.
#[inline]
fn start_of(rest: &[u8]) -> Option<(i32, i32)> {
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let magic = rest.first_chunk::<4>()?;
    Some((i32::from_be_bytes(*len), i32::from_be_bytes(*magic)))
}

fn int_at(rest: &[u8], at: usize) -> Option<i32> {
    let bytes = rest.get(at..)?.first_chunk::<4>()?;
    Some(i32::from_be_bytes(*bytes))
}

/// Whether the length of a record that is not all there agrees with that of its body, so that
/// nobody waits for a length that was damaged. Without the whole head it is not known yet.
fn is_plausible(rest: &[u8]) -> bool {
    let Some(len) = peek_total_len(rest) else {
        return false;
    };
    let Some(head) = rest.get(..HEAD_LEN_MAX) else {
        return true;
    };
    let sys_flag = int_at(head, SYS_FLAG_AT).unwrap_or(0);
    let v6_hosts = [BORN_HOST_V6, STORE_HOST_V6]
        .into_iter()
        .filter(|bit| sys_flag & bit != 0);
    let at = BODY_LEN_AT + v6_hosts.count() * HOST_V6_EXTRA_BYTES;
    let body = int_at(head, at).and_then(|body| usize::try_from(body).ok());
    let beyond_body = body.and_then(|body| len.checked_sub(body));
    beyond_body.is_some_and(|beyond| beyond <= HEAD_LEN_MAX + RECORD_LEN_BEYOND_BODY)
}

enum Sought {
    /// A record begins behind that many bytes.
    Record(usize),
    /// None begins in the first `before` bytes; behind them so many are needed to decide.
    None { before: usize, needs: usize },
}

/// The next record in bytes that begin at `physical_offset`.
fn seek(bytes: &[u8], physical_offset: u64, limit: u64, is_end: bool) -> Sought {
    let mut from = MAGIC_AT;
    while let Some(magic_at) = next_lead(bytes, from) {
        from = magic_at + 1;
        let at = magic_at - MAGIC_AT;
        let rest = bytes.get(at..).unwrap_or_default();
        let here = physical_offset + at as u64;
        if rest.len() < THROUGH_PHYSICAL_OFFSET && !is_end {
            return Sought::None {
                before: at,
                needs: THROUGH_PHYSICAL_OFFSET,
            };
        }
        let stored = rest
            .get(PHYSICAL_OFFSET_AT..)
            .and_then(|rest| rest.first_chunk::<8>());
        if stored.map(|stored| u64::from_be_bytes(*stored)) != Some(here) {
            continue;
        }
        match head(rest) {
            Ok(Found::Record(_)) => return Sought::Record(at),
            Err(RecordError::Truncated { need, .. })
                if !is_end && here + need as u64 <= limit && is_plausible(rest) =>
            {
                return Sought::None {
                    before: at,
                    needs: need,
                };
            }
            _ => {}
        }
    }
    let keeps = if is_end { 0 } else { THROUGH_MAGIC - 1 };
    Sought::None {
        before: bytes.len().saturating_sub(keeps),
        needs: THROUGH_PHYSICAL_OFFSET,
    }
}

/// Where the next magic begins, at `from` or behind.
fn next_lead(bytes: &[u8], from: usize) -> Option<usize> {
    let [lead, ..] = MAGIC_LEAD;
    let mut at = from;
    loop {
        let rest = bytes.get(at..)?;
        if rest.len() < MAGIC_LEAD.len() + 1 {
            return None;
        }
        let step = rest.get(..SEARCH_BYTES).unwrap_or(rest);
        // No early exit inside a step, so that it becomes a comparison of many bytes at once.
        let has_lead = step
            .iter()
            .fold(false, |found, byte| found | (*byte == lead));
        if has_lead {
            let mut starts = step.iter().enumerate().filter(|(_, byte)| **byte == lead);
            let whole = |at: usize| {
                rest.get(at..)
                    .is_some_and(|rest| rest.starts_with(&MAGIC_LEAD))
            };
            if let Some((start, _)) = starts.find(|(start, _)| whole(*start)) {
                return Some(at + start);
            }
        }
        at += step.len();
    }
}
