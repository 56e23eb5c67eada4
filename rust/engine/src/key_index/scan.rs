//! Reading index files as they are, without changing or mapping them: for `verify` and `info`,
//! also beside a running broker. Sizes are checked, nothing of the content is trusted.

use std::path::{Path, PathBuf};

use super::file::read_header;
use super::layout::{ENTRY_BYTES, IndexEntry, IndexHeader, Layout, SLOT_BYTES, word_at};
use super::name::is_index_name;
use crate::disk::{Disk, DiskFile, Open, read_exact_at};
use crate::error::{Error, Result};

/// Entries read at a time: 80 KB, past which larger reads are no faster.
const ENTRIES_PER_READ: u32 = 4096;
/// Problems reported per file. A file with more is to be made again, whatever the others are.
const PROBLEMS_MAX: usize = 100;

/// Something in an index file that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexProblem {
    /// The file.
    pub path: PathBuf,
    /// The entry, 0 for the header or a slot.
    pub number: u32,
    /// What does not hold.
    pub why: String,
}

/// The index files of a directory, oldest first; other names are passed over.
///
/// # Errors
/// [`Error::Io`].
pub fn index_files<D: Disk>(disk: &D, dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = disk.list(dir)?;
    let files = entries
        .into_iter()
        .filter(|entry| !entry.is_dir && is_index_name(&entry.name));
    Ok(files.map(|entry| dir.join(entry.name)).collect())
}

/// The entries of one index file in the order of their numbers.
#[derive(Debug)]
pub struct IndexScan<F: DiskFile> {
    file: F,
    layout: Layout,
    header: IndexHeader,
    /// Entry that comes next, and the one to end before.
    next: u32,
    end: u32,
    buffer: Vec<u8>,
    buffer_start: u32,
}

impl<F: DiskFile> IndexScan<F> {
    /// Opens an index file; the layout is inferred from its length when it is not given.
    ///
    /// # Errors
    /// [`Error::WrongFileSize`], [`Error::Io`].
    pub fn open<D: Disk<File = F>>(disk: &D, path: &Path, layout: Option<Layout>) -> Result<Self> {
        let file = disk.open(path, Open::Read)?;
        let len_bytes = file.len_bytes()?;
        let layout = layout.or_else(|| Layout::infer(len_bytes));
        let Some(layout) = layout.filter(|layout| layout.len_bytes() == len_bytes) else {
            return Err(Error::WrongFileSize {
                path: path.to_owned(),
                len_bytes,
                expected_bytes: layout.map_or(0, Layout::len_bytes),
                key: "maxIndexNum",
            });
        };
        let header = read_header(&file)?;
        let end = u32::try_from(header.next_number).unwrap_or(1);
        Ok(Self {
            file,
            layout,
            header,
            next: 1,
            end: end.min(layout.entries()),
            buffer: Vec::new(),
            buffer_start: 1,
        })
    }

    /// The header, as stored.
    #[must_use]
    pub fn header(&self) -> IndexHeader {
        self.header
    }

    /// The layout.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The last `count` entries alone.
    #[must_use]
    pub fn newest(mut self, count: u32) -> Self {
        self.next = self.next.max(self.end.saturating_sub(count));
        self
    }

    fn fill(&mut self) -> Result<()> {
        let count = (self.end - self.next).min(ENTRIES_PER_READ);
        self.buffer
            .resize((u64::from(count) * ENTRY_BYTES) as usize, 0);
        self.buffer_start = self.next;
        let position = self.layout.entry_position(self.next);
        read_exact_at(&self.file, &mut self.buffer, position)
    }

    fn buffered(&self) -> Option<IndexEntry> {
        let at = (self.next - self.buffer_start) as usize * ENTRY_BYTES as usize;
        let bytes = self.buffer.get(at..)?.first_chunk()?;
        Some(IndexEntry::decode(self.next, bytes))
    }
}

impl<F: DiskFile> Iterator for IndexScan<F> {
    type Item = Result<IndexEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        if self.buffered().is_none()
            && let Err(error) = self.fill()
        {
            self.end = self.next;
            return Some(Err(error));
        }
        let entry = self.buffered()?;
        self.next += 1;
        Some(Ok(entry))
    }
}

/// Everything in an index file that does not hold within the file: header, order of offsets, and
/// whether each slot leads to all of its entries. At most 100 problems are reported.
///
/// # Errors
/// [`Error::WrongFileSize`], [`Error::Io`].
pub fn verify_file<D: Disk>(
    disk: &D,
    path: &Path,
    layout: Option<Layout>,
) -> Result<Vec<IndexProblem>> {
    let mut scan = IndexScan::open(disk, path, layout)?;
    let (header, layout) = (scan.header(), scan.layout());
    let mut problems = Vec::new();
    let mut report = |number: u32, why: String| {
        if problems.len() < PROBLEMS_MAX {
            problems.push(IndexProblem {
                path: path.to_owned(),
                number,
                why,
            });
        }
    };
    if let Some(why) = header.problem(layout) {
        report(0, why);
    }
    // What the slots should be, made again entry by entry.
    let mut newest = vec![0u32; layout.slots() as usize];
    let mut last_offset = None;
    for entry in &mut scan {
        let entry = entry?;
        if last_offset.is_some_and(|last| entry.physical_offset < last) {
            let why = format!("offset {} is below the one before", entry.physical_offset);
            report(entry.number, why);
        }
        last_offset = Some(entry.physical_offset);
        if entry.seconds < 0 || entry.physical_offset < 0 {
            report(entry.number, "a negative time or offset".to_owned());
        }
        if let Some(slot) = newest.get_mut((entry.key_hash % layout.slots()) as usize) {
            if i64::from(entry.previous) != i64::from(*slot) {
                let why = format!("names {} as the one before, it is {slot}", entry.previous);
                report(entry.number, why);
            }
            *slot = entry.number;
        }
    }
    if let Some(last) = last_offset
        && last != header.end_physical_offset
    {
        let end = header.end_physical_offset;
        report(
            0,
            format!("the header ends at {end}, the entries at {last}"),
        );
    }
    verify_slots(&scan, &newest, &mut report)?;
    Ok(problems)
}

fn verify_slots<F: DiskFile>(
    scan: &IndexScan<F>,
    newest: &[u32],
    report: &mut impl FnMut(u32, String),
) -> Result<()> {
    let mut bytes = vec![0; newest.len() * SLOT_BYTES as usize];
    read_exact_at(&scan.file, &mut bytes, scan.layout.slot_position(0))?;
    for (slot, expected) in newest.iter().enumerate() {
        let stored = word_at(&bytes, slot as u64 * SLOT_BYTES);
        if stored != *expected {
            let why = format!("slot {slot} leads to entry {stored}, its newest is {expected}");
            report(0, why);
        }
    }
    let used = newest.iter().filter(|number| **number > 0).count() as i64;
    if used != i64::from(scan.header.slots_used) {
        let counted = scan.header.slots_used;
        report(
            0,
            format!("the header counts {counted} slots in use, there are {used}"),
        );
    }
    Ok(())
}

/// Every entry of the index files of a directory, oldest first, as it is in the files.
///
/// # Errors
/// [`Error::Io`] for the list of files; then per entry.
pub(super) fn entries<D: Disk>(
    disk: &D,
    dir: &Path,
    layout: Layout,
) -> Result<impl Iterator<Item = Result<IndexEntry>> + use<D>> {
    let mut scans = Vec::new();
    for path in index_files(disk, dir)? {
        scans.push(IndexScan::open(disk, &path, Some(layout))?);
    }
    Ok(scans.into_iter().flatten())
}
