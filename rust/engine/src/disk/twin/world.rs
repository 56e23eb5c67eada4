//! The live state of a twin behind one lock, and the gate that every call passes. Knows nothing of
//! crash images.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::lock::Mutex;

use super::content::{FILE_BYTES_MAX, PAGE_BYTES};
use super::event::{CallKind, Change, Event};
use super::faults::{Fate, Faults};
use super::tree::{NameChange, Node, Tree};
use crate::clock::{Clock, ManualClock};
use crate::error::{Error, Result};
use crate::mmap::Cells;

/// Space of a twin by default: more than a test writes.
const SPACE_BYTES: u64 = 1 << 44;
/// The first start of the machine of a twin.
pub(super) const FIRST_BOOT_ID: u128 = 1;

/// Called before each call, without the twin's lock: a test may wait, or turn a clock.
pub(super) type Hook = Arc<dyn Fn(CallKind, &Path) + Send + Sync>;

/// A disk in memory; clones are the same disk.
#[derive(Clone)]
pub struct TwinDisk {
    pub(super) shared: Arc<Shared>,
}

impl fmt::Debug for TwinDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = self.shared.world.lock().count;
        f.debug_struct("TwinDisk").field("events", &events).finish()
    }
}

pub(super) struct Shared {
    pub(super) world: Mutex<World>,
    /// Touches of mapped bytes that would have been SIGBUS.
    pub(super) bus_errors: AtomicU64,
    /// A file was cut under its holders: touches of maps are checked from then on.
    pub(super) is_cut: AtomicBool,
    /// Whether a call has met the stop: who looks after each step needs no lock.
    pub(super) is_stopped: AtomicBool,
}

pub(super) struct World {
    pub(super) tree: Tree,
    /// The tree when the history began.
    pub(super) base: Tree,
    pub(super) events: Vec<Event>,
    /// Number of events, also when they are not kept.
    pub(super) count: u64,
    pub(super) is_recorded: bool,
    next_inode: u64,
    next_mark: u64,
    pub(super) holders: BTreeMap<u64, u32>,
    pub(super) orphans: BTreeSet<u64>,
    pub(super) locks: BTreeSet<u64>,
    /// Cells that must see what is written through the file.
    pub(super) cells: BTreeMap<u64, Vec<Weak<Cells>>>,
    pub(super) faults: Faults,
    pub(super) hook: Option<Hook>,
    pub(super) total_bytes: u64,
    pub(super) free_bytes: u64,
    pub(super) clock: ManualClock,
    /// Which start of the machine this is.
    pub(super) boot_id: Option<u128>,
    /// Directories whose names may not be durable, with the directories that hold them.
    pub(super) unsynced_dirs: BTreeMap<u64, u64>,
}

/// What the gate returns for a call that goes on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passed {
    /// Events that had happened when the call began.
    pub(super) began: u64,
}

impl Shared {
    /// Every call that can fail passes here first.
    pub(super) fn enter(&self, call: CallKind, path: &Path) -> Result<Passed> {
        match self.meet(call, path) {
            (Fate::Goes, passed) => Ok(passed),
            (Fate::Fails(errno), _) => Err(failed(call, path, errno)),
            (Fate::Stopped, _) => Err(stopped(call, path)),
        }
    }

    /// The gate for calls that do something even when they fail.
    pub(super) fn meet(&self, call: CallKind, path: &Path) -> (Fate, Passed) {
        let mut world = self.world.lock();
        let fate = world.faults.meet(call, path);
        if fate == Fate::Stopped {
            self.is_stopped.store(true, Ordering::Release);
        }
        let began = world.count;
        let sleep = world.faults.delay(call);
        let hook = world.hook.clone();
        drop(world);
        if let Some(hook) = hook {
            hook(call, path);
        }
        if let Some(sleep) = sleep {
            std::thread::sleep(sleep);
        }
        (fate, Passed { began })
    }
}

/// The error of a failed call, as the real disk gives it.
pub(super) fn failed(call: CallKind, path: &Path, errno: i32) -> Error {
    Error::io(call.action(), path, &io::Error::from_raw_os_error(errno))
}

/// The error of a call after the stop.
pub(super) fn stopped(call: CallKind, path: &Path) -> Error {
    Error::Io {
        action: call.action(),
        path: path.to_owned(),
        errno: libc::EIO,
        message: "stopped".to_owned(),
    }
}

impl World {
    pub(super) fn over(tree: Tree, clock: ManualClock, boot_id: Option<u128>) -> Self {
        let last = tree.nodes.keys().next_back().copied().unwrap_or_default();
        let mark_of = |node: &Node| match node {
            Node::File(content) => content.mark,
            Node::Dir(_) => 0,
        };
        let mark = tree.nodes.values().map(mark_of).max().unwrap_or(0);
        Self {
            base: tree.clone(),
            tree,
            events: Vec::new(),
            count: 0,
            is_recorded: true,
            next_inode: last + 1,
            next_mark: mark + 1,
            holders: BTreeMap::new(),
            orphans: BTreeSet::new(),
            locks: BTreeSet::new(),
            cells: BTreeMap::new(),
            faults: Faults::default(),
            hook: None,
            total_bytes: SPACE_BYTES,
            free_bytes: SPACE_BYTES,
            clock,
            boot_id,
            unsynced_dirs: BTreeMap::new(),
        }
    }

    pub(super) fn record(&mut self, call: CallKind, what: Change) {
        self.count += 1;
        if self.is_recorded {
            let at_ms = self.clock.now_ms();
            let mark = self.next_mark - 1;
            self.events.push(Event {
                call,
                at_ms,
                mark,
                what,
            });
        }
    }

