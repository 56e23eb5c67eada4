//! An open file of the twin. Its content lives in the twin; a map of it holds a copy of what was
//! published, so that both see the same bytes. Knows no name but the one it was opened by.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::event::{CallKind, Change};
use super::faults::Fate;
use super::map::{TwinCells, TwinRegion};
use super::world::{Shared, World, failed, stopped};
use crate::disk::DiskFile;
use crate::error::Result;
use crate::mmap::Use;

/// Keeps the bytes of a file alive, with or without a name.
pub(super) struct Held {
    pub(super) shared: Arc<Shared>,
    pub(super) inode: u64,
    pub(super) path: Box<Path>,
}

impl Held {
    /// A sync of some pages, or of the whole file.
    pub(super) fn sync(&self, pages: Option<Range<usize>>) -> Result<()> {
        let (fate, passed) = self.shared.meet(CallKind::Sync, &self.path);
        if fate == Fate::Stopped {
            return Err(stopped(CallKind::Sync, &self.path));
        }
        let what = Change::Sync {
            inode: self.inode,
            covers: passed.began,
            pages,
            ok: fate == Fate::Goes,
        };
        self.shared.world.lock().record(CallKind::Sync, what);
        match fate {
            Fate::Fails(errno) => Err(failed(CallKind::Sync, &self.path, errno)),
            Fate::Goes | Fate::Stopped => Ok(()),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.world.lock().release(self.inode);
    }
}

/// An open file of the twin.
pub struct TwinFile {
    held: Arc<Held>,
    is_writable: bool,
}

impl fmt::Debug for TwinFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TwinFile")
            .field("path", &self.held.path)
            .field("inode", &self.held.inode)
            .finish_non_exhaustive()
    }
}

impl TwinFile {
    /// Takes over one hold of the file.
    pub(super) fn over(shared: &Arc<Shared>, inode: u64, path: &Path, is_writable: bool) -> Self {
        Self {
            held: Arc::new(Held {
                shared: Arc::clone(shared),
                inode,
                path: Box::from(path),
            }),
            is_writable,
        }
    }

    pub(super) fn inode(&self) -> u64 {
        self.held.inode
    }

    fn call<T>(
        &self,
        call: CallKind,
        work: impl FnOnce(&mut World) -> std::result::Result<T, i32>,
    ) -> Result<T> {
        let held = &self.held;
        held.shared.enter(call, &held.path)?;
        work(&mut held.shared.world.lock()).map_err(|errno| failed(call, &held.path, errno))
    }

    fn writable(&self, errno: i32) -> std::result::Result<(), i32> {
        if self.is_writable { Ok(()) } else { Err(errno) }
    }
}

impl DiskFile for TwinFile {
    type Region = TwinRegion;
    type Cells = TwinCells;

    fn path(&self) -> &Path {
        &self.held.path
    }

    fn read_at(&self, into: &mut [u8], position: u64) -> Result<usize> {
        self.call(CallKind::Read, |world| {
            let content = world.tree.content(self.held.inode).ok_or(libc::EBADF)?;
            Ok(content.read(into, position))
        })
    }

    fn read_cached_at(&self, into: &mut [u8], position: u64) -> Result<Option<usize>> {
        self.read_at(into, position).map(Some)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> Result<()> {
        let held = &self.held;
        let fails = |errno| failed(CallKind::Write, &held.path, errno);
        let (fate, _) = held.shared.meet(CallKind::Write, &held.path);
        self.writable(libc::EBADF).map_err(fails)?;
        let write = |bytes| {
            let mut world = held.shared.world.lock();
            world.write(CallKind::Write, held.inode, position, bytes)
        };
        match fate {
            Fate::Goes => write(bytes).map_err(fails),
            Fate::Fails(errno) => {
                // The contract: some of the bytes may have been written.
                let (half, _) = bytes.split_at(bytes.len() / 2);
                let _counted_as_failed = write(half);
                Err(fails(errno))
            }
            Fate::Stopped => Err(stopped(CallKind::Write, &held.path)),
        }
    }

    fn sync_data(&self) -> Result<()> {
        self.held.sync(None)
    }

    fn start_write_back(&self, _position: u64, _len_bytes: u64) {}

    fn allocate(&self, len_bytes: u64) -> Result<()> {
        self.call(CallKind::Allocate, |world| {
            self.writable(libc::EBADF)?;
            world.resize(self.held.inode, len_bytes, true)
        })
    }

    fn set_len(&self, len_bytes: u64) -> Result<()> {
        self.call(CallKind::SetLen, |world| {
            self.writable(libc::EINVAL)?;
            world.resize(self.held.inode, len_bytes, false)
        })
    }

    fn len_bytes(&self) -> Result<u64> {
        self.call(CallKind::Len, |world| {
            let content = world.tree.content(self.held.inode).ok_or(libc::EBADF)?;
            Ok(content.len_bytes)
        })
    }

    fn is_at(&self, path: &Path) -> Result<bool> {
        self.call(CallKind::Stat, |world| {
            Ok(world.tree.find(path)? == Some(self.held.inode))
        })
    }

    fn advise(&self, _use: Option<Use>, _position: u64, _len_bytes: u64) {}

    fn map(&self, len_bytes: u64, published: u64) -> Result<TwinRegion> {
        self.call(CallKind::Map, |world| {
            self.writable(libc::EACCES)?;
            TwinRegion::over(&self.held, world, len_bytes, published)
        })
    }

    fn map_cells(&self, len_bytes: u64) -> Result<TwinCells> {
        self.call(CallKind::Map, |world| {
            self.writable(libc::EACCES)?;
            TwinCells::over(&self.held, world, len_bytes)
        })
    }
}
