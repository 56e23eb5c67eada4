//! Cutting a log at its end: what is cut is kept aside, the rest of the file becomes zeros and is
//! synced before the next append, and the files behind it go. After it no old record can come back.

use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile, Open};
use crate::error::Result;
use crate::segment::{Chain, Segment};
use crate::units::MIB;

/// Bytes per write of zeros or of a copy.
const STEP_BYTES: u64 = MIB;

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
}

/// Cuts the log at `end`.
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
) -> Result<CutReport> {
    let mut report = CutReport {
        end,
        ..CutReport::default()
    };
    // The oldest file stays even when nothing of it does: its name says where the log goes on. A
    // log that began at 0 again would give places, and queue offsets with them, to other messages.
    let remove_from = end.max(chain.start() + 1);
    let behind = |segment: &Segment<D>| segment.base() >= remove_from;
    for segment in chain.segments().iter().rev() {
        let from = if behind(segment) {
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
        let used = content_end(segment, from, chain.segment_len_bytes())?;
        if used > from {
            keep(disk, segment, from, used, keep_aside, &mut report)?;
        }
        if !behind(segment) {
            if used > from {
                zero(segment, from, used)?;
            }
            break;
        }
    }
    // Newest first: a crash in between leaves a log without a gap.
    for segment in chain.pop_from(remove_from) {
        disk.unlink(segment.path())?;
        disk.sync_dir(chain.dir())?;
        report.removed.push(segment.path().to_owned());
    }
    Ok(report)
}

/// Syncs the files that hold anything from `from` on: a killed process may have left whole records
/// in the page cache alone, and what recovery found counts as flushed from then on.
///
/// # Durability
/// The log from `from` on survives power loss when this returns; below it the checkpoint said so.
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
        if let Some(last) = bytes.as_bytes().iter().rposition(|byte| *byte != 0) {
            used = at + last as u64 + 1;
        }
        at += step;
    }
    Ok(used)
}

/// Copies `[from, to)` of a file to `<keep_aside>/<physical offset>`; a copy that is there already
/// (a cut that was interrupted) is made again.
fn keep<D: Disk>(
    disk: &D,
    segment: &Segment<D>,
    from: u64,
    to: u64,
    keep_aside: &Path,
    report: &mut CutReport,
) -> Result<()> {
    disk.create_dir_all(keep_aside)?;
    let path = keep_aside.join(crate::units::offset_file_name(segment.base() + from));
    let copy = disk.open(&path, Open::Create)?;
    // What an interrupted cut kept already is not overwritten by the zeros that it made.
    if copy.len_bytes()? <= to - from {
        let mut at = from;
        while at < to {
            let step = STEP_BYTES.min(to - at);
            copy.write_at(segment.read(at, step as usize)?.as_bytes(), at - from)?;
            at += step;
        }
        copy.sync_data()?;
        disk.sync_dir(keep_aside)?;
    }
    report.kept_aside_bytes += to - from;
    report.kept_in.push(path);
    Ok(())
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
