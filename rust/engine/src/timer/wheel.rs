//! `timerwheel`: one slot per step of time, each the ends of a chain in the timer log
//! (`TimerWheel`, `Slot`). Knows no message and no clock.
//!
//! The file has [`SLOTS`] slots of 32 bytes: i64 time in steps, i64 first and i64 last position (-1
//! for none), i32 count, i32 magic (0). In memory are the pages that hold a slot which may still be
//! read, and no others: a million messages over three days keep 8 MiB. A slot of a page that is not
//! in memory is empty.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashMap;

use crate::disk::{Disk, DiskFile, Open, read_exact_at};
use crate::error::{Error, Result};
use crate::lock::Mutex;
use crate::units::PAGE_BYTES;

/// Slots of the file: twice seven days of seconds, whatever the step.
pub const SLOTS: u64 = 7 * 86_400 * 2;
/// Bytes of a slot.
const SLOT_BYTES: usize = 32;
const PAGE: usize = PAGE_BYTES as usize;
const SLOTS_PER_PAGE: u64 = (PAGE / SLOT_BYTES) as u64;
const FILE_LEN_BYTES: u64 = SLOTS * SLOT_BYTES as u64;
const _: () = assert!(FILE_LEN_BYTES.is_multiple_of(PAGE_BYTES));
const EMPTY_PAGE: [u8; PAGE] = [0; PAGE];
/// Bytes read at a time when the file is looked through.
const SCAN_BYTES: usize = 256 * PAGE;

/// A slot that has messages, or had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Its time, ms.
    pub time_ms: i64,
    /// Position of its oldest unit.
    pub first: i64,
    /// Position of its newest unit.
    pub last: i64,
    /// Its messages, deletions taken off.
    pub count: i32,
}

struct Page {
    bytes: Box<[u8; PAGE]>,
    is_dirty: bool,
}

/// The wheel. Any thread may call it; the lock is never held while the disk is waited for, but when
/// a page comes back into memory.
pub struct Wheel<D: Disk> {
    path: PathBuf,
    step_ms: i64,
    file: D::File,
    pages: Mutex<HashMap<u64, Page>>,
    /// Whether all of the file but pages that are dirty is durable, and its name: what was there at the open may
    /// be in the memory of the system alone, written by a process that has ended.
    is_synced: AtomicBool,
    /// The latest time of a slot that the file had when it was opened, in steps; 0 for none.
    newest_steps: i64,
}

impl<D: Disk> Wheel<D> {
    /// Opens the file, or makes it, and takes the slots from `read_ms` on into memory.
    ///
    /// # Errors
    /// [`Error::ForeignFile`] for another length, [`Error::Io`].
    pub(super) fn open(disk: &D, path: &Path, step_ms: i64, read_ms: i64) -> Result<Self> {
        let stat = disk.stat(path)?;
        if let Some(stat) = stat
            && stat.len_bytes != 0
            && stat.len_bytes != FILE_LEN_BYTES
        {
            let why = format!(
                "a timer wheel has {FILE_LEN_BYTES} bytes, this file {}: move it away to start \
                 with no timers",
                stat.len_bytes
            );
            return Err(Error::ForeignFile {
                path: path.to_owned(),
                why,
            });
        }
        let file = disk.open(path, Open::Create)?;
        let mut wheel = Self {
            path: path.to_owned(),
            step_ms,
            file,
            pages: Mutex::default(),
            is_synced: AtomicBool::new(false),
            newest_steps: 0,
        };
        if stat.is_some_and(|stat| stat.len_bytes != 0) {
            wheel.newest_steps = wheel.load(read_ms)?;
        } else {
            wheel.file.set_len(FILE_LEN_BYTES)?;
        }
        // Also of a file that was there: whoever made it may have ended before this.
        if let Some(dir) = path.parent() {
            disk.sync_dir(dir)?;
        }
        Ok(wheel)
    }

