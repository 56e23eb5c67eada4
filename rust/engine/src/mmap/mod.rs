//! Mapped memory, and the only place of the engine that touches raw pointers. Knows no record, no
//! file name and no thread. Anyone may call it from any thread.
//!
//! Invariants, cited by the SAFETY notes:
//! - I1 one writer at a time: while a [`Reservation`] lives (`writing`) there is no other. Zeros that
//!   come through the file ahead of it are claimed, and never where one is or was.
//! - I2 a byte is written before it is published and never after: a reservation starts at or above
//!   the published position, and [`Map::slice`] ends at or below it. Of a [`Map::window`] only what
//!   is published in the log is asked for.
//! - I3 positions are checked against the length of the map before a pointer is made.
//! - I4 a mapped file is never shortened while it is mapped, and only the holder of the store's lock
//!   writes it: the chain removes a name first, and gives bytes back when the last map is gone.
//! - I5 the cells of a [`Cells`] are atomics and nothing else; no slice of them is ever made.
//! - I6 memory of the heap is zeroed when made, aligned for a cell, owned and freed by one map.

//! - I7 pages are taken out of the page tables only where a file lies under the map, shared: the page
//!   cache keeps their bytes, and the next touch finds them there. Pages that belong to no file
//!   would come back as zeros.

#![expect(unsafe_code, reason = "the one home of mapped memory: I1 to I7")]

mod pages;
mod reservation;
mod uses;

use std::alloc::Layout;
use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};

pub use reservation::Reservation;
pub use uses::Use;

/// Bytes that the processor fetches at once.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE_BYTES: u64 = 64;

/// What lies under a map.
#[derive(Debug)]
enum Memory {
    /// A shared map of a file.
    File(MmapRaw),
    /// Mapped, and of no file.
    Anonymous(MmapRaw),
    Heap(HeapBytes),
}

impl Memory {
    #[inline]
    fn as_mut_ptr(&self) -> *mut u8 {
        match self {
            Self::File(raw) | Self::Anonymous(raw) => raw.as_mut_ptr(),
            Self::Heap(heap) => heap.start.as_ptr(),
        }
    }

    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::File(raw) | Self::Anonymous(raw) => raw.len(),
            Self::Heap(heap) => heap.len,
        }
    }

    /// The mapping, where there is one: advice and locks mean nothing to the heap.
    fn mapped(&self) -> Option<&MmapRaw> {
        match self {
            Self::File(raw) | Self::Anonymous(raw) => Some(raw),
            Self::Heap(_) => None,
        }
    }

    /// The mapping, where a file lies under it.
    fn of_file(&self) -> Option<&MmapRaw> {
        match self {
            Self::File(raw) => Some(raw),
            Self::Anonymous(_) | Self::Heap(_) => None,
        }
    }

    fn advise(&self, advice: Advice) -> io::Result<()> {
        self.mapped().map_or(Ok(()), |raw| raw.advise(advice))
    }

    fn advise_range(&self, advice: Advice, position: usize, len: usize) -> io::Result<()> {
        self.mapped()
            .map_or(Ok(()), |raw| raw.advise_range(advice, position, len))
    }
}

/// Zeroed bytes of the heap: a map without a system call.
#[derive(Debug)]
struct HeapBytes {
    start: NonNull<u8>,
    len: usize,
    layout: Layout,
}

// SAFETY: I6: the bytes are owned; who touches them is ruled by I1, I2 and I5 as for mapped ones.
unsafe impl Send for HeapBytes {}
// SAFETY: as above.
unsafe impl Sync for HeapBytes {}

impl HeapBytes {
    /// Enough for a cell, and what the allocator gives without a detour.
    const ALIGN_BYTES: usize = 16;

    fn zeroed(len: usize) -> io::Result<Self> {
        let layout = Layout::from_size_align(len.max(Self::ALIGN_BYTES), Self::ALIGN_BYTES)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: the layout is not empty.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        let start = NonNull::new(start).ok_or(io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { start, len, layout })
    }
}

