//! Maps of the twin's files. A region's memory is a copy: a reservation starts with the bytes of
//! the file, publishing writes them back as one event, and what came through the file is copied
//! when it is published. So nothing that was not published reaches the file, except a reservation
//! that was written and dropped: that is seen, and recorded, at the next one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::lock::Mutex;

use super::content::PAGE_BYTES;
use super::event::CallKind;
use super::faults::Fate;
use super::file::Held;
use super::world::World;
use crate::disk::{CellRegion, Region};
use crate::error::Result;
use crate::mmap::{Cells, Map, Reservation, Use};

/// Up to this, a map is memory of the heap: two system calls for each would be most of the cost of
/// opening a small crash image.
const HEAP_BYTES_MAX: u64 = 256 * 1024;

/// A mapped file of the twin.
pub struct TwinRegion {
    map: Map,
    held: Arc<Held>,
    /// The range that was reserved and not published.
    unfinished: Mutex<Option<(u64, usize)>>,
}

impl std::fmt::Debug for TwinRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TwinRegion")
            .field("path", &self.held.path)
            .field("map", &self.map)
            .finish_non_exhaustive()
    }
}

/// Mapped cells of a file of the twin.
pub struct TwinCells {
    cells: Arc<Cells>,
    held: Arc<Held>,
}

impl std::fmt::Debug for TwinCells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TwinCells")
            .field("path", &self.held.path)
            .finish_non_exhaustive()
    }
}

fn errno(error: &std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::ENOMEM)
}

