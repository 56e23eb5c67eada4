//! Cutting a log at its end: what is cut is kept aside, the rest of the file becomes zeros and is
//! synced before the next append, and the files behind it go. After it no old record can come back.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cut_record::{CutFacts, CutKind, CutNames, CutRecord};
use crate::disk::{Disk, DiskFile, Open};
use crate::error::Result;
use crate::segment::{Chain, Segment};
use crate::units::MIB;

/// Bytes per write of zeros or of a copy.
const STEP_BYTES: u64 = MIB;

/// Bytes that are looked at together: enough for the widest registers, several times.
const ZEROS_BYTES: usize = 1_024;

/// What a cut did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CutReport {
    /// Where the log ends now.
    pub end: u64,
    /// Bytes behind the end that were not zero, kept aside.
    pub kept_aside_bytes: u64,
    /// Where they are kept.
    pub kept_in: Vec<PathBuf>,
    /// Files behind the end that were removed.
    pub removed: Vec<PathBuf>,
    /// Whole records among the bytes that were cut off.
    pub whole_records: u64,
    /// Bytes behind the end that were durable once and that no file had any more.
    pub missing_bytes: u64,
    /// What was wrong at the end; `None` where nothing was taken out of the log.
    pub why: Option<String>,
    /// Where that is written down; empty where nothing was taken out of the log.
    pub recorded_in: Vec<PathBuf>,
}

impl CutReport {
    /// Whether anything was taken out of the log, or was missing in it.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        !self.recorded_in.is_empty()
    }

    /// Adds what was taken out of the log before.
    pub fn add(&mut self, before: Self) {
        self.kept_aside_bytes += before.kept_aside_bytes;
        self.whole_records += before.whole_records;
        self.missing_bytes += before.missing_bytes;
        self.kept_in.extend(before.kept_in);
        self.removed.extend(before.removed);
        self.recorded_in.extend(before.recorded_in);
        self.why = self.why.take().or(before.why);
    }
}

/// Length and magic of a record: without either it is none.
const RECORD_MARK_BYTES: u64 = 8;

/// Whether a cut at `end` was written down and not done: what is wrong there is what it left.
///
/// # Errors
/// [`crate::error::Error::Io`].
pub fn is_cut_begun<D: Disk>(disk: &D, keep_aside: &Path, end: u64) -> Result<bool> {
    let names = CutNames::find(disk, keep_aside, CutKind::Cut, end)?;
    Ok(names.begun.is_some())
}

/// A part of one file that is cut off.
struct Part<D: Disk> {
    segment: Arc<Segment<D>>,
    from: u64,
    to: u64,
}

