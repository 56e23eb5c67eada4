//! Which layout a file was written with: RocketMQ writes it nowhere. The length leaves many, the
//! content one: the last entry is where the header counts it, and its slot leads to it. Reads only.

use std::path::Path;

use super::file::read_header;
use super::layout::{
    ENTRY_BYTES, ENTRY_OFFSET, HEADER_BYTES, IndexEntry, IndexHeader, Layout, SLOT_BYTES,
};
use super::scan::index_files;
use crate::disk::{Disk, DiskFile, Open, read_exact_at};
use crate::error::Result;

/// Entries whose slots are looked at, beside the last one: a layout that is wrong fails at the first.
const ENTRIES_TRIED: u32 = 64;
/// Two layouts of one length differ by this many slots, and by an entry.
const SLOTS_PER_ENTRY: u64 = ENTRY_BYTES / SLOT_BYTES;
/// Entries compared per read of a search through the file: 1 MiB.
const ENTRIES_PER_READ: u64 = (1 << 20) / ENTRY_BYTES;

/// The layout of the index files of a directory, as the first one with any length shows it; None
/// without a file, or where nothing fits.
///
/// # Errors
/// [`crate::error::Error::Io`].
pub fn found_layout<D: Disk>(
    disk: &D,
    dir: &Path,
    configured: Option<Layout>,
) -> Result<Option<Layout>> {
    for path in index_files(disk, dir)? {
        let len_bytes = disk.stat(&path)?.map_or(0, |stat| stat.len_bytes);
        if len_bytes >= HEADER_BYTES {
            return layout_of_file(&disk.open(&path, Open::Read)?, len_bytes, configured);
        }
    }
    Ok(None)
}

/// The layout of one file. That of the settings wins where the file may have it, then four entries
/// per slot.
fn layout_of_file(
    file: &impl DiskFile,
    len_bytes: u64,
    configured: Option<Layout>,
) -> Result<Option<Layout>> {
    let header = read_header(file)?;
    let likely = [configured, Layout::infer(len_bytes)].into_iter().flatten();
    let likely: Vec<Layout> = likely
        .filter(|each| each.len_bytes() == len_bytes)
        .collect();
    if header.next_number < 2 {
        // Nothing is in it: every layout of this length holds that.
        return Ok(likely.first().copied().or_else(|| nearest(len_bytes)));
    }
    for layout in &likely {
        if fits(file, &header, *layout)? {
            return Ok(Some(*layout));
        }
    }
    let found = searched(file, len_bytes, &header)?;
    // What a crash left may fit nothing; it is made again from the log, in the likely layout.
    Ok(found.or_else(|| likely.first().copied()))
}

/// The layout of a length that is next to four entries per slot.
fn nearest(len_bytes: u64) -> Option<Layout> {
    let least = least_slots(len_bytes)?;
    let most = len_bytes.checked_sub(HEADER_BYTES)? / (SLOT_BYTES + 4 * ENTRY_BYTES);
    let steps = most.saturating_sub(least) / SLOTS_PER_ENTRY;
    of_slots(len_bytes, least + steps * SLOTS_PER_ENTRY)
}

/// The fewest slots, at least one, that leave whole entries.
fn least_slots(len_bytes: u64) -> Option<u64> {
    let body = len_bytes.checked_sub(HEADER_BYTES)?;
    if !body.is_multiple_of(SLOT_BYTES) {
        return None;
    }
    Some(match body / SLOT_BYTES % SLOTS_PER_ENTRY {
        0 => SLOTS_PER_ENTRY,
        rest => rest,
    })
}

fn of_slots(len_bytes: u64, slots: u64) -> Option<Layout> {
    let rest = len_bytes.checked_sub(HEADER_BYTES + slots * SLOT_BYTES)?;
    Layout::of(slots, rest / ENTRY_BYTES)
}

/// Tries all layouts of this length whose last entry has the offset that the header ends with.
fn searched(file: &impl DiskFile, len_bytes: u64, header: &IndexHeader) -> Result<Option<Layout>> {
    let Some(least) = least_slots(len_bytes) else {
        return Ok(None);
    };
    let last = u64::from(header.next_number.unsigned_abs()) - 1;
    let mut at = HEADER_BYTES + least * SLOT_BYTES + last * ENTRY_BYTES;
    let mut slots = least;
    let mut bytes = Vec::new();
    while at + ENTRY_BYTES <= len_bytes {
        let count = ENTRIES_PER_READ.min((len_bytes - at) / ENTRY_BYTES);
        bytes.resize((count * ENTRY_BYTES) as usize, 0);
        read_exact_at(file, &mut bytes, at)?;
        for entry in bytes.chunks_exact(ENTRY_BYTES as usize) {
            let stored = entry.get(ENTRY_OFFSET as usize..).unwrap_or_default();
            let offset = stored.first_chunk().map(|each| i64::from_be_bytes(*each));
            if offset == Some(header.end_physical_offset)
                && let Some(layout) = of_slots(len_bytes, slots)
                && fits(file, header, layout)?
            {
                return Ok(Some(layout));
            }
            slots += SLOTS_PER_ENTRY;
        }
        at += count * ENTRY_BYTES;
    }
    Ok(None)
}

/// Whether the entries that the header counts are where this layout has them.
fn fits(file: &impl DiskFile, header: &IndexHeader, layout: Layout) -> Result<bool> {
    if header.problem(layout).is_some() {
        return Ok(false);
    }
    let last = header.next_number.unsigned_abs() - 1;
    let begin = header.begin_physical_offset;
    if entry_at(file, layout, 1)?.physical_offset != begin
        || entry_at(file, layout, last)?.physical_offset != header.end_physical_offset
    {
        return Ok(false);
    }
    let numbers = (1..=last.min(ENTRIES_TRIED)).chain([last]);
    for number in numbers {
        let entry = entry_at(file, layout, number)?;
        let mut slot = [0; SLOT_BYTES as usize];
        let position = layout.slot_position(entry.key_hash % layout.slots());
        read_exact_at(file, &mut slot, position)?;
        // The newest entry of a slot is this one or a later one.
        let newest = u32::from_be_bytes(slot);
        if newest < number || newest > last || entry.previous.unsigned_abs() >= number {
            return Ok(false);
        }
    }
    Ok(true)
}

fn entry_at(file: &impl DiskFile, layout: Layout, number: u32) -> Result<IndexEntry> {
    let mut bytes = [0; ENTRY_BYTES as usize];
    read_exact_at(file, &mut bytes, layout.entry_position(number))?;
    Ok(IndexEntry::decode(number, &bytes))
}
