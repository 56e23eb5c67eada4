//! Every way in which the store can refuse or fail, grouped by what the caller can do about it.
//! Knows no file format and no thread. Callers match it without a wildcard.

use std::path::{Path, PathBuf};

use mqcore_record::RecordError;

/// The result of everything that touches the store.
pub type Result<T> = std::result::Result<T, Error>;

/// What the disks call the sync of a directory.
pub(crate) const SYNC_DIR_ACTION: &str = "sync directory";

/// Why the store refused or failed. Each gives what, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("cannot {action} {}: {message} (errno {errno})", path.display())]
    Io {
        /// What was tried, as a verb: "open", "sync", ...
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error number, 0 when it gave none.
        errno: i32,
        /// The system's text.
        message: String,
    },
    /// Another process has the store open for writing.
    #[error("{} is locked: a broker is running on this store; stop it first", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// A setting has a value that cannot work.
    #[error("setting {key} = {value}: {why}")]
    Config {
        /// The setting's name.
        key: String,
        /// The value given.
        value: String,
        /// What is wrong and what would be right.
        why: String,
    },
    /// A store file has not the size that the settings give.
    #[error(
        "{} is {len_bytes} bytes long, {key} says {expected_bytes}: set {key} to the size the \
         store was written with", path.display()
    )]
    WrongFileSize {
        /// The file.
        path: PathBuf,
        /// Its length.
        len_bytes: u64,
        /// The length that the setting asks for.
        expected_bytes: u64,
        /// The setting.
        key: &'static str,
    },
    /// There is a file or directory where none, or another kind, is expected.
    #[error("{}: {why}", path.display())]
    ForeignFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it and what to do.
        why: String,
    },
    /// Bytes that were whole once are not any more.
    #[error(
        "{} is damaged at position {position} (physical offset {physical_offset}): {why}; \
         {whole_records} whole records follow it. Restore the file, or give up the bad bytes and \
         keep what follows with `mqcore store recover {} --keep`, or end the log there with \
         `mqcore store recover {} --cut`",
        path.display(), store.display(), store.display()
    )]
    Damaged {
        /// The directory of the store.
        store: PathBuf,
        /// The file.
        path: PathBuf,
        /// Byte in the file.
        position: u64,
        /// The same place as an offset of the log.
        physical_offset: u64,
        /// What does not hold there.
        why: String,
        /// Whole records behind it.
        whole_records: u64,
    },
    /// A sync or write failed earlier: nothing more is acknowledged until the store is reopened.
    #[error("the store stopped acknowledging after an earlier failure: {reason}; reopen it")]
    Poisoned {
        /// The first failure.
        reason: String,
    },
    /// The store does not take writes now.
    #[error("the store takes no writes: {reason}")]
    NotWritable {
        /// Why, and when it may change.
        reason: String,
    },
    /// The store is closed, or closing.
    #[error("the store is closed")]
    Closed,
    /// A forked child uses the store of its parent.
    #[error("this store was opened by process {opener}; a forked child must open its own")]
    Forked {
        /// Process id of the opener.
        opener: u32,
    },
    /// The message itself cannot be stored.
    #[error("{0}")]
    Message(#[from] RecordError),
    /// The next log file could not be made in time.
    #[error("no next log file: {reason}")]
    NoSegment {
        /// Why.
        reason: String,
    },
    /// The append lock is held longer than `osPageCacheBusyTimeOutMills`.
    #[error("the append lock is held since {held_ms} ms (osPageCacheBusyTimeOutMills)")]
    PageCacheBusy {
        /// How long the holder has it.
        held_ms: u64,
    },
    /// A wait came to its end before what was waited for.
    #[error("{what} did not happen within {waited_ms} ms")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// How long.
        waited_ms: u64,
    },
    /// Nothing is stored at this place.
    #[error("no record at physical offset {physical_offset}: {why}")]
    NoRecord {
        /// The place asked for.
        physical_offset: u64,
        /// Why there is none.
        why: String,
    },
    /// A bound of the store was met.
    #[error("{what}: the limit is {limit}")]
    Limit {
        /// What was asked for.
        what: String,
        /// The bound.
        limit: u64,
    },
    /// A text file of the store (JSON) cannot be read, nor can its earlier generation.
    #[error("{}: {why}", path.display())]
    BadText {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// The system's text of an error, without the number that is shown beside it.
fn system_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" (os error ") {
        Some((words, _)) if error.raw_os_error().is_some() => words.to_owned(),
        _ => text,
    }
}

impl Error {
    /// An [`Error::Io`] from the system's error.
    #[must_use]
    pub fn io(action: &'static str, path: &Path, error: &std::io::Error) -> Self {
        Self::Io {
            action,
            path: path.to_owned(),
            errno: error.raw_os_error().unwrap_or(0),
            message: system_text(error),
        }
    }

    /// The system's error number when this is a failed system call.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Io { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// True when the sync of a directory failed: nothing is known of its names from then on.
    #[must_use]
    pub fn is_failed_dir_sync(&self) -> bool {
        matches!(self, Self::Io { action, .. } if *action == SYNC_DIR_ACTION)
    }

    /// True when the disk has no space (ENOSPC, EDQUOT): it may heal when space returns.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        matches!(self.errno(), Some(libc::ENOSPC | libc::EDQUOT))
    }
}
