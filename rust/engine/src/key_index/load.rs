//! Opening the index (`IndexService.load`): which files are there, which of them can be trusted.
//! Nothing is changed on the disk before every file has been looked at.

use std::path::Path;
use std::sync::Arc;

use super::file::{IndexFile, read_header};
use super::files::{Files, UNFINISHED_SUFFIX};
use super::layout::{IndexHeader, Layout};
use super::name::is_index_name;
use crate::config::StoreConfig;
use crate::disk::{Disk, Open};
use crate::error::{Error, Result};
use crate::notice::Notices;

/// How the store ended the last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastExit {
    /// Everything was synced.
    Clean,
    /// The `abort` marker was there. Only full files up to this time are known to be whole.
    Abnormal {
        /// `indexMsgTimestamp` of the checkpoint.
        checkpoint_index_timestamp_ms: i64,
    },
}

/// What an index is opened with.
#[derive(Debug, Clone, Copy)]
pub struct Opening<'a> {
    /// The directory of the index; made when the first file is.
    pub dir: &'a Path,
    /// Slots, entries and the bound of answers.
    pub config: &'a StoreConfig,
    /// How the store ended the last time.
    pub last_exit: LastExit,
}

/// The files of a directory, and what is to be done about it.
pub(super) struct Found<D: Disk> {
    pub(super) files: Files<D>,
    /// From this one on, files are not trusted.
    pub(super) keep: usize,
    /// Names without content: left by a crash in the making of a file.
    pub(super) unfinished: Vec<String>,
}

/// Looks at every file of a directory.
///
/// # Errors
/// [`Error::WrongFileSize`], [`Error::Io`].
pub(super) fn find<D: Disk>(
    disk: &D,
    layout: Layout,
    notices: &Notices,
    opening: &Opening<'_>,
) -> Result<Found<D>> {
    let mut found = Found {
        files: Vec::new(),
        keep: usize::MAX,
        unfinished: Vec::new(),
    };
    for entry in disk.list(opening.dir)? {
        let path = opening.dir.join(&entry.name);
        let stem = entry.name.strip_suffix(UNFINISHED_SUFFIX);
        if !entry.is_dir && stem.is_some_and(is_index_name) {
            found.unfinished.push(entry.name);
            continue;
        }
        if entry.is_dir || !is_index_name(&entry.name) {
            let text = "is no index file: it is left alone";
            notices.info(format!("{} {text}", path.display()));
            continue;
        }
        if entry.len_bytes == 0 {
            // The name of a file survived a crash, its length did not.
            found.unfinished.push(entry.name);
            continue;
        }
        if entry.len_bytes != layout.len_bytes() {
            return Err(Error::WrongFileSize {
                path,
                len_bytes: entry.len_bytes,
                expected_bytes: layout.len_bytes(),
                key: "maxIndexNum",
            });
        }
        let file = disk.open(&path, Open::Write)?;
        let header = read_header(&file)?;
        if found.keep == usize::MAX && !is_trusted(&header, layout, &path, opening, notices) {
            found.keep = found.files.len();
        }
        let file = IndexFile::new(&entry.name, file, layout, &header);
        found.files.push(Arc::new(file));
    }
    Ok(found)
}

/// Whether the file holds what its header counts. After an abnormal exit the official broker trusts
/// every file that does not end after the checkpoint. Here it must be full as well: the header of
/// a file that was being filled may be older than its slots.
fn is_trusted(
    header: &IndexHeader,
    layout: Layout,
    path: &Path,
    opening: &Opening<'_>,
    notices: &Notices,
) -> bool {
    if let Some(problem) = header.problem(layout) {
        notices.warn(format!(
            "{} is damaged: {problem}. It and the files after it are removed and made again from \
             the log",
            path.display()
        ));
        return false;
    }
    match opening.last_exit {
        LastExit::Clean => true,
        LastExit::Abnormal {
            checkpoint_index_timestamp_ms,
        } => {
            let is_full = i64::from(header.next_number) >= i64::from(layout.entries());
            is_full && header.end_timestamp_ms <= checkpoint_index_timestamp_ms
        }
    }
}