impl Drop for HeapBytes {
    fn drop(&mut self) {
        // SAFETY: I6: made by `zeroed` with this layout, given back once.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Bytes that are written once, front to back, and read below the published position.
#[derive(Debug)]
pub struct Map {
    raw: Memory,
    is_writable: bool,
    published: AtomicU64,
    writing: AtomicBool,
}

impl Map {
    /// Maps the first `len_bytes` of `file` for writing.
    ///
    /// # Errors
    /// The system's, when the mapping is refused.
    pub fn writable(file: &File, len_bytes: u64) -> io::Result<Self> {
        let raw = MmapOptions::new().len(to_len(len_bytes)?).map_raw(file)?;
        // A child that a careless parent forks must neither write the log nor pin its pages.
        raw.advise(Advice::DontFork)?;
        Ok(Self::over(Memory::File(raw), true))
    }

    /// Maps the first `len_bytes` of `file` for reading; everything counts as published.
    ///
    /// # Errors
    /// The system's, when the mapping is refused.
    pub fn readable(file: &File, len_bytes: u64) -> io::Result<Self> {
        let raw = MmapOptions::new()
            .len(to_len(len_bytes)?)
            .map_raw_read_only(file)?;
        let map = Self::over(Memory::File(raw), false);
        map.published.store(len_bytes, Ordering::Release);
        Ok(map)
    }

    /// Maps `len_bytes` of `file` from `position` (a multiple of the page) on, for reading bytes that
    /// nobody changes any more; everything counts as published.
    ///
    /// # Errors
    /// The system's, when the mapping is refused.
    pub fn window(file: &File, position: u64, len_bytes: u64) -> io::Result<Self> {
        let mut options = MmapOptions::new();
        let raw = options
            .offset(position)
            .len(to_len(len_bytes)?)
            .map_raw_read_only(file)?;
        raw.advise(Advice::DontFork)?;
        let map = Self::over(Memory::File(raw), false);
        map.published.store(len_bytes, Ordering::Release);
        Ok(map)
    }

    /// Memory that belongs to no file: pool buffers, and the maps of the disk's twin.
    ///
    /// # Errors
    /// The system's, when memory is refused.
    pub fn anonymous(len_bytes: u64) -> io::Result<Self> {
        let raw = MmapRaw::from(MmapOptions::new().len(to_len(len_bytes)?).map_anon()?);
        raw.advise(Advice::DontFork)?;
        Ok(Self::over(Memory::Anonymous(raw), true))
    }

    /// Zeroed bytes of the heap: small maps of the disk's twin, which makes them by the million.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn heap(len_bytes: u64) -> io::Result<Self> {
        let heap = HeapBytes::zeroed(to_len(len_bytes)?)?;
        Ok(Self::over(Memory::Heap(heap), true))
    }

    fn over(raw: Memory, is_writable: bool) -> Self {
        Self {
            raw,
            is_writable,
            published: AtomicU64::new(0),
            writing: AtomicBool::new(false),
        }
    }

    /// Length of the map.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.raw.len() as u64
    }

