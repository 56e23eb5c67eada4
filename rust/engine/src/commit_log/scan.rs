//! Walking the log record by record, and finding its end after a crash: a function of file contents
//! (`CommitLog.recoverAbnormally`, `checkMessageAndReturnSize`). Changes nothing.

use mqcore_record::layout::{MAGIC_V1, MAGIC_V2};
use mqcore_record::{CrcCheck, Found, RecordError, RecordView, check, crc_property};

use super::torn_head::{SECTOR_BYTES, is_head_torn};
use crate::disk::Disk;
use crate::error::Result;
use crate::segment::Chain;
use crate::units::{MIB, round_up};

/// Bytes looked at per read where there is no map: big enough for the disk's full rate, small
/// enough to stay in the cache of the processor.
const CHUNK_BYTES: usize = MIB as usize;
/// How far behind a bad record whole ones are looked for. A log file holds at most 2 GiB; damage
/// that hides every record of a whole window this long is indistinguishable from a torn end.
pub(super) const LOOK_AHEAD_BYTES: u64 = 256 * MIB;
/// Longest record that is looked at: any that a configured body allows is shorter.
pub(super) const RECORD_LEN_MAX: usize = 128 * CHUNK_BYTES;

/// Why a walk ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// At the limit, or behind the last file.
    End,
    /// The visitor had enough.
    Visitor,
    /// Something that is no record: zeros behind the end, a torn record, or damage.
    BadRecord(RecordError),
    /// A record whose topic or properties end in a lost sector: the CRC covers the body only.
    TornText,
    /// A record whose head ends in a lost sector; its body came with the next one.
    TornHead,
    /// A whole record whose own offset is another.
    Misplaced {
        /// The physical offset that it names.
        stored: i64,
    },
}

/// Where a walk ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEnd {
    /// Physical offset behind the last good record or blank marker.
    pub end: u64,
    /// Start of the last good record.
    pub last_record: Option<u64>,
    /// Store time of the last good record.
    pub last_store_ms: Option<i64>,
    /// Records seen.
    pub records: u64,
    /// Why it ended.
    pub stop: Stop,
}

/// How a walk looks at records.
#[derive(Debug, Clone, Copy)]
pub struct Scan {
    /// Where it starts: a record's first byte.
    pub from: u64,
    /// Where it ends at the latest.
    pub limit: u64,
    /// Whether bodies are checked against their CRC.
    pub crc: CrcCheck,
    /// Whether the record must be at its own offset, with a text that no power loss has torn: for
    /// recovery.
    pub is_recovery: bool,
    /// Records from here on may have been torn by a power loss; those below are known to have been
    /// written whole, so that zeros in their texts are what a client sent.
    pub torn_from: u64,
    /// Whether each record must carry the right CRC of all its bytes as a property
    /// (`forceVerifyPropCRC`).
    pub has_property_crc: bool,
    /// Give read pages back as the walk goes on, so that it does not push the tail out of memory.
    pub forgets: bool,
}

impl Stop {
    /// What is wrong at the end, in words; `None` where nothing is: the end was reached, or zeros.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        match self {
            Self::End | Self::Visitor | Self::BadRecord(RecordError::BadMagic { magic: 0 }) => None,
            Self::BadRecord(error) => Some(error.to_string()),
            Self::TornText => Some("topic or properties are torn at a sector".to_owned()),
            Self::TornHead => Some("the head is torn at a sector".to_owned()),
            Self::Misplaced { stored } => Some(format!("the record there names place {stored}")),
        }
    }
}

