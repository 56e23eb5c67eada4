//! What happened to the twin, one after the other. Knows no state: numbers, bytes and names.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::content::Content;
use super::tree::NameChange;
use crate::error::SYNC_DIR_ACTION;

/// A kind of call of the disk; faults, delays and counts are set per kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(
    missing_docs,
    reason = "each is the method of `Disk`, `DiskFile` or a region"
)]
pub enum CallKind {
    Open,
    Stat,
    List,
    CreateDir,
    Rename,
    Unlink,
    RemoveDir,
    SyncDir,
    Space,
    FileSystem,
    Lock,
    Read,
    Write,
    Sync,
    Allocate,
    SetLen,
    Len,
    Map,
    Publish,
    StoreCell,
    Populate,
    LockMemory,
}

impl CallKind {
    /// The verb of the error, as the real disk writes it.
    pub(super) fn action(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Stat | Self::Len => "stat",
            Self::List => "list",
            Self::CreateDir => "create directory",
            Self::Rename => "rename",
            Self::Unlink => "remove",
            Self::RemoveDir => "remove directory",
            Self::SyncDir => SYNC_DIR_ACTION,
            Self::Space | Self::FileSystem => "stat file system of",
            Self::Lock => "lock",
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Allocate => "allocate",
            Self::SetLen => "set the length of",
            Self::Map => "map",
            Self::Publish => "publish",
            Self::StoreCell => "store a cell of",
            Self::Populate => "populate",
            Self::LockMemory => "lock in memory",
        }
    }
}

/// One change.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) call: CallKind,
    pub(super) at_ms: i64,
    /// The change mark that the file has from here on.
    pub(super) mark: u64,
    pub(super) what: Change,
}

/// What changed. `covers` is the number of events that had happened when a sync began: what came
/// while it ran is not part of it.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Write {
        inode: u64,
        position: u64,
        bytes: Arc<[u8]>,
    },
    Length {
        inode: u64,
        len_bytes: u64,
        allocated: bool,
    },
    /// `pages` are those that were written; `None`: all of the file.
    Sync {
        inode: u64,
        covers: u64,
        pages: Option<Range<usize>>,
        ok: bool,
    },
    Names(NameChange),
    SyncDir {
        inode: u64,
        covers: u64,
        ok: bool,
    },
    /// Damage or a file from outside: on the device at once.
    Placed {
        inode: u64,
        content: Arc<Content>,
    },
    /// A name from outside: on the device at once.
    PlacedName(NameChange),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = self.call.action();
        let outcome = |ok: bool| if ok { "" } else { " (failed)" };
        match &self.what {
            Change::Write {
                inode,
                position,
                bytes,
            } => write!(f, "{verb} #{inode}: {} bytes at {position}", bytes.len()),
            Change::Length {
                inode, len_bytes, ..
            } => write!(f, "{verb} #{inode}: {len_bytes} bytes"),
            Change::Sync {
                inode,
                pages: Some(pages),
                ok,
                ..
            } => write!(f, "{verb} #{inode}: pages {pages:?}{}", outcome(*ok)),
            Change::Sync { inode, ok, .. } | Change::SyncDir { inode, ok, .. } => {
                write!(f, "{verb} #{inode}{}", outcome(*ok))
            }
            Change::Placed { inode, .. } => write!(f, "content of #{inode} placed"),
            Change::Names(change) | Change::PlacedName(change) => match change {
                NameChange::Create {
                    dir, name, inode, ..
                } => write!(f, "create #{dir}/{name} = #{inode}"),
                NameChange::Remove { dir, name, inode } => {
                    write!(f, "remove #{dir}/{name} = #{inode}")
                }
                NameChange::Rename { from, to, inode } => write!(
                    f,
                    "rename #{}/{} to #{}/{} = #{inode}",
                    from.0, from.1, to.0, to.1
                ),
            },
        }
    }
}
