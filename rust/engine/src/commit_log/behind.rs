//! What is whole behind a bad position of the log: a function of file contents. Changes nothing.

use mqcore_record::layout::{BLANK_LEN_BYTES, MAGIC_V1, MAGIC_V2};
use mqcore_record::{CrcCheck, Found, check, peek_total_len};

use super::scan::{LOOK_AHEAD_BYTES, RECORD_LEN_MAX, Scan, scan};
use crate::disk::Disk;
use crate::error::Result;
use crate::segment::Chain;
use crate::units::MIB;

/// Bytes looked at per read: as many as a walk of the log looks at.
const CHUNK_BYTES: usize = MIB as usize;
/// Bytes that are tested for zeros at once.
const PAGE_BYTES: usize = 4096;

/// Bytes of the log that are no records and that whole records follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Physical offset of the first bad byte.
    pub from: u64,
    /// Physical offset of the whole record that follows.
    pub to: u64,
}

/// What is behind a bad position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Behind {
    /// The bad stretches before whole records, in their order.
    pub stretches: Vec<Stretch>,
    /// Whole records behind the first of them.
    pub whole_records: u64,
    /// Physical offset behind the last whole record; that of the bad position where there is none.
    pub end: u64,
    /// Store time of the last whole record, ms.
    pub last_store_ms: Option<i64>,
}

/// Looks for whole records behind `bad`: those whose own offset is right, with the right CRC. Records
/// older than `not_before_ms` do not count: another broker that cut the log may have left them.
/// Where none begins within 256 MiB of the last one, the search ends.
///
/// # Errors
/// [`crate::error::Error::Io`].
///
/// # Blocking
/// Reads the log from `bad` to 256 MiB behind its last whole record.
pub fn records_behind<D: Disk>(
    chain: &Chain<D>,
    bad: u64,
    not_before_ms: i64,
    has_property_crc: bool,
) -> Result<Behind> {
    let mut behind = Behind {
        end: bad,
        ..Behind::default()
    };
    let mut not_before_ms = not_before_ms;
    let mut looked_at = bad;
    while let Some(physical_offset) = next_record(chain, looked_at, not_before_ms)? {
        let walk = Scan {
            from: physical_offset,
            limit: chain.end(),
            crc: CrcCheck::Verify,
            is_recovery: true,
            torn_from: u64::MAX,
            has_property_crc,
            forgets: true,
        };
        let mut newest_ms = not_before_ms;
        let run = scan(chain, walk, |record, _| {
            newest_ms = newest_ms.max(record.store_timestamp_ms);
            Ok(true)
        })?;
        if run.records == 0 {
            // Whole but for what `has_property_crc` asks: looked for behind its first byte.
            looked_at = physical_offset;
            continue;
        }
        behind.stretches.push(Stretch {
            from: behind.end,
            to: physical_offset,
        });
        behind.whole_records += run.records;
        behind.end = run.end;
        looked_at = run.end;
        behind.last_store_ms = run.last_store_ms;
        not_before_ms = newest_ms;
    }
    Ok(behind)
}

/// The first whole record behind the byte at `after`.
fn next_record<D: Disk>(chain: &Chain<D>, after: u64, not_before_ms: i64) -> Result<Option<u64>> {
    let limit = chain.end().min(after.saturating_add(LOOK_AHEAD_BYTES));
    let mut at = after + 1;
    let mut spare = Vec::new();
    while let Some(chunk) = chain.chunk_into(at, limit, CHUNK_BYTES, spare)? {
        let bytes = chunk.bytes.as_bytes();
        let end = at + bytes.len() as u64;
        for start in magic_positions(bytes) {
            let physical_offset = at + start as u64;
            let claimed = bytes.get(start..).and_then(peek_total_len).unwrap_or(0);
            let long = chain.chunk(
                physical_offset,
                chunk.segment_end,
                claimed.min(RECORD_LEN_MAX),
            )?;
            let Some(long) = long else { continue };
            if let Ok(Found::Record(record)) = check(long.bytes.as_bytes(), CrcCheck::Verify)
                && record.physical_offset.cast_unsigned() == physical_offset
                && record.store_timestamp_ms >= not_before_ms
            {
                return Ok(Some(physical_offset));
            }
        }
        // Length and magic of a record may begin in this chunk and end in the next one of the file.
        let overlap = if end < chunk.segment_end.min(limit) {
            (BLANK_LEN_BYTES as u64 - 1).min(end - at - 1)
        } else {
            0
        };
        if chunk.bytes.is_copy() {
            chain.forget(at, end);
        }
        at = end - overlap;
        spare = chunk.bytes.into_spare();
    }
    Ok(None)
}

/// Starts of what has a record's magic. Pages of zeros, most of what is behind an end, are passed.
fn magic_positions(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let magics = [MAGIC_V1.to_be_bytes(), MAGIC_V2.to_be_bytes()];
    let pages = (0..bytes.len()).step_by(PAGE_BYTES);
    let with_content = pages.filter_map(move |from| {
        // The first bytes of the next page belong to what begins at the end of this one.
        let to = (from + PAGE_BYTES + BLANK_LEN_BYTES - 1).min(bytes.len());
        let page = bytes.get(from..to)?;
        let is_zero = page.iter().fold(0, |all, byte| all | byte) == 0;
        (!is_zero).then_some((from, page))
    });
    with_content.flat_map(move |(from, page)| {
        page.windows(BLANK_LEN_BYTES)
            .enumerate()
            .filter(move |(_, window)| magics.iter().any(|magic| window.ends_with(magic)))
            .map(move |(start, _)| from + start)
    })
}