    /// Applies a change of names that was found to be possible, and records it.
    pub(super) fn rename_or_so(&mut self, call: CallKind, change: NameChange) {
        self.tree.apply(&change);
        if let NameChange::Create {
            dir,
            inode,
            is_dir: true,
            ..
        } = &change
        {
            self.unsynced_dirs.insert(*inode, *dir);
        }
        self.record(call, Change::Names(change));
    }

    pub(super) fn new_inode(&mut self) -> u64 {
        let inode = self.next_inode;
        self.next_inode += 1;
        inode
    }

    /// Marks the file as changed now.
    pub(super) fn touch(&mut self, inode: u64) {
        let mark = self.next_mark;
        self.next_mark += 1;
        let modified_ms = self.clock.now_ms();
        if let Some(content) = self.tree.content_mut(inode) {
            content.mark = mark;
            content.modified_ms = modified_ms;
        }
    }

    /// Takes space for a range that will be written; `Err` is the number of bytes that fit.
    fn take_space(
        &mut self,
        inode: u64,
        position: u64,
        len_bytes: u64,
    ) -> std::result::Result<(), u64> {
        let Some(content) = self.tree.content(inode) else {
            return Ok(());
        };
        let page = PAGE_BYTES as u64;
        let missing = content.pages_missing(position, len_bytes) * page;
        if missing <= self.free_bytes {
            self.free_bytes -= missing;
            return Ok(());
        }
        let mut fits = 0;
        while fits < len_bytes {
            let next = (page - (position + fits) % page).min(len_bytes - fits);
            if content.pages_missing(position, fits + next) * page > self.free_bytes {
                break;
            }
            fits += next;
        }
        Err(fits)
    }

    /// Writes into a file as `write(2)` does: what fits is written even when not all of it does.
    pub(super) fn write(
        &mut self,
        call: CallKind,
        inode: u64,
        position: u64,
        bytes: &[u8],
    ) -> std::result::Result<(), i32> {
        let end = position.saturating_add(bytes.len() as u64);
        if end > FILE_BYTES_MAX {
            return Err(libc::EFBIG);
        }
        if bytes.is_empty() {
            return Ok(());
        }
        if let Err(fits) = self.take_space(inode, position, bytes.len() as u64) {
            if let Some(first) = bytes.get(..fits as usize).filter(|first| !first.is_empty()) {
                self.write(call, inode, position, first)?;
            }
            return Err(libc::ENOSPC);
        }
        let Some(content) = self.tree.content_mut(inode) else {
            return Err(libc::EBADF);
        };
        content.write(bytes, position);
        self.touch(inode);
        self.refresh_cells(inode, position, bytes.len() as u64);
        if self.is_recorded {
            let bytes = Arc::from(bytes);
            let what = Change::Write {
                inode,
                position,
                bytes,
            };
            self.record(call, what);
        } else {
            self.count += 1;
        }
        Ok(())
    }

    /// Sets a length, cutting or growing; or allocates up to it, which only grows.
    pub(super) fn resize(
        &mut self,
        inode: u64,
        len_bytes: u64,
        allocates: bool,
    ) -> std::result::Result<(), i32> {
        if len_bytes > FILE_BYTES_MAX {
            return Err(libc::EFBIG);
        }
        let held = |world: &Self| world.tree.content(inode).map_or(0, |c| c.pages_held());
        if allocates {
            self.take_space(inode, 0, len_bytes)
                .map_err(|_fits| libc::ENOSPC)?;
        }
        let before = held(self);
        let Some(content) = self.tree.content_mut(inode) else {
            return Err(libc::EBADF);
        };
        if allocates {
            content.allocated_to = content.allocated_to.max(len_bytes);
            content.len_bytes = content.len_bytes.max(len_bytes);
        } else {
            content.set_len(len_bytes);
            self.free_bytes += before.saturating_sub(held(self)) * PAGE_BYTES as u64;
        }
        self.touch(inode);
        let call = if allocates {
            CallKind::Allocate
        } else {
            CallKind::SetLen
        };
        let what = Change::Length {
            inode,
            len_bytes,
            allocated: allocates,
        };
        self.record(call, what);
        Ok(())
    }

    /// Brings the cells of a range up to the content of their file.
    pub(super) fn refresh_cells(&mut self, inode: u64, position: u64, len_bytes: u64) {
        let (Some(maps), Some(content)) = (self.cells.get_mut(&inode), self.tree.content(inode))
        else {
            return;
        };
        maps.retain(|map| map.strong_count() > 0);
        for map in maps.iter().filter_map(Weak::upgrade) {
            let end = position.saturating_add(len_bytes).min(map.len_bytes());
            let mut at = position - position % 4;
            while at < end {
                let mut cell = [0; 4];
                content.read(&mut cell, at);
                map.store(at, u32::from_be_bytes(cell));
                at += 4;
            }
        }
    }

    /// The name of the file is gone; its bytes go with the last holder.
    pub(super) fn orphan(&mut self, inode: u64) {
        if self.holders.contains_key(&inode) {
            self.orphans.insert(inode);
        } else {
            self.give_back(inode);
        }
    }

    fn give_back(&mut self, inode: u64) {
        if let Some(content) = self.tree.content(inode) {
            self.free_bytes += content.pages_held() * PAGE_BYTES as u64;
        }
        self.tree.nodes.remove(&inode);
    }

    pub(super) fn hold(&mut self, inode: u64) {
        *self.holders.entry(inode).or_insert(0) += 1;
    }

    pub(super) fn release(&mut self, inode: u64) {
        let left = self.holders.get_mut(&inode).map(|count| {
            *count -= 1;
            *count
        });
        if left == Some(0) {
            self.holders.remove(&inode);
            if self.orphans.remove(&inode) {
                self.give_back(inode);
            }
        }
    }
}