    /// Makes every slot empty: the log is about to give what they hold.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn reset(&self) -> Result<()> {
        self.pages.lock().clear();
        self.is_synced.store(false, Ordering::Relaxed);
        self.file.set_len(0)?;
        self.file.set_len(FILE_LEN_BYTES)
    }

    /// Whether the slots were written with another step when the file was opened: their times are then
    /// nowhere near `read_ms`.
    pub(super) fn is_of_another_step(&self, read_ms: i64) -> bool {
        // Steps differ by a factor of two at the least; times of slots by weeks at the most.
        let newest_ms = self.newest_steps.saturating_mul(self.step_ms);
        newest_ms > 0 && (newest_ms / 3 > read_ms / 2 || newest_ms / 2 < read_ms / 3)
    }

    /// Looks at the pages of the file that hold anything.
    fn scan(&self, mut look: impl FnMut(u64, &[u8; PAGE])) -> Result<()> {
        let mut chunk = vec![0; SCAN_BYTES];
        let mut position = 0;
        while position < FILE_LEN_BYTES {
            let len = SCAN_BYTES.min((FILE_LEN_BYTES - position) as usize);
            read_exact_at(&self.file, &mut chunk[..len], position)?;
            for (at, bytes) in chunk[..len].chunks_exact(PAGE).enumerate() {
                // Most of a wheel is empty.
                if let Ok(bytes) = <&[u8; PAGE]>::try_from(bytes)
                    && bytes != &EMPTY_PAGE
                {
                    look(position / PAGE_BYTES + at as u64, bytes);
                }
            }
            position += len as u64;
        }
        Ok(())
    }

    /// Takes every page with a slot from `read_ms` on into memory; the latest time of all slots, in steps.
    fn load(&self, read_ms: i64) -> Result<i64> {
        let mut pages = self.pages.lock();
        let mut newest_steps = 0;
        self.scan(|number, bytes| {
            let times = bytes.chunks_exact(SLOT_BYTES).map(|slot| long(slot, 0));
            newest_steps = newest_steps.max(times.max().unwrap_or(0));
            if self.is_live(bytes, read_ms) {
                let page = Page {
                    bytes: Box::new(*bytes),
                    is_dirty: false,
                };
                pages.insert(number, page);
            }
        })?;
        Ok(newest_steps)
    }

    /// Whether a page has a slot from `read_ms` on.
    fn is_live(&self, page: &[u8], read_ms: i64) -> bool {
        let from = read_ms / self.step_ms;
        page.chunks_exact(SLOT_BYTES)
            .any(|slot| long(slot, 0) >= from.max(1))
    }

    /// The length of a step, ms (`timerPrecisionMs`).
    #[must_use]
    pub fn step_ms(&self) -> i64 {
        self.step_ms
    }

    /// A time on the step at or before it.
    #[must_use]
    pub fn floored(&self, time_ms: i64) -> i64 {
        time_ms - time_ms.rem_euclid(self.step_ms)
    }

    fn index(&self, time_ms: i64) -> u64 {
        time_ms.max(0).unsigned_abs() / self.step_ms.unsigned_abs() % SLOTS
    }

    /// The slot of a time; `None` when nothing was ever put into it.
    #[must_use]
    pub fn slot(&self, time_ms: i64) -> Option<Slot> {
        let index = self.index(time_ms);
        let pages = self.pages.lock();
        let page = pages.get(&(index / SLOTS_PER_PAGE))?;
        self.read(&page.bytes, index, time_ms)
    }

    fn read(&self, page: &[u8; PAGE], index: u64, time_ms: i64) -> Option<Slot> {
        let at = (index % SLOTS_PER_PAGE) as usize * SLOT_BYTES;
        let bytes = &page[at..at + SLOT_BYTES];
        let steps = time_ms / self.step_ms;
        (long(bytes, 0) == steps).then(|| Slot {
            time_ms: steps * self.step_ms,
            first: long(bytes, 8),
            last: long(bytes, 16),
            count: int(bytes, 24),
        })
    }

    /// Puts a slot in place of whatever its bytes held.
    ///
    /// # Errors
    /// [`Error::Io`]: its page had to be read, and could not.
    pub(super) fn put(&self, slot: &Slot) -> Result<()> {
        let index = self.index(slot.time_ms);
        self.change(index, |bytes| {
            bytes[..8].copy_from_slice(&(slot.time_ms / self.step_ms).to_be_bytes());
            bytes[8..16].copy_from_slice(&slot.first.to_be_bytes());
            bytes[16..24].copy_from_slice(&slot.last.to_be_bytes());
            bytes[24..28].copy_from_slice(&slot.count.to_be_bytes());
            bytes[28..32].fill(0);
        })
    }

    fn change(&self, index: u64, change: impl FnOnce(&mut [u8])) -> Result<()> {
        let number = index / SLOTS_PER_PAGE;
        let mut pages = self.pages.lock();
        let page = match pages.entry(number) {
            hashbrown::hash_map::Entry::Occupied(found) => found.into_mut(),
            hashbrown::hash_map::Entry::Vacant(vacant) => {
                let mut bytes = Box::new([0; PAGE]);
                read_exact_at(&self.file, &mut bytes[..], number * PAGE_BYTES)?;
                vacant.insert(Page {
                    bytes,
                    is_dirty: false,
                })
            }
        };
        page.is_dirty = true;
        let at = (index % SLOTS_PER_PAGE) as usize * SLOT_BYTES;
        change(&mut page.bytes[at..at + SLOT_BYTES]);
        Ok(())
    }

    /// Empties the slots of `[from_ms, to_ms)`: they were delivered, and their time comes again.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn clear(&self, from_ms: i64, to_ms: i64) -> Result<()> {
        let steps = (to_ms - from_ms) / self.step_ms;
        let steps = steps.clamp(0, SLOTS.cast_signed());
        let mut step = 0;
        while step < steps {
            let time_ms = from_ms + step * self.step_ms;
            let index = self.index(time_ms);
            self.change(index, |bytes| {
                if long(bytes, 0) == time_ms / self.step_ms {
                    bytes.fill(0);
                }
            })?;
            step += 1;
        }
        Ok(())
    }

    /// The first time of `[from_ms, to_ms)` whose slot has something, or `to_ms`.
    #[must_use]
    pub fn next_used(&self, from_ms: i64, to_ms: i64) -> i64 {
        let pages = self.pages.lock();
        let mut time_ms = from_ms;
        while time_ms < to_ms {
            let index = self.index(time_ms);
            match pages.get(&(index / SLOTS_PER_PAGE)) {
                Some(page) if self.read(&page.bytes, index, time_ms).is_some() => return time_ms,
                Some(_) => time_ms += self.step_ms,
                None => {
                    let rest = SLOTS_PER_PAGE - index % SLOTS_PER_PAGE;
                    time_ms += rest.cast_signed() * self.step_ms;
                }
            }
        }
        to_ms
    }

    /// Messages in the slots of `[from_ms, to_ms)`; the whole wheel without an end.
    #[must_use]
    pub fn count(&self, from_ms: i64, to_ms: Option<i64>) -> i64 {
        let (from, to) = (
            from_ms / self.step_ms,
            to_ms.map_or(i64::MAX, |to| to / self.step_ms),
        );
        let pages = self.pages.lock();
        let slots = pages
            .values()
            .flat_map(|page| page.bytes.chunks_exact(SLOT_BYTES));
        slots
            .filter(|slot| (from.max(1)..to).contains(&long(slot, 0)))
            .map(|slot| i64::from(int(slot, 24)))
            .sum()
    }

    /// First positions of the slots from `read_ms` on whose last lies at or behind `log_end`.
    pub(super) fn first_beyond(&self, read_ms: i64, log_end: i64) -> Option<i64> {
        let from = read_ms / self.step_ms;
        let pages = self.pages.lock();
        let slots = pages
            .values()
            .flat_map(|page| page.bytes.chunks_exact(SLOT_BYTES));
        slots
            .filter(|slot| long(slot, 0) >= from.max(1) && long(slot, 16) >= log_end)
            .map(|slot| long(slot, 8))
            .min()
    }

    /// Empties the slots from `read_ms` on whose last unit lies at or behind `log_end`; the log is
    /// about to give what they hold.
    pub(super) fn clear_beyond(&self, read_ms: i64, log_end: i64) {
        let from = read_ms / self.step_ms;
        for page in self.pages.lock().values_mut() {
            for slot in page.bytes.chunks_exact_mut(SLOT_BYTES) {
                if long(slot, 0) >= from.max(1) && long(slot, 16) >= log_end {
                    slot.fill(0);
                    page.is_dirty = true;
                }
            }
        }
    }

    /// Writes what changed, and lets pages go whose slots are all before `read_ms`.
    ///
    /// # Durability
    /// On return it survives power loss.
    ///
    /// # Errors
    /// [`Error::Io`]; a later call writes it again.
    ///
    /// # Blocking
    /// Until the device has answered.
    pub(super) fn flush(&self, read_ms: i64) -> Result<()> {
        let mut dirty = Vec::new();
        for (number, page) in self.pages.lock().iter_mut() {
            if std::mem::take(&mut page.is_dirty) {
                dirty.push((*number, page.bytes.clone()));
            }
        }
        let written = self.write(&mut dirty);
        let mut pages = self.pages.lock();
        if let Err(error) = written {
            for (number, _bytes) in &dirty {
                if let Some(page) = pages.get_mut(number) {
                    page.is_dirty = true;
                }
            }
            return Err(error);
        }
        pages.retain(|_number, page| page.is_dirty || self.is_live(&page.bytes[..], read_ms));
        Ok(())
    }

    fn write(&self, dirty: &mut [(u64, Box<[u8; PAGE]>)]) -> Result<()> {
        if dirty.is_empty() && self.is_synced.load(Ordering::Relaxed) {
            return Ok(());
        }
        dirty.sort_unstable_by_key(|(number, _)| *number);
        for (number, bytes) in dirty.iter() {
            self.file.write_at(&bytes[..], number * PAGE_BYTES)?;
        }
        self.file.sync_data()?;
        self.is_synced.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Bytes of the pages in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.pages.lock().len() as u64 * PAGE_BYTES
    }

    /// Where the file lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn long(bytes: &[u8], at: usize) -> i64 {
    let field = bytes
        .get(at..at + 8)
        .and_then(|field| field.try_into().ok());
    field.map_or(0, i64::from_be_bytes)
}

fn int(bytes: &[u8], at: usize) -> i32 {
    let field = bytes
        .get(at..at + 4)
        .and_then(|field| field.try_into().ok());
    field.map_or(0, i32::from_be_bytes)
}