/// Cuts the log at `end`. What is cut is kept below `keep_aside` and written down there, before the
/// log is changed.
///
/// # Durability
/// The zeros and the missing names survive power loss when this returns.
///
/// # Errors
/// [`crate::error::Error::Io`]; the log is then as it was or half cut, and cutting again goes on.
///
/// # Blocking
/// Reads what is behind the end, writes as much.
pub fn cut_at<D: Disk>(
    disk: &D,
    chain: &Chain<D>,
    end: u64,
    keep_aside: &Path,
    facts: &CutFacts,
) -> Result<CutReport> {
    // The oldest file stays even when nothing of it does: its name is where the log goes on. A
    // log that began at 0 again would give physical offsets, and queue offsets with them, to other messages.
    let remove_from = end.max(chain.start() + 1);
    let parts = parts_behind(chain, end, remove_from)?;
    let last = parts.first().map(|part| part.segment.base() + part.to);
    let content_end = last.unwrap_or(end);
    let names = CutNames::find(disk, keep_aside, CutKind::Cut, end)?;
    let mut record = names.begun.clone().unwrap_or_else(|| CutRecord {
        kind: CutKind::Cut,
        physical_offset: end,
        bytes: parts.iter().map(|part| part.to - part.from).sum(),
        missing_bytes: facts.durable_end.saturating_sub(content_end),
        facts: facts.clone(),
        kept_in: Vec::new(),
        removed: names_from(chain, remove_from),
    });
    let is_loss = record.bytes > 0 || record.missing_bytes > 0;
    if is_loss && names.begun.is_none() {
        for part in &parts {
            let path = names.copy_path(part.segment.base() + part.from);
            keep(disk, &part.segment, part.from..part.to, &path)?;
            record.kept_in.push(path);
        }
        record.write(disk, &names, false)?;
    }
    for part in &parts {
        if part.segment.base() < remove_from {
            if record.facts.whole_records > 0 {
                // First the record that begins there, and nothing else: the log ends there from now on, so
                // that an open after a crash finds the cut that was written down (`is_cut_begun`).
                let first = (part.from + RECORD_MARK_BYTES).min(part.to);
                zero(&part.segment, part.from, first)?;
            }
            zero(&part.segment, part.from, part.to)?;
        }
    }
    let mut report = CutReport {
        end,
        ..CutReport::default()
    };
    // Newest first: a crash in between leaves a log without a gap.
    for segment in chain.pop_from(remove_from) {
        disk.unlink(segment.path())?;
        disk.sync_dir(chain.dir())?;
        report.removed.push(segment.path().to_owned());
    }
    if is_loss {
        record.write(disk, &names, true)?;
        report.kept_aside_bytes = record.bytes;
        report.kept_in = record.kept_in;
        report.whole_records = record.facts.whole_records;
        report.missing_bytes = record.missing_bytes;
        report.why = Some(record.facts.why);
        report.recorded_in.push(names.record_path());
    }
    Ok(report)
}

fn names_from<D: Disk>(chain: &Chain<D>, remove_from: u64) -> Vec<PathBuf> {
    let segments = chain.segments();
    let behind = segments.iter().filter(|each| each.base() >= remove_from);
    behind.map(|each| each.path().to_owned()).collect()
}

/// Ends a log at `end` by moving whole files aside, as they are: those behind a gap, with where each
/// begins.
///
/// # Durability
/// The names survive power loss when this returns.
///
/// # Errors
/// [`crate::error::Error::Io`]; calling again goes on.
pub fn move_aside<D: Disk>(
    disk: &D,
    end: u64,
    behind: &[(u64, PathBuf)],
    aside: &Path,
    facts: &CutFacts,
) -> Result<CutReport> {
    disk.create_dir_all(aside)?;
    let names = CutNames::find(disk, aside, CutKind::Cut, end)?;
    let mut bytes = 0;
    for (_, path) in behind {
        bytes += disk.stat(path)?.map_or(0, |stat| stat.len_bytes);
    }
    let to = |base: &u64| names.copy_path(*base);
    let record = names.begun.clone().unwrap_or_else(|| CutRecord {
        kind: CutKind::Cut,
        physical_offset: end,
        bytes,
        missing_bytes: facts.durable_end.saturating_sub(end),
        facts: facts.clone(),
        kept_in: behind.iter().map(|(base, _)| to(base)).collect(),
        removed: behind.iter().map(|(_, path)| path.clone()).collect(),
    });
    if names.begun.is_none() {
        record.write(disk, &names, false)?;
    }
    // Newest first: a crash in between leaves the gap where it is.
    for (base, path) in behind.iter().rev() {
        disk.rename(path, &to(base))?;
        disk.sync_dir(aside)?;
        if let Some(dir) = path.parent() {
            disk.sync_dir(dir)?;
        }
    }
    record.write(disk, &names, true)?;
    Ok(CutReport {
        end,
        kept_aside_bytes: record.bytes,
        kept_in: record.kept_in,
        removed: record.removed,
        whole_records: record.facts.whole_records,
        missing_bytes: record.missing_bytes,
        why: Some(record.facts.why),
        recorded_in: vec![names.record_path()],
    })
}