impl Held {
    /// Counts a touch of mapped bytes that the file does not have.
    fn check(&self, end: u64) {
        if self.shared.is_cut.load(Ordering::Acquire) {
            let world = self.shared.world.lock();
            let len_bytes = world.tree.content(self.inode).map_or(0, |c| c.len_bytes);
            if end > len_bytes {
                self.shared.bus_errors.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Writes mapped bytes; those past the end, or without space on the device, are SIGBUS.
    fn write_mapped(&self, world: &mut World, call: CallKind, position: u64, bytes: &[u8]) {
        let len_bytes = world.tree.content(self.inode).map_or(0, |c| c.len_bytes);
        let mapped_len = usize::try_from(len_bytes.saturating_sub(position)).unwrap_or(usize::MAX);
        let inside = bytes.get(..mapped_len.min(bytes.len())).unwrap_or_default();
        let written = world.write(call, self.inode, position, inside);
        if inside.len() < bytes.len() || written.is_err() {
            self.shared.bus_errors.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl TwinRegion {
    pub(super) fn over(
        held: &Arc<Held>,
        world: &World,
        len_bytes: u64,
        published: u64,
    ) -> std::result::Result<Self, i32> {
        let map = if len_bytes <= HEAP_BYTES_MAX {
            Map::heap(len_bytes)
        } else {
            Map::anonymous(len_bytes)
        };
        let region = Self {
            map: map.map_err(|error| errno(&error))?,
            held: Arc::clone(held),
            unfinished: Mutex::new(None),
        };
        region.copy_in(world, published);
        Ok(region)
    }

    /// Publishes through `position` what the file holds.
    fn copy_in(&self, world: &World, position: u64) {
        let from = self.map.published();
        let end = position.min(self.map.len_bytes());
        // Refused while someone has a reservation: then only the position moves, as in a real map.
        if from < end
            && let Some(mut bytes) = self.map.reserve(from, (end - from) as usize)
            && let Some(content) = world.tree.content(self.held.inode)
        {
            content.read(&mut bytes, from);
        }
        self.map.publish_through(position);
    }

    /// Records what a dropped reservation left in the map; false while one is at work.
    fn settle(&self) -> bool {
        let mut unfinished = self.unfinished.lock();
        let Some((position, len)) = *unfinished else {
            return true;
        };
        if let Some(bytes) = self.map.reserve(position, len) {
            let mut world = self.held.shared.world.lock();
            let mut before = vec![0; len];
            if let Some(content) = world.tree.content(self.held.inode) {
                content.read(&mut before, position);
            }
            if before != *bytes && !world.faults.is_stopped() {
                self.held
                    .write_mapped(&mut world, CallKind::Publish, position, &bytes);
            }
        } else if position >= self.map.published() {
            return false;
        }
        *unfinished = None;
        true
    }
}

impl Region for TwinRegion {
    fn len_bytes(&self) -> u64 {
        self.map.len_bytes()
    }

    fn published(&self) -> u64 {
        self.map.published()
    }

    fn reserve(&self, position: u64, len: usize) -> Option<Reservation<'_>> {
        if !self.settle() {
            return None;
        }
        let mut reservation = self.map.reserve(position, len)?;
        let world = self.held.shared.world.lock();
        if let Some(content) = world.tree.content(self.held.inode) {
            content.read(&mut reservation, position);
        }
        drop(world);
        *self.unfinished.lock() = Some((position, len));
        Some(reservation)
    }

    fn publish(&self, reservation: Reservation<'_>) {
        let position = reservation.end() - reservation.len() as u64;
        let (fate, _) = self.held.shared.meet(CallKind::Publish, &self.held.path);
        if fate != Fate::Stopped {
            let mut world = self.held.shared.world.lock();
            self.held
                .write_mapped(&mut world, CallKind::Publish, position, &reservation);
        }
        *self.unfinished.lock() = None;
        reservation.publish();
    }

    fn publish_through(&self, position: u64) {
        self.copy_in(&self.held.shared.world.lock(), position);
    }

    fn slice(&self, position: u64, len: usize) -> Option<&[u8]> {
        let slice = self.map.slice(position, len)?;
        self.held.check(position + len as u64);
        Some(slice)
    }

    fn populate(&self, _position: u64, _len_bytes: u64) -> Result<()> {
        self.held
            .shared
            .enter(CallKind::Populate, &self.held.path)
            .map(|_passed| ())
    }

    fn sync(&self, position: u64, len_bytes: u64) -> Result<()> {
        let end = position.saturating_add(len_bytes).min(self.len_bytes());
        let page = PAGE_BYTES as u64;
        // No page where nothing is left of the range: a sync all the same, which may fail.
        let pages = (position / page) as usize..end.div_ceil(page) as usize;
        self.held.sync(Some(pages))
    }

    fn release(&self, _position: u64, _len_bytes: u64) {}

    fn advise(&self, _use: Use, _position: u64, _len_bytes: u64) {}

    fn lock(&self) -> Result<()> {
        self.held
            .shared
            .enter(CallKind::LockMemory, &self.held.path)
            .map(|_passed| ())
    }

    fn unlock(&self) {}

    fn resident_pages(&self, position: u64, len_bytes: u64) -> u64 {
        self.map.resident_pages(position, len_bytes).unwrap_or(0)
    }
}

impl TwinCells {
    pub(super) fn over(
        held: &Arc<Held>,
        world: &mut World,
        len_bytes: u64,
    ) -> std::result::Result<Self, i32> {
        let cells = if len_bytes <= HEAP_BYTES_MAX {
            Cells::heap(len_bytes)
        } else {
            Cells::anonymous(len_bytes)
        };
        let cells = Arc::new(cells.map_err(|error| errno(&error))?);
        let maps = world.cells.entry(held.inode).or_default();
        maps.push(Arc::downgrade(&cells));
        let filled = world.tree.content(held.inode).map_or(0, |c| c.len_bytes);
        world.refresh_cells(held.inode, 0, filled);
        let held = Arc::clone(held);
        Ok(Self { cells, held })
    }
}

impl CellRegion for TwinCells {
    fn len_bytes(&self) -> u64 {
        self.cells.len_bytes()
    }

    fn load(&self, position: u64) -> u32 {
        self.held.check(position.saturating_add(4));
        self.cells.load(position)
    }

    fn store(&self, position: u64, value: u32) -> bool {
        if !position.is_multiple_of(4) || position.saturating_add(4) > self.cells.len_bytes() {
            return false;
        }
        let (fate, _) = self.held.shared.meet(CallKind::StoreCell, &self.held.path);
        if fate != Fate::Stopped {
            let mut world = self.held.shared.world.lock();
            let bytes = value.to_be_bytes();
            self.held
                .write_mapped(&mut world, CallKind::StoreCell, position, &bytes);
        }
        self.cells.store(position, value)
    }
}