/// Walks records from `scan.from`. The visitor gets each record with its physical offset and returns
/// whether to go on.
///
/// # Errors
/// [`crate::error::Error::Io`], and what the visitor returns.
///
/// # Blocking
/// Reads the disk.
pub fn scan<D: Disk>(
    chain: &Chain<D>,
    scan: Scan,
    mut visit: impl FnMut(&RecordView<'_>, u64) -> Result<bool>,
) -> Result<LogEnd> {
    let mut at = LogEnd {
        end: scan.from,
        last_record: None,
        last_store_ms: None,
        records: 0,
        stop: Stop::End,
    };
    let mut want = CHUNK_BYTES;
    let mut spare = Vec::new();
    while let Some(chunk) = chain.chunk_into(at.end, scan.limit, want, spare)? {
        let bytes = chunk.bytes.as_bytes();
        let chunk_end = chunk.start + bytes.len() as u64;
        let is_cut = chunk_end < chunk.segment_end && chunk_end < scan.limit;
        match walk_chunk(&mut at, &scan, chunk.segment_end, bytes, &mut visit)? {
            Walked::All => want = CHUNK_BYTES,
            Walked::Stopped => {
                at.stop = Stop::Visitor;
                return Ok(at);
            }
            Walked::Bad { needs, .. } if is_cut && needs > (chunk_end - at.end) as usize => {
                // The record goes on behind the chunk: look again with more of it.
                want = needs.max(CHUNK_BYTES);
            }
            Walked::Bad { error, .. } => {
                at.stop = Stop::BadRecord(error);
                return Ok(at);
            }
            Walked::Unfit(stop) => {
                at.stop = stop;
                return Ok(at);
            }
        }
        if scan.forgets && chunk.bytes.is_copy() {
            chain.forget(chunk.start, at.end);
        }
        spare = chunk.bytes.into_spare();
    }
    Ok(at)
}

enum Walked {
    All,
    Stopped,
    Bad { error: RecordError, needs: usize },
    Unfit(Stop),
}

fn walk_chunk(
    at: &mut LogEnd,
    scan: &Scan,
    segment_end: u64,
    bytes: &[u8],
    visit: &mut impl FnMut(&RecordView<'_>, u64) -> Result<bool>,
) -> Result<Walked> {
    let start = at.end;
    loop {
        let Some(rest) = bytes
            .get((at.end - start) as usize..)
            .filter(|rest| !rest.is_empty())
        else {
            return Ok(Walked::All);
        };
        match check(rest, scan.crc) {
            Ok(Found::Record(record)) => {
                if scan.is_recovery && record.physical_offset.cast_unsigned() != at.end {
                    let stored = record.physical_offset;
                    return Ok(Walked::Unfit(Stop::Misplaced { stored }));
                }
                if scan.has_property_crc
                    && let Some(whole) = rest.get(..record.total_len_bytes)
                    && let Err(error) = crc_property::verify(whole, record.properties)
                {
                    return Ok(Walked::Unfit(Stop::BadRecord(error)));
                }
                let may_be_torn = scan.is_recovery && at.end >= scan.torn_from;
                if may_be_torn && is_text_torn(&record, at.end) {
                    return Ok(Walked::Unfit(Stop::TornText));
                }
                if may_be_torn && is_head_torn(&record, rest, at.end) {
                    return Ok(Walked::Unfit(Stop::TornHead));
                }
                let physical_offset = at.end;
                let goes_on = visit(&record, physical_offset)?;
                at.last_record = Some(physical_offset);
                at.last_store_ms = Some(record.store_timestamp_ms);
                at.records += 1;
                at.end = physical_offset + record.total_len_bytes as u64;
                if !goes_on {
                    return Ok(Walked::Stopped);
                }
            }
            Ok(Found::Blank { .. }) => {
                at.end = segment_end;
                return Ok(Walked::All);
            }
            Err(error) => {
                let needs = match &error {
                    RecordError::Truncated { need, .. } => *need,
                    _ => 0,
                };
                return Ok(Walked::Bad { error, needs });
            }
        }
    }
}

/// Whether power loss took a part of the topic or the properties. The CRC covers neither, so a lost
/// sector in them shows only as zeros: up to the end of a sector, from the start of one, or up to
/// the end of the record. Just those bytes are looked at, because elsewhere a zero byte may be what
/// a client sent.
fn is_text_torn(record: &RecordView<'_>, physical_offset: u64) -> bool {
    let end = physical_offset + record.total_len_bytes as u64;
    let properties_at = end - record.properties.len() as u64;
    // Two bytes of length stand between topic and properties.
    let topic_at = properties_at.saturating_sub(2 + record.topic.len() as u64);
    [(topic_at, record.topic), (properties_at, record.properties)]
        .into_iter()
        .any(|(at, text)| {
            let is_zero = |physical_offset: u64| {
                let within = physical_offset
                    .checked_sub(at)
                    .and_then(|within| usize::try_from(within).ok());
                within.and_then(|within| text.get(within)) == Some(&0)
            };
            let text_end = at + text.len() as u64;
            let mut border = round_up(at, SECTOR_BYTES);
            while border <= text_end {
                if is_zero(border.saturating_sub(1)) || is_zero(border) {
                    return true;
                }
                border += SECTOR_BYTES;
            }
            text.last() == Some(&0)
        })
}

/// The first whole record behind `after` whose store time lies in `[not_before_ms, not_after_ms]`:
/// the proof that a bad record before it is damage and not the torn end. A record counts only when
/// its stored offset is where it is and its CRC is good. Old records that a cut log still holds behind
/// its end are older than its last good record, so `not_before_ms` keeps them out.
///
/// # Errors
/// [`crate::error::Error::Io`].
///
/// # Blocking
/// Reads at most 256 MiB from the disk.
pub fn whole_record_after<D: Disk>(
    chain: &Chain<D>,
    after: u64,
    not_before_ms: i64,
    not_after_ms: i64,
) -> Result<Option<u64>> {
    let limit = chain.end().min(after + LOOK_AHEAD_BYTES);
    let mut at = after + 1;
    while let Some(chunk) = chain.chunk(at, limit, 2 * CHUNK_BYTES)? {
        let bytes = chunk.bytes.as_bytes();
        let is_last = at + bytes.len() as u64 >= chunk.segment_end.min(limit);
        // All but the last chunk of a file overlap: a record that starts in the second half is
        // looked at again in the next one.
        let tried = if is_last {
            bytes.len()
        } else {
            bytes.len().min(CHUNK_BYTES)
        };
        for start in magic_positions(bytes, tried) {
            let physical_offset = at + start as u64;
            let long = chain.chunk(physical_offset, chunk.segment_end, longest(bytes, start))?;
            let Some(long) = long else { continue };
            if let Ok(Found::Record(record)) = check(long.bytes.as_bytes(), CrcCheck::Verify)
                && record.physical_offset.cast_unsigned() == physical_offset
                && (not_before_ms..=not_after_ms).contains(&record.store_timestamp_ms)
            {
                return Ok(Some(physical_offset));
            }
        }
        at += tried as u64;
    }
    Ok(None)
}

/// Starts of what has a record's magic, among the first `tried` bytes.
fn magic_positions(bytes: &[u8], tried: usize) -> impl Iterator<Item = usize> {
    let magics = [MAGIC_V1.to_be_bytes(), MAGIC_V2.to_be_bytes()];
    bytes
        .windows(8)
        .take(tried)
        .enumerate()
        .filter(move |(_, window)| magics.iter().any(|magic| window.ends_with(magic)))
        .map(|(start, _)| start)
}

/// What the record at `start` claims to be long, within a bound that any record keeps.
fn longest(bytes: &[u8], start: usize) -> usize {
    let claimed = bytes
        .get(start..start + 4)
        .and_then(|four| four.try_into().ok());
    let claimed = i32::from_be_bytes(claimed.unwrap_or_default());
    usize::try_from(claimed).unwrap_or(0).min(RECORD_LEN_MAX)
}