    /// Bytes below this may be read and never change.
    #[must_use]
    pub fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Raises the published position to `position`: the bytes below it came through the file (a
    /// recovered log, a pool buffer written out). Never lowers it.
    pub fn publish_through(&self, position: u64) {
        let end = position.min(self.len_bytes());
        self.published.fetch_max(end, Ordering::AcqRel);
    }

    /// Starts over with an empty map: a pool buffer that goes to its next file. Needs the only
    /// reference, so no slice of it can live.
    pub fn reset(&mut self) {
        *self.published.get_mut() = 0;
    }

    /// The bytes `[position, position + len)` to be written, or `None` when the map is read-only,
    /// the range is not above the published position, does not fit, or another writer is at it.
    #[must_use]
    pub fn reserve(&self, position: u64, len: usize) -> Option<Reservation<'_>> {
        let end = position.checked_add(len as u64)?;
        if !self.is_writable || end > self.len_bytes() || self.writing.swap(true, Ordering::Acquire)
        {
            return None;
        }
        if position < self.published.load(Ordering::Relaxed) {
            self.writing.store(false, Ordering::Release);
            return None;
        }
        // SAFETY: I3: position + len was checked against the length of the map.
        let start = unsafe { self.raw.as_mut_ptr().add(position as usize) };
        // SAFETY: I1 (`writing` was free and is ours), I2 (the range is not below the published
        // position, so no slice of it exists); mapped memory is initialised.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start, len) };
        Some(Reservation {
            map: self,
            bytes,
            end,
        })
    }

    /// The published bytes `[position, position + len)`; `None` when they are not all published.
    ///
    /// # Blocking
    /// A page that is not in memory is read from the disk when it is touched.
    #[must_use]
    pub fn slice(&self, position: u64, len: usize) -> Option<&[u8]> {
        let end = position.checked_add(len as u64)?;
        if end > self.published() {
            return None;
        }
        // SAFETY: I3: end <= published <= length of the map.
        let start = unsafe { self.raw.as_mut_ptr().add(position as usize) };
        // SAFETY: I2: bytes below the published position never change.
        Some(unsafe { std::slice::from_raw_parts(start, len) })
    }

    /// Announces to the processor that a range will be written next: its cache lines are fetched while
    /// other work goes on. Without it the unlock after a record waits for them. Changes nothing.
    #[inline]
    pub fn expect_write(&self, position: u64, len: usize) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            let end = position.saturating_add(len as u64).min(self.len_bytes());
            let mut at = position - position % CACHE_LINE_BYTES;
            while at < end {
                // SAFETY: I3: `at` is below the length of the map.
                let line = unsafe { self.raw.as_mut_ptr().add(at as usize) };
                // SAFETY: a prefetch reads and writes nothing that can be seen.
                unsafe { _mm_prefetch::<_MM_HINT_ET0>(line.cast_const().cast()) };
                at += CACHE_LINE_BYTES;
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _unused = (position, len);
    }

    /// Takes the whole pages of a range out of this process's page tables. Their bytes stay in the
    /// page cache, dirty ones dirty; the next touch finds them there. Nothing where no file lies
    /// under the map.
    ///
    /// # Errors
    /// The system's; `EINVAL` where the map is locked in memory.
    pub fn release(&self, position: u64, len_bytes: u64) -> io::Result<()> {
        let page = machine_page_bytes();
        let (Some(raw), Some((position, len))) =
            (self.raw.of_file(), self.clamp(position, len_bytes))
        else {
            return Ok(());
        };
        let (from, end) = (position.next_multiple_of(page), position + len);
        let len = (end - end % page).saturating_sub(from);
        if len == 0 {
            return Ok(());
        }
        // SAFETY: I7: a shared map of a file. What slices (I2) and reservations (I1) point at stays
        // mapped and keeps its bytes: only the way to the page is looked up again.
        unsafe { raw.unchecked_advise_range(UncheckedAdvice::DontNeed, from, len) }
    }

