//! One index file: its header in memory, its slots and entries mapped while it is written, read
//! by position when it is not (a bad sector is then an error, not a signal). Knows no other file.
//!
//! Order of a put: entry, slot, header; each a release store. A reader that finds a number in a
//! slot therefore finds the whole entry.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};

use super::layout::{
    BEGIN_OFFSET, BEGIN_TIMESTAMP, END_OFFSET, END_TIMESTAMP, ENTRY_BYTES, ENTRY_HASH,
    ENTRY_OFFSET, ENTRY_PREVIOUS, ENTRY_SECONDS, HEADER_BYTES, IndexEntry, IndexHeader, Layout,
    NEXT_NUMBER, SLOTS_USED,
};
use crate::disk::{CellRegion, DiskFile, read_exact_at};
use crate::error::Result;

/// The header in memory: readers never meet half of a 64-bit field.
#[derive(Debug, Default)]
pub(super) struct Head {
    begin_timestamp_ms: AtomicI64,
    end_timestamp_ms: AtomicI64,
    begin_offset: AtomicI64,
    end_offset: AtomicI64,
    slots_used: AtomicU32,
    next_number: AtomicU32,
}

impl Head {
    fn new(header: &IndexHeader) -> Self {
        Self {
            begin_timestamp_ms: AtomicI64::new(header.begin_timestamp_ms),
            end_timestamp_ms: AtomicI64::new(header.end_timestamp_ms),
            begin_offset: AtomicI64::new(header.begin_physical_offset),
            end_offset: AtomicI64::new(header.end_physical_offset),
            slots_used: AtomicU32::new(header.slots_used.unsigned_abs()),
            next_number: AtomicU32::new(header.next_number.unsigned_abs().max(1)),
        }
    }
}

/// An index file. Clones of its parts share one descriptor and one header.
#[derive(Debug)]
pub(super) struct IndexFile<F: DiskFile> {
    name: Arc<str>,
    file: Arc<F>,
    layout: Layout,
    head: Arc<Head>,
    is_synced: Arc<AtomicBool>,
    cells: Option<F::Cells>,
}

impl<F: DiskFile> IndexFile<F> {
    /// A file whose length was checked against `layout` and whose header is `header`.
    pub(super) fn new(name: &str, file: F, layout: Layout, header: &IndexHeader) -> Self {
        Self {
            name: Arc::from(name),
            file: Arc::new(file),
            layout,
            head: Arc::new(Head::new(header)),
            is_synced: Arc::new(AtomicBool::new(false)),
            cells: None,
        }
    }

    /// The same file, to be written: every byte of it is allocated first, so that a full disk is
    /// an error here and not a signal later (the official broker's files are sparse).
    pub(super) fn mapped(&self) -> Result<Self> {
        self.file.allocate(self.layout.len_bytes())?;
        let cells = self.file.map_cells(self.layout.len_bytes())?;
        Ok(self.with_cells(Some(cells)))
    }

    /// The same file, no longer mapped.
    pub(super) fn sealed(&self) -> Self {
        self.with_cells(None)
    }