/// What is not zero behind `end`, newest file first.
fn parts_behind<D: Disk>(chain: &Chain<D>, end: u64, remove_from: u64) -> Result<Vec<Part<D>>> {
    let mut parts = Vec::new();
    for segment in chain.segments().into_iter().rev() {
        let is_removed = segment.base() >= remove_from;
        let from = if is_removed {
            0
        } else {
            end.saturating_sub(segment.base())
        };
        if from >= chain.segment_len_bytes() {
            break;
        }
        // Of another store nothing is cut: nothing is appended behind it either.
        if segment.file().is_borrowed() {
            continue;
        }
        let to = content_end(&segment, from, chain.segment_len_bytes())?;
        if to > from {
            parts.push(Part {
                segment: Arc::clone(&segment),
                from,
                to,
            });
        }
        if !is_removed {
            break;
        }
    }
    Ok(parts)
}

/// Syncs the files that hold anything from `from` on: a killed process may have left whole records
/// in the page cache alone, and what recovery found counts as flushed from then on.
///
/// # Durability
/// The log from `from` on survives power loss when this returns; below it by the checkpoint.
///
/// # Errors
/// [`crate::error::Error::Io`].
///
/// # Blocking
/// Until the device has answered.
pub fn sync_from<D: Disk>(disk: &D, chain: &Chain<D>, from: u64) -> Result<()> {
    for segment in chain
        .segments()
        .iter()
        .filter(|segment| segment.end() > from)
    {
        segment.file().sync_data()?;
    }
    if chain.is_empty() {
        return Ok(());
    }
    disk.sync_dir(chain.dir())
}

/// Where the last byte that is not zero ends, looking from `from` on.
fn content_end<D: Disk>(segment: &Segment<D>, from: u64, len_bytes: u64) -> Result<u64> {
    let mut used = from;
    let mut at = from;
    while at < len_bytes {
        let step = STEP_BYTES.min(len_bytes - at);
        let bytes = segment.read(at, step as usize)?;
        if let Some(last) = last_used(bytes.as_bytes()) {
            used = at + last as u64 + 1;
        }
        at += step;
    }
    Ok(used)
}

/// The last byte that is not zero. A file may be a gibibyte of zeros: they are passed over in blocks.
fn last_used(bytes: &[u8]) -> Option<usize> {
    let mut start = bytes.len();
    for block in bytes.rchunks(ZEROS_BYTES) {
        start -= block.len();
        if block.iter().fold(0, |any, byte| any | byte) != 0 {
            return block
                .iter()
                .rposition(|byte| *byte != 0)
                .map(|at| start + at);
        }
    }
    None
}

/// Copies a range of a file to `path`.
pub(super) fn keep<D: Disk>(
    disk: &D,
    segment: &Segment<D>,
    range: Range<u64>,
    path: &Path,
) -> Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    disk.create_dir_all(dir)?;
    let copy = disk.open(path, Open::Create)?;
    if copy.len_bytes()? > range.end - range.start {
        copy.set_len(0)?;
    }
    let mut at = range.start;
    while at < range.end {
        let step = STEP_BYTES.min(range.end - at);
        let bytes = segment.read(at, step as usize)?;
        copy.write_at(bytes.as_bytes(), at - range.start)?;
        at += step;
    }
    copy.sync_data()?;
    disk.sync_dir(dir)
}

fn zero<D: Disk>(segment: &Segment<D>, from: u64, to: u64) -> Result<()> {
    let zeros = vec![0; STEP_BYTES as usize];
    let mut at = from;
    while at < to {
        let step = STEP_BYTES.min(to - at) as usize;
        segment
            .file()
            .write_at(zeros.get(..step).unwrap_or(&zeros), at)?;
        at += step as u64;
    }
    segment.file().sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_byte_that_is_used_is_found_in_any_block() {
        let len = 3 * ZEROS_BYTES + 7;
        assert_eq!(last_used(&vec![0; len]), None);
        assert_eq!(last_used(&[]), None);
        for at in [0, 6, 7, ZEROS_BYTES - 1, ZEROS_BYTES, len - 8, len - 1] {
            let mut bytes = vec![0; len];
            bytes[0] = 1;
            bytes[at] = 1;
            assert_eq!(last_used(&bytes), Some(at));
        }
    }
}