    /// Pages of the range that are in memory (`mincore`): for reports only.
    ///
    /// # Errors
    /// The system's.
    pub fn resident_pages(&self, position: u64, len_bytes: u64) -> io::Result<u64> {
        let Some((position, len)) = self.clamp(position, len_bytes) else {
            return Ok(0);
        };
        let page = machine_page_bytes();
        if self.raw.mapped().is_none() {
            return Ok(len.div_ceil(page) as u64);
        }
        let start = position - position % page;
        let len = len + (position - start);
        let mut states = vec![0u8; len.div_ceil(page)];
        // SAFETY: I3: clamped to the map; start is a multiple of the page.
        let address = unsafe { self.raw.as_mut_ptr().add(start) };
        // SAFETY: the kernel writes one byte per page of the range: `states` has that many.
        let done = unsafe { libc::mincore(address.cast(), len, states.as_mut_ptr()) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(states.iter().filter(|state| **state & 1 == 1).count() as u64)
    }

    fn clamp(&self, position: u64, len_bytes: u64) -> Option<(usize, usize)> {
        let end = position.saturating_add(len_bytes).min(self.len_bytes());
        (position < end).then(|| (position as usize, (end - position) as usize))
    }
}

/// A mapped file of big-endian 32-bit cells that change in place: headers, hash slots, entries.
#[derive(Debug)]
pub struct Cells {
    raw: Memory,
    is_writable: bool,
}

impl Cells {
    /// Maps the first `len_bytes` of `file`, for reading alone where it is not to be written.
    ///
    /// # Errors
    /// The system's, when the mapping is refused.
    pub fn of_file(file: &File, len_bytes: u64, is_writable: bool) -> io::Result<Self> {
        let len = to_len(len_bytes)?;
        let raw = match is_writable {
            true => MmapOptions::new().len(len).map_raw(file)?,
            false => MmapOptions::new().len(len).map_raw_read_only(file)?,
        };
        raw.advise(Advice::DontFork)?;
        Ok(Self::over(Memory::File(raw), is_writable))
    }

    /// Cells that belong to no file: the twin's.
    ///
    /// # Errors
    /// The system's, when memory is refused.
    pub fn anonymous(len_bytes: u64) -> io::Result<Self> {
        let raw = MmapRaw::from(MmapOptions::new().len(to_len(len_bytes)?).map_anon()?);
        Ok(Self::over(Memory::Anonymous(raw), true))
    }

    /// Cells on the heap: see [`Map::heap`].
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn heap(len_bytes: u64) -> io::Result<Self> {
        let heap = HeapBytes::zeroed(to_len(len_bytes)?)?;
        Ok(Self::over(Memory::Heap(heap), true))
    }

    fn over(raw: Memory, is_writable: bool) -> Self {
        Self { raw, is_writable }
    }

    /// Length of the map.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.raw.len() as u64
    }

    fn cell(&self, position: u64) -> Option<&AtomicU32> {
        if !position.is_multiple_of(4) || position.checked_add(4)? > self.len_bytes() {
            return None;
        }
        // SAFETY: I3: position + 4 was checked against the length of the map.
        let at = unsafe { self.raw.as_mut_ptr().add(position as usize) }.cast::<u32>();
        // SAFETY: I5; the map starts at a page and position is a multiple of 4, so the cell is
        // aligned; it lives as long as the map.
        Some(unsafe { AtomicU32::from_ptr(at) })
    }

    /// The cell at `position` (a multiple of 4 inside the map), or 0 outside of it.
    #[must_use]
    pub fn load(&self, position: u64) -> u32 {
        self.cell(position)
            .map_or(0, |cell| u32::from_be(cell.load(Ordering::Acquire)))
    }

    /// Sets the cell at `position`; false when there is no such cell, or none may be set.
    pub fn store(&self, position: u64, value: u32) -> bool {
        let cell = self.cell(position).filter(|_| self.is_writable);
        cell.is_some_and(|cell| {
            cell.store(value.to_be(), Ordering::Release);
            true
        })
    }

    /// Advises the kernel what the cells will be used for.
    ///
    /// # Errors
    /// The system's.
    pub fn advise(&self, use_: Use) -> io::Result<()> {
        self.raw.advise(use_.advice())
    }
}

fn to_len(len_bytes: u64) -> io::Result<usize> {
    usize::try_from(len_bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

fn machine_page_bytes() -> usize {
    // SAFETY: no argument is a pointer.
    let answer = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(answer).unwrap_or(4096)
}

#[cfg(test)]
mod tests;