    fn with_cells(&self, cells: Option<F::Cells>) -> Self {
        Self {
            name: Arc::clone(&self.name),
            file: Arc::clone(&self.file),
            layout: self.layout,
            head: Arc::clone(&self.head),
            is_synced: Arc::clone(&self.is_synced),
            cells,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Whether its name still names it: an official broker that is refused a live store has by
    /// then removed the index files that are newer than the checkpoint.
    pub(super) fn has_name(&self) -> Result<bool> {
        self.file.is_at(self.file.path())
    }

    pub(super) fn is_mapped(&self) -> bool {
        self.cells.is_some()
    }

    /// Number of the next entry; one more than there are.
    #[inline]
    pub(super) fn next_number(&self) -> u32 {
        self.head.next_number.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.next_number() >= self.layout.entries()
    }

    pub(super) fn begin_timestamp_ms(&self) -> i64 {
        self.head.begin_timestamp_ms.load(Ordering::Acquire)
    }

    pub(super) fn end_timestamp_ms(&self) -> i64 {
        self.head.end_timestamp_ms.load(Ordering::Acquire)
    }

    /// Physical offset of the latest entry's record; of the file before it while it is empty.
    pub(super) fn end_offset(&self) -> u64 {
        // Checked not to be negative when the file was opened; puts come from unsigned offsets.
        self.head.end_offset.load(Ordering::Acquire).unsigned_abs()
    }

    /// Whether everything in it survives power loss and nothing will be added.
    pub(super) fn is_synced(&self) -> bool {
        self.is_synced.load(Ordering::Acquire)
    }

    /// Syncs it.
    pub(super) fn sync(&self) -> Result<()> {
        let was_full = self.is_full();
        self.file.sync_data()?;
        if was_full {
            self.is_synced.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Presets the header of an empty file from the one before it (`IndexFile`'s constructor).
    pub(super) fn preset(&self, end_offset: u64, end_timestamp_ms: i64) {
        let offset = end_offset.cast_signed();
        if offset > 0 {
            self.set_long(&self.head.begin_offset, BEGIN_OFFSET, offset);
            self.set_long(&self.head.end_offset, END_OFFSET, offset);
        }
        if end_timestamp_ms > 0 {
            let timestamp = end_timestamp_ms;
            self.set_long(&self.head.begin_timestamp_ms, BEGIN_TIMESTAMP, timestamp);
            self.set_long(&self.head.end_timestamp_ms, END_TIMESTAMP, timestamp);
        }
    }

    /// Adds an entry to a mapped file that is not full (`IndexFile.putKey`).
    ///
    /// The official broker computes the seconds of the first entry from the preset begin time;
    /// here they are 0, which is what a reader of the file needs.
    #[inline]
    pub(super) fn put(&self, key_hash: u32, physical_offset: u64, store_timestamp_ms: i64) {
        let head = &*self.head;
        let number = head.next_number.load(Ordering::Relaxed);
        let offset = physical_offset.cast_signed();
        if number <= 1 {
            let begin = BEGIN_TIMESTAMP;
            self.set_long(&head.begin_offset, BEGIN_OFFSET, offset);
            self.set_long(&head.begin_timestamp_ms, begin, store_timestamp_ms);
        }
        let slot = self.layout.slot_position(key_hash % self.layout.slots());
        let newest = self.cell(slot);
        let previous = if newest < number { newest } else { 0 };
        let at = self.layout.entry_position(number);
        let seconds = self.seconds_after_begin(store_timestamp_ms);
        self.set_cell(at + ENTRY_HASH, key_hash);
        self.set_cell(at + ENTRY_OFFSET, high(offset));
        self.set_cell(at + ENTRY_OFFSET + 4, low(offset));
        self.set_cell(at + ENTRY_SECONDS, seconds);
        self.set_cell(at + ENTRY_PREVIOUS, previous);
        self.set_cell(slot, number);
        if previous == 0 {
            let used = head.slots_used.load(Ordering::Relaxed) + 1;
            head.slots_used.store(used, Ordering::Release);
            self.set_cell(SLOTS_USED, used);
        }
        if head.end_offset.load(Ordering::Relaxed) != offset {
            self.set_long(&head.end_offset, END_OFFSET, offset);
        }
        if head.end_timestamp_ms.load(Ordering::Relaxed) != store_timestamp_ms {
            self.set_long(&head.end_timestamp_ms, END_TIMESTAMP, store_timestamp_ms);
        }
        // Last: a header that counts a full file has its last end time, by which it is judged
        // after a crash.
        head.next_number.store(number + 1, Ordering::Release);
        self.set_cell(NEXT_NUMBER, number + 1);
    }

    #[inline]
    fn seconds_after_begin(&self, store_timestamp_ms: i64) -> u32 {
        let begin = self.head.begin_timestamp_ms.load(Ordering::Relaxed);
        if begin <= 0 {
            return 0;
        }
        let seconds = store_timestamp_ms.saturating_sub(begin) / 1000;
        seconds.clamp(0, i64::from(i32::MAX)) as u32
    }

    #[inline]
    fn set_long(&self, field: &AtomicI64, position: u64, value: i64) {
        field.store(value, Ordering::Release);
        self.set_cell(position, high(value));
        self.set_cell(position + 4, low(value));
    }

    #[inline]
    fn cell(&self, position: u64) -> u32 {
        self.cells.as_ref().map_or(0, |cells| cells.load(position))
    }

    #[inline]
    fn set_cell(&self, position: u64, value: u32) {
        if let Some(cells) = &self.cells {
            cells.store(position, value);
        }
    }

    /// Number of the newest entry in the slot of this hash; 0 when there is none that counts.
    pub(super) fn newest_in_slot(&self, key_hash: u32) -> Result<u32> {
        let position = self.layout.slot_position(key_hash % self.layout.slots());
        let number = match &self.cells {
            Some(cells) => cells.load(position),
            None => {
                let mut bytes = [0; 4];
                read_exact_at(&*self.file, &mut bytes, position)?;
                u32::from_be_bytes(bytes)
            }
        };
        // Read after the slot: puts that go on meanwhile only raise it. A number equal to it is an
        // entry whose put is just ending.
        let next = self.next_number();
        let counts = number <= next && number < self.layout.entries();
        Ok(if counts { number } else { 0 })
    }

    /// The entry of this number, which lies inside the file.
    pub(super) fn entry(&self, number: u32) -> Result<IndexEntry> {
        let at = self.layout.entry_position(number);
        let Some(cells) = &self.cells else {
            let mut bytes = [0; ENTRY_BYTES as usize];
            read_exact_at(&*self.file, &mut bytes, at)?;
            return Ok(IndexEntry::decode(number, &bytes));
        };
        let offset_high = cells.load(at + ENTRY_OFFSET);
        let offset_low = cells.load(at + ENTRY_OFFSET + 4);
        Ok(IndexEntry {
            number,
            key_hash: cells.load(at + ENTRY_HASH),
            physical_offset: (i64::from(offset_high as i32) << 32) | i64::from(offset_low),
            seconds: cells.load(at + ENTRY_SECONDS).cast_signed(),
            previous: cells.load(at + ENTRY_PREVIOUS).cast_signed(),
        })
    }
}

/// Reads the header of a file.
pub(super) fn read_header(file: &impl DiskFile) -> Result<IndexHeader> {
    let mut bytes = [0; HEADER_BYTES as usize];
    read_exact_at(file, &mut bytes, 0)?;
    Ok(IndexHeader::decode(&bytes))
}

fn high(value: i64) -> u32 {
    (value >> 32) as u32
}

fn low(value: i64) -> u32 {
    value as u32
}
