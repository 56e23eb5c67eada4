//! Whether the index of a directory has tags beside keys. RocketMQ 5.5 indexes the tags of a message
//! too, 4.9 and 5.3 do not, and no file has a field for it: the newest entries show it. Reads only; decides
//! nothing about files that are not whole.

use std::path::Path;

use mqcore_record::{Found, RecordView, head, index_tags_hash, peek_total_len, scan_wanted};

use crate::config::StoreConfig;
use crate::disk::Disk;
use crate::error::Result;
use crate::key_index::{IndexEntry, IndexScan, Layout, found_layout, index_files};
use crate::notice::Notices;
use crate::segment::{Chain, LogSlice};

/// Entries of a file that are looked at, the newest. Each may cost a read of the log; a topic whose
/// messages have no tags shows nothing, so more than a few are looked at.
const ENTRIES_TRIED: u32 = 256;
/// What the length and the magic of a record take.
const HEAD_LEN_BYTES: usize = 8;

/// Whether tags are to be indexed: where the settings want it, or the directory has it so.
pub(super) fn indexes_tags<D: Disk>(
    disk: &D,
    dir: &Path,
    config: &StoreConfig,
    chain: &Chain<D>,
    notices: &Notices,
) -> bool {
    if config.index_tags {
        return true;
    }
    let shown = has_tags(disk, dir, config, chain).unwrap_or_else(|error| {
        // The index is derived data: what is wrong with it stops no start.
        notices.warn(format!(
            "{}: whether tags are indexed was not to be read ({error}): they are not from now on",
            dir.display()
        ));
        false
    });
    if shown {
        notices.info(format!(
            "{} has tags, as RocketMQ 5.5 indexes them: it goes on so",
            dir.display()
        ));
    }
    shown
}

/// Whether the newest entries that show it are those of an index with tags.
fn has_tags<D: Disk>(disk: &D, dir: &Path, config: &StoreConfig, chain: &Chain<D>) -> Result<bool> {
    let Some(layout) = found_layout(disk, dir, Layout::new(config).ok())? else {
        return Ok(false);
    };
    for path in index_files(disk, dir)?.iter().rev() {
        if disk.stat(path)?.map(|stat| stat.len_bytes) != Some(layout.len_bytes()) {
            continue;
        }
        let newest = IndexScan::open(disk, path, Some(layout))?.newest(ENTRIES_TRIED);
        let newest = newest.collect::<Result<Vec<_>>>()?;
        if let Some(shown) = shown_by(&newest, chain)? {
            return Ok(shown);
        }
    }
    Ok(false)
}

/// What entries of one file show; `None` where no record with tags is among them.
fn shown_by<D: Disk>(entries: &[IndexEntry], chain: &Chain<D>) -> Result<Option<bool>> {
    let of_one_record = |a: &IndexEntry, b: &IndexEntry| a.physical_offset == b.physical_offset;
    let mut is_newest = true;
    for of_record in entries.chunk_by(of_one_record).rev() {
        let Some(last) = of_record.last() else {
            continue;
        };
        let bytes = record_bytes(chain, last.physical_offset.cast_unsigned())?;
        let hash = bytes
            .as_ref()
            .and_then(|bytes| match head(bytes.as_bytes()) {
                Ok(Found::Record(record)) => tags_hash(&record, last.physical_offset),
                _ => None,
            });
        let has_entry = hash.map(|hash| of_record.iter().any(|entry| entry.key_hash == hash));
        // A kill may have come between the keys of the newest record and its tags.
        if has_entry == Some(true) || has_entry.is_some() && !is_newest {
            return Ok(has_entry);
        }
        is_newest = false;
    }
    Ok(None)
}

/// The hash that an index with tags has for a record; `None` of one without tags.
fn tags_hash(record: &RecordView<'_>, physical_offset: i64) -> Option<u32> {
    if record.physical_offset != physical_offset {
        return None;
    }
    let tags = scan_wanted(record.properties).tags?;
    (!tags.is_empty()).then(|| index_tags_hash(record.topic, tags))
}

/// The bytes from a physical offset on that the record there claims.
fn record_bytes<D: Disk>(chain: &Chain<D>, physical_offset: u64) -> Result<Option<LogSlice<D>>> {
    let Some(start) = chain.chunk(physical_offset, chain.end(), HEAD_LEN_BYTES)? else {
        return Ok(None);
    };
    let Some(len) = peek_total_len(start.bytes.as_bytes()) else {
        return Ok(None);
    };
    let whole = chain.chunk(physical_offset, chain.end(), len)?;
    Ok(whole.map(|chunk| chunk.bytes))
}
